"""Estimators in the style of scikit-learn; the only layer that imports it, and the only one that warns."""

from __future__ import annotations

from .checks import check_structured_estimator
from .cross.labelers import GraphLabelerCV, GridLabelerCV, SequenceLabelerCV
from .cross.multilabel import MultiLabelClassifierCV
from .graph import GraphLabeler
from .grid import GridLabeler
from .multilabel import MultiLabelClassifier
from .rows import RowTransformer
from .sequence import SequenceLabeler

__all__ = [
    "GraphLabeler",
    "GraphLabelerCV",
    "GridLabeler",
    "GridLabelerCV",
    "MultiLabelClassifier",
    "MultiLabelClassifierCV",
    "RowTransformer",
    "SequenceLabeler",
    "SequenceLabelerCV",
    "check_structured_estimator",
]
