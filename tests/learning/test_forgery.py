"""What a forger can do to a proof of learning: every way that was tried, and that none of them passes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from reference.seeds import seeds

import maxsum as ms
from maxsum.core.errors import CertificateError, CheckTimeout
from maxsum.learning import (
    BlockFrankWolfe,
    CompactQP,
    CuttingPlane,
    LikelihoodObjective,
    LPObjective,
    MarginObjective,
    MaximumLikelihood,
    ProjectedQuasiNewton,
    QPObjective,
    SmoothedLP,
    TrivialObjective,
)
from maxsum.learning.certificate import DualCertificate
from maxsum.learning.oracles.relaxed import Relaxed
from maxsum.models import Convex, GraphModel, GraphSample

TRIANGLE = ms.Graph.from_edges([(0, 1), (1, 2), (2, 0)])


def bound(graph=None, n_examples=5, n_labels=3, seed=0, potentials="general"):
    random = np.random.default_rng(seed)
    graph = ms.Graph.chain(4) if graph is None else graph
    samples, labels = [], []
    for _ in range(n_examples):
        y = (np.arange(graph.n_nodes) + random.integers(n_labels, size=graph.n_nodes) // 2) % n_labels
        samples.append(GraphSample(np.eye(n_labels)[y] + 0.9 * random.standard_normal((graph.n_nodes, n_labels)), graph))
        labels.append(y)
    return GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels))


def typed():
    """Nodes of two types, with 3 and 2 classes: the second type lacks label 2."""
    random = np.random.default_rng(3)
    samples, labels = [], []
    for _ in range(4):
        types = np.array([0, 1, 0, 1])
        samples.append(GraphSample(random.standard_normal((4, 2)), ms.Graph.chain(4), node_types=types))
        labels.append([int(random.integers(3 - t)) for t in types])
    return GraphModel().bind(samples, labels, classes=[np.arange(3), np.arange(2)])


def margin(**options):
    objective = MarginObjective(bound(**options), C=5.0)
    return objective, BlockFrankWolfe(tol=1e-6).fit(objective)


def lp():
    objective = LPObjective(bound(TRIANGLE), C=5.0)
    return objective, BlockFrankWolfe(tol=1e-6, max_iter=300).fit(objective)


def smooth(kind):
    if kind == "qp":
        objective = QPObjective(Convex().bind(bound()), C=5.0)
        return objective, ProjectedQuasiNewton(tol=1e-5).fit(objective)
    if kind == "smoothed":
        objective = LPObjective(bound(TRIANGLE), C=5.0 / 3, smoothing=0.3)
        return objective, SmoothedLP(tol=1e-5).fit(objective)
    objective = LikelihoodObjective(
        bound(TRIANGLE if "loopy" in kind else None), C=5.0, max_cells=0 if kind == "loopy bound" else 2**15
    )
    return objective, MaximumLikelihood(tol=1e-6).fit(objective)


SMOOTH = ["qp", "smoothed", "likelihood", "loopy likelihood", "loopy bound"]


# ---- (3) forged planes ---------------------------------------------------------------------------------------------


def test_a_trivial_plane_of_the_true_label_proves_nothing():
    model = bound(n_examples=1, n_labels=2)
    objective = TrivialObjective(model, C=5.0)
    best = CuttingPlane(tol=1e-6).fit(objective)
    truth = model.truth(0)
    for key in ([0, truth[0], -1], [0, truth[0], truth[1]]):
        forged = DualCertificate(np.array([0]), (np.array(key),), objective.c.copy(), np.zeros(0))
        with pytest.raises(CertificateError, match="true"):
            forged.verify(objective, best.weights)
    assert best.verify(objective).gap <= 1e-5 * best.objective


@pytest.mark.parametrize(
    "key",
    [
        [9, 0, -1], [-2, 0, -1], [0, 5, -1], [0, -3, -1], [7, 0, 0], [0, 5, 0], [0, 0, 5], [0, 0, -2], [0, 0], [0.0, 1.0, -1.0], "abc", None,
        [[0, 1, -1]],
    ],
)  # fmt: skip
def test_trivial_keys_that_name_nothing_are_refused(key):
    objective = TrivialObjective(bound(n_labels=3), C=5.0)
    forged = DualCertificate(np.array([1]), (np.array(key),), np.array([0.1]), np.zeros(0))
    with pytest.raises(CertificateError):
        forged.lower_bound(objective)


@pytest.mark.parametrize("examples", [[-2], [5], [99], [0.0], [[0]], [True], None, ["a"]])
def test_numbers_of_examples_that_are_not_there_are_refused(examples):
    objective, result = margin()
    key = result.certificate.keys[0]
    forged = DualCertificate(np.array(examples), (key,), np.array([0.1]), np.zeros(0))
    with pytest.raises(CertificateError):
        forged.lower_bound(objective)


@pytest.mark.parametrize(
    "key",
    [
        [0, 1, 2, 3],
        [0, 1, 2, -1],
        [0, 1, 2],
        [0, 1, 2, 0, 0],
        [0.0, 1.0, 2.0, 0.0],
        [[0, 1, 2, 0]],
        "labels",
        None,
        [True] * 4,
        [2**40] * 4,
    ],
)
def test_labellings_that_are_none_are_refused(key):
    objective, _ = margin()
    forged = DualCertificate(np.array([0]), (np.array(key),), np.array([0.1]), np.zeros(0))
    with pytest.raises(CertificateError):
        forged.lower_bound(objective)


def test_labels_that_a_node_type_lacks_are_refused():
    model = typed()
    honest, forged = np.array([0, 1, 2, 0]), np.array([0, 2, 2, 0])
    for objective in (MarginObjective(model), LPObjective(model), TrivialObjective(model)):
        keys = [(honest, True), (forged, False)]
        if isinstance(objective, TrivialObjective):
            other = 1 - int(model.truth(0)[1])
            keys = [(np.array([1, other, -1]), True), (np.array([1, 2, -1]), False), (np.array([0, 0, 2]), False)]
        for key, sound in keys:
            certificate = DualCertificate(np.array([0]), (key,), np.array([0.1]), np.zeros(0))
            if sound:
                assert np.isfinite(certificate.lower_bound(objective))
            else:
                with pytest.raises(CertificateError):
                    certificate.lower_bound(objective)


def test_pairs_of_labels_that_a_model_forbids_are_refused():
    net = ms.SequenceLabeler(order=2, C=2.0).fit([[[0.5], [1.0], [0.2]]] * 2, [["a", "b", "a"]] * 2)
    objective = net.objective_
    truth = objective.model.truth(0)
    forged = truth.copy()
    forged[1] = 2 * (1 - truth[0] % 2) + truth[1] % 2
    with pytest.raises(CertificateError, match="forbids"):
        DualCertificate(np.array([0]), (forged,), np.array([0.1]), np.zeros(0)).lower_bound(objective)


def relaxed_key(objective, j=0):
    size, ends = objective.model.n_labels, objective.model.data.graphs[j].edges
    node = np.full((objective.model.data.graphs[j].n_nodes, size), 1.0 / size)
    return Relaxed.of(ends, node, np.full((len(ends), size, size), 1.0 / size**2))


@pytest.mark.parametrize(
    "change",
    [
        lambda key: replace(key, node=-key.node),
        lambda key: replace(key, node=key.node * np.nan),
        lambda key: replace(key, node=key.node * 1.01),
        lambda key: replace(key, node=key.node[:, :2]),
        lambda key: replace(key, node=key.node[:1]),
        lambda key: replace(key, edge=-key.edge),
        lambda key: replace(key, edge=key.edge * np.inf),
        lambda key: replace(key, edge=key.edge * 1.01),
        lambda key: replace(key, edge=key.edge[:, :2]),
        lambda key: replace(key, edge=np.eye(3)[None] / 3 + 0 * key.edge, node=np.array([[0.5, 0.5, 0.0]] * 3)),
        lambda key: replace(key, nodes=key.nodes - 1),
        lambda key: replace(key, nodes=key.nodes + 7),
        lambda key: replace(key, nodes=key.nodes[::-1]),
        lambda key: replace(key, nodes=key.nodes.astype(float)),
        lambda key: replace(key, edges=key.edges + 7),
        lambda key: replace(key, edges=key.edges * 0),
        lambda key: replace(key, labels=key.labels + 9),
        lambda key: replace(key, labels=key.labels[:-1]),
        lambda key: replace(key, labels=None),
        lambda key: replace(key, edge=None),
        lambda key: replace(key, node=key.node.astype(object)),
    ],
)
def test_pseudo_marginals_that_are_none_are_refused(change):
    objective = LPObjective(bound(TRIANGLE), C=5.0)
    key = relaxed_key(objective)
    alpha = objective.c[:1] * 0.5
    assert np.isfinite(DualCertificate(np.array([0]), (key,), alpha, np.zeros(0)).lower_bound(objective))
    with pytest.raises(CertificateError):
        DualCertificate(np.array([0]), (change(key),), alpha, np.zeros(0)).lower_bound(objective)


def test_pseudo_marginals_on_labels_that_are_not_there_are_refused():
    objective = LPObjective(typed())
    key = relaxed_key(objective)
    with pytest.raises(CertificateError, match="does not have"):
        DualCertificate(np.array([0]), (key,), np.array([0.1]), np.zeros(0)).lower_bound(objective)


def test_relaxed_keys_prove_nothing_about_the_margin():
    """They bound the linear relaxation, whose optimum may lie above."""
    objective = MarginObjective(bound(TRIANGLE), C=5.0)
    with pytest.raises(CertificateError):
        DualCertificate(np.array([0]), (relaxed_key(objective),), np.array([0.1]), np.zeros(0)).lower_bound(objective)


def test_a_proof_names_the_objectives_that_it_is_about():
    model = bound(TRIANGLE)
    relaxation, exact = LPObjective(model, C=5.0), MarginObjective(model, C=5.0)
    result = CompactQP(tol=1e-6).fit(relaxation)
    assert result.verify(relaxation).gap <= 1e-4 * result.objective
    for other in (exact, TrivialObjective(model), LikelihoodObjective(model)):
        with pytest.raises(CertificateError, match="proves nothing about"):
            result.certificate.verify(other, np.zeros(other.n_weights))
    likely = LikelihoodObjective(model)
    found = MaximumLikelihood(tol=1e-3).fit(likely)
    with pytest.raises(CertificateError, match="proves nothing about"):
        found.certificate.verify(exact, found.weights)
    planes = BlockFrankWolfe().fit(exact)
    with pytest.raises(CertificateError, match="proves nothing about"):
        planes.certificate.verify(likely, planes.weights)
    assert planes.certificate.lower_bound(relaxation) <= result.objective


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": lambda c: -c.alpha}, {"alpha": lambda c: c.alpha * np.nan}, {"alpha": lambda c: 3 * c.alpha}, {"alpha": lambda c: c.alpha[:-1]},
        {"alpha": lambda c: c.alpha[:, None]}, {"alpha": lambda c: c.alpha.astype(object)}, {"alpha": lambda c: None},
        {"mu": lambda c: c.mu - 1}, {"mu": lambda c: c.mu[:-1]}, {"mu": lambda c: np.full_like(c.mu, np.inf)}, {"mu": lambda c: "mu"},
        {"keys": lambda c: c.keys[:-1]}, {"keys": lambda c: None}, {"keys": lambda c: (None,) * len(c.keys)},
        {"examples": lambda c: c.examples[:-1]}, {"examples": lambda c: c.examples + 5}, {"examples": lambda c: c.examples.astype(str)},
    ],
)  # fmt: skip
def test_malformed_proofs_raise_certificate_errors(change):
    objective, result = margin(potentials="associative")
    name, make = next(iter(change.items()))
    with pytest.raises(CertificateError):
        replace(result.certificate, **{name: make(result.certificate)}).verify(objective, result.weights)


@pytest.mark.parametrize("kind", SMOOTH)
def test_malformed_points_raise_certificate_errors(kind):
    objective, result = smooth(kind)
    proof = result.certificate
    for points, alpha in [
        ((np.zeros(3),), np.ones(1)), ((np.full(objective.n_weights, np.nan),), np.ones(1)), ((), np.zeros(0)), (proof.points, -proof.alpha),
        (proof.points, 2 * proof.alpha), (proof.points, None), (None, proof.alpha), (("a",), np.ones(1)), (proof.points, proof.alpha[:, None]),
    ]:  # fmt: skip
        with pytest.raises(CertificateError):
            replace(proof, points=points, alpha=alpha).verify(objective, result.weights)


@pytest.mark.parametrize("weights", [None, "w", [1.0], [[np.nan]], "nan", "outside"])
def test_weights_that_are_none_are_refused(weights):
    objective, result = margin(potentials="associative")
    given = (
        {"nan": result.weights * np.nan, "outside": result.weights - 100.0}.get(weights, weights)
        if isinstance(weights, str)
        else weights
    )
    with pytest.raises(CertificateError):
        result.certificate.verify(objective, given)


# ---- bounds are never above the truth ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(20))
def test_any_numbers_prove_a_bound_below_the_optimum(seed):
    """Random planes, multipliers and scales: whatever is accepted lies below what a learner reaches."""
    random = np.random.default_rng(seed)
    kind = (MarginObjective, LPObjective, TrivialObjective)[seed % 3]
    objective = kind(bound(TRIANGLE if seed % 2 else None, seed=seed), C=float(10.0 ** random.integers(-3, 4)))
    best = CuttingPlane(tol=1e-5).fit(objective).objective
    data = objective.model.data
    for _ in range(30):
        n = int(random.integers(1, 8))
        examples = random.integers(objective.n_examples, size=n)
        if kind is TrivialObjective:
            keys = tuple(objective.ask(random.standard_normal(objective.n_weights)).keys[j] for j in examples)
        else:
            keys = tuple(random.integers(3, size=data.node_ptr[j + 1] - data.node_ptr[j]) for j in examples)
        alpha = random.random(n) * objective.c[examples] / n * 10.0 ** random.integers(-3, 1)
        assert DualCertificate(examples, keys, alpha, np.zeros(0)).lower_bound(objective) <= best * (1 + 1e-9)


def test_multipliers_that_are_slightly_too_large_are_scaled_into_place():
    objective, result = margin()
    for factor in (1 + 1e-15, 1 + 1e-9, 1 + 9e-7):
        found = replace(result.certificate, alpha=result.certificate.alpha * factor).lower_bound(objective)
        assert found == pytest.approx(result.lower_bound, rel=1e-5) and found <= result.objective


# ---- (4) every claim is compared -----------------------------------------------------------------------------------


def results():
    yield "margin", margin
    yield "lp", lp
    for kind in SMOOTH:
        yield kind, lambda kind=kind: smooth(kind)


@pytest.mark.parametrize(("name", "make"), list(results()))
def test_honest_results_hold_and_false_claims_do_not(name, make):
    objective, result = make()
    found = result.verify(objective)
    assert found.lower_bound <= found.objective and found.checked and found.guarantee == result.guarantee
    for changes in (
        {"objective": result.objective * 0.999}, {"lower_bound": result.lower_bound + 0.9 * result.gap + 1e-6 * result.objective},
        {"objective": 1e-6, "lower_bound": 1e-6}, {"weights": np.zeros_like(result.weights)}, {"weights": result.weights * 1.01},
    ):  # fmt: skip
        with pytest.raises(CertificateError):
            replace(result, **changes).verify(objective)


def test_gap_and_guarantee_must_follow_from_what_is_proven():
    objective, result = margin()
    honest = dict(objective=result.objective, lower_bound=result.lower_bound)
    for claim, word in [
        (dict(gap=0.0), "gap"), (dict(relative_gap=0.0), "relative gap"), (dict(guarantee="optimal"), "guarantee"),
        (dict(weights=result.weights + 1.0), "weights"),
    ]:  # fmt: skip
        with pytest.raises(CertificateError, match=word):
            result.certificate.verify(objective, result.weights, claimed=SimpleNamespace(**honest, **claim))
    whole = SimpleNamespace(
        **honest, gap=result.gap, relative_gap=result.relative_gap, guarantee="within_gap", weights=result.weights
    )
    result.certificate.verify(objective, result.weights, claimed=whole)


def test_a_result_whose_bound_exceeds_its_objective_is_an_error():
    _, result = margin()
    with pytest.raises(CertificateError, match="above its objective"):
        replace(result, lower_bound=result.objective * (1 + 1e-6))
    assert replace(result, lower_bound=result.objective * (1 + 1e-12)).guarantee == "optimal"


def test_a_bound_without_a_proof_is_refused():
    objective, result = margin()
    with pytest.raises(CertificateError, match="no certificate"):
        replace(result, certificate=None).verify(objective)
    bare = replace(result, certificate=None, lower_bound=-np.inf)
    assert bare.verify(objective).lower_bound == -np.inf
    with pytest.raises(CertificateError, match="claimed objective"):
        replace(bare, objective=result.objective / 2).verify(objective)


# ---- (5) the learner's own code has no part in it ------------------------------------------------------------------


@pytest.mark.parametrize("kind", SMOOTH)
def test_sabotaged_values_and_gradients_do_not_pass(kind, monkeypatch):
    """A learner whose evaluations are wrong ends somewhere else; its claims are found out, as nobody asks it."""
    from maxsum.learning.objectives.smooth import Evaluation, SmoothObjective

    honest, _ = smooth(kind)
    ask = SmoothObjective.ask

    def lie(self, w):
        found = ask(self, w)
        return Evaluation(0.5 * found.value, 0.5 * found.gradient, 0.5 * found.error)

    monkeypatch.setattr(SmoothObjective, "ask", lie)
    try:
        _, false = smooth(kind)
    except CertificateError:
        return
    with pytest.raises(CertificateError):
        false.verify(honest)


# ---- progress, time, exactness -------------------------------------------------------------------------------------


def test_a_check_tells_how_far_it_is_and_keeps_to_its_time():
    objective, result = margin()
    seen = []
    result.verify(objective, progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1] and all(done <= total for done, total in seen)
    with pytest.raises(CheckTimeout, match="nothing is known"):
        result.verify(objective, time_limit=0.0)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        result.verify(objective, progress=stop)
    assert result.verify(objective).gap <= 2e-6 * result.objective


def trivial():
    objective = TrivialObjective(bound(), C=5.0)
    return objective, CuttingPlane(tol=1e-5).fit(objective)


def compact():
    objective = LPObjective(bound(TRIANGLE, potentials="supermodular"), C=5.0)
    return objective, CompactQP(tol=1e-6).fit(objective)


@pytest.mark.parametrize("make", [margin, lp, trivial, compact, lambda: margin(potentials="supermodular")])
def test_bounds_in_rational_arithmetic_agree(make):
    objective, result = make()
    rough, exact = result.verify(objective), result.certificate.lower_bound(objective, exact=True)
    assert rough.lower_bound <= exact <= rough.lower_bound + 1e-9 * abs(result.objective)


@pytest.mark.parametrize("make", [lp, compact, lambda: margin(graph=TRIANGLE), lambda: margin(graph=ms.Graph.grid(3, 3))])
def test_graphs_with_cycles_are_checked_in_rational_arithmetic(make):
    """By certificates that are checked exactly, for scores as float64 has them."""
    objective, result = make()
    rough, exact = result.verify(objective), result.verify(objective, exact=True)
    assert exact.exact and rough.lower_bound <= exact.lower_bound <= exact.objective
    assert exact.objective == pytest.approx(rough.objective, rel=1e-6)


@pytest.mark.parametrize("make", [margin, trivial, lambda: margin(graph=ms.Graph.from_edges([(0, 1), (0, 2), (0, 3)]))])
def test_values_in_rational_arithmetic_agree(make):
    objective, result = make()
    rough, exact = result.verify(objective), result.verify(objective, exact=True)
    assert exact.exact and "rational" in exact.checked
    assert rough.lower_bound <= exact.lower_bound <= exact.objective <= rough.objective
    assert rough.objective - exact.objective <= 1e-10 * exact.objective


def test_the_exact_value_is_that_of_an_enumeration_in_fractions():
    """All labellings of all examples, in fractions from the features."""
    objective, result = margin(n_examples=3)
    model, w = objective.model, [Fraction(value) for value in result.weights.tolist()]
    total = sum(value * value for value in w) / 2
    for j in range(model.n_examples):
        truth, best = model.truth(j), Fraction(0)
        x = model.data.x[model.data.node_ptr[j] : model.data.node_ptr[j + 1]].tolist()
        for y in itertools.product(range(3), repeat=4):
            score = Fraction(0)
            for labels, sign in ((y, 1), (truth.tolist(), -1)):
                score += sign * sum(Fraction(x[v][f]) * w[model.node_index[f, labels[v]]] for v in range(4) for f in range(3))
                score += sign * sum(w[model.edge_index[0, labels[v], labels[v + 1]]] for v in range(3))
            best = max(best, score + sum(a != b for a, b in zip(y, truth, strict=True)))
        total += Fraction(float(objective.c[j])) * best
    found = result.verify(objective, exact=True).objective
    assert np.nextafter(found, -np.inf) < total <= Fraction(found)


@pytest.mark.parametrize("kind", SMOOTH)
def test_exponentials_are_not_checked_in_rational_arithmetic(kind):
    objective, result = smooth(kind)
    with pytest.raises(CertificateError, match="rational arithmetic"):
        result.verify(objective, exact=True)
