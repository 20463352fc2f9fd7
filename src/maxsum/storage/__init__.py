"""Models on disk: fitted estimators in one file, read without executing anything."""

from __future__ import annotations

from .loading import load_model, read_header, verify_model
from .saving import save_model
from .training import save_training

__all__ = ["load_model", "read_header", "save_model", "save_training", "verify_model"]
