"""Large-margin learning of max-sum classifiers: objectives, oracles, learners, certificates."""

from __future__ import annotations

from typing import Any

_HOME = {
    "AggregatedObjective": "..shards.objectives",
    "BlockFrankWolfe": ".learners.block_frank_wolfe",
    "CompactQP": ".learners.compact_qp",
    "CuttingPlane": ".learners.cutting_plane",
    "DualBound": ".dual.dual_bound",
    "DaskExecutor": "..executors.dask",
    "DualCertificate": ".certificate",
    "Executor": "..executors.base",
    "GradientCertificate": ".objectives.smooth",
    "Learner": ".driver",
    "LearningResult": ".result",
    "LPObjective": ".objectives.lp",
    "LearningCertificate": ".certificate",
    "LikelihoodObjective": ".objectives.likelihood",
    "LogisticObjective": ".objectives.logistic",
    "MarginObjective": ".objectives.margin",
    "MarginalCertificate": ".dual.pseudo_marginals",
    "MaximumLikelihood": ".learners.maximum_likelihood",
    "MultiLabelObjective": ".objectives.multilabel",
    "Perceptron": ".learners.perceptron",
    "Processes": "..executors.base",
    "ProjectedQuasiNewton": ".learners.quasi_newton",
    "ProximalPoint": ".learners.proximal_point",
    "QPObjective": ".objectives.qp",
    "RegionBundle": ".learners.region_bundle",
    "Serial": "..executors.base",
    "ShardAscent": "..shards.ascent",
    "ShardCertificate": "..shards.certificate",
    "ShardedObjective": "..shards.ascent",
    "ShardedSmooth": "..shards.objectives",
    "SmoothObjective": ".objectives.smooth",
    "SmoothedLP": ".learners.smoothed_lp",
    "SmoothedObjective": ".objectives.smoothed",
    "Subgradient": ".learners.subgradient",
    "SubsetAscent": ".learners.subset_ascent",
    "Threads": "..executors.base",
    "TreeGrower": ".learners.grow",
    "TrivialObjective": ".objectives.trivial",
    "as_executor": "..executors.base",
    "path": ".paths",
    "predict_convex": ".objectives.qp",
    "predict_logistic": ".objectives.logistic",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
