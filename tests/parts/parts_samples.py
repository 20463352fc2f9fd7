"""Problems for the tests of graphs in parts."""

from __future__ import annotations

import numpy as np
from factories.problems import random_problem
from reference.families import random_edges

EDGES = random_edges(np.random.default_rng(0), 37, 0.15)


def loose_problem(own_tables=True):
    """Forty nodes, the last three without edges."""
    return random_problem(0, 40, edges=EDGES, shared=not own_tables, weights=(-1.0, 2.0), offset=2.5)
