"""The kernels of message passing and search in C++ give the same bits as numba's, on what real runs pass to them."""

import numpy as np
import pytest
from factories.problems import dense, on_graph, random_messages, random_problem
from kernels.recording import recording, replay, same

import maxsum as ms
from maxsum.inference import TRWS, BranchAndBound, LocalSearch, TreeDP
from maxsum.inference.prepare import prepare
from maxsum.inference.relaxations.augmenting_dag import AugmentingDAG
from maxsum.inference.relaxations.table_forms import table_forms
from maxsum.kernels import _compiled_v3 as ours
from maxsum.kernels import (
    augmenting_dag,
    box,
    consistency,
    distance,
    enumeration,
    icm,
    local_search,
    persistency,
    search,
    second_order,
    tree,
    trws,
)
from maxsum.kernels.net import adjacency
from maxsum.kernels.trws_uniform import TURNED, uniform_sweep


def problems():
    """Small ones of all sorts: without edges, unequal, hard, with cliques, with weights; and a grid, where tables are shared."""
    yield random_problem(0, 1, 3)
    yield random_problem(1, 5, 3, density=0.0)
    for seed in range(12):
        hard = 0.15 * (seed % 3 == 0)
        options = dict(
            unequal=seed % 2 == 0, hard=hard, forbidden=hard, weights=(-1.0, 2.0) if seed % 4 == 1 and not hard else None
        )
        yield random_problem(seed, (4, 14), (2, 12), cliques=3 * (seed % 5 == 2), **options)
    rng = np.random.default_rng(1)
    for n_labels in (2, 3, 9):
        yield ms.Problem(ms.Graph.grid(6, 7), rng.normal(size=(42, n_labels)), rng.normal(size=(n_labels, n_labels)))


def feasible():
    return [problem for problem in problems() if prepare(problem).feasible]


def states(problem, seed=0):
    """The net, messages on the way of some solver, and a labelling."""
    rng = np.random.default_rng(seed)
    net, messages = prepare(problem).net, random_messages(problem, rng)
    labels = np.array([rng.integers(n) for n in net.n_states], dtype=np.int32)
    return net, messages, labels


def both(theirs, own, *args):
    replay([args], theirs, own)


