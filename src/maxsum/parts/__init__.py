"""One graph that is too large for memory, in parts on disk: prediction and training with the same proofs."""

from __future__ import annotations

from typing import Any

_HOME = {
    "Parts": "folder",
    "PartsObjective": "objective",
    "grow_parts": "cutting",
    "open_parts": "folder",
    "predict_parts": "predict",
    "solve_parts": "solve",
    "tile_parts": "cutting",
    "write_grid": "cutting",
    "write_parts": "cutting",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
