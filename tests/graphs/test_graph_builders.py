"""Graph builders: neighbours, shared neighbours and matrices against brute force, and what they refuse."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

import maxsum as ms
from maxsum.graphs import neighbours, shared


def slow_tf_idf(counts: np.ndarray) -> np.ndarray:
    n, d = counts.shape
    out = np.zeros((n, d))
    for i in range(n):
        for j in range(d):
            if counts[i, j]:
                df = sum(counts[k, j] > 0 for k in range(n))
                out[i, j] = (1 + math.log(counts[i, j])) * math.log(n / df)
    return out


def slow_neighbours(X: np.ndarray, k: int, groups: np.ndarray | None = None) -> dict[tuple[int, int], float]:
    found = {}
    for i in range(len(X)):
        cosines = []
        for j in range(len(X)):
            if j != i and (groups is None or groups[i] == groups[j]):
                cosine = X[i] @ X[j] / (np.linalg.norm(X[i]) * np.linalg.norm(X[j]))
                cosines.append((-round(cosine, 10), j))
        for negative, j in sorted(cosines)[:k]:
            if negative < 0:
                found[min(i, j), max(i, j)] = -negative
    return found


def as_dict(edges: ms.graphs.edges.WeightedEdges) -> dict[tuple[int, int], float]:
    return dict(zip(map(tuple, edges.graph.edges.tolist()), edges.weights.tolist(), strict=True))


def documents(seed: int, n: int = 30, d: int = 12) -> np.ndarray:
    counts = np.random.default_rng(seed).poisson(0.5, size=(n, d))
    counts[counts.sum(axis=1) == 0, 0] = 1
    return counts


@pytest.mark.parametrize("seed", range(4))
def test_tf_idf_is_the_formula(seed: int) -> None:
    counts = documents(seed)
    for given in (counts, sparse.csr_matrix(counts), sparse.coo_array(counts)):
        np.testing.assert_allclose(ms.graphs.tf_idf(given).toarray(), slow_tf_idf(counts), atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 5, 40])
@pytest.mark.parametrize("seed", range(3))
def test_neighbours_are_those_of_brute_force(seed: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = documents(seed).astype(float)
    groups = np.arange(len(X)) % 3
    for cells in (1, 70, 1 << 22):
        monkeypatch.setattr(neighbours, "_CELLS", cells)
        for given in (X, sparse.csr_array(X)):
            assert as_dict(ms.graphs.nearest_neighbours(given, k)) == pytest.approx(slow_neighbours(X, k), abs=1e-9)
            apart = as_dict(ms.graphs.nearest_neighbours(given, k, groups))
            assert apart == pytest.approx(slow_neighbours(X, k, groups), abs=1e-9)
            assert all(groups[u] == groups[v] for u, v in apart)


def test_equal_neighbours_go_to_the_first() -> None:
    X = np.ones((5, 2))
    assert as_dict(ms.graphs.nearest_neighbours(X, 1)) == {(0, 1): 1.0, (0, 2): 1.0, (0, 3): 1.0, (0, 4): 1.0}


def test_a_limit_leaves_rows_alone() -> None:
    X = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    found = ms.graphs.nearest_neighbours(X, 2, min_similarity=0.5)
    assert found.graph.edges.tolist() == [[0, 1]]
    assert found.graph.n_nodes == 3


def test_empty_documents_and_no_neighbours() -> None:
    X = np.array([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]])
    with pytest.raises(ms.InvalidSampleError, match=r"row 1 of X is empty .* empty=\"isolate\""):
        ms.graphs.nearest_neighbours(X)
    assert ms.graphs.nearest_neighbours(X, empty="isolate").graph.edges.tolist() == [[0, 2]]
    with pytest.raises(ms.InvalidGraphError, match="no row of X has a neighbour"):
        ms.graphs.nearest_neighbours(np.eye(3))


@pytest.mark.parametrize(
    ("options", "message", "error"),
    [
        ({"k": 0}, "k is 0", ms.InvalidParameterError),
        ({"k": True}, "k is True", ms.InvalidParameterError),
        ({"min_similarity": -0.1}, "min_similarity is -0.1", ms.InvalidParameterError),
        ({"empty": "drop"}, "empty is 'drop'", ms.InvalidParameterError),
        ({"groups": [0]}, "groups has shape", ms.InvalidSampleError),
    ],
)
def test_bad_options_of_neighbours(options: dict, message: str, error: type) -> None:
    with pytest.raises(error, match=message):
        ms.graphs.nearest_neighbours(np.ones((3, 2)), **options)


def test_bad_values() -> None:
    with pytest.raises(ms.InvalidSampleError, match="not finite"):
        ms.graphs.nearest_neighbours(np.array([[1.0, np.nan], [1.0, 1.0]]))
    for bad in (-1.0, 0.5, np.nan):
        with pytest.raises(ms.InvalidSampleError, match="document 1, word 0"):
            ms.graphs.tf_idf(np.array([[1.0, 2.0], [bad, 1.0]]))


@pytest.mark.parametrize("by", ["source", "target"])
@pytest.mark.parametrize("max_size", [None, 3])
@pytest.mark.parametrize("seed", range(4))
def test_shared_neighbours_are_those_of_brute_force(seed: int, max_size: int | None, by: str) -> None:
    random = np.random.default_rng(seed)
    n = 12
    links = random.integers(0, n, size=(50, 2))
    own, other = (0, 1) if by == "source" else (1, 0)
    wanted: dict[tuple[int, int], float] = {}
    for page in range(n):
        joined = sorted({int(link[other]) for link in links if link[own] == page and link[other] != page})
        if max_size is None or len(joined) <= max_size:
            for pair in combinations(joined, 2):
                wanted[pair] = wanted.get(pair, 0.0) + 1.0
    matrix = sparse.coo_array((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(n, n))
    for given in (links, matrix):
        found = ms.graphs.shared_neighbours(given, n, by, max_size)
        assert as_dict(found) == wanted
        assert found.graph.n_nodes == n


def test_shared_neighbours_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    star = np.array([[0, leaf] for leaf in range(1, 6)])
    with pytest.raises(ms.InvalidGraphError, match="by is 'both'"):
        ms.graphs.shared_neighbours(star, by="both")
    with pytest.raises(ms.InvalidGraphError, match=r"link 4 names nodes \[0, 5\]"):
        ms.graphs.shared_neighbours(star, 5)
    with pytest.raises(ms.InvalidGraphError, match="wanted whole numbers"):
        ms.graphs.shared_neighbours([[0.5, 1.0]])
    monkeypatch.setattr(shared, "_PAIRS", 9)
    with pytest.raises(ms.InvalidGraphError, match=r"10 pairs .* page 0 is shared by 5 nodes"):
        ms.graphs.shared_neighbours(star)
    assert ms.graphs.shared_neighbours(star, max_size=4).graph.n_edges == 0


def test_adjacency_keeps_its_values() -> None:
    dense = np.array([[5.0, 2.0, 0.0], [2.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    assert as_dict(ms.graphs.from_adjacency(sparse.csr_array(dense))) == {(0, 1): 2.0, (0, 2): 3.0}
    assert ms.graphs.from_adjacency(sparse.csr_array((4, 4))).graph.n_nodes == 4


def test_adjacency_refuses() -> None:
    with pytest.raises(ms.InvalidGraphError, match="0-1 stands there twice with different values"):
        ms.graphs.from_adjacency(sparse.csr_array(np.array([[0.0, 2.0], [1.0, 0.0]])))
    with pytest.raises(ms.InvalidGraphError, match="wanted a square one"):
        ms.graphs.from_adjacency(sparse.csr_array((2, 3)))
    with pytest.raises(ms.InvalidGraphError, match="nan at"):
        ms.graphs.from_adjacency(sparse.csr_array(np.array([[0.0, np.nan], [0.0, 0.0]])))
    with pytest.raises(ms.InvalidGraphError, match="adjacency is a ndarray"):
        ms.graphs.from_adjacency(np.eye(2))
