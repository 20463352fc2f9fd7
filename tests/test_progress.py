"""What verbose=1 shows: lines where stderr is no terminal, a live line where it is, nothing by default."""

from __future__ import annotations

import numpy as np
import pytest
from factories.problems import spin_glass

import maxsum as ms
from maxsum.progress import LearningLine, Progress, watched


def test_solve_shows_score_bound_and_gap_and_then_the_answer(capsys):
    problem = spin_glass(6, 0)
    quiet = ms.solve(problem)
    assert capsys.readouterr().err == ""
    shown = ms.solve(problem, verbose=1)
    lines = capsys.readouterr().err.splitlines()
    assert "score" in lines[0] and "bound" in lines[0] and "gap" in lines[0]
    assert lines[-1] == str(shown) and (shown.labels == quiet.labels).all()
    with pytest.raises(ms.InvalidParameterError, match="verbose"):
        ms.solve(problem, verbose="loud")


def test_a_true_callback_stops_a_run_that_is_shown(capsys):
    calls = []
    result = ms.solve(spin_glass(8, 1), "TRWS", verbose=True, callback=lambda point: calls.append(point) or len(calls) == 2)
    assert result.termination == "stopped" and len(calls) == 2 and capsys.readouterr().err


def test_plain_lines_are_a_second_apart(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("maxsum.progress.time.monotonic", lambda: now[0])
    with watched(1, describe=lambda point, limit: f"line {point}") as callback:
        for number in range(25):
            now[0] = 0.1 * number
            assert not callback(number)
    assert capsys.readouterr().err.split() == ["line", "0", "line", "10", "line", "20"]


def test_a_terminal_has_one_live_line(capsys):
    with Progress(True, None, force=True, plain=True) as live:
        live(type("Point", (), {"iteration": 3, "score": 1.0, "bound": 2.0, "gap": 1.0, "seconds": 0.5})())
    assert "iteration 3" in capsys.readouterr().err


def test_estimates_of_the_time_left_are_steady():
    """A gap that falls by the same factor in the same time meets the tolerance when the estimate says; a jump moves it little by little."""
    line, seen = LearningLine(1e-3), []
    for i in range(1, 200):
        gap = float(np.exp(-0.05 * i)) * (1.3 if i % 2 else 1.0)
        line.see(type("Point", (), {"iteration": i, "relative_gap": gap, "seconds": 0.1 * i})())
        left = line.seconds_left()
        if left is not None and i > 20:
            seen.append(left + 0.1 * i)
        if gap < 1e-3:
            break
    assert seen and max(seen) < 1.5 * min(seen) and abs(np.median(seen) - 13.8) < 2.0
