"""Large-margin learning of max-sum classifiers: objectives, oracles, learners, certificates."""

from __future__ import annotations

from typing import Any

from .registry import LEARNERS, learner_class

_HOME = {
    "FreeTrivialObjective": ".whole.free_trivial",
    "Learner": ".driver",
    "LearningResult": ".result",
    "LPObjective": ".objectives.lp",
    "LearningCertificate": ".certificate",
    "LikelihoodObjective": ".objectives.likelihood",
    "PseudoLikelihoodObjective": ".objectives.pseudolikelihood",
    "LogisticObjective": ".objectives.logistic",
    "MarginObjective": ".objectives.margin",
    "MultiLabelObjective": ".objectives.multilabel",
    "PenalisedHinge": ".penalties.hinge",
    "PenalisedObjective": ".penalties.objective",
    "QPObjective": ".objectives.qp",
    "TrivialObjective": ".objectives.trivial",
    "ZeroOneObjective": ".whole.zero_one",
    "path": ".paths",
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
