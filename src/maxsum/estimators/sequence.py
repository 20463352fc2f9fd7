"""SequenceLabeler: learns to label the items of sequences, exactly, and proves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InvalidSampleError
from ..core.graph import Graph
from ..learning.driver import Learner
from ..losses import Loss
from ..models.sample import GraphSample
from .base import Labeler


class SequenceLabeler(Labeler):
    r"""Max-sum classifier of sequences: `GraphLabeler` on the chain of each.

    .. math:: F(x, y) = \sum_i \langle w_{y_i}, x_i\rangle + \sum_i g(y_i, y_{i + 1})

    Training and prediction are exact.

    Parameters
    ----------
    potentials, surrogate, learner, loss, features, oracle, C, tol, max_iter, time_limit, random_state, n_jobs, callback, bias,
    symmetric, classes, checkpoint, class_weight, warm_start
        As in `GraphLabeler`.
    order : int
        Labels that a score sees besides its own; 1 (neighbours) alone is implemented.

    Attributes
    ----------
    classes_, weights_, weight_names_, coef_blocks_, n_features_in_, result_, model_, objective_
        As in `GraphLabeler`.

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
    ):
        self._keep(locals())

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
        if self.order != 1:
            raise InvalidSampleError(
                f"order is {self.order!r}, wanted 1; scores of three labels in a row are not implemented. Features of the items "
                "around an item, in its dict or row, are often as good."
            )
        return {}

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
