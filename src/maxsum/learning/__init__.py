"""Large-margin learning of max-sum classifiers: objectives, oracles, learners, certificates."""

from __future__ import annotations

from typing import Any

_HOME = {
    "AggregatedObjective": "shard_objectives",
    "BlockFrankWolfe": "block_frank_wolfe",
    "CompactQP": "compact_qp",
    "CuttingPlane": "cutting_plane",
    "DualBound": "dual_bound",
    "DaskExecutor": "dask_executor",
    "DualCertificate": "certificate",
    "Executor": "executor",
    "GradientCertificate": "smooth",
    "Learner": "driver",
    "LearningResult": "result",
    "LPObjective": "lp_objective",
    "LearningCertificate": "certificate",
    "LikelihoodObjective": "likelihood",
    "LogisticObjective": "logistic",
    "MarginObjective": "objective",
    "MarginalCertificate": "pseudo_marginals",
    "MaximumLikelihood": "likelihood",
    "MultiLabelObjective": "multilabel",
    "Perceptron": "perceptron",
    "Processes": "executor",
    "ProjectedQuasiNewton": "quasi_newton",
    "ProximalPoint": "proximal_point",
    "QPObjective": "convex_qp",
    "RegionBundle": "region_bundle",
    "Serial": "executor",
    "ShardAscent": "sharded",
    "ShardCertificate": "shard_certificate",
    "ShardedObjective": "sharded",
    "ShardedSmooth": "shard_objectives",
    "SmoothObjective": "smooth",
    "SmoothedLP": "smoothed",
    "SmoothedObjective": "smoothed",
    "Subgradient": "subgradient",
    "SubsetAscent": "multilabel",
    "Threads": "executor",
    "TreeGrower": "grow",
    "TrivialObjective": "trivial",
    "as_executor": "executor",
    "path": "paths",
    "predict_convex": "convex_qp",
    "predict_logistic": "logistic",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
