"""Kernels of many chains with one table, compared with enumeration; forbidden scores, scores of any size, unequal lengths."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from maxsum.kernels import chain_batch

FILL = -100


def enumerate_chain(unary, table):
    """Scores of all labellings of one chain."""
    length, size = unary.shape
    labellings = np.array(list(product(range(size), repeat=length)))
    scores = unary[np.arange(length), labellings].sum(axis=1)
    return labellings, scores + table[labellings[:, :-1], labellings[:, 1:]].sum(axis=1)


def cases():
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 5):
        for scale, hard in ((1.0, 0.0), (1.0, 0.3), (60.0, 0.0), (700.0, 0.2), (0.0, 0.0)):
            unary, table = scale * rng.normal(size=(6, 5, size)), scale * rng.normal(size=(size, size))
            if hard:
                table[rng.random(table.shape) < hard] = -np.inf
                unary[rng.random(unary.shape) < hard / 2] = -np.inf
            yield unary, table, np.array([5, 1, 3, 4, 0, 2])


@pytest.mark.parametrize("case", list(cases()), ids=range(20))
def test_sums_and_best_labellings_are_those_of_enumeration(case):
    unary, table, lengths = case
    count, steps, size = unary.shape
    log_z, node, edge = np.empty(count), np.full(unary.shape, 7.0), np.full((count, size, size), 7.0)
    labels, score, bound = np.empty((count, steps), dtype=np.int64), np.empty(count), np.empty(count)
    for part in ((0, 2), (2, count)):
        chain_batch.log_sums(unary, lengths, table, *part, log_z, node, edge)
        chain_batch.best_chains(unary, lengths, table, *part, FILL, labels, score, bound)
    for b in np.flatnonzero(lengths).tolist():
        own = unary[b, : lengths[b]]
        labellings, scores = enumerate_chain(own, table)
        top = scores.max()
        if np.isneginf(top):
            assert log_z[b] == score[b] == bound[b] == -np.inf
            assert (labels[b] == FILL).all() and not node[b].any() and not edge[b].any()
            continue
        weights = np.exp(scores - top)
        assert log_z[b] == pytest.approx(top + np.log(weights.sum()), rel=1e-12, abs=1e-9)
        p = weights / weights.sum()
        wanted, pairs = np.zeros_like(own), np.zeros_like(table)
        for t in range(lengths[b]):
            np.add.at(wanted, (t, labellings[:, t]), p)
            if t:
                np.add.at(pairs, (labellings[:, t - 1], labellings[:, t]), p)
        np.testing.assert_allclose(node[b, : lengths[b]], wanted, atol=1e-10)
        np.testing.assert_allclose(edge[b], pairs, atol=1e-10)
        assert not node[b, lengths[b] :].any() and (labels[b, lengths[b] :] == FILL).all()
        found = labels[b, : lengths[b]]
        assert own[np.arange(len(found)), found].sum() + table[found[:-1], found[1:]].sum() == pytest.approx(
            score[b], rel=1e-12
        )
        assert score[b] == pytest.approx(top, rel=1e-12, abs=1e-12)
        assert max(top, score[b]) <= bound[b] <= top + 1e-11 * max(1.0, abs(scores[np.isfinite(scores)]).max())
    assert log_z[4] == score[4] == bound[4] == 0.0 and not edge[4].any()


def test_indicators_of_a_labelling_are_added():
    rng = np.random.default_rng(1)
    unary, table, lengths = rng.normal(size=(2, 4, 3)), rng.normal(size=(3, 3)), np.array([4, 2])
    labels = np.array([[0, 1, 1, 2], [2, 0, FILL, FILL]])
    score, node, edge = np.empty(2), np.zeros(unary.shape), np.zeros((2, 3, 3))
    chain_batch.score_chains(unary, lengths, table, labels, 0, 2, np.array([1.0, -2.0]), score, node, edge)
    assert score[0] == pytest.approx((unary[0] * node[0]).sum() + (table * edge[0]).sum())
    assert -2 * score[1] == pytest.approx((unary[1] * node[1]).sum() + (table * edge[1]).sum())
    assert node[0].sum() == 4 and edge[0].sum() == 3 and edge[0, 1, 1] == 1 and node[1, 2:].sum() == 0
    empty = np.zeros((0, 0, 0))
    again = np.empty(2)
    chain_batch.score_chains(unary, lengths, table, labels, 0, 2, np.ones(2), again, empty, empty)
    assert (again == score).all()
