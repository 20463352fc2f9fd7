"""What all labelers share once they are trained: labels, proofs, marginals, scores."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ..core.cliques import Cliques
from ..core.errors import InvalidSampleError
from ..core.graph import Graph
from ..core.problem import Problem
from ..core.result import Result
from ..executors.threads import thread_map
from ..inference.base import Solver
from ..learning.objectives.likelihood import marginals
from ..models.labels import read_labels
from ..models.sample import GraphSample
from ..shards.dataset import ShardedDataset
from .choices import check_likelihood, is_auto
from .convex import is_convex, points, results
from .solving import as_jobs, best, given_solver, labels_of, own_solver
from .targets import Rule, unmasked


class Prediction:
    """Predictions of a labeler from its ``model_``, ``weights_`` and ``objective_``."""

    surrogate: str
    oracle: Any
    n_jobs: int
    classes: Any
    classes_: Any
    model_: Any
    objective_: Any
    weights_: np.ndarray
    _coding: Rule | None

    @abstractmethod
    def _new(self, X: Any) -> list[GraphSample]:
        """Samples to predict."""

    def predict_result(self, X: Any, solver: Solver | str | None = None) -> list[Result]:
        """Best labellings as numbers from 0 to ``K - 1``, one a node, each with a proof of how good it is.

        Parameters
        ----------
        X : list
            Samples.
        solver : Solver or str, optional
            By default the exact one that fits the structure (forest, supermodular, small width), and `TRWS` elsewhere. An exact
            search, where TRWS leaves a gap: ``solver="BranchAndBound"``. With the surrogates ``qp`` and ``logistic`` the default is
            the rounding of what they learned to predict, with a bound and its proof (``marginals`` are the point that was rounded, or
            logistic probabilities); a solver maximises the scores of labellings instead.
        """
        return self._solve(self._new(X), own_solver(self, solver))

    def _solve(self, samples: list[GraphSample], solver: Solver | str | None) -> list[Result]:
        if solver is None and is_convex(self.objective_):
            return results(self.objective_, self.model_, self.weights_, samples, as_jobs(self.n_jobs))
        who = given_solver(solver, self.oracle)
        problems = self.model_.problems(self.weights_, samples)
        return thread_map(lambda problem: best(problem, who), problems, as_jobs(self.n_jobs))

    def predict(self, X: Any, solver: Solver | str | None = None) -> list[np.ndarray]:
        """Labels of the nodes of each sample, (height, width) for grids; ``solver`` as in `predict_result`."""
        return self._predict(self._new(X), solver)

    def predict_marginals(self, X: Any, edge_marginals: bool = False) -> Any:
        r"""Probabilities of labels under :math:`p(y) = e^{F(x, y)} / Z`, after training with ``surrogate="likelihood"``.

        Exact on forests and on graphs of small width; elsewhere those of the tree-reweighted bound that training minimises.

        Parameters
        ----------
        X : list
            Samples.
        edge_marginals : bool
            Give those of edges as well.

        Returns
        -------
        nodes : list of ndarray, shape (n_nodes, K), or (height, width, K) for grids
            Rows sum to 1; columns are the classes of the node, in order.
        edges : list of ndarray, shape (n_edges, K, K)
            With ``edge_marginals``: for each edge the labels of its first node, then of its second.
        """
        samples = self._new(X)
        check_likelihood(self.objective_, self.surrogate)
        found = marginals(self.model_, self.weights_, samples, as_jobs(self.n_jobs))
        shapes = [sample.graph.shape or (sample.n_nodes,) for sample in samples]
        nodes = [own.node.reshape(*shape, -1) for own, shape in zip(found, shapes, strict=True)]
        return (nodes, [own.edge for own in found]) if edge_marginals else nodes

    def problems(self, X: Any) -> list[Problem]:
        """Max-sum problems that `predict` solves, for ``predict_result(X)[j].certificate.verify(problems(X)[j], ...)``."""
        samples = self._new(X)
        return self.model_.problems(self.weights_, samples)

    def _predict(self, samples: list[GraphSample], solver: Solver | str | None = None) -> list[np.ndarray]:
        solver = own_solver(self, solver)
        labellings = None if solver is not None else self._union_labels(samples)
        if labellings is None:
            labellings = [labels_of(result, j) for j, result in enumerate(self._solve(samples, solver))]
        found = []
        for sample, own in zip(samples, labellings, strict=True):
            labels = self._outside(sample, own)
            found.append(labels if sample.graph.shape is None else labels.reshape(sample.graph.shape))
        return found

    def _union_labels(self, samples: list[GraphSample]) -> list[np.ndarray] | None:
        """Labellings of many samples by one call for their union: convex energies, or small forests; None where neither applies."""
        if is_convex(self.objective_):
            return [own.labels for own in points(self.objective_, self.model_, self.weights_, samples, as_jobs(self.n_jobs))]
        if not (self.oracle is None or is_auto(self.oracle)) or len(samples) < 2:
            return None
        if not all(sample.graph.is_forest and not sample.cliques for sample in samples):
            return None
        as_jobs(self.n_jobs)
        model, data = self.model_, self.model_.encode(samples)
        bank, edge_table, edge_weight = model.tables(self.weights_, data).of(0, len(data.edges))
        problem = Problem._trusted(
            graph=Graph.union(data.graphs),
            unary=model.unary(self.weights_, data),
            tables=bank,
            edge_table=edge_table,
            edge_weight=edge_weight,
            n_states=data.n_states,
            cliques=Cliques.build(None, data.n_states, model.n_labels),
            offset=0.0,
        )
        labels = best(problem).labels
        return None if labels is None else np.split(labels, data.node_ptr[1:-1])

    def _outside(self, sample: GraphSample, labels: np.ndarray) -> np.ndarray:
        """Numbers of labels as classes."""
        classes = self.model_.classes
        if sample.node_types is None or all(own is classes[0] for own in classes):
            return classes[0][labels]
        kinds = {own.dtype.kind for own in classes}
        numbers = kinds <= set("iuf")
        out = np.empty(len(labels), dtype=np.result_type(*classes) if len(kinds) == 1 or numbers else object)
        for t, own in enumerate(classes):
            here = sample.node_types == t
            out[here] = own[labels[here]]
        return out

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Fraction of right labels among all nodes whose label is known; a `ShardedDataset` holds its labels itself."""
        if isinstance(X, ShardedDataset):
            from .sharded import score_shards

            return score_shards(self, X)
        samples = self._new(X)
        weight = np.ones(len(samples)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if weight.shape != (len(samples),):
            raise InvalidSampleError(
                f"sample_weight has shape {weight.shape}, wanted one number for each of {len(samples)} samples."
            )
        fraction = self._fraction(samples, as_labels(y), weight)
        if np.isnan(fraction):
            raise InvalidSampleError("no node has a known label, so there is nothing to score; wanted at least one.")
        return fraction

    def _fraction(self, samples: list[GraphSample], given: list[Any], weight: np.ndarray) -> float:
        own = self._predict(samples)
        if self._coding is None:
            targets = read_labels(samples, given, self.classes_)
        else:
            targets = read_labels(samples, self._coding.encode(samples, given), None)
            own = self._coding.encode(samples, own)
        right = [np.count_nonzero(z.reshape(-1)[known] == t[known]) for z, (t, known) in zip(own, targets, strict=True)]
        count = weight @ np.array([np.count_nonzero(known) for _, known in targets], dtype=np.float64)
        return float(weight @ np.array(right, dtype=np.float64) / count) if count > 0 else np.nan


def as_labels(y: Any) -> list[Any]:
    """Labels sample by sample, None where they are masked."""
    if y is None:
        raise InvalidSampleError("y is None, wanted a list with the labels of each sample.")
    return [unmasked(own) for own in y]
