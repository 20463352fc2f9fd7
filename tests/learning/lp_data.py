"""Small training sets for the learners of the ``lp`` surrogate."""

from __future__ import annotations

import numpy as np

import maxsum as ms
from maxsum.learning.objectives.lp import LPObjective
from maxsum.models import GraphModel, GraphSample

GRAPHS = {
    "triangle": ms.Graph.from_edges([(0, 1), (1, 2), (2, 0)]),
    "complete": ms.Graph.complete(4),
    "grid": ms.Graph.grid(2, 3),
    "lonely": ms.Graph.from_edges([(0, 1), (1, 2), (2, 0)], n_nodes=5),
    "chain": ms.Graph.chain(4),
    "tree": ms.Graph.from_edges([(0, 1), (0, 2), (2, 3)]),
    "none": ms.Graph.from_edges([], n_nodes=3),
}


def lp_objective(graphs="triangle", n_labels=3, potentials="general", repulsive=True, C=5.0, seed=0, n_examples=3, **options):
    """Alternating (or smooth) labels under noise on one graph, or on several in turn."""
    random = np.random.default_rng(seed)
    nets = [GRAPHS[g] if isinstance(g, str) else g for g in (graphs if isinstance(graphs, list) else [graphs])]
    samples, labels = [], []
    for j in range(n_examples):
        graph = nets[j % len(nets)]
        y = (np.arange(graph.n_nodes) * repulsive + (random.random(graph.n_nodes) < 0.3) * random.integers(n_labels)) % n_labels
        samples.append(GraphSample(np.eye(n_labels)[y] + 0.8 * random.standard_normal((graph.n_nodes, n_labels)), graph))
        labels.append(y)
    model = GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels))
    return LPObjective(model, C=C, **options)
