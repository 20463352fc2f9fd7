"""What goes together: every combination of potentials, surrogate and learner is taken or refused as docs/choosing.md says."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import maxsum as ms
from maxsum.learning.registry import LEARNERS

PAGE = Path(__file__).parents[2] / "docs" / "choosing.md"
POTENTIALS = ("general", "supermodular", "associative", "potts", "convex")


def told() -> dict[str, tuple[set[str], list[str], set[tuple[str, str]]]]:
    """Potentials, learners and exceptions (learner, potentials) of each surrogate, as the page has them."""
    section = PAGE.read_text(encoding="utf-8").partition("## What goes together")[2].partition("\n## ")[0]
    found = {}
    for row in re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", section, flags=re.M):
        surrogate, potentials, learners = row
        without = set(re.findall(r"`(\w+)` \(not with `(\w+)`\)", learners))
        names = re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", learners))
        found[surrogate] = (set(re.findall(r"`(\w+)`", potentials)), names, without)
    return found


TOLD = told()


def test_the_page_knows_all_surrogates() -> None:
    assert set(TOLD) == {"margin", "lp", "trivial", "qp", "logistic", "likelihood", "pseudolikelihood"}
    assert {name for _, names, _ in TOLD.values() for name in names} == set(LEARNERS) - {
        "SubsetAscent",
        "ShardAscent",
        "ProximalQuasiNewton",
        "PenalisedCuttingPlane",
    }


@pytest.mark.parametrize("potentials", POTENTIALS)
@pytest.mark.parametrize("surrogate", TOLD)
def test_what_the_page_takes_is_taken_and_nothing_else(surrogate: str, potentials: str) -> None:
    rng = np.random.default_rng(0)
    X = [ms.GraphSample(rng.normal(size=(4, 2)), ms.Graph.grid(2, 2)) for _ in range(2)]
    y = [rng.integers(0, 2, size=4) for _ in range(2)]
    allowed, names, without = TOLD[surrogate]
    same = "convex" if surrogate in ("qp", "logistic") and potentials == "general" else potentials
    taken = []
    for learner in LEARNERS:
        smoothing = 0.1 if (learner, surrogate) == ("SmoothedLP", "lp") else 0.0
        net = ms.GraphLabeler(potentials, surrogate, learner=learner, max_iter=1, tol=0.5, smoothing=smoothing)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                net.fit(X, y)
        except (ms.InvalidParameterError, ms.UnsupportedProblemError):
            continue
        taken.append(learner)
    wanted = [name for name in names if same in allowed and (name, potentials) not in without]
    assert sorted(taken) == sorted(wanted)


@pytest.mark.parametrize("surrogate", TOLD)
def test_what_the_page_trains_with_factors_is_trained_and_nothing_else(surrogate: str) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Samples with factors")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", section, flags=re.M))
    rng = np.random.default_rng(0)
    factors = [ms.factors.exactly(np.arange(4), 2)]
    X = [ms.GraphSample(rng.normal(size=(4, 2)), ms.Graph.grid(2, 2), factors=factors) for _ in range(2)]
    taken = []
    for learner in LEARNERS:
        net = ms.GraphLabeler(surrogate=surrogate, learner=learner, max_iter=1, tol=0.5)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                net.fit(X, [[0, 1, 1, 0], [1, 1, 0, 0]])
        except (ms.InvalidParameterError, ms.UnsupportedProblemError):
            continue
        taken.append(learner)
    assert sorted(taken) == sorted(re.findall(r"`(\w+)`", rows.get(surrogate, "")))


@pytest.mark.parametrize("surrogate", TOLD)
def test_the_default_is_the_first_learner_of_the_page(surrogate: str) -> None:
    rng = np.random.default_rng(0)
    X = [ms.GraphSample(rng.normal(size=(4, 2)), ms.Graph.grid(2, 2)) for _ in range(2)]
    net = ms.GraphLabeler(surrogate=surrogate, tol=0.5).fit(X, [rng.integers(0, 2, size=4) for _ in range(2)])
    assert net.result_.learner == TOLD[surrogate][1][0]
