"""Losses of grids and graphs: enumeration where it is possible, bounds and brackets elsewhere; masks, tables of the network, warm starts, factors."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch==2.13.0")

from factories.layers import shuffled  # noqa: E402
from reference import enumerated_torch as enumerated  # noqa: E402

import maxsum as ms  # noqa: E402
from maxsum.torch import CRFLoss, PerturbedFenchelYoung, PseudoLikelihood, SmoothedHinge, StructuredHinge, decode  # noqa: E402

H, W, K = 2, 3, 2
EDGES = {
    4: [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)],
    8: [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5), (0, 4), (1, 5), (1, 3), (2, 4)],
}


def hamming(size=K):
    return 1.0 - torch.eye(size, dtype=torch.float64)


def losses(size=K):
    return {
        StructuredHinge: lambda u, e, t, y: enumerated.hinge(u, e, t, enumerated.sets(y, size), hamming(size)),
        CRFLoss: lambda u, e, t, y: enumerated.crf(u, e, t, enumerated.sets(y, size)),
        SmoothedHinge: lambda u, e, t, y: enumerated.smoothed(u, e, t, enumerated.sets(y, size), hamming(size), 1.0),
        PseudoLikelihood: enumerated.pseudo,
    }


def images(count=3, seed=0, shape=(H, W), size=K):
    own = torch.Generator().manual_seed(seed)
    scores = torch.randn(count, size, *shape, generator=own, dtype=torch.float64).requires_grad_()
    return scores, torch.randint(0, size, (count, *shape), generator=own)


def same(value, wanted, inputs):
    assert value.item() == pytest.approx(wanted.item(), rel=1e-9)
    for own, other in zip(*(torch.autograd.grad(each, inputs) for each in (value, wanted)), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("potentials", ["general", "potts", "supermodular"])
@pytest.mark.parametrize("neighbours", [4, 8])
@pytest.mark.parametrize("kind", losses())
def test_grids_are_those_of_enumeration(kind, neighbours, potentials):
    layer = shuffled(kind(K, "grid", potentials, neighbours=neighbours, edge_types="directions"))
    scores, labels = images()
    table, edges, each = layer.pairwise(), EDGES[neighbours], []
    kinds = [0] * 4 + [1] * 3 + [2] * 2 + [3] * 2
    for b in range(len(scores)):
        unary = scores[b].permute(1, 2, 0).reshape(-1, K)
        each.append(losses()[kind](unary, edges, [table[kinds[e]] for e in range(len(edges))], labels[b].reshape(-1)))
    same(layer(scores, labels), torch.stack(each).mean(), [scores, *layer.parameters()])
    assert layer.last_gap < 1e-9


@pytest.mark.parametrize("kind", losses())
def test_contrast_weights_and_tables_of_the_network_have_gradients(kind):
    layer = shuffled(kind(K, "grid", "potts"))
    scores, labels = images()
    weight = torch.rand(3, 2, H, W, dtype=torch.float64, requires_grad=True)
    first = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 0, 2)]
    each = []
    for b in range(3):
        unary = scores[b].permute(1, 2, 0).reshape(-1, K)
        tables = [layer.pairwise()[0] * weight[b][place] for place in first]
        each.append(losses()[kind](unary, EDGES[4], tables, labels[b].reshape(-1)))
    same(layer(scores, labels, edge_weight=weight), torch.stack(each).mean(), [scores, weight, *layer.parameters()])
    own = torch.randn(3, 2, H, W, K, K, dtype=torch.float64, requires_grad=True)
    each = []
    for b in range(3):
        unary = scores[b].permute(1, 2, 0).reshape(-1, K)
        each.append(losses()[kind](unary, EDGES[4], [own[b][place] for place in first], labels[b].reshape(-1)))
    same(kind(K, "grid", "none")(scores, labels, pairwise=own), torch.stack(each).mean(), [scores, own])


@pytest.mark.parametrize("kind", [*losses(), PerturbedFenchelYoung])
def test_lists_of_graphs_and_packed_graphs_agree(kind):
    rng = np.random.default_rng(0)
    graphs = [
        ms.Graph.chain(3),
        ms.Graph.from_edges([[0, 1], [1, 2], [2, 3], [3, 0]], 4),
        ms.Graph.from_edges(np.zeros((0, 2)), 1),
    ]
    scores = torch.from_numpy(rng.normal(size=(8, 3))).requires_grad_()
    labels = torch.from_numpy(rng.integers(0, 3, size=8))
    settings = {"random_state": 5} if kind is PerturbedFenchelYoung else {}
    layer = shuffled(kind(3, "graph", **settings))
    value = layer(scores, labels, graphs=graphs)
    index = torch.tensor([[0, 1, 3, 4, 5, 6, 1, 3], [1, 2, 4, 5, 6, 3, 0, 6]])  # two edges again, the other way round
    packed = layer(scores, labels, edge_index=index, batch=torch.tensor([0, 0, 0, 1, 1, 1, 1, 2]))
    assert packed.item() == pytest.approx(value.item(), rel=1e-12)
    if kind is not PerturbedFenchelYoung:
        table, parts = layer.pairwise()[0], [(0, 3), (3, 7), (7, 8)]
        each = [
            losses(3)[kind](scores[a:b], graph.edges.tolist(), [table] * graph.n_edges, labels[a:b])
            for graph, (a, b) in zip(graphs, parts, strict=True)
        ]
        same(value, torch.stack(each).mean(), [scores, *layer.parameters()])


@pytest.mark.parametrize("kind", losses())
def test_masked_pixels_are_left_out(kind):
    layer = shuffled(kind(K, "grid", reduction="sum"))
    scores, labels = images(1)
    mask = torch.tensor([[[True, True, False], [True, True, False]]])
    labels[0, :, 2] = -100
    value = layer(scores, labels, mask=mask)
    small = layer(scores[:, :, :, :2], labels[:, :, :2])
    assert value.item() == pytest.approx(small.item(), rel=1e-12)
    (slope,) = torch.autograd.grad(value, scores)
    assert not slope[:, :, :, 2].any() and slope[:, :, :, :2].any()
    assert (decode(scores, layer, mask=mask).labels[0, :, 2] == -100).all()


@pytest.mark.parametrize("kind", [StructuredHinge, CRFLoss, SmoothedHinge])
def test_unknown_pixels_are_summed_or_maximised_over(kind):
    layer = shuffled(kind(K, "grid"))
    scores, labels = images(2)
    labels[0, 0, 1] = labels[1, 1, 2] = -100
    each = [
        losses()[kind](scores[b].permute(1, 2, 0).reshape(-1, K), EDGES[4], [layer.pairwise()[0]] * 7, labels[b].reshape(-1))
        for b in range(2)
    ]
    same(layer(scores, labels), torch.stack(each).mean(), [scores, *layer.parameters()])


def large(size=3, side=12, seed=0):
    scores, labels = images(2, seed, (side, side), size)
    return scores, labels


@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_relaxed_hinge_is_an_upper_bound_with_a_subgradient(scale):
    scores, labels = large()
    layer = shuffled(StructuredHinge(3, "grid", reduction="none", n_passes=30), 2, scale)
    values = layer(scores, labels)
    lower, upper = layer.last_bracket
    assert (lower <= values.detach().numpy()).all() and (values.detach().numpy() <= upper).all()
    table = layer.pairwise()[0].detach().numpy()
    graph = ms.Graph.grid(12, 12)
    for b in range(2):
        unary = scores[b].detach().permute(1, 2, 0).reshape(-1, 3).numpy()
        truth = labels[b].reshape(-1).numpy()
        plain = ms.Problem(graph, unary, tables=table)
        best = ms.solve(ms.Problem(graph, unary + (np.arange(3) != truth[:, None]), tables=table), time_limit=10)
        assert best.guarantee == "optimal"
        exact = best.score - plain.score(truth)
        assert layer.last_bracket[0][b] <= exact + 1e-9 and exact <= values[b].item() + 1e-9
    # The gradient is a point of the local polytope: its plane is nowhere above the linear relaxation, which bounds of any messages exceed.
    slopes = torch.autograd.grad(values.sum(), [scores, layer.pairwise.weight])
    loss_of_gradient = float(((slopes[0] * scores).sum() + (slopes[1] * layer.pairwise.weight).sum()).detach())
    assert loss_of_gradient <= values.sum().item() + 1e-9
    for seed in range(3):
        other, point = (
            shuffled(StructuredHinge(3, "grid", reduction="none", n_passes=30), seed + 5, scale),
            large(seed=seed + 9)[0],
        )
        plane = sum((a * b).sum() for a, b in zip(slopes, (point, other.pairwise.weight), strict=True))
        assert (
            other(point, labels).sum() >= plane - 1e-9
        )  # both lack the same loss of the gradient's labels, which is not negative


def test_brackets_of_large_grids_close_with_more_passes_and_warm_starts():
    scores, labels = large(seed=3)
    gaps = []
    for n_passes in (2, 50):
        layer = shuffled(StructuredHinge(3, "grid", n_passes=n_passes), 2, 0.3)
        layer(scores, labels)
        gaps.append(layer.last_gap)
    assert gaps[1] < gaps[0] and gaps[1] < 0.5
    layer = shuffled(StructuredHinge(3, "grid", n_passes=2), 2, 0.3)
    found = []
    for _ in range(8):
        layer(scores, labels, sample_ids=["a", "b"])
        found.append(layer.last_gap)
    assert set(layer.cache) == {"a", "b"} and found[-1] < 0.5 * found[0]
    soft = shuffled(CRFLoss(3, "grid", n_passes=1, tol=0.0), 2, 0.3)
    found = []
    for _ in range(8):
        soft(scores, labels, sample_ids=[0, 1])
        found.append(soft.last_gap)
    assert found[-1] < 0.5 * found[0]


def test_reweighted_likelihood_is_an_upper_bound_and_smooth():
    rng = np.random.default_rng(0)
    graph = ms.Graph.complete(6)
    scores = torch.from_numpy(rng.normal(size=(6, 2))).requires_grad_()
    labels = torch.from_numpy(rng.integers(0, 2, size=6))
    layer = shuffled(CRFLoss(2, "graph", n_passes=2000, tol=1e-13), 3, 0.5)
    exact = layer(scores, labels, graphs=[graph])
    from maxsum.inference.sums import log_partition

    reading = layer.read(scores, graphs=[graph])
    # Without elimination the same call takes the bound.
    kept = log_partition.LogPartition.__init__.__defaults__
    log_partition.LogPartition.__init__.__defaults__ = (*kept[:-1], 0)
    try:
        bound = layer(scores, labels, graphs=[graph])
        assert bound.item() >= exact.item() - 1e-9 and bound.item() > exact.item() + 1e-6
        run = lambda given: layer(given, labels, graphs=[graph])  # noqa: E731
        assert torch.autograd.gradcheck(run, (scores,), eps=1e-5, atol=1e-5, rtol=1e-4)
    finally:
        log_partition.LogPartition.__init__.__defaults__ = kept
    assert reading.batch.n_examples == 1


def test_factors_are_constraints():
    scores, labels = torch.randn(1, 4, 3, dtype=torch.float64, requires_grad=True), torch.tensor([[0, 1, 2, 1]])
    layer = shuffled(StructuredHinge(3))
    factors = [[([0, 1, 2], ms.factors.AllDifferent())]]
    value = layer(scores, labels, factors=factors)
    every, total = enumerated.scores(scores[0], [(0, 1), (1, 2), (2, 3)], [layer.pairwise()[0]] * 3)
    legal = torch.tensor([len({*row[:3].tolist()}) == 3 for row in every])
    cost = (every != labels).sum(dim=1).double()
    wanted = (total + cost)[legal].amax() - total[(every == labels).all(dim=1)][0]
    same(value, wanted, [scores, *layer.parameters()])
    found = decode(scores, layer, factors=factors)
    assert len({*found.labels[0, :3].tolist()}) == 3 and found.result(0).verify(found.problem(0)) is not None
    with pytest.raises(ms.InvalidSampleError, match="forbidden"):
        layer(scores, torch.tensor([[0, 0, 2, 1]]), factors=factors)
    with pytest.raises(ms.UnsupportedProblemError, match="factors"):
        CRFLoss(3)(scores, labels, factors=factors)


@pytest.mark.parametrize("settings", [{"potentials": "potts"}, {"potentials": "general"}])
def test_decoded_grids_have_certificates(settings):
    scores, _ = images(2, 5, (4, 5), 3)
    layer = shuffled(StructuredHinge(3, "grid", **settings))
    found = decode(scores, layer)
    assert found.labels.shape == (2, 4, 5)
    for i in range(2):
        result = found.result(i)
        assert result.guarantee == "optimal" and result.verify(found.problem(i)) is not None
        assert found.problem(i).score(found[i].reshape(-1).numpy()) == pytest.approx(result.score)


def test_limits_of_decoding_leave_a_bracket_that_is_true():
    scores, layer = 0.3 * images(1, 5, (10, 10), 4)[0], shuffled(StructuredHinge(4, "grid"), 5)
    quick, best = decode(scores, layer, gap=0.3), decode(scores, layer, time_limit=20.0)
    assert quick.result(0).guarantee == "within_gap" and 0 < quick.gap[0] <= 0.3 * quick.bound[0]
    assert best.result(0).guarantee == "optimal"
    assert quick.score[0] <= best.score[0] + 1e-9 and best.score[0] <= quick.bound[0] + 1e-9


@pytest.mark.parametrize(
    ("settings", "given", "words"),
    [
        ({}, {"scores": torch.zeros(2, 3)}, "neither given"),
        ({}, {"scores": torch.zeros(2, 3), "edge_index": torch.tensor([[0], [2]])}, "names node 2"),
        ({}, {"scores": torch.zeros(2, 3), "edge_index": torch.tensor([[0, 1]])}, "Transpose"),
        (
            {},
            {"scores": torch.zeros(2, 3), "edge_index": torch.tensor([[0], [1]]), "batch": torch.tensor([0, 1])},
            "two nodes of one graph",
        ),
        ({}, {"scores": torch.zeros(2, 3), "graphs": [ms.Graph.chain(3)]}, "3 nodes"),
        ({}, {"scores": torch.zeros(2, 3), "graphs": [7]}, "wanted maxsum.Graph"),
        (
            {},
            {"scores": torch.zeros(2, 3), "edge_index": torch.tensor([[0], [1]]), "edge_type": torch.tensor([1])},
            "edge_type",
        ),
        ({}, {"scores": torch.zeros(2, 3), "graphs": [ms.Graph.chain(2)], "mask": torch.ones(3)}, "mask has shape"),
        ({"graph": "grid"}, {"scores": torch.zeros(2, 3)}, "height, width"),
        ({"graph": "grid"}, {"scores": torch.zeros(1, 3, 2, 2), "mask": torch.ones(1, 2)}, "mask has shape"),
    ],
)
def test_bad_graphs_are_refused(settings, given, words):
    layer = StructuredHinge(3, **({"graph": "graph"} | settings))
    scores = given.pop("scores")
    with pytest.raises(ms.MaxsumError, match=words):
        layer.read(scores, **given)


@pytest.mark.parametrize("neighbours", [5, [(0, 0)], [(0, 1), (0, -1)], "four"])
def test_bad_neighbours_are_refused(neighbours):
    with pytest.raises(ms.InvalidParameterError, match="neighbours"):
        StructuredHinge(3, "grid", neighbours=neighbours)