def test_forests():
    rng = np.random.default_rng(0)
    for seed in range(20):
        n = int(rng.integers(1, 15))
        edges = [(int(rng.integers(v)), v)[:: 1 if rng.random() < 0.5 else -1] for v in range(1, n) if rng.random() < 0.8]
        hard = 0.2 * (seed % 3 == 0)
        problem = random_problem(
            seed, n, (1, 12), edges=edges, unequal=seed % 2 == 1, hard=hard, forbidden=hard, weights=(0.5, 2.0)
        )
        if not prepare(problem).feasible:
            continue
        net, messages, labels = states(problem, seed)
        both(tree.forest_order, ours.tree.forest_order, n, net.edges, net.ptr, net.adj_edge, net.adj_side)
        forest = tree.forest_order(n, net.edges, net.ptr, net.adj_edge, net.adj_side)
        bare = net._replace(turned=np.zeros((0, 0, 0)))
        n_trees = len(forest[3]) - 1
        for own in (net, bare):
            both(tree.solve_forest, ours.tree.solve_forest, own, *forest, 0, n_trees, True, messages.edge, labels)
            ranges = np.array([[0, n_trees // 2], [n_trees // 2, n_trees]])
            both(tree.solve_forests, ours.tree.solve_forests, own, *forest, ranges, bool(hard), messages.edge, labels)


def test_forests_of_real_runs():
    chain = ms.Graph.from_edges(np.stack([np.arange(49), np.arange(1, 50)], axis=1), 50)
    with recording("maxsum.kernels.tree", "solve_forest") as calls:
        TreeDP().solve(on_graph(chain, 7))
    assert calls
    replay(calls, tree.solve_forest, ours.tree.solve_forest)


@pytest.mark.parametrize("forward", [True, False])
def test_passes_and_labellings_by_conditioning(forward):
    for problem in feasible():
        net, messages, labels = states(problem)
        bare = net._replace(turned=np.zeros((0, 0, 0)))
        for own in (net, bare):
            for _ in range(3):
                both(trws.sweep, ours.trws.sweep, own, forward, messages.edge, messages.clique)
                both(trws.decode, ours.trws.decode, own, forward, messages.edge, messages.clique, labels)
                trws.sweep(own, forward, messages.edge, messages.clique)


def distances(n_labels):
    return np.abs(np.subtract.outer(np.arange(n_labels), np.arange(n_labels))).astype(float)


def banks(n_labels, rng):
    """Tables of every form, and of each alone."""
    width = max(2, n_labels // 2)
    d = distances(n_labels)
    one = [
        rng.normal(size=(n_labels, n_labels)),
        np.diag(rng.uniform(0, 1, n_labels)) - 0.2,
        -0.7 * np.minimum(d, width),
        -0.3 * np.minimum(d, width) ** 2,
        -(np.minimum(d, 2.0) ** 1.5),
    ]
    yield np.array(one)
    for table in one:
        yield table[None]


@pytest.mark.parametrize("n_labels", [*range(2, 34), 47, 48, 49, 63, 64, 65, 130])
def test_uniform_passes(n_labels):
    rng = np.random.default_rng(n_labels)
    rows, columns = 4, 5
    edges = np.ascontiguousarray(ms.Graph.grid(rows, columns).edges, dtype=np.int32)
    n, n_edges = rows * columns, len(edges)
    flat = edges.copy()
    turn = rng.random(n_edges) < 0.3
    flat[turn] = flat[turn][:, ::-1]
    ptr, adj_edge, adj_side = adjacency(n, flat)
    for tables in banks(n_labels, rng):
        forms = table_forms(tables, every=True)
        for weight in (np.ones(n_edges), rng.uniform(-0.5, 2.0, n_edges)):
            for turned in (True, False):
                needed = int(np.bitwise_or.reduce(forms.kind)) | (distance.GENERAL if weight.min() < 0 else 0)
                bank = tables.ravel()
                if turned:
                    if not needed & distance.GENERAL:
                        continue
                    needed |= TURNED
                    bank = np.concatenate([bank, tables.transpose(0, 2, 1).ravel()])
                table = rng.integers(len(tables), size=n_edges).astype(np.int32)
                unary = rng.normal(size=n * n_labels)
                arrays = (unary, flat.ravel(), table, weight, bank, *forms, ptr, adj_edge, adj_side, n_labels)
                first, second = (np.zeros(2 * n_edges * n_labels) for _ in range(2))
                for forward in (True, False, True):
                    for part in ((0, 1, 0, n, n),) if forward else ((0, 2, 0, columns, columns), (1, 4, 1, 3, columns)):
                        # one compilation for all numbers of labels; it does the same to each number
                        expected = uniform_sweep(0, needed)(*arrays, first, forward, *part)
                        found = ours.trws_uniform.uniform_sweep(*arrays, needed, second, forward, *part)
                        same(expected, found)
                        same(first, second)


def test_distance_transforms():
    rng = np.random.default_rng(0)
    for n_labels in (*range(1, 34), 200):
        for step in (0.0, 1e-300, 0.3, 50.0):
            own, out, work = rng.normal(size=n_labels), np.zeros(n_labels), np.zeros(n_labels)
            hull = np.zeros(n_labels, dtype=np.int64)
            args = (own, n_labels, step, 0.3, float(own.max() - rng.uniform(0, 5)), out, work)
            both(distance.linear, ours.distance.linear, *args)
            both(distance.quadratic, ours.distance.quadratic, *args, hull)


def test_constants():
    for name in ("GENERAL", "ASSOCIATIVE", "BAND", "LINEAR", "QUADRATIC"):
        assert getattr(ours.distance, name) == getattr(distance, name)
    for name in ("BUDGET", "CONSISTENT", "ROUNDED"):
        assert getattr(ours.augmenting_dag, name) == getattr(augmenting_dag, name)
    assert ours.trws_uniform.TURNED == TURNED
    assert ours.box.fields_of_Box == box.Box._fields
    assert ours.enumeration.fields_of_Enumeration == enumeration.Enumeration._fields
    assert ours.augmenting_dag.fields_of_Dag == augmenting_dag.Dag._fields


def test_conditional_modes_and_scores():
    for seed, problem in enumerate(feasible()):
        net, _, labels = states(problem, seed)
        for max_iter in (0, 1, 10):
            both(icm.icm_sweeps, ours.icm.icm_sweeps, net, labels, max_iter)
        both(local_search.total_score, ours.local_search.total_score, net, labels)


def test_arc_consistency():
    rng = np.random.default_rng(0)
    empty = 0
    for seed in range(60):
        problem = random_problem(seed, (3, 12), (2, 6), unequal=seed % 2 == 0, hard=0.45, forbidden=0.1)
        net = prepare(problem).net
        domain = (rng.random(net.unary.shape) < 0.9).astype(np.uint8)
        queue, queued = np.zeros(problem.n_nodes, dtype=np.int32), rng.integers(0, 2, problem.n_nodes).astype(np.uint8)
        for start_all in (True, False):
            both(consistency.arc_consistency, ours.consistency.arc_consistency, net, domain, queue, queued, start_all)
        empty += not ours.consistency.arc_consistency(net, domain, queue, queued, True)
    assert 5 < empty < 55


def test_forest_moves():
    for seed, problem in enumerate(feasible()):
        with recording("maxsum.inference.moves.local_search", "forest_moves") as calls:
            LocalSearch(max_iter=50, random_state=seed).solve(problem)
        replay(calls, local_search.forest_moves, ours.local_search.forest_moves)
        for net, *_, state, _, _, _, work in calls[:1]:
            order, touch, frontier, _, up, _, _ = work
            both(local_search.grow_forest, ours.local_search.grow_forest, net, state, order, touch, up, frontier)
            bare = net._replace(turned=np.zeros((0, 0, 0)))
            both(local_search.forest_moves, ours.local_search.forest_moves, bare, *calls[0][1:])


SEARCH = "maxsum.kernels.search"


def searched():
    """Problems that messages alone do not solve: normal scores, hard constraints, cliques, and a colouring without scores."""
    for seed in range(3):
        yield dense(12 + seed, 6, seed)
        yield random_problem(seed, 14, 5, density=0.7, unequal=True, hard=0.15, forbidden=0.05)
        yield random_problem(seed, 10, 4, density=0.6, cliques=4)
    rng = np.random.default_rng(0)
    pairs = np.stack(np.triu_indices(30, 1), axis=1)
    graph = ms.Graph.from_edges(pairs[rng.random(len(pairs)) < 0.25], 30)
    yield ms.Problem(graph, np.zeros((30, 4)), np.where(np.eye(4, dtype=bool), -np.inf, 0.0))


def test_boxes_of_the_exact_search():
    n_visits, n_probes, n_enumerated = 0, 0, 0
    for problem in searched():
        with (
            recording(SEARCH, "visit", 8) as visits,
            recording(SEARCH, "shrink", 4) as shrinks,
            recording(SEARCH, "probe", 4) as probes,
            recording(SEARCH, "choose", 4) as choices,
        ):
            BranchAndBound(max_nodes=30).solve(problem)
        replay(visits, search.visit, ours.search.visit)
        replay(shrinks, search.shrink, ours.search.shrink)
        replay(probes, search.probe, ours.search.probe)
        replay(choices, search.choose, ours.search.choose)
        for net, domain, *_ in choices[:2]:
            for v in range(problem.n_nodes):
                both(search.middle, ours.search.middle, net, domain, v)
        n_visits, n_probes = n_visits + len(visits), n_probes + len(probes)
        for net, base, domain, messages, cliques, limits, scratch, room, labels in visits:
            both(search.restrict, ours.search.restrict, net, base, domain)
            slack, queue, queued, hard, own = scratch
            height = search.shrink(net, base, domain, messages, cliques, limits[0], slack, queue, queued, hard, own)
            if height == -np.inf or len(problem.cliques):
                continue
            both(box.tighten, ours.box.tighten, net, domain, messages, height, limits[0], 6, 0.01, own, labels)
            both(box._pack, ours.box.pack, net, domain, messages, own)
            box._pack(net, domain, messages, own)
            for forward in (True, False):
                arrays = (net.unary, net.edges, net.ptr, net.adj_edge, net.adj_side)
                both(box._packed_sweep, ours.box.packed_sweep, *arrays, own, forward)
                box._packed_sweep(*arrays, own, forward)
            both(box._unpack, ours.box.unpack, net, messages, own)
            if own.size.sum() <= room.loss.shape[1]:
                for limit in (3, 500):
                    n_enumerated += 1
                    args = (net, messages, slack, own, room, height - limits[0], limits[1], limit, labels)
                    both(enumeration.enumerate_box, ours.enumeration.enumerate_box, *args)
    assert n_visits > 20 and n_probes and n_enumerated > 10


def test_losses_of_boxes():
    for problem in feasible():
        with recording("maxsum.inference.relaxations.trws", "box_losses") as calls:
            TRWS(max_iter=20).solve(problem)
        replay(calls, persistency.box_losses, ours.persistency.box_losses)
        if problem.n_edges:
            net, messages, labels = states(problem)
            domain = np.random.default_rng(0).integers(0, 2, net.unary.shape).astype(np.uint8)
            domain[np.arange(len(labels)), labels] = 1
            arrays = (net.edges, net.edge_table, net.edge_weight, net.tables, net.ptr, net.adj_edge, net.adj_side)
            if np.isfinite(net.unary).all() and np.isfinite(net.tables).all():
                args = (net.unary, *arrays, messages.edge, domain, labels, np.zeros(net.unary.shape))
                both(persistency.box_losses, ours.persistency.box_losses, *args)


def test_second_order_chains():
    rng = np.random.default_rng(0)
    for n_tags in (1, 2, 3, 5, 8, 9, 17):
        n, n_features = 20, 6
        head = np.zeros(n, dtype=bool)
        head[[0, 1, 4, 9, 11, 19]] = True
        counts = rng.integers(0, 4, n)
        x_ptr = np.concatenate([[0], counts.cumsum()]).astype(np.int64)
        x_col = rng.integers(0, n_features, x_ptr[-1]).astype(np.int32)
        x_val = rng.normal(size=x_ptr[-1])
        nodes, pairs = rng.normal(size=(n_features, n_tags)), rng.normal(size=(n_tags, n_tags))
        triples = rng.normal(size=(n_tags, n_tags, n_tags))
        ranges = np.array([[0, 9], [9, 11], [11, 20]])
        for whole in (False, True):
            if whole:
                nodes, pairs, triples, x_val = (np.round(part) for part in (nodes, pairs, triples, x_val))
            for loss in (np.zeros((0, n_tags)), rng.integers(0, 2, (n, n_tags)).astype(float)):
                work = (np.zeros((11, n_tags, n_tags)), np.zeros((11, n_tags)), np.zeros(n, dtype=np.int32))
                args = (ranges, head, x_ptr, x_col, x_val, nodes, pairs, triples, loss, *work)
                both(second_order.solve_pairs, ours.second_order.solve_pairs, *args)


def test_augmenting_dag():
    n_steps = 0
    for seed, problem in enumerate(feasible()):
        if len(problem.cliques):
            continue
        net, messages, _ = states(problem, seed)
        dag = augmenting_dag.scratch(problem.n_nodes, problem.n_edges, problem.n_labels)
        both(augmenting_dag.refresh, ours.augmenting_dag.refresh, net, messages.edge, dag)
        augmenting_dag.refresh(net, messages.edge, dag)
        masks = (np.zeros(net.unary.shape, dtype=bool), np.zeros((problem.n_edges, *net.tables.shape[1:]), dtype=bool))
        for epsilon in (1.0, 0.1, 1e-3):
            both(augmenting_dag.descend, ours.augmenting_dag.descend, net, messages.edge, epsilon, 20, dag)
            for _ in range(10):
                n_steps += 1
                both(augmenting_dag.propagate, ours.augmenting_dag.propagate, net, messages.edge, epsilon, dag)
                node, size = augmenting_dag.propagate(net, messages.edge, epsilon, dag)
                both(augmenting_dag.maximal_pairs, ours.augmenting_dag.maximal_pairs, net, messages.edge, epsilon, dag, *masks)
                if node < 0:
                    break
                both(augmenting_dag.direct, ours.augmenting_dag.direct, net, messages.edge, epsilon, dag, node, size)
                n_touched = augmenting_dag.direct(net, messages.edge, epsilon, dag, node, size)
                both(augmenting_dag.advance, ours.augmenting_dag.advance, net, messages.edge, dag, node, size, n_touched)
                augmenting_dag.advance(net, messages.edge, dag, node, size, n_touched)
        with recording("maxsum.kernels.augmenting_dag", "descend", 5) as calls:
            AugmentingDAG(max_iter=100).solve(problem)
        replay(calls, augmenting_dag.descend, ours.augmenting_dag.descend)
    assert n_steps > 50
