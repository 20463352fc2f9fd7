"""One graph with observed and unobserved nodes: training on those with labels, prediction given them."""

from __future__ import annotations

import numpy as np
import pytest
from reference.structured_svm import labellings

import maxsum as ms
from maxsum.core.errors import InvalidSampleError
from maxsum.models import KernelMap


def network(n_nodes=60, seed=0):
    """A ring with chords whose halves have different labels, weak features, and a mask of what is known."""
    random = np.random.default_rng(seed)
    edges = {(i, (i + d) % n_nodes) for i in range(n_nodes) for d in (1, 2, 5)}
    graph = ms.Graph.from_edges(sorted({tuple(sorted(e)) for e in edges}), n_nodes=n_nodes)
    labels = np.where(np.arange(n_nodes) < n_nodes // 2, "a", "b")
    x = 0.4 * np.where(labels == "a", 1.0, -1.0)[:, None] + random.standard_normal((n_nodes, 2))
    known = random.random(n_nodes) < 0.5
    return ms.GraphSample(x, graph), labels, known


def masked(labels, known):
    return np.array([label if keep else None for label, keep in zip(labels, known, strict=True)], dtype=object)


@pytest.mark.parametrize("surrogate", ["margin", "lp"])
def test_observed_labels_are_kept_and_help(surrogate):
    sample, labels, known = network()
    given = masked(labels, known)
    net = ms.GraphLabeler(potentials="associative", surrogate=surrogate, C=1.0).fit([sample], [given])
    with_labels = net.predict([sample], observed=[given])[0]
    without = net.predict([sample])[0]
    assert (with_labels[known] == labels[known]).all()
    hidden = ~known
    assert (with_labels[hidden] == labels[hidden]).mean() >= (without[hidden] == labels[hidden]).mean()
    assert (with_labels[hidden] == labels[hidden]).mean() > 0.85


def test_it_is_the_best_labelling_with_these_labels():
    sample, labels, _ = network(8)
    known = np.arange(8) % 3 == 0
    net = ms.GraphLabeler(potentials="associative", surrogate="lp", C=1.0, bias=True).fit([sample], [labels])
    given = masked(labels, known)
    result = net.predict_result([sample], observed=[given])[0]
    code = (labels == "b").astype(int)
    free = net.problems([sample])[0]
    allowed = [np.array(y) for y in labellings(8, 2) if (np.array(y)[known] == code[known]).all()]
    assert free.score(result.labels) == pytest.approx(max(free.score(y) for y in allowed))
    assert result.guarantee == "optimal"
    result.certificate.verify(net.problems([sample], [given])[0], result.labels)


def test_numbers_and_minus_one():
    sample, labels, known = network()
    codes = np.where(known, (labels == "b").astype(int), -1)
    net = ms.GraphLabeler(potentials="associative", surrogate="lp").fit([sample], [codes])
    found = net.predict([sample], observed=[codes])[0]
    assert (found[known] == codes[known]).all()
    assert set(found.tolist()) <= {0, 1}


def test_nothing_observed_is_plain_prediction():
    sample, labels, _ = network()
    net = ms.GraphLabeler(potentials="associative", surrogate="lp").fit([sample], [labels])
    nothing = masked(labels, np.zeros(60, dtype=bool))
    assert np.array_equal(net.predict([sample], observed=[nothing])[0], net.predict([sample])[0])


def test_cliques_and_kernels_through_the_estimator():
    sample, labels, known = network()
    own = ms.GraphSample(sample.X, sample.graph, cliques=[np.arange(i, i + 5) for i in range(0, 55, 5)])
    net = ms.GraphLabeler(potentials="associative", surrogate="lp", features=KernelMap("rbf"), C=1.0)
    net.fit([own], [masked(labels, known)])
    found = net.predict([own], observed=[masked(labels, known)])[0]
    assert (found[known] == labels[known]).all()
    assert (found == labels).mean() > 0.85
    assert net.result_.relative_gap <= 1e-3


@pytest.mark.parametrize("learner", ["RegionBundle", "FactorAscent", "CompactQP", "BlockFrankWolfe"])
def test_learners_agree(learner):
    sample, labels, known = network()
    net = ms.GraphLabeler(potentials="associative", surrogate="lp", learner=learner, tol=1e-3).fit(
        [sample], [masked(labels, known)]
    )
    assert net.result_.relative_gap <= 1e-3
    best = ms.GraphLabeler(potentials="associative", surrogate="lp", learner="CompactQP", tol=1e-6)
    assert net.result_.lower_bound <= best.fit([sample], [masked(labels, known)]).result_.objective * (1 + 1e-9)


def test_the_fastest_learner_for_the_sizes_is_chosen_where_nobody_chose(tmp_path):
    """Block steps stand at a gap of 6 % where the compact programme proves 1e-3 at once; with a checkpoint the default stays."""
    sample, labels, _ = network()
    net = ms.GraphLabeler(potentials="associative", surrogate="lp").fit([sample], [labels])
    assert net.result_.learner == "CompactQP" and "fastest of the lp surrogate" in net.result_.message
    given = {
        "warm_start": {"warm_start": True},
        "checkpoint": {"checkpoint": str(tmp_path / "state")},
        "oracle": {"oracle": "bracket"},
    }
    given |= {
        "learner": {"learner": "BlockFrankWolfe"},
        "potentials": {"potentials": "general"},
        "surrogate": {"surrogate": "margin"},
    }
    for name, changed in given.items():
        other = ms.GraphLabeler(**{"potentials": "associative", "surrogate": "lp", **changed}).fit([sample], [labels])
        assert other.result_.learner == "BlockFrankWolfe", name


def test_bad_masks():
    sample, labels, _ = network()
    nobody = masked(labels, np.zeros(60, dtype=bool))
    net = ms.GraphLabeler(potentials="associative", surrogate="lp")
    with pytest.raises(InvalidSampleError, match="no node has a label"):
        net.fit([sample], [nobody])
    with pytest.raises(InvalidSampleError, match="no node has a label"):
        net.set_params(classes=["a", "b"]).fit([sample], [nobody])
    net.set_params(classes=None).fit([sample], [labels])
    with pytest.raises(InvalidSampleError, match="'c'"):
        net.predict([sample], observed=[np.full(60, "c")])
    with pytest.raises(InvalidSampleError, match="59"):
        net.predict([sample], observed=[labels[:59]])
    negative = ms.GraphSample(sample.X, sample.graph, edge_features=-np.ones(sample.graph.n_edges))
    with pytest.raises(InvalidSampleError, match="features >= 0"):
        net.fit([negative], [labels])
