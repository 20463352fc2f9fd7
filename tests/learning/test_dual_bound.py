"""The dual bound against enumeration of its trees and against the linear programme."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from learning.lp_data import GRAPHS, lp_objective
from reference.lp_m3n import local_examples, relaxed_slack
from scipy.optimize import linprog

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.learning.dual.dual_bound import DualBound

FORMS = ["chains", "factors"]


def enumerated(bound, w, phi, j):
    """The bound of one example by every labelling of each of its trees; scores from the model, not from kernels."""
    copies, model, data = bound.copies, bound.model, bound.model.data
    unary, tables = model.unary(w) + bound.objective.loss_table, model.tables(w)
    extra = np.zeros((len(copies.owner), model.n_labels))
    for r in range(bound.n_messages):
        extra[copies.free[r]] += phi[r]
        extra[copies.last[r]] -= phi[r]
    total = -model.feature(j, model.truth(j)) @ w
    for tree in range(copies.tree_ptr[j], copies.tree_ptr[j + 1]):
        own = range(int(copies.starts[tree]), int(copies.starts[tree + 1]))
        edges = [e for e in range(len(data.edges)) if copies.edges[e, 0] in own]
        assert len(edges) == len(own) - 1
        best = -np.inf
        for labels in itertools.product(*(range(int(data.n_states[copies.owner[i]])) for i in own)):
            at = dict(zip(own, labels, strict=True))
            score = sum(copies.share[i] * unary[copies.owner[i], at[i]] + extra[i, at[i]] for i in own)
            for e in edges:
                a, b = copies.edges[e]
                score += tables.edge_weight[e] * tables.bank[tables.edge_table[e], at[a], at[b]]
            best = max(best, score)
        total += best
    return total


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("graph", list(GRAPHS))
def test_value_against_enumeration(graph, form):
    obj = lp_objective(graph, n_labels=2 if graph == "grid" else 3)
    bound, random = DualBound(obj, form), np.random.default_rng(0)
    for _ in range(3):
        w, phi = random.standard_normal(obj.n_weights), random.standard_normal(bound.zeros().shape)
        point = bound.evaluate(w, phi)
        for j in range(obj.n_examples):
            assert point.slack[j] == pytest.approx(enumerated(bound, w, phi, j), rel=1e-12)
        assert bound.check(w, phi) == pytest.approx(bound.primal(w, point.slack), rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_every_edge_once_and_shares_sum_to_one(form):
    obj = lp_objective(list(GRAPHS), n_examples=len(GRAPHS))
    copies = DualBound(obj, form).copies
    total = np.bincount(copies.owner, weights=copies.share, minlength=len(obj.design.truth))
    assert total == pytest.approx(1.0)
    assert (copies.owner[copies.edges] == obj.design.edges).all()
    assert (copies.owner[copies.free] == copies.owner[copies.last]).all()


def test_a_grid_is_cut_into_rows_and_columns():
    obj = lp_objective(ms.Graph.grid(3, 4), n_examples=1)
    copies = DualBound(obj).copies
    assert np.bincount(np.diff(copies.starts)).tolist() == [0, 0, 0, 4, 3]
    assert (copies.share == 0.5).all() and len(copies.free) == 12


@pytest.mark.parametrize("form", FORMS)
def test_planes_touch_the_bound_and_stay_below(form):
    obj = lp_objective(["complete", "grid", "lonely"])
    bound, random = DualBound(obj, form, n_jobs=2), np.random.default_rng(1)
    points = [(random.standard_normal(obj.n_weights), random.standard_normal(bound.zeros().shape)) for _ in range(4)]
    for w, phi in points:
        point = bound.evaluate(w, phi)
        for j in range(obj.n_examples):
            cut = bound.cut(j, point.labels)
            assert (cut.plus != cut.minus).all() and cut.plus.dtype == np.int8
            for v, psi in points:
                value = cut.offset - v @ cut.z + (psi[cut.row, cut.plus] - psi[cut.row, cut.minus]).sum()
                slack = bound.evaluate(v, psi).slack[j]
                assert value <= slack + 1e-10
                if v is w:
                    assert value == pytest.approx(slack, rel=1e-12)
        grad, turn = bound.subgradient(w, point.labels)
        for v, psi in points:
            low = bound.primal(w, point.slack) + grad @ (v - w) + np.vdot(turn, psi - phi)
            assert low <= bound.primal(v, bound.evaluate(v, psi).slack) + 1e-9


def least(bound, w, j):
    """The least bound of one example over the messages, by a linear programme over all labellings of all trees."""
    copies, size = bound.copies, bound.model.n_labels
    rows = np.arange(copies.row_ptr[j], copies.row_ptr[j + 1])
    trees = range(int(copies.tree_ptr[j]), int(copies.tree_ptr[j + 1]))
    n_phi, n_trees = len(rows) * size, len(trees)
    zero = bound.zeros()
    matrix, right = [], []
    unary, tables = bound.model.unary(w) + bound.objective.loss_table, bound.model.tables(w)
    for number, tree in enumerate(trees):
        own = range(int(copies.starts[tree]), int(copies.starts[tree + 1]))
        edges = [e for e in range(len(copies.edges)) if copies.edges[e, 0] in own]
        for labels in itertools.product(range(size), repeat=len(own)):
            at = dict(zip(own, labels, strict=True))
            score = sum(copies.share[i] * unary[copies.owner[i], at[i]] for i in own)
            score += sum(
                tables.edge_weight[e] * tables.bank[tables.edge_table[e], at[copies.edges[e, 0]], at[copies.edges[e, 1]]]
                for e in edges
            )
            row = np.zeros(n_phi + n_trees)
            for place, r in enumerate(rows):
                if copies.free[r] in at:
                    row[place * size + at[copies.free[r]]] += 1.0
                if copies.last[r] in at:
                    row[place * size + at[copies.last[r]]] -= 1.0
            row[n_phi + number] = -1.0
            matrix.append(row)
            right.append(-score)
    cost = np.concatenate([np.zeros(n_phi), np.ones(n_trees)])
    answer = linprog(cost, A_ub=np.array(matrix), b_ub=np.array(right), bounds=(None, None), method="highs")
    assert answer.status == 0
    phi = zero.copy()
    phi[rows] = answer.x[:n_phi].reshape(len(rows), size)
    return answer.fun - bound.model.feature(j, bound.model.truth(j)) @ w, phi


@pytest.mark.parametrize(("graph", "n_labels"), [("triangle", 5), ("complete", 3), ("complete", 2), ("grid", 2), ("lonely", 4)])
@pytest.mark.parametrize("repulsive", [False, True])
def test_both_forms_reach_the_linear_programme(graph, n_labels, repulsive):
    obj = lp_objective(graph, n_labels, n_examples=1)
    w = 2.0 * np.random.default_rng(n_labels).standard_normal(obj.n_weights)
    w[-(n_labels**2) :] = (-3.0 if repulsive else 3.0) * np.eye(n_labels).ravel()
    expected = relaxed_slack(local_examples(obj.model)[0], w)
    for form in FORMS:
        bound = DualBound(obj, form)
        value, phi = least(bound, w, 0)
        assert value == pytest.approx(expected, abs=1e-7)
        assert bound.evaluate(w, phi).slack[0] == pytest.approx(expected, abs=1e-6)


def test_different_numbers_of_labels():
    from maxsum.models import GraphModel, GraphSample

    random = np.random.default_rng(0)
    graph = GRAPHS["triangle"]
    samples = [GraphSample(random.standard_normal((3, 2)), graph, node_types=np.array([0, 1, 0])) for _ in range(2)]
    model = GraphModel().bind(samples, [np.array([0, 2, 1]), np.array([1, 0, 1])], classes=[np.arange(2), np.arange(3)])
    from maxsum.learning.objectives.lp import LPObjective

    obj = LPObjective(model, C=2.0)
    for form in FORMS:
        bound = DualBound(obj, form)
        w, phi = random.standard_normal(obj.n_weights), random.standard_normal(bound.zeros().shape)
        point = bound.evaluate(w, phi)
        assert (point.labels < obj.model.data.n_states[bound.copies.owner]).all()
        assert bound.check(w, phi) == pytest.approx(bound.primal(w, point.slack), rel=1e-12)
        found = bound.marginals([point.labels], np.full((1, 2), 0.7))
        assert found.certificate().lower_bound(obj) == pytest.approx(found.dual, rel=1e-12, abs=1e-12)


def test_bad_input():
    obj = lp_objective()
    with pytest.raises(InvalidParameterError, match="form"):
        DualBound(obj, "stars")
    bound = DualBound(obj)
    with pytest.raises(InvalidSampleError, match="messages have shape"):
        bound.evaluate(np.zeros(obj.n_weights), np.zeros((1, 1)))
    with pytest.raises(InvalidSampleError, match="messages have shape"):
        bound.evaluate(np.zeros(obj.n_weights), bound.zeros() * np.nan)
    obj.design.x_val[0] = -np.inf
    with pytest.raises(InvalidSampleError, match="-inf"):
        DualBound(obj)
