"""Algorithm 1 of Franc & Laskov 2011 and the subgradient algorithm: optimum, bounds, descent, limits, bad input."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from learning.lp_data import lp_objective
from reference.message_qp import solve_message_qp
from reference.structured_svm import enumerate_planes, solve_structured_svm

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError, UnsupportedProblemError
from maxsum.core.result import Termination
from maxsum.datasets import make_shape_sorter
from maxsum.datasets.made.shape_sorter import colour_codes
from maxsum.learning import LPObjective, MarginObjective, Subgradient, path
from maxsum.learning.dual.bundle import Bundle
from maxsum.learning.dual.dual_bound import DualBound
from maxsum.learning.dual.tree_bundle import TreeBundle
from maxsum.learning.learners.proximal_point import ProximalPoint
from maxsum.models import Codes, GraphModel, GraphSample

CASES = [
    ("triangle", 2, "general", True), ("triangle", 5, "general", True), ("complete", 3, "general", True),
    ("complete", 4, "associative", False), ("grid", 3, "general", False), ("lonely", 3, "supermodular", True),
    (["triangle", "none", "grid"], 3, "potts", False),
]  # fmt: skip


@pytest.fixture(scope="module")
def references():
    return {}


@pytest.mark.parametrize("slacks", ["trees", "n", "one"])
@pytest.mark.parametrize("form", ["chains", "factors"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_reaches_the_optimum_with_true_bounds(references, case, form, slacks):
    obj = lp_objective(*CASES[case])
    if case not in references:
        references[case] = solve_message_qp(obj)
    best = references[case].value
    tol = 2e-3 if slacks == "trees" else 1e-5
    result = ProximalPoint(tol=tol, max_iter=60, form=form, slacks=slacks).fit(obj)
    assert result.termination == Termination.converged
    assert result.lower_bound <= best * (1 + 1e-8) and result.objective >= best * (1 - 1e-8)
    assert result.objective <= best * (1 + 1.1 * tol)
    assert obj.cone.contains(result.weights)
    bound, messages = result.extra["bound"], result.extra["messages"]
    assert bound.check(result.weights, messages) == pytest.approx(result.objective, rel=1e-10)
    check = result.verify(obj)
    assert check.lower_bound == pytest.approx(result.lower_bound, rel=1e-9)
    assert check.objective <= result.objective * (1 + 1e-7)


@pytest.mark.parametrize("graph", ["chain", "tree", "none"])
def test_equals_exact_learning_on_trees(graph):
    obj = lp_objective(graph, 3)
    model = obj.model
    planes = [
        enumerate_planes(model.truth(j), 3, lambda y, j=j: model.feature(j, y), lambda t, y: float((t != y).sum()))
        for j in range(model.n_examples)
    ]
    best = solve_structured_svm(planes, obj.c).value
    for form in ("chains", "factors"):
        result = ProximalPoint(tol=1e-5, slacks="n", form=form).fit(obj)
        assert result.objective == pytest.approx(best, rel=2e-5)
        assert result.lower_bound <= best * (1 + 1e-9)


def test_as_published_without_a_proof(references):
    """One slack, no help between steps, each problem solved to a given gap, stopped by (15): the optimum, and no bound is claimed."""
    obj = lp_objective(*CASES[1])
    best = solve_message_qp(obj).value
    published = dict(slacks="one", polish=False, certify=False, lambda_0=2.0)
    result = ProximalPoint(**published, inner_tol=1e-5, eps=1e-4, inner=500).fit(obj)
    assert result.termination == Termination.stalled and "rule (15)" in result.message
    assert best * (1 - 1e-8) <= result.objective <= best * 1.01
    assert result.certificate is None and result.lower_bound <= 0 and result.relative_gap >= 1
    before, after = np.array(result.extra["steps"])[:, :2].T
    assert (after <= before * (1 + 1e-12)).all()
    rough, fine = (
        ProximalPoint(**published, inner_tol=tol, max_iter=2, inner=500).fit(obj).extra["steps"][0][4] for tol in (0.3, 1e-6)
    )
    assert rough < fine
    with pytest.raises(InvalidParameterError, match="inner_tol"):
        ProximalPoint(inner_tol=0.0).fit(obj)


def test_never_below_the_m3n_optimum():
    obj = lp_objective("complete", 3)
    exact = MarginObjective(obj.model, C=5.0)
    from maxsum.learning import CuttingPlane

    assert ProximalPoint(tol=1e-4, slacks="n").fit(obj).objective >= CuttingPlane(tol=1e-6).fit(exact).lower_bound


@pytest.mark.parametrize("slacks", ["trees", "n", "one"])
def test_every_step_descends_as_algorithm_1_promises(slacks):
    obj = lp_objective(ms.Graph.grid(4, 5), 3)
    result = ProximalPoint(tol=1e-4, max_iter=8, slacks=slacks, lambda_0=0.3, a=1.7).fit(obj)
    steps = result.extra["steps"]
    assert len(steps) >= 3
    for before, after, moved, *_ in steps:
        assert before - after >= moved - 1e-12 * before
    values = [steps[0][0]] + [after for _, after, *_ in steps]
    assert (np.diff(values) <= 0).all()
    scales = [scale for *_, scale, _ in steps]
    assert scales[0] == 0.3 and all(np.isclose(b / a, [1.0, 1.7, 1 / 1.7]).any() for a, b in pairwise(scales))


def test_the_rule_15_stops():
    obj = lp_objective("grid")
    result = ProximalPoint(tol=0.0, eps=1e-2, slacks="n", max_iter=100).fit(obj)
    assert result.termination == Termination.stalled and "(15)" in result.message
    *_, last = result.extra["steps"]
    assert last[2] <= 1e-2 and result.n_iter < 100


@pytest.mark.parametrize(
    "options",
    [dict(inner=10), dict(lambda_0=1e6, slacks="one", polish=False, inner=20), dict(inner=1, slacks="trees")],
    ids=str,
)
def test_the_rule_15_does_not_hold_where_nothing_was_solved(options):
    """Proximal problems that are too hard for ``inner`` evaluations leave null steps, which say nothing about the minimiser."""
    images, masks = make_shape_sorter(2, 12, 12, random_state=0)
    samples = [GraphSample(colour_codes(image, 2).ravel(), ms.Graph.grid(12, 12)) for image in images]
    model = GraphModel(features=Codes(64)).bind(samples, [np.ravel(mask) for mask in masks], list(range(6)))
    result = ProximalPoint(eps=1e-6, tol=1e-3, max_iter=8, **options).fit(LPObjective(model, C=0.5))
    assert result.termination == Termination.iteration_limit and "(15)" not in result.message
    assert [own for own in result.extra["steps"] if own[1] == own[0]], "there were null steps"
    if options["inner"] > 1:
        assert result.objective < 0.99 * 144, "after null steps lambda falls, and the objective with it"


def test_the_rule_15_is_about_the_minimiser_of_the_proximal_problem():
    """With many more evaluations the minimiser of the last problem is known well: the step to it satisfies the rule too."""
    obj, eps = lp_objective("grid"), 1e-3
    result = ProximalPoint(tol=0.0, eps=eps, slacks="n", max_iter=200, polish=False).fit(obj)
    assert result.termination == Termination.stalled and "(15)" in result.message
    *_, (before, after, moved, scale, _) = result.extra["steps"]
    assert after < before and moved <= eps
    short = ProximalPoint(tol=0.0, slacks="n", max_iter=result.n_iter - 1, polish=False).fit(obj)
    centre = short.extra["planes"].phi
    bound = DualBound(obj)
    bundle = Bundle(bound, "n")
    bundle.recentre(centre, scale)
    w, phi = np.zeros(obj.n_weights), centre
    for _ in range(300):
        bundle.add(bound.evaluate(w, phi), w, phi, 0.0)
        w, phi, _ = bundle.solve(1e-10)
    assert np.vdot(phi - centre, phi - centre) / scale <= eps * (1 + 1e-6)


@pytest.mark.parametrize("one", ["n", "one", "trees"])
def test_the_bundle_bounds_the_proximal_problem(one):
    obj = lp_objective("grid", 2)
    bound, random = DualBound(obj), np.random.default_rng(0)
    bundle = TreeBundle(bound) if one == "trees" else Bundle(bound, one)
    centre, scale = 0.1 * random.standard_normal(bound.zeros().shape), 0.7
    bundle.recentre(centre, scale)
    upper, lows = np.inf, []
    w, phi = np.zeros(obj.n_weights), centre
    for _ in range(60):
        point = bound.evaluate(w, phi)
        upper = min(upper, bound.primal(w, point.slack) + np.vdot(phi - centre, phi - centre) / scale)
        bundle.add(point, w, phi, 0.0)
        w, phi, low = bundle.solve(1e-8)
        lows.append(low)
        assert low <= upper * (1 + 1e-9)
    assert (np.diff(lows) >= -1e-7).all()
    assert upper - lows[-1] <= 1e-3 * upper
    for _ in range(20):
        v, psi = 0.3 * random.standard_normal(obj.n_weights), centre + 0.3 * random.standard_normal(centre.shape)
        value = bound.primal(v, bound.evaluate(v, psi).slack) + np.vdot(psi - centre, psi - centre) / scale
        assert lows[-1] <= value


def test_planes_are_small_and_old_ones_go():
    obj = lp_objective(ms.Graph.grid(4, 5), 3, n_examples=4)
    result = ProximalPoint(tol=1e-5, slacks="one", max_iter=15).fit(obj)
    bundle = result.extra["planes"].bundle
    assert bundle.turns.columns[1].dtype == np.int8
    assert len(bundle) < result.n_oracle_calls // 4
    assert len(bundle.keys) == len(bundle.offset) == len(bundle.turns) == bundle.rows.shape[0]


def test_path_starts_from_the_planes_before():
    obj = lp_objective("grid")
    for slacks in ("trees", "n"):
        learner = ProximalPoint(tol=2e-3, slacks=slacks)
        warm = path(learner, obj, [1.0, 4.0])
        for result, C in zip(warm, [1.0, 4.0], strict=True):
            obj.set_C(C)
            cold = learner.fit(obj)
            assert result.lower_bound <= cold.objective and cold.lower_bound <= result.objective
            assert result.relative_gap <= 2e-3
            result.verify(obj)


@pytest.mark.parametrize(
    "learner", [ProximalPoint(tol=0.0, slacks="trees"), ProximalPoint(tol=0.0, slacks="n"), Subgradient(tol=0.0)]
)
def test_limits_and_interrupts_leave_the_best(learner):
    from dataclasses import replace

    obj = lp_objective("grid")

    def interrupt(point):
        if point.iteration == 3:
            raise KeyboardInterrupt

    for result, why in [
        (learner.fit(obj, interrupt), Termination.interrupted),
        (replace(learner, time_limit=0.2).fit(obj), Termination.time_limit),
        (replace(learner, time_limit=1e-9).fit(obj), Termination.time_limit),
        (replace(learner, max_iter=2).fit(obj), Termination.iteration_limit),
    ]:
        assert result.termination == why
        bound = result.extra["bound"]
        assert bound.check(result.weights, result.extra["messages"]) == pytest.approx(result.objective, rel=1e-10)
        assert 0 <= result.lower_bound <= result.objective
        assert result.certificate.lower_bound(obj) == pytest.approx(result.lower_bound, rel=1e-9, abs=1e-12)


def test_checkpoint_goes_on(tmp_path):
    obj = lp_objective("grid")
    for learner in (ProximalPoint, Subgradient):
        file = tmp_path / learner.__name__
        first = learner(tol=1e-3, max_iter=2, checkpoint=file).fit(obj)
        second = learner(tol=1e-3, max_iter=10, checkpoint=file).fit(obj)
        assert second.objective <= first.objective
        assert second.extra["bound"].check(second.weights, second.extra["messages"]) == pytest.approx(
            second.objective, rel=1e-10
        )
        assert second.n_iter > first.n_iter
        assert second.certificate.lower_bound(obj) == pytest.approx(second.lower_bound, rel=1e-9)


def test_examples_of_very_different_size():
    obj = lp_objective([ms.Graph.grid(12, 15), "none", "triangle", ms.Graph.grid(1, 1)], 3, n_examples=4, C=1.0)
    result = ProximalPoint(tol=1e-2).fit(obj)
    assert result.relative_gap <= 1e-2
    result.verify(obj)


def test_subgradient_converges_with_true_bounds():
    obj = lp_objective("grid")
    best = solve_message_qp(obj).value
    result = Subgradient(tol=1e-3, max_iter=150).fit(obj)
    assert result.lower_bound <= best * (1 + 1e-9) and best <= result.objective * (1 + 1e-9)
    assert result.objective <= 1.05 * best and result.lower_bound >= 0.9 * best
    result.verify(obj)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (dict(lambda_0=0.0), "lambda_0"), (dict(lambda_0=-1), "lambda_0"), (dict(lambda_0=np.nan), "lambda_0"),
        (dict(a=1.0), "a is 1.0"), (dict(a=0.5), "a is 0.5"), (dict(eps=-1e-3), "eps"), (dict(form="rows"), "form"),
        (dict(slacks="two"), "slacks"), (dict(inner=0), "inner"), (dict(tol=-1), "tol"),
    ],
)  # fmt: skip
def test_bad_parameters(options, word):
    with pytest.raises(InvalidParameterError, match=word):
        ProximalPoint(**options).fit(lp_objective())


def test_other_objectives_are_refused():
    obj = lp_objective()
    with pytest.raises(UnsupportedProblemError, match="HasRelaxation"):
        ProximalPoint().fit(MarginObjective(obj.model))
    with pytest.raises(InvalidParameterError, match="step"):
        Subgradient(step_size=0.0).fit(obj)
    smooth = lp_objective(smoothing=0.1)
    for learner in (ProximalPoint(), Subgradient()):
        with pytest.raises(UnsupportedProblemError, match="smoothing"):
            learner.fit(smooth)


def test_forbidden_pairs_are_refused():
    from dataclasses import replace

    from maxsum.learning.objectives.lp import LPObjective
    from maxsum.models.bound import FORBIDDEN

    model = lp_objective("grid").model
    index = model.edge_index.copy()
    index[0, 0, 1] = FORBIDDEN
    hard = replace(model, edge_index=index)
    with pytest.raises(InvalidSampleError, match="-inf"):
        ProximalPoint().fit(LPObjective(hard))
    with pytest.raises(InvalidSampleError, match="-inf"):
        DualBound(MarginObjective(hard))


@pytest.mark.parametrize("slacks", ["trees", "n"])
def test_joint_features_and_nodes_of_two_types(slacks):
    from maxsum.learning.objectives.lp import LPObjective
    from maxsum.models import GraphModel, GraphSample
    from maxsum.models.joint_model import JointModel

    random = np.random.default_rng(0)
    graph = ms.Graph.from_edges([(0, 1), (1, 2), (2, 0)])

    def node(sample):
        return np.concatenate([np.kron(np.eye(2), row) for row in sample.X]) @ np.eye(4, 7)

    def edge(sample):
        cells = np.array([[k == 0 and m == 0, k != m, k == 1 and m == 1] for k in range(2) for m in range(2)], dtype=float)
        return np.tile(cells, (sample.graph.n_edges, 1)) @ np.eye(7)[4:]

    plain = [GraphSample(random.standard_normal((3, 2)), graph) for _ in range(2)]
    typed = [GraphSample(random.standard_normal((3, 2)), graph, node_types=np.array([0, 1, 0])) for _ in range(2)]
    joint = JointModel(node, edge, 7).bind(plain, [np.array([0, 1, 0]), np.array([1, 1, 0])])
    two = GraphModel().bind(typed, [np.array([0, 2, 1]), np.array([1, 0, 1])], classes=[np.arange(2), np.arange(3)])
    for model in (joint, two):
        obj = LPObjective(model, C=3.0)
        best = solve_message_qp(obj).value
        result = ProximalPoint(tol=2e-3, slacks=slacks).fit(obj)
        assert result.lower_bound <= best * (1 + 1e-8) and best <= result.objective * (1 + 1e-8)
        assert result.relative_gap <= 2e-3
        result.verify(obj)
