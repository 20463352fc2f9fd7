"""What a model has learned: the features that speak most for a class, and the scores of neighbouring labels, with names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...core.errors import InvalidParameterError
from ...core.parameters import Flag, WholeNumber, check_value

_FIELDS = ("part", "label", "with", "weight")


def _row(*values: Any) -> dict[str, Any]:
    return dict(zip(_FIELDS, values, strict=True))


class Inspection(ABC):
    """Methods of all estimators; `_node_blocks_of` says which weights a class has."""

    model_: Any
    classes_: Any
    weights_: np.ndarray
    coef_blocks_: Any

    @abstractmethod
    def _class_weights(self, label: Any, node_type: int) -> tuple[list[str], np.ndarray]:
        """Names of the node features, and their weights for a class."""

    @abstractmethod
    def _axes(self, name: str) -> list[list[Any]]:
        """Names along the axes of a block of pairwise weights."""

    def top_features(
        self, label: Any, n: int = 10, *, smallest: bool = False, node_type: int = 0, as_frame: bool = False
    ) -> Any:
        """The features that speak most for a class, or (``smallest``) most against it.

        Weights are those of features as the model scales them (``scale``); a weight of 0 is left out.

        Parameters
        ----------
        label : class
            One of ``classes_``; of a table of labels the name of its column.
        n : int
        smallest : bool
            The most negative weights, the smallest one first, in the place of the most positive ones, the largest one first.
        node_type : int
            Whose classes and weights, where nodes have types.
        as_frame : bool
            A pandas DataFrame with the columns ``feature`` and ``weight``.

        Returns
        -------
        list of (str, float), or DataFrame

        Examples
        --------
        >>> import maxsum as ms
        >>> X, y = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]], [["D", "N"], ["D", "N"]]
        >>> tag = ms.SequenceLabeler(C=10.0).fit(X, y)
        >>> sorted(name for name, _ in tag.top_features("N", 2))
        ['word=cat', 'word=dog']
        """
        check_is_fitted(self, "weights_")
        check_value("n", n, WholeNumber(1))
        check_value("smallest", smallest, Flag())
        names, weights = self._class_weights(label, node_type)
        sign = 1.0 if smallest else -1.0
        order = np.argsort(sign * weights, kind="stable")[:n]
        order = order[sign * weights[order] < 0]
        found = [(names[i], float(weights[i])) for i in order.tolist()]
        return frame(found, columns=["feature", "weight"]) if as_frame else found

    def transitions(self, name: str = "edges", *, as_frame: bool = False) -> Any:
        """Scores of labels of neighbours, one of the pairwise blocks of ``coef_blocks_``.

        Parameters
        ----------
        name : str
            Which block, where there are several: ``"edges[horizontal]"`` and the like.
        as_frame : bool
            A pandas DataFrame with the classes as names of rows (labels of the first node) and columns (of the second); for a table of
            labels a row for each edge of ``graph_`` and a column for each pair of values. For blocks of two dimensions, or of edges.

        Returns
        -------
        ndarray, shape (K, K), or DataFrame
            A row a label of an edge's first node; one table for each edge where these have weights of their own.

        Examples
        --------
        >>> import numpy as np, maxsum as ms
        >>> tag = ms.SequenceLabeler(C=10.0).fit([np.array([0, 0, 1, 1])], [["a", "a", "b", "b"]])
        >>> tag.transitions().shape
        (2, 2)
        """
        check_is_fitted(self, "weights_")
        blocks = self._pairwise_blocks()
        if name not in blocks:
            raise InvalidParameterError(
                f"name is {name!r}, wanted one of the pairwise blocks {', '.join(blocks) or '(there are none)'}."
            )
        block = blocks[name]
        if not as_frame:
            return block
        rows, columns, table = self._named(name, block)
        if table is None:
            raise InvalidParameterError(
                f"the block {name!r} has shape {block.shape}, which is no table; wanted as_frame=False."
            )
        return frame(table, index=rows, columns=columns)

    def explain(self, n: int = 10, *, as_frame: bool | None = None) -> Any:
        """What was learned in one table: the heaviest weights of features and of pairs of labels, by their names.

        Parameters
        ----------
        n : int
            Features for each class, and so many against it; pairs of labels for each table, and so many against.
        as_frame : bool, optional
            A pandas DataFrame; by default where pandas is installed, and otherwise a list of dicts with the same fields.

        Returns
        -------
        DataFrame or list of dict
            A row a weight that is not 0: ``part`` (``"nodes"``, or the name of the pairwise block), ``label`` (the class, or the label of an edge's first
            node; for a table of labels the pair of columns), ``with`` (the feature, or the label of the second node; their two values), ``weight``
            (-inf for what is forbidden). Parts follow each other, the largest weights of each class or table first.

        Examples
        --------
        >>> import maxsum as ms
        >>> X, y = [[{"word": "the"}, {"word": "dog"}], [{"word": "a"}, {"word": "cat"}]], [["D", "N"], ["D", "N"]]
        >>> rows = ms.SequenceLabeler(C=10.0).fit(X, y).explain(1, as_frame=False)
        >>> rows[0]["part"], rows[0]["label"], rows[0]["with"].startswith("word=")
        ('nodes', 'D', True)
        """
        check_is_fitted(self, "weights_")
        check_value("n", n, WholeNumber(1))
        rows: list[dict[str, Any]] = []
        for label, t in self._weighted_labels():
            sides = self.top_features(label, n, node_type=t), self.top_features(label, n, smallest=True, node_type=t)
            rows += [_row("nodes", label, name, weight) for name, weight in (*sides[0], *sides[1][::-1])]
        for name, block in self._pairwise_blocks().items():
            first, second, table = self._named(name, block)
            if table is None:
                continue
            order = [i for i in np.argsort(-table, axis=None, kind="stable").tolist() if table.flat[i] != 0]
            kept = order if len(order) <= 2 * n else order[:n] + order[-n:]
            rows += [_row(name, first[i // len(second)], second[i % len(second)], float(table.flat[i])) for i in kept]
        if as_frame is None:
            as_frame = find_spec("pandas") is not None
        return frame(rows, columns=list(_FIELDS)) if as_frame else rows

    def _weighted_labels(self) -> list[tuple[Any, int]]:
        """What has weights of features: labels as `top_features` takes them, each with its type of node."""
        several = getattr(self.model_, "classes", None)
        kinds = several if isinstance(several, tuple) and len(several) > 1 else (self.classes_,)
        return [(label, t) for t, classes in enumerate(kinds) for label in np.asarray(classes).tolist()]

    def _pairwise_blocks(self) -> dict[str, np.ndarray]:
        return {key: own for key, own in self.coef_blocks_.items() if not key.startswith(("nodes", "bias"))}

    def _named(self, name: str, block: np.ndarray) -> tuple[list[Any], list[Any], np.ndarray | None]:
        """Names of rows and columns of a pairwise block, and the block as a table; None where it is none."""
        rows, columns = self._axes(name)
        if block.ndim == 3 and len(rows) == len(block):
            block = block.reshape(len(block), block.shape[1] * block.shape[2])
        return rows, columns, block if rows and block.shape == (len(rows), len(columns)) else None


def frame(data: Any, **names: Any) -> Any:
    """A pandas DataFrame; where pandas is not installed an error that says so."""
    try:
        import pandas as pd
    except ImportError as error:
        raise InvalidParameterError(
            "as_frame is True, but pandas is not installed; wanted as_frame=False, or pip install pandas."
        ) from error
    return pd.DataFrame(data, **names)


def column_names(X: Any) -> np.ndarray | None:
    """Names of the columns of a DataFrame, if all of them are strings."""
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "iloc"):
        return None
    names = list(columns)
    return np.array(names) if names and all(isinstance(own, str) for own in names) else None


def place_of(label: Any, classes: Any) -> int:
    """The number of a class, or an error that names those there are."""
    known = np.asarray(classes).tolist()
    for k, own in enumerate(known):
        if own == label:
            return k
    raise InvalidParameterError(f"label is {label!r}, wanted one of the classes {known[:12]}.")


def pair_names(names: list[Any], edges: np.ndarray) -> list[list[Any]]:
    """Rows and columns of a frame with a row for each edge between two labels of a table, and a column for each pair of their values."""
    return [[f"{names[u]}-{names[v]}" for u, v in edges.tolist()], [f"{a}{b}" for a in range(2) for b in range(2)]]
