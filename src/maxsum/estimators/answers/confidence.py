"""How sure a model is: probabilities, the next best labellings, what other labels would lose, and which samples to label next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ...core.conditioning import within
from ...core.errors import InvalidParameterError
from ...core.parameters import TIME_LIMIT, OneOf, WholeNumber, check_value
from ...core.problem import Problem
from ...executors.threads import thread_map
from ...inference.questions import k_best, log_partition, max_marginals
from ...inference.questions.k_best import KBest
from ...models.labels import encode_labels, read_labels
from ...models.sample import GraphSample
from ..settings import as_jobs
from ..targets import UNKNOWN, UNSEEN

_PROBABLE = ("likelihood", "logistic")


@dataclass(frozen=True, eq=False)
class RankedLabels:
    """The best labellings of one sample, in the order of their scores.

    Attributes
    ----------
    labels : list of ndarray
        Classes, in the shape of the sample.
    scores : ndarray, shape (k,)
    bound : float
        No labelling that is not listed scores more.
    proven : int
        So many of them, from the first on, are proven to stand in their places.
    proof : KBest
        The answer with numbers for labels; ``proof.verify(estimator.problems(X)[j])`` checks all of it.
    """

    labels: list[np.ndarray]
    scores: np.ndarray
    bound: float
    proven: int
    proof: KBest

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class LabelLosses:
    r"""What score is lost if a node must have a label, :math:`\max_y F(y) - \max_{y : y_v = k} F(y)`.

    Attributes
    ----------
    lower, upper : ndarray, shape (n_nodes, K), or (height, width, K) for grids
        The loss lies between them: 0 for labels of a best labelling, infinite for what is forbidden. Columns are the classes, in order.
    exact : bool
        Whether both are the same.
    """

    lower: np.ndarray
    upper: np.ndarray
    exact: bool

    @property
    def margin(self) -> np.ndarray:
        """For each node what its second best label loses, the middle of the bracket: small where the model is in doubt."""
        size = self.upper.shape[-1]
        if size < 2:
            return np.full(self.upper.shape[:-1], np.inf)
        low, high = (np.partition(own, 1, axis=-1)[..., 1] for own in (self.lower, self.upper))
        return low if self.exact else np.where(np.isfinite(high), 0.5 * (low + high), low)


class ProbabilityBracket(NamedTuple):
    """Probabilities of labellings, one a sample: each lies between ``lower`` and ``upper``, which are the same where sums are exact."""

    lower: np.ndarray
    upper: np.ndarray


def _has_probabilities(estimator: Any) -> bool:
    """Whether the surrogate is one of probabilities: that of the last fit, or of the next one."""
    objective = getattr(estimator, "objective_", None)
    name = estimator.surrogate if objective is None else objective.surrogate
    if name in _PROBABLE:
        return True
    raise AttributeError(
        f"predict_proba needs surrogate='likelihood' or 'logistic', but this {type(estimator).__name__} has {name!r}, whose scores are no "
        "logarithms of probabilities. predict_max_marginals tells what other labels would lose, with every surrogate."
    )


class Answers(ABC):
    """Methods of all estimators; these say how numbers of labels become classes (`_ranked`), tables the shape of a sample (`_table_of`)."""

    model_: Any
    objective_: Any
    weights_: np.ndarray
    n_jobs: Any
    _surrogate: Any

    @abstractmethod
    def _new(self, X: Any) -> Any:
        """Samples without labels, bound to the model."""

    @abstractmethod
    def _ranked(self, samples: Any, j: int, rows: np.ndarray) -> list[np.ndarray]:
        """Labellings of sample ``j`` as classes, in the shape of the sample."""

    @abstractmethod
    def _table_of(self, samples: Any, j: int, table: np.ndarray) -> np.ndarray:
        """Numbers for nodes and states of problems as those for nodes and classes."""

    @abstractmethod
    def label_numbers(self, X: Any, y: Any) -> list[np.ndarray]:
        """Labels as numbers of classes, for columns of `predict_max_marginals`: for each sample one a node, -1 where a label is unknown,
        -2 where it is none of the classes."""

    def predict_k_best(
        self, X: Any, k: int = 5, *, diverse: int | None = None, time_limit: float | None = None, gap: float | None = None
    ) -> list[RankedLabels]:
        """The ``k`` best labellings of each sample in order, with a proof that none is left out.

        Parameters
        ----------
        X : list, or array-like of shape (n_samples, n_features)
            Samples, as in `fit`.
        k : int
        diverse, time_limit, gap
            Of each sample, as in `maxsum.k_best`.
        """

        def one(problem: Problem) -> KBest:
            return k_best(problem, k, diverse=diverse, time_limit=time_limit, gap=gap)

        samples, found = self._asked(X, one)
        return [
            RankedLabels(self._ranked(samples, j, own.labels), own.scores, own.bound, own.proven, own)
            for j, own in enumerate(found)
        ]

    def predict_max_marginals(self, X: Any, *, time_limit: float | None = None) -> list[LabelLosses]:
        r"""What score is lost if a node must have a label, :math:`\max_y F(y) - \max_{y : y_v = k} F(y)`, for all nodes and labels.

        Exact on forests and graphs of small width, a bracket elsewhere.

        Parameters
        ----------
        X : list, or array-like of shape (n_samples, n_features)
            Samples, as in `fit`; of a table of labels each sample has a node a label, and the columns 0 and 1.
        time_limit : float, optional
            Seconds for each sample whose answer is a bracket.
        """
        check_value("time_limit", time_limit, TIME_LIMIT)
        samples, found = self._asked(X, lambda problem: max_marginals(problem, time_limit=time_limit))
        losses = []
        for j, own in enumerate(found):
            low, high = (self._table_of(samples, j, table) for table in (own.lower, own.upper))
            losses.append(losses_of(low, high, own.exact))
        return losses

    def predict_labelling_proba(self, X: Any, y: Any = None) -> ProbabilityBracket:
        r"""The probability of a whole labelling of each sample, :math:`e^{F(x, y)} / Z`, after training with ``surrogate="likelihood"``.

        Parameters
        ----------
        X : list, or array-like of shape (n_samples, n_features)
            Samples, as in `fit`.
        y : labels, optional
            As in `fit`; where labels are unknown the probability is that of those known, and 0 for a label that is no class. By default those that `predict` gives.

        Returns
        -------
        ProbabilityBracket
            ``lower`` and ``upper``, arrays of shape (n_samples,).
        """
        if self.objective_.surrogate != "likelihood":
            raise InvalidParameterError(
                f"predict_labelling_proba needs surrogate='likelihood', but this model was trained with {self.objective_.surrogate!r}, whose "
                "scores are no logarithms of probabilities."
            )
        numbers = self.label_numbers(X, self.predict(X) if y is None else y)  # type: ignore[attr-defined]

        def one(pair: tuple[Problem, np.ndarray]) -> tuple[float, float]:
            problem, known = pair
            if (known == UNSEEN).any():
                return 0.0, 0.0
            mask = problem.unary > -np.inf
            mask &= (known[:, None] < 0) | (known[:, None] == np.arange(mask.shape[1]))
            whole, part = log_partition(problem), log_partition(within(problem, mask))
            return float(np.exp(part.lower - whole.upper)), min(1.0, float(np.exp(part.upper - whole.lower)))

        problems = self.model_.problems(self.weights_, self._new(X))
        found = thread_map(one, list(zip(problems, numbers, strict=True)), as_jobs(self.n_jobs))
        low, high = np.array(found).reshape(-1, 2).T
        return ProbabilityBracket(low, high)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of labels, for surrogates that have them: `predict_marginals` of a likelihood, or those of a logistic random field.

        Returns
        -------
        list of ndarray, shape (n_nodes, K) or (height, width, K), or ndarray for rows of a table
            Columns are the classes, in order; with a table of labels the probability that each label is there.
        """
        check_is_fitted(self, "weights_")
        if self._surrogate.rounds:
            samples = self._new(X)
            points = self._surrogate.points(self.model_, self.weights_, samples, as_jobs(self.n_jobs))
            return self._probabilities([self._table_of(samples, j, own.marginals) for j, own in enumerate(points)])
        return self.predict_marginals(X)  # type: ignore[attr-defined]

    def _probabilities(self, tables: list[np.ndarray]) -> Any:
        """Probabilities of samples in the form of `predict_proba`."""
        return tables

    def query(self, X: Any, n: int = 1, *, unit: str = "sample", time_limit: float | None = None) -> np.ndarray:
        """Which samples (or nodes) to label next: those whose labels the model is least sure of, by its max-marginals.

        Parameters
        ----------
        X : list, or array-like of shape (n_samples, n_features)
            Samples without labels, as in `predict`.
        n : int
            How many to name; fewer if there are not so many.
        unit : {"sample", "node"}
            Whole samples, by the doubts of all of their nodes together, or single nodes.
        time_limit : float, optional
            Seconds for each sample whose max-marginals are a bracket.

        Returns
        -------
        ndarray of int64, shape (n,) or (n, 2)
            Numbers of samples, or pairs of sample and node (in the order of the graph's nodes); the most doubtful one first.
        """
        check_value("n", n, WholeNumber(1))
        check_value("unit", unit, OneOf("sample", "node"))
        margins = [own.margin.reshape(-1) for own in self.predict_max_marginals(X, time_limit=time_limit)]
        if unit == "sample":
            doubt = np.array([doubts(own).sum() for own in margins])
            return np.argsort(-doubt, kind="stable")[:n].astype(np.int64)
        owner = np.repeat(np.arange(len(margins)), [len(own) for own in margins])
        node = np.concatenate([np.zeros(0, dtype=np.int64), *(np.arange(len(own)) for own in margins)])
        order = np.argsort(np.concatenate([np.zeros(0), *margins]), kind="stable")[:n]
        return np.stack([owner[order], node[order]], axis=1).astype(np.int64)

    def _asked(self, X: Any, question: Any) -> tuple[Any, list[Any]]:
        """Samples, and the answers to a question about each of their problems."""
        samples = self._new(X)
        problems = self.model_.problems(self.weights_, samples)
        return samples, thread_map(question, problems, as_jobs(self.n_jobs))


