"""One large graph with known and unknown nodes, as it comes: the surrogate that converges is chosen, and says why."""

import numpy as np
import pytest

import maxsum as ms
from maxsum.datasets import make_citations


@pytest.fixture(scope="module")
def papers():
    return make_citations(600, 1100, 700, 4, 200, random_state=0)


def test_large_graphs_are_learned_by_the_relaxation(papers):
    net = ms.GraphLabeler(tol=0.01).fit([papers.sample], [papers.known])
    assert net.objective_.surrogate == "lp" and net.result_.learner == "FactorAscent"
    assert "the lp surrogate, as one slack" in net.result_.message
    assert net.result_.relative_gap <= 0.01 and net.result_.verify(net.objective_).gap <= 0.011 * net.result_.objective
    named = ms.GraphLabeler(surrogate="lp", tol=0.01).fit([papers.sample], [papers.known])
    assert np.array_equal(named.weights_, net.weights_)


@pytest.mark.parametrize(
    "chosen", [{"surrogate": "margin"}, {"learner": "CuttingPlane"}, {"oracle": "TRWS"}, {"potentials": "supermodular"}]
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_chosen_stays(papers, chosen):
    net = ms.GraphLabeler(max_iter=2, **chosen).fit([papers.sample], [papers.known])
    assert net.objective_.surrogate == "margin"


def test_small_graphs_stay_with_the_margin():
    rng = np.random.default_rng(0)
    X = [ms.GraphSample(rng.normal(size=(9, 2)), ms.Graph.grid(3, 3)) for _ in range(4)]
    assert ms.GraphLabeler().fit(X, [rng.integers(0, 3, size=9) for _ in X]).objective_.surrogate == "margin"
