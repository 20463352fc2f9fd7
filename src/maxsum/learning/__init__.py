"""Large-margin learning of max-sum classifiers: objectives, oracles, learners, certificates."""

from __future__ import annotations

from typing import Any

from .registry import LEARNERS, learner_class

_HOME = {
    "AggregatedObjective": "..shards.objectives",
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
    "MultiLabelObjective": ".objectives.multilabel",
    "Processes": "..executors.base",
    "QPObjective": ".objectives.qp",
    "Serial": "..executors.base",
    "ShardCertificate": "..shards.certificate",
    "ShardedObjective": "..shards.ascent",
    "ShardedSmooth": "..shards.objectives",
    "SmoothObjective": ".objectives.smooth",
    "SmoothedObjective": ".objectives.smoothed",
    "Threads": "..executors.base",
    "TreeGrower": ".learners.grow",
    "TrivialObjective": ".objectives.trivial",
    "as_executor": "..executors.base",
    "path": ".paths",
    "predict_convex": ".objectives.qp",
    "predict_logistic": ".objectives.logistic",
}

__all__ = sorted([*_HOME, *LEARNERS])


def __getattr__(name: str) -> Any:
    import importlib

    if name in LEARNERS:
        return learner_class(name)
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
