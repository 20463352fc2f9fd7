"""The compiled kernels of bounds, sums, marginals and quadratics give the bits of numba's, on the arguments of real runs."""

from __future__ import annotations

import numpy as np
import pytest
from factories.problems import random_case
from factories.samples import mixed_model, multi_label_model, random_model
from kernels.recording import clone, recording, replay, same
from learning.convex_data import FORMS, bound, chains
from learning.lp_data import GRAPHS, lp_objective
from learning.test_likelihood import union

import maxsum as ms
from maxsum.inference.prepare import prepare
from maxsum.inference.relaxations.convex_bp import ConvexBP, counting_numbers
from maxsum.inference.sums.log_partition import LogPartition
from maxsum.kernels import _compiled_v3 as compiled
from maxsum.kernels import conjugate_gradients, convex_bp, dual_bound, local_polytope, log_sum, moments, qp, smoothed
from maxsum.learning import LPObjective
from maxsum.learning.dual.dual_bound import DualBound
from maxsum.learning.learners.proximal_point import ProximalPoint
from maxsum.learning.objectives.logistic import LogisticObjective
from maxsum.learning.objectives.qp import QPObjective
from maxsum.learning.objectives.smoothed import SmoothedObjective
from maxsum.qp.block_form import BlockForm
from maxsum.qp.simplex import minimise_simplex_qp

LOOP = ms.Graph.from_edges([(1, 0), (1, 2), (2, 0), (2, 3), (4, 3), (4, 2)])


def equal(run, caller, name, subject, most=20, at_least=1):
    """Record the calls of a kernel that ``caller`` makes during ``run``, and replay them with both. The first run compiles, without spies."""
    run()
    with recording(caller if isinstance(caller, str) else caller.__name__, name, most) as calls:
        run()
    assert len(calls) >= at_least
    replay(calls, getattr(subject, name), getattr(getattr(compiled, subject.__name__.split(".")[-1]), name))


@pytest.mark.parametrize("record", ["dual_bound.Copies", "log_sum.Forest", "smoothed.Soft", "qp.BlockRows"])
def test_records_have_the_same_fields(record):
    subject, name = record.split(".")
    numba = {"dual_bound": dual_bound, "log_sum": log_sum, "smoothed": smoothed, "qp": qp}[subject]
    assert getattr(getattr(compiled, subject), f"fields_of_{name}") == getattr(numba, name)._fields


def test_constants_are_the_same():
    names = "FORBIDDEN VALUE GAP SIZE ALPHA N_ITER N_PRODUCTS STATUS CURVATURE LAST NORM ALLOWED N_STATE RUNNING CONVERGED STALLED INDEFINITE"
    for name in f"{names} PULLED BACKED STEPPED CORNER ALL REFRESH".split():
        assert getattr(compiled.qp, name) == getattr(qp, name)
    assert compiled.log_sum.FAINT == log_sum.FAINT and compiled.smoothed.ZERO == smoothed.ZERO


# ---- dual bounds ---------------------------------------------------------------------------------------------------


