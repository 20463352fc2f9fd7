"""MultiLabelClassifierCV: the regularisation of a MultiLabelClassifier by cross-validation, with planes shared by all values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from .cross_validation import CrossValidated
from .multilabel import MultiLabelClassifier
from .pipeline import Data


class MultiLabelClassifierCV(CrossValidated, MultiLabelClassifier):
    """`MultiLabelClassifier` with ``C`` by cross-validation: each fold is trained for all values on one set of planes.

    Parameters
    ----------
    Cs : array-like of float
        Values of ``C`` to try; by default 14 from 1 to 8192.
    cv : int, cross-validation generator or iterable
        As in scikit-learn, but the folds of a number are drawn at random: samples often come sorted by their labels.
    cv_tol : float
        Relative gap at which trainings in folds stop; that of the last training is ``tol``, and the larger of both counts.
    **others
        As in `MultiLabelClassifier`, without ``C``.

    Attributes
    ----------
    C_ : float
        The value with the fewest wrong labels in held-out folds; the smallest of equals.
    Cs_ : ndarray, shape (n_values,)
        Values that were tried, in order.
    scores_ : ndarray, shape (n_values, n_folds)
        Fraction of right labels in held-out folds.
    """

    def _splits(self, data: Data, folds: Any) -> Iterable[Any]:
        if isinstance(self.cv, (int, np.integer)) and data.labels.kind != "multilabel":
            folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.random_state)
        return super()._splits(data, folds)
