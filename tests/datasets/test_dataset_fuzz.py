"""Mutated files: data or a `ParseError`, nothing else, each within a second."""

from __future__ import annotations

import gzip
import io
import random
import time

import numpy as np
import pytest
from PIL import Image
from reference.mutations import NUMBERS, SIGNS, mutate
from reference.seeds import seeds

import maxsum as ms
from maxsum.datasets import fetch_scene, read_arff, read_conll, read_image_folder, read_libsvm_multilabel
from maxsum.datasets.sudoku import read_sudoku
from maxsum.datasets.webkb import read_linked_pages

SOLUTION = "".join("123456789"[i:] + "123456789"[:i] for i in (0, 3, 6, 1, 4, 7, 2, 5, 8))
DENSE = (
    "@relation 'r s'\n@attribute x1 numeric\n@attribute 'x 2' {red, 'light blue'}\n@attribute l {0,1}\n@data\n"
    "1.5 , red,0\n-2e3, 'light blue' ,1\n0, red,1\n"
)
SPARSE = "@relation r\n@attribute a numeric\n@attribute b {0,2,7}\n@attribute l {0,1}\n@data\n{ 1 2 , 2 1 }\n{ }\n{ 0 -1 }\n"
LIBSVM = "1,3 1:0.5 4:-2\n 2:1 5:3\n3 1:1e2 # a comment\n"
CONLL = "He PRP B-NP\nran VBD B-VP\n\nHome NN B-NP\n"
SUDOKU = f"a,{'.' * 40}{SOLUTION[40:]},{SOLUTION},1\n{SOLUTION},{SOLUTION}\n"
PAGES = "http://a 1 0 1 course\nhttp://b 0 0.5 1 student\nc 1 1 1 staff\n"
LINKS = "http://a c\nc http://b\n"
WORDS = (*NUMBERS, *SIGNS)


def check_multilabel(data):
    assert data.X.shape[0] == data.Y.shape[0] and set(np.unique(data.Y)) <= {0, 1}
    values = data.X if isinstance(data.X, np.ndarray) else data.X.data
    assert np.isfinite(values).all()
    assert data.Y.shape[1] == len(data.label_names)


def check_conll(sentences):
    assert all(sentences) and len({len(token) for sentence in sentences for token in sentence}) <= 1


def check_sudoku(data):
    for given, solution in zip(*data, strict=True):
        assert given.shape == solution.shape == (81,) and ((given == 0) | (given == solution)).all() and solution.min() >= 1


def read_pages(path, links):
    other = path.with_name("other.txt")
    other.write_text(PAGES if links else LINKS)
    pages = read_linked_pages(*((other, path) if links else (path, other)))
    assert np.isfinite(pages.X).all() and len(pages.names) == len(pages.y) == len(pages.X)
    assert pages.sample().graph.n_nodes == len(pages.names)


READERS = {
    "pages": (PAGES, lambda path: read_pages(path, False)),
    "links": (LINKS, lambda path: read_pages(path, True)),
    "dense": (DENSE, lambda path: check_multilabel(read_arff(path, 1))),
    "sparse": (SPARSE, lambda path: check_multilabel(read_arff(path, 1))),
    "libsvm": (LIBSVM, lambda path: check_multilabel(read_libsvm_multilabel(path))),
    "conll": (CONLL, lambda path: check_conll(read_conll(path))),
    "sudoku": (SUDOKU, lambda path: check_sudoku(read_sudoku(path))),
}


@pytest.mark.parametrize("name", READERS)
def test_fuzzed_text(tmp_path, name):
    text, read = READERS[name]
    rng = random.Random(name)
    path = tmp_path / "file.txt"
    good, count = 0, 1200
    path.write_text(text)
    read(path)
    for i in range(count):
        data = mutate(rng, text.encode(), WORDS)
        path.write_bytes(data)
        start = time.process_time()
        try:
            read(path)
            good += 1
        except ms.ParseError:
            pass
        except Exception as error:
            pytest.fail(f"mutation {i} gave {error!r}: {data!r}")
        assert time.process_time() - start < 1, (i, data)
    assert 0 < good < count


def test_fuzzed_compression(tmp_path):
    rng = random.Random("gz")
    path = tmp_path / "file.txt.gz"
    refused = 0
    for i in seeds(200):
        path.write_bytes(mutate(rng, gzip.compress(CONLL.encode())))
        try:
            read_conll(path)
        except ms.ParseError:
            refused += 1
        except Exception as error:
            pytest.fail(f"mutation {i} gave {error!r}")
    assert refused > 0


@pytest.mark.parametrize("format", ["PNG", "JPEG", "BMP"])
def test_fuzzed_images(tmp_path, format):
    rng = random.Random(format)
    pixels = np.random.default_rng(0).integers(3, size=(5, 4)).astype(np.uint8)
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    buffer = io.BytesIO()
    Image.fromarray(np.dstack([pixels] * 3) * 80).save(buffer, format)
    Image.fromarray(pixels).save(tmp_path / "masks" / "a.png")
    image, mask = tmp_path / "images" / "a.png", tmp_path / "masks" / "a.png"
    whole, good, count = (buffer.getvalue(), mask.read_bytes()), 0, 250
    for i in range(count):
        target = rng.randrange(2) if format == "PNG" else 0
        image.write_bytes(mutate(rng, whole[0]) if target == 0 else whole[0])
        mask.write_bytes(mutate(rng, whole[1]) if target == 1 else whole[1])
        start = time.process_time()
        try:
            X, y, _ = read_image_folder(tmp_path / "images", tmp_path / "masks")
            assert X[0].shape == (*y[0].shape, 3) and 0 <= X[0].min() <= X[0].max() <= 1
            good += 1
        except (ms.ParseError, ms.InvalidSampleError):
            pass
        except Exception as error:
            pytest.fail(f"mutation {i} gave {error!r}")
        assert time.process_time() - start < 3, i
    assert 0 < good < count


def test_fuzzed_arrays(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    (tmp_path / "scene").mkdir()
    path = tmp_path / "scene" / "scene.npz"
    rng, refused, count = random.Random("npz"), 0, 1200
    for save in (np.savez, np.savez_compressed):
        save(path, X_train=np.ones((3, 2)), y_train=np.ones((3, 2), dtype=np.uint8))
        content = path.read_bytes()
        for i in range(count // 2):
            path.write_bytes(mutate(rng, content))
            try:
                X, y = fetch_scene()
                assert len(X) == len(y)
            except ms.ParseError:
                refused += 1
            except Exception as error:
                pytest.fail(f"mutation {i} gave {error!r}")
    assert 0 < refused < count
