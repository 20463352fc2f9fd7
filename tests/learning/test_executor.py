"""Every executor gives the same results in the same order, replaces lost workers, and raises what tasks raise."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from maxsum.core.errors import ExecutorError, InvalidParameterError
from maxsum.executors.base import Processes, Serial, Threads, as_executor, executing


def twice(item):
    return 2 * item


def scaled(item, shared):
    return item * shared


def broken(item):
    raise ZeroDivisionError(f"item {item}")


def dies_once(item):
    """Kill this process the first time that an item is seen."""
    folder, number = item
    mark = Path(folder, f"seen-{number}")
    if number % 2 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def dies(item):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def processes():
    with Processes(2) as executor:
        yield executor


@pytest.fixture(params=["serial", "threads", "processes"])
def executor(request, processes):
    return processes if request.param == "processes" else as_executor(request.param, 2 if request.param == "threads" else None)


def test_results_come_in_the_order_of_items(executor):
    assert executor.run(twice, range(7)) == [0, 2, 4, 6, 8, 10, 12]
    assert executor.run(twice, []) == []


def test_shared_objects_reach_every_task(executor):
    w = np.arange(3.0)
    for factor in (1.0, 2.0):
        found = executor.run(scaled, [1.0, 3.0], ["a", "b"], factor * w)
        np.testing.assert_array_equal(found, [factor * w, 3 * factor * w])


def test_errors_of_tasks_are_raised_as_they_are(executor):
    with pytest.raises(ZeroDivisionError, match="item 4"):
        executor.run(broken, [4, 5])
    assert executor.run(twice, [1]) == [2]


def test_names_must_fit(executor):
    with pytest.raises(InvalidParameterError, match="names has 1 entries"):
        executor.run(twice, [1, 2], ["a"])


def test_lost_workers_are_replaced(processes, tmp_path):
    before = processes.n_lost
    assert processes.run(dies_once, [(tmp_path, i) for i in range(5)]) == list(range(5))
    assert processes.n_lost > before
    assert {p.name for p in tmp_path.iterdir()} == {"seen-0", "seen-2", "seen-4"}


@pytest.mark.slow
def test_a_task_that_always_kills_its_worker_is_an_error():
    with Processes(1) as executor, pytest.raises(ExecutorError, match=r"'x'.*died 5 times.*smaller shards"):
        executor.run(dies, [0], ["x"])


def test_bytes_are_counted(processes):
    sent, received = processes.bytes_sent, processes.bytes_received
    processes.run(scaled, [1.0, 1.0], None, np.zeros(1000))
    assert 2 * 8000 < processes.bytes_sent - sent < 2 * 8000 + 4000
    assert 2 * 8000 < processes.bytes_received - received < 2 * 8000 + 4000


def threads_of_blas(item):
    import numpy as np
    import scipy.linalg
    from threadpoolctl import threadpool_info

    scipy.linalg.solve(np.eye(3), np.ones(3))
    return [own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas"]


def test_linear_algebra_has_one_thread_in_a_worker(processes):
    assert all(found and set(found) == {1} for found in processes.run(threads_of_blas, [0, 1], ["a", "b"]))


def test_threads_run_side_by_side():
    meeting = threading.Barrier(2, timeout=10)
    assert Threads(2).run(lambda i: meeting.wait() >= 0 and i, [1, 2]) == [1, 2]


def test_executors_from_what_users_give():
    assert isinstance(as_executor(), Serial)
    own = Threads(3)
    assert as_executor(own) is own and own.n_workers == 3
    with executing("serial") as made:
        assert isinstance(made, Serial)
    for wrong in ("fast", 3, object()):
        with pytest.raises(InvalidParameterError, match="wanted 'serial'"):
            as_executor(wrong)
    for wrong in (0, True, 1.5):
        with pytest.raises(InvalidParameterError, match="n_workers"):
            as_executor("threads", wrong)


def test_closed_processes_start_again():
    executor = Processes(1)
    with executor:
        assert executor.run(scaled, [2], None, 3) == [6]
    folder = executor._folder
    assert folder is None and not executor._pools
    with executor:
        assert executor.run(twice, [2]) == [4]


def where(item):
    time.sleep(item)
    return os.getpid()


def test_tasks_go_home_and_the_idle_help():
    with Processes(2) as executor:
        first = executor.run(where, [0.3] * 2, homes=[0, 1])
        assert len(set(first)) == 2, "one process for each home"
        assert executor.run(where, [0.3] * 2, homes=[1, 0]) == first[::-1], "the same worker as before"
        assert len(set(executor.run(where, [0.2] * 4, homes=[0] * 4))) == 2, "the other one is idle, and helps"


def test_only_the_worker_that_died_is_replaced(tmp_path):
    with Processes(2) as executor:
        before = executor.run(where, [0.3] * 2, homes=[0, 1])
        assert executor.run(dies_once, [(str(tmp_path), 0)], homes=[0]) == [0]
        after = executor.run(where, [0.3] * 2, homes=[0, 1])
        assert before[0] != after[0] and before[1] == after[1] and executor.n_lost == 1


def test_a_worker_that_dies_between_calls_is_replaced():
    with Processes(2) as executor:
        before = executor.run(where, [0.3] * 2, homes=[0, 1])
        os.kill(before[0], signal.SIGKILL)
        time.sleep(0.5)
        after = executor.run(where, [0.3] * 2, homes=[0, 1])
        assert before[0] != after[0] and before[1] == after[1] and executor.n_lost == 1
