"""Losses of chains: enumeration, pytorch-crf, gradients, the library's own objectives, what is forbidden."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch==2.13.0")

from factories.layers import shuffled  # noqa: E402
from reference import enumerated_torch as enumerated  # noqa: E402

import maxsum as ms  # noqa: E402
from maxsum.torch import CRFLoss, PerturbedFenchelYoung, PseudoLikelihood, SmoothedHinge, StructuredHinge, decode  # noqa: E402

B, T, K = 4, 4, 3
LENGTHS = torch.tensor([4, 2, 1, 3])
COSTS = torch.tensor([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 1.0, 0.0]], dtype=torch.float64)
POTENTIALS = ("general", "potts", "associative", "supermodular")


def data(seed=0, dtype=torch.float64):
    own = torch.Generator().manual_seed(seed)
    scores = torch.randn(B, T, K, generator=own, dtype=dtype).requires_grad_()
    return scores, torch.randint(0, K, (B, T), generator=own)


def reference(layer, loss, scores, labels, lengths=LENGTHS):
    """Mean over the chains of a function of enumerated labellings."""
    table, values = layer.pairwise()[0], []
    for b, n in enumerate(lengths.tolist()):
        edges = [(t, t + 1) for t in range(n - 1)]
        unary = scores[b, :n].clone()
        if layer.pairwise.starts.any():
            unary[0] = unary[0].masked_fill(layer.pairwise.starts, -torch.inf)
        values.append(loss(unary, edges, [table] * len(edges), labels[b, :n]))
    return torch.stack(values).mean()


def hamming():
    return 1.0 - torch.eye(K, dtype=torch.float64)


LOSSES = {
    "hinge": (StructuredHinge, {}, lambda u, e, t, y: enumerated.hinge(u, e, t, enumerated.sets(y, K), hamming())),
    "costs": (
        StructuredHinge,
        {"loss": COSTS.numpy()},
        lambda u, e, t, y: enumerated.hinge(u, e, t, enumerated.sets(y, K), COSTS),
    ),
    "weights": (
        StructuredHinge,
        {"class_weight": [1.0, 5.0, 0.5]},
        lambda u, e, t, y: enumerated.hinge(
            u, e, t, enumerated.sets(y, K), hamming() * torch.tensor([1.0, 5.0, 0.5]).double()[:, None]
        ),
    ),
    "crf": (CRFLoss, {}, lambda u, e, t, y: enumerated.crf(u, e, t, enumerated.sets(y, K))),
    "smoothed": (
        SmoothedHinge,
        {"temperature": 0.7},
        lambda u, e, t, y: enumerated.smoothed(u, e, t, enumerated.sets(y, K), hamming(), 0.7),
    ),
    "pseudo": (PseudoLikelihood, {}, enumerated.pseudo),
}


@pytest.mark.parametrize("potentials", POTENTIALS)
@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients_are_those_of_enumeration(name, potentials):
    kind, settings, loss = LOSSES[name]
    layer, (scores, labels) = shuffled(kind(K, potentials=potentials, **settings)), data()
    value, wanted = layer(scores, labels, lengths=LENGTHS), reference(layer, loss, scores, labels)
    assert value.item() == pytest.approx(wanted.item(), rel=1e-10)
    inputs = [scores, *layer.parameters()]
    found, expected = torch.autograd.grad(value, inputs), torch.autograd.grad(wanted, inputs)
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-7, atol=1e-9)
    assert 0 <= layer.last_gap < 1e-10


@pytest.mark.parametrize("name", ["hinge", "crf", "smoothed"])
def test_unknown_labels_are_summed_or_maximised_over(name):
    kind, settings, loss = LOSSES[name]
    layer, (scores, labels) = shuffled(kind(K, **settings)), data(3)
    labels[0, 1] = labels[1, 0] = labels[2, 0] = labels[3, 2] = -100
    value, wanted = layer(scores, labels, lengths=LENGTHS), reference(layer, loss, scores, labels)
    assert value.item() == pytest.approx(wanted.item(), rel=1e-10)
    for own, other in zip(*(torch.autograd.grad(each, [scores, *layer.parameters()]) for each in (value, wanted)), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["hinge", "crf", "smoothed", "costs"])
def test_sets_of_labels(name):
    layer, (scores, labels) = shuffled(LOSSES[name][0](K, **LOSSES[name][1])), data(4)
    sets = torch.nn.functional.one_hot(labels, K).bool()
    assert layer(scores, sets).item() == pytest.approx(layer(scores, labels).item())
    sets[:, 1, :2] = True
    matrix = COSTS if name == "costs" else hamming()
    loss = {
        "hinge": lambda u, e, t, s: enumerated.hinge(u, e, t, s, matrix),
        "costs": lambda u, e, t, s: enumerated.hinge(u, e, t, s, matrix),
        "crf": enumerated.crf,
        "smoothed": lambda u, e, t, s: enumerated.smoothed(u, e, t, s, matrix, 0.7),
    }[name]
    lengths = torch.full((B,), T)
    assert layer(scores, sets).item() == pytest.approx(reference(layer, loss, scores, sets, lengths).item(), rel=1e-10)


@pytest.mark.parametrize("name", ["crf", "smoothed", "pseudo"])
def test_gradcheck_of_smooth_losses(name):
    kind, settings, _ = LOSSES[name]
    layer, (scores, labels) = shuffled(kind(K, reduction="none", **settings)), data(5)
    table = layer.pairwise.weight

    def run(given, weight):
        return torch.func.functional_call(layer, {"pairwise.weight": weight}, (given, labels), {"lengths": LENGTHS})

    assert torch.autograd.gradcheck(run, (scores, table.detach().clone().requires_grad_()))


@pytest.mark.parametrize("kind", [StructuredHinge, PerturbedFenchelYoung])
def test_subgradient_inequality(kind):
    settings = {"random_state": 3} if kind is PerturbedFenchelYoung else {}
    layer, (scores, labels) = shuffled(kind(K, reduction="sum", **settings)), data(6)
    value = layer(scores, labels, lengths=LENGTHS)
    slope, tables = torch.autograd.grad(value, [scores, layer.pairwise.weight])
    other = shuffled(kind(K, reduction="sum", **settings), 9)
    for seed in range(8):
        point = data(20 + seed)[0]
        bound = value + (slope * (point - scores)).sum() + (tables * (other.pairwise.weight - layer.pairwise.weight)).sum()
        assert other(point, labels, lengths=LENGTHS) >= bound - 1e-9


def test_perturbed_loss_is_the_mean_over_draws():
    from maxsum.torch.losses import noise_of

    layer, (scores, labels) = shuffled(PerturbedFenchelYoung(K, noise=0.5, n_draws=5, random_state=7)), data()
    draws = 0.5 * torch.from_numpy(noise_of((B, T, K), 5, 7))

    chain = iter(range(B))

    def mean(u, e, t, y):
        each = next(chain)
        own = [enumerated.scores(u + draw[each, : len(u)], e, t)[1].amax() for draw in draws]
        every, total = enumerated.scores(u, e, t)
        return torch.stack(own).mean() - enumerated.truth_score(every, total, enumerated.sets(y, K), torch.amax)

    assert layer(scores, labels, lengths=LENGTHS).item() == pytest.approx(reference(layer, mean, scores, labels).item())
    assert layer(scores, labels) != PerturbedFenchelYoung(K, noise=0.5, n_draws=5, random_state=8).double()(scores, labels)


def test_equals_pytorch_crf():
    torchcrf = pytest.importorskip("torchcrf", reason="pytorch-crf is not installed")
    scores, labels = data(1)
    theirs, ours = torchcrf.CRF(K, batch_first=True).double(), shuffled(CRFLoss(K, reduction="sum"))
    with torch.no_grad():
        theirs.start_transitions.zero_()
        theirs.end_transitions.zero_()
        theirs.transitions.copy_(ours.pairwise.weight[0])
    mask = torch.arange(T) < LENGTHS[:, None]
    value, wanted = ours(scores, labels, mask=mask), -theirs(scores, labels, mask=mask)
    assert value.item() == pytest.approx(wanted.item(), rel=1e-12)
    torch.testing.assert_close(*(torch.autograd.grad(each, scores, retain_graph=True)[0] for each in (value, wanted)))
    found = decode(scores, ours, mask=mask)
    assert [row[:n] for row, n in zip(found.labels.tolist(), LENGTHS.tolist(), strict=True)] == theirs.decode(scores, mask=mask)


@pytest.mark.parametrize("kind", ["margin", "likelihood"])
def test_equals_the_objectives_of_the_library(kind):
    from maxsum.learning.objectives.likelihood import LikelihoodObjective
    from maxsum.learning.objectives.margin import MarginObjective

    rng = np.random.default_rng(0)
    samples = [ms.GraphSample(rng.normal(size=(n, 2)), ms.Graph.chain(n)) for n in (4, 3, 1, 2)]
    truth = [rng.integers(0, K, size=sample.n_nodes) for sample in samples]
    model = ms.models.GraphModel().bind(samples, truth, classes=list(range(K)))
    w = rng.normal(size=model.n_weights)
    objective = (MarginObjective if kind == "margin" else LikelihoodObjective)(model, C=1.0)
    layer = (StructuredHinge if kind == "margin" else CRFLoss)(K, reduction="sum").double()
    with torch.no_grad():
        layer.pairwise.set_tables(model.tables(w).bank[:1])
    scores, labels = torch.zeros(4, 4, K, dtype=torch.float64), torch.zeros(4, 4, dtype=torch.int64)
    for j, sample in enumerate(samples):
        scores[j, : sample.n_nodes] = torch.from_numpy(np.array(model.problem(w, j).unary))
        labels[j, : sample.n_nodes] = torch.from_numpy(truth[j])
    value = layer(scores, labels, lengths=torch.tensor([4, 3, 1, 2])).item()
    assert value + 0.5 * float(w @ w) == pytest.approx(objective.evaluate(w), rel=1e-9)


def test_reductions_and_sample_weights():
    scores, labels = data(2)
    each = shuffled(CRFLoss(K, reduction="none"))(scores, labels, lengths=LENGTHS)
    weight = torch.tensor([1.0, 0.0, 2.0, 0.5])
    make = {name: shuffled(CRFLoss(K, reduction=name)) for name in ("mean", "sum", "none", "node_mean")}
    run = lambda name, **more: make[name](scores, labels, lengths=LENGTHS, **more)  # noqa: E731
    torch.testing.assert_close(run("mean"), each.mean())
    torch.testing.assert_close(run("sum"), each.sum())
    torch.testing.assert_close(run("node_mean"), each.sum() / LENGTHS.sum())
    torch.testing.assert_close(run("mean", sample_weight=weight), (each * weight).sum() / weight.sum())
    torch.testing.assert_close(run("none", sample_weight=weight), each * weight)


def test_single_precision_in_and_out():
    scores, labels = data(dtype=torch.float32)
    layer, exact = shuffled(CRFLoss(K)).float(), shuffled(CRFLoss(K))
    value = layer(scores, labels, lengths=LENGTHS)
    value.backward()
    assert value.dtype == scores.grad.dtype == layer.pairwise.weight.grad.dtype == torch.float32
    assert value.item() == pytest.approx(exact(scores.double(), labels, lengths=LENGTHS).item(), rel=1e-6)


@pytest.mark.parametrize("kind", [StructuredHinge, CRFLoss, SmoothedHinge, PseudoLikelihood, PerturbedFenchelYoung])
def test_forbidden_transitions_have_no_weight(kind):
    classes = ["O", "B-X", "I-X"]
    layer, (scores, _) = shuffled(kind(K, forbidden="bio", classes=classes)), data(8)
    labels = torch.tensor([[0, 1, 2, 2], [1, 1, 0, 0], [1, 2, 2, 0], [0, 0, 0, 1]])
    value = layer(scores, labels)
    assert np.isfinite(value.item())
    value.backward()
    assert layer.pairwise.weight.grad[0, 0, 2] == 0 and torch.isfinite(scores.grad).all()
    if kind is CRFLoss:
        loss = lambda u, e, t, y: enumerated.crf(u, e, t, enumerated.sets(y, K))  # noqa: E731
        assert value.item() == pytest.approx(reference(layer, loss, scores, labels, torch.full((B,), T)).item())
    strong = scores.detach().clone()
    strong[:, :, 2] += 50.0  # I-X everywhere would be best
    found = decode(strong, layer, lengths=LENGTHS).labels
    for row, n in zip(found.tolist(), LENGTHS.tolist(), strict=True):
        assert row[0] != 2 and (0, 2) not in pairwise(row[:n])
    with pytest.raises(ms.InvalidSampleError, match=r"example 1 .*'I-X' follows 'O' at position 2"):
        layer(scores, torch.tensor([[0, 1, 2, 2], [1, 0, 2, 0], [1, 2, 2, 0], [0, 0, 0, 1]]))
    with pytest.raises(ms.InvalidSampleError, match=r"example 0 .*begin with 'I-X'"):
        layer(scores, torch.tensor([[2, 2, 2, 2], [1, 0, 0, 0], [1, 2, 2, 0], [0, 0, 0, 1]]))


def test_decoded_results_have_certificates():
    layer, (scores, _) = shuffled(StructuredHinge(K, forbidden=[(0, 1)])), data(9)
    found = decode(scores, layer, lengths=LENGTHS)
    assert (found.gap < 1e-10).all() and len(found) == B
    for i, n in enumerate(LENGTHS.tolist()):
        result = found.result(i)
        assert result.guarantee == "optimal" and result.certificate.verify(found.problem(i), found[i][:n].numpy()) is not None
        assert result.score == pytest.approx(found.score[i])
        assert (found[i][n:] == -100).all()


def test_tables_and_weights_of_the_network():
    scores, labels = data(10)
    tables = torch.randn(B, T - 1, K, K, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(B, T - 1, dtype=torch.float64, requires_grad=True)
    for kind, loss in (
        (CRFLoss, LOSSES["crf"][2]),
        (StructuredHinge, LOSSES["hinge"][2]),
        (PseudoLikelihood, LOSSES["pseudo"][2]),
    ):
        layer = kind(K, potentials="none").double()
        value = layer(scores, labels, lengths=LENGTHS, pairwise=tables, edge_weight=weight)
        each = []
        for b, n in enumerate(LENGTHS.tolist()):
            edges = [(t, t + 1) for t in range(n - 1)]
            each.append(loss(scores[b, :n], edges, [tables[b, t] * weight[b, t] for t in range(n - 1)], labels[b, :n]))
        wanted = torch.stack(each).mean()
        assert value.item() == pytest.approx(wanted.item(), rel=1e-10)
        inputs = [scores, tables, weight]
        for own, other in zip(*(torch.autograd.grad(every, inputs) for every in (value, wanted)), strict=True):
            torch.testing.assert_close(own, other, rtol=1e-7, atol=1e-9)


def test_double_backward_is_refused_by_name():
    layer, (scores, labels) = CRFLoss(K), data()
    with pytest.raises(ms.UnsupportedProblemError, match="CRFLoss: double backward"):
        torch.autograd.grad(layer(scores, labels), scores, create_graph=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, y, m: (s[0], y, m), r"wanted \(batch, length, n_labels\)"),
        (lambda s, y, m: (s[..., :2], y, m), "2 labels"),
        (lambda s, y, m: (s, y[:, :2], m), "labels have shape"),
        (lambda s, y, m: (s, y + 1, m), "label 3 at"),
        (lambda s, y, m: (s, y, {"lengths": torch.tensor([9, 1, 1, 1])}), "from 0 to 4"),
        (lambda s, y, m: (s, y, {"mask": torch.tensor([[1, 0, 1, 0]] * 4)}), "hole"),
        (lambda s, y, m: (s, y, {"graphs": []}), "no use for it"),
        (lambda s, y, m: (s * torch.nan, y, m), "scores hold nan at example 0, position 0"),
        (lambda s, y, m: (s, y, {"sample_weight": [1.0]}), "sample_weight"),
        (lambda s, y, m: (s, y, {"pairwise": torch.zeros(2, 2)}), "pairwise has shape"),
        (lambda s, y, m: (s.long(), y, m), "floating-point"),
    ],
)
def test_bad_input_is_refused(change, words):
    scores, labels = data()
    given, target, more = change(scores, labels, {})
    with pytest.raises(ms.MaxsumError, match=words):
        CRFLoss(K)(given, target, **more)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_labels": 0},
        {"graph": "tree"},
        {"potentials": "convex"},
        {"reduction": "max"},
        {"n_passes": 0},
        {"forbidden": "bio"},
        {"classes": ["a"]},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ms.InvalidParameterError):
        CRFLoss(**{"n_labels": 3, **settings})


def test_nan_after_the_length_of_a_chain_is_not_read():
    scores, labels = data()
    spoilt = scores.detach().clone()
    spoilt[1, 2:] = torch.nan
    layer = shuffled(CRFLoss(K))
    assert layer(spoilt, labels, lengths=LENGTHS).item() == layer(scores, labels, lengths=LENGTHS).item()
