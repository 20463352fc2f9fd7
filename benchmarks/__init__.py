"""This library and its peers side by side, in one run: ``python -m benchmarks`` from the root of the repository.

Each module has ``TITLE``, ``DESCRIPTION`` and ``rows(quick=False)``, a list of dicts: the columns of its tables, and ``table``,
the heading, where it has more than one. Warm-up (compilation) is outside the clock; what is missing is skipped with a reason.
"""

from __future__ import annotations

import importlib
from typing import Any

from maxsum.experiments import EXPERIMENTS

MODULES = {
    "chains": "bench_chains",
    "maxflow": "bench_maxflow",
    "startup": "bench_startup",
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
    "panel": "bench_panel",
    "reliability": "bench_reliability",
    "adversary": "bench_adversary",
    "shards": "bench_shards",
    "cluster": "bench_cluster",
    "parts": "bench_parts",
    **{f"reproduce-{name}": f"bench_experiments:{name}" for name in sorted(EXPERIMENTS)},
}


def load(name: str) -> Any:
    """The module of a benchmark, or the part of it that reproduces one experiment."""
    module, _, part = MODULES[name].partition(":")
    found = importlib.import_module(f".{module}", __package__)
    return found.Reproduction(part) if part else found
