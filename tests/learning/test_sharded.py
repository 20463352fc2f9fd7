"""Training on shards: the objective of the serial learner, a dual that never falls, the same bits whoever works, and faults."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from learning.shard_data import MemorySource, chains, grids

from maxsum.core.errors import CertificateError, CheckpointError, ExecutorError, InvalidParameterError, UnsupportedProblemError
from maxsum.executors.base import Processes, Threads, as_executor
from maxsum.learning import BlockFrankWolfe, CuttingPlane, ShardAscent
from maxsum.shards import state as shard_state
from maxsum.shards.ascent import ShardedObjective, seated
from maxsum.shards.objectives import AggregatedObjective
from maxsum.shards.tasks import forget, opened, shard_objective, tree_nodes, tree_sum


def train(source, executor=None, **kwargs):
    objective = ShardedObjective(source, source.C, executor)
    return objective, ShardAscent(**{"communication": 0.0, "tol": 1e-2, "max_iter": 300, **kwargs}).fit(objective)


CASES = {
    "free": lambda: MemorySource(*chains(40), 6, C=0.25),
    "biased": lambda: MemorySource(*chains(30, 3), 5, C=0.1, bias=True),
    "nonnegative": lambda: MemorySource(*chains(30), 5, C=0.17, potentials="associative"),
    "rows": lambda: MemorySource(*chains(30), 5, C=0.17, potentials="supermodular"),
    "cycles": lambda: MemorySource(*grids(8, 3), 4, C=0.125),
    "lp": lambda: MemorySource(*grids(8, 3), 4, C=0.125, surrogate="lp"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [1, 3])
def test_the_objective_is_that_of_the_serial_learner(name, width):
    source = CASES[name]()
    whole = source.whole()
    serial = BlockFrankWolfe(tol=1e-3).fit(whole)
    objective, found = train(source, width=width)
    assert found.relative_gap <= 1e-2
    assert found.lower_bound <= serial.objective and serial.lower_bound <= found.objective
    assert abs(found.objective - serial.objective) <= found.gap + serial.gap
    assert whole.cone.contains(found.weights)
    duals = np.array(found.extra["duals"])
    assert (np.diff(duals) >= -1e-12 * np.abs(duals[1:])).all() and duals[0] > 0
    assert all(0.0 <= gamma <= 1.0 for gamma in found.extra["gammas"])
    checked = found.verify(objective)
    assert checked.objective <= found.objective * (1 + 1e-9)
    assert checked.lower_bound == pytest.approx(found.lower_bound, rel=1e-9)
    assert whole.evaluate(found.weights) == pytest.approx(checked.objective, rel=1e-6)


def test_a_certificate_with_other_multipliers_proves_less():
    source = CASES["rows"]()
    objective, found = train(source)
    proof = found.certificate
    worse = type(proof)(proof.job, tuple(place._replace(gamma=0.0) for place in proof.places), proof.mu)
    assert worse.lower_bound(objective) < found.lower_bound
    with pytest.raises(CertificateError, match="negative"):
        type(proof)(proof.job, proof.places, proof.mu - 1.0).lower_bound(objective)
    with pytest.raises(CertificateError, match="cone"):
        proof.verify(objective, np.random.default_rng(0).normal(size=objective.n_weights))


def test_planes_that_are_packed_and_unpacked_are_the_same(tmp_path):
    source = CASES["free"]()
    _, found = train(source, checkpoint=tmp_path, max_iter=2)
    place = found.certificate.places[0]
    own = shard_objective(source, 0, source.C)
    store = shard_state.PlaneStore(own)
    state = shard_state.read_state(tmp_path, found.certificate.job.origin, 0, place.version)
    shard_state.unpack(store, state, 1.0)
    dual = store.refresh()
    other = BlockFrankWolfe().fit(shard_objective(source, 0, source.C)).objective
    assert dual <= other + 1e-9
    total = store.certificate().lower_bound(own)
    assert total == pytest.approx(dual, rel=1e-12)
    for j in range(own.n_examples):
        first = store.planes.slot_ptr[j]
        assert store.planes.alpha[first : first + store.planes.used[j]].sum() == pytest.approx(own.c[j])


def test_the_tree_of_sums_does_not_depend_on_groups():
    values = np.random.default_rng(0).normal(size=13) * 10.0 ** np.arange(13)
    want = tree_sum(0, 13, lambda a, b: values[a] if b - a == 1 else None)
    for n in (1, 2, 3, 4, 7, 13, 50):
        nodes = tree_nodes(13, n)
        assert [a for a, _ in nodes] == [0, *[b for _, b in nodes[:-1]]] and nodes[-1][1] == 13 and len(nodes) == min(n, 13)
        known = {(a, b): tree_sum(a, b, lambda c, d: values[c] if d - c == 1 else None) for a, b in nodes}
        assert tree_sum(0, 13, lambda a, b, known=known: known.get((a, b))) == want


def test_bits_do_not_depend_on_workers_or_memory():
    source = CASES["rows"]()
    _, want = train(source, max_iter=6, tol=0.0)
    with Processes(2) as two:
        for executor, memory in ((None, 0), (Threads(2), 2**28), (Threads(4), 0), (two, 2**28)):
            _, found = train(source, executor, max_iter=6, tol=0.0, memory=memory)
            assert found.weights.tobytes() == want.weights.tobytes() and found.objective == want.objective
            assert found.lower_bound == want.lower_bound and found.extra["duals"] == want.extra["duals"]
    other = train(source, max_iter=6, tol=0.0, random_state=1)[1]
    assert other.weights.tobytes() != want.weights.tobytes()


class Stop(Exception):
    pass


def stop_after(n):
    def callback(point):
        if point.iteration > n:
            raise Stop

    return callback


@pytest.mark.parametrize("name", ["free", "cycles", "lp"])
def test_a_training_that_was_killed_goes_on_with_the_same_bits(name, tmp_path):
    source = CASES[name]()
    _, want = train(source, max_iter=7, tol=0.0)
    for n in (2, 4):
        objective = ShardedObjective(source, source.C)
        learner = ShardAscent(communication=0.0, tol=0.0, max_iter=7, checkpoint=tmp_path / "run", checkpoint_seconds=0.0)
        with pytest.raises(Stop):
            learner.fit(objective, stop_after(n))
    _, found = train(source, max_iter=7, tol=0.0, checkpoint=tmp_path / "run")
    assert found.weights.tobytes() == want.weights.tobytes() and found.lower_bound == want.lower_bound
    assert found.verify(objective).lower_bound == pytest.approx(want.lower_bound, rel=1e-9)


def test_fault_47_a_full_disk_stops_with_the_state_intact(tmp_path, monkeypatch):
    source = CASES["free"]()
    _, want = train(source, max_iter=5, tol=0.0)
    written, real = [], shard_state.save_arrays

    def full(path, origin, arrays, durable):
        written.append(path)
        if len(written) > 9:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, origin, arrays, durable)

    monkeypatch.setattr(shard_state, "save_arrays", full)
    options = {"max_iter": 5, "tol": 0.0, "checkpoint": tmp_path, "checkpoint_seconds": 0.0}
    with pytest.raises(OSError, match=r"state of shard \d+ was not written: No space left.*same checkpoint") as caught:
        train(source, **options)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    _, found = train(source, **options)
    assert found.weights.tobytes() == want.weights.tobytes()


def test_states_that_are_broken_or_of_other_data_are_refused(tmp_path):
    source = CASES["free"]()
    options = {"max_iter": 3, "tol": 0.0, "checkpoint": tmp_path, "checkpoint_seconds": 0.0}
    _, found = train(source, **options)
    place = found.certificate.places[2]
    path = shard_state.state_path(tmp_path, 2, place.version)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(CheckpointError, match=f"{path.name}.*damaged"):
        train(source, **{**options, "max_iter": 4})
    path.unlink()
    with pytest.raises(CheckpointError, match=path.name):
        train(source, **{**options, "max_iter": 4})
    path.write_bytes(content)
    source.digest = lambda: b"other"
    with pytest.raises(CheckpointError, match="training set"):
        train(source, **options)


def test_old_states_are_removed(tmp_path):
    source = CASES["free"]()
    train(source, max_iter=12, tol=0.0, checkpoint=tmp_path, checkpoint_seconds=0.0)
    assert len(list(tmp_path.glob("shard-*"))) <= 3 * len(source.sizes)


_EVERY = 11


class Dying(MemorySource):
    """Its workers are killed in the middle of tasks, before and after the work on a shard."""

    def __init__(self, folder, limit, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.folder, self.limit = str(folder), limit

    def die(self):
        """Every so many calls one kills the process, until there were enough."""
        with Path(self.folder, "calls").open("ab") as calls:
            calls.write(b".")
            count = calls.tell()
        killed = Path(self.folder, f"kill-{count // _EVERY:03d}")
        if count % _EVERY == 0 and count // _EVERY <= self.limit:
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def objective(self, k):
        own = super().objective(k)
        real, source = own.state, self
        calls = [0]

        def state():
            calls[0] += 1
            if calls[0] > 1:
                source.die()
            return real()

        own.state = state
        self.die()
        return own


@pytest.mark.parametrize("kills", [2, pytest.param(22, marks=pytest.mark.slow)])
def test_fault_54_killed_workers_cost_time_only(kills, tmp_path):
    data = chains(40)
    options = {"max_iter": 5 + kills, "tol": 0.0, "memory": 0}
    _, want = train(MemorySource(*data, 6, C=10.0), **options)
    marks = tmp_path / "marks"
    marks.mkdir()
    source = Dying(marks, kills, *data, 6, C=10.0)
    with Processes(2) as executor:
        _, found = train(source, executor, **options)
        assert executor.n_lost >= kills // 2
    assert len(list(marks.glob("kill-*"))) == kills
    assert found.weights.tobytes() == want.weights.tobytes() and found.lower_bound == want.lower_bound
    assert np.diff(found.extra["duals"]).min() >= 0


class Slow(MemorySource):
    """One of its workers, the first that asks, takes its time."""

    def __init__(self, folder, seconds, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.folder, self.seconds = str(folder), seconds

    def objective(self, k):
        mark = Path(self.folder, "slow")
        if not mark.exists():
            mark.write_text(str(os.getpid()))
        if mark.read_text() == str(os.getpid()):
            time.sleep(self.seconds)
        return super().objective(k)


def test_fault_55_a_slow_worker_changes_nothing_but_time(tmp_path):
    data = chains(20)
    _, want = train(MemorySource(*data, 4, C=10.0), max_iter=2, tol=0.0)
    with Processes(2) as executor:
        _, found = train(Slow(tmp_path, 0.05, *data, 4, C=10.0), executor, max_iter=2, tol=0.0, memory=0)
        assert found.weights.tobytes() == want.weights.tobytes()
        objective, late = train(
            Slow(tmp_path, 0.05, *data, 4, C=10.0), executor, max_iter=10**6, tol=0.0, memory=0, time_limit=1.0
        )
    assert late.termination == "time_limit" and late.lower_bound <= want.objective
    assert late.verify(objective).gap >= 0


def test_communication_rules_the_work_of_a_visit():
    source = CASES["free"]()
    _, short = train(source, max_iter=2, tol=0.0)
    _, long = train(source, max_iter=2, tol=0.0, communication=1e3)
    assert long.extra["work"] > 2 * short.extra["work"] > 0
    _, enough = train(source, max_iter=2, tol=0.0, communication=1.0)
    assert enough.extra["work"] >= 10 * 2 * enough.extra["rounds"] * source.cone.n_weights


def test_a_round_moves_16_bytes_a_weight_and_worker():
    source = MemorySource(*chains(24, 4, 2000), 4, C=10.0)
    d, moved = source.cone.n_weights, []
    with Processes(2) as executor:
        for passes in (2, 4):
            before = executor.bytes_sent + executor.bytes_received
            _, found = train(source, executor, max_iter=passes, tol=0.0, width=4)
            moved.append(executor.bytes_sent + executor.bytes_received - before)
    rounds = 2
    assert found.extra["rounds"] == 4
    own = moved[1] - moved[0] - 2 * rounds * len(pickle.dumps(source))
    assert own == pytest.approx(16 * d * 2 * rounds, rel=0.02)


@pytest.mark.parametrize("name", ["free", "rows", "lp"])
def test_cutting_planes_on_sums_of_planes(name):
    source = CASES[name]()
    serial = BlockFrankWolfe(tol=1e-3).fit(source.whole())
    objective = AggregatedObjective(source, source.C)
    found = CuttingPlane(tol=1e-2, max_iter=200).fit(objective)
    assert found.relative_gap <= 1e-2
    assert abs(found.objective - serial.objective) <= found.gap + serial.gap
    objective.planes.clear()
    checked = found.verify(objective)
    assert checked.lower_bound == pytest.approx(found.lower_bound, rel=1e-6)


def test_what_does_not_fit_is_refused():
    source = CASES["free"]()
    with pytest.raises(UnsupportedProblemError, match="lacks HasShards"):
        ShardAscent().fit(source.whole())
    with pytest.raises(UnsupportedProblemError, match="ShardAscent"):
        CuttingPlane().fit(ShardedObjective(source))
    for width in (0, True, 1.5):
        with pytest.raises(InvalidParameterError, match="width"):
            ShardAscent(width=width).fit(ShardedObjective(source))


def test_dask_runs_the_same_bits_and_a_lost_scheduler_is_said(tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    source = CASES["free"]()
    _, want = train(source, max_iter=4, tol=0.0)
    options = {"max_iter": 4, "tol": 0.0, "checkpoint": tmp_path, "checkpoint_seconds": 0.0}
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    client = distributed.Client(cluster, timeout=60)
    try:
        _, found = train(source, client, max_iter=4, tol=0.0)
        assert found.weights.tobytes() == want.weights.tobytes() and found.lower_bound == want.lower_bound
        with as_executor(cluster.scheduler_address) as own:
            assert own.run(abs, [-1, 2], ["a", "b"]) == [1, 2] and own.n_workers == 2

        def leave(point):
            if point.iteration == 3:
                client.retire_workers()
                cluster.close(timeout=10)

        objective = ShardedObjective(source, source.C, client)
        with pytest.raises(ExecutorError, match="Dask scheduler"):
            ShardAscent(communication=0.0, **options).fit(objective, leave)
    finally:
        client.close(timeout=5)
        cluster.close(timeout=5)
    _, found = train(source, **options)
    assert found.weights.tobytes() == want.weights.tobytes()


def test_two_trainings_at_a_time_do_not_share_what_is_open():
    source = CASES["cycles"]()
    _, want = train(source, max_iter=3, tol=0.0)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: train(source, max_iter=3, tol=0.0)[1].weights, range(4)))
    assert all(own.tobytes() == want.weights.tobytes() for own in found)


def test_copies_of_a_source_open_a_shard_once(monkeypatch):
    source, calls = CASES["free"](), []
    monkeypatch.setattr(MemorySource, "bind", lambda self, k, bind=MemorySource.bind: calls.append(k) or bind(self, k))
    for _ in range(3):
        with opened(pickle.loads(pickle.dumps(source)), 1, 1.0) as objective:
            assert objective.n_examples == source.sizes[1]
    other = CASES["free"]()
    with opened(other, 1, 1.0):
        pass
    assert calls == [1, 0, 1]
    forget(source)
    with opened(source, 1, 1.0, memory=0), opened(source, 1, 1.0, memory=0) as second:
        assert second.n_examples == source.sizes[1]
    assert calls == [1, 0, 1, 1, 1]
    with opened(other, 1, 1.0):
        calls.clear()
    with pytest.raises(ZeroDivisionError), opened(other, 1, 1.0):
        raise ZeroDivisionError
    with opened(other, 1, 1.0):
        assert calls == [1], "after an error a shard is opened anew"
    forget(other)


@pytest.mark.parametrize(("n", "width"), [(1, 1), (8, 4), (10, 3), (5, 4), (23, 7), (4, 4), (9, 1)])
def test_a_pass_has_every_shard_once_and_each_at_its_seat(n, width):
    passes = [seated(n, width, np.random.default_rng(seed)) for seed in range(5)]
    seats: dict[int, set[int]] = {}
    for rounds in passes:
        assert sorted(np.concatenate(rounds)) == list(range(n))
        assert len(rounds) == -(-n // width) and all(len(own) == width for own in rounds[:-1])
        for own in rounds[:-1]:
            for seat, shard in enumerate(own.tolist()):
                seats.setdefault(shard, set()).add(seat)
    assert all(len(own) == 1 for own in seats.values())
