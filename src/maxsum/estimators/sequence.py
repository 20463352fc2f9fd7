"""SequenceLabeler: learns to label the items of sequences, exactly, and proves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.graph import Graph
from ..core.parameters import OneOf, settings
from ..inference.base import Solver
from ..learning.driver import Learner
from ..learning.objectives.margin import MarginObjective, loss_table
from ..learning.oracles.second_order import PairLoss, PairOracle, best_tags
from ..losses import Loss, as_loss
from ..models.bound import BoundModel
from ..models.sample import GraphSample
from ..models.second_order import PairLayout, second_order
from .base import Labeler
from .choices import as_surrogate, coefficients, is_auto, loss_and_oracle
from .memory import check_room, model_bytes
from .solving import as_jobs


class SequenceLabeler(Labeler):
    r"""Max-sum classifier of sequences: `GraphLabeler` on the chain of each.

    .. math:: F(x, y) = \sum_i \langle w_{y_i}, x_i\rangle + \sum_i g(y_i, y_{i + 1})

    With ``order=2`` a score :math:`h(y_{i - 1}, y_i, y_{i + 1})` of each three labels in a row is added. Training and prediction are
    exact.

    Parameters
    ----------
    potentials, surrogate, learner, loss, features, oracle, C, tol, max_iter, time_limit, random_state, n_jobs, callback, bias,
    symmetric, classes, checkpoint, class_weight, warm_start, smoothing, solver, checkpoint_seconds
        As in `GraphLabeler`.
    order : {1, 2}
        Labels that a score sees besides its own. Order 2 is a chain over pairs of labels, :math:`K^3` operations an item, with general
        potentials, the margin surrogate, and an oracle of its own. Labels of `predict_result` and `problems` are then numbers of
        pairs, :math:`aK + b` for label :math:`b` after :math:`a`, or :math:`b` at the start: ``labels % K`` are those of the items.

    Attributes
    ----------
    classes_, weights_, weight_names_, coef_blocks_, n_features_in_, result_, model_, objective_
        As in `GraphLabeler`. With ``order=2`` the block ``triples`` (K, K, K) of ``coef_blocks_`` has :math:`h`.

    Examples
    --------
    >>> import maxsum as ms
    >>> X = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "dog"}, {"word": "barks"}]]
    >>> tag = ms.SequenceLabeler(C=10.0).fit(X, [["D", "N"], ["D", "N", "V"]])
    >>> tag.predict([[{"word": "the"}, {"word": "dog"}, {"word": "barks"}]])[0].tolist()
    ['D', 'N', 'V']
    """

    order: int

    def __init__(
        self,
        potentials: str = "general",
        surrogate: str = "margin",
        learner: Learner | str | None = None,
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
        order: int = 1,
        symmetric: bool = False,
        classes: Any = None,
        checkpoint: str | Path | None = None,
        class_weight: Any = None,
        warm_start: bool = False,
        smoothing: float = 0.0,
        solver: Solver | str | None = None,
        checkpoint_seconds: float = 30.0,
    ):
        self._keep(locals())

    _parameters = settings(
        order=OneOf(1, 2, wanted="1 or 2. Features of the items around an item, in its dict or row, see further")
    )

    def _list(self, X: Any) -> list[Any]:
        shape = getattr(X, "shape", None)
        if hasattr(X, "tocsr") or (shape is not None and len(shape) == 2):
            raise InvalidSampleError(
                f"X is one matrix of shape {tuple(X.shape)}, wanted a list of sequences: (n, d) arrays, sparse matrices, lists of "
                "feature dicts, or arrays of codes. For one sequence give [X]."
            )
        items = list(X)
        if items and all(isinstance(item, Mapping) for item in items):
            raise InvalidSampleError(
                "X is one list of feature dicts, wanted a list of such sequences. For one sequence give [X]."
            )
        return items

    def _facts(self, items: list[Any], weight: np.ndarray) -> dict[str, Any]:
        if self.order == 2:
            _check_second(self)
        return {}

    def _objective(self, surrogate: Any, bound: BoundModel, weight: np.ndarray, C: float, *operators: Any) -> Any:
        if self.order == 1:
            return super()._objective(surrogate, bound, weight, C, *operators)
        pairs = second_order(bound)
        check_room(model_bytes(pairs), "this training")
        loss = as_loss(loss_and_oracle(self, bound, weight)[0])
        oracle = PairOracle(pairs, loss_table(bound, loss))
        return MarginObjective(pairs, C, PairLoss(loss, bound.n_labels), oracle, weight, self.n_jobs)

    @property
    def _pairs(self) -> PairLayout | None:
        """The layout of pairs, if the model is one of second order."""
        layout = self.model_.layout
        return layout if isinstance(layout, PairLayout) else None

    @property
    def coef_blocks_(self) -> dict[str, np.ndarray]:
        """Weights by name: ``nodes`` (d, K), ``bias`` (K,), ``edges`` (K, K), and ``triples`` (K, K, K) of order 2."""
        check_is_fitted(self, "model_")
        pairs = self._pairs
        if pairs is None:
            return coefficients(self.model_, self.weights_, [], [])
        size, n_first = pairs.n_tags, pairs.base.n_weights
        blocks = coefficients(pairs.base, self.weights_[:n_first], [], [])
        return {**blocks, "triples": self.weights_[n_first:].reshape(size, size, size)}

    def _union_labels(self, samples: list[GraphSample]) -> list[np.ndarray] | None:
        if self._pairs is None:
            return super()._union_labels(samples)
        return best_tags(self.model_, self.weights_, self.model_.encode(samples), as_jobs(self.n_jobs))

    def _outside(self, sample: GraphSample, labels: np.ndarray) -> np.ndarray:
        return super()._outside(sample, labels if self._pairs is None else labels % self._pairs.n_tags)

    def _samples(self, items: list[Any], facts: dict[str, Any] | None = None) -> list[GraphSample]:
        samples = []
        chains: dict[int, Graph] = {}
        for j, item in enumerate(items):
            own = item if hasattr(item, "tocsr") or _are_dicts(item) else _array(item, j)
            length = int(own.shape[0]) if hasattr(own, "shape") else len(own)
            if length not in chains:
                chains[length] = Graph.chain(length)
            try:
                samples.append(GraphSample(own, chains[length]))
            except InvalidSampleError as error:
                raise InvalidSampleError(f"sample {j}: {error}") from error
        return samples


def _check_second(labeler: Any) -> None:
    """Refuse what chains over pairs do not have."""
    if not (labeler.potentials == "general" or is_auto(labeler.potentials)) or labeler.symmetric:
        raise InvalidParameterError(
            f"order is 2 with potentials={labeler.potentials!r}, symmetric={labeler.symmetric!r}; wanted potentials='general' and "
            "symmetric=False, as scores of three labels have no such restriction. Or use order=1."
        )
    if as_surrogate(labeler.surrogate) != "margin":
        raise InvalidParameterError(
            f"order is 2 with surrogate={labeler.surrogate!r}, wanted 'margin': labels of pairs exclude each other. Or use order=1."
        )
    if labeler.oracle is not None and not is_auto(labeler.oracle):
        raise InvalidParameterError(
            f"order is 2 with oracle={labeler.oracle!r}, wanted None: chains over pairs have an exact oracle of their own."
        )


def _are_dicts(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and any(isinstance(own, Mapping) for own in item)


def _array(item: Any, j: int) -> np.ndarray:
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise InvalidSampleError(f"sample {j} is no array ({error}); wanted rows of one length.") from error
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf":
        raise InvalidSampleError(
            f"sample {j} has shape {array.shape} and dtype {array.dtype}, wanted features (n, d), a sparse matrix, a list of dicts, or "
            "integer codes (n,)."
        )
    return array
