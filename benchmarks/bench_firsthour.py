"""What a newcomer of each trade does first, from a new process to the answer, beside the tool of that trade on the same task."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from .measure import NO_DATA, data_folder

TITLE = "The first hour: one task of each trade"
DESCRIPTION = """
Each row is a new Python process: imports, reading, training by default settings, prediction and score; wall and CPU seconds (user and system, of all threads) are of all of
it. Nobody's settings are tuned, so the scores are what a newcomer gets. Tagging: the first 2000 sentences of CoNLL-2000 with the features of CRFsuite's example, F1 of chunks on the
2012 of the test. Tables: emotions of the Mulan collection (593 rows, 6 labels), features scaled by the training rows, `ClassifierChain` of logistic regressions beside
`MultiLabelClassifier()`, labels right in percent. Images: the energy of one noisy 256x256 image, by the same problem for both: two labels beside PyMaxflow (both exact) and
four labels beside gco's expansion (energies: less is better). Files: a `.wcsp` with a proof of its optimum, beside toulbar2 (costs: less is better).
"""


class Task(NamedTuple):
    """A trade, and what each tool runs: code that ends in printing a number as JSON."""

    trade: str
    score: str
    tools: dict[str, str]


_CONLL = """
import json, sys
import maxsum as ms
folder, n = sys.argv[1], int(sys.argv[2])
train, test = (ms.datasets.read_conll(f"{folder}/conll2000/{part}.txt.gz") for part in ("train", "test"))
train, test = train[:n], test[: n + 12]
X, Xt = ([ms.datasets.conll_features(sentence) for sentence in part] for part in (train, test))
y, yt = ([[token[-1] for token in sentence] for sentence in part] for part in (train, test))
"""
_CONLL_OURS = """
net = ms.SequenceLabeler().fit(X, y)
print(json.dumps(round(ms.metrics.chunk_f1(yt, net.predict(Xt)).f1, 2)))
"""
_CONLL_PEER = """
import os, tempfile
import pycrfsuite
items = lambda part: [[[f"{a}={b}" if isinstance(b, str) else a for a, b in word.items()] for word in sentence] for sentence in part]
trainer = pycrfsuite.Trainer(verbose=False)
for x, tags in zip(items(X), y):
    trainer.append(x, tags)
