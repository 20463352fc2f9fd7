"""Segmentation of made images (Franc & Savchynskyy 2008, §7.1): the data as the paper cuts them, and the experiment."""

from __future__ import annotations

import numpy as np
import pytest

from maxsum import InvalidParameterError, experiments
from maxsum.datasets import make_landscape
from maxsum.experiments.images import made_images as own


def test_a_landscape_is_sky_over_a_line_over_ground() -> None:
    image, labels = make_landscape(random_state=3)
    assert image.shape == (280, 600, 3) and image.dtype == np.uint8 and labels.dtype == np.int64
    assert (np.diff(labels, axis=0) >= 0).all()  # so that the order sky, line, ground is that of the rows
    share = np.bincount(labels.ravel(), minlength=3) / labels.size
    assert 0.2 < share[0] < 0.8 and 0.01 < share[1] < 0.05
    sky, line, ground = (np.median(image[labels == k], axis=0) for k in range(3))
    assert sky.argmax() == 2 and line.max() < 80 and ground.argmin() == 2
    assert np.array_equal(make_landscape(40, 50, 3)[0], make_landscape(40, 50, 3)[0])
    assert not np.array_equal(make_landscape(40, 50, 3)[1], make_landscape(40, 50, 4)[1])
    with pytest.raises(InvalidParameterError, match="texture"):
        make_landscape(texture=2.0)


def test_windows_cover_the_landscape_once() -> None:
    image, labels = make_landscape()
    number = np.arange(labels.size).reshape(labels.shape)
    parts = own.windows(image, number)
    assert [len(one[0]) for one in parts] == [5, 4, 11]
    assert np.array_equal(np.sort(np.concatenate([y.ravel() for one in parts for y in one[1]])), np.arange(labels.size))


def test_the_experiment() -> None:
    report = experiments.run("made-images", quick=True)
    found = {claim.what: claim.ours for claim in report.claims}
    for data in own.SETS:
        errors = [float(found[f"{data} (made), wrong pixels, {own.NAMES[kind]}"].split()[0]) for kind in own.KINDS]
        assert max(errors[1:]) < errors[0]
    assert sum(bool(row[-2]) for row in report.rows) == 6 and all(float(row[3]) <= own.TOL for row in report.rows)
