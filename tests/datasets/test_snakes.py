"""Snakes: what colours and labels say of each other, and the features."""

from __future__ import annotations

import numpy as np
import pytest
from factories.samples import same_data

from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.datasets import make_snakes
from maxsum.datasets.made.generate import snake_sample

STEPS = {1: (-1, 0), 2: (1, 0), 3: (0, -1), 4: (0, 1)}


@pytest.mark.parametrize("crossing", [True, False])
def test_colours_point_to_the_next_cell(crossing):
    images, labels = make_snakes(30, 7, 5, 10, 1, crossing=crossing)
    for image, own in zip(images, labels, strict=True):
        assert image.shape == own.shape == (7, 5) and image.dtype == own.dtype == np.int64
        assert sorted(own[own > 0].tolist()) == list(range(1, 11)) and ((image > 0) == (own > 0)).all()
        for number in range(1, 11):
            (place,) = np.argwhere(own == number)
            row, column = place + STEPS[int(image[tuple(place)])]
            inside = 0 <= row < 7 and 0 <= column < 5
            assert own[row, column] == number + 1 if number < 10 else not inside or own[row, column] == 0
        ends = {int(np.argwhere(own == number)[0, 0]) for number in (1, 10)}
        assert not crossing or ends == {0, 6}
    if not crossing:
        assert any(own[0].any() != own[6].any() for own in labels)


def test_seeds_and_sizes():
    assert same_data(make_snakes(3, random_state=1), make_snakes(3, random_state=1))
    assert not same_data(make_snakes(3, random_state=1), make_snakes(3, random_state=2))
    assert make_snakes(0) == ([], [])
    for options in ({"length": 6}, {"length": 18}, {"length": 0, "crossing": False}, {"crossing": 1}):
        with pytest.raises(InvalidParameterError, match=next(iter(options))):
            make_snakes(1, **options)


def test_features():
    image = make_snakes(1)[0][0]
    sample = snake_sample(image)
    assert sample.X.shape == (35, 45) and sample.edge_features.shape == (58, 180)
    cells = sample.X.reshape(7, 5, 9, 5)
    assert (cells.sum(axis=3) == 1).all() and (cells[:, :, 4].argmax(axis=2) == image).all()
    assert (cells[1:, :, 1].argmax(axis=2) == image[:-1]).all() and (cells[:, -1, 5, 0] == 1).all()
    for (u, v), own in zip(sample.graph.edges, sample.edge_features.reshape(58, 2, 90), strict=True):
        half = 0 if v - u == 1 else 1
        assert not own[1 - half].any() and (own[half] == np.concatenate([sample.X[u], sample.X[v]])).all()
    for wrong in (np.zeros(3, dtype=int), np.full((2, 2), 5), np.zeros((2, 2))):
        with pytest.raises(InvalidSampleError, match="wanted"):
            snake_sample(wrong)
