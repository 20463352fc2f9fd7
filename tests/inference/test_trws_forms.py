"""Message kernels chosen by the form of the tables: found where it is there, only there, and equal to the general kernel."""

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.certificates.persistency import fixed_nodes
from maxsum.inference import TRWS
from maxsum.inference.prepare import prepare
from maxsum.inference.relaxations.grid_passes import Tuning, strip_passes, strips
from maxsum.inference.relaxations.table_forms import associative_tables, table_forms
from maxsum.inference.relaxations.trws import fixed, passes, uniform_passes
from maxsum.kernels.distance import ASSOCIATIVE, BAND, GENERAL, LINEAR, QUADRATIC, linear, quadratic
from maxsum.kernels.records import Forms
from maxsum.kernels.trws import sweep

POWER = {LINEAR: 1, QUADRATIC: 2}


def distances(n_labels):
    return np.abs(np.subtract.outer(np.arange(n_labels), np.arange(n_labels))).astype(float)


def truncated(n_labels, kind, width, slope=1.0, constant=0.0):
    return constant - slope * np.minimum(distances(n_labels) ** POWER[kind], (width - 0.5) ** POWER[kind])


def general_forms(n_tables):
    return Forms(np.full(n_tables, GENERAL, dtype=np.int8), np.ones(n_tables, dtype=np.int64), np.zeros(n_tables))


def optimum(problem):
    """Best score over all labellings, by enumeration."""
    labels = np.indices(problem.n_states).reshape(problem.n_nodes, -1)
    score = sum(problem.unary[v, labels[v]] for v in range(problem.n_nodes))
    for (u, v), t, weight in zip(problem.graph.edges, problem.edge_table, problem.edge_weight, strict=True):
        score = score + weight * problem.tables[t, labels[u], labels[v]]
    for c, weights in enumerate(problem.cliques.weights):
        members = labels[problem.cliques.nodes[problem.cliques.ptr[c] : problem.cliques.ptr[c + 1]]]
        score = score + np.where((members == members[0]).all(axis=0), weights[members[0]], 0.0)
    return score.max()


def run_passes(problem, one_pass, n_passes=5):
    messages = problem.zero_messages()
    bounds = [one_pass(messages, i % 2 == 0) for i in range(n_passes)]
    return np.array(bounds), messages.edge


def assert_same(problem, one_pass, other, scale):
    bounds, messages = run_passes(problem, one_pass)
    wanted_bounds, wanted = run_passes(problem, other)
    np.testing.assert_allclose(messages, wanted, rtol=0, atol=1e-12 * scale)
    np.testing.assert_allclose(bounds, wanted_bounds, rtol=1e-12, atol=1e-12 * scale)


def small_grid(n_labels, tables, seed, weight=None):
    rng = np.random.default_rng(seed)
    graph = ms.Graph.grid(3, 4)
    weight = rng.uniform(0, 2, graph.n_edges) if weight is None else weight
    kind = rng.integers(0, len(tables), graph.n_edges).astype(np.int32)
    unary = rng.normal(size=(12, n_labels)) * rng.choice([0.1, 3.0])
    return ms.Problem(graph, unary, np.asarray(tables), edge_table=kind, edge_weight=weight)


@pytest.mark.parametrize("kind", [LINEAR, QUADRATIC])
@pytest.mark.parametrize("n_labels", [4, 5, 9, 16, 33])
def test_truncated_tables_are_found(kind, n_labels):
    rng = np.random.default_rng(n_labels)
    for _ in range(20):
        width, slope, constant = int(rng.integers(3, n_labels)), rng.uniform(0.01, 30), rng.normal() * 10
        forms = table_forms(truncated(n_labels, kind, width, slope, constant)[None], every=True)
        assert forms.kind[0] == kind and forms.width[0] == width
        assert forms.slope[0] == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("kind", [LINEAR, QUADRATIC])
@pytest.mark.parametrize("size", [1e-3, 1e-9, 1e-12])
def test_tables_that_nearly_fit_are_not_taken_for_it(kind, size):
    rng = np.random.default_rng(1)
    for _ in range(20):
        n_labels = int(rng.integers(5, 20))
        width = int(rng.integers(4, n_labels))
        table = truncated(n_labels, kind, width)
        one_entry = table.copy()
        one_entry[tuple(rng.integers(0, n_labels, 2))] += size
        assert table_forms(one_entry[None], every=True).kind[0] == GENERAL
        one_distance = table + size * (distances(n_labels) == rng.integers(1, width - 1))
        assert table_forms(one_distance[None], every=True).kind[0] == BAND
    rising = truncated(6, kind, 4)
    rising[distances(6) == 4] -= size
    assert table_forms(rising[None], every=True).kind[0] == GENERAL


@pytest.mark.parametrize("kind", [LINEAR, QUADRATIC])
def test_a_cliff_beyond_the_width_is_no_distance_transform(kind):
    """``0, -1, -2, -9, -9``: a transform that goes on falling evenly would pass -3 at distance 3."""
    table = truncated(7, kind, 3)
    table[distances(7) >= 3] = -100.0
    forms = table_forms(table[None], every=True)
    assert forms.kind[0] == BAND and forms.width[0] == 3
    problem = small_grid(7, table[None], 0)
    net = prepare(problem).net
    assert_same(problem, uniform_passes(net, forms), uniform_passes(net, general_forms(1)), 100.0)