def doubts(margin: np.ndarray) -> np.ndarray:
    r"""What each node adds to the doubt about its sample, :math:`e^{-m_v}` for the margin :math:`m_v` of its label: a margin of 1 is that of the
    hinge, above which training counts a label as safe."""
    return np.exp(-np.asarray(margin))


def losses_of(lower: np.ndarray, upper: np.ndarray, exact: bool) -> LabelLosses:
    """Max-marginals between two tables as losses: what each is below the best score of all, whose bracket all nodes make."""
    if not lower.size or np.isneginf(upper).all():
        return LabelLosses(np.full(lower.shape, np.inf), np.full(lower.shape, np.inf), exact)
    best_low = lower.max()
    best_high = max(best_low, upper.max(axis=-1).min())
    with np.errstate(invalid="ignore"):
        low = np.where(np.isneginf(upper), np.inf, np.maximum(best_low - upper, 0.0))
        high = low if exact else np.where(np.isneginf(upper), np.inf, np.maximum(best_high - lower, low))
    return LabelLosses(low, high, exact)


def label_numbers(
    classes: Sequence[np.ndarray], rule: Any, samples: Sequence[GraphSample], labels: list[Any]
) -> list[np.ndarray]:
    """Labels of nodes as numbers of the classes of their type, -1 where unknown, -2 for labels that are none of them; ``rule`` numbers labels that are
    neither numbers nor strings."""
    if rule is not None:
        read = read_labels(samples, rule.encode(samples, labels), list(range(len(rule.classes))) + [UNSEEN])
        return [np.where(known, own, UNKNOWN).astype(np.int64) for own, known in read]
    found = []
    for sample, (own, known) in zip(samples, read_labels(samples, labels, _declared(classes)), strict=True):
        types = np.zeros(sample.n_nodes, dtype=np.int64) if sample.node_types is None else sample.node_types
        known, coded = known.copy(), np.full(len(own), UNKNOWN, dtype=np.int64)
        for t, mine in enumerate(classes):
            here = known & (types == t)
            coded[here & ~np.isin(own, mine)] = UNSEEN
        filler = np.array([classes[t][0] for t in types.tolist()])
        usable = known & (coded == UNKNOWN)
        numbers = encode_labels([np.where(usable, own, filler) if len(own) else own], [sample], tuple(classes))
        found.append(np.where(usable, numbers, coded))
    return found


def _declared(classes: Sequence[np.ndarray]) -> Any:
    return list(classes) if len(classes) > 1 else classes[0]
