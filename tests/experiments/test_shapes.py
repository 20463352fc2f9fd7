"""Table 1 of Franc & Laskov 2011 on a small scale: the contest of learners, the report, photographs, the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxsum import experiments
from maxsum.datasets import make_shape_sorter
from maxsum.experiments import shapes
from maxsum.experiments.images import segmentation
from maxsum.experiments.peers import contest
from maxsum.inference import TRWS
from maxsum.learning import BlockFrankWolfe, LPObjective


@pytest.fixture(scope="module")
def model():
    return shapes.bind(shapes.Part(*make_shape_sorter(3, 16, 16, 5)))


def test_the_experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    monkeypatch.setattr(shapes, "QUICK_SECONDS", 0.3)
    monkeypatch.setattr(shapes, "QUICK_C", (0.1,))
    lines: list[str] = []
    report = experiments.run("shapes", quick=True, progress=lines.append)
    assert not report.failed and len(lines) == 3
    rows = {row[1]: dict(zip(report.columns, row, strict=True)) for row in report.rows}
    assert list(rows) == [*shapes.SOLVERS, *shapes.OTHERS, shapes.BEST]
    for own in rows.values():  # the same end for all
        assert own["s"].startswith(">") == (float(own["above the bound %"]) > 100 * shapes.TOL)
    assert not rows[shapes.BEST]["s"].startswith(">")
    assert {"processor time of ACP, DAG over that of GPPA, C = 0.1", "processor time of ACP, DAG over that of GPPA, all C"} <= {
        claim.what for claim in report.claims
    }
    assert "C = 0.1: ACP F 72.93 in 2:44:45, GPPA 72.88 in 0:12:34, errors 1.71 and 0.98 %" in report.substitute
    assert not any(claim.published not in ("", "-") for claim in report.claims)
    assert any("No photographs" in note for note in report.notes)


def test_the_published_times_add_up() -> None:
    assert tuple(shapes._clock(sum(own[i] for own in shapes.PUBLISHED.values())) for i in (1, 3)) == shapes.PUBLISHED_TOTAL


def test_a_solver_is_asked_once_at_a_point(model) -> None:
    calls = []

    class Counting(contest.Once):
        def _ask(self, item):
            calls.append(item[0])
            return super()._ask(item)

    oracle = Counting(model, TRWS(), np.inf)
    w = np.zeros(model.n_weights)
    first = oracle.answer(w, np.array([0, 2]), 0, 1)
    again = oracle.answer(w, np.array([2, 0, 1]), 3, 1)
    assert calls == [0, 2, 1]
    assert (first[0][0] == again[0][1]).all() and first[1][1] == again[1][0]
    oracle.answer(w + 1.0, np.array([0]), 0, 1)
    assert calls == [0, 2, 1, 0]


def test_a_lower_target_takes_a_smaller_gap(model) -> None:
    target = BlockFrankWolfe(tol=1e-3).fit(LPObjective(model, 0.02)).objective
    loose, tight = (contest.to_gap(model, 0.02, own, 30.0) for own in (np.inf, target))
    assert loose.done and loose.gap <= contest.TOL and loose.objective > target
    assert tight.done and tight.gap < loose.gap and tight.objective <= target
    assert not contest.to_gap(model, 0.02, 0.0, 0.2).done


def test_cutting_planes_reach_the_same_optimum(model) -> None:
    lp = contest.to_gap(model, 0.02, np.inf, None)
    end = lp.result.lower_bound / 0.98
    acp = contest.cutting_plane(model, 0.02, TRWS(), end, None)
    assert acp.done and lp.result.lower_bound <= acp.objective <= end
    assert acp.result.lower_bound <= lp.objective
    for learner in shapes.OTHERS.values():
        reached = contest.to_target(model, 0.02, learner, end, 10.0)
        assert reached.done and lp.result.lower_bound <= reached.result.objective <= end
    assert not contest.cutting_plane(model, 0.02, TRWS(), 0.0, 0.1).done


def test_gppa_is_as_published() -> None:
    own = shapes.OTHERS[shapes.GPPA]
    assert (own.slacks, own.polish, own.certify, own.lambda_0) == ("one", False, False, 2.0) and own.inner_tol == shapes.TOL


def test_a_stopped_training_makes_a_ratio_a_bound(model) -> None:
    result = contest.to_gap(model, 0.02, np.inf, None).result
    slow, fast = (contest.Run(1.0, 0.0, seconds, seconds, True, result) for seconds in (30.0, 1.0))

    def claim(slow: contest.Run, fast: contest.Run, least: float | None = 20.0) -> Any:
        return shapes._ratio({1.0: {"a": slow, "b": fast}}, "a", "b", "all C", least)

    assert claim(slow, fast).holds is True and claim(fast, slow).holds is False and claim(slow, fast, None).holds is None
    for seconds, holds in ((30.0, True), (3.0, None)):
        own = claim(slow._replace(done=False, processor=seconds), fast)
        assert own.holds is holds and own.ours.startswith("at least ")
    for seconds, holds in ((30.0, None), (3.0, False)):
        own = claim(slow._replace(processor=seconds), fast._replace(done=False))
        assert own.holds is holds and own.ours.startswith("at most ")
    both = claim(slow._replace(done=False), fast._replace(done=False))
    assert both.holds is None and both.ours.startswith("not known")


def test_photographs(monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = make_shape_sorter(12, 40, 40, 3)
    made = [
        segmentation.Image(str(i), x / 255.0, np.minimum(y, 3)) for i, (x, y) in enumerate(zip(images, labels, strict=True))
    ]
    monkeypatch.setattr(segmentation, "load", lambda: made)
    monkeypatch.setattr(shapes, "QUICK_SECONDS", 0.3)
    claims = shapes.photographs(True, lambda line: None)
    assert [("codes" in claim.what, "numbers" in claim.what) for claim in claims] == [(True, False), (False, True)]
    assert all("of pixels wrong" in claim.ours for claim in claims)


def test_labels_by_colour_and_by_the_network() -> None:
    train, _, test = shapes.data(True)
    model = shapes.bind(train)
    table = shapes.colour_table(train)
    by_colour = shapes.error(shapes.by_colour(table, train), train.truth)
    own = contest.to_gap(model, 1.0, np.inf, 2.0)
    by_network = shapes.error(shapes.label(model, own.result.weights, train.samples), train.truth)
    assert 5 < by_colour < 20 and by_network < 0.7 * by_colour
    assert 0 <= LPObjective(shapes.bind(test)).tightness(own.result.weights)["tight"] <= 1


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    shapes.picture(tmp_path / "a.png", C=0.05, quick=True, n_images=1)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
