"""Shards: what was written is read, in constant memory, and whatever is missing, damaged or foreign is named."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError, ParseError
from maxsum.datasets import ShardedDataset, write_shards
from maxsum.models import Dicts, Hashed


def sentences(n=10, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        words = rng.integers(0, 20, rng.integers(1, 6))
        yield [{"word": f"w{w}", "length": float(w % 3)} for w in words], [["N", "V", "D"][w % 3] for w in words]


def every(dataset):
    return [item for shard in dataset for item in shard.items()], [y for shard in dataset for y in shard.labels()]


def test_dicts_become_columns_in_the_order_of_their_first_occurrence(tmp_path):
    data = list(sentences())
    dataset = write_shards(iter(data), tmp_path, samples=3)
    assert dataset.n_shards == 4 and dataset.sizes.tolist() == [3, 3, 3, 1] and len(dataset) == 10
    samples = [ms.GraphSample(x, ms.Graph.chain(len(x))) for x, _ in data]
    features = Dicts().fit(samples)
    assert dataset.input_features.vocabulary == features.vocabulary
    want = features.encode(samples)
    found = sparse.vstack([sparse.csr_array(shard.x) for shard in dataset])
    np.testing.assert_array_equal(found.toarray(), want.toarray())
    assert dataset.classes.tolist() == ["D", "N", "V"]
    assert [y.tolist() for y in every(dataset)[1]] == [y for _, y in data]
    dataset.check()


@pytest.mark.parametrize("kind", ["dense", "codes", "sparse"])
def test_sequences_come_back(kind, tmp_path):
    rng = np.random.default_rng(0)
    make = {
        "dense": lambda n: rng.normal(size=(n, 3)),
        "codes": lambda n: rng.integers(0, 7, n),
        "sparse": lambda n: sparse.csr_array(rng.integers(0, 2, (n, 5)).astype(float)),
    }[kind]
    data = [(make(n), rng.integers(0, 4, n)) for n in (3, 1, 5, 2)]
    dataset = write_shards(data, tmp_path, bytes=100)
    items, labels = every(dataset)
    for (x, y), item, own in zip(data, items, labels, strict=True):
        np.testing.assert_array_equal(*(a.toarray() if hasattr(a, "toarray") else a for a in (item, x)))
        np.testing.assert_array_equal(own, y)
    assert dataset.n_shards > 1 and dataset.kind == "sequence"
    assert "x_val" not in dataset.shard(0).arrays


def test_images_and_graphs_come_back(tmp_path):
    rng = np.random.default_rng(0)
    images = [(rng.normal(size=(h, 4, 2)), rng.integers(0, 3, (h, 4))) for h in (2, 3)]
    dataset = write_shards(images, tmp_path / "images", samples=1)
    items, labels = every(dataset)
    assert dataset.kind == "image"
    for (x, y), item, own in zip(images, items, labels, strict=True):
        np.testing.assert_array_equal(item, x)
        np.testing.assert_array_equal(own, y)
    graph = ms.Graph.from_edges([(0, 1), (2, 1)], 4, edge_type=[0, 1])
    sample = ms.GraphSample(
        rng.normal(size=(4, 2)), graph, rng.random((2, 3)), None, [1.0, 2.0, 0.5, 1.0], [[0, 1, 2], [3]], [[1.0], [2.0]], [0, 1]
    )
    dataset = write_shards([(sample, ["a", None, "b", "a"])], tmp_path / "graphs")
    (found,), (y,) = every(dataset)
    assert y.tolist() == ["a", None, "b", "a"] and dataset.kind == "graph"
    for name in ("X", "edge_features", "node_weights", "clique_features", "clique_types"):
        np.testing.assert_array_equal(getattr(found, name), getattr(sample, name))
    assert [own.tolist() for own in found.cliques] == [[0, 1, 2], [3]]
    np.testing.assert_array_equal(found.graph.edges, graph.edges)
    np.testing.assert_array_equal(found.graph.edge_type, graph.edge_type)


def test_given_vocabularies_and_hashing(tmp_path):
    dataset = write_shards(sentences(), tmp_path / "a", features=Dicts(("word=w1", "word=w2")))
    assert dataset.features.n_features == 2 and dataset.input_features.vocabulary == ("word=w1", "word=w2")
    dataset = write_shards(sentences(), tmp_path / "b", features=Hashed(16))
    data = list(sentences())
    samples = [ms.GraphSample(x, ms.Graph.chain(len(x))) for x, _ in data]
    np.testing.assert_array_equal(dataset.shard(0).x.toarray(), Hashed(16).encode(samples).toarray())
    assert isinstance(dataset.input_features, Hashed)


def test_memory_is_that_of_a_shard(tmp_path):
    import tracemalloc

    def peak(n):
        data = ((np.zeros((100, 50)), np.zeros(100, dtype=int)) for _ in range(n))
        tracemalloc.start()
        write_shards(data, tmp_path / str(n), samples=5)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(5)
    assert peak(200) < 1.5 * peak(20)


def spoil(path, how):
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:-8])
    else:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(bytes(content))


@pytest.mark.parametrize("how", ["missing", "truncated", "flipped", "foreign"])
def test_spoilt_shards_are_named(how, tmp_path):
    write_shards(sentences(), tmp_path / "a", samples=3)
    write_shards(sentences(seed=1), tmp_path / "b", samples=3)
    path = tmp_path / "a" / "shard-000002.arrays"
    if how == "foreign":
        path.write_bytes((tmp_path / "b" / path.name).read_bytes())
    else:
        spoil(path, how)
    with pytest.raises(ParseError, match="shard-000002"):
        ShardedDataset(tmp_path / "a").check()


def test_a_shard_that_changes_later_is_named(tmp_path):
    dataset = write_shards(sentences(), tmp_path, samples=3)
    dataset.shard(1)
    spoil(tmp_path / "shard-000001.arrays", "flipped")
    with pytest.raises(ParseError, match=r"shard-000001.*changed"):
        dataset.shard(1)
    dataset.shard(0)


def test_unfinished_folders_and_manifests_of_others_are_refused(tmp_path):
    def broken():
        yield from sentences(4)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_shards(broken(), tmp_path / "a", samples=2)
    with pytest.raises(ParseError, match="not finished"):
        ShardedDataset(tmp_path / "a")
    write_shards(sentences(), tmp_path / "a", samples=2)
    with pytest.raises(InvalidParameterError, match="holds shards already"):
        write_shards(sentences(), tmp_path / "a")
    manifest = tmp_path / "a" / "manifest.json"
    good = json.loads(manifest.read_text())
    for change in (
        {"format": "x"},
        {"version": 9},
        {"shards": []},
        {"shards": [{**good["shards"][0], "file": "../x"}]},
        {"kind": 3},
    ):
        manifest.write_text(json.dumps({**good, **change}))
        with pytest.raises(ParseError, match=r"manifest"):
            ShardedDataset(tmp_path / "a")
    manifest.write_text("{")
    with pytest.raises(ParseError, match="JSON"):
        ShardedDataset(tmp_path / "a")


@pytest.mark.parametrize(
    ("data", "options", "words", "error"),
    [
        ([], {}, "no samples", InvalidSampleError),
        ([(np.zeros((2, 3)), [0, 1]), (np.zeros((2, 4)), [0, 1])], {}, "sample 1.*4 features a node.*3", InvalidSampleError),
        ([(np.zeros((2, 3)), [0, 1]), ([0, 1], [0, 1])], {}, "sample 1.*codes", InvalidSampleError),
        ([(np.array([[0.0, np.nan]]), [0])], {}, "sample 0.*nan", InvalidSampleError),
        ([(np.zeros((2, 3)), [0])], {}, "sample 0.*shape", InvalidSampleError),
        ([(np.zeros((2, 3)), [0, 1]), (np.zeros((1, 3)), ["a"])], {}, "sample 1.*'a'", InvalidSampleError),
        ([(np.zeros((1, 3)), [2])], {"classes": [0, 1]}, "sample 0.*label 2", InvalidSampleError),
        ([np.zeros((1, 3))], {}, "sample 0.*pair", InvalidSampleError),
        ([(np.zeros((1, 3)), [0])], {"samples": 0}, "samples is 0", InvalidParameterError),
        ([(np.zeros((1, 3)), [0])], {"kind": "film"}, "kind", InvalidParameterError),
        ([(np.zeros((1, 3)), [0])], {"features": "auto"}, "features", InvalidParameterError),
        ([(np.zeros((1, 3)), [0])], {"features": Dicts()}, "vocabulary", InvalidParameterError),
    ],
)
def test_bad_samples_are_named(data, options, words, error, tmp_path):
    with pytest.raises(error, match=words):
        write_shards(data, tmp_path, **options)
    assert not (tmp_path / "manifest.json").exists()
