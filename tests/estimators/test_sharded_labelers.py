"""Labelers on shards: the same objective and predictions as in memory, for every labeler and surrogate that takes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError, ParseError
from maxsum.datasets import ShardedDataset, write_shards
from maxsum.learning import BlockFrankWolfe, CuttingPlane, ShardAscent

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def sentences(n=40, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        words = rng.integers(0, 30, rng.integers(2, 7))
        tags = np.where(rng.random(len(words)) < 0.8, words % 3, rng.integers(0, 3, len(words)))
        yield [{"word": f"w{w}", "odd": float(w % 2)} for w in words], ["NVD"[t] for t in tags]


def images(n=8, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        y = np.kron(rng.integers(0, 2, (2, 2)), np.ones((2, 3), dtype=int))
        yield np.eye(2)[y] + 0.6 * rng.normal(size=(4, 6, 2)), y


def graphs(n=16, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        y = rng.integers(0, 3, 5)
        graph = ms.Graph.from_edges([(0, 1), (1, 2), (1, 3), (3, 4)], 5, edge_type=[0, 1, 0, 1])
        yield ms.GraphSample(np.eye(3)[y] + 0.7 * rng.normal(size=(5, 3)), graph, rng.random((4, 2))), y


CASES = {
    "sequence": (ms.SequenceLabeler, sentences, {}),
    "sequence, balanced": (ms.SequenceLabeler, sentences, {"class_weight": "balanced", "bias": True}),
    "sequence, lp": (ms.SequenceLabeler, sentences, {"surrogate": "lp"}),
    "sequence, qp": (ms.SequenceLabeler, sentences, {"surrogate": "qp"}),
    "sequence, planes": (ms.SequenceLabeler, sentences, {"learner": "CuttingPlane"}),
    "grid": (ms.GridLabeler, images, {"potentials": "auto"}),
    "grid, contrast": (
        ms.GridLabeler,
        images,
        {"edge_features": "contrast", "edge_types": "directions", "potentials": "associative"},
    ),
    "grid, lp": (ms.GridLabeler, images, {"surrogate": "lp"}),
    "graph": (ms.GraphLabeler, graphs, {}),
    "graph, own weights": (ms.GraphLabeler, graphs, {"homogeneous": False}),
}


@pytest.mark.parametrize("name", CASES)
def test_shards_are_as_good_as_memory(name, tmp_path):
    labeler, make, options = CASES[name]
    data = list(make())
    X, y = [x for x, _ in data], [own for _, own in data]
    dataset = write_shards(data, tmp_path / "train", samples=-(-len(data) // 4))
    tol = 5e-2 if "grid" in name else 1e-2
    plain = labeler(C=2.0, tol=tol, **options).fit(X, y)
    net = labeler(C=2.0, tol=tol, **options).fit(dataset)
    assert net.result_.relative_gap <= tol
    assert abs(net.result_.objective - plain.result_.objective) <= net.result_.gap + plain.result_.gap
    assert net.weight_names_ == plain.weight_names_ and net.classes_.tolist() == plain.classes_.tolist()
    assert net.n_features_in_ == plain.n_features_in_ and "Chosen" in net.result_.message
    assert net.coef_blocks_.keys() == plain.coef_blocks_.keys()
    checked = net.result_.verify(net.objective_)
    assert checked.lower_bound <= net.result_.objective and checked.gap >= 0
    out = net.predict_shards(dataset, tmp_path / "out")
    found = [labels for shard in out for labels in shard.labels()]
    for own, want in zip(found, net.predict(X), strict=True):
        np.testing.assert_array_equal(own, want)
    assert net.score(dataset) == pytest.approx(net.score(X, y))
    with pytest.raises(InvalidSampleError, match="labels alone"):
        ShardedDataset(tmp_path / "out").shard(0).items()


def test_processes_give_the_same_bits(tmp_path):
    dataset = write_shards(sentences(), tmp_path / "train", samples=10)
    want = ms.SequenceLabeler(tol=1e-2).fit(dataset)
    net = ms.SequenceLabeler(tol=1e-2).fit(dataset, executor="processes")
    assert net.weights_.tobytes() == want.weights_.tobytes()
    out = net.predict_shards(dataset, tmp_path / "out", executor="threads")
    assert out.n_samples == 40


def test_unknown_labels_are_left_out(tmp_path):
    data = list(sentences())
    holes = [(x, [None if i == 1 else own for i, own in enumerate(y)]) for x, y in data]
    dataset = write_shards(holes, tmp_path, samples=10)
    net = ms.SequenceLabeler(tol=1e-2).fit(dataset)
    plain = ms.SequenceLabeler(tol=1e-2).fit([x for x, _ in data], [y for _, y in holes])
    assert abs(net.result_.objective - plain.result_.objective) <= net.result_.gap + plain.result_.gap


def test_learners_are_used_as_given(tmp_path):
    dataset = write_shards(sentences(), tmp_path, samples=10)
    for learner, name in (
        (ShardAscent(tol=0.05, width=2), "ShardAscent"),
        (BlockFrankWolfe(tol=0.05, cached_passes=1), "ShardAscent"),
        (CuttingPlane(tol=0.05), "CuttingPlane"),
    ):
        assert ms.SequenceLabeler(learner=learner).fit(dataset).result_.learner == name
    with pytest.raises(InvalidParameterError, match="on shards"):
        ms.SequenceLabeler(learner="Subgradient").fit(dataset)


def test_a_shard_that_changes_under_way_is_named(tmp_path):
    dataset = write_shards(sentences(), tmp_path / "train", samples=10)
    path = tmp_path / "train" / "shard-000002.arrays"

    def spoil(point):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(bytes(content))

    with pytest.raises(ParseError, match=r"shard-000002.*changed"):
        ms.SequenceLabeler(tol=0.0, max_iter=5, callback=spoil).fit(dataset)


def test_training_goes_on_from_its_checkpoint(tmp_path):
    dataset = write_shards(sentences(), tmp_path / "train", samples=10)
    want = ms.SequenceLabeler(tol=0.0, max_iter=6).fit(dataset)
    first = ms.SequenceLabeler(tol=0.0, max_iter=3, checkpoint=tmp_path / "run").fit(dataset)
    assert first.weights_.tobytes() != want.weights_.tobytes()
    second = ms.SequenceLabeler(tol=0.0, max_iter=6, checkpoint=tmp_path / "run").fit(dataset)
    assert second.result_.lower_bound == want.result_.lower_bound
    assert second.result_.extra["duals"] == want.result_.extra["duals"]


def test_what_does_not_go_with_shards_is_refused(tmp_path):
    dataset = write_shards(sentences(), tmp_path / "a", samples=10)
    for net, words, error in (
        (ms.GridLabeler(), "kind 'sequence'", InvalidSampleError),
        (ms.SequenceLabeler(surrogate="trivial"), "surrogate is 'trivial'", InvalidParameterError),
        (ms.SequenceLabeler(order=2), "order=2", InvalidParameterError),
        (ms.SequenceLabeler(features=ms.models.Dicts()), "features", InvalidParameterError),
        (ms.SequenceLabeler(classes=["N", "V"]), "'D'", InvalidSampleError),
        (ms.SequenceLabelerCV(), "in memory", InvalidParameterError),
    ):
        with pytest.raises(error, match=words):
            net.fit(dataset)
    with pytest.raises(InvalidSampleError, match="hold their labels"):
        ms.SequenceLabeler().fit(dataset, [["N"]])
    with pytest.raises(InvalidParameterError, match="X is in memory"):
        ms.SequenceLabeler().fit([[{"a": 1}]], [["N"]], executor="threads")
    bare = write_shards([x for x, _ in sentences()], tmp_path / "b", labelled=False)
    with pytest.raises(InvalidSampleError, match="no labels"):
        ms.SequenceLabeler().fit(bare)


@pytest.mark.parametrize("learner", [None, BlockFrankWolfe(checkpoint_seconds=0.0), "CuttingPlane"], ids=str)
def test_checkpoint_seconds_counts_on_shards(learner, tmp_path, monkeypatch):
    """Every pass is saved with 0 seconds, none but the last with an hour."""
    from maxsum.learning.driver import Training

    dataset, saved = write_shards(sentences(24), tmp_path / "train", samples=6), []
    monkeypatch.setattr(Training, "save", lambda self, save=Training.save: saved.append(self.n_iter) or save(self))
    for seconds, most in ((0.0, 10**6), (3600.0, 1)):
        own = learner if not isinstance(learner, BlockFrankWolfe) else replace(
            learner, checkpoint=tmp_path / f"state-{seconds}", checkpoint_seconds=seconds, tol=1e-2
        )  # fmt: skip
        saved.clear()
        net = ms.SequenceLabeler(
            C=2.0, tol=1e-2, learner=own, checkpoint=str(tmp_path / f"state-{seconds}"), checkpoint_seconds=seconds
        )
        net.fit(dataset)
        assert (net.result_.n_iter > 2) and (len(saved) > 2 if most > 1 else len(saved) <= most)


def test_a_checkpoint_on_shards_is_gone_on_from_with_other_limits(tmp_path):
    dataset = write_shards(sentences(24), tmp_path / "train", samples=6)
    for learner in (None, BlockFrankWolfe(tol=1e-6, max_iter=2)):
        place = {"checkpoint": str(tmp_path / f"state-{learner is None}")}
        own = None if learner is None else replace(learner, **place)
        first = ms.SequenceLabeler(C=2.0, tol=1e-6, max_iter=2, learner=own, checkpoint_seconds=0.0, **place).fit(dataset)
        own = None if learner is None else replace(learner, tol=1e-2, max_iter=500, time_limit=60.0, **place)
        more = ms.SequenceLabeler(C=2.0, tol=1e-2, max_iter=500, learner=own, checkpoint_seconds=9.0, **place).fit(dataset)
        assert more.result_.n_iter > 2 and more.result_.objective <= first.result_.objective
        assert more.result_.extra["rounds"] > first.result_.extra["rounds"]
