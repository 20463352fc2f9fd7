"""A check costs a fraction of the training, whatever the number of weights and planes: a corpus of the size of a small NER task."""

from __future__ import annotations

import time
import warnings

import numpy as np

import maxsum as ms

N_SENTENCES, N_WORDS, N_LABELS = 3400, 24_000, 9


def corpus(seed=0):
    """Words of a heavy-tailed law that tell of a hidden Markov chain of labels, with the features of a window."""
    random = np.random.default_rng(seed)
    change = random.dirichlet(np.full(N_LABELS, 0.3), size=N_LABELS)
    home = random.integers(N_LABELS, size=N_WORDS)
    own = [np.flatnonzero(home == k) for k in range(N_LABELS)]
    X, y = [], []
    for _ in range(N_SENTENCES):
        n = int(np.clip(random.poisson(15), 2, 60))
        labels = [int(random.integers(N_LABELS))]
        while len(labels) < n:
            labels.append(int(random.choice(N_LABELS, p=change[labels[-1]])))
        told = np.where(random.random(n) < 0.8, labels, random.integers(N_LABELS, size=n))
        rank = (3 * random.pareto(0.7, size=n)).astype(np.int64)
        words = [int(own[k][min(r, len(own[k]) - 1)]) for k, r in zip(told, rank, strict=True)]
        at = dict(enumerate(words))
        windows = [[(f"{d}={at.get(i + d)}") for d in range(-2, 3)] for i in range(n)]
        pairs = [(f"b={at.get(i - 1)},{at[i]}", f"a={at[i]},{at.get(i + 1)}", f"p={at[i] // 10}") for i in range(n)]
        X.append([dict.fromkeys((*a, *b), 1.0) for a, b in zip(windows, pairs, strict=True)])
        y.append(labels)
    return X, y


def test_a_check_takes_half_of_the_training_at_most():
    X, y = corpus()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = ms.SequenceLabeler(C=float(N_SENTENCES), tol=0.3, max_iter=8).fit(X[:50], y[:50])  # compiles
        net.result_.verify(net.objective_)
        net = ms.SequenceLabeler(C=float(N_SENTENCES), tol=0.3, max_iter=8)
        began = time.process_time()
        net.fit(X, y)
    trained = time.process_time() - began
    result, seen = net.result_, []
    assert len(net.weights_) > 500_000 and len(result.certificate.alpha) > 10_000
    began = time.process_time()
    found = result.verify(net.objective_, progress=lambda done, total: seen.append(done))
    taken = time.process_time() - began
    assert taken <= 0.5 * trained, (taken, trained)
    assert found.gap <= 1.01 * result.gap and len(seen) > 10
