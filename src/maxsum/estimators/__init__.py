"""Estimators in the style of scikit-learn; the only layer that imports it, and the only one that warns."""

from __future__ import annotations

from .graph import GraphLabeler

__all__ = ["GraphLabeler"]
