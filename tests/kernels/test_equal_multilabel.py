"""Subsets, labellings and matting: the compiled kernels give the same bits as numba's."""

from __future__ import annotations

import numpy as np
import pytest
from watching import both

from maxsum.kernels import _compiled_v3, matting, multilabel

ours = _compiled_v3.multilabel


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("n_examples", [0, 1, 9])
@pytest.mark.parametrize("n_labels", [0, 1, 2, 3, 4, 5, 9])
def test_subsets(n_labels: int, n_examples: int, whole: bool) -> None:
    rng = np.random.default_rng(n_labels)
    pair, gain = rng.normal(size=(n_labels, n_labels)), rng.normal(size=(n_examples, n_labels))
    if whole:  # ties
        pair, gain = np.rint(pair), np.rint(gain)
    sums, total, truth = np.zeros(2**n_labels), np.zeros(2**n_labels), rng.integers(0, 2**n_labels, n_examples)
    both(multilabel.pair_sums, ours.pair_sums, pair, sums)
    multilabel.pair_sums(pair, sums)
    both(multilabel.best_subsets, ours.best_subsets, gain, sums, truth, total, np.zeros((n_examples, n_labels), dtype=np.int32))
    both(multilabel.max_marginals, ours.max_marginals, gain, sums, total, np.zeros((n_examples, n_labels)))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_labellings(seed: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, 5)
    node_ptr = np.concatenate([[0], np.cumsum(sizes)])
    edges = [
        [(node_ptr[j] + u, node_ptr[j] + v)[:: rng.choice([-1, 1])] for u in range(n) for v in range(u) if rng.random() < 0.6]
        for j, n in enumerate(sizes)
    ]
    edge_ptr = np.concatenate([[0], np.cumsum([len(own) for own in edges])])
    pairs = np.array([pair for own in edges for pair in own], dtype=np.int32).reshape(-1, 2)
    n_states = rng.integers(1, 4, node_ptr[-1]).astype(np.int32)
    unary, bank = rng.normal(size=(node_ptr[-1], 3)), rng.normal(size=(2, 3, 3))
    if whole:
        unary, bank = np.rint(unary), np.rint(bank)
    unary[:, 0][rng.random(len(unary)) < 0.1] = -np.inf
    number, weight = rng.integers(0, 2, len(pairs)).astype(np.int32), np.rint(2 * rng.random(len(pairs)))
    scratch, labels = np.zeros(3**6), np.zeros(node_ptr[-1], dtype=np.int32)
    for examples in (np.arange(5), np.array([3, 1]), np.zeros(0, dtype=np.int64)):
        both(
            multilabel.best_labellings, ours.best_labellings, node_ptr, edge_ptr, pairs, n_states, unary, bank, number, weight, examples,
            scratch, scratch.copy(), labels,
        )  # fmt: skip


@pytest.mark.parametrize("radius", [1, 2, 3])
@pytest.mark.parametrize("shape", [(7, 7), (9, 20), (15, 8)])
def test_matting(shape: tuple[int, int], radius: int) -> None:
    rng = np.random.default_rng(radius)
    image, side = rng.random((*shape, 3)), 2 * radius
    image[: shape[0] // 2] = 0.5
    windows = shape[0] - side, shape[1] - side
    mean, inverse = np.zeros((*windows, 3)), np.zeros((*windows, 6))
    both(matting.prepare, _compiled_v3.matting.prepare, image, radius, 1e-3, mean, inverse)
    matting.prepare(image, radius, 1e-3, mean, inverse)
    x = rng.random((shape[0] * shape[1], 3))
    x[:, 1] = 0.25
    for n_columns in (0, 1, 3):
        given = np.ascontiguousarray(x[:, :n_columns])
        both(matting.product, _compiled_v3.matting.product, image, mean, inverse, radius, 1 / 9, given, np.ones_like(given))
