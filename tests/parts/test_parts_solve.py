"""TRW-S over parts is TRW-S on the whole graph; bounds hold against enumeration; runs stop, resume and verify."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from parts.parts_samples import loose_problem

import maxsum as ms
from maxsum.core.certificates.base import MessageCertificate
from maxsum.core.problem import Messages
from maxsum.executors.base import Serial
from maxsum.inference.prepare import prepare
from maxsum.inference.relaxations.trws import passes
from maxsum.parts import grow_parts, open_parts, solve_parts, tile_parts, write_grid, write_parts
from maxsum.parts.engine import Engine, colours, schedule
from maxsum.parts.sources import Source
from maxsum.parts.visit import Step


def whole_passes(parts, n_rounds):
    """Bounds and messages of TRW-S on the whole problem with its nodes in the order of colours and parts."""
    problem, colour = parts.problem(), colours(parts)
    order = np.concatenate([parts.nodes(p) for p in sorted(range(parts.n_parts), key=lambda p: (colour[p], p))])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    moved = ms.Problem(
        ms.Graph.from_edges(rank[problem.graph.edges], problem.n_nodes), problem.unary[order], problem.tables, problem.edge_table,
        problem.edge_weight, offset=problem.offset,
    )  # fmt: skip
    prepared, messages = prepare(moved), moved.zero_messages()
    one_pass = passes(moved, prepared.net)
    return [prepared.constant + one_pass(messages, i % 2 == 0) for i in range(2 * n_rounds)], messages


@pytest.mark.parametrize("size", [1, 6, 13])
@pytest.mark.parametrize("constant", [0.0, 1e4])
def test_passes_are_those_of_the_whole_graph(tmp_path, size, constant):
    given = loose_problem(own_tables=False)
    problem = ms.Problem(given.graph, given.unary, given.tables + constant, edge_weight=np.abs(given.edge_weight))
    parts = write_parts(problem, grow_parts(problem.graph, size), tmp_path / "a")
    engine = Engine(Source(parts), tmp_path / "out", Serial())
    bounds = engine.rounds(3) + engine.rounds(2)
    wanted, messages = whole_passes(parts, 5)
    np.testing.assert_allclose(bounds, wanted, rtol=1e-11)
    assert (np.diff(bounds) <= 1e-7).all()
    f, b = (Step.FORWARD,), (Step.BACKWARD,)
    assert schedule(2, 2) == [(0, 0, f), (1, 0, f + b), (0, 1, b + f), (1, 2, f + b), (0, 3, b)]
    engine.label()
    engine.save(engine.generation, engine.labels, 0.0)
    found = ms.parts.solve.PartsCertificate(engine.source, engine.work).messages()
    np.testing.assert_allclose(found.edge, messages.edge, atol=1e-7)


@pytest.mark.parametrize("size", [1, 3, 9])
def test_bounds_hold_against_enumeration(tmp_path, size):
    rng = np.random.default_rng(size)
    for trial in range(3):
        problem = ms.Problem(ms.Graph.grid(3, 3), rng.normal(size=(9, 2)), rng.normal(size=(12, 2, 2)))
        best = max(problem.score(y) for y in itertools.product(range(2), repeat=9))
        parts = write_parts(problem, grow_parts(problem.graph, size), tmp_path / f"a{trial}")
        result = solve_parts(parts, tmp_path / f"out{trial}", tol=0.0)
        assert result.score <= best + 1e-9
        assert result.bound >= best - 1e-9
        assert problem.score(result.labels()) == pytest.approx(result.score)
        if result.guarantee == ms.Guarantee.optimal:
            assert result.score == pytest.approx(best)


def grid(h=24, w=18, k=4, seed=0):
    rng = np.random.default_rng(seed)
    return ms.Problem(ms.Graph.grid(h, w), rng.normal(size=(h, w, k)), 0.8 * np.eye(k))


@pytest.mark.parametrize("tile", [(24, 18), (6, 18), (7, 5)])
def test_the_certificate_is_one_of_the_whole_problem(tmp_path, tile):
    problem = grid()
    parts = write_parts(problem, tile_parts((24, 18), tile), tmp_path / "a")
    result = solve_parts(parts, tmp_path / "out", tol=1e-6, max_iter=60)
    whole, labels = parts.problem(), result.labels()
    assert labels.shape == (24, 18)
    check = MessageCertificate(result.certificate.messages()).verify(whole, labels.reshape(-1), result.score, result.bound)
    assert check.gap == pytest.approx(result.gap, rel=1e-9)
    again = result.certificate.verify(result.score, result.bound)
    assert (again.score, again.bound) == (result.score, result.bound)
    assert result.score <= ms.inference.TRWS().solve(problem).bound
    assert result.relative_gap < 1e-3
    assert "verified" in result.message
    for wrong in ({"score": result.score + 1}, {"bound": result.bound - 1}):
        with pytest.raises(ms.CertificateError, match="claimed"):
            result.certificate.verify(**wrong)


def test_any_messages_prove_a_valid_bound(tmp_path):
    problem = loose_problem()
    parts = write_parts(problem, grow_parts(problem.graph, 9), tmp_path / "a")
    result = solve_parts(parts, tmp_path / "out", max_iter=2)
    rng = np.random.default_rng(0)
    for path in (tmp_path / "out").glob("messages-*.npy"):
        array = np.load(path, mmap_mode="r+")
        array[:] = rng.normal(size=array.shape)
    check = result.certificate.verify()
    assert check.bound > result.bound
    certificate = MessageCertificate(Messages(*result.certificate.messages()))
    assert certificate.bound(parts.problem()) == pytest.approx(check.bound)


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_the_answer_does_not_depend_on_who_runs_it(tmp_path, executor):
    parts = write_parts(grid(), tile_parts((24, 18), (5, 18)), tmp_path / "a")
    serial = solve_parts(parts, tmp_path / "one", tol=0.0, max_iter=4)
    other = solve_parts(parts, tmp_path / "two", tol=0.0, max_iter=4, executor=executor)
    assert (serial.score, serial.bound, serial.n_iter) == (other.score, other.bound, other.n_iter)
    np.testing.assert_array_equal(serial.labels(), other.labels())


def test_isolated_nodes_and_parts_without_edges(tmp_path):
    unary = np.random.default_rng(0).normal(size=(5, 3))
    problem = ms.Problem(ms.Graph.from_edges(np.zeros((0, 2), dtype=int), 5), unary)
    result = solve_parts(write_parts(problem, [0, 0, 1, 2, 2], tmp_path / "a"), tmp_path / "out")
    np.testing.assert_array_equal(result.labels(), unary.argmax(axis=1))
    assert result.guarantee == ms.Guarantee.optimal


def test_limits_callback_and_resume(tmp_path):
    parts = write_parts(grid(seed=3), tile_parts((24, 18), (5, 18)), tmp_path / "a")
    first = solve_parts(parts, tmp_path / "out", tol=0.0, time_limit=0.0)
    assert (first.termination, first.n_iter) == (ms.Termination.time_limit, 1)
    second = solve_parts(parts, tmp_path / "out", tol=0.0, callback=lambda point: point.iteration >= 3)
    assert second.termination == ms.Termination.stopped
    assert second.n_iter > first.n_iter
    assert second.bound < first.bound
    assert second.score >= first.score
    third = solve_parts(parts, tmp_path / "out", tol=0.5)
    assert third.termination == ms.Termination.converged
    assert third.bound <= second.bound + 1e-9
    straight = solve_parts(parts, tmp_path / "other", tol=0.0, max_iter=third.n_iter)
    assert straight.bound == pytest.approx(third.bound, rel=1e-12)


def test_ctrl_c_returns_the_best_so_far(tmp_path):
    parts = write_parts(grid(), tile_parts((24, 18), (5, 18)), tmp_path / "a")

    def interrupt(point):
        if point.iteration >= 3:
            raise KeyboardInterrupt

    result = solve_parts(parts, tmp_path / "out", tol=0.0, callback=interrupt)
    assert result.termination == ms.Termination.interrupted
    assert result.certificate.verify().bound == result.bound
    assert np.isfinite(result.gap)


class Dies(Serial):
    """An executor that stops in the middle of a pass."""

    def __init__(self, calls):
        self.calls = calls

    def run(self, function, items, names=None, shared=None):
        self.calls -= 1
        if self.calls < 0:
            raise OSError("killed")
        return super().run(function, items, names, shared)


def test_a_run_killed_at_any_moment_resumes(tmp_path):
    parts = write_parts(grid(), tile_parts((24, 18), (5, 18)), tmp_path / "a")
    for calls in (0, 1, 2, 3, 5, 8, 13):
        with pytest.raises(OSError, match="killed"):
            solve_parts(parts, tmp_path / "out", tol=0.0, executor=Dies(calls))
    result = solve_parts(parts, tmp_path / "out", tol=1e-3)
    assert result.relative_gap <= 1e-3


_KILLED = """
import sys
from maxsum.parts import solve_parts
solve_parts(sys.argv[1], sys.argv[2], tol=0.0, max_iter=10**6, callback=lambda point: print(point.iteration, flush=True))
"""


def test_a_killed_process_leaves_a_state_to_go_on_from(tmp_path):
    parts = write_parts(grid(seed=5), tile_parts((24, 18), (5, 18)), tmp_path / "a")
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "a"), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(2)]
        process.kill()
    assert [line.strip() for line in lines] == ["1", "3"]
    assert process.returncode != 0
    result = solve_parts(parts, tmp_path / "out", tol=1e-3)
    assert result.n_iter > 1
    check = MessageCertificate(result.certificate.messages()).verify(parts.problem(), result.labels().reshape(-1))
    assert check.bound == pytest.approx(result.bound)


def test_foreign_and_damaged_states_are_refused(tmp_path):
    one = write_parts(grid(), tile_parts((24, 18), (5, 18)), tmp_path / "a")
    two = write_parts(grid(seed=1), tile_parts((24, 18), (5, 18)), tmp_path / "b")
    solve_parts(one, tmp_path / "out", max_iter=1)
    with pytest.raises(ms.CheckpointError, match="another graph"):
        solve_parts(two, tmp_path / "out")
    path = tmp_path / "out" / "messages-00002.npy"
    array = np.load(path, mmap_mode="r+")
    array[0, 0, 0] = np.nan
    with pytest.raises(ms.CheckpointError, match="messages-00002"):
        solve_parts(one, tmp_path / "out")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ms.CheckpointError, match="messages-00002"):
        solve_parts(one, tmp_path / "out")
    path.unlink()
    result = solve_parts(one, tmp_path / "out", max_iter=2)
    next((tmp_path / "out").glob("labels-*-00001.npy")).unlink()
    with pytest.raises(ms.CheckpointError, match="00001"):
        result.certificate.verify()
    state = tmp_path / "out" / "state.arrays"
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(ms.CheckpointError, match=r"state\.arrays"):
        solve_parts(one, tmp_path / "out")


def test_bad_parameters(tmp_path):
    parts = write_parts(grid(), tile_parts((24, 18), (5, 18)), tmp_path / "a")
    for wrong in ({"tol": -1}, {"tol": "small"}, {"max_iter": 0}, {"time_limit": -1.0}, {"executor": "many"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            solve_parts(parts, tmp_path / "out", **wrong)
    single = write_grid([np.zeros((2, 2, 1))], tmp_path / "one", tables=np.zeros((1, 1)))
    with pytest.raises(ms.UnsupportedProblemError, match="two or more"):
        solve_parts(single, tmp_path / "out1")
    with pytest.raises(ms.ParseError, match="manifest"):
        open_parts(tmp_path / "nothing")
