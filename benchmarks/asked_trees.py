"""Covered glyphs by decision trees that ask for pixels alone, with edges and without."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any
from unittest import mock

import numpy as np

from maxsum import Graph, GraphLabeler, GraphSample
from maxsum.experiments import MissingDataError, glyphs
from maxsum.learning import ProjectedQuasiNewton
from maxsum.models import Convex, PixelTests, Trees

from .measure import NO_DATA, data_folder

TITLE = "Asked for: decision trees on pixels"
DESCRIPTION = """
Covered Chinese characters (rendered, small boxes), as in section 5.3 of Jancsary, Nowozin & Rother 2013: nodes are the covered pixels, joined along 32 offsets; trees ask for
ink, paper or covered at the pixels of a window of radius 10, nodes to a depth of 10, each type of edges to a depth of 4; QP-M3N. By
`GraphLabeler(Convex(trees=Trees(tests=PixelTests(10))))` on 150 glyphs, no other features; 100 glyphs to test. *Wrong* are covered pixels, the mean over
test glyphs. The paper has 22.36 % on handwritten glyphs, by 300 of them.
"""
N_TRAIN = 150
N_TEST = 100
N_QUICK = 4  # glyphs of a quick run
RADIUS = 10
NODE_DEPTH = 10
EDGE_DEPTH = 4
N_CANDIDATES = 2000  # tests that are tried in each round: all of them
MIN_ITEMS = 100  # pixels or pairs of a leaf
C = 1.0  # divided by the number of glyphs
MAX_ITER = 60  # of the last training


def rows(quick: bool = False) -> list[dict[str, Any]]:
    folder = data_folder()
    if folder is None:
        return [{"model": NO_DATA}]
    n = (N_QUICK, N_QUICK) if quick else (N_TRAIN, N_TEST)
    with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)):
        try:
            train, tests, _ = glyphs.load(*n)["small"]
        except MissingDataError as error:
            return [{"model": f"skipped: {error}"}]
    return [row(name, edges, train, tests, quick) for name, edges in (("no edges", False), ("edges", True))]


def sample(one: Any, edges: bool) -> GraphSample:
    """The covered pixels of a glyph, with what is seen: 1 for ink, -1 for paper, 0 covered."""
    none = np.zeros((0, 2), dtype=np.int32)
    graph = glyphs.graph(one.hidden) if edges else Graph(int(one.hidden.sum()), none, none[:, 0])
    image = np.where(one.hidden, 0, 2 * one.ink.astype(int) - 1)
    return GraphSample(np.zeros((graph.n_nodes, 0)), graph, pixels=(image, np.argwhere(one.hidden)))


def labeler(n_train: int, quick: bool) -> GraphLabeler:
    tests = PixelTests(RADIUS, thresholds=[[-0.5, 0.5]], spreads=[[0.5]], n_pairs=0, outside=-1.0)
    depths = (2, 1) if quick else (NODE_DEPTH, EDGE_DEPTH)
    trees = Trees(*depths, tests=tests, n_candidates=N_CANDIDATES, min_items=MIN_ITEMS)
    learner = ProjectedQuasiNewton(tol=1e-2, max_iter=MAX_ITER)
    return GraphLabeler(Convex(trees=trees), surrogate="qp", C=C / n_train, learner=learner, bias=True)


def row(name: str, edges: bool, train: list[Any], tests: list[Any], quick: bool) -> dict[str, Any]:
    given, left = ([sample(one, edges) for one in some] for some in (train, tests))
    net = labeler(len(train), quick)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.fit(given, [one.labels for one in train])
    seconds, begun = time.process_time() - started, time.process_time()
    found = net.predict(left)
    return {
        "model": name,
        "leaves of nodes and edges": f"{net.model_.layout.trees.node.n_leaves}, {int(net.model_.layout.trees.starts[-1])}",
        "% wrong in training": round(glyphs.error(net.predict(given), train), 2),
        "% wrong": round(glyphs.error(found, tests), 2),
        "relative gap": net.result_.relative_gap,
        "CPU s of fit": seconds,
        "CPU s an image": (time.process_time() - begun) / len(tests),
    }
