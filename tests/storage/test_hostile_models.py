"""Model files that are damaged, strange or hostile: refused with the reason, in bounded time and memory, and nothing is executed."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import re
import struct
import time
import tracemalloc
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from reference.mutations import mutate_container
from sklearn.base import clone
from storage import fixtures
from storage.model_cases import CASES

import maxsum as ms
from maxsum.core.errors import MaxsumError, ModelFileError
from maxsum.storage import format as model_format
from maxsum.storage import read_header
from maxsum.storage.format import FILE

FUZZED = ("sequence dicts", "grid trees", "multilabel", "sequence order 2", "graph cliques", "grid cv")
WAY_OUT = r"Write it again with maxsum\.save_model"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "m"
    ms.save_model(ms.SequenceLabeler(C=2.0).fit([[{"a": 1.0}, {"b": 2.0}]], [["x", "y"]]), path, certificate=True)
    return path.read_bytes()


def taken_apart(data):
    body = data[len(FILE.seal(b"")) :]
    (length,) = struct.unpack_from("<Q", body)
    return json.loads(body[8 : 8 + length]), body[8 + length :]


def put_together(header, rest):
    text = json.dumps(header).encode()
    return FILE.seal(struct.pack("<Q", len(text)) + text + rest)


def refused(path, words):
    with pytest.raises(ModelFileError, match=words) as found:
        ms.load_model(path)
    assert str(path) in str(found.value) and re.search(WAY_OUT, str(found.value))
    return str(found.value)


@pytest.mark.parametrize("path", sorted(fixtures.FOLDER.glob("*.maxsum")), ids=lambda path: path.stem)
def test_fault_60_models_of_every_version_are_read(path):
    new = {"tagger": fixtures.NEW_TEXT, "grid": fixtures.NEW_IMAGE, "table": fixtures.NEW_ROWS}[path.stem.rpartition("_v")[0]]
    expected = json.loads(path.with_suffix(".json").read_text())
    found = fixtures.answers(ms.load_model(path), new)
    assert json.loads(json.dumps(found["labels"])) == expected["labels"]
    assert found["scores"] == pytest.approx(expected["scores"], rel=1e-12)


def test_there_is_a_model_of_the_present_version():
    assert {path.stem for path in fixtures.FOLDER.glob("*.maxsum")} >= {
        f"{name}_v{model_format.VERSION}" for name in ("tagger", "grid", "table")
    }


def test_truncated_files_are_refused(whole, tmp_path):
    for size in [*range(0, 80, 7), 300, len(whole) // 2, len(whole) - 1]:
        (tmp_path / "m").write_bytes(whole[:size])
        refused(tmp_path / "m", "truncated")
    (tmp_path / "m").write_bytes(whole + b"0")
    refused(tmp_path / "m", "truncated or damaged: its checksum")


def test_flipped_bits_are_refused(whole, tmp_path):
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        (tmp_path / "m").write_bytes(damaged)
        refused(tmp_path / "m", "model file")


def test_fault_60_newer_versions_are_refused(whole, tmp_path):
    header, rest = taken_apart(whole)
    text = json.dumps(header).encode()
    (tmp_path / "m").write_bytes(replace(FILE, version=2).seal(struct.pack("<Q", len(text)) + text + rest))
    refused(
        tmp_path / "m", "has format version 2, wanted 1; a newer maxsum wrote it.* or read it with the maxsum that wrote it"
    )


def test_other_files_are_refused(tmp_path):
    ms.learning.BlockFrankWolfe(checkpoint=tmp_path / "c", max_iter=1).fit(
        ms.SequenceLabeler()._prepare(ms.SequenceLabeler()._read([np.eye(2)], [[0, 1]], None), 1.0).objective
    )
    refused(tmp_path / "c", "is no model file of maxsum")
    np.savez(tmp_path / "n.npz", a=np.zeros(3))
    refused(tmp_path / "n.npz", "is no model file of maxsum")
    refused(tmp_path / "absent", "cannot be read: No such file")
    refused(tmp_path, "cannot be read: Is a directory")
    if os.path.exists("/dev/zero"):
        refused("/dev/zero", "is no regular file")


class Canary:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_fault_58_59_pickles_and_zip_bombs_are_refused(whole, tmp_path):
    canary = Canary(tmp_path / "executed")
    (tmp_path / "p").write_bytes(pickle.dumps(canary))
    refused(tmp_path / "p", "is no model file")
    header, rest = taken_apart(whole)
    payload = pickle.dumps(canary)
    for kind in ("|O", "O", "object"):
        changed = {**header, "arrays": [*header["arrays"], ["x", kind, [1]]]}
        (tmp_path / "p").write_bytes(put_together(changed, rest + payload))
        refused(tmp_path / "p", "broken header")
    for name in ("builtins.open", "os.system", "__import__", "Canary", "LearningResult", "MarginObjective"):
        changed = {**header, "parameters": {**header["parameters"], "learner": {"record": name, "fields": {}}}}
        (tmp_path / "p").write_bytes(put_together(changed, rest))
        refused(tmp_path / "p", "unknown class")
    assert not (tmp_path / "executed").exists()
    with zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.npy", b"\0" * 10**7)
    refused(tmp_path / "bomb", "is no model file")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h: h["arrays"][0].__setitem__(2, [10**12]), "does not fit into the file"),
        (lambda h: h["arrays"][0].__setitem__(2, [2**62, 2**62]), "does not fit"),
        (lambda h: h["arrays"][0].__setitem__(2, [-1]), "shape"),
        (lambda h: h["arrays"][0].__setitem__(2, [1]), "left over"),
        (lambda h: h["arrays"][0].__setitem__(1, "<U4"), "type <U4"),
        (lambda h: h["arrays"].append(h["arrays"][0]), "listed twice|does not fit"),
        (lambda h: h.__setitem__("estimator", "Popen"), "the estimator 'Popen' is none of"),
        (lambda h: h.pop("model"), "KeyError: 'model'"),
        (lambda h: h["parameters"].__setitem__("nonsense", 1), "nonsense"),
        (lambda h: h["parameters"].__setitem__("n_jobs", [1]), "the parameter 'n_jobs' is a list"),
        (lambda h: h["model"]["model"].__setitem__("features", {"record": "Hashed", "fields": {"width": 10**9}}), "maps of"),
        (lambda h: h["model"].__setitem__("n_edge_types", 10**7), "maps of"),
        (lambda h: h["model"].__setitem__("n_edge_types", 2), "the model has .* weights, and"),
        (lambda h: h["model"].__setitem__("n_node_types", 2), "2 node types"),
        (lambda h: h["classes"].__setitem__("n_types", 10**9), "node types"),
        (lambda h: h["classes"]["of_types"][0].__setitem__("type", "U999999999"), "letters"),
        (lambda h: h["result"].__setitem__("lower_bound", {"float": "inf"}), "no sound numbers"),
        (lambda h: h["result"].__setitem__("termination", "magic"), "magic"),
        (lambda h: h["facts"].__setitem__("__class__", 1), "unknown"),
        (lambda h: h["objective"].__setitem__("surrogate", "qp"), "not convex"),
    ],
)
def test_fault_59_hostile_headers_are_refused(whole, tmp_path, change, words):
    header, rest = taken_apart(whole)
    change(header)
    (tmp_path / "m").write_bytes(put_together(header, rest))
    tracemalloc.start()
    refused(tmp_path / "m", words)
    assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()


def test_weights_outside_the_cone_are_refused(tmp_path):
    X = [np.sin(np.arange(18.0)).reshape(3, 3, 2)]
    net = ms.GridLabeler("supermodular").fit(X, [[[0, 1, 1]] * 3])
    net.weights_ = -10 * np.arange(1.0, len(net.weights_) + 1) ** 2
    ms.save_model(net, tmp_path / "m")
    refused(tmp_path / "m", "outside the cone")
    net.weights_ = np.full_like(net.weights_, np.nan)
    ms.save_model(net, tmp_path / "m")
    refused(tmp_path / "m", "not finite")


def test_a_header_is_read_without_arrays(whole, tmp_path):
    (tmp_path / "m").write_bytes(whole)
    assert read_header(tmp_path / "m") == taken_apart(whole)[0]
    for header in ([], {"arrays": []}, {"arrays": [], "estimator": "x"}):
        (tmp_path / "m").write_bytes(put_together(header, b""))
        with pytest.raises(ModelFileError, match=r"broken header|describes no model"):
            read_header(tmp_path / "m")


def survive(path, data, new):
    """Whether changed data load and predict; an error of ours may say that they do not, anything else is a fault."""
    path.write_bytes(data)
    tracemalloc.reset_peak()
    before, start = tracemalloc.get_traced_memory()[0], time.process_time()
    try:
        net = ms.load_model(path)
    except ModelFileError:
        return False
    finally:
        peak = tracemalloc.get_traced_memory()[1] - before
        assert peak < 2**20 + 40 * len(data) and time.process_time() - start < 1
    with contextlib.suppress(MaxsumError):
        net.predict(new)
    return True


@pytest.mark.parametrize("name", FUZZED)
def test_fuzzed_models(name, tmp_path):
    estimator, (X, y, new) = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ms.save_model(clone(estimator).fit(X, y), tmp_path / "m", certificate=True)
    good, rng, loaded, count = (tmp_path / "m").read_bytes(), random.Random(name), 0, 400
    tracemalloc.start()
    try:
        for _ in range(count):
            loaded += survive(tmp_path / "m", mutate_container(rng, good, FILE), new)
    finally:
        tracemalloc.stop()
    assert 0 < loaded < count // 2
