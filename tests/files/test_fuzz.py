"""Thousands of mutated files: a `Problem` or a `ParseError`, nothing else, each in less than a second."""

from __future__ import annotations

import random
import time
import zipfile

import numpy as np
import pytest
from file_samples import CFN, UAI, WCSP, members, outcome, pack

import maxsum as ms
from maxsum.core.files import read_problem, save

NUMBERS = (
    b"-1",
    b"0",
    b"1",
    b"2",
    b"3",
    b"7",
    b"1e9",
    b"1000000000",
    b"99999999999999999999",
    b"0,5",
    b"nan",
    b"inf",
    b"-inf",
    b"1e308",
)


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(5)
        at = rng.randrange(len(data) + 1)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = rng.choice((rng.randbytes(rng.randint(1, 4)), b" " + rng.choice(NUMBERS) + b" ", b"\n", b"["))
        elif kind == 3:
            words = bytes(data).split(b" ")
            words[rng.randrange(len(words))] = rng.choice(NUMBERS)
            data = bytearray(b" ".join(words))
        else:
            other = rng.randrange(len(data) + 1)
            data[at:at] = data[min(at, other) : min(at, other) + 20]
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "text", "count"), [("p.uai", UAI, 1500), ("p.wcsp", WCSP, 1500), ("p.cfn", CFN, 1500)], ids=["uai", "wcsp", "cfn"]
)
def test_fuzzed_text(tmp_path, name, text, count):
    rng = random.Random(name)
    path = tmp_path / name
    read = 0
    for i in range(count):
        data = mutate(rng, text.encode())
        path.write_bytes(data)
        start = time.process_time()
        try:
            problem = read_problem(path, values=rng.choice((None, "costs", "scores")) if name == "p.uai" else None)
            assert not np.isnan(problem.score(np.zeros(problem.n_nodes, dtype=int)))
            read += 1
        except ms.ParseError:
            pass
        except Exception as error:
            pytest.fail(f"mutation {i} gave {error!r}: {data!r}")
        assert time.process_time() - start < 1, (i, data)
    assert 0 < read < count


def test_fuzzed_npz(tmp_path):
    rng = random.Random("npz")
    good = members(tmp_path)
    path = tmp_path / "bad.npz"
    whole = (tmp_path / "good.npz").read_bytes()
    read = 0
    for i in range(1200):
        if i % 3 == 0:
            path.write_bytes(mutate(rng, whole))
        else:
            name = rng.choice(list(good))
            pack(path, {**good, name: mutate(rng, good[name])}.items(), zipfile.ZIP_STORED)
        start = time.process_time()
        try:
            problem = read_problem(path)
            assert not np.isnan(problem.score(np.zeros(problem.n_nodes, dtype=int)))
            read += 1
        except ms.ParseError:
            pass
        except Exception as error:
            pytest.fail(f"mutation {i} gave {error!r}")
        assert time.process_time() - start < 1, i
    assert 0 < read < 1200


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_fuzzed_compression(tmp_path, suffix):
    rng = random.Random(suffix)
    save(outcome(tmp_path / "p.uai", UAI), tmp_path / f"good.uai{suffix}")
    whole = (tmp_path / f"good.uai{suffix}").read_bytes()
    path = tmp_path / f"bad.uai{suffix}"
    refused = 0
    for i in range(300):
        path.write_bytes(mutate(rng, whole))
        try:
            read_problem(path)
        except ms.ParseError:
            refused += 1
        except Exception as error:
            pytest.fail(f"mutation {i} gave {error!r}")
    assert refused > 0
