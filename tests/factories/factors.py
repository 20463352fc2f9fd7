"""Random problems with factors for tests. Equal seeds give equal ones; a generator in place of a seed goes on from where it stands."""

from __future__ import annotations

from typing import Any

import numpy as np
from reference.enumeration import Raw

import maxsum as ms

from .problems import Seed, random_case


def factor_case(seed: Seed, n_factors: int | None = None, **options: Any) -> tuple[ms.Problem, Raw]:
    """A small problem with nodes, edges and factors, and the raw numbers that it was made from; ``options`` are those of `random_case`.

    Unequal numbers of labels, forbidden labels and pairs, offsets, weights and whole numbers occur, and some are infeasible.
    """
    rng = np.random.default_rng(seed)
    whole, hard = bool(rng.random() < 0.3), float(rng.choice([0.0, 0.1, 0.3]))
    how: dict[str, Any] = dict(
        n_nodes=(2, 6), n_labels=(1, 5), density=float(rng.choice([0.0, 0.3, 0.6])), unequal=bool(rng.random() < 0.5), whole=whole,
        offset=float(rng.choice([0.0, 2.0, -1e6])), weights=None if whole or rng.random() < 0.5 else (0.1, 2.0), hard=hard,
        forbidden=hard / 2, factors=int(rng.integers(1, 5)) if n_factors is None else n_factors,
    )  # fmt: skip
    return random_case(rng, **(how | options))


def factor_problem(seed: Seed, n_factors: int | None = None, **options: Any) -> ms.Problem:
    """The problem of `factor_case`."""
    return factor_case(seed, n_factors, **options)[0]
