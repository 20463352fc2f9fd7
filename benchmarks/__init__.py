"""This library and its peers side by side, in one run: ``python -m benchmarks`` from the root of the repository.

Each module has ``TITLE``, ``DESCRIPTION`` and ``rows(quick=False)``, a list of dicts: the columns of its tables, and ``table``,
the heading, where it has more than one; those that have a longer setting take ``long=True`` too. Warm-up (compilation) is outside the
clock; what is missing is skipped with a reason.
"""

from __future__ import annotations

import importlib
from typing import Any

from maxsum.experiments import EXPERIMENTS

from .bench_asked import SUBJECTS

MODULES = {
    "chains": "bench_chains",
    "maxflow": "bench_maxflow",
    "startup": "bench_startup",
    "firsthour": "bench_firsthour",
    "sanitize": "bench_sanitize",
    "limits": "bench_limits",
    "memory": "bench_memory",
    "exact": "bench_exact",
    "map": "bench_map",
    "uai": "bench_uai",
    "factors": "bench_factors",
    "trws": "bench_trws",
    "grids": "bench_grids",
    "random": "bench_random",
    "solve": "bench_solve",
    "expansion": "bench_expansion",
    "dense_lp": "bench_dense_lp",
    "qp": "bench_qp",
    "learning": "bench_learning",
    "lp": "bench_lp",
    "amn": "bench_amn",
    "defaults": "bench_defaults",
    "onegraph": "bench_onegraph",
    "paths": "bench_paths",
    "chunking": "bench_chunking",
    "torch": "bench_torch",
    "panel": "bench_panel",
    "tight": "bench_tight",
    "reliability": "bench_reliability",
    "adversary": "bench_adversary",
    "shards": "bench_shards",
    "cluster": "bench_cluster",
    "parts": "bench_parts",
    **{f"asked-{name}": f"bench_asked:{name}" for name in SUBJECTS},
    **{f"reproduce-{name}": f"bench_experiments:{name}" for name in sorted(EXPERIMENTS)},
}


def load(name: str) -> Any:
    """The module of a benchmark, or one part of it: an experiment, or a subject of ``asked``."""
    module, _, part = MODULES[name].partition(":")
    found = importlib.import_module(f".{module}", __package__)
    return found.part(part) if part else found


def chosen(names: list[str]) -> list[str]:
    """Benchmarks by their names; the name of a family, as ``asked``, stands for all of it."""
    return [
        own
        for name in names
        for own in ([name] if name in MODULES else [n for n in MODULES if n.startswith(f"{name}-")] or [name])
    ]
