"""Thousands of mutated files: a `Problem` or a `ParseError`, nothing else, each in less than a second."""

from __future__ import annotations

import random
import time
import zipfile

import numpy as np
import pytest
from files.file_samples import CFN, GLOBAL_WCSP, MANY_UAI, RELAXED_CFN, UAI, WCSP, members, outcome, pack
from reference.mutations import mutate
from reference.seeds import seeds

import maxsum as ms
from maxsum.core.files import read_problem, save


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("p.uai", UAI, 1500),
        ("p.wcsp", WCSP, 1500),
        ("p.cfn", CFN, 1500),
        ("p.uai", MANY_UAI, 700),
        ("p.wcsp", GLOBAL_WCSP, 1500),
        ("p.cfn", RELAXED_CFN, 1500),
    ],
    ids=["uai", "wcsp", "cfn", "uai factors", "wcsp globals", "cfn relaxed"],
)
def test_fault_61_fuzzed_text(tmp_path, name, text, count):
    rng = random.Random(name)
    path = tmp_path / name
    outcome(path, text)
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


def test_fault_61_fuzzed_npz(tmp_path):
    rng = random.Random("npz")
    good = members(tmp_path)
    path = tmp_path / "bad.npz"
    whole = (tmp_path / "good.npz").read_bytes()
    read = 0
    for i in seeds(1200):
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
    assert 0 < read < len(seeds(1200))


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_fuzzed_compression(tmp_path, suffix):
    rng = random.Random(suffix)
    save(outcome(tmp_path / "p.uai", UAI), tmp_path / f"good.uai{suffix}")
    whole = (tmp_path / f"good.uai{suffix}").read_bytes()
    path = tmp_path / f"bad.uai{suffix}"
    refused = 0
    for i in seeds(300):
        path.write_bytes(mutate(rng, whole))
        try:
            read_problem(path)
        except ms.ParseError:
            refused += 1
        except Exception as error:
            pytest.fail(f"mutation {i} gave {error!r}")
    assert refused > 0
