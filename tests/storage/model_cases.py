"""Small trainings of every kind that a model file has to hold: an estimator, its data, and new samples."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import maxsum as ms
from maxsum.learning import BlockFrankWolfe
from maxsum.models import Codes, Convex, Dicts, Hashed, Kernel, KernelMap, Matting, Trees

RANDOM = np.random.default_rng(7)
WORDS = ["the", "dog", "barks", "a", "cat", "sleeps"]
TAGS = dict(zip(WORDS, "DNVDNV", strict=True))


def _images(n, shape=(5, 6), d=3):
    out = []
    for _ in range(n):
        labels = (np.arange(shape[1]) > RANDOM.integers(1, shape[1] - 2))[None].repeat(shape[0], 0).astype(int)
        out.append((labels[..., None] * 0.5 + 0.3 * RANDOM.normal(size=(*shape, d)), labels))
    return out


IMAGES = _images(6)
GRID = ([x for x, _ in IMAGES[:4]], [y for _, y in IMAGES[:4]], [x for x, _ in IMAGES[4:]])
CHAINS = [RANDOM.integers(3, size=5) for _ in range(8)]
SEQUENCE = (
    [np.eye(3)[y] + RANDOM.normal(size=(5, 3)) for y in CHAINS[:6]],
    CHAINS[:6],
    [RANDOM.normal(size=(n, 3)) for n in (5, 1, 7)],
)
SENTENCES = [[{"word": w, "length": len(w)} for w in RANDOM.choice(WORDS, size=4)] for _ in range(6)]
TEXT = (
    SENTENCES,
    [[TAGS[node["word"]] for node in x] for x in SENTENCES],
    [[{"word": "dog"}, {"word": "unseen"}, {"word": "sleeps", "length": 2}]],
)
TABLE_X = RANDOM.normal(size=(40, 4))
TABLE_Y = (TABLE_X @ RANDOM.normal(size=(4, 5)) + RANDOM.normal(size=(40, 5)) > 0).astype(int)
TABLE = (TABLE_X[:30], TABLE_Y[:30], TABLE_X[30:])
CLASSES = (TABLE_X[:30], np.array(["x", "y", "zz"])[TABLE_Y[:30, :2].sum(axis=1)], TABLE_X[30:])
TWO = (TABLE_X[:30], TABLE_Y[:30, 0] == 1, TABLE_X[30:])


def _named(data, names):
    pool = np.empty(len(names), dtype=object)
    pool[:] = names
    return data[0], [pool[np.asarray(y)] for y in data[1]], data[2]


def _sparse(data):
    return [sparse.csr_array(x) for x in data[0]], data[1], [sparse.csr_array(x) for x in data[2]]


def _codes(data):
    return (
        [(x[..., 0] > 0).astype(int) + 2 * (x[..., 1] > 0) for x in data[0]],
        data[1],
        [(x[..., 0] > 0).astype(int) for x in data[2]],
    )


def _graphs(typed=False, cliques=False, width=1):
    def one(j):
        random = np.random.default_rng(j)
        y = random.integers(2, size=6)
        graph = ms.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)])
        features = np.abs(random.normal(size=(6, width))) if width > 1 else None
        x = np.eye(2)[y] + random.normal(size=(6, 2))
        extra = {"cliques": [[0, 1, 2, 3], [3, 4, 5]]} if cliques else {}
        if typed:
            types = np.array([0, 0, 0, 1, 1, 1])
            y = np.where(types == 1, random.integers(3, size=6), y)
            extra |= {"node_types": types}
        return ms.GraphSample(x, graph, features, **extra), y

    every = [one(j) for j in range(10)]
    return [s for s, _ in every[:7]], [y for _, y in every[:7]], [s for s, _ in every[7:]]


def rbf(a, b):
    return np.exp(-((a[:, None] - b[None]) ** 2).sum(axis=2))


QUICK = dict(C=5.0, tol=1e-2, max_iter=60)
CV = dict(Cs=[1.0, 10.0], cv=2, tol=1e-2, max_iter=60)
CASES = {
    "grid": (ms.GridLabeler(**QUICK), GRID),
    "grid contrast": (ms.GridLabeler(edge_features="contrast", edge_types="directions", bias=True, **QUICK), GRID),
    "grid lp": (ms.GridLabeler(surrogate="lp", **QUICK), GRID),
    "grid smoothed lp": (ms.GridLabeler(surrogate="lp", smoothing=0.5, **QUICK), GRID),
    "grid auto": (ms.GridLabeler(potentials="auto", **QUICK), GRID),
    "grid supermodular": (ms.GridLabeler(potentials="supermodular", learner="CuttingPlane", **QUICK), GRID),
    "grid potts": (ms.GridLabeler(potentials="potts", connectivity=8, **QUICK), GRID),
    "grid trivial": (ms.GridLabeler(surrogate="trivial", **QUICK), GRID),
    "grid likelihood": (ms.GridLabeler(surrogate="likelihood", **QUICK), GRID),
    "grid codes": (ms.GridLabeler(features=Codes(4), **QUICK), _codes(GRID)),
    "grid qp": (ms.GridLabeler(surrogate="qp", **QUICK), GRID),
    "grid logistic": (ms.GridLabeler(surrogate="logistic", potentials=Convex("dictionary"), **QUICK), GRID),
    "grid matting": (
        ms.GridLabeler(surrogate="qp", potentials=Convex("none", linear=False, operators=Matting(1, 1e-3)), **QUICK),
        GRID,
    ),
    "grid trees": (
        ms.GridLabeler(surrogate="logistic", potentials=Convex(trees=Trees(2, 1, n_candidates=8, min_items=4)), **QUICK),
        GRID,
    ),
    "grid cv": (ms.GridLabelerCV(edge_features="contrast", **CV), GRID),
    "sequence": (ms.SequenceLabeler(**QUICK), SEQUENCE),
    "sequence sparse": (ms.SequenceLabeler(bias=True, **QUICK), _sparse(SEQUENCE)),
    "sequence order 2": (ms.SequenceLabeler(order=2, **QUICK), SEQUENCE),
    "sequence dicts": (ms.SequenceLabeler(features=Dicts(min_count=2), **QUICK), TEXT),
    "sequence hashed": (ms.SequenceLabeler(features=Hashed(64), **QUICK), TEXT),
    "sequence kernel": (ms.SequenceLabeler(features=Kernel("rbf", basis=5), **QUICK), SEQUENCE),
    "sequence kernel map": (ms.SequenceLabeler(features=KernelMap("poly", degree=2), **QUICK), SEQUENCE),
    "sequence likelihood": (ms.SequenceLabeler(surrogate="likelihood", **QUICK), SEQUENCE),
    "sequence names": (ms.SequenceLabeler(**QUICK), _named(SEQUENCE, [("B", 1), "O", 3])),
    "sequence numbers": (ms.SequenceLabeler(**QUICK), _named(SEQUENCE, [2.5, False, ("x", (None, 1))])),
    "sequence learner": (
        ms.SequenceLabeler(learner=BlockFrankWolfe(max_iter=20), loss=[[0, 1, 2], [1, 0, 1], [2, 1, 0]], class_weight=None),
        SEQUENCE,
    ),
    "sequence weights": (ms.SequenceLabeler(class_weight={0: 2.0, 2: np.float64(0.5)}, classes=[0, 1, 2], **QUICK), SEQUENCE),
    "sequence cv": (ms.SequenceLabelerCV(**CV), TEXT),
    "graph": (ms.GraphLabeler(**QUICK), _graphs()),
    "graph edge features": (ms.GraphLabeler(symmetric=True, solver="TRWS", **QUICK), _graphs(width=2)),
    "graph types": (ms.GraphLabeler(**QUICK), _graphs(typed=True)),
    "graph cliques": (ms.GraphLabeler(potentials="associative", **QUICK), _graphs(cliques=True)),
    "graph inhomogeneous": (ms.GraphLabeler(homogeneous=False, **QUICK), _graphs()),
    "graph tie": (ms.GraphLabeler(tie=[[0, 1], [1, 0]], oracle=ms.inference.JunctionTree(), **QUICK), _graphs()),
    "graph cv": (ms.GraphLabelerCV(**CV), _graphs()),
    "multilabel": (ms.MultiLabelClassifier(**QUICK), TABLE),
    "multilabel tree": (ms.MultiLabelClassifier(label_graph="tree", bias=False, potentials="supermodular", **QUICK), TABLE),
    "multilabel sparse": (ms.MultiLabelClassifier(label_graph=[[0, 1], [3, 2]], **QUICK), tuple(map(sparse.csr_array, TABLE))),
    "multilabel lp": (ms.MultiLabelClassifier(surrogate="lp", **QUICK), TABLE),
    "multilabel qp": (ms.MultiLabelClassifier(surrogate="qp", **QUICK), TABLE),
    "multilabel likelihood": (ms.MultiLabelClassifier(surrogate="likelihood", **QUICK), TABLE),
    "multiclass": (ms.MultiLabelClassifier(**QUICK), CLASSES),
    "multiclass logistic": (ms.MultiLabelClassifier(surrogate="logistic", **QUICK), CLASSES),
    "binary": (ms.MultiLabelClassifier(**QUICK), TWO),
    "multilabel cv": (ms.MultiLabelClassifierCV(**CV), TABLE),
}
