"""Folders of images and masks."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import maxsum as ms
from maxsum.datasets import images, read_image_folder

PIXELS = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 14
LABELS = np.array([[0, 1, 2], [2, 1, 0]], dtype=np.uint8)


@pytest.fixture
def folders(tmp_path):
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    put(tmp_path / "images" / "b.png", PIXELS)
    put(tmp_path / "masks" / "b.png", LABELS)
    return tmp_path / "images", tmp_path / "masks"


def put(path, array, mode=None):
    image = Image.fromarray(array)
    (image.convert(mode) if mode else image).save(path)


def palette(path, labels):
    image = Image.new("P", labels.shape[::-1])
    image.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    image.putdata(labels.ravel().tolist())
    image.save(path)


def test_grey_masks(folders):
    put(folders[0] / "a.bmp", PIXELS[:1])
    put(folders[1] / "a.png", LABELS[:1])
    (folders[0] / "notes.txt").write_text("passed over")
    X, y, names = read_image_folder(*folders)
    assert names == ["a", "b"]
    assert X[1].dtype == np.float64 and (X[1] == PIXELS / 255).all() and (X[0] == PIXELS[:1] / 255).all()
    assert y[1].dtype == np.int64 and (y[1] == LABELS).all() and (y[0] == LABELS[:1]).all()


def test_jpeg_images(folders):
    (folders[0] / "b.png").unlink()
    put(folders[0] / "b.JPG", np.full((2, 3, 3), 128, dtype=np.uint8))
    assert np.abs(read_image_folder(*folders).X[0] - 128 / 255).max() < 0.02


def test_palettes(folders):
    palette(folders[1] / "b.png", LABELS)
    assert (read_image_folder(*folders).y[0] == LABELS).all()
    colours = {(0, 0, 0): -1, (255, 0, 0): 7, (0, 255, 0): 3}
    assert (read_image_folder(*folders, colours=colours).y[0] == np.array([-1, 7, 3])[LABELS]).all()


def test_colours(folders):
    wheel = np.array([[0, 0, 0], [10, 20, 30], [255, 255, 255]], dtype=np.uint8)
    put(folders[1] / "b.png", wheel[LABELS])
    colours = {(0, 0, 0): 2, (10, 20, 30): 0, (255, 255, 255): -1}
    assert (read_image_folder(*folders, colours=colours).y[0] == np.array([2, 0, -1])[LABELS]).all()
    del colours[10, 20, 30]
    with pytest.raises(ms.ParseError, match=r"b\.png: pixel \(0, 1\) has the colour \(10, 20, 30\)"):
        read_image_folder(*folders, colours=colours)
    with pytest.raises(ms.ParseError, match=r"b\.png: the mask has mode RGB"):
        read_image_folder(*folders)
    with pytest.raises(ms.ParseError, match=r"b\.png: the mask has mode RGB"):
        read_image_folder(*folders, colours={0: 1})


def test_grey_levels_may_be_renamed(folders):
    assert (read_image_folder(*folders, colours={0: 5, 1: 6, 2: -1}).y[0] == np.array([5, 6, -1])[LABELS]).all()
    with pytest.raises(ms.ParseError, match=r"pixel \(0, 2\) has the colour 2"):
        read_image_folder(*folders, colours={0: 5, 1: 6})


def test_other_modes(folders):
    put(folders[0] / "b.png", np.dstack([PIXELS, np.full((2, 3), 9, dtype=np.uint8)]))
    assert (read_image_folder(*folders).X[0] == PIXELS / 255).all()
    put(folders[0] / "b.png", LABELS)
    assert (read_image_folder(*folders).X[0] == LABELS[..., None] / 255 * np.ones(3)).all()
    put(folders[0] / "b.png", LABELS.astype(np.uint16) * 30000)
    assert np.allclose(read_image_folder(*folders).X[0], LABELS[..., None] / 65535 * 30000)
    put(folders[1] / "b.png", LABELS.astype(np.uint16) * 300)
    assert (read_image_folder(*folders).y[0] == LABELS.astype(int) * 300).all()


def test_one_folder_with_a_suffix(folders):
    put(folders[0] / "b_GT.png", LABELS)
    X, y, names = read_image_folder(folders[0], folders[0], mask_suffix="_GT")
    assert names == ["b"] and (y[0] == LABELS).all() and len(X) == 1
    with pytest.raises(ms.InvalidParameterError, match="give mask_suffix"):
        read_image_folder(folders[0], folders[0])


def test_files_that_do_not_fit(folders):
    source, target = folders
    put(target / "b.png", LABELS[:1])
    with pytest.raises(ms.InvalidSampleError, match=r"images/b\.png has 2 x 3 pixels, but its mask .*masks/b\.png has 1 x 3"):
        read_image_folder(*folders)
    put(target / "b.png", LABELS)
    put(source / "c.png", PIXELS)
    with pytest.raises(ms.InvalidSampleError, match=r"images/c\.png has no mask"):
        read_image_folder(*folders)
    put(target / "c.png", LABELS)
    put(target / "d.png", LABELS)
    with pytest.raises(ms.InvalidSampleError, match=r"masks/d\.png has no image"):
        read_image_folder(*folders)
    put(source / "d.png", PIXELS)
    put(source / "d.bmp", PIXELS)
    with pytest.raises(ms.InvalidSampleError, match=r"d\.bmp and .*d\.png have the same name"):
        read_image_folder(*folders)
    (source / "d.bmp").unlink()
    (target / "d.png").unlink()
    put(target / "d.jpg", LABELS)
    with pytest.raises(ms.InvalidSampleError, match=r"d\.jpg is a JPEG file"):
        read_image_folder(*folders)


def test_no_folder_or_images(tmp_path):
    with pytest.raises(ms.InvalidSampleError, match="absent is not a folder"):
        read_image_folder(tmp_path / "absent", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ms.InvalidSampleError, match="has no images"):
        read_image_folder(tmp_path / "empty", tmp_path)


def test_broken_and_large_files(folders, monkeypatch):
    whole = (folders[0] / "b.png").read_bytes()
    for data in (whole[:40], b"", b"GIF89a", b"not an image"):
        (folders[0] / "b.png").write_bytes(data)
        with pytest.raises(ms.ParseError, match=r"images/b\.png: not an image"):
            read_image_folder(*folders)
    (folders[0] / "b.png").write_bytes(whole)
    monkeypatch.setattr(images, "MOST_PIXELS", 5)
    with pytest.raises(ms.ParseError, match=r"images/b\.png: the image has 6 pixels, the limit is 5"):
        read_image_folder(*folders)


@pytest.mark.parametrize(
    ("colours", "message"),
    [
        ({}, "empty"),
        ({0: 1, (0, 0, 0): 1}, "mixes"),
        ({(0, 0): 1}, r"key \(0, 0\)"),
        ({-1: 1}, "key -1"),
        ({"red": 1}, "key 'red'"),
        ({0: -2}, "label -2"),
        ({0: "grass"}, "label 'grass'"),
    ],
)
def test_bad_colours(folders, colours, message):
    with pytest.raises(ms.InvalidParameterError, match=message):
        read_image_folder(*folders, colours=colours)
