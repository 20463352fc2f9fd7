"""What a wrong label costs: losses with weights of classes in them, and the settings that name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError
from ..losses import Hamming, TableLoss, ZeroOne
from ..models.bound import BoundModel
from .settings import Settings


def is_zero_one(loss: Any) -> bool:
    """Whether a loss is that of whole labellings."""
    return isinstance(loss, ZeroOne) or (isinstance(loss, str) and loss == "zero_one")


def weighted_loss(settings: Settings, bound: BoundModel, weight: np.ndarray) -> Any:
    """The loss, with the weights of classes in it if there are any."""
    if settings.class_weight is None:
        return settings.loss
    check_weighted(settings.loss)
    if isinstance(settings.class_weight, str) and settings.class_weight == "iou":
        if settings.loss == "normalised":
            raise InvalidParameterError(
                "class_weight is 'iou' beside loss='normalised', wanted loss='hamming': sizes of classes are those of all samples."
            )
        return iou_loss(class_weights("balanced", bound, weight))
    return Hamming(settings.loss == "normalised", class_weights(settings.class_weight, bound, weight))


def iou_loss(inverse: np.ndarray) -> TableLoss:
    r"""The additive bound of the mean of :math:`1 - \mathrm{IoU}_k`, from weights :math:`N / (K n_k)` of the classes:

    .. math:: \sum_k 1 - \mathrm{IoU}_k = \sum_k \frac{FN_k + FP_k}{n_k + FP_k} \le \sum_{v: z_v \ne y_v} \frac{1}{n_{y_v}} + \frac{1}{n_{z_v}},

    times :math:`N / (2K)`, so that wrong labels cost 1 where all classes are of one size.
    """
    costs = 0.5 * (inverse[:, None] + inverse)
    np.fill_diagonal(costs, 0.0)
    return TableLoss(costs)


def check_weighted(loss: Any) -> None:
    """Refuse class weights beside a loss that has its own."""
    if not isinstance(loss, str) or loss not in ("hamming", "normalised"):
        raise InvalidParameterError(
            f"class_weight is given beside loss={loss!r}, wanted loss='hamming' or 'normalised' with it; "
            "a table of costs can hold the weights itself."
        )


def class_weights(given: Any, bound: BoundModel, sample_weight: np.ndarray) -> np.ndarray:
    r"""Weight of each class in the Hamming loss; ``balanced`` is :math:`\sum_l n_l / (K n_k)`, with nodes counted by the weights
    of their samples, and 1 for a class without nodes."""
    if any(own is not bound.classes[0] for own in bound.classes):
        raise InvalidParameterError("class_weight needs one list of classes for all node types; use a loss instead.")
    classes, size = bound.classes[0].tolist(), bound.n_labels
    if isinstance(given, str):
        check_balanced(given)
        labels = bound.labels if bound.labels is not None else np.zeros(0, dtype=np.int32)
        return balanced(np.bincount(labels, weights=np.repeat(sample_weight, np.diff(bound.data.node_ptr)), minlength=size))
    return costs_of_classes(given, classes)


def check_balanced(given: str) -> None:
    """Refuse a word in the place of weights that is another than 'balanced'."""
    if given != "balanced":
        raise InvalidParameterError(f"class_weight is {given!r}, wanted 'balanced', a dict, or one number for each class.")


def costs_of_classes(given: Any, classes: list[Any]) -> np.ndarray:
    """What missing each class costs, of a dict (1 for what it lacks) or of one number for each."""
    weight = np.ones(len(classes))
    if isinstance(given, Mapping):
        number = {label: k for k, label in enumerate(classes)}
        for label, value in given.items():
            if label not in number:
                raise InvalidParameterError(
                    f"class_weight names {label!r}, wanted some of the classes {classes[:12]}. Declare classes=[...] that a fold lacks."
                )
            weight[number[label]] = value
    else:
        try:
            weight = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(f"class_weight is {given!r}, wanted 'balanced', a dict, or numbers.") from error
    if weight.shape != (len(classes),) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise InvalidParameterError(
            f"class_weight is {given!r}, wanted {len(classes)} finite numbers >= 0, in the order of the classes {classes[:12]}."
        )
    return weight


def balanced(count: np.ndarray) -> np.ndarray:
    r""":math:`\sum_l n_l / (K n_k)` over the classes that are present, 1 for others."""
    present = count > 0
    return np.where(present, count.sum() / (max(1, present.sum()) * np.where(present, count, 1.0)), 1.0)
