"""Planes, ascents on them, perceptron steps and small dense algebra: C++ gives the same bits as numba, on what real runs pass and on random arrays."""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import numpy as np
import pytest
from models.test_models import CASES, bound_of, joint_bound
from scipy import sparse

import maxsum as ms
from maxsum.kernels import _compiled_v3 as compiled
from maxsum.kernels import cholesky, cone, definite, eigen, limited_memory, perceptron, planes, subset_ascent, vectors
from maxsum.learning import BlockFrankWolfe, MarginObjective, Perceptron, TrivialObjective
from maxsum.learning.dual.planes import PlaneStore
from maxsum.models import GraphModel, GraphSample

PLANES = "maxsum.learning.dual.planes"
CALLERS = {
    "cached_passes": PLANES, "rebuild": PLANES, "copy_planes": PLANES, "drop": PLANES, "entries": PLANES, "insert_all": PLANES,
    "insert_vector": PLANES, "drop_all": "maxsum.shards.state", "values": "maxsum.learning.objectives.margin",
    "largest_difference": "maxsum.learning.objectives.margin", "enter_cone": "maxsum.learning.learners.perceptron",
    "margin_pass": "maxsum.learning.learners.perceptron", "products": "maxsum.learning.learners.perceptron",
    "trivial_check": "maxsum.learning.objectives.trivial", "trivial_sweeps": "maxsum.learning.objectives.trivial",
    "project_duals": "maxsum.kernels.cone", "raise_corners": "maxsum.kernels.cone",
}  # fmt: skip


def clone(value: Any, memory: dict[int, Any]) -> Any:
    """A copy in which arrays that share memory share it still: ``value`` of `Weights` may be ``plain``, and ``phi`` is a part of ``w``."""
    if isinstance(value, tuple):
        parts = [clone(part, memory) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not isinstance(value, np.ndarray):
        return value
    base = value
    while isinstance(base.base, np.ndarray):
        base = base.base
    if not base.size or not base.flags.c_contiguous:
        return value.copy()
    own = memory.setdefault(id(base), (base.copy(), base))[0]
    offset = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    made: np.ndarray = np.ndarray(value.shape, value.dtype, buffer=own, offset=offset, strides=value.strides)
    made.flags.writeable = value.flags.writeable
    return made


def assert_same(x: Any, y: Any, where: str) -> None:
    if isinstance(x, tuple):
        assert len(x) == len(y), where
        for i, (a, b) in enumerate(zip(x, y, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    elif isinstance(x, np.ndarray):
        assert x.dtype == y.dtype and x.shape == y.shape, where
        np.testing.assert_array_equal(x, y, err_msg=where)
    elif x is not None:
        assert x == y, where


def ours_of(kernel: Any) -> Any:
    return getattr(getattr(compiled, kernel.__module__.rsplit(".", 1)[1]), kernel.__name__)


def check(kernel: Any, *args: Any) -> Any:
    """Both on copies: equal results and equal writes; returns numba's result."""
    first, second = clone(args, {}), clone(args, {})
    x, y = kernel(*first), ours_of(kernel)(*second)
    assert_same(x, y, kernel.__name__)
    assert_same(first, second, kernel.__name__)
    return x


@pytest.fixture
def twins(monkeypatch):
    """Every kernel of `CALLERS` runs twice, in C++ on copies; gives how often each did."""
    calls: Counter[str] = Counter()

    def twin(name, own):
        def both(*args):
            calls[name] += 1
            copies = clone(args, {})
            theirs = ours_of(own)(*copies)
            found = own(*args)
            assert_same(found, theirs, name)
            assert_same(args, copies, name)
            return found

        return both

    for name, module in CALLERS.items():
        caller = importlib.import_module(module)
        monkeypatch.setattr(caller, name, twin(name, getattr(caller, name)))
    return calls


def bound(potentials="general", graph=None, n_labels=3, n=5, n_features=3, edge_width=0, seed=0):
    random, graph = np.random.default_rng(seed), graph or ms.Graph.chain(6)
    samples, labels = [], []
    for _ in range(n):
        y = random.integers(n_labels, size=graph.n_nodes)
        x = random.standard_normal((graph.n_nodes, n_features)) * (random.random((graph.n_nodes, n_features)) < 0.7)
        x[:, 0] += y
        features = random.uniform(0.5, 1.5, (graph.n_edges, edge_width)) if edge_width else None
        samples.append(GraphSample(x, graph, features))
        labels.append(y)
    return GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels))


def test_records_have_the_same_fields():
    for record in (planes.Planes, planes.Weights, planes.Scratch):
        assert getattr(compiled.planes, f"fields_of_{record.__name__}") == record._fields


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative", "potts"])
@pytest.mark.parametrize("n_labels", [2, 5, 12])
def test_planes_of_learners(twins, monkeypatch, explicit, potentials, n_labels):
    monkeypatch.setattr(f"{PLANES}.few_weights", lambda objective: explicit)
    for seed, options in enumerate([{}, {"max_planes": 2}, {"corrective": False, "cached_passes": 0}]):
        model = bound(potentials, n_labels=n_labels, edge_width=seed, seed=seed)
        BlockFrankWolfe(max_iter=12, tol=1e-9, regions=False, **options).fit(MarginObjective(model, C=5.0))
    for name in ("cached_passes", "rebuild", "insert_all", "copy_planes", "values", "largest_difference"):
        assert twins[name], name


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("name", [*CASES, "joint"])
def test_planes_of_every_kind_of_model(twins, monkeypatch, name, explicit):
    monkeypatch.setattr(f"{PLANES}.few_weights", lambda objective: explicit)
    model, _ = joint_bound() if name == "joint" else bound_of(name)
    objective = MarginObjective(model, C=3.0)
    random, n, store = np.random.default_rng(0), objective.n_examples, PlaneStore(objective, max_planes=6)
    for _ in range(15):
        keys = [random.integers(0, objective.model.n_labels, size).astype(np.int32) for size in store.sizes]
        store.add(np.arange(n), keys, 5, np.zeros(n))
    store.refresh()
    store.columns()
    store.make_room(np.arange(n))
    check(planes.drop_all, objective.design, store.planes, np.arange(n))
    if explicit:
        for j in range(n):
            new = (store.planes, j, store.sizes[j], random.standard_normal(objective.n_weights), 0.7, -1 - j)
            for _ in range(20):
                check(planes.insert_vector, *new)
                slot = planes.insert_vector(*new)
        assert slot == -2
    assert explicit or twins["entries"]
    assert twins["drop"] and twins["cached_passes"] and twins["rebuild"]


@pytest.mark.parametrize("n_labels", [2, 3])
def test_planes_with_cliques(twins, n_labels):
    random = np.random.default_rng(n_labels)
    graph = ms.Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4)], n_nodes=6)
    samples = [
        GraphSample(
            random.standard_normal((6, 2)), graph, cliques=[[0, 1, 2], [2, 3, 4, 5]], clique_features=random.random((2, 2))
        )
        for _ in range(3)
    ]
    labels = [random.integers(n_labels, size=6) for _ in samples]
    model = GraphModel(potentials="associative").bind(samples, labels, classes=np.arange(n_labels))
    BlockFrankWolfe(max_iter=10, regions=False).fit(MarginObjective(model, C=5.0))
    assert twins["cached_passes"] and twins["insert_all"] and twins["values"]