def test_potts_is_associative_and_anything_else_is_not():
    rng = np.random.default_rng(0)
    good = np.eye(4) * rng.uniform(0, 2, 4) + 0.3
    lower_diagonal, other_entry, asymmetric = good.copy(), good.copy(), good.copy()
    lower_diagonal[2, 2] = 0.2
    other_entry[3, 2] += 1e-12
    asymmetric[1, 0] -= 1e-12
    found = associative_tables(np.stack([good, lower_diagonal, other_entry, asymmetric, -np.eye(4), np.zeros((4, 4))]))
    assert found.tolist() == [True, False, False, False, False, True]


def test_forms_are_used_where_they_are_faster():
    assert table_forms(truncated(64, LINEAR, 3)[None]).kind[0] == BAND
    assert table_forms(truncated(64, LINEAR, 20)[None]).kind[0] == LINEAR
    assert table_forms(truncated(64, QUADRATIC, 12)[None]).kind[0] == BAND
    assert table_forms(truncated(64, QUADRATIC, 40)[None]).kind[0] == GENERAL
    assert table_forms(truncated(160, QUADRATIC, 100)[None]).kind[0] == QUADRATIC
    assert table_forms(truncated(4, LINEAR, 3)[None]).kind[0] == GENERAL
    assert table_forms(np.eye(3)[None]).kind[0] == ASSOCIATIVE


@pytest.mark.parametrize(("transform", "power"), [(linear, 1), (quadratic, 2)])
def test_distance_transforms_by_definition(transform, power):
    rng = np.random.default_rng(power)
    for n_labels in range(2, 34):
        for step in (0.0, 1e-300, 0.3, 50.0):
            own = rng.normal(size=n_labels) * rng.choice([0.01, 1.0, 100.0])
            apart, same = own.max() - rng.uniform(0, 100), rng.normal()
            out, work, hull = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels, dtype=np.int64)
            transform(own, n_labels, step, same, apart, out, work, *((hull,) if power == 2 else ()))
            wanted = np.maximum(apart, (own[:, None] - step * distances(n_labels) ** power).max(axis=0) + same)
            np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-13 * (100 + step * n_labels**power))


