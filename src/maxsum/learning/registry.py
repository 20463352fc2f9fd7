"""The learners by name: what estimators, model files and the command line know of them.

A learner is added in three steps: a file with a frozen dataclass that has `init`, `step` and `requires`; a line here; the table of what
`tests/contracts/test_learners.py` is to expect of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import MaxsumError

if TYPE_CHECKING:
    from .driver import Learner


class Entry(NamedTuple):
    """Where a learner lives, and which estimators know its name: those of graphs (``graphs``), and of label sets (``sets``)."""

    home: str
    graphs: bool = True
    sets: bool = True


LEARNERS = {
    "SubsetAscent": Entry(".learners.subset_ascent", graphs=False),
    "BlockFrankWolfe": Entry(".learners.block_frank_wolfe"),
    "CuttingPlane": Entry(".learners.cutting_plane"),
    "Subgradient": Entry(".learners.subgradient"),
    "Perceptron": Entry(".learners.perceptron", sets=False),
    "ProximalPoint": Entry(".learners.proximal_point"),
    "CompactQP": Entry(".learners.compact_qp"),
    "RegionBundle": Entry(".learners.region_bundle", sets=False),
    "FactorAscent": Entry(".learners.factor_ascent", sets=False),
    "SmoothedLP": Entry(".learners.smoothed_lp"),
    "ProjectedQuasiNewton": Entry(".learners.quasi_newton"),
    "MaximumLikelihood": Entry(".learners.maximum_likelihood"),
    "ShardAscent": Entry("..shards.ascent", sets=False),
}


def learner_class(name: str) -> type[Learner]:
    """The class of a learner."""
    kind: type[Learner] = getattr(importlib.import_module(LEARNERS[name].home, __package__), name)
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
