"""The maker of a citation graph."""

from __future__ import annotations

import numpy as np
import pytest

from maxsum.core.errors import InvalidParameterError
from maxsum.datasets import make_citations


def test_sizes_and_what_links_join():
    papers = make_citations()
    sample, edges = papers.sample, np.asarray(papers.sample.graph.edges)
    assert (sample.n_nodes, sample.graph.n_edges, sample.X.shape) == (2708, 5400, (2708, 1433))
    assert np.unique(sample.X.data).tolist() == [1.0]
    assert 14 < sample.X.sum() / 2708 < 18
    assert papers.hidden.sum() == 1000
    assert np.bincount(papers.y).min() > 100
    assert 0.78 < (papers.y[edges[:, 0]] == papers.y[edges[:, 1]]).mean() < 0.9
    assert (papers.known[papers.hidden] == -1).all()
    assert (papers.known[~papers.hidden] == papers.y[~papers.hidden]).all()


def test_the_same_seed_gives_the_same_graph():
    one, two, other = (make_citations(50, 80, 30, 3, 10, seed) for seed in (4, 4, 5))
    assert (one.sample.graph.edges == two.sample.graph.edges).all()
    assert (one.sample.X != two.sample.X).nnz == 0
    assert (one.y == two.y).all()
    assert (one.hidden == two.hidden).all()
    assert not np.array_equal(one.y, other.y)


def test_same_joins_papers_of_one_topic_alone():
    papers = make_citations(200, 300, 30, 4, 0, same=1.0)
    first, second = np.asarray(papers.sample.graph.edges).T
    assert (papers.y[first] == papers.y[second]).all()
    assert (first < second).all()


def test_more_words_are_drawn_on_demand():
    few, many = (make_citations(300, 300, 200, 3, 0, words_a_node=n).sample.X.sum() for n in (5.0, 20.0))
    assert many > 2 * few


@pytest.mark.parametrize(
    "wrong",
    [{"n_nodes": 0}, {"n_links": 10**9}, {"n_hidden": 3000}, {"same": 1.5}, {"words_a_node": -1.0}, {"random_state": "a"}],
)
def test_wrong_sizes_are_refused(wrong):
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        make_citations(**wrong)
