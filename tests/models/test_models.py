"""Models: scores are linear in weights, kernels agree with the slow way, cones keep their promises."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from scipy import sparse

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError, NotFittedError
from maxsum.inference import MaxFlow
from maxsum.kernels.design import difference
from maxsum.kernels.planes import largest_difference
from maxsum.losses import Hamming
from maxsum.models import Codes, Cone, Dense, Dicts, GraphModel, GraphSample, Hashed, Kernel
from maxsum.models.joint_model import JointModel

WORDS = ("dog", "cat", "fish")


def graphs(random, typed):
    """A chain, a grid, a graph with an isolated node, a single node."""
    found = [
        ms.Graph.chain(4),
        ms.Graph.grid(2, 3),
        ms.Graph.from_edges([[2, 0], [1, 2], [0, 1]], n_nodes=5),
        ms.Graph.chain(1),
    ]
    if not typed:
        return found
    return [ms.Graph.from_edges(g.edges, g.n_nodes, edge_type=np.arange(g.n_edges) % 2) for g in found]


def observations(kind, random, n):
    if kind == "codes":
        return random.integers(4, size=n)
    if kind == "dicts":
        return [{"word": str(random.choice(WORDS)), "length": float(random.normal())} for _ in range(n)]
    dense = random.normal(size=(n, 3)) * (random.random((n, 3)) < 0.7)
    return sparse.csr_array(dense) if kind == "sparse" else dense


def samples_of(kind="dense", seed=0, typed=False, edge_width=0, node_types=False, one_size=False, positive=False):
    random = np.random.default_rng(seed)
    found = []
    for graph in [ms.Graph.grid(2, 3)] * 3 if one_size else graphs(random, typed):
        features = None if not edge_width else random.normal(size=(graph.n_edges, edge_width))
        features = np.abs(features) if positive and features is not None else features
        types = random.integers(2, size=graph.n_nodes) if node_types else None
        found.append(GraphSample(observations(kind, random, graph.n_nodes), graph, features, types))
    if node_types:
        found[0] = GraphSample(found[0].X, found[0].graph, found[0].edge_features, np.arange(found[0].n_nodes) % 2)
    return found


def labels_of(samples, n_labels=3, seed=1):
    random = np.random.default_rng(seed)
    return [random.integers(n_labels, size=s.n_nodes) for s in samples]


CASES = {
    "codes": ({}, dict(kind="codes")),
    "dense": ({}, {}),
    "sparse": ({}, dict(kind="sparse")),
    "dicts": ({}, dict(kind="dicts")),
    "hashed": (dict(features=Hashed(8)), dict(kind="dicts")),
    "rbf": (dict(features=Kernel("rbf", gamma=0.3)), {}),
    "poly": (dict(features=Kernel("poly", degree=2, basis=4)), {}),
    "own kernel": (dict(features=Kernel(lambda x, b: x @ b.T + 1.0)), {}),
    "precomputed": (dict(features=Kernel("precomputed")), {}),
    "bias": (dict(bias=True), {}),
    "bias sparse": (dict(bias=True), dict(kind="codes")),
    "tie": (dict(tie=[[0, 1, -1], [1, 0, 2], [2, 2, 2]]), {}),
    "edge feature": ({}, dict(edge_width=1)),
    "edge features": ({}, dict(edge_width=3)),
    "edge types": ({}, dict(typed=True)),
    "typed edge features": ({}, dict(typed=True, edge_width=2)),
    "node types": ({}, dict(node_types=True)),
    "inhomogeneous": (dict(homogeneous=False, bias=True), dict(one_size=True)),
    "inhomogeneous edge features": (dict(homogeneous=False), dict(one_size=True, edge_width=2)),
    "symmetric": (dict(symmetric=True), {}),
    "supermodular": (dict(potentials="supermodular"), dict(edge_width=2, positive=True)),
    "supermodular symmetric": (dict(potentials="supermodular", symmetric=True), {}),
    "associative": (dict(potentials="associative"), dict(typed=True)),
    "potts": (dict(potentials="potts"), dict(edge_width=1, positive=True)),
    "everything": (dict(bias=True, symmetric=True), dict(kind="codes", typed=True, edge_width=2, node_types=True)),
}


def bound_of(name):
    parameters, given = CASES[name]
    samples = samples_of(**given)
    return GraphModel(**parameters).bind(samples, labels_of(samples), classes=[0, 1, 2]), samples


def joint_bound():
    """A random joint feature map with 7 weights."""
    samples = samples_of()
    node, edge = (lambda s: _rows(s, 3, 1)), (lambda s: _rows(s, 9, 2))
    return JointModel(node, edge, 7).bind(samples, labels_of(samples), classes=[0, 1, 2]), samples


def _rows(sample, per_item, what):
    count = sample.n_nodes if what == 1 else sample.graph.n_edges
    random = np.random.default_rng([what, sample.n_nodes, sample.graph.n_edges])
    return random.normal(size=(count * per_item, 7)) * (random.random((count * per_item, 7)) < 0.5)


ALL = {name: partial(bound_of, name) for name in CASES} | {"joint": joint_bound}


@pytest.mark.parametrize("name", ALL)
def test_features_are_the_adjoint_of_scores(name):
    bound, samples = ALL[name]()
    random = np.random.default_rng(2)
    w = random.normal(size=bound.n_weights)
    new = bound.problems(w, samples)
    for j, sample in enumerate(samples):
        problem = bound.problem(w, j)
        states = problem.n_states
        for _ in range(5):
            y = random.integers(states)
            assert w @ bound.feature(j, y) == pytest.approx(problem.score(y), rel=1e-12, abs=1e-12)
            assert new[j].score(y) == pytest.approx(problem.score(y), rel=1e-12, abs=1e-12)
        node = random.random((sample.n_nodes, 3)) * (np.arange(3) < states[:, None])
        edge = random.random((sample.graph.n_edges, 3, 3))
        expected = (np.where(node > 0, problem.unary, 0.0) * node).sum() + (problem.edge_scores() * edge).sum()
        assert w @ bound.feature_marginals(j, node, edge) == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_kernel_differences_agree_with_the_slow_way(name):
    bound, samples = ALL[name]()
    truth = np.split(bound.labels, bound.data.node_ptr[1:-1])
    loss = np.concatenate([Hamming().table(y, 3) for y in truth])
    design = bound.design(loss)
    index, value = np.zeros(largest_difference(design), dtype=np.int32), np.zeros(largest_difference(design))
    random = np.random.default_rng(3)
    for j in range(bound.n_examples):
        labels = random.integers(3, size=samples[j].n_nodes).astype(np.int32)
        n, cost = difference(design, j, labels, index, value)
        dense = np.zeros(bound.n_weights)
        np.add.at(dense, index[:n], value[:n])
        expected = bound.feature(j, truth[j]) - bound.feature(j, labels)
        np.testing.assert_allclose(dense, expected, atol=1e-12)
        assert cost == (labels != truth[j]).sum()
        found, z = bound.difference(j, labels)
        assert (np.diff(found) > 0).all()
        np.testing.assert_allclose(z, expected[found])
        assert np.count_nonzero(expected) == len(found)


@pytest.mark.parametrize("name", ALL)
def test_each_weight_has_a_name_of_its_own(name):
    bound, _ = ALL[name]()
    assert len(bound.names) == bound.n_weights == bound.cone.n_weights
    assert len(set(bound.names)) == bound.n_weights
    assert all(bound.names)


def test_names_say_what_they_weigh():
    samples = [GraphSample([0, 1], ms.Graph.chain(2))]
    names = GraphModel(bias=True).bind(samples, [["a", "b"]]).names
    assert names == ["q(x=0, a)", "q(x=0, b)", "q(x=1, a)", "q(x=1, b)", "q(bias, a)", "q(bias, b)"] + [
        "g(a, a)", "g(a, b)", "g(b, a)", "g(b, b)"
    ]  # fmt: skip
    assert GraphModel(potentials="potts").bind(samples, [["a", "b"]]).names[-1] == "g(a, a) ..."
    own = GraphModel(homogeneous=False).bind(samples, [["a", "b"]]).names
    assert own[0] == "q[node 0](x=0, a)" and own[7] == "q[node 1](x=1, b)" and own[-1] == "g(b, b)"
    typed = GraphSample(
        [0, 0, 0], ms.Graph.from_edges([[0, 1], [1, 2]], edge_type=[0, 1]), np.ones((2, 2)), node_types=[0, 1, 1]
    )
    names = GraphModel().bind([typed], [["a", "x", "y"]]).names
    assert names[:3] == ["q[type 0](x=0, a)", "q[type 1](x=0, x)", "q[type 1](x=0, y)"]
    assert (
        names[3:5] == ["g[type 0, feature 0](0, 0)", "g[type 0, feature 0](0, 1)"] and names[-1] == "g[type 1, feature 1](1, 1)"
    )


@pytest.mark.parametrize("symmetric", [False, True])
def test_supermodular_weights_make_problems_for_maxflow(symmetric):
    samples = samples_of(edge_width=2, positive=True, typed=True)
    bound = GraphModel(potentials="supermodular", symmetric=symmetric).bind(samples, labels_of(samples), classes=[0, 1, 2])
    random = np.random.default_rng(4)
    for _ in range(20):
        w = bound.cone.repair(random.normal(size=bound.n_weights))
        assert bound.cone.contains(w)
        assert all(problem.structure().supermodular for problem in bound.problems(w))
        assert all(MaxFlow().supports(problem) for problem in bound.problems(w))
    assert not all(problem.structure().supermodular for problem in bound.problems(random.normal(size=bound.n_weights)))


@pytest.mark.parametrize("potentials", ["associative", "potts"])
def test_associative_weights_make_associative_problems(potentials):
    samples = samples_of(edge_width=2, positive=True)
    bound = GraphModel(potentials=potentials).bind(samples, labels_of(samples), classes=[0, 1, 2])
    w = bound.cone.repair(np.random.default_rng(5).normal(size=bound.n_weights))
    for problem in bound.problems(w):
        facts = problem.structure()
        assert facts.associative and (facts.potts or potentials == "associative")


def test_number_of_weights():
    samples = samples_of(typed=True)
    labels = labels_of(samples)
    sizes = {"general": 9 + 18, "supermodular": 9 + 18, "associative": 9 + 6, "potts": 9 + 2}
    for potentials, size in sizes.items():
        assert GraphModel(potentials=potentials).bind(samples, labels, [0, 1, 2]).n_weights == size
    assert GraphModel(symmetric=True).bind(samples, labels, [0, 1, 2]).n_weights == 9 + 12


def test_symmetric_tables_are_symmetric():
    samples = samples_of()
    bound = GraphModel(symmetric=True).bind(samples, labels_of(samples), [0, 1, 2])
    for problem in bound.problems(np.random.default_rng(0).normal(size=bound.n_weights)):
        np.testing.assert_array_equal(problem.tables, problem.tables.transpose(0, 2, 1))


def test_node_types_have_labels_of_their_own():
    graph = ms.Graph.chain(3)
    samples = [GraphSample([0, 1, 0], graph, node_types=[0, 1, 1]), GraphSample([1, 1, 1], graph, node_types=[1, 0, 0])]
    bound = GraphModel().bind(samples, [["a", "b", "c"], ["d", "a", "e"]])
    assert [own.tolist() for own in bound.classes] == [["a", "e"], ["b", "c", "d"]]
    assert bound.problem(np.zeros(bound.n_weights), 0).n_states.tolist() == [2, 3, 3]
    declared = GraphModel().bind(samples, [["a", "b", "c"], ["d", "a", "e"]], classes=[["e", "a"], ["d", "c", "b"]])
    assert declared.truth(0).tolist() == [1, 2, 1]
    with pytest.raises(InvalidSampleError, match=r"sample 0, node 0 is .*'a'.*wanted one of the classes"):
        GraphModel().bind(samples, [["a", "b", "c"], ["d", "a", "e"]], classes=[["e", "x"], ["d", "c", "b"]])
    with pytest.raises(InvalidParameterError, match="3 lists of labels, but there are 2 types"):
        GraphModel().bind(samples, [["a", "b", "c"], ["d", "a", "e"]], classes=[["a"], ["b"], ["c"]])


def test_a_node_type_without_labels_is_refused():
    graph = ms.Graph.chain(2)
    bound = GraphModel().bind([GraphSample([0, 1], graph, node_types=[1, 1])], [[0, 1]])
    with pytest.raises(InvalidSampleError, match="node type 0"):
        bound.problems(np.zeros(bound.n_weights), [GraphSample([0, 1], graph, node_types=[0, 1])])


def test_unknown_labels_are_left_out():
    graph = ms.Graph.from_edges([[0, 1], [1, 2], [2, 3], [3, 0]])
    x = np.arange(8.0).reshape(4, 2)
    features = np.arange(4.0)
    masked = GraphModel().bind([GraphSample(x, graph, features)], [[0, 1, -1, 1]])
    smaller = ms.Graph.from_edges([[0, 1], [2, 0]], n_nodes=3)
    expected = GraphModel().bind([GraphSample(x[[0, 1, 3]], smaller, features[[0, 3]])], [[0, 1, 1]])
    w = np.random.default_rng(0).normal(size=masked.n_weights)
    for y in itertools.product(range(2), repeat=3):
        assert masked.problem(w, 0).score(y) == expected.problem(w, 0).score(y)
    strings = GraphModel().bind(
        [GraphSample(x, graph)] * 2, [["a", None, "b", None], np.array(["a", "b", "b", "a"], dtype=object)]
    )
    assert strings.classes[0].tolist() == ["a", "b"] and strings.data.node_ptr.tolist() == [0, 2, 6]
    nothing = GraphModel().bind([GraphSample(x, graph)] * 2, [[None] * 4, [0, 1, 1, 0]])
    assert nothing.data.node_ptr.tolist() == [0, 0, 4] and nothing.classes[0].tolist() == [0, 1]


def test_minus_one_is_a_class_only_if_declared():
    samples = [GraphSample([0, 1], ms.Graph.chain(2))]
    with pytest.raises(InvalidSampleError, match=r"classes=\[-1, 1\]"):
        GraphModel().bind(samples, [[-1, 1]])
    assert GraphModel().bind(samples, [[-1, 1]], classes=[-1, 1]).truth(0).tolist() == [0, 1]
    assert GraphModel().bind(samples, [[-1, 1]], classes=[1]).data.node_ptr.tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["codes", "dense", "sparse", "dicts"])
def test_kinds_of_observations_do_not_mix(kind):
    samples = samples_of(kind)
    bound = GraphModel().bind(samples, labels_of(samples))
    other = samples_of("dense" if kind != "dense" else "codes")
    with pytest.raises(InvalidSampleError, match=f"sample 0 has .* observations, .*{kind}"):
        bound.problems(np.zeros(bound.n_weights), other)


def test_dicts_pass_over_what_they_do_not_know():
    graph = ms.Graph.chain(2)
    bound = GraphModel().bind([GraphSample([{"word": "a", "n": 2}, {"word": "b"}], graph)], [[0, 1]])
    assert bound.names[2:4] == ["q(n, 0)", "q(n, 1)"] and len(bound.node_index) == 3
    w = np.arange(1.0, bound.n_weights + 1)
    problem = bound.problems(w, [GraphSample([{"word": "new", "n": 1}, {"word": "b", "x": 7}], graph)])[0]
    np.testing.assert_array_equal(problem.unary, [[w[2], w[3]], [w[4], w[5]]])


def test_hashing_is_stable_and_signed():
    sample = [GraphSample([{"a": 1.0}, {"a": 1.0, "b": 2.0}], ms.Graph.chain(2))]
    once, again = Hashed(16).encode(sample).toarray(), Hashed(16).encode(sample).toarray()
    np.testing.assert_array_equal(once, again)
    assert np.abs(once[0]).sum() == 1 and np.abs(once[1]).sum() == 3


def test_kernels_by_hand():
    train = [GraphSample([[0.0, 1.0], [2.0, 0.0]], ms.Graph.chain(2))]
    new = [GraphSample([[1.0, 1.0]], ms.Graph.chain(1))]
    np.testing.assert_allclose(Kernel("rbf", gamma=0.5).fit(train).encode(new), [[np.exp(-0.5), np.exp(-1.0)]])
    np.testing.assert_allclose(Kernel("poly", gamma=1.0, degree=2, coef0=1.0).fit(train).encode(new), [[4.0, 9.0]])
    np.testing.assert_allclose(Kernel("linear", basis=[[3.0, 1.0]]).fit(train).encode(new), [[4.0]])
    assert Kernel("rbf", basis=1).fit(train).n_features == 1
    with pytest.raises(InvalidParameterError, match="kernel is 'cosine'"):
        Kernel("cosine").fit(train)
    with pytest.raises(InvalidParameterError, match="returned shape"):
        Kernel(lambda x, b: x[:, :1]).fit(train).encode(new + train)
    with pytest.raises(InvalidParameterError, match="basis has shape"):
        Kernel("rbf", basis=[[1.0]]).fit(train)
    with pytest.raises(NotFittedError, match="call fit"):
        Kernel("rbf").encode(new)


def test_sparse_forms_give_dense_problems():
    random = np.random.default_rng(0)
    graph, dense = ms.Graph.chain(4), random.normal(size=(4, 5)) * (random.random((4, 5)) < 0.5)
    dense[2] = 0.0
    rows, cols = np.indices(dense.shape)
    shuffled = random.permutation(20)
    unsorted = sparse.coo_matrix((dense.ravel()[shuffled], (rows.ravel()[shuffled], cols.ravel()[shuffled])), shape=dense.shape)
    doubled = sparse.csr_matrix(([1.0, 2.0], [0, 0], [0, 2, 2, 2, 2]), shape=(4, 5))
    forms = (sparse.csr_matrix(dense), sparse.csc_array(dense), unsorted, sparse.csr_array(unsorted))
    w = None
    for x in forms:
        bound = GraphModel().bind([GraphSample(x, graph)], [[0, 1, 0, 1]])
        other = GraphModel().bind([GraphSample(dense, graph)], [[0, 1, 0, 1]])
        w = random.normal(size=bound.n_weights)
        np.testing.assert_allclose(bound.problem(w, 0).unary, other.problem(w, 0).unary, atol=1e-15)
    assert GraphSample(doubled, graph).X[0, 0] == 3.0 and doubled.nnz == 2


@pytest.mark.parametrize(
    ("parameters", "words", "error"),
    [
        (dict(potentials="convex"), "potentials is 'convex', wanted one of general", InvalidParameterError),
        (dict(features="dense"), "features is 'dense', wanted 'auto'", InvalidParameterError),
        (dict(tie=[[0, 1]]), "tie has shape", InvalidParameterError),
        (dict(tie=[[0.5, 1, 1]] * 3), "tie has shape .* dtype float64", InvalidParameterError),
        (dict(homogeneous=False), "wanted graphs of one size", InvalidSampleError),
        (dict(features=Codes()), "sample 0 has dense observations", InvalidSampleError),
        (dict(features=Dense(2)), "3 features a node, but the model has 2", InvalidSampleError),
        (dict(features=Dicts()), "dicts", InvalidSampleError),
    ],
)
def test_bad_parameters(parameters, words, error):
    samples = samples_of()
    with pytest.raises(error, match=words):
        GraphModel(**parameters).bind(samples, labels_of(samples), [0, 1, 2])


def test_signs_of_edge_features():
    samples = samples_of(edge_width=2)
    for potentials in ("supermodular", "associative", "potts"):
        with pytest.raises(InvalidSampleError, match=f"{potentials} potentials need features >= 0"):
            GraphModel(potentials=potentials).bind(samples, labels_of(samples))


def test_edge_types_and_widths_of_new_samples():
    samples = samples_of(typed=True)
    bound = GraphModel().bind(samples, labels_of(samples))
    w = np.zeros(bound.n_weights)
    more = ms.Graph.from_edges([[0, 1]], edge_type=[2])
    with pytest.raises(InvalidSampleError, match=r"edge type 2 was not seen in training; known are 0\.\.1"):
        bound.problems(w, [GraphSample(np.zeros((2, 3)), more)])
    with pytest.raises(InvalidSampleError, match="sample 0 has 2 features an edge, but the model has 1"):
        bound.problems(w, [GraphSample(np.zeros((2, 3)), ms.Graph.chain(2), np.zeros((1, 2)))])
    with pytest.raises(InvalidSampleError, match="2 features a node, but the model has 3"):
        bound.problems(w, [GraphSample(np.zeros((2, 2)), ms.Graph.chain(2))])
    with pytest.raises(InvalidSampleError, match="finite weights"):
        bound.problems(np.full(bound.n_weights, np.nan), samples)


def test_samples_without_nodes_or_edges_or_types_beside_others():
    pair, one, none = ms.Graph.chain(2), ms.Graph.chain(1), ms.Graph.chain(0)
    samples = [GraphSample([0, 1], pair, np.ones((1, 2))), GraphSample([1], one), GraphSample(np.zeros(0, dtype=int), none)]
    bound = GraphModel().bind(samples, [[0, 1], [1], []])
    assert bound.data.node_ptr.tolist() == [0, 2, 3, 3] and bound.problem(np.ones(bound.n_weights), 1).score([1]) == 1.0
    with pytest.raises(InvalidSampleError, match="sample 1 has code 5 at node 0"):
        bound.problems(np.zeros(bound.n_weights), [samples[2], GraphSample([5], one)])
    typed = [GraphSample([0, 1], pair, node_types=[0, 1]), GraphSample([0, 1], pair)]
    assert [own.tolist() for own in GraphModel().bind(typed, [["a", "x"], ["b", "a"]]).classes] == [["a", "b"], ["x"]]


def test_joint_model_takes_a_cone_and_checks_shapes():
    samples = samples_of()
    cone = Cone.nonnegative(7, [0])
    bound = JointModel(lambda s: _rows(s, 3, 1), lambda s: _rows(s, 9, 2), 7, names="abcdefg", cone=cone).bind(
        samples, labels_of(samples)
    )
    assert bound.cone is cone and bound.names == list("abcdefg")
    with pytest.raises(InvalidSampleError, match="node features of sample 0 have shape"):
        JointModel(lambda s: np.zeros((s.n_nodes * 3, 6)), lambda s: _rows(s, 9, 2), 7).bind(samples, labels_of(samples))


def test_sample_checks_its_shape():
    grid = ms.Graph.grid(2, 3)
    assert GraphSample(np.zeros((2, 3), dtype=int), grid).kind == "codes"
    assert GraphSample(np.zeros((2, 3, 4)), grid).X.shape == (6, 4)
    for x, words in (
        (np.zeros((5, 2)), "X has 5 rows, but the graph has 6 nodes"),
        (np.zeros(6), "wanted integer codes"),
        (np.zeros((2, 2, 2, 2)), "X has shape"),
        (["a"] * 6, "wanted numbers"),
        ([{}] * 5, "X has 5 dicts, but the graph has 6 nodes"),
        (-np.ones(6, dtype=int), "wanted codes >= 0"),
    ):
        with pytest.raises(InvalidSampleError, match=words):
            GraphSample(x, grid)
    with pytest.raises(InvalidSampleError, match=r"wanted maxsum\.Graph"):
        GraphSample(np.zeros((2, 2)), [[0, 1]])
    with pytest.raises(InvalidSampleError, match="edge_features has shape"):
        GraphSample(np.zeros((6, 1)), grid, edge_features=np.zeros(6))
    with pytest.raises(InvalidSampleError, match="node_types has shape"):
        GraphSample(np.zeros((6, 1)), grid, node_types=[0, 1])
    with pytest.raises(InvalidSampleError, match="node_weights has shape"):
        GraphSample(np.zeros((6, 1)), grid, node_weights=-np.ones(6))
