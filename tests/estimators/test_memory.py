"""Memory that a training needs is estimated, and refused with the figure, before it is allocated."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import maxsum as ms
from maxsum.core import memory

resource = pytest.importorskip("resource")

_RUN = """
import json, resource, sys, warnings
import numpy as np
import maxsum as ms
from maxsum.estimators import base, memory, multilabel, pipeline
warnings.simplefilter("ignore")
random = np.random.default_rng(0)

class Stop(Exception):
    pass

def cases():
    y = [random.integers(26, size=8) for _ in range(100)]
    yield "sequence", ms.SequenceLabeler(C=10.0, max_iter=5), [random.random((8, 128)) for _ in y], y
    y = [np.repeat(np.repeat(random.integers(3, size=(16, 16)), 4, 0), 4, 1) for _ in range(4)]
    yield "grid", ms.GridLabeler(C=1.0, max_iter=2), [np.eye(3)[t] + random.normal(size=(64, 64, 3)) for t in y], y
    y = [random.integers(4, size=20000) for _ in range(2)]
    X = [ms.GraphSample(random.random((20000, 10)), ms.Graph.chain(20000)) for _ in y]
    yield "graph", ms.GraphLabeler(C=1.0, max_iter=2), X, y
    X = random.normal(size=(300, 100))
    yield "multilabel", ms.MultiLabelClassifier(C=1.0, max_iter=2, learner="BlockFrankWolfe"), X, (X[:, :9] > 0).astype(int)

def count(need, what):
    seen.append(need)
    if what == "this training":
        raise Stop

def check(function):
    base.check_room = multilabel.check_room = pipeline.check_room = function

for name, net, X, y in cases():
    type(net)(**net.get_params(deep=False)).fit(X, y)
    seen = []
    check(count)
    try:
        net.fit(X, y)
    except Stop:
        check(memory.check_room)
    found = []
    for share in (0.3, 1.5):
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (int(size + share * sum(seen)), resource.RLIM_INFINITY))
        try:
            found.append(float(net.fit(X, y).result_.gap))
        except MemoryError as error:
            found.append([str(error), hasattr(net, "weights_")])
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    print(json.dumps([name, *found]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space is read from /proc")
def test_fault_48_limits_of_the_address_space() -> None:
    """With 1.5 times the estimate the training works; with a fraction it is refused at once, not in the middle."""
    done = subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in lines] == ["sequence", "grid", "graph", "multilabel"]
    for name, refused, gap in lines:
        assert isinstance(refused, list), (name, refused)
        assert "of memory, but" in refused[0] and "RLIMIT_AS" in refused[0] and not refused[1], (name, refused)
        assert isinstance(gap, float) and np.isfinite(gap), (name, gap)


def huge(shape: tuple[int, ...], dtype: Any = float) -> np.ndarray:
    return np.broadcast_to(np.zeros((1,) * len(shape), dtype=dtype), shape)


@pytest.mark.parametrize(
    ("net", "X", "y"),
    [
        (ms.GridLabeler(), [huge((200_000, 200_000, 3))], [[[0]]]),
        (ms.GridLabeler(), [huge((10**6, 10**6), int)], [[[0]]]),
        (ms.GridLabelerCV(), [huge((200_000, 200_000, 3))] * 9, [[[0]]] * 9),
        (ms.SequenceLabeler(), [huge((10**9, 1000))], [[0]]),
        (ms.MultiLabelClassifier(), huge((10**7, 10**6)), huge((10**7, 5), int)),
    ],
    ids=["grid", "codes", "grid-cv", "sequence", "multilabel"],
)
def test_absurd_sizes_are_refused_at_once(net: Any, X: Any, y: Any) -> None:
    started = time.perf_counter()
    with pytest.raises(MemoryError, match=r"this training set needs about [\d.e+]+ TB of memory, but .* are left"):
        net.fit(X, y)
    assert time.perf_counter() - started < 1.0 and not hasattr(net, "weights_")


def test_absurd_predictions_are_refused_too() -> None:
    seg = ms.GridLabeler("supermodular").fit([np.zeros((2, 2, 1))], [[[0, 1], [1, 0]]])
    with pytest.raises(MemoryError, match="this prediction needs about"):
        seg.predict([huge((200_000, 200_000, 1))])


def test_many_labels_are_refused_when_they_are_known(monkeypatch: Any) -> None:
    monkeypatch.setattr(memory, "available", lambda: (10**7, "RLIMIT_AS"))
    X = [np.zeros((400, 2))] * 4
    ms.SequenceLabeler(max_iter=1, tol=1.0).fit(X, [np.arange(400) % 2] * 4)
    with pytest.raises(MemoryError, match=r"this training needs about .* but 10 MB are left"):
        ms.SequenceLabeler(max_iter=1, tol=1.0).fit(X, [np.arange(400) % 100] * 4)


def test_what_is_left(monkeypatch: Any) -> None:
    left, why = memory.available()
    assert left > 0 and why in ("physical memory", "RLIMIT_AS", "limit of the container")
    for name, value in (("_physical", 300), ("_address_space", 200), ("_container", 100)):
        monkeypatch.setattr(memory, name, lambda value=value: value)
    assert memory.available() == (100, "limit of the container")
    monkeypatch.setattr(memory, "_container", lambda: None)
    assert memory.available() == (200, "RLIMIT_AS")
    monkeypatch.setattr(memory, "_address_space", lambda: None)
    assert memory.available() == (300, "physical memory")
    memory.check_room(10**6, "a small thing")
    with pytest.raises(MemoryError, match=r"a thing needs about 2 GB of memory, but 300 bytes are left \(physical memory\)"):
        memory.check_room(2 * 10**9, "a thing")
