"""Interruptions, threads, processes, oracles and losses of users: the entries of docs/faults.md."""

from __future__ import annotations

import _thread
import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from faults.learning_samples import close, data, fit
from sklearn.exceptions import ConvergenceWarning

import maxsum as ms
from maxsum.core.errors import CertificateError, CheckpointError, InvalidParameterError, OracleError
from maxsum.learning import BlockFrankWolfe, MarginObjective
from maxsum.losses import Hamming, Loss
from maxsum.models import GraphModel


@pytest.mark.usefixtures("interrupts")
def test_fault_44_interrupts_leave_the_best_so_far(tmp_path):
    samples, labels = data(20)

    def interrupt(point):
        if point.iteration == 3:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        net = ms.GraphLabeler(C=100.0, tol=0.0, callback=interrupt).fit(samples, labels)
    assert net.result_.termination == "interrupted" and net.result_.lower_bound <= net.result_.objective
    checked = net.result_.verify(net.objective_)
    assert checked.objective == pytest.approx(net.result_.objective, rel=1e-9)
    for delay in (0.0, 0.003, 0.01, 0.05):
        learner = BlockFrankWolfe(
            tol=0.0, max_iter=10**7, time_limit=30.0, checkpoint=tmp_path / f"state{delay}", checkpoint_seconds=0.0
        )
        objective = MarginObjective(GraphModel().bind(samples, labels), C=100.0)
        started = threading.Event()
        timer = threading.Thread(
            target=lambda started=started, delay=delay: (started.wait(), time.sleep(delay), _thread.interrupt_main())
        )
        timer.start()
        result = learner.fit(objective, callback=lambda point, started=started: started.set())
        timer.join()
        assert result.termination == "interrupted"
        assert result.verify(objective).lower_bound >= result.lower_bound * (1 - 1e-9)
        again = BlockFrankWolfe(tol=0.9, checkpoint=tmp_path / f"state{delay}").fit(objective)
        assert again.lower_bound <= again.objective


