"""RowTransformer: scikit-learn's transformers on lists of structures, node by node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..core.errors import InvalidSampleError
from ..models.sample import GraphSample


class RowTransformer(TransformerMixin, BaseEstimator):
    """A transformer of feature vectors, such as a scaler, for the nodes of images, sequences and graphs.

    It is fitted to the nodes of all samples of the training set, and keeps the shape of each sample but its last axis.

    Parameters
    ----------
    transformer : transformer
        Of scikit-learn, for rows (n, d), dense or sparse as the samples are.

    Attributes
    ----------
    transformer_ : transformer
        Fitted.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = [np.array([[900.0], [100.0]]), np.array([[150.0], [800.0]])], [[1, 0], [0, 1]]
    >>> pipe = make_pipeline(ms.estimators.RowTransformer(StandardScaler()), ms.SequenceLabeler(C=10.0)).fit(X, y)
    >>> pipe.predict([np.array([[700.0], [90.0]])])[0].tolist()
    [1, 0]
    """

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer to all nodes of the samples."""
        rows = [_rows(sample, j) for j, sample in enumerate(X)]
        if not rows:
            raise InvalidSampleError("there are no samples; wanted at least one.")
        widths = [own.shape[1] for own in rows]
        if len(set(widths)) > 1:
            j = next(j for j, width in enumerate(widths) if width != widths[0])
            raise InvalidSampleError(f"sample {j} has {widths[j]} features a node, but sample 0 has {widths[0]}.")
        every = sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else np.concatenate(rows)
        self.transformer_ = clone(self.transformer).fit(every)
        self.n_features_in_ = widths[0]
        return self

    def transform(self, X: Any) -> list[Any]:
        """The samples with the features of each node transformed."""
        check_is_fitted(self, "transformer_")
        return [self._transformed(sample, j) for j, sample in enumerate(X)]

    def _transformed(self, sample: Any, j: int) -> Any:
        rows = _rows(sample, j)
        if rows.shape[1] != self.n_features_in_:
            raise InvalidSampleError(f"sample {j} has {rows.shape[1]} features a node, but training had {self.n_features_in_}.")
        new = self.transformer_.transform(rows) if rows.shape[0] else rows
        if isinstance(sample, GraphSample):
            return replace(sample, X=new)
        return new if sparse.issparse(new) else np.asarray(new).reshape(*np.shape(sample)[:-1], new.shape[1])


def _rows(sample: Any, j: int) -> Any:
    """Feature vectors (n, d) of the nodes of a sample."""
    own = sample.X if isinstance(sample, GraphSample) else sample
    if sparse.issparse(own):
        return own
    try:
        array = np.asarray(own, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidSampleError(f"sample {j} is no array of numbers ({error}); wanted features (..., d).") from error
    if array.ndim < 2:
        raise InvalidSampleError(f"sample {j} has shape {array.shape}, wanted features (..., d): codes are not scaled.")
    return array.reshape(-1, array.shape[-1])
