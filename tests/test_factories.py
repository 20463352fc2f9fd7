"""What several tests draw from is written once."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from factories.problems import associative, random_case, supermodular

import maxsum as ms

TESTS = Path(__file__).parent


def test_no_helper_is_written_twice():
    found = defaultdict(list)
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
                told = ast.get_docstring(node) is not None
                body = ast.dump(ast.Module(node.body[told:], []))
                if len(body) > 300:
                    found[body].append(f"{path.relative_to(TESTS)}: {node.name}")
    assert len(found) > 300
    assert not [names for names in found.values() if len(names) > 1]


def test_imports_name_the_folder():
    """``from reference.families import make``: not by way of the root, not relative, not as if the folder were on the path."""
    own = {path.stem for path in TESTS.rglob("*.py") if path.parent != TESTS}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                first = (node.module or "").split(".")[0]
                assert node.level == 0 and first != "tests" and first not in own, (
                    f"{path.relative_to(TESTS)}, line {node.lineno}"
                )


@pytest.mark.parametrize("seed", range(5))
def test_random_cases_are_what_was_asked_for(seed):
    problem, raw = random_case(
        seed, (3, 6), 3, density=0.9, unequal=True, hard=0.3, weights=(1.0, 2.0), cliques=(2,), offset=1.5
    )
    assert problem.n_states.max() == 3 and len(problem.cliques) == 1 and 3 <= problem.n_nodes < 6
    assert all(problem.score(y) == pytest.approx(float(s)) for y, s in zip(raw.labellings, raw.scores, strict=True))
    again = random_case(np.random.default_rng(seed), (3, 6), 3, density=0.9, unequal=True, hard=0.3)[0]
    assert (again.unary == problem.unary).all()
    for table in (associative, supermodular):
        other, _ = random_case(seed, 5, 2, table=table, forbidden=0.4)
        assert ms.inference.MaxFlow().supports(other) and (other.unary > -np.inf).any(axis=1).all()
    assert random_case(seed, 5, 3, shared=True)[0].tables.shape[0] <= 1
