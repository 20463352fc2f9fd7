"""What is known of the objective of a model that was read from a file, without the data it was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.errors import NotFittedError


@dataclass(frozen=True)
class StoredObjective:
    """Facts about an objective; anything that needs the training data is refused.

    Attributes
    ----------
    surrogate, kind : str
        Which surrogate, and the class of its objective.
    C : float
    n_examples, n_nodes : int
        Size of the training set.
    fingerprint : str
        SHA-256 of data and weights of examples, as in checkpoints.
    source : str
        The file.
    fingerprint_version : int
        How the fingerprint is made; see `maxsum.storage.format.fingerprint`.
    """

    surrogate: str
    kind: str
    C: float
    n_examples: int
    n_nodes: int
    fingerprint: str
    source: str
    fingerprint_version: int = 1

    @property
    def weighs_mean(self) -> bool:
        """Whether C weighs the mean of the slacks, as it did in files of fingerprints before the third version; now it weighs their sum."""
        return self.fingerprint_version < 3

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotFittedError(
            f"the model was read from {vars(self).get('source')}, which holds no training data, so its objective has no {name!r}. To check "
            "its certificate give the data to maxsum.storage.verify_model(model, X, y); to train call fit with warm_start=False."
        )

    def refuse_warm_start(self) -> None:
        """Say that there are no planes to go on from."""
        raise NotFittedError(
            f"warm_start is True, but the model was read from {self.source}, which keeps no planes to go on from. Call "
            "set_params(warm_start=False) to train from nothing; for trainings that go on after a stop there is checkpoint=..."
        )
