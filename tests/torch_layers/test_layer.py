"""MaxSumLayer and its gradients; layers to estimators and back; what is saved."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch==2.13.0")

from factories.layers import shuffled  # noqa: E402
from reference import enumerated_torch as enumerated  # noqa: E402

import maxsum as ms  # noqa: E402
from maxsum.torch import (  # noqa: E402
    CRFLoss,
    MaxSumLayer,
    PerturbedFenchelYoung,
    PseudoLikelihood,
    SmoothedHinge,
    StructuredHinge,
    decode,
    from_estimator,
)

B, T, K = 3, 4, 3
LENGTHS = torch.tensor([4, 2, 3])


def chains(seed=0):
    return torch.randn(B, T, K, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def marginals(unary, table):
    every, total = enumerated.scores(unary, [(t, t + 1) for t in range(len(unary) - 1)], [table] * (len(unary) - 1))
    return torch.einsum("s,stk->tk", torch.softmax(total, dim=0), torch.nn.functional.one_hot(every, unary.shape[1]).double())


def test_labels_are_those_of_decode():
    layer, scores = shuffled(MaxSumLayer(K)), chains()
    found = layer(scores, lengths=LENGTHS)
    labels = decode(scores, layer, lengths=LENGTHS).labels
    inside = labels >= 0
    assert (found[inside].argmax(dim=-1) == labels[inside]).all() and not found[~inside].any()


def test_straight_through_hands_the_gradient_on():
    layer, scores = shuffled(MaxSumLayer(K)), chains()
    goal = torch.randn(B, T, K, dtype=torch.float64)
    (layer(scores) * goal).sum().backward()
    torch.testing.assert_close(scores.grad, goal)
    assert not layer.pairwise.weight.grad.any()


def test_marginals_and_their_gradients_are_those_of_enumeration():
    layer, scores = shuffled(MaxSumLayer(K, output="marginals")), chains()
    goal = torch.randn(B, T, K, dtype=torch.float64)
    found = layer(scores, lengths=LENGTHS)
    wanted = torch.zeros(B, T, K, dtype=torch.float64)
    for b, n in enumerate(LENGTHS.tolist()):
        wanted[b, :n] = marginals(scores[b, :n], layer.pairwise()[0])
    torch.testing.assert_close(found, wanted)
    inputs = [scores, layer.pairwise.weight]
    for own, other in zip(*(torch.autograd.grad((each * goal).sum(), inputs) for each in (found, wanted)), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-8)
    assert torch.autograd.gradcheck(lambda given: layer(given, lengths=LENGTHS), (scores,), atol=1e-6)


def test_blackbox_gradient_is_the_difference_of_two_labellings():
    layer, scores = shuffled(MaxSumLayer(K, gradient="blackbox", interpolation=3.0)), chains()
    goal = torch.randn(B, T, K, dtype=torch.float64)
    (layer(scores) * goal).sum().backward()
    moved = layer(scores.detach() - 3.0 * goal)
    torch.testing.assert_close(scores.grad, (layer(scores.detach()) - moved) / 3.0)
    before, after = (own.argmax(dim=-1) for own in (layer(scores.detach()), moved))
    wanted = torch.zeros(K, K, dtype=torch.float64)
    for labels, sign in ((before, 1.0), (after, -1.0)):
        for row in labels.tolist():
            for pair in pairwise(row):
                wanted[pair] += sign / 3.0
    torch.testing.assert_close(layer.pairwise.weight.grad[0], wanted)


def test_perturbed_gradient_is_that_of_the_smoothed_maximum():
    layer, scores = (
        shuffled(MaxSumLayer(2, gradient="perturbed", n_draws=40_000, random_state=0)),
        torch.zeros(1, 1, 2, dtype=torch.float64),
    )
    scores = (scores + torch.tensor([0.3, 0.0])).requires_grad_()
    found = layer(scores)
    normal = torch.distributions.Normal(0.0, 2**0.5)  # of the difference of two draws
    assert found[0, 0, 0].item() == pytest.approx(normal.cdf(torch.tensor(0.3)).item(), abs=0.01)
    found[0, 0, 0].backward()
    density = normal.log_prob(torch.tensor(0.3)).exp().item()
    torch.testing.assert_close(scores.grad[0, 0], torch.tensor([density, -density], dtype=torch.float64), atol=0.01, rtol=0.0)


def test_perturbed_gradient_of_pairwise_weights_points_where_labels_go():
    layer = MaxSumLayer(2, potentials="potts", gradient="perturbed", n_draws=20_000, random_state=1).double()
    scores = torch.tensor([[[1.0, 0.0], [0.0, 0.3]]], dtype=torch.float64)
    layer(scores)[0, 1, 0].backward()  # a stronger link makes the second node follow the first
    slope = layer.pairwise.weight.grad.item()
    values = []
    for change in (-0.2, 0.2):
        with torch.no_grad():
            layer.pairwise.weight += change
            values.append(layer(scores)[0, 1, 0].item())
            layer.pairwise.weight -= change
    assert slope == pytest.approx((values[1] - values[0]) / 0.4, rel=0.25) and slope > 0


@pytest.mark.parametrize("output", ["labels", "marginals"])
def test_grids_with_masks(output):
    layer = shuffled(MaxSumLayer(2, "grid", output=output, gradient="blackbox"))
    scores = torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.ones(2, 3, 3, dtype=torch.bool)
    mask[:, 0] = False
    found = layer(scores, mask=mask)
    assert found.shape == scores.shape and not found[:, :, 0].any()
    torch.testing.assert_close(found[:, :, 1:].sum(dim=1), torch.ones(2, 2, 3, dtype=torch.float64))
    torch.testing.assert_close(found[:, :, 1:], layer(scores[:, :, 1:]))
    (found * torch.randn(2, 2, 3, 3)).sum().backward()
    assert not scores.grad[:, :, 0].any() and scores.grad.any()


def test_double_backward_is_refused():
    layer, scores = MaxSumLayer(K, output="marginals"), chains()
    with pytest.raises(ms.UnsupportedProblemError, match="MaxSumLayer: double backward"):
        torch.autograd.grad(layer(scores).sum(), scores, create_graph=True)


@pytest.mark.parametrize(
    "settings", [{"output": "scores"}, {"gradient": "none"}, {"noise": 0.0}, {"n_draws": 0}, {"interpolation": -1.0}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ms.InvalidParameterError):
        MaxSumLayer(K, **settings)


# ---- estimators -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("potentials", ["general", "potts", "associative", "supermodular"])
def test_chains_to_an_estimator_and_a_file(potentials, tmp_path):
    layer, scores = shuffled(StructuredHinge(K, potentials=potentials, classes=["a", "b", "c"])), chains()
    estimator = layer.to_estimator()
    wanted = np.array(["a", "b", "c"])[decode(scores, layer).labels.numpy()]
    assert (np.array(estimator.predict([own.detach().numpy() for own in scores])) == wanted).all()
    assert estimator.result_.guarantee == "feasible" and estimator.result_.lower_bound == -np.inf
    ms.save_model(estimator, tmp_path / "layer.maxsum")
    again = ms.load_model(tmp_path / "layer.maxsum")
    assert (np.array(again.predict([own.detach().numpy() for own in scores])) == wanted).all()
    problem, found = again.problems([scores[0].detach().numpy()])[0], decode(scores, layer)
    assert problem.score(found[0].numpy()) == pytest.approx(found.score[0])


@pytest.mark.parametrize(("neighbours", "edge_types"), [(4, "tied"), (8, "directions")])
def test_grids_to_an_estimator(neighbours, edge_types):
    layer = shuffled(StructuredHinge(2, "grid", "potts", neighbours=neighbours, edge_types=edge_types))
    scores = torch.randn(2, 2, 4, 5, dtype=torch.float64)
    wanted = decode(scores, layer).labels.numpy()
    found = layer.to_estimator().predict([own.permute(1, 2, 0).numpy() for own in scores])
    assert (np.array(found) == wanted).all()


def test_graphs_to_an_estimator():
    layer = shuffled(StructuredHinge(K, "graph", n_edge_types=2))
    graph = ms.Graph.from_edges([[0, 1], [1, 2], [2, 3], [3, 0]], 4, edge_type=[0, 1, 1, 0])
    scores = torch.randn(4, K, dtype=torch.float64)
    found = layer.to_estimator().predict([ms.GraphSample(scores.numpy(), graph)])[0]
    assert (found == decode(scores, layer, graphs=[graph]).labels.numpy()).all()


def test_what_an_estimator_cannot_hold_is_refused():
    with pytest.raises(ms.UnsupportedProblemError, match="forbids"):
        StructuredHinge(K, forbidden=[(0, 1)]).to_estimator()
    volumes = [np.zeros((2, 2, 2, 1))], [np.arange(8).reshape(2, 2, 2) % 2]
    with pytest.raises(ms.UnsupportedProblemError, match="3 dimensions, wanted images"):
        ms.GridLabeler("general", dimensions=3).fit(*volumes).to_torch()


def test_grids_with_offsets_of_their_own_go_both_ways():
    layer = StructuredHinge(K, "grid", neighbours=[(0, 2), (1, -1)], edge_types="directions").double()
    with torch.no_grad():
        layer.pairwise.weight.copy_(torch.randn_like(layer.pairwise.weight))
    estimator, scores = layer.to_estimator(), torch.randn(1, K, 3, 4, dtype=torch.float64)
    found = estimator.predict([scores[0].permute(1, 2, 0).numpy()])[0]
    assert (found == decode(scores, layer).labels[0].numpy()).all()
    _, again = estimator.to_torch()
    assert again.offsets == layer.offsets and (decode(scores, again).labels[0].numpy() == found).all()


@pytest.mark.parametrize("potentials", ["general", "associative"])
@pytest.mark.parametrize("bias", [False, True])
def test_estimators_to_layers(potentials, bias):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (4, 4, 4, 4)]
    y = [np.where(own[:, 0] > 0, "u", np.where(own[:, 1] > 0, "v", "w")) for own in X]
    fitted = ms.SequenceLabeler(potentials=potentials, bias=bias, scale=False).fit(X, y)
    scorer, layer = fitted.to_torch()
    found = decode(scorer(torch.from_numpy(np.array(X))), layer).labels.numpy()
    assert (np.array(layer.classes)[found] == np.array(fitted.predict(X))).all()
    again, other = from_estimator(fitted, CRFLoss, reduction="sum")
    assert isinstance(other, CRFLoss) and other.reduction == "sum" and torch.equal(again.weight, scorer.weight)


def test_unfitted_and_strange_estimators_are_refused():
    with pytest.raises(ms.InvalidParameterError, match="not fitted"):
        from_estimator(ms.SequenceLabeler())
    fitted = ms.SequenceLabeler().fit([[{"word": "dog"}, {"word": "barks"}]], [["N", "V"]])
    with pytest.raises(ms.UnsupportedProblemError, match="Dicts"):
        from_estimator(fitted)


# ---- training, saving -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [StructuredHinge, CRFLoss, SmoothedHinge, PseudoLikelihood, PerturbedFenchelYoung])
@pytest.mark.parametrize("graph", ["chain", "grid", "graph"])
def test_steps_of_training_lower_the_loss(kind, graph):
    settings = {"random_state": 0} if kind is PerturbedFenchelYoung else {}
    own = torch.Generator().manual_seed(0)
    network, layer = torch.nn.Linear(5, K), kind(K, graph, **settings)
    x, structure = torch.randn(2, 12, 5, generator=own), {}
    labels = x[..., :K].argmax(dim=-1)
    if graph == "grid":
        x, labels = x.reshape(2, 3, 4, 5), labels.reshape(2, 3, 4)
    elif graph == "graph":
        x, labels, structure = x.reshape(24, 5), labels.reshape(24), {"graphs": [ms.Graph.grid(3, 4), ms.Graph.chain(12)]}
    optimizer = torch.optim.Adam([*network.parameters(), *layer.parameters()], lr=0.05)
    found = []
    for _ in range(15):
        scores = network(x)
        loss = layer(scores.permute(0, 3, 1, 2) if graph == "grid" else scores, labels, **structure)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    assert found[-1] < 0.8 * found[0]


@pytest.mark.parametrize("kind", [StructuredHinge, CRFLoss, MaxSumLayer])
def test_state_dict_and_torch_save(kind):
    layer, scores = shuffled(kind(K, forbidden=[(0, 1)])), chains()
    other = kind(K, forbidden=[(0, 1)]).double()
    other.load_state_dict(layer.state_dict())
    memory = io.BytesIO()
    torch.save(layer, memory)
    memory.seek(0)
    for again in (other, torch.load(memory, weights_only=False)):
        assert (decode(scores, again).labels == decode(scores, layer).labels).all()
        assert torch.equal(again.pairwise(), layer.pairwise())


def test_families_keep_to_themselves_and_take_their_tables():
    for potentials in ("potts", "associative", "supermodular", "general"):
        layer = shuffled(StructuredHinge(4, "graph", potentials, n_edge_types=2), 5)
        tables = layer.pairwise().detach()
        other = StructuredHinge(4, "graph", potentials, n_edge_types=2).double()
        other.pairwise.set_tables(tables)
        torch.testing.assert_close(other.pairwise(), layer.pairwise())
        if potentials == "supermodular":
            mixed = tables[:, 1:, 1:] + tables[:, :-1, :-1] - tables[:, 1:, :-1] - tables[:, :-1, 1:]
            assert (mixed > 0).all()
        elif potentials != "general":
            assert (torch.diagonal(tables, dim1=1, dim2=2) > 0).all()
    with pytest.raises(ms.InvalidParameterError, match="not potts"):
        StructuredHinge(2, potentials="potts").pairwise.set_tables(-np.eye(2)[None])


class Scored(torch.utils.data.Dataset):
    """Scores and best labels of chains, found in the workers."""

    def __init__(self, layer):
        self.layer = layer

    def __len__(self):
        return 4

    def __getitem__(self, i):
        scores = chains(i).detach()
        return scores, decode(scores, self.layer).labels


def test_workers_of_a_loader_decode():
    layer = shuffled(StructuredHinge(K))
    loader = torch.utils.data.DataLoader(Scored(layer), batch_size=None, num_workers=1)
    found = list(loader)
    assert len(found) == 4
    for scores, labels in found:
        assert (labels == decode(scores, layer).labels).all()
