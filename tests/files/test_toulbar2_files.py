"""toulbar2's global cost functions against their definitions in plain Python and against toulbar2 itself; its relaxed ``.cfn``."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from files.file_samples import outcome
from files.global_cases import KINDS, TOP, case, text
from files.toulbar2_runs import optima
from reference.enumeration import every_labelling

import maxsum as ms
from maxsum.core.factors import AllDifferent, Cardinality, Linear, SparseTable
from maxsum.core.files import holds_costs, read_problem


def forbidden(cost):
    return math.inf if cost >= TOP else cost


@pytest.mark.parametrize("kind", KINDS)
def test_a_global_cost_function_costs_what_its_definition_says(tmp_path, kind):
    rng = random.Random(kind)
    for _ in range(25):
        domains, scope, words, cost = case(rng, kind)
        written, unary = text(rng, domains, scope, words)
        problem = outcome(tmp_path / "p.wcsp", written)
        for y in every_labelling(problem).tolist():
            wanted = forbidden(cost([y[v] for v in scope])) + sum(row[k] for row, k in zip(unary, y, strict=True))
            found = -problem.score(y)
            # a sum over values that exceeds the bound only as a sum is left to whoever adds up all costs
            assert found == wanted or (found >= TOP and wanted == math.inf), (words, y)


def test_toulbar2_finds_the_same_optima(tmp_path):
    rng, paths, wanted = random.Random(1), [], []
    for kind in KINDS:
        for _ in range(4):
            domains, scope, words = case(rng, kind)[:3]
            if kind in ("clique", "knapsackc") and len(scope) < 4:
                continue  # toulbar2 1.4 drops these two where they have three variables
            path = tmp_path / f"{len(paths)}.wcsp"
            path.write_text(text(rng, domains, scope, words)[0])
            problem = read_problem(path)
            paths.append(path)
            best = -max(map(problem.score, every_labelling(problem)))
            wanted.append(best if best < TOP else math.inf)
    assert [cost for _, cost in optima(paths)] == wanted
    assert len(paths) > 90
    assert 0 < sum(map(math.isinf, wanted)) < len(wanted) / 2


@pytest.mark.parametrize(
    ("words", "functions"),
    [
        ("salldiff var 1000", [AllDifferent]),
        ("salldiff dec 1000", [AllDifferent]),
        ("salldiff var 5", [Cardinality] * 3),
        ("salldiff decbi 5", []),
        ("wgcc hard 1000 2 0 0 1 2 1 4", [Cardinality] * 2),
        ("wsum hard 1000 <= 4", [Linear]),
        ("wsum lin 5 <= 4", ["Table"]),
        ("knapsackp 3 1 1 4 1 1 2 0 1 2 9", [Linear]),
    ],
)
def test_what_global_cost_functions_become(tmp_path, words, functions):
    problem = outcome(tmp_path / "p.wcsp", f"p 4 3 1 1000\n3 3 3 3\n4 0 1 2 3 -1 {words}\n")
    found = [type(function).__name__ for _, function in problem.factors.items()]
    assert found == [getattr(one, "__name__", one) for one in functions]
    assert problem.n_edges == (6 if "decbi" in words else 0)


def test_large_functions_keep_their_lists(tmp_path):
    n = 20
    scope = " ".join(map(str, range(n)))
    rows = "\n".join(" ".join(map(str, [(i >> b) & 1 for b in range(n)])) + f" {i}" for i in range(1, 6))
    head = f"p {n + 2} 2 2 1000\n" + "2 " * (n + 2)
    problem = outcome(tmp_path / "p.wcsp", f"{head}\n{n} {scope} 7 5\n{rows}\n-{n} {scope} 7 5\n{rows}\n")
    (nodes, first), (_, second) = problem.factors.items()
    assert isinstance(first, SparseTable)
    assert first is second
    assert len(nodes) == n
    y = np.zeros(n + 2, dtype=int)
    assert problem.score(y) == -14
    y[[0, 2]] = 1
    assert problem.score(y) == -10
    text = '{"problem": {"mustbe": "<100"}, "variables": [%s], "functions": {"f": {"scope": [%s], "defaultcost": 2, "costs": [%s, 5]}}}'
    values = ", ".join(["2"] * n), ", ".join(map(str, range(n))), ", ".join(["1"] * n)
    problem = outcome(tmp_path / "p.cfn", text % values)
    assert isinstance(problem.factors.functions[0], SparseTable)
    assert (problem.score(np.ones(n, dtype=int)), problem.score(np.zeros(n, dtype=int))) == (-5, -2)


# ---- cfn ---------------------------------------------------------------------------------------------------------------

CFN = """{"problem": {"name": "p", "mustbe": "<100.00"},
"variables": {"a": ["p", "q", "r"], "b": 3, "c": 3, "d": 2},
"functions": {
"t": {"scope": ["a", "b", "d"], "costs": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, -1.5]},
"s": {"scope": ["c", "a", "b"], "defaultcost": 0.25, "costs": [0, "q", 2, 200, 1, "r", 1, -2]},
"u": {"scope": ["c"], "costs": [0.5, 0.25, 1]},
"g": GLOBAL
}}
"""
GLOBALS = {
    "salldiff": ('"metric": "var", "cost": 0.7', lambda a, b, c, d: 0.7 * (4 - len({a, b, c, d}))),
    "walldiff": ('"metric": "quad", "cost": 2', lambda *y: 2.0 * sum((y.count(k) - 1) ** 2 for k in set(y))),
    "sgcc": ('"metric": "dec", "cost": 0.5, "bounds": [[0, 1, 2], [1, 2, 3]]', lambda *y: 0.5 * (gap(y, 0, 1, 2) + gap(y, 1, 2, 3))),
    "wamong": ('"metric": "lin", "cost": 0.5, "values": [1, 2], "min": 1, "max": 1', lambda *y: 0.5 * abs(sum(k > 0 for k in y) - 1)),
    "wsum": ('"metric": "lin", "cost": 1.5, "comparator": "==", "to": 3', lambda *y: 1.5 * abs(sum(y) - 3)),
    "wvarsum": ('"metric": "hard", "cost": 200, "comparator": ">="', lambda *y: 0 if sum(y[:3]) >= y[3] else math.inf),
    "knapsack": ('"capacity": 5, "weights": [2, 3, 4, 5]', lambda *y: 0 if 2 * (y[0] == 1) + 3 * (y[1] == 1) + 4 * (y[2] == 1) + 5 * y[3] >= 5 else math.inf),
    "knapsackv": (
        '"capacity": 3, "weightedvalues": [["a", 1, 2], ["d", 0, 1], ["b", 2, 2]]',
        lambda *y: 0 if 2 * (y[0] == 1) + (y[3] == 0) + 2 * (y[1] == 2) >= 3 else math.inf,
    ),
    "clique": ('"rhs": 1, "values": [[1], [2], [0, 1], [1]]', lambda a, b, c, d: 0 if (a == 1) + (b == 2) + (c < 2) + (d == 1) <= 1 else math.inf),
}  # fmt: skip


def gap(y, value, low, high):
    return max(low - y.count(value), 0) + max(y.count(value) - high, 0)


def cfn_cost(kind, y):
    a, b, c, d = y
    cost = np.append(np.arange(1.0, 18), -1.5).reshape(3, 3, 2)[a, b, d] + {(0, 1, 2): math.inf, (1, 2, 1): -2}.get(
        (c, a, b), 0.25
    )
    return cost + [0.5, 0.25, 1][c] + GLOBALS[kind][1](*y)


def cfn_text(kind):
    return CFN.replace("GLOBAL", f'{{"scope": ["a", "b", "c", "d"], "type": "{kind}", "params": {{{GLOBALS[kind][0]}}}}}')


def relaxed(strict):
    """The same file without quotes, commas and colons, with comments."""
    bare = strict.replace('"', "").replace(",", " ").replace(":", " ")
    return "# a comment, {\n" + bare.replace("functions {", "functions { // another one\n")


FORMS = {
    "strict": str,
    "relaxed": relaxed,
    "commas": lambda strict: strict.replace("}\n}}", "},\n},}"),
    "brackets": lambda strict: relaxed(strict).replace("[", "{").replace("]", "}"),
}


@pytest.mark.parametrize("kind", GLOBALS)
@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_cfn_with_factors_costs_what_it_says(tmp_path, kind, form):
    problem = outcome(tmp_path / "p.cfn", form(cfn_text(kind)))
    assert len(problem.factors) >= 3 - (kind == "salldiff" and problem.n_edges > 0)
    for y in every_labelling(problem).tolist():
        assert -problem.score(y) == pytest.approx(cfn_cost(kind, tuple(y)), abs=1e-9)


def test_toulbar2_agrees_on_cfn(tmp_path):
    paths = []
    for kind in GLOBALS:
        for name, form in (("strict", str), ("relaxed", relaxed)):
            paths.append(tmp_path / f"{kind}_{name}.cfn")
            paths[-1].write_text(form(cfn_text(kind)))
    for path, (labels, cost) in zip(paths, optima(paths), strict=True):
        problem = read_problem(path)
        assert cost == pytest.approx(-max(map(problem.score, every_labelling(problem))), abs=1e-6)
        assert -problem.score(labels[:4]) == pytest.approx(cost, abs=1e-6)


def test_cfn_without_names_of_fields(tmp_path):
    text = "{{t <100.00} [[a b] 2 3] {{[0 1] [1 2 3 4]} f {[x] 0.5 [2 7]} {[1 2 0] wsum {hard 100 <= 2}}}}"
    with pytest.raises(ms.ParseError, match=r'names the variable "x"'):
        outcome(tmp_path / "p.cfn", text)
    problem = outcome(tmp_path / "p.cfn", text.replace("[x]", "[2]"))
    assert problem.score([1, 1, 0]) == -4.5
    assert problem.score([0, 0, 2]) == -8
    assert problem.score([1, 1, 1]) == -math.inf


@pytest.mark.parametrize(
    ("head", "costs"), [('"mustbe": "<10"', True), ('"mustbe": ">-10.5"', False), ("mustbe: >0", False), ("x <5", True)]
)
def test_whether_a_cfn_holds_costs(tmp_path, head, costs):
    path = tmp_path / "p.cfn"
    path.write_text(f'{{"problem": {{"name": "a<b", {head}}}, "variables": [], "functions": []}}')
    assert holds_costs(path) is costs
    assert holds_costs("p.wcsp.xz")
    assert holds_costs("p.uai", values="costs")
    assert not holds_costs("p.uai")
    assert not holds_costs("p.npz")
