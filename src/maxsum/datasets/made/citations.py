"""One graph of papers that cite each other, with known and unknown topics, made at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.graph import Graph
from ...core.parameters import Real, WholeNumber, check_value
from .generate import _generator

if TYPE_CHECKING:
    from ...models.sample import GraphSample

_SPREAD = 0.7  # falling sizes of topics: the largest of 7 is four times the smallest, as in published citation graphs
_ZIPF = 0.8  # exponent of the frequencies of words
_BOOST = 4.0  # how much more often a topic uses the words that belong to it
_FAME = 0.5  # exponent of the share of citations that a paper gets by its rank: few papers have many


class Citations(NamedTuple):
    """Papers with words, citations and topics.

    Attributes
    ----------
    sample : GraphSample
        Its ``X`` is sparse, 1 where a paper has a word; its graph has an edge where one of two papers cites the other.
    y : ndarray of int64, shape (n_nodes,)
        The topic of each paper.
    hidden : ndarray of bool, shape (n_nodes,)
        Which topics nobody is to know in training.
    """

    sample: GraphSample
    y: np.ndarray
    hidden: np.ndarray

    @property
    def known(self) -> np.ndarray:
        """The topics with -1 where they are hidden: what estimators are trained with."""
        return np.where(self.hidden, -1, self.y)


def make_citations(
    n_nodes: int = 2708,
    n_links: int = 5400,
    n_words: int = 1433,
    n_labels: int = 7,
    n_hidden: int = 1000,
    random_state: Any = 0,
    *,
    words_a_node: float = 18.0,
    same: float = 0.8,
) -> Citations:
    """One graph of papers whose links mostly join papers of one topic; the sizes are those of a citation graph that is often studied (Cora).

    A paper of topic :math:`k` has words that are drawn by how frequent they are, where the words of topic :math:`k` (each word
    belongs to one topic) are several times as frequent as elsewhere. Links are drawn until there are enough: one paper anywhere, the other, with
    the probability ``same``, among those of the same topic, else anywhere; few papers have many links.

    Parameters
    ----------
    n_nodes, n_links, n_words, n_labels : int
    n_hidden : int
        Papers whose topic is hidden, at most ``n_nodes``.
    random_state : int, sequence of int or numpy Generator
    words_a_node : float
        Mean number of words that are drawn for a paper; those drawn twice count once.
    same : float
        Share of links that look for a paper of the same topic, at most 1.

    Returns
    -------
    Citations

    Examples
    --------
    >>> from maxsum.datasets import make_citations
    >>> papers = make_citations()
    >>> papers.sample
    GraphSample(sparse of 1433 features, Graph(2708 nodes, 5400 edges))
    """
    from scipy import sparse

    from ...models.sample import GraphSample

    for name, size in (("n_nodes", n_nodes), ("n_words", n_words), ("n_labels", n_labels)):
        check_value(name, size, WholeNumber(1))
    most = n_nodes * (n_nodes - 1) // 4
    check_value("n_links", n_links, WholeNumber(0, most, wanted=f"0 to {most}, half of all pairs of nodes"))
    check_value("n_hidden", n_hidden, WholeNumber(0, n_nodes, wanted=f"0 to {n_nodes}, the number of nodes"))
    check_value("words_a_node", words_a_node, Real(0.0, below=np.inf, wanted="a number >= 0"))
    check_value("same", same, Real(0.0, at_most=1.0, wanted="a share from 0 to 1"))
    random = _generator(random_state)
    shares = np.exp(-2 * _SPREAD * np.arange(n_labels) / max(1, n_labels - 1))
    y = random.choice(n_labels, n_nodes, p=shares / shares.sum())
    links = _links(random, y, n_links, same)
    rows, columns = _words(random, y, n_words, n_labels, words_a_node)
    x = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_nodes, n_words))
    hidden = np.zeros(n_nodes, dtype=bool)
    hidden[random.permutation(n_nodes)[:n_hidden]] = True
    return Citations(GraphSample(x, Graph.from_edges(links, n_nodes=n_nodes)), y, hidden)


def _links(random: np.random.Generator, y: np.ndarray, n_links: int, same: float) -> np.ndarray:
    """Different pairs of different nodes, sorted."""
    fame = (1.0 + random.permutation(len(y))) ** -_FAME
    by_topic = [np.flatnonzero(y == k) for k in range(int(y.max()) + 1)]
    codes = np.zeros(0, dtype=np.int64)
    while len(codes) < n_links:
        n = 2 * (n_links - len(codes)) + 8
        first = random.integers(len(y), size=n)
        second = random.choice(len(y), n, p=fame / fame.sum())
        alike = random.random(n) < same
        for k, members in enumerate(by_topic):
            own = np.flatnonzero(alike & (y[first] == k))
            if len(own):
                second[own] = random.choice(members, len(own), p=fame[members] / fame[members].sum())
        low, high = np.minimum(first, second), np.maximum(first, second)
        found = np.concatenate([codes, (low * len(y) + high)[low != high]])
        codes = found[
            np.sort(np.unique(found, return_index=True)[1])
        ]  # the first of each, in the order in which they were drawn
    codes = np.sort(codes[:n_links])
    return np.stack([codes // len(y), codes % len(y)], axis=1)


def _words(
    random: np.random.Generator, y: np.ndarray, n_words: int, n_labels: int, words_a_node: float
) -> tuple[np.ndarray, np.ndarray]:
    """Node and word of each entry, every pair once."""
    common = (1.0 + random.permutation(n_words)) ** -_ZIPF
    topic = random.integers(n_labels, size=n_words)
    counts = random.poisson(words_a_node, size=len(y))
    codes = []
    for k in range(n_labels):
        share = np.where(topic == k, _BOOST, 1.0) * common
        nodes = np.repeat(np.flatnonzero(y == k), counts[y == k])
        codes.append(nodes * n_words + random.choice(n_words, len(nodes), p=share / share.sum()))
    found = np.unique(np.concatenate(codes))
    return found // n_words, found % n_words
