"""How many random cases a test draws: a third in the default run, all of them in the thorough one."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("MAXSUM_THOROUGH", "0") not in ("", "0")
"""Set by who wants every random case: ``MAXSUM_THOROUGH=1 python -m pytest -m ""`` runs the slow tests too."""
SHARE = 3  # every formula was checked on all cases once; what breaks one breaks it within its first dozen as a rule
LEAST = 4


def seeds(n: int) -> range:
    """The seeds of ``n`` random cases; by default the first third of them."""
    return range(n if THOROUGH else min(n, max(LEAST, n // SHARE)))


def share(n: int) -> int:
    """How often something has to be seen in the cases of `seeds`, where all of them show it at least ``n`` times."""
    return n if THOROUGH else n // SHARE
