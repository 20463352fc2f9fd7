"""GraphLabeler: learns to label the nodes of graphs, and proves how well."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..core.errors import InvalidSampleError, OracleError
from ..core.problem import Problem
from ..core.result import Result, Termination
from ..inference.base import Solver
from ..inference.dispatch import TABLE, solve
from ..inference.parallel import thread_map
from ..learning.driver import Learner
from ..learning.objective import MarginObjective, Objective
from ..learning.result import LearningResult
from ..losses import Loss
from ..models.bound import BoundModel
from ..models.graph_model import GraphModel
from ..models.labels import read_labels
from ..models.sample import GraphSample

SURROGATES = ("margin", "trivial")


class GraphLabeler(BaseEstimator):
    r"""Max-sum classifier of the nodes of graphs, learned by minimising

    .. math:: \tfrac12\|w\|^2 + C \sum_j s_j\,\xi_j(w) \Big/ \sum_j s_j,\qquad w \in \text{cone of the potentials},

    with sample weights :math:`s_j` and slacks :math:`\xi_j` of the surrogate.

    Parameters
    ----------
    potentials : {"general", "supermodular", "associative", "potts"}
        Pairwise tables that are allowed; see `maxsum.models.GraphModel`.
    surrogate : {"margin", "trivial"}
        Margin-rescaled hinge, or strictly trivial equivalents, for which training needs no max-sum solver.
    learner : Learner, optional
        By default `BlockFrankWolfe` for margin and `CuttingPlane` for trivial, with ``tol``, ``max_iter``, ``time_limit``,
        ``random_state`` and ``checkpoint`` of this estimator. A learner that is given keeps its own.
    loss : {"hamming", "normalised"}, (K, K) table of costs, or Loss
        For the margin surrogate.
    features : "auto" or NodeFeatures
        What the observations are; by default read off the samples.
    oracle : None, str, Solver or callable
        Who maximises loss-augmented problems in training; by structure by default. A solver, or its name, predicts too.
    C : float
        Weight of the slacks.
    tol : float
        Relative gap at which training stops.
    max_iter : int
        Passes over the samples.
    time_limit : float, optional
        Seconds for training.
    random_state : int
    n_jobs : int
        Threads over samples, in training and prediction; -1 for one a core.
    callback : callable, optional
        Called with a `LearningPoint` after each pass; a true return value stops the training.
    bias : bool
        Add a constant feature to every node; regularised like every weight.
    homogeneous : bool
        If False every node and every edge has weights of its own.
    symmetric : bool
        Whether tables are symmetric.
    tie : array-like of int, shape (n_features, K), optional
        Weights that features and labels share.
    classes : array-like, or one for each node type, optional
        Labels that exist, in order; by default those of the training set.
    checkpoint : path, optional
        File that the state of the training is written to, and that training goes on from if it exists.

    Attributes
    ----------
    classes_ : ndarray, or list of them, one for each node type
    weights_ : ndarray, shape (n_weights,)
        Weights of the model (those of ``result_`` hold the potentials of the trivial surrogate too).
    weight_names_ : list of str
    result_ : LearningResult
        What is proven about the weights.
    model_ : BoundModel
    objective_ : Objective
        For ``result_.certificate.verify(objective_, result_.weights)``.

    Examples
    --------
    >>> import maxsum as ms
    >>> samples = [ms.GraphSample([0, 1, 1], ms.Graph.chain(3)), ms.GraphSample([1, 0], ms.Graph.chain(2))]
    >>> net = ms.GraphLabeler(C=10.0).fit(samples, [["a", "b", "b"], ["b", "a"]])
    >>> [labels.tolist() for labels in net.predict(samples)]
    [['a', 'b', 'b'], ['b', 'a']]
    """

    def __init__(
        self,
        potentials: str = "general",
        surrogate: str = "margin",
        learner: Learner | None = None,
        loss: Loss | str | Any = "hamming",
        features: Any = "auto",
        oracle: Any = None,
        C: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        callback: Callable[[Any], Any] | None = None,
        bias: bool = False,
        homogeneous: bool = True,
        symmetric: bool = False,
        tie: Any = None,
        classes: Any = None,
        checkpoint: str | Path | None = None,
    ):
        self.potentials = potentials
        self.surrogate = surrogate
        self.learner = learner
        self.loss = loss
        self.features = features
        self.oracle = oracle
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.bias = bias
        self.homogeneous = homogeneous
        self.symmetric = symmetric
        self.tie = tie
        self.classes = classes
        self.checkpoint = checkpoint

    def fit(self, samples: Sequence[GraphSample], labels: Sequence[Any], sample_weight: Any = None) -> GraphLabeler:
        """Learn weights; an earlier fit is forgotten.

        Parameters
        ----------
        samples : list of GraphSample
        labels : list of array-like
            One label for each node of each sample, (height, width) for grids; -1 or None where unknown. Nodes of unknown
            label, and their edges, are left out of training.
        sample_weight : array-like, shape (n_samples,), optional
            Weights >= 0 of the slacks; a weight of 2 is as good as the sample twice.
        """
        learner = self._learner()
        model = GraphModel(
            features=self.features,
            potentials=self.potentials,
            bias=self.bias,
            homogeneous=self.homogeneous,
            symmetric=self.symmetric,
            tie=self.tie,
        )
        bound = model.bind(samples, labels, self.classes)
        objective = self._objective(bound, sample_weight)
        result = learner.fit(objective, self.callback)
        same = all(own is bound.classes[0] for own in bound.classes)
        self.classes_ = bound.classes[0] if same else list(bound.classes)
        self.model_, self.objective_, self.result_ = bound, objective, result
        self.weights_ = result.weights[: bound.n_weights]
        self._warn(result, learner)
        return self

    def _learner(self) -> Learner:
        _check_jobs(self.n_jobs)
        if self.surrogate not in SURROGATES:
            raise InvalidSampleError(f"surrogate is {self.surrogate!r}, wanted one of {', '.join(SURROGATES)}.")
        if self.learner is not None:
            if not isinstance(self.learner, Learner):
                raise InvalidSampleError(
                    f"learner is {self.learner!r}, wanted None or a learner such as maxsum.learning.BlockFrankWolfe()."
                )
            return self.learner
        from .. import learning

        kind = learning.BlockFrankWolfe if self.surrogate == "margin" else learning.CuttingPlane
        return kind(
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            random_state=self.random_state,
            checkpoint=self.checkpoint,
        )

    def _objective(self, bound: BoundModel, sample_weight: Any) -> Objective:
        if self.surrogate == "margin":
            return MarginObjective(bound, self.C, self.loss, self.oracle, sample_weight, self.n_jobs)
        from ..learning import TrivialObjective

        return TrivialObjective(bound, C=self.C, sample_weight=sample_weight, n_jobs=self.n_jobs)

    def _warn(self, result: LearningResult, learner: Learner) -> None:
        if "checkpoint_error" in result.extra:
            warnings.warn(f"the checkpoint was not written: {result.extra['checkpoint_error']}.", UserWarning, stacklevel=3)
        if result.termination != Termination.converged and result.relative_gap > 1e-9:
            warnings.warn(
                f"{result.learner} ended ({result.termination.replace('_', ' ')}) after {result.n_iter} passes with the objective "
                f"{result.objective:.6g} and the lower bound {result.lower_bound:.6g}: a relative gap of {result.relative_gap:.2g}, "
                f"wanted {learner.tol:g}. Raise max_iter or time_limit, or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    @property
    def weight_names_(self) -> list[str]:
        check_is_fitted(self, "model_")
        return self.model_.names

    def predict_result(self, samples: Sequence[GraphSample], solver: Solver | str | None = None) -> list[Result]:
        """Best labellings as numbers ``0 .. K - 1``, each with a proof of how good it is.

        Parameters
        ----------
        samples : list of GraphSample
        solver : Solver or str, optional
            By default the exact one that fits the structure (forest, supermodular, small width), and `TRWS` elsewhere. An exact
            search, where TRWS leaves a gap: ``solver="BranchAndBound"``.
        """
        check_is_fitted(self, "model_")
        _check_jobs(self.n_jobs)
        if solver is None and isinstance(self.oracle, (Solver, str)) and self.oracle != "bracket":
            solver = self.oracle
        problems = self.model_.problems(self.weights_, samples)
        return thread_map(lambda problem: _best(problem, solver), problems, self.n_jobs)

    def predict(self, samples: Sequence[GraphSample], solver: Solver | str | None = None) -> list[np.ndarray]:
        """Labels of the nodes of each sample, (height, width) for grids; ``solver`` as in `predict_result`."""
        samples = _listed(samples)
        found = []
        for j, (sample, result) in enumerate(zip(samples, self.predict_result(samples, solver), strict=True)):
            if result.labels is None:
                raise OracleError(f"sample {j}: {result.solver} found no labelling ({result.message}). Try another solver.")
            labels = self._outside(sample, result.labels)
            found.append(labels if sample.graph.shape is None else labels.reshape(sample.graph.shape))
        return found

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

    def score(self, samples: Sequence[GraphSample], labels: Sequence[Any], sample_weight: Any = None) -> float:
        """Fraction of right labels among all nodes whose label is known."""
        samples = _listed(samples)
        predicted = self.predict(samples)
        targets = read_labels(samples, labels, self.classes)
        weight = np.ones(len(predicted)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if weight.shape != (len(predicted),):
            raise InvalidSampleError(
                f"sample_weight has shape {weight.shape}, wanted one number for each of {len(predicted)} samples."
            )
        right = np.array(
            [np.count_nonzero(own.reshape(-1)[known] == y[known]) for own, (y, known) in zip(predicted, targets, strict=True)]
        )
        total = np.array([np.count_nonzero(known) for _, known in targets])
        if not weight @ total > 0:
            raise InvalidSampleError("no node has a known label, so there is nothing to score; wanted at least one.")
        return float(weight @ right / (weight @ total))


def _best(problem: Problem, solver: Solver | str | None) -> Result:
    if solver is not None:
        return solve(problem, solver)
    exact = not problem.n_edges or any(row.fits(problem) for row in TABLE)
    return solve(problem, None if exact else "TRWS")


def _listed(samples: Any) -> Any:
    """Samples that can be read twice; what is no list of samples is refused where they are encoded."""
    return samples if isinstance(samples, GraphSample) else list(samples)


def _check_jobs(n_jobs: Any) -> None:
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0 or n_jobs < -1:
        raise InvalidSampleError(f"n_jobs is {n_jobs!r}, wanted a number of threads >= 1, or -1 for one a core.")
