r"""Checkpoints: the state of a training in one file, whole or not at all, and used only where it belongs.

The file is a `maxsum.core.files.container.Container`, whose header names learner and data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import CheckpointError
from ..core.files.container import Container, digest, digest_arrays, portable

if TYPE_CHECKING:
    from .driver import Learner
    from .objectives.base import Objective

__all__ = ["VERSION", "digest_arrays", "fingerprint", "load_checkpoint", "save_checkpoint"]

VERSION = 2
FILE = Container(
    "checkpoint",
    b"maxsum checkpoint",
    VERSION,
    CheckpointError,
    "Remove {path} to start from nothing, or name another file.",
    oldest=VERSION,
)
_RUN_ONLY = {"tol", "max_iter", "time_limit", "checkpoint", "checkpoint_seconds"}


def save_checkpoint(
    path: str | Path, learner: Learner, objective: Objective, arrays: Mapping[str, np.ndarray], durable: bool = True
) -> None:
    """Write a state, whole or not at all: after any failure ``path`` is as it was before; see `atomic` for ``durable``.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    save_arrays(path, _origin(learner, objective), arrays, durable)


def save_arrays(path: str | Path, origin: Mapping[str, Any], arrays: Mapping[str, np.ndarray], durable: bool = True) -> None:
    """Write arrays and what they belong to, whole or not at all."""
    FILE.save(path, origin, arrays, durable)


def load_checkpoint(path: str | Path, learner: Learner, objective: Objective) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint of this learner and these data.

    Raises
    ------
    CheckpointError
        If the file is broken, of another version, or of another learner or other data.
    """
    return load_arrays(path, _origin(learner, objective))


def load_arrays(path: str | Path, origin: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays that `save_arrays` wrote with this origin."""
    header, arrays = FILE.load(path)
    for name, wanted in origin.items():
        if header.get(name) != wanted:
            raise FILE.fault(
                path, f"was written with another {_NAMES.get(name, name)}: found {header.get(name)}, wanted {wanted}"
            )
    return arrays


_NAMES = {
    "learner": "learner",
    "parameters": "learner's parameters",
    "objective": "objective",
    "data": "training set, loss or C",
}


def _origin(learner: Learner, objective: Objective) -> dict[str, Any]:
    """What a state belongs to."""
    own = {field.name: getattr(learner, field.name) for field in fields(learner) if field.name not in _RUN_ONLY}
    parameters = {name: repr(value.item() if isinstance(value, np.generic) else value) for name, value in own.items()}
    oracle = getattr(objective, "oracle", None)
    return {
        "learner": type(learner).__name__,
        "parameters": parameters,
        "objective": type(objective).__name__ + ("" if oracle is None else f" with {type(oracle).__name__}"),
        "data": fingerprint(objective),
    }


def fingerprint(objective: Objective) -> str:
    """SHA-256 of the data of an objective and of the weights of its examples."""
    return digest([objective.digest, portable(objective.c).tobytes()]).hex()
