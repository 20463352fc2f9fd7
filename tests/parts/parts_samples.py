"""Problems and samples for the tests of graphs in parts."""

from __future__ import annotations

import numpy as np

import maxsum as ms


def random_problem(n=40, n_edges=80, k=3, seed=0, own_tables=True):
    rng = np.random.default_rng(seed)
    pairs = {tuple(sorted(pair)) for pair in rng.integers(0, n - 3, (n_edges, 2)).tolist() if pair[0] != pair[1]}
    edges = [pair if rng.random() < 0.5 else pair[::-1] for pair in sorted(pairs)]  # the last three nodes are isolated
    graph = ms.Graph.from_edges(edges, n)
    tables = rng.normal(size=(len(edges), k, k)) if own_tables else rng.normal(size=(k, k))
    return ms.Problem(graph, rng.normal(size=(n, k)), tables, edge_weight=rng.uniform(-1, 2, len(edges)), offset=2.5)