def random_trees(n_labels, seed, n_trees=6, label=np.int8):
    """Trees of unequal sizes whose copies have unequal numbers of labels, as arguments of `best_labellings`."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 9, size=n_trees)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n = int(starts[-1])
    states = random.integers(1, n_labels + 1, size=n).astype(np.int32)
    parent_edge, parent_side, edges = np.full(n, -1, dtype=np.int32), np.zeros(n, dtype=np.int8), []
    for c in range(n_trees):
        for i in range(starts[c] + 1, starts[c + 1]):
            parent, side = int(random.integers(starts[c], i)), int(random.integers(2))
            parent_edge[i], parent_side[i] = len(edges), side
            edges.append((i, parent) if side == 0 else (parent, i))
    ends = np.array(edges, dtype=np.int32).reshape(-1, 2)
    tables, table = random.normal(size=(4, n_labels, n_labels)), random.integers(4, size=len(ends)).astype(np.int32)
    turned = np.ascontiguousarray(tables.transpose(0, 2, 1))
    theta = random.normal(size=(n, n_labels)).ravel()
    out = np.zeros(n, dtype=label), np.zeros(n_trees)
    weight = random.uniform(0.5, 1.5, len(ends))
    return (
        starts,
        states,
        ends.ravel(),
        parent_edge,
        parent_side,
        table,
        weight,
        tables.ravel(),
        turned.ravel(),
        n_labels,
        0,
        n_trees,
        theta,
        *out,
    )


@pytest.mark.parametrize("n_labels", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 20, 24, 32, 40])
def test_best_labellings_of_trees(n_labels):
    for seed in range(5):
        replay([random_trees(n_labels, seed)], dual_bound.best_labellings(n_labels), compiled.dual_bound.best_labellings)
    replay(
        [random_trees(n_labels, 9, label=np.int32)], dual_bound.best_labellings(n_labels), compiled.dual_bound.best_labellings
    )


@pytest.mark.parametrize("form", ["chains", "factors"])
@pytest.mark.parametrize("n_labels", [2, 3, 130])
def test_dual_bounds(form, n_labels):
    graphs = list(GRAPHS) if n_labels < 100 else ["lonely"]
    objective = lp_objective(graphs, n_labels=n_labels, n_examples=len(graphs))
    own, random = DualBound(objective, form), np.random.default_rng(0)
    w, phi = random.standard_normal(objective.n_weights), random.standard_normal(own.zeros().shape)
    labels = own.evaluate(w, phi).labels
    assert labels.dtype == (np.int8 if n_labels < 128 else np.int32)

    def run():
        own.evaluate(w, phi)
        own.subgradient(w, labels)

    for name in ("share_scores", "truth_scores", "shared_difference", "disagreements"):
        equal(run, dual_bound, name, dual_bound)
    size = own.model.n_labels
    node, edge = np.zeros((len(own.design.truth), size)), np.zeros((len(own.design.edges), size, size))
    for j in range(objective.n_examples):
        replay(
            [(own.copies, own.design, 0.3, j, labels, node, edge)], dual_bound.add_labelling, compiled.dual_bound.add_labelling
        )


@pytest.mark.parametrize("kind", ["trees", "n", "one"])
def test_bundles(kind):
    def run():
        ProximalPoint(slacks=kind, max_iter=6).fit(lp_objective(["triangle", "grid", "tree"], n_labels=3, potentials="general"))

    if kind == "trees":
        equal(run, "maxsum.learning.dual.tree_bundle", "add_tree_labellings", dual_bound)
    else:
        equal(run, dual_bound, "message_products", dual_bound)
        equal(run, dual_bound, "combine_messages", dual_bound)


@pytest.mark.parametrize("label", [np.int8, np.int32])
def test_stored_subgradients(label):
    for seed in range(5):
        random = np.random.default_rng(seed)
        n, rows, size = int(random.integers(0, 7)), 9, 4
        ptr = np.concatenate([[0], np.cumsum(random.integers(0, 4, size=n))]).astype(np.int64)
        row = random.integers(rows, size=ptr[-1]).astype(np.int32)
        plus, minus = random.integers(size, size=(2, ptr[-1])).astype(label)
        weight, alpha = random.random(rows), random.random(n) * (random.random(n) < 0.7)
        blocks, phi = random.integers(3, size=n), random.normal(size=(rows, size))
        for block in (-1, 0, 2):
            arguments = row, plus, minus, ptr, blocks, block, phi, weight, np.ones(n)
            replay([arguments], dual_bound.message_products, compiled.dual_bound.message_products)
        replay([(row, plus, minus, ptr, alpha, weight, phi)], dual_bound.combine_messages, compiled.dual_bound.combine_messages)


# ---- sums ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-9, 1.0, 30.0, 500.0, 1e5])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("n_labels", [3, 6])
def test_sums(scale, hard, n_labels):
    for seed in range(3):
        structure, unary, bank = union(scale, hard, n_labels, seed)
        own = LogPartition(*structure, each=seed % 2 == 0)
        equal(
            lambda own=own, unary=unary, bank=bank: own(unary, bank), "maxsum.inference.sums.log_partition", "log_sums", log_sum
        )


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_reweighted_sums(scale):
    for seed in range(3):
        structure, unary, bank = union(scale, False, 4, seed)

        def run(structure=structure, unary=unary, bank=bank):
            LogPartition(*structure, max_cells=0)(unary, bank, max_rounds=5)

        for name in ("reweighted_sweep", "chain_colours", "log_sums"):
            equal(run, log_sum, name, log_sum)
        equal(run, "maxsum.inference.sums.reweighted", "settle_edges", local_polytope)


# ---- local polytope ------------------------------------------------------------------------------------------------


def test_settling():
    for seed in range(20):
        random = np.random.default_rng(seed)
        n, size = int(random.integers(1, 7)), int(random.integers(1, 7))
        graph = ms.Graph.complete(n)
        states = random.integers(1, size + 1, size=n).astype(np.int32)
        node = random.normal(size=(n, size)) * (random.random((n, size)) < 0.7)
        edge = random.normal(size=(graph.n_edges, size, size)) * (random.random((graph.n_edges, size, size)) < 0.7)
        replay([(states, node, 0, n)], local_polytope.settle_nodes, compiled.local_polytope.settle_nodes)
        replay([(graph.edges, edge, node)], local_polytope.add_edge_marginals, compiled.local_polytope.add_edge_marginals)
        local_polytope.settle_nodes(states, node, 0, n)
        replay([(graph.edges, node, edge, 0, graph.n_edges)], local_polytope.settle_edges, compiled.local_polytope.settle_edges)
        assert np.isfinite(edge).all()


@pytest.mark.parametrize(
    "make", [lambda: random_model(LOOP, 3), lambda: mixed_model([(0, 4), (3, 0), (4, 3)]), multi_label_model]
)
def test_expected_differences(make):
    objective = LPObjective(make(), C=5.0)
    design, random = objective.design, np.random.default_rng(0)
    n_nodes, size = design.loss.shape
    node, edge = random.random((n_nodes, size)), random.random((len(design.edges), size, size))
    node[0] = np.eye(size)[design.truth[0]]
    edge[random.random(edge.shape) < 0.3] = 0.0
    arguments = design, objective.c, node, edge, 0, objective.n_examples, np.zeros(objective.n_weights)
    replay([arguments], local_polytope.expected_difference, compiled.local_polytope.expected_difference)


# ---- smoothed slacks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [1.0, 0.05, 1e-3])
@pytest.mark.parametrize(
    "make", [lambda: random_model(LOOP, 3), lambda: mixed_model([(0, 4), (3, 0), (4, 3)]), multi_label_model]
)
def test_smoothed_slacks(make, smoothing):
    plain, random = LPObjective(make(), C=5.0), np.random.default_rng(0)
    w = 3 * random.standard_normal(plain.n_weights)

    def run():
        SmoothedObjective(plain, smoothing, max_rounds=20).value_and_gradient(w)

    equal(run, smoothed, "relax", smoothed)
    own = SmoothedObjective(plain, smoothing)
    soft, messages = own.soft(w), random.standard_normal(own.messages.shape)
    n = own.n_examples
    for j in range(n):
        for forward in (True, False):
            replay([(soft, messages, smoothing, j, forward)], smoothed.sweep, compiled.smoothed.sweep)
    out = own.node, own.edge, np.zeros_like(messages)
    replay([(soft, messages, smoothing, own.c, 0, n, *out)], smoothed.message_gradient, compiled.smoothed.message_gradient)


# ---- convex belief propagation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_labels", [1, 2, 3, 4, 5, 6, 7, 8, 9])
@pytest.mark.parametrize("hard", [0.0, 0.1])
def test_convex_bp(n_labels, hard):
    for seed in range(6):
        problem, raw = random_case(seed, n_nodes=(4, 7), n_labels=n_labels, density=0.7, unequal=True, hard=hard)
        if not raw.feasible:
            continue
        net, random = prepare(problem).net, np.random.default_rng(seed)
        if not np.isfinite(net.unary).any(axis=1).all():
            continue
        messages = random.normal(size=(2, problem.n_edges, problem.n_labels))
        count = counting_numbers(problem, "trw")
        for epsilon in (1.0, 0.01, 1e-4):
            arguments = net, messages, epsilon, count.node, count.edge
            if hard == 0.0:
                beliefs, gradient = np.ones(net.unary.shape), np.zeros_like(messages)
                replay([(*arguments, gradient, beliefs)], convex_bp.smoothed_height, compiled.convex_bp.smoothed_height)
                convex_bp.smoothed_height(*arguments, gradient, beliefs)
                replay(
                    [(net, messages, epsilon, count.edge, beliefs)], convex_bp.relaxed_value, compiled.convex_bp.relaxed_value
                )
            for forward in (True, False):
                replay([(*arguments, forward)], convex_bp.star_sweep, compiled.convex_bp.star_sweep)
            weighted = net.tables[net.edge_table] * net.edge_weight[:, None, None]
            peaks = np.nan_to_num(weighted.max(axis=(1, 2), initial=-np.inf), neginf=0.0)
            bank = np.exp((weighted - peaks[:, None, None]) / epsilon)
            turned = np.ascontiguousarray(bank.transpose(0, 2, 1))
            scores = net.unary, net.edges, net.edge_table, net.edge_weight, net.tables, net.ptr, net.adj_edge, net.adj_side
            own = np.arange(problem.n_edges, dtype=np.int32)
            visited = np.zeros_like(net.unary)
            sweep = convex_bp.chain_sweep(n_labels)
            for forward in (True, False):
                for other in (turned, np.zeros((0, 0, 0))):
                    passed = *scores, own, bank, other, peaks, messages, visited, epsilon, forward
                    replay([passed], sweep, compiled.convex_bp.chain_sweep)
                sweep(*passed)
                joined = (
                    net.unary,
                    net.edges,
                    messages,
                    visited,
                    epsilon,
                    forward,
                    np.zeros_like(messages),
                    np.zeros_like(net.unary),
                )
                replay([joined], convex_bp.chain_beliefs, compiled.convex_bp.chain_beliefs)


@pytest.mark.parametrize("hard", [0.0, 0.2])
def test_convex_bp_as_it_runs(hard):
    for seed in range(4):
        problem, _ = random_case(seed, n_nodes=(4, 7), n_labels=4, density=0.7, unequal=True, hard=hard)
        for counting in ("chains", "trw"):

            def run(problem=problem, counting=counting):
                ConvexBP(counting=counting, max_iter=30).solve(problem)

            names = ("chain_beliefs",) if counting == "chains" else ("smoothed_height", "star_sweep")
            for name in names:
                equal(run, convex_bp, name, convex_bp, at_least=0)
            equal(run, convex_bp, "relaxed_value", convex_bp, at_least=0)


# ---- quadratics ----------------------------------------------------------------------------------------------------


def quadratic(n_labels, seed, shared=True, forbidden=0.0, unequal=False):
    random = np.random.default_rng(seed)
    graph = ms.Graph.grid(3, 4)
    states = random.integers(1, n_labels + 1, size=graph.n_nodes) if unequal else np.full(graph.n_nodes, n_labels)
    states[0] = n_labels
    root = random.normal(size=(1 if shared else graph.n_edges, 2 * n_labels, max(1, n_labels)))
    blocks = root @ root.transpose(0, 2, 1) / (2 * n_labels) + 0.01 * np.eye(2 * n_labels)
    theta = random.normal(size=(graph.n_nodes, n_labels))
    theta[random.random(theta.shape) < forbidden] = np.inf
    theta[:, 0] = np.where(np.isinf(theta[:, 0]), 0.0, theta[:, 0])
    return BlockForm(graph, states, blocks), theta


class Operator:
    """A form as an operator: the other way through the kernels."""

    def __init__(self, form, shape):
        self.form, self.places, self.shape = form, shape, (shape[0] * shape[1],) * 2

    def matvec(self, x):
        out = np.zeros(self.places)
        qp.multiply(self.form.rows, np.ascontiguousarray(x.reshape(self.places)), out, 0, len(out))
        return out.ravel()


@pytest.mark.parametrize("n_labels", [1, 2, 3, 5, 8, 33])
def test_quadratics(n_labels):
    for seed, options in enumerate([{}, dict(shared=False), dict(forbidden=0.3), dict(unequal=True)]):
        form, theta = quadratic(n_labels, seed, **options)
        equal(lambda form=form, theta=theta: minimise_simplex_qp(theta, form), qp, "descend", qp)
        random = np.random.default_rng(seed)
        x = random.random(theta.shape) * (random.random(theta.shape) < 0.6)
        live = np.where(random.random(len(x)) < 0.5, qp.STEPPED, qp.CORNER).astype(np.uint8)
        rows, n = form.rows, len(x)
        replay([(rows, x, np.zeros_like(x), 0, n)], qp.multiply, compiled.qp.multiply)
        x[live & qp.STEPPED == 0] = 0.0
        replay([(rows, x, np.ones_like(x), 0, n, live)], qp.multiply_live, compiled.qp.multiply_live)
        work, out = np.zeros_like(x), np.zeros(2)
        finite = np.where(np.isinf(theta), qp.FORBIDDEN, theta)
        arguments = rows, finite, x, work, np.array([0, n // 2, n]), 0, 2, out
        replay([arguments], moments.energies, compiled.moments.energies)


@pytest.mark.parametrize(
    "name", ["begin", "direction", "conjugate", "products", "is_done", "is_indefinite", "search", "advance"]
)
def test_steps_of_quadratics(name):
    for seed, options in enumerate([{}, dict(forbidden=0.3)]):
        form, theta = quadratic(4, seed, **options)
        operator = Operator(form, theta.shape)
        equal(lambda theta=theta, own=operator: minimise_simplex_qp(theta, own), qp, name, qp)


def test_indefinite_quadratics_are_seen_alike():
    form, theta = quadratic(3, 0)
    rows = form.rows._replace(diagonal=form.rows.diagonal - 5.0)
    vectors = [np.zeros_like(theta) for _ in range(6)]
    vectors[0][:] = 1 / 3
    low, live, states = np.zeros(len(theta)), np.zeros(len(theta), dtype=np.uint8), np.zeros((1, qp.N_STATE))
    arguments = rows, theta, *vectors, low, live, np.array([0, len(theta)]), 0, 1, 1e-6, 50, 1000, states
    replay([arguments], qp.descend, compiled.qp.descend)
    copies = clone(arguments)
    compiled.qp.descend(*copies)
    assert copies[-1][0, qp.STATUS] == qp.INDEFINITE


@pytest.mark.parametrize("name", [*FORMS, "chains"])
def test_energies_and_their_systems(name):
    model, operators = (chains(form="definite"), None) if name == "chains" else bound(name)
    random = np.random.default_rng(0)
    w = model.project(random.standard_normal(model.n_weights))
    w[model.slices[3]] += 0.5

    def convex():
        QPObjective(model, C=4.0, operators=operators).value_and_gradient(w)

    def logistic():
        LogisticObjective(model, C=4.0, operators=operators).value_and_gradient(w)

    equal(convex, moments, "pair_moments", moments, at_least=0)
    equal(convex, moments, "energies", moments, at_least=0)
    equal(logistic, conjugate_gradients, "block_diagonal", conjugate_gradients)
    equal(logistic, conjugate_gradients, "solve_parts", conjugate_gradients, at_least=0)


def test_moments_of_pairs():
    for seed in range(5):
        random = np.random.default_rng(seed)
        graph, size = ms.Graph.grid(2, 3), 4
        x, y = random.random((2, 6, size)) * (random.random((2, 6, size)) < 0.6)
        states = random.integers(1, size + 1, size=6).astype(np.int32)
        indptr = np.concatenate([[0], np.cumsum(random.integers(0, 3, size=graph.n_edges))])
        indices, values = random.integers(3, size=indptr[-1]), random.normal(size=indptr[-1])
        out, weight = np.zeros((3, 2 * size, 2 * size)), random.random(graph.n_edges)
        arguments = x, y, graph.edges, states, indptr, indices, values, weight, 0, graph.n_edges, out
        replay([arguments], moments.pair_moments, compiled.moments.pair_moments)
        copies = clone(arguments)
        compiled.moments.pair_moments(*copies)
        assert copies[-1].any()
        same(copies[0], x)