def mixed_tables(n_labels):
    rng = np.random.default_rng(n_labels)
    width = max(2, n_labels // 2)
    return [
        truncated(n_labels, LINEAR, width, 0.7, 0.2),
        truncated(n_labels, QUADRATIC, width, 0.3, -0.4),
        truncated(n_labels, LINEAR, 2, 1.1),
        -0.1 * distances(n_labels),
        np.diag(rng.uniform(0, 1, n_labels)) - 0.2,
        rng.normal(size=(n_labels, n_labels)),
    ]


def test_every_form_passes_the_messages_of_the_general_kernels():
    """The forms mixed in one problem, with numbers of labels that are constants of the code, and others."""
    for n_labels in range(2, 34):
        tables = mixed_tables(n_labels)
        problem = small_grid(n_labels, tables, n_labels)
        net = prepare(problem).net
        forms = table_forms(net.tables, every=True)
        forms.kind[-1] = GENERAL
        if n_labels >= 8:
            assert forms.kind.tolist() == [LINEAR, QUADRATIC, BAND, LINEAR, ASSOCIATIVE, GENERAL]
        assert_same(
            problem, uniform_passes(net, forms), lambda m, forward, net=net: sweep(net, forward, m.edge, m.clique), 10.0
        )


@pytest.mark.parametrize("n_labels", [3, 16, 32])
def test_constant_numbers_of_labels_pass_the_same_messages(n_labels):
    for chosen in (mixed_tables(n_labels), mixed_tables(n_labels)[-1:], [truncated(n_labels, LINEAR, 2, 0.4)]):
        problem = small_grid(n_labels, chosen, n_labels)
        net = prepare(problem).net
        assert_same(problem, passes(problem, net), lambda m, forward, net=net: sweep(net, forward, m.edge, m.clique), 10.0)


def test_without_transposed_tables_the_messages_are_the_same():
    rng = np.random.default_rng(5)
    problem = small_grid(6, rng.normal(size=(3, 6, 6)), 2)
    net = prepare(problem).net
    bare = net._replace(turned=np.zeros((0, 0, 0)))
    assert_same(problem, uniform_passes(bare, general_forms(3)), uniform_passes(net, general_forms(3)), 10.0)


def test_negative_weights_go_through_the_general_kernel():
    rng = np.random.default_rng(3)
    for n_labels in (3, 6, 9, 17, 32):
        weight = rng.choice([-1.5, 0.0, 0.5, 2.0], ms.Graph.grid(3, 4).n_edges)
        problem = small_grid(n_labels, mixed_tables(n_labels)[:5], 1, weight)
        net = prepare(problem).net
        forms = table_forms(net.tables, every=True)
        assert GENERAL not in forms.kind
        assert_same(
            problem, uniform_passes(net, forms), lambda m, forward, net=net: sweep(net, forward, m.edge, m.clique), 30.0
        )


@pytest.mark.parametrize("case", ["forbidden label", "unequal label counts", "clique"])
def test_problems_that_are_not_uniform_keep_the_general_kernel(case):
    """With truncated tables all the same: bounds and optima against enumeration."""
    rng = np.random.default_rng(11)
    for _ in range(10):
        unary, options = rng.normal(size=(6, 5)), {}
        if case == "forbidden label":
            unary[rng.integers(6), rng.integers(5)] = -np.inf
        elif case == "unequal label counts":
            options["n_states"] = rng.integers(2, 6, 6)
        else:
            options["cliques"] = [([0, 2, 4], rng.uniform(0, 1, 5))]
        problem = ms.Problem(ms.Graph.grid(2, 3), unary, truncated(5, LINEAR, 3, 0.4), **options)
        result = TRWS().solve(problem)
        best = optimum(problem)
        assert result.score <= best + 1e-9 <= result.bound + 2e-9
        assert result.guarantee != "optimal" or result.score == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("kind", [LINEAR, QUADRATIC])
def test_bounds_hold_with_distance_kernels(kind):
    rng = np.random.default_rng(kind)
    for _ in range(10):
        problem = ms.Problem(ms.Graph.complete(3), rng.normal(size=(3, 33)), truncated(33, kind, 5, 0.3))
        assert table_forms(prepare(problem).net.tables).kind[0] == BAND
        result = TRWS().solve(problem)
        assert result.score <= optimum(problem) + 1e-9 <= result.bound + 2e-9


def test_dense_random_graphs_are_said_to_stall():
    rng = np.random.default_rng(0)
    graph = ms.Graph.complete(20)
    for _ in range(3):
        problem = ms.Problem(graph, rng.normal(size=(20, 5)), rng.normal(size=(graph.n_edges, 5, 5)))
        result = TRWS().solve(problem)
        assert result.termination == "stalled" and result.guarantee == "within_gap"
        assert result.bound > result.score


@pytest.mark.parametrize("shape", [(9, 7), (1, 12), (30, 2)])
def test_strips_of_a_grid_pass_the_same_messages(shape):
    rng = np.random.default_rng(0)
    graph = ms.Graph.grid(*shape)
    problem = ms.Problem(graph, rng.normal(size=(graph.n_nodes, 3)), rng.normal(size=(graph.n_edges, 3, 3)))
    net = prepare(problem).net
    wanted_bounds, wanted = run_passes(problem, uniform_passes(net, table_forms(net.tables)), 6)
    for n_strips in range(1, min(shape[1], 4) + 1):
        bounds, messages = run_passes(problem, uniform_passes(net, table_forms(net.tables), shape, n_strips), 6)
        np.testing.assert_array_equal(messages, wanted)
        np.testing.assert_allclose(bounds, wanted_bounds, rtol=1e-13)


def test_strips_are_for_large_grids_of_neighbours(monkeypatch):
    large = ms.Problem(ms.Graph.grid(20, 20), np.zeros((400, 2)), np.eye(2))
    assert strips(large, 2) == 1
    monkeypatch.setattr("maxsum.inference.relaxations.grid_passes._TUNING", Tuning(least_work=1))
    assert strips(large, 2) == 2 and strips(large, 1) == 1
    diagonal = ms.Problem(ms.Graph.grid(20, 20, connectivity=8), np.zeros((400, 2)), np.eye(2))
    assert strips(diagonal, 2) == 1
    assert strips(ms.Problem(ms.Graph.chain(400), np.zeros((400, 2)), np.eye(2)), 2) == 1
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.grid(20, 20), rng.normal(size=(400, 3)), 0.7 * np.eye(3))
    one, two = (TRWS(max_iter=30, n_jobs=n_jobs).solve(problem) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.messages.edge, two.messages.edge)
    assert (one.score, one.bound) == (two.score, two.bound)


def test_an_error_in_a_strip_ends_the_pass():
    def broken(messages, forward, first_row, *rest):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        strip_passes(broken, (8, 8), 3)(np.zeros(1), True)


def test_fixed_nodes_are_those_of_the_core():
    rng = np.random.default_rng(1)
    count = 0
    for _ in range(30):
        n_labels, graph = int(rng.integers(2, 5)), ms.Graph.grid(4, 5)
        tables, weight = rng.normal(size=(graph.n_edges, n_labels, n_labels)), rng.normal(size=graph.n_edges)
        problem = ms.Problem(graph, rng.normal(size=(20, n_labels)), tables, edge_weight=weight)
        result = TRWS(max_iter=int(rng.integers(1, 60))).solve(problem)
        found = fixed(problem, prepare(problem).net, result.messages, result.labels)
        np.testing.assert_array_equal(found, fixed_nodes(problem, result.messages, result.labels))
        count += int(found.sum())
    assert 0 < count < 600
