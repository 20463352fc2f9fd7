"""Made photographs of a shape-sorter: labels, seeds, the effect of every parameter, and how hard they are for colour alone."""

from __future__ import annotations

import numpy as np
import pytest
from factories.samples import same_data

from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.datasets import make_shape_sorter
from maxsum.datasets.made.shape_sorter import PIECES, colour_codes


def table_error(train, test):
    counts = np.zeros((512, 6))
    for image, labels in zip(*train, strict=True):
        np.add.at(counts, (colour_codes(image), labels), 1)
    table = counts.argmax(axis=1)
    return np.mean([(table[colour_codes(image)] != labels).mean() for image, labels in zip(*test, strict=True)])


def test_images_and_labels():
    images, labels = make_shape_sorter(3, 60, 80, 4)
    assert len(images) == len(labels) == 3
    for image, own in zip(images, labels, strict=True):
        assert image.shape == (60, 80, 3) and image.dtype == np.uint8
        assert own.shape == (60, 80) and own.dtype == np.int64
        assert len(np.unique(own)) == len(PIECES) == 6
        assert 0.4 < (own == 0).mean() < 0.85
    red, blue = (np.median(images[0][labels[0] == k], axis=0) for k in (1, 3))
    assert red.argmax() == 0 and blue.argmax() == 2


def test_seeds():
    assert same_data(make_shape_sorter(2, 20, 30, 1), make_shape_sorter(2, 20, 30, 1))
    assert not same_data(make_shape_sorter(2, 20, 30, 1), make_shape_sorter(2, 20, 30, 2))
    assert same_data(make_shape_sorter(1, 9, 9, np.random.default_rng(0)), make_shape_sorter(1, 9, 9, 0))
    assert make_shape_sorter(0) == ([], [])
    assert make_shape_sorter(1, 1, 1)[0][0].shape == (1, 1, 3)


def test_colour_alone_is_wrong_for_a_tenth_of_the_pixels():
    train, test = make_shape_sorter(14, 100, 100, 0), make_shape_sorter(4, 200, 200, 2)
    assert 0.09 < table_error(train, train) < 0.11
    assert 0.09 < table_error(train, test) < 0.12


def test_every_parameter_has_an_effect():
    plain = dict(noise=0.0, texture=0.0, shading=0.0, shadow=0.0, hand=0.0)
    easy = make_shape_sorter(4, 60, 60, 0, **plain)
    for name, value in (("noise", 0.1), ("texture", 0.5), ("shading", 0.9)):
        harder = make_shape_sorter(4, 60, 60, 0, **(plain | {name: value}))
        assert table_error(harder, harder) > 1.1 * table_error(easy, easy)
    dark = make_shape_sorter(4, 60, 60, 0, **(plain | {"shadow": 0.8}))
    carpet = easy[1][0] == 0
    assert dark[0][0][carpet].mean() < 0.98 * easy[0][0][carpet].mean()
    blurred = make_shape_sorter(4, 60, 60, 0, **(plain | {"blur": 2.0}))
    assert table_error(blurred, blurred) > 1.1 * table_error(easy, easy)
    assert all((one == two).all() for one, two in zip(blurred[1], easy[1], strict=True))
    tinted = make_shape_sorter(4, 60, 60, 0, **(plain | {"cast": 0.3}))
    grey = [np.std(own[0][0][carpet].astype(float) / easy[0][0][carpet], axis=0).mean() for own in (tinted, easy)]
    assert grey[0] > 0.15 and grey[1] == 0
    drawn = make_shape_sorter(4, 60, 60, 0, **(plain | {"hand": 2.0}))[1][0]
    assert 0.005 < (drawn != easy[1][0]).mean() < 0.15


def test_codes():
    image = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [32, 64, 31]]], dtype=np.uint8)
    assert colour_codes(image).tolist() == [[7 * 64, 7 * 8, 7, 64 + 16]]
    assert colour_codes(image, bits=1).tolist() == [[4, 2, 1, 0]]
    assert colour_codes(image, bits=8).max() < 2**24
    random = np.random.default_rng(0).integers(256, size=(40, 40, 3)).astype(np.uint8)
    assert colour_codes(random).max() < 512 and len(np.unique(colour_codes(random))) > 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_images": -1}, "n_images"),
        ({"height": 0}, "height"),
        ({"noise": -0.1}, "noise"),
        ({"noise": np.inf}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"texture": 1.5}, "texture"),
        ({"shading": "much"}, "shading"),
        ({"shadow": True}, "shadow"),
        ({"hand": -1}, "hand"),
        ({"blur": np.inf}, "blur"),
        ({"cast": 1.5}, "cast"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        make_shape_sorter(**({"n_images": 1, "height": 5, "width": 5} | options))


@pytest.mark.parametrize("image", [np.zeros((4, 4), dtype=np.uint8), np.zeros((4, 4, 3)), np.zeros((4, 4, 4), dtype=np.uint8)])
def test_codes_are_of_colours(image):
    with pytest.raises(InvalidSampleError, match="uint8"):
        colour_codes(image)


@pytest.mark.parametrize("bits", [0, 9, 2.0, True])
def test_bits_of_codes(bits):
    with pytest.raises(InvalidParameterError, match="bits"):
        colour_codes(np.zeros((1, 1, 3), dtype=np.uint8), bits)
