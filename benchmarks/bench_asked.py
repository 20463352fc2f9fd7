"""What people ask for: one subject a module ``asked_NAME``, each a section of its own; ``python -m benchmarks asked`` runs all of them."""

from __future__ import annotations

import importlib
from typing import Any

SUBJECTS: dict[str, str] = {
    "confidence": "sets of labels with guaranteed coverage",
    "forbidden": "labels that may not be neighbours, kept exactly",
    "latent": "hidden states of classes",
    "partial": "labels that are unknown in part",
    "penalties": "weights that are exactly zero",
    "query": "what to label next",
    "streams": "data in chunks that are forgotten",
    "trees": "decision trees on pixels: covered glyphs",
}
"""A line here and a file ``asked_NAME.py`` with ``TITLE``, ``DESCRIPTION`` and ``rows(quick=False)``, as of any benchmark, is a new subject."""


def part(name: str) -> Any:
    """The module of one subject."""
    return importlib.import_module(f".asked_{name}", __package__)
