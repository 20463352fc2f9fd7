"""JointModel: any joint feature map that is a sum over nodes and edges (Franc 2015, "Generalization")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..core.errors import InvalidSampleError
from ..core.graph import Graph
from .bound import BoundModel, Encoded, node_weights
from .cone import Cone
from .labels import as_classes, encode_labels, induced
from .sample import GraphSample, factors_of


@dataclass(frozen=True, eq=False)
class JointModel:
    r"""Max-sum classifier with general joint features

    .. math:: F(x, y; w) = \Big\langle w, \sum_v \Psi_v(x, y_v) + \sum_{uv} \Psi_{uv}(x, y_u, y_v)\Big\rangle.

    Parameters
    ----------
    node : callable
        Sample to an array or sparse matrix (n_nodes * K, n_weights): row ``v * K + k`` is :math:`\Psi_v(x, k)`.
    edge : callable
        Sample to (n_edges * K * K, n_weights): row ``(e * K + k) * K + l`` is :math:`\Psi_{uv}(x, k, l)`.
    n_weights : int
    names : sequence of str, optional
    cone : Cone, optional
        Allowed weights; all by default.
    """

    node: Callable[[GraphSample], Any]
    edge: Callable[[GraphSample], Any]
    n_weights: int
    names: Sequence[str] | None = None
    cone: Cone | None = None

    def bind(self, samples: Sequence[GraphSample], labels: Any = None, classes: Any = None) -> BoundModel:
        """Bind the model to training data, as `GraphModel.bind`."""
        samples = list(samples)
        if not samples:
            raise InvalidSampleError("there are no samples; wanted at least one.")
        if any(sample.cliques for sample in samples):
            raise InvalidSampleError("JointModel takes no cliques; use GraphModel with potentials='associative'.")
        if labels is not None:
            samples, labels = induced(samples, labels, classes)
        known = as_classes(classes, samples, labels)
        if len(known) != 1:
            raise InvalidSampleError("JointModel takes nodes of one type; put the type into the features.")
        coded = None if labels is None else encode_labels(labels, samples, known)
        n_labels = len(known[0])
        index = np.arange(self.n_weights, dtype=np.int32)
        names = list(self.names) if self.names is not None else [f"w{i}" for i in range(self.n_weights)]
        cone = Cone.free(self.n_weights) if self.cone is None else self.cone
        layout = JointLayout(self, n_labels)
        data = layout.encode(samples)
        return BoundModel(
            layout, data, index[:, None], index[:, None, None], cone, known, n_labels, lambda classes: names, coded
        )

    def _encode(self, samples: Sequence[GraphSample], n_labels: int) -> Encoded:
        graphs = tuple(sample.graph for sample in samples)
        n_nodes = [g.n_nodes for g in graphs]
        x = [self._rows(self.node, "node", j, s, s.n_nodes * n_labels) for j, s in enumerate(samples)]
        f = [self._rows(self.edge, "edge", j, s, s.graph.n_edges * n_labels**2) for j, s in enumerate(samples)]
        return Encoded(
            graphs,
            np.cumsum([0] + n_nodes, dtype=np.int64),
            np.cumsum([0] + [g.n_edges for g in graphs], dtype=np.int64),
            Graph.union(graphs).edges,
            sparse.csr_array(sparse.vstack([sparse.csr_array((0, self.n_weights))] + x, format="csr")),
            sparse.csr_array(sparse.vstack([sparse.csr_array((0, self.n_weights))] + f, format="csr")),
            np.full(sum(n_nodes), n_labels, dtype=np.int32),
            np.zeros(sum(n_nodes), dtype=np.int64),
            node_weights(samples),
            joint=True,
            factors=factors_of(samples, np.full(sum(n_nodes), n_labels, dtype=np.int32)),
        )

    def _rows(self, function: Callable[[GraphSample], Any], name: str, j: int, sample: GraphSample, n_rows: int) -> Any:
        given = function(sample)
        rows = given if hasattr(given, "tocsr") else np.asarray(given, dtype=np.float64)
        if isinstance(rows, np.ndarray) and rows.shape[-1:] == (self.n_weights,) and rows.size == n_rows * self.n_weights:
            rows = rows.reshape(n_rows, self.n_weights)
        matrix = sparse.csr_array(rows) if rows.shape == (n_rows, self.n_weights) else None
        if matrix is None or not np.isfinite(matrix.data).all():
            raise InvalidSampleError(
                f"{name} features of sample {j} have shape {rows.shape}, wanted finite numbers of shape {(n_rows, self.n_weights)}."
            )
        return matrix


@dataclass(frozen=True, eq=False)
class JointLayout:
    """The functions of a `JointModel` for a number of labels."""

    model: JointModel
    n_labels: int

    def encode(self, samples: Sequence[GraphSample]) -> Encoded:
        """Features of samples, joint with labels."""
        return self.model._encode(samples, self.n_labels)
