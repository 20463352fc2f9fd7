"""Where the scores of a part come from: its file, or its features and the weights of a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.cliques import Cliques
from ..core.errors import InvalidSampleError, ParseError, UnsupportedProblemError
from ..core.graph import Graph
from ..core.problem import Problem
from ..losses import Loss
from ..models.bound import BoundModel
from ..models.sample import GraphSample
from .folder import Parts


class Local(NamedTuple):
    """A part with a node of its own (a *halo*, without scores) for the far end of each cut.

    Nodes are the halos of parts that come earlier in the order of passes, the part's own (``first`` to ``last - 1``), the halos of
    later ones. Edges are the inner ones and then the cuts, in the order of the file.
    """

    problem: Problem
    first: int
    last: int
    n_inner: int
    halo: np.ndarray  # node of each cut's far end
    side: np.ndarray  # which end of each cut is the part's own
    early: np.ndarray  # whether the far end of each cut belongs to an earlier part
    owned: np.ndarray  # whether the cut's term is counted with this part (the one of lower number)

    @property
    def cut_edges(self) -> slice:
        """The edges to other parts, which follow those inside."""
        return slice(self.n_inner, self.problem.n_edges)

    def labels(self, own: np.ndarray, cut_labels: np.ndarray) -> np.ndarray:
        """Labels of all nodes: those of the part, and of the far ends of its cuts (2, n_cuts)."""
        found = np.zeros(self.problem.n_nodes, dtype=np.int32)
        found[self.first : self.last] = own
        found[self.halo] = cut_labels[1 - self.side, np.arange(len(self.side))]
        return found


class Scores(NamedTuple):
    """Scores of a part: of its own nodes, and tables of its inner edges and cuts."""

    unary: np.ndarray
    tables: np.ndarray
    edge_table: np.ndarray
    edge_weight: np.ndarray


@dataclass(frozen=True, eq=False)
class Source:
    """Scores of the parts of a problem."""

    parts: Parts

    @property
    def n_labels(self) -> int:
        """Most labels of a node."""
        return int(self.parts.n_labels or 0)

    def scores(self, p: int, arrays: dict[str, np.ndarray]) -> Scores:
        """The scores of part ``p``."""
        need = {"unary", "tables", "edge_table", "edge_weight"}
        if not need <= set(arrays):
            raise ParseError(f"lacks {', '.join(sorted(need - set(arrays)))}: no part of a problem.", str(self.parts.path(p)))
        found = Scores(arrays["unary"], arrays["tables"], arrays["edge_table"], arrays["edge_weight"])
        n_edges, size = len(arrays["edges"]) + len(arrays["cut_node"]), self.n_labels
        shapes = (found.unary.shape, found.tables.shape[1:], found.edge_table.shape, found.edge_weight.shape)
        if shapes != ((len(arrays["nodes"]), size), (size, size), (n_edges,), (n_edges,)):
            raise ParseError(f"has scores of shapes {shapes}, which do not fit its nodes and edges.", str(self.parts.path(p)))
        if n_edges and not (found.edge_table.min() >= 0 and found.edge_table.max() < len(found.tables)):
            raise ParseError("names tables that it does not have.", str(self.parts.path(p)))
        return found

    def load(self, p: int, early: np.ndarray | None = None) -> Local:
        """Part ``p`` with halos; ``early`` says which cuts lead to earlier parts (none by default)."""
        arrays = self.parts.arrays(p)
        scores = self.scores(p, arrays)
        n, n_cuts, n_inner = len(arrays["nodes"]), len(arrays["cut_node"]), len(arrays["edges"])
        early = np.zeros(n_cuts, dtype=bool) if early is None else early
        first = int(early.sum())
        halo = np.where(early, np.cumsum(early) - 1, first + n + np.cumsum(~early) - 1)
        side = np.where(arrays["cut_first"] != 0, 0, 1)
        edges = np.empty((n_inner + n_cuts, 2), dtype=np.int32)
        np.add(arrays["edges"], first, out=edges[:n_inner])
        at = np.arange(n_inner, n_inner + n_cuts)
        edges[at, side], edges[at, 1 - side] = arrays["cut_node"] + first, halo
        unary = np.zeros((n + n_cuts, self.n_labels))
        unary[first : first + n] = scores.unary
        problem = Problem._trusted(
            graph=Graph(n + n_cuts, edges, np.zeros(len(edges), dtype=np.int32)),
            unary=unary,
            tables=scores.tables,
            edge_table=scores.edge_table,
            edge_weight=scores.edge_weight,
            n_states=np.full(n + n_cuts, self.n_labels, dtype=np.int32),
            cliques=Cliques.empty(self.n_labels),
            offset=0.0,
        )
        return Local(problem, first, first + n, n_inner, halo, side, early, arrays["cut_part"] > p)

    def features(self, p: int, labels: np.ndarray) -> tuple[np.ndarray, float] | None:
        """Features and loss of a labelling; nothing for problems."""
        return None

    def truth(self, p: int, arrays: dict[str, np.ndarray] | None = None) -> np.ndarray:
        """True labels of part ``p``; problems have none."""
        raise InvalidSampleError(f"{self.parts.path(p)} is part of a problem, which has no true labels.")


@dataclass(frozen=True, eq=False)
class SampleSource(Source):
    r"""Scores :math:`\langle w, \Psi(x, y)\rangle` of the parts of a sample, with the loss against the true labels added if there is one."""

    model: BoundModel
    w: np.ndarray
    loss: Loss | None = None

    @property
    def n_labels(self) -> int:
        return self.model.n_labels

    def sample(self, p: int, arrays: dict[str, np.ndarray]) -> GraphSample:
        """Part ``p`` as a sample with halos behind its own nodes; what the halos hold does not matter."""
        n, n_cuts = len(arrays["nodes"]), len(arrays["cut_node"])
        side = np.where(arrays["cut_first"] != 0, 0, 1)
        edges = np.empty((len(arrays["edges"]) + n_cuts, 2), dtype=np.int32)
        edges[: len(arrays["edges"])] = arrays["edges"]
        at = np.arange(len(arrays["edges"]), len(edges))
        edges[at, side], edges[at, 1 - side] = arrays["cut_node"], n + np.arange(n_cuts)
        kinds, n_types = np.array(arrays["edge_type"]), int(self.parts.manifest["n_edge_types"])
        if kinds.shape != (len(edges),) or (len(kinds) and not (kinds.min() >= 0 and kinds.max() < n_types)):
            raise ParseError(f"edge types do not fit its {len(edges)} edges.", str(self.parts.path(p)))
        graph = Graph(n + n_cuts, edges, kinds, n_edge_types=n_types)
        if "x_ptr" in arrays:
            from scipy.sparse import csr_array

            ptr = np.concatenate([arrays["x_ptr"], np.full(n_cuts, arrays["x_ptr"][-1])])
            x: Any = csr_array((arrays["x_data"], arrays["x_indices"], ptr), shape=(n + n_cuts, int(arrays["x_shape"][1])))
        else:
            own = arrays["x"]
            x = np.concatenate([own, np.zeros((n_cuts, *own.shape[1:]), dtype=own.dtype)])
        types = arrays.get("node_types")
        return GraphSample(
            x,
            graph,
            arrays.get("edge_features"),
            None if types is None else np.concatenate([types, np.zeros(n_cuts, dtype=types.dtype)]),
        )

    def bound(self, p: int, arrays: dict[str, np.ndarray]) -> BoundModel:
        """The model with part ``p`` as its one example."""
        try:
            return replace(self.model, data=self.model.encode([self.sample(p, arrays)]), labels=None)
        except (InvalidSampleError, KeyError) as error:
            raise InvalidSampleError(f"{self.parts.path(p)}: {error}") from error

    def scores(self, p: int, arrays: dict[str, np.ndarray]) -> Scores:
        model = self.bound(p, arrays)
        n = len(arrays["nodes"])
        unary = model.unary(self.w)[:n]
        if self.loss is not None:
            unary = unary + self.losses(p, arrays)
        tables = model.tables(self.w)
        bank, edge_table, edge_weight = tables.of(0, len(model.data.edges))
        return Scores(unary, np.ascontiguousarray(bank), edge_table, np.ascontiguousarray(edge_weight))

    def truth(self, p: int, arrays: dict[str, np.ndarray] | None = None) -> np.ndarray:
        """True labels of part ``p``."""
        labels = (self.parts.arrays(p) if arrays is None else arrays).get("labels")
        if labels is None:
            raise InvalidSampleError(f"{self.parts.path(p)} holds no labels; wanted parts written with labels, to train.")
        if len(labels) and labels.max() >= self.n_labels:
            raise InvalidSampleError(f"{self.parts.path(p)} holds label {labels.max()}, wanted 0..{self.n_labels - 1}.")
        return labels

    def losses(self, p: int, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Loss of each label at each of the part's own nodes."""
        table = self.loss.table(self.truth(p, arrays), self.n_labels)  # type: ignore[union-attr]
        weights = arrays.get("node_weights")
        return table if weights is None else table * weights[:, None]

    def features(self, p: int, labels: np.ndarray) -> tuple[np.ndarray, float] | None:
        """What part ``p`` adds to the features and to the loss of a labelling of its nodes and, behind them, of its halos (-1: the
        term of that cut is not counted here)."""
        arrays = self.parts.arrays(p)
        model, n = self.bound(p, arrays), len(arrays["nodes"])
        node = np.zeros((len(labels), self.n_labels))
        node[np.arange(n), labels[:n]] = 1.0
        u, v = labels[model.data.edges[:, 0]], labels[model.data.edges[:, 1]]
        edge = np.zeros((len(u), self.n_labels, self.n_labels))
        counted = np.flatnonzero((u >= 0) & (v >= 0))
        edge[counted, u[counted], v[counted]] = 1.0
        cost = 0.0 if self.loss is None else float(self.losses(p, arrays)[np.arange(n), labels[:n]].sum())
        return model.feature_marginals(0, node, edge), cost


def as_source(model: BoundModel, parts: Parts, w: np.ndarray, loss: Loss | None = None) -> SampleSource:
    """The source of a model's scores, if parts can have them."""
    if parts.kind != "sample":
        raise InvalidSampleError(f"{parts.folder} holds scores, not features; wanted the parts of a sample.")
    if model.has_forbidden or len({len(own) for own in model.classes}) > 1:
        raise UnsupportedProblemError(
            "the model forbids pairs of labels, or has types of nodes with different numbers of labels; graphs in parts take one "
            "number of labels and finite scores."
        )
    small = replace(model, data=model.encode([]), labels=None)
    return SampleSource(parts, small, np.asarray(w, dtype=np.float64), loss)
