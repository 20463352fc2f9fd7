"""What every form of data has: settings, a reader and a writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...core.errors import InvalidSampleError


@dataclass(frozen=True, eq=False)
class Content:
    """Data as an estimator takes them.

    Attributes
    ----------
    X : list, or matrix
    y : list, array or None
        Labels, as far as they are known; None if the data have none.
    names : list of str
        Of the samples.
    source : object
        What the writer needs.
    words : str
        What was read, for people.
    """

    X: Any
    y: Any
    names: list[str]
    source: Any
    words: str


class Form(ABC):
    """How files become samples, and predictions files of the same form.

    ``settings`` starts with what the user said; `read` for training completes it with what it finds. It is fit for JSON, and a form
    with the same settings reads other files the same way.
    """

    task: ClassVar[str]
    estimator: ClassVar[str]

    def __init__(self, settings: dict[str, Any]):
        self.settings = settings

    @abstractmethod
    def read(self, path: Path, training: bool) -> Content:
        """Read data; training data must have labels, and complete the settings."""

    @abstractmethod
    def write(self, out: Path, content: Content, labels: Any) -> None:
        """Write predictions in the form of what was read."""

    def inputs(self, data: Path) -> list[Path]:
        """Files and folders that predictions must not replace."""
        return [data]

    def class_name(self, label: Any) -> str:
        """A class for people."""
        return str(label)

    def _list(self, name: str) -> list[str]:
        """A setting that is a list of names."""
        return as_names(self.settings.get(name))


def predicted_name(name: str, known: bool, taken: Any) -> str:
    """The column of predictions: that of the labels where the data have none, else one beside it, so that true labels stay."""
    own = f"predicted_{name}" if known else name
    while known and own in taken:
        own = f"{own}_"
    return own


def as_names(given: Any) -> list[str]:
    """A list of names, or one text with commas between them."""
    if given is None:
        return []
    if isinstance(given, str):
        return [name.strip() for name in given.split(",") if name.strip()]
    return [str(name) for name in given]


def counted(n: int, noun: str, ending: str = "s") -> str:
    """A number with its noun."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}{ending}"


def need_labels(found: bool, path: Path, what: str) -> None:
    """Refuse training data without labels."""
    if not found:
        raise InvalidSampleError(f"{path} has no labels to learn from: {what}")