@pytest.mark.parametrize("n_labels", [1, 2, 5, 7])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("max_steps", [0, 1, 20])
def test_subset_ascent(n_labels, dense, max_steps):
    random, n, d = np.random.default_rng(n_labels), 30, 19
    x = sparse.random(n, d, 0.3, "csr", random_state=0)
    edges = np.array([(a, b) if random.random() < 0.5 else (b, a) for a in range(n_labels) for b in range(a)], dtype=np.int32)
    truth, alpha = random.integers(0, 1 << n_labels, n), np.zeros((n, 1 << n_labels))
    alpha[np.arange(n), truth] = 0.7
    alpha[3] = 0.0
    rows = (x.indptr.astype(np.int64), x.indices.astype(np.int32), x.data)
    state = [
        random.permutation(n), x.toarray() if dense else np.zeros((0, 0)), *rows, np.asarray(x.multiply(x).sum(axis=1)).ravel() + 0.1,
        1.0 - 2.0 * ((truth[:, None] >> np.arange(n_labels)) & 1), edges.reshape(-1, 2), alpha, np.zeros((n_labels, d)),
        np.zeros((len(edges), 2, 2)), np.zeros(n_labels), np.zeros((n_labels, n_labels)), max_steps, np.zeros(n),
    ]  # fmt: skip
    for _ in range(4):
        check(subset_ascent.ascend, *state)
        gain = subset_ascent.ascend(*state)
    assert max_steps == 0 or gain >= 0


@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative", "potts"])
@pytest.mark.parametrize("edge_width", [0, 1, 2])
def test_perceptron(twins, potentials, edge_width):
    for seed, n_labels in enumerate((2, 4)):
        graph = ms.Graph.chain(5) if seed else ms.Graph.grid(2, 3)
        model = bound(potentials, graph, n_labels, edge_width=edge_width, seed=seed)
        Perceptron(max_iter=30).fit(MarginObjective(model))
        objective = TrivialObjective(model)
        Perceptron(max_iter=30).fit(objective)
        objective.check(np.random.default_rng(seed).standard_normal(objective.n_weights))
        w, examples = np.zeros(objective.n_weights), np.arange(objective.n_examples)
        objective.sweeps(w, examples, 50, np.zeros(0))
        objective.sweeps(w, examples, 5, np.zeros(len(w)))
    for name in ("enter_cone", "margin_pass", "products", "trivial_check", "trivial_sweeps"):
        assert twins[name], name


