"""Tables of samples with several labels each: CSV, Parquet, ARFF, LIBSVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InvalidParameterError, InvalidSampleError, ParseError
from ...datasets.columns import ColumnCoder
from ...datasets.multilabel import MultiLabelData, read_arff, read_libsvm_multilabel
from ...datasets.multilabel_write import arff_names, write_arff, write_libsvm_multilabel
from ...datasets.tables import Table, read_table, suffix_of, write_table
from .base import Content, Form, as_names, counted, need_labels, predicted_name

_LIBSVM = (".libsvm", ".svm", ".svmlight")


class MultiLabelForm(Form):
    """A row a sample. Out goes the table with columns of predicted labels beside true ones; ARFF and LIBSVM files have the predicted ones alone."""

    task, estimator = "multilabel", "MultiLabelClassifier"

    def read(self, path: Path, training: bool) -> Content:
        suffix = suffix_of(path)
        kind = "arff" if suffix == ".arff" else "libsvm" if suffix in _LIBSVM else "table"
        if training:
            self.settings["kind"] = kind
        if kind != self.settings["kind"]:
            wanted = {"arff": "an ARFF file", "libsvm": "a LIBSVM file", "table": "a CSV or Parquet table"}
            raise InvalidSampleError(
                f"{path} is {wanted[kind]}, but the model was trained with {wanted[self.settings['kind']]}."
            )
        found: Content = {"arff": self._arff, "libsvm": self._libsvm, "table": self._table}[kind](path, training)
        return found

    # ---- CSV and Parquet ---------------------------------------------------------------------------------------

    def _table(self, path: Path, training: bool) -> Content:
        table = read_table(path)
        if training:
            self._learn(path, table)
        kept = self.settings
        coder = ColumnCoder(kept["columns"])
        names = kept["label_names"]
        known = [name for name in names if name in table.columns]
        if known and len(known) < len(names):
            missing = next(name for name in names if name not in table.columns)
            raise InvalidSampleError(f"{path} has the label {known[0]!r} but not {missing!r}; wanted all labels, or none.")
        y = self._labels(table) if known else None
        rows = table.texts(kept["id"]) if kept.get("id") in table.columns else [None] * table.n_rows
        titles = [f"row {i + 1}" if own is None else own for i, own in enumerate(rows)]
        words = f"{table.n_rows} rows, {len(coder.names)} features, {counted(len(names), 'label')}"
        return Content(coder.matrix(table), y, titles, table, words)

    def _learn(self, path: Path, table: Table) -> None:
        kept = self.settings
        names = label_columns(kept.get("labels"), table.names, path)
        ignored = [*names, *self._list("ignore"), *([kept["id"]] if kept.get("id") else [])]
        for name in ignored:
            table.column(name)
        features = [name for name in table.names if name not in ignored]
        if not features:
            raise InvalidSampleError(f"{path} has no column left for features; the labels are {', '.join(names[:12])}.")
        coder = ColumnCoder.learn(table, features, bool(kept.get("standardise", True)))
        kept |= {"label_names": names, "columns": coder.columns}

    def _labels(self, table: Table) -> Any:
        names = self.settings["label_names"]
        if len(names) == 1:
            cells = table.texts(names[0])
            for row, cell in enumerate(cells):
                if cell is None:
                    table.fail(row, f"column {names[0]!r}, the label, is empty; wanted a class.")
            return np.array(cells, dtype=str)
        Y = np.stack([table.numbers(name) for name in names], axis=1)
        wrong = np.argwhere(~np.isin(Y, (0.0, 1.0)))
        if len(wrong):
            row, column = wrong[0].tolist()
            table.fail(
                row, f"label {names[column]!r} is {Y[row, column]:g}, wanted 0 or 1. Say which columns are labels: --labels."
            )
        return Y.astype(np.int64)

    # ---- ARFF and LIBSVM ---------------------------------------------------------------------------------------

    def _arff(self, path: Path, training: bool) -> Content:
        names, kept = arff_names(path), self.settings
        if training:
            kept["label_names"] = label_columns(kept.get("labels"), names, path)
            kept["feature_names"] = [name for name in names if name not in set(kept["label_names"])]
        labelled = set(kept["label_names"]) <= set(names)
        data = read_arff(path, kept["label_names"] if labelled else [])
        if data.feature_names != kept["feature_names"]:
            wrong = next((a for a, b in zip(data.feature_names, kept["feature_names"], strict=False) if a != b), "their number")
            raise InvalidSampleError(f"{path} has other attributes than the training set: {wrong}.")
        if len(kept["label_names"]) == 1:
            raise InvalidSampleError(f"{path} has one label, wanted two or more. For one class a row use a CSV table.")
        Y = data.Y[:, [data.label_names.index(name) for name in kept["label_names"]]] if labelled else None
        return self._matrix(data, Y, data.X if hasattr(data.X, "tocsr") else self._scaled(data.X, training))

    def _scaled(self, X: np.ndarray, training: bool) -> np.ndarray:
        kept = self.settings
        if training:
            wanted = bool(kept.get("standardise", True))
            spread = X.std(axis=0) if wanted else np.ones(X.shape[1])
            kept["mean"] = (X.mean(axis=0) if wanted else np.zeros(X.shape[1])).tolist()
            kept["spread"] = np.where(spread > 0, spread, 1.0).tolist()
        return (X - np.array(kept["mean"])) / np.array(kept["spread"])

    def _libsvm(self, path: Path, training: bool) -> Content:
        kept = self.settings
        if training:
            kept["zero_based"] = bool(kept.get("zero_based", False))
            own = read_libsvm_multilabel(path, zero_based=kept["zero_based"])
            need_labels(bool(own.Y.any()), path, "no line starts with labels, as in `1,3 2:0.5`.")
            if own.Y.shape[1] < 2:
                raise InvalidSampleError(f"{path} has the label {own.label_names[0]} alone, wanted two or more labels.")
            kept |= {"label_names": own.label_names, "n_features": own.X.shape[1]}
        labels = [int(name) for name in kept["label_names"]]
        data = read_libsvm_multilabel(path, labels=labels, n_features=kept["n_features"], zero_based=kept["zero_based"])
        return self._matrix(data, data.Y if training or data.Y.any() else None, data.X)

    def _matrix(self, data: MultiLabelData, Y: np.ndarray | None, X: Any) -> Content:
        names = [f"row {i + 1}" for i in range(X.shape[0])]
        return Content(X, Y, names, data, f"{X.shape[0]} rows, {X.shape[1]} features")

    # ---- back --------------------------------------------------------------------------------------------------

    def write(self, out: Path, content: Content, labels: Any) -> None:
        names, own = self.settings["label_names"], np.asarray(labels)
        if isinstance(content.source, Table):
            columns = [own.tolist()] if own.ndim == 1 else own.T.tolist()
            known = content.y is not None
            heads = [predicted_name(name, known, content.source.columns) for name in names]
            write_table(out, content.source.replaced(dict(zip(heads, columns, strict=True))))
            return
        data = content.source._replace(Y=own, label_names=list(names))
        if self.settings["kind"] == "arff":
            write_arff(out, data, "predicted")
        else:
            write_libsvm_multilabel(out, data, zero_based=self.settings["zero_based"])

    @property
    def label_names(self) -> list[str]:
        """Names of the labels, in the order of the columns."""
        return list(self.settings["label_names"])


def label_columns(given: Any, names: list[str], path: Path) -> list[str]:
    """Names of the columns that are labels: so many of the last, ``first:N``, or names."""
    if given is None:
        guess = [name for name in names if name.lower().startswith("label")]
        if guess:
            return guess
        raise InvalidParameterError(
            f"which columns of {path} are labels? Say --labels 6 for the last six, --labels first:6, or their names, --labels beach,sunset. "
            f"The columns are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}."
        )
    text = str(given).strip() if isinstance(given, (str, int)) else ""
    where, _, count = text.rpartition(":")
    if count.isdigit() and where in ("", "first", "last") and count not in names:
        n = int(count)
        if not 0 < n < len(names):
            raise InvalidParameterError(
                f"labels is {given!r}, but {path} has {len(names)} columns; wanted 1 to {len(names) - 1}."
            )
        return names[:n] if where == "first" else names[-n:]
    wanted = as_names(given)
    for name in wanted:
        if name not in names:
            raise ParseError(
                f"there is no column {name!r}, which labels names; the columns are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}.",
                str(path),
            )
    return wanted
