"""ZeroOneObjective: the hinge of labellings that are right or wrong as a whole, by the second best labelling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import InvalidParameterError
from ...losses import ZeroOne
from ...models.bound import BoundModel
from ..certificate import Check, Proven
from ..objectives.base import Answer
from ..objectives.margin import MarginObjective
from ..oracles.base import Effort, Key, Oracle
from ..oracles.second_best import SecondBestOracle

if TYPE_CHECKING:
    from ..proofs.feature_sums import FeatureSum


class ZeroOneObjective(MarginObjective):
    r"""The margin hinge with the 0/1 loss of a whole labelling:

    .. math:: \xi_j(w) = \max\Big\{0,\; 1 - \min_{y \ne y_j} \langle w, \Psi(x_j, y_j) - \Psi(x_j, y)\rangle\Big\},

    by the best labelling other than the truth, which is known exactly on forests, on graphs of small width and for few labels of a table;
    other graphs are refused. :math:`\sum_j \xi_j` bounds the number of examples that are not predicted without any error.

    Parameters
    ----------
    model : BoundModel
        With labels, all nodes of weight 1.
    C, sample_weight, n_jobs
        As of `MarginObjective`.
    """

    def __init__(self, model: BoundModel, C: float = 1.0, sample_weight: Any = None, n_jobs: int = 1):
        weights = model.data.node_weights
        if (weights != 1).any():
            v = int(np.flatnonzero(weights != 1)[0])
            raise InvalidParameterError(
                f"node {v} of the training set has the weight {weights[v]:g} beside loss='zero_one', wanted 1 (no node_weights): a labelling is wrong "
                "as a whole, whichever node it is. Give sample_weight instead."
            )
        super().__init__(model, C, ZeroOne(), None, sample_weight, n_jobs)

    @property
    def has_gains(self) -> bool:
        return True

    def gains(self, examples: np.ndarray, keys: Sequence[Key]) -> np.ndarray:
        wrong = np.array([self.differs(j, key) for j, key in zip(examples.tolist(), keys, strict=True)], dtype=np.float64)
        return wrong + super().gains(examples, keys) if self.model.data.factors is not None else wrong

    def differs(self, j: int, key: Key) -> bool:
        """Whether a labelling of example ``j`` is not the true one."""
        return not np.array_equal(key, self.model.truth(j))

    def _losses(self) -> np.ndarray:
        return np.zeros((len(self.model.data.n_states), self.model.n_labels))

    def _loss_rows(self, j: int) -> np.ndarray:
        return np.zeros((len(self.model.truth(j)), self.model.n_labels))

    def _choose(self, oracle: Any) -> Oracle:
        return SecondBestOracle(self.model, self.design)

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: Effort) -> Answer:
        found = super()._ask(w, examples, effort)
        keys = [
            key if value > 0 else np.asarray(self.model.truth(j), dtype=np.int32)
            for j, key, value in zip(examples.tolist(), found.keys, found.value, strict=True)
        ]
        value = np.maximum(found.value, 0.0)
        return Answer(examples, keys, value, value.copy())

    def sum_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray, check: Check) -> FeatureSum:
        from ..proofs.second_best import add_losses

        return add_losses(super().sum_planes(examples, keys, alpha, check), self._wrong(examples, keys, alpha))

    def exact_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray) -> tuple[Any, Any]:
        from ..proofs.exact_sums import Dyadic

        total, value = super().exact_planes(examples, keys, alpha)
        return total, value + Dyadic.of(np.array([*self._wrong(examples, keys, alpha), 0.0]))

    def _wrong(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray) -> np.ndarray:
        """Multipliers of the planes of other labellings than the truth, each of which has a loss of 1."""
        wrong = [self.differs(j, key) for j, key in zip(examples.tolist(), keys, strict=True)]
        return np.asarray(alpha)[np.array(wrong, dtype=bool)]

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        from ..proofs.second_best import zero_one_hinge

        return zero_one_hinge(self, w, check)

    def content(self) -> Iterable[np.ndarray]:
        return (*super().content(), np.ones(1))  # which tells it from a loss of nothing