def test_fault_45_46_47_checkpoints_of_estimators(tmp_path):
    samples, labels = data()
    state = tmp_path / "state"
    whole = fit(samples, labels, tol=1e-6)
    fit(samples, labels, tol=1e-6, checkpoint=state, callback=lambda point: point.iteration == 4)
    content = state.read_bytes()
    assert fit(samples, labels, tol=1e-6, checkpoint=state).weights_.tobytes() == whole.weights_.tobytes()
    for damaged in (content[:-3], content[:50] + b"x" + content[51:], b""):
        state.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="Remove"):
            fit(samples, labels, checkpoint=state)
    state.write_bytes(content)
    for other in (dict(C=11.0), dict(loss="normalised"), dict(potentials="potts"), dict(random_state=1)):
        with pytest.raises(CheckpointError, match="another"):
            fit(samples, labels, checkpoint=state, **other)
    with pytest.raises(CheckpointError, match="another training set"):
        fit(samples, [y[::-1].copy() for y in labels], checkpoint=state)
    with pytest.warns(UserWarning, match="checkpoint was not written"):
        net = fit(samples, labels, checkpoint=tmp_path / "absent" / "state")
    assert net.result_.termination == "converged"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_fault_47_a_folder_that_is_read_only(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    with pytest.warns(UserWarning, match="checkpoint was not written"):
        assert fit(*data(), checkpoint=folder / "state").result_.termination == "converged"


def test_fault_49_one_plane_an_example_still_converges():
    samples, labels = data()
    dual = []
    learner = BlockFrankWolfe(tol=1e-2, max_planes=1, max_iter=5000)
    net = fit(samples, labels, learner=learner, callback=lambda point: dual.append(point.lower_bound))
    assert net.result_.termination == "converged" and close(net, fit(samples, labels))
    assert all(a <= b for a, b in itertools.pairwise(dual))


@pytest.mark.parametrize("grid", [False, True])
def test_fault_51_threads_change_nothing(grid):
    samples, labels = data(grid=grid)
    one = fit(samples, labels, oracle="bracket" if grid else None, max_iter=20)
    for n_jobs in (2, 8):
        other = fit(samples, labels, oracle="bracket" if grid else None, max_iter=20, n_jobs=n_jobs)
        assert other.weights_.tobytes() == one.weights_.tobytes() and other.result_.objective == one.result_.objective


def _in_another_process(seed):
    return fit(*data(seed=seed), n_jobs=2).weights_.tobytes()


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_fault_52_forked_workers_do_not_hang():
    expected = _in_another_process(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map_async(_in_another_process, [0, 0]).get(timeout=100) == [expected] * 2


def test_fault_52_new_processes_and_thread_counts_agree():
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from faults.test_training_faults import _in_another_process\n"
        "print(_in_another_process(0).hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, os.path.dirname(os.path.dirname(__file__))],
        capture_output=True, text=True, timeout=100, check=True, env={**os.environ, "OMP_NUM_THREADS": "3", "NUMBA_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.stdout.strip() == _in_another_process(0).hex()


def test_fault_52_inside_joblib():
    joblib = pytest.importorskip("joblib")
    found = joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(_in_another_process)(0) for _ in range(2))
    assert set(found) == {_in_another_process(0)}


def test_fault_53_fits_in_threads_do_not_meet():
    expected = [fit(*data(seed=seed)).weights_.tobytes() for seed in range(4)]
    found = [b""] * 4

    def run(seed):
        for _ in range(3):
            found[seed] = fit(*data(seed=seed)).weights_.tobytes()

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
    assert found == expected


def _raises(problem):
    raise ZeroDivisionError("oh")


def _mutates(problem):
    problem.unary[:] = 0.0


@pytest.mark.parametrize(
    ("oracle", "words"),
    [
        (_raises, "example 0: the oracle raised ZeroDivisionError: oh"),
        (_mutates, "example 0: the oracle raised ValueError"),
        (lambda p: np.zeros(p.n_nodes + 1, dtype=int), r"example 0: the oracle returned shape \(3,\)"),
        (lambda p: np.full(p.n_nodes, np.nan), "example 0: the oracle returned .*float64"),
        (lambda p: np.full(p.n_nodes, 9), "example 0: the oracle returned label 9 at node 0"),
        (lambda p: None, "example 0: the oracle returned"),
        (lambda p: (np.zeros(p.n_nodes, dtype=int), np.nan), "example 0: the oracle returned the bound nan"),
        (lambda p: (np.zeros(p.n_nodes, dtype=int), "x"), "example 0: the oracle returned the bound 'x'"),
        (lambda p: (np.zeros(p.n_nodes, dtype=int), -np.inf), "example 0: the oracle returned the bound -inf"),
    ],
)
def test_fault_56_oracles_of_users_that_fail(oracle, words):
    net = ms.GraphLabeler(oracle=oracle)
    with pytest.raises(OracleError, match=words):
        net.fit(*data())
    assert not hasattr(net, "weights_")


def test_fault_56_bounds_that_are_too_small():
    for oracle in (
        lambda p: (p.unary.argmax(axis=1), p.score(p.unary.argmax(axis=1)) - 1.0),
        lambda p: (p.unary.argmin(axis=1), p.score(p.unary.argmin(axis=1))),
    ):
        with pytest.raises(CertificateError, match=r"example \d: the oracle's bound .* is below"):
            fit(*data(), oracle=oracle)


def test_fault_56_an_oracle_that_is_not_the_best_is_only_slow():
    samples, labels = data()
    exact = fit(samples, labels)

    def weak(problem):
        return problem.unary.argmax(axis=1)

    def known(problem):
        return problem.unary.argmax(axis=1), ms.solve(problem).bound

    for oracle in (weak, known):
        net = fit(samples, labels, oracle=oracle, max_iter=30)
        assert net.result_.lower_bound <= exact.result_.objective and net.result_.objective >= exact.result_.lower_bound
        assert net.result_.objective >= net.objective_.evaluate(net.weights_) * (1 - 1e-9)
    right = fit(samples, labels, oracle=lambda problem: ms.solve(problem))
    assert right.result_.termination == "converged" and close(right, exact)


class _Own(Loss):
    def __init__(self, change):
        self.change = change

    def rows(self, labels, n_labels):
        return self.change(Hamming().rows(labels, n_labels))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t + 0.5, r"0.5 for the true label at node 0; wanted L\(y, y\) = 0"),
        (lambda t: -t, "is -1.0 at node 0"),
        (lambda t: np.where(t > 0, np.nan, 0.0), "is nan at node 0"),
        (lambda t: t[:, :-1], r"table of shape .*, wanted"),
    ],
)
def test_fault_57_losses_of_users_that_are_none(change, words):
    with pytest.raises(InvalidParameterError, match=words):
        ms.GraphLabeler(loss=_Own(change)).fit(*data())
    assert fit(*data(), loss=_Own(lambda t: 2 * t)).result_.objective > fit(*data()).result_.objective


def test_fault_63_seeds():
    samples, labels = data(20)
    found = [fit(samples, labels, random_state=seed) for seed in (0, 0, 1, 2)]
    assert found[0].weights_.tobytes() == found[1].weights_.tobytes() != found[2].weights_.tobytes()
    assert all(close(a, b) and abs(a.result_.objective / b.result_.objective - 1) < 2e-3 for a in found for b in found)
