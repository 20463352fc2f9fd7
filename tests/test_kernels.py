"""Every solver and every learner on small problems, and the border between Python and the kernels.

``python -m benchmarks sanitize`` runs this file, among others, with kernels that check every index and every use of memory.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from contracts.common import ALL, EXACT, check_exact, check_result, solver_of
from reference.families import make

import maxsum as ms
from maxsum import kernels
from maxsum.datasets import make_noisy_blocks
from maxsum.inference.prepare import prepare
from maxsum.kernels import records

FAMILIES = (
    "chain",
    "grid4",
    "complete",
    "forest_with_isolated_nodes",
    "unequal_label_counts",
    "hard_feasible",
    "infeasible_colouring",
    "binary_supermodular",
    "ordered_supermodular",
    "potts",
    "cliques_binary",
    "cliques_three_labels",
    "no_nodes",
    "single_label",
)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ALL)
def test_solvers(name: str, family: str) -> None:
    case, solver = make(family, 1), solver_of(name)
    if not solver.supports(case.problem):
        with pytest.raises(ms.UnsupportedProblemError, match=name):
            solver.solve(case.problem)
        return
    result = solver.solve(case.problem)
    check_result(case, result)
    if name in EXACT:
        check_exact(case, result)


@pytest.mark.parametrize("cliques", [None, [([0, 1, 2, 5], [0.3, 0.0, 0.5]), ([6, 7, 8], [0.2, 0.4, 0.0])]])
def test_expansion_moves(cliques: Any) -> None:
    """Moves alone: message passes would close the gap of a small problem before the first one."""
    unary = np.random.default_rng(0).standard_normal((9, 3))
    problem = ms.Problem(ms.Graph.grid(3, 3), unary, tables=0.6 * np.eye(3), cliques=cliques)
    result = ms.solve(problem, ms.inference.AlphaExpansion(bound=False))
    best = ms.solve(problem, "Exhaustive")
    assert problem.score(unary.argmax(axis=1)) < result.score <= best.score + 1e-9
    for node in range(9):
        for label in range(3):
            other = np.array(result.labels)
            other[node] = label
            assert problem.score(other) <= result.score + 1e-9


X3, Y3 = make_noisy_blocks(3, 3, 4, 3, noise=0.7, random_state=0, block=2)
Y2 = [np.minimum(own, 1) for own in Y3]
WORDS = [x.reshape(-1, 3)[:6] for x in X3], [y.ravel()[:6] for y in Y3]
RANDOM = np.random.default_rng(0)
TABLE = RANDOM.standard_normal((12, 3)), RANDOM.integers(2, size=(12, 4))

TRAININGS: dict[str, tuple[type[Any], Any, Any, dict[str, Any]]] = {
    "margin": (ms.GridLabeler, X3, Y3, {}),
    "margin, cutting planes": (ms.GridLabeler, X3, Y3, {"learner": "CuttingPlane"}),
    "margin, subgradients": (ms.GridLabeler, X3, Y3, {"learner": "Subgradient"}),
    "margin, perceptron": (ms.SequenceLabeler, *WORDS, {"learner": "Perceptron"}),
    "two labels": (ms.GridLabeler, X3, Y2, {"potentials": "supermodular"}),
    "three ordered labels": (ms.GridLabeler, X3, Y3, {"potentials": "supermodular"}),
    "associative": (ms.GridLabeler, X3, Y3, {"potentials": "associative"}),
    "potts": (ms.GridLabeler, X3, Y3, {"potentials": "potts", "oracle": "AlphaExpansion"}),
    "lp": (ms.GridLabeler, X3, Y3, {"surrogate": "lp"}),
    "lp, proximal points": (ms.GridLabeler, X3, Y3, {"surrogate": "lp", "learner": "ProximalPoint"}),
    "lp, smoothed": (ms.GridLabeler, X3, Y3, {"surrogate": "lp", "smoothing": 0.5, "learner": "SmoothedLP"}),
    "lp, one program": (ms.GridLabeler, X3, Y3, {"surrogate": "lp", "learner": "CompactQP"}),
    "trivial": (ms.GridLabeler, X3, Y3, {"surrogate": "trivial"}),
    "qp": (ms.GridLabeler, X3, Y3, {"surrogate": "qp"}),
    "logistic": (ms.GridLabeler, X3, Y3, {"surrogate": "logistic"}),
    "trivial, perceptron": (ms.GridLabeler, X3, Y3, {"surrogate": "trivial", "learner": "Perceptron"}),
    "supermodular perceptron": (ms.GridLabeler, X3, Y2, {"potentials": "supermodular", "learner": "Perceptron"}),
    "likelihood": (ms.SequenceLabeler, *WORDS, {"surrogate": "likelihood"}),
    "sequences": (ms.SequenceLabeler, *WORDS, {}),
    "second order": (ms.SequenceLabeler, *WORDS, {"order": 2}),
    "many labels": (ms.MultiLabelClassifier, *TABLE, {}),
    "many labels on a tree": (ms.MultiLabelClassifier, *TABLE, {"label_graph": "tree"}),
}


@pytest.mark.parametrize("training", TRAININGS)
def test_trainings(training: str) -> None:
    estimator, X, y, options = TRAININGS[training]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = estimator(C=1.0, max_iter=3, **options).fit(X, y)
    assert np.isfinite(net.weights_).all()
    assert net.result_.lower_bound <= net.result_.objective * (1 + 1e-9)
    if net.result_.certificate is not None:
        found = net.result_.verify(net.objective_)
        assert found.objective <= net.result_.objective * (1 + 1e-6)
    predicted = net.predict(X)
    assert all(np.shape(own) == np.shape(true) for own, true in zip(predicted, y, strict=True))
    assert np.isin(np.concatenate([np.ravel(own) for own in predicted]), np.concatenate([np.ravel(own) for own in y])).all()


def test_records_have_the_same_fields_on_both_sides():
    """A record is read by position, so an exchanged field would be read as another one of its type."""
    found = set()
    for module in vars(kernels).values():
        for name, fields in vars(module).items() if isinstance(module, ModuleType) else ():
            if name.startswith("fields_of_"):
                assert getattr(records, name.removeprefix("fields_of_"))._fields == fields
                found.add(name.removeprefix("fields_of_"))
    made = {own.__name__ for own in vars(records).values() if isinstance(own, type) and issubclass(own, tuple)}
    assert made - found == {"Forms"} and len(made) > 15  # kernels take the fields of Forms one by one


def test_arrays_are_checked_at_the_border():
    n_states, good = np.full(3, 2, dtype=np.int32), np.zeros((3, 2))
    kernels.simplex.project(good, n_states, good.copy())
    frozen = good.copy()
    frozen.flags.writeable = False
    kernels.simplex.project(frozen, n_states, good.copy())  # read only where it is read
    for bad in (good.astype(np.float32), good[:, 0], np.zeros((2, 3)).T, good.tolist(), None):
        with pytest.raises(TypeError):
            kernels.simplex.project(bad, n_states, good)
    with pytest.raises(TypeError):
        kernels.simplex.project(good, n_states, frozen)
    with pytest.raises(TypeError):
        kernels.simplex.project(good, n_states.astype(np.int64), good)


def test_scores_of_a_box_are_written_where_they_may_be():
    """``restrict`` writes into its first argument alone, and says where it cannot."""
    base, domain = RANDOM.standard_normal((3, 2)), np.array([[1, 0], [1, 1], [0, 1]], dtype=np.uint8)
    unary, before = np.zeros((3, 2)), base.copy()
    kernels.search.restrict(unary, base, domain)
    np.testing.assert_array_equal(unary, np.where(domain, base, -np.inf))
    np.testing.assert_array_equal(base, before)
    unary.flags.writeable = False
    with pytest.raises(TypeError):
        kernels.search.restrict(unary, base, domain)
    for bad in (np.zeros((2, 2)), np.zeros((3, 3)), base):
        with pytest.raises(ValueError, match="unary"):
            kernels.search.restrict(bad, base, domain)


@pytest.mark.skipif(kernels.variant == "baseline", reason="this processor, or this build, has the baseline alone")
def test_the_baseline_gives_the_same_bits():
    """Processors without AVX2 get another build of the same sources; no sum is regrouped in either."""
    code = (
        "import hashlib, numpy as np, maxsum as ms\n"
        "from maxsum import kernels\n"
        "rng = np.random.default_rng(0)\n"
        "p = ms.Problem(ms.Graph.grid(12, 13), rng.normal(size=(156, 5)), rng.normal(size=(5, 5)))\n"
        "r = ms.solve(p, ms.inference.TRWS(max_iter=20))\n"
        "net = ms.SequenceLabeler().fit(rng.normal(size=(9, 6, 4)), rng.integers(0, 3, size=(9, 6)))\n"
        "print(kernels.variant, hashlib.sha256(r.messages.edge.tobytes() + net.weights_.tobytes()).hexdigest())\n"
    )
    said = []
    for cpu in ("", "baseline"):
        environment = {**os.environ, "MAXSUM_CPU": cpu}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        said.append(done.stdout.split())
    assert [own[0] for own in said] == ["x86-64-v3", "baseline"]
    assert said[0][1] == said[1][1]


@pytest.mark.skipif("MAXSUM_KERNELS" in os.environ, reason="other kernels are in use already")
def test_kernels_of_another_folder_are_loaded_from_there_or_not_at_all(tmp_path: Path) -> None:
    """Also from an editable installation: else what checks memory (``python -m benchmarks sanitize``) would check nothing."""
    code = "from maxsum import kernels; print(kernels._library.__file__)"

    def load() -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "MAXSUM_KERNELS": str(tmp_path), "MAXSUM_CPU": "baseline"}
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)

    assert f"{str(tmp_path)!r}, where there is no _compiled" in load().stderr
    own = Path(str(sys.modules["maxsum.kernels._compiled"].__file__))
    shutil.copy(own, tmp_path)
    assert load().stdout.strip() == str(tmp_path / own.name)


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer ends the process where memory is not there")
def test_memory_that_is_not_there():
    """More than any machine has; what is asked for by real data is checked before (`core.memory`)."""
    with pytest.raises(MemoryError):
        kernels.net.adjacency(10**15, np.zeros((0, 2), dtype=np.int32))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timer that sends a signal")
def test_ctrl_c_ends_a_long_kernel():
    """A trillion moves would take weeks."""
    net = prepare(ms.Problem(ms.Graph.grid(9, 9), np.zeros((81, 3)), np.eye(3))).net
    labels, best, level = np.zeros(81, dtype=np.int32), np.zeros(81, dtype=np.int32), np.zeros(1)
    work = (*np.zeros((4, 81), dtype=np.int32), np.zeros(81, dtype=np.int64), np.zeros((81, 3)), np.zeros(3))
    seed, noise = np.array([1], dtype=np.uint64), np.zeros(2**16)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            kernels.local_search.forest_moves(net, 10**12, 0.0, 1.0, noise, seed, labels, best, level, work)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_signatures_are_those_of_the_extension():
    """``tools/build/stubs.py`` writes them."""
    pytest.importorskip("nanobind.stubgen", reason="nanobind, which reads the signatures, is not installed")
    path = Path(__file__).parents[1] / "tools" / "build" / "stubs.py"
    spec = importlib.util.spec_from_file_location("stubs", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for name, text in made.stubs().items():
        assert (made.HOME / f"{name}.pyi").read_text() == text, f"{name}.pyi is not up to date"
