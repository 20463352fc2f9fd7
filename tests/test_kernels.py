"""Every solver and every learner on problems so small that their kernels may run without the compiler.

``.ci/kernels nojit`` and ``.ci/kernels bounds`` run this file with ``NUMBA_DISABLE_JIT=1`` and ``NUMBA_BOUNDSCHECK=1``: an index
out of range, which is a memory error in a compiled kernel, is an exception there, and coverage sees the lines of the kernels.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
from contracts.common import ALL, EXACT, check_exact, check_result, solver_of
from reference.families import make

import maxsum as ms
from maxsum.datasets import make_noisy_blocks

pytestmark = pytest.mark.filterwarnings(
    "ignore:overflow encountered in scalar multiply"
)  # random bits wrap around, in Python too
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


def test_processes_that_share_a_cache_write_files_of_their_own():
    """numba counts cached signatures; two processes must not take the same number for different ones."""
    from maxsum.kernels import jit

    ms.solve(ms.Problem(ms.Graph.chain(2), np.eye(2), np.eye(2)))
    if not jit.COMPILED or not jit._files:
        pytest.skip("kernels are not cached")
    names = {file._data_name(1) for file, _ in jit._files}
    assert len(names) == len(jit._files) and all(name.endswith(".nbc") for name in names)
    if hasattr(os, "fork"):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, jit._files[0][0]._data_name(1).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 1000).decode() not in names
        os.close(reader)
        os.close(writer)
