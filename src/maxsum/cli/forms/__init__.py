"""What people have and want back: files of columns, images, tables and graphs, read for an estimator and written again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core.errors import InvalidParameterError
from ...datasets.tables import suffix_of
from .base import Content, Form

__all__ = ["ESTIMATORS", "TASKS", "Content", "Form", "guess_task", "make_form"]

ESTIMATORS = {
    "sequence": "SequenceLabeler",
    "image": "GridLabeler",
    "multilabel": "MultiLabelClassifier",
    "graph": "GraphLabeler",
}
TASKS = tuple(ESTIMATORS)
_BY_SUFFIX = {
    ".graphml": "graph",
    ".arff": "multilabel",
    ".libsvm": "multilabel",
    ".svm": "multilabel",
    ".svmlight": "multilabel",
    ".csv": "multilabel",
    ".tsv": "multilabel",
    ".parquet": "multilabel",
    ".conll": "sequence",
    ".iob": "sequence",
    ".bio": "sequence",
    ".tags": "sequence",
    ".txt": "sequence",
    ".data": "sequence",
    "": "sequence",
}


def guess_task(path: Path, settings: dict[str, Any]) -> str:
    """The task that the data look like."""
    if settings.get("edges") is not None:
        return "graph"
    if path.is_dir():
        from .graph import node_and_edge_files

        return "graph" if node_and_edge_files(path) is not None else "image"
    if not path.exists():
        raise FileNotFoundError(2, "no such file or folder", str(path))
    suffix = suffix_of(path)
    if suffix not in _BY_SUFFIX:
        raise InvalidParameterError(
            f"{path} does not tell its format by its name; say --task {', '.join(TASKS[:-1])} or {TASKS[-1]}."
        )
    return _BY_SUFFIX[suffix]


def make_form(task: str, settings: dict[str, Any]) -> Form:
    """The form of a task, with settings that were given, or that a model has kept."""
    if task == "sequence":
        from .sequence import SequenceForm as Own
    elif task == "image":
        from .image import ImageForm as Own  # type: ignore[assignment]
    elif task == "multilabel":
        from .multilabel import MultiLabelForm as Own  # type: ignore[assignment]
    elif task == "graph":
        from .graph import GraphForm as Own  # type: ignore[assignment]
    else:
        raise InvalidParameterError(f"task is {task!r}, wanted one of {', '.join(TASKS)}.")
    return Own(dict(settings))