with tempfile.TemporaryDirectory() as place:
    path = os.path.join(place, "model")
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    found = [tagger.tag(x) for x in items(Xt)]
print(json.dumps(round(ms.metrics.chunk_f1(yt, found).f1, 2)))
"""
_TABLE = """
import json, sys
from pathlib import Path
from maxsum.experiments import mulan
train, test = mulan.load(Path(sys.argv[1]) / "mulan", "emotions", int(sys.argv[2]))
"""
_TABLE_OURS = """
import maxsum as ms
net = ms.MultiLabelClassifier().fit(train.X, train.Y)
print(json.dumps(round(100 * float((net.predict(test.X) == test.Y).mean()), 2)))
"""
_TABLE_PEER = """
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain
net = ClassifierChain(LogisticRegression()).fit(train.X, train.Y)
print(json.dumps(round(100 * float((net.predict(test.X) == test.Y).mean()), 2)))
"""
_IMAGE = """
import json, sys
import numpy as np
n, k = int(sys.argv[2]), {labels}
rng = np.random.default_rng(0)
truth = np.kron(rng.integers(0, k, (8, 8)), np.ones((n // 8, n // 8), dtype=int))
costs = rng.integers(0, 100, (n, n, k)) + 60 * (np.arange(k) != truth[:, :, None])
"""
_IMAGE_OURS = """
import maxsum as ms
problem = ms.Problem.from_costs(ms.Graph.grid(n, n), costs.astype(float), tables=40.0 * (1 - np.eye(k)))
print(json.dumps(0.0 - ms.solve(problem).score))
"""
_SCORE = """
def energy(labels):
    own = np.take_along_axis(costs, labels[:, :, None], axis=2).sum()
    return int(own + 40 * ((labels[1:] != labels[:-1]).sum() + (labels[:, 1:] != labels[:, :-1]).sum()))
"""
_CUT_PEER = (
    _SCORE
    + """
import maxflow
graph = maxflow.Graph[float]()
nodes = graph.add_grid_nodes((n, n))
graph.add_grid_edges(nodes, 40.0)
graph.add_grid_tedges(nodes, costs[:, :, 1].astype(float), costs[:, :, 0].astype(float))
graph.maxflow()
print(json.dumps(energy(graph.get_grid_segments(nodes).astype(int))))
"""
)
_EXPANSION_PEER = (
    _SCORE
    + """
import gco
labels = gco.cut_grid_graph_simple(costs.astype(np.int32), (40 * (1 - np.eye(k))).astype(np.int32), connect=4, algorithm="expansion")
print(json.dumps(energy(np.asarray(labels, dtype=int).reshape(n, n))))
"""
)
_FILE = """
import json, lzma, os, sys, tempfile
path = f"{sys.argv[1]}/map_benchmarks/toulbar2/{name}"
"""
_FILE_OURS = """
import maxsum as ms
problem = ms.read_problem(path)
result = ms.solve(problem)
assert result.guarantee == "optimal", result
print(json.dumps(0.0 - result.score))
"""
_FILE_PEER = """
import pytoulbar2
with tempfile.TemporaryDirectory() as place:
    plain = os.path.join(place, "p.wcsp")
    with lzma.open(path) as packed, open(plain, "wb") as file:
        file.write(packed.read())
    model = pytoulbar2.CFN(ubinit=10**9, vac=1)
    model.Read(plain)
    found = model.Solve()
print(json.dumps(found[1]))
"""
FILES = {"CELAR6-SUB1 (14 nodes)": "CELAR6-SUB1.wcsp.xz", "GEOM40_6 (40 nodes)": "GEOM40_6.wcsp.xz"}


def tasks(quick: bool) -> list[tuple[Task, str]]:
    """Each with the size that its code is given."""
    found = [
        (Task("tagging", "F1", {"maxsum": _CONLL + _CONLL_OURS, "CRFsuite": _CONLL + _CONLL_PEER}), "60" if quick else "2000"),
        (
            Task("tables", "labels right, %", {"maxsum": _TABLE + _TABLE_OURS, "ClassifierChain": _TABLE + _TABLE_PEER}),
            "60" if quick else "1000",
        ),
    ]
    for labels, name, peer in ((2, "PyMaxflow", _CUT_PEER), (4, "gco", _EXPANSION_PEER)):
        image = _IMAGE.format(labels=labels)
        own = Task(f"images, {labels} labels", "energy", {"maxsum": image + _IMAGE_OURS, name: image + peer})
        found.append((own, "32" if quick else "256"))
    for title, file in FILES.items():
        if not quick or file.startswith("GEOM"):
            start = _FILE.replace("{name}", file)
            found.append((Task(f"files, {title}", "cost", {"maxsum": start + _FILE_OURS, "toulbar2": start + _FILE_PEER}), "0"))
    return found


def rows(quick: bool = False) -> list[dict[str, Any]]:
    folder = data_folder()
    table = []
    for task, size in tasks(quick):
        if folder is None and not task.trade.startswith("images"):
            table.append({"trade": task.trade, "tool": NO_DATA})
            continue
        ours = None
        for tool, code in task.tools.items():
            run = process(code, folder, size)
            if isinstance(run, str):
                table.append({"trade": task.trade, "tool": tool, "score": run})
                continue
            value, wall, cpu = run
            ours = ours or cpu
            row = {"trade": task.trade, "tool": tool, "score": f"{task.score} {value:.8g}", "wall s": wall, "CPU s": cpu}
            table.append({**row, "our CPU s / theirs": None if tool == "maxsum" else ours / cpu})
    return table


def process(code: str, folder: Path | None, size: str) -> tuple[float, float, float] | str:
    """What the code printed, and the wall and CPU seconds of its process; or why there is nothing."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(folder), size], capture_output=True, text=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    last = done.stderr.strip().splitlines()[-1:] or [f"the process ended with {done.returncode}"]
    if done.returncode:
        if "ModuleNotFoundError" in last[0]:
            return f"skipped: {last[0]}"
        raise RuntimeError(done.stderr[-2000:])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(json.loads(done.stdout.strip().splitlines()[-1])), wall, cpu
