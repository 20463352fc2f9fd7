"""What a wrong label costs, for batches: the additive losses of `maxsum.losses` as numbers to add to scores."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError
from ..losses import Hamming, Loss, TableLoss, as_loss
from .modules import Reading, Target


def read_loss(loss: Any, class_weight: Any) -> Loss:
    """A task loss, with weights of the true classes if they are given."""
    if class_weight is None:
        return as_loss(loss)
    if loss not in ("hamming", "normalised"):
        raise InvalidParameterError(
            f"class_weight is given beside loss={loss!r}, wanted it with 'hamming' or 'normalised'; a table of costs has them inside."
        )
    given = class_weight.detach().cpu().numpy() if hasattr(class_weight, "detach") else class_weight
    return Hamming(normalised=loss == "normalised", class_weight=given)


def cost_matrix(loss: Loss, n_labels: int) -> np.ndarray | None:
    """``costs[true, predicted]`` where the loss is one of a node's labels alone; None for others."""
    if isinstance(loss, TableLoss) or (type(loss) is Hamming and not loss.normalised):
        return loss.table(np.arange(n_labels), n_labels)
    return None


def costs(loss: Loss, matrix: np.ndarray | None, reading: Reading, target: Target) -> np.ndarray:
    """Cost of every label at every node, in the shape of the scores; of a set of labels the least."""
    size = reading.batch.n_labels
    if matrix is not None:
        found = matrix[target.labels]
    else:
        found = np.zeros((*target.labels.shape, size))
        parts = _parts(reading)
        for own in parts:
            found[own] = loss.table(np.where(target.known[own], target.labels[own], -1), size)
    if target.allowed is not None:
        count = target.allowed.sum(axis=-1)
        some = (count > 1) & (count < size)
        if some.any() and matrix is None:
            raise InvalidParameterError(
                "sets of labels are given with a loss of whole examples, wanted 'hamming' or a table of costs."
            )
        if some.any() and matrix is not None:
            found[some] = np.where(target.allowed[some][:, :, None], matrix, np.inf).min(axis=1)
    if not target.known.all():
        found[~target.known] = 0.0
    return found


def _parts(reading: Reading) -> list[Any]:
    """Index of the nodes of each example."""
    if reading.by_chains:
        assert reading.batch.lengths is not None
        return [(b, slice(0, int(n))) for b, n in enumerate(reading.batch.lengths)]
    ptr = reading.batch.node_ptr.tolist()
    return [slice(first, last) for first, last in pairwise(ptr)]
