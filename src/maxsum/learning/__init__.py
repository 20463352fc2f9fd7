"""Large-margin learning of max-sum classifiers: objectives, oracles, learners, certificates."""

from __future__ import annotations

from typing import Any

_HOME = {
    "BlockFrankWolfe": "block_frank_wolfe",
    "CompactQP": "compact_qp",
    "CuttingPlane": "cutting_plane",
    "DualCertificate": "certificate",
    "Learner": "driver",
    "LearningResult": "result",
    "LPObjective": "lp_objective",
    "MarginObjective": "objective",
    "MultiLabelObjective": "multilabel",
    "Perceptron": "perceptron",
    "ProjectedQuasiNewton": "quasi_newton",
    "ProximalPoint": "proximal_point",
    "SmoothedLP": "smoothed",
    "SmoothedObjective": "smoothed",
    "Subgradient": "subgradient",
    "SubsetAscent": "multilabel",
    "TrivialObjective": "trivial",
    "path": "paths",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
