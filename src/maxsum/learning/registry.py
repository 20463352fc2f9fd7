"""The learners by name: what estimators, model files and the command line know of them.

A learner is added in three steps: a file with a frozen dataclass that has `init`, `step` and `requires`; a line here; the table of what
`tests/contracts/test_learners.py` is to expect of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..core.errors import MaxsumError

if TYPE_CHECKING:
    from .driver import Learner


LEARNERS = {
    "SubsetAscent": ".learners.subset_ascent",
    "BlockFrankWolfe": ".learners.block_frank_wolfe",
    "CuttingPlane": ".learners.cutting_plane",
    "Subgradient": ".learners.subgradient",
    "Perceptron": ".learners.perceptron",
    "ProximalPoint": ".learners.proximal_point",
    "CompactQP": ".learners.compact_qp",
    "RegionBundle": ".learners.region_bundle",
    "FactorAscent": ".learners.factor_ascent",
    "SmoothedLP": ".learners.smoothed_lp",
    "ProjectedQuasiNewton": ".learners.quasi_newton",
    "MaximumLikelihood": ".learners.maximum_likelihood",
    "ProximalQuasiNewton": ".penalties.proximal",
    "PenalisedCuttingPlane": ".penalties.cutting",
    "ShardAscent": "..shards.ascent",
}
"""Where each learner lives. Every estimator knows all names; a learner refuses objectives that it cannot minimise, with those that can."""


def learner_class(name: str) -> type[Learner]:
    """The class of a learner."""
    kind: type[Learner] = getattr(importlib.import_module(LEARNERS[name], __package__), name)
    return kind


def able(objective: Any) -> list[str]:
    """Names of the learners that minimise an objective, with their default settings."""
    names = []
    for name in LEARNERS:
        try:
            learner_class(name)()._check(objective)
        except MaxsumError:
            continue
        names.append(name)
    return names