def test_perceptron_of_joint_features_and_other_models(twins):
    for name in ("joint", "tie", "typed edge features", "node types", "symmetric"):
        model, _ = joint_bound() if name == "joint" else bound_of(name)
        Perceptron(max_iter=10).fit(MarginObjective(model))
        Perceptron(max_iter=10).fit(TrivialObjective(model))
    assert twins["margin_pass"] and twins["trivial_sweeps"]


@pytest.mark.parametrize("count", [3, 2.5])
def test_entering_the_cone(count):
    random = np.random.default_rng(0)
    quads = np.array([[0, 4, 1, 3], [1, 5, 2, 4], [3, 7, 4, 6], [4, 8, 5, 7]])
    for _ in range(5):
        w, nonneg = 5 * random.standard_normal(9), (random.random(9) < 0.3).astype(np.uint8)
        check(perceptron.enter_cone, nonneg, quads, 0.5, count, w, random.standard_normal(9))
    check(perceptron.enter_cone, np.zeros(0, dtype=np.uint8), np.zeros((0, 4), dtype=np.int64), 1.0, count, w, np.zeros(9))


@pytest.mark.parametrize("n_labels", [2, 3, 6, 11])
def test_cone(twins, n_labels):
    model = bound("supermodular", n_labels=n_labels, edge_width=2)
    random = np.random.default_rng(n_labels)
    for scale in (1e-3, 1.0, 1e6):
        w = scale * random.standard_normal(model.n_weights)
        model.cone.project(w)
        model.cone.repair(w)
    assert n_labels == 2 or (twins["project_duals"] and twins["raise_corners"])
    for size, width in ((1, 1), (5, 1), (8, 3), (12, 5)):
        rows = random.standard_normal((size, size + 4)) * (
            np.abs(np.subtract.outer(np.arange(size), np.arange(size + 4))) < width // 2 + 1
        )
        gram = rows @ rows.T + 0.1 * np.eye(size)
        band = np.array([[gram[i, i - d] if d <= i else 0.0 for d in range(width)] for i in range(size)])
        for start in (np.zeros((6, size)), np.maximum(random.standard_normal((6, size)), 0)):
            cone.project_duals(band, random.standard_normal((6, size)), start, 40)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 17, 2048, 4101])
def test_long_vectors(n):
    random = np.random.default_rng(n)
    rows, shares, which = random.standard_normal((6, n)), random.standard_normal(6), np.array([5, 0, 3, 3])
    shares[2] = 0.0
    rows.flags.writeable = False
    check(vectors.inner, rows[0], rows[1])
    check(vectors.times, rows, rows[2], np.empty(6))
    check(vectors.combine, rows, shares, np.empty(n))
    check(limited_memory.products, rows, which, np.array([1, 2]), np.empty((4, 2)))
    check(limited_memory.combination, rows, which, shares[:4].copy(), np.empty(n))


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("n_steps", [0, 3, 500])
def test_best_shares(n, n_steps):
    for seed in range(5):
        random = np.random.default_rng(seed)
        square = random.standard_normal((n, 7))
        check(
            limited_memory.best_shares,
            random.standard_normal(n),
            square @ square.T,
            random.dirichlet(np.ones(n)),
            1e-9,
            n_steps,
        )


@pytest.mark.parametrize("n", [0, 1, 3, 31, 32, 33, 70, 131])
def test_cholesky(n):
    random = np.random.default_rng(n)
    square = random.standard_normal((n, n + 3))
    matrix = square @ square.T + 0.01 * np.eye(n)
    assert check(cholesky.cholesky, matrix)
    cholesky.cholesky(matrix)
    check(cholesky.substitute, matrix, random.standard_normal(n))
    if n:
        matrix = square @ square.T
        matrix[n // 2, n // 2] = -1.0
        assert not check(cholesky.cholesky, matrix)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 11, 30])
def test_eigenvalues(n):
    random = np.random.default_rng(n)
    for rank in {0, 1, n // 2, n}:
        square = random.standard_normal((n, rank))
        for matrix in (square @ square.T, np.diag(random.standard_normal(n))):
            check(eigen.inverse_of, matrix, 1e-10, np.empty((n, n)))
    size = n * (n + 1) // 2
    for floor in (-1.0, 0.1, 3.0):
        check(definite.clip_eigenvalues, random.standard_normal(9 * size), size * np.arange(9), n, floor)
    check(definite.clip_eigenvalues, np.zeros(size), np.zeros(1, dtype=np.int64), n, 0.5)
