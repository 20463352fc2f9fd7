"""Answers in the text formats of the UAI competitions: ``.MPE`` (a labelling), ``.MAR`` (probabilities), ``.PR`` (log10 of their sum)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidParameterError
from .store import write_bytes

MPE, MAR, PR = ".mpe", ".mar", ".pr"


def answer_kind(path: Path) -> str | None:
    """Which of the three formats a file name asks for; None for another."""
    suffix = path.suffix.lower()
    return suffix if suffix in (MPE, MAR, PR) else None


def write_mpe(path: Path, labels: Any) -> None:
    """A labelling: ``MPE``, then the number of variables and their labels."""
    if labels is None:
        raise InvalidParameterError(f"{path}: there is no labelling to write.")
    _write(path, "MPE", [str(len(labels)), *(str(int(k)) for k in labels)])


def write_mar(path: Path, node: np.ndarray, n_states: np.ndarray) -> None:
    """Probabilities: ``MAR``, then the number of variables and, for each, its number of labels and their probabilities."""
    words = [str(len(n_states))]
    for row, states in zip(node, n_states.tolist(), strict=True):
        words += [str(states), *(repr(float(p)) for p in row[:states])]
    _write(path, "MAR", words)


def write_pr(path: Path, log_z: float) -> None:
    """The logarithm, to the base of 10, of the sum of all exponentiated scores: ``PR``, then the number."""
    _write(path, "PR", [repr(float(log_z / np.log(10)))])


def _write(path: Path, head: str, words: list[str]) -> None:
    write_bytes(path, f"{head}\n{' '.join(words)}\n".encode("ascii"))
