"""Models on disk: fitted estimators in one file, read without executing anything."""

from __future__ import annotations

from .model_file import load_model, read_header, save_model, verify_model

__all__ = ["load_model", "read_header", "save_model", "verify_model"]
