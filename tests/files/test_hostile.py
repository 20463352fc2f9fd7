"""Broken and hostile files: one `ParseError` with the line and the fault, little memory, little time, no other outcome."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from files.file_samples import CFN, UAI, WCSP, example, members, npy, outcome, pack

import maxsum as ms
from maxsum.core.files import _read, read_problem
from maxsum.core.files.text import Limits


def uai(old="", new=""):
    assert not old or UAI.count(old) == 1
    return UAI.replace(old, new)


def wcsp(old, new):
    assert WCSP.count(old) == 1
    return WCSP.replace(old, new)


def cfn(old, new):
    assert CFN.count(old) == 1
    return CFN.replace(old, new)


TEXT = {
    "uai empty": ("p.uai", "", r"line 1: the file ends where the type"),
    "uai type": ("p.uai", uai("MARKOV", "MARKOW"), r'line 1: .*"MARKOW", wanted MARKOV or BAYES'),
    "uai truncated table": ("p.uai", UAI[: UAI.index("5 6")], r"line 12: the file ends where an entry of factor 1 .*2 more"),
    "uai truncated scopes": ("p.uai", UAI[: UAI.index("0 1\n0")], r"line 6: the file ends where a variable of factor 1"),
    "uai negative domain": ("p.uai", uai("2 3\n", "2 -3\n"), r'line 3: a domain size is "-3", wanted 1 or more'),
    "uai zero domain": ("p.uai", uai("2 3\n", "2 0\n"), r'line 3: a domain size is "0", wanted 1 or more'),
    "uai huge domain": ("p.uai", uai("2 3\n", "2 999999999999\n"), r"line 3: 2 variables with domains of up to 999999999999"),
    "uai 70-bit domain": ("p.uai", uai("2 3\n", "2 1" + "0" * 21 + "\n"), r"line 3: a domain size is .*64 bits"),
    "uai negative variables": ("p.uai", uai("MARKOV\n2", "MARKOV\n-2"), r'line 2: the number of variables is "-2"'),
    "uai 1e9 variables": (
        "p.uai",
        uai("MARKOV\n2", "MARKOV\n1000000000"),
        r"the file ends where a domain size|line 9: a domain",
    ),
    "uai 1e9 factors": ("p.uai", uai("3\n3\n", "3\n1000000000\n"), r"line \d+: .*factor 3"),
    "uai index": ("p.uai", uai("2 0 1", "2 0 2"), r'line 6: a variable of factor 1 is "2", wanted 0\.\.1'),
    "uai negative index": ("p.uai", uai("2 0 1", "2 0 -1"), r'line 6: a variable of factor 1 is "-1"'),
    "uai repeated variable": ("p.uai", uai("2 0 1", "2 1 1"), r"line 6: factor 1 names variable 1 twice"),
    "uai repeated variable of three": (
        "p.uai",
        "MARKOV\n3\n2 2 2\n1\n3 2 0 2\n8\n" + "1 " * 8,
        r"line 5: factor 0 names variable 2 twice",
    ),
    "uai arity 100": (
        "p.uai",
        "MARKOV\n100\n" + "2 " * 100 + "\n1\n100 " + " ".join(map(str, range(100))) + "\n8\n" + "1 " * 8,
        r"line 6: factor 0 .* declares 8 entries, but its domains give 2\*\*62 or more",
    ),
    "uai arity 1e9": ("p.uai", uai("2 0 1", "1000000000 0 1"), r"line 6: the arity of factor 1 is"),
    "uai size": ("p.uai", uai("6\n1 2", "5\n1 2"), r"line 10: factor 1 .* declares 5 entries, but its domains give 6"),
    "uai comma": ("p.uai", uai("0.5 1", "0,5 1"), r'line 9: .*"0,5".*decimal comma'),
    "uai underscore": ("p.uai", uai("0.5 1", "1_0 1"), r'line 9: .*"1_0"'),
    "uai nan": ("p.uai", uai("0.5 1", "nan 1"), r'line 9: .*"nan"'),
    "uai inf": ("p.uai", uai("0.5 1", "inf 1"), r'line 9: .*"inf"'),
    "uai negative": ("p.uai", uai("0.5 1", "-0.5 1"), r'line 9: .*"-0.5".*values="costs"'),
    "uai overflow": ("p.uai", uai("0.5 1", "1e999 1"), r'line 9: .*"1e999"'),
    "uai zero constant": ("p.uai", uai("1\n2\n", "1\n0\n"), r"line 14: .*forbids everything"),
    "uai all forbidden": ("p.uai", uai("0.5 1", "0 0"), r"node 0 has every label forbidden"),
    "uai trailing": ("p.uai", UAI + "8\n9\n", r'line 15: "8" follows'),
    "uai garbage": ("p.uai", bytes(range(256)) * 20, r"line 1: .*wanted MARKOV"),
    "uai not UTF-8": ("p.uai", uai("0.5 1", "XX 1").encode().replace(b"XX", b"\xff\xfe"), r"line 9: .*\\xff\\xfe"),
    "uai one token": ("p.uai", b"A" * 200_000, r"no white space in 65536 bytes"),
    "wcsp name only": ("p.wcsp", "p", r"line 1: the file ends where the number of variables"),
    "wcsp domain": ("p.wcsp", wcsp("\n2 3\n", "\n2 -3\n"), r'line 2: a domain size is "-3"'),
    "wcsp top": ("p.wcsp", wcsp("100\n2 3", "0\n2 3"), r"line 1: the upper bound"),
    "wcsp truncated": ("p.wcsp", WCSP[:28], r"line 4: the file ends where"),
    "wcsp value": (
        "p.wcsp",
        wcsp("0 1 7", "0 3 7"),
        r'line 4: the value of variable 1 in a tuple of function 0 is "3", wanted 0\.\.2',
    ),
    "wcsp index": ("p.wcsp", wcsp("2 0 1 0 2", "2 0 2 0 2"), r'line 3: a variable of function 0 is "2"'),
    "wcsp repeated variable": ("p.wcsp", wcsp("2 0 1 0 2", "2 1 1 0 2"), r"line 3: function 0 names a variable twice"),
    "wcsp global": ("p.wcsp", wcsp("2 0 1 0 2", "2 0 1 -1 sregular var 9"), r'line 3: function 0 .*"sregular" of arity 2'),
    "wcsp measure": (
        "p.wcsp",
        wcsp("2 0 1 0 2", "2 0 1 -1 salldiff lin 9"),
        r'line 3: function 0 \(salldiff\).*"lin", wanted one of var, dec, decbi',
    ),
    "wcsp cost": (
        "p.wcsp",
        wcsp("2 0 1 0 2", "2 0 1 -1 salldiff var -9"),
        r'line 3: a number of function 0 \(salldiff\) is "-9"',
    ),
    "wcsp arithmetic": ("p.wcsp", wcsp("2 0 1 0 2", "1 0 -1 >= 0 2"), r"line 3: function 0 .* of 1 variables, wanted 2"),
    "wcsp bounds twice": (
        "p.wcsp",
        wcsp("2 0 1 0 2", "2 0 1 -1 wgcc lin 3 2 1 0 1 1 0 2"),
        r"function 0 .* bounds for a value twice",
    ),
    "wcsp 1e9 values": ("p.wcsp", wcsp("2 0 1 0 2", "2 0 1 -1 wgcc lin 3 1000000000"), r"line \d+: "),
    "wcsp 1e12 among": ("p.wcsp", wcsp("2 0 1 0 2", "2 0 1 -1 wamong lin 3 1000000000000"), r"line \d+: "),
    "wcsp knapsack value": ("p.wcsp", wcsp("2 0 1 0 2", "2 0 1 -1 knapsackp 3 1 7 2 0"), r"names the value 7 of variable 0"),
    "wcsp knapsack twice": (
        "p.wcsp",
        wcsp("2 0 1 0 2", "2 0 1 -1 knapsackp 3 2 1 2 1 2 0"),
        r"weighs the value 1 of variable 0 twice",
    ),
    "wcsp knapsack weight": ("p.wcsp", wcsp("2 0 1 0 2", f"2 0 1 -1 knapsack 3 {2**50} 1"), r"weight 1125899906842624"),
    "wcsp knapsack scope": (
        "p.wcsp",
        wcsp("2 0 1 0 2", "1 0 -1 knapsackv 3 1 1 1 1"),
        r"names variable 1, which is not in its scope",
    ),
    "wcsp comparator": ("p.wcsp", wcsp("2 0 1 0 2", "2 0 1 -1 wsum hard 9 ~ 1"), r'comparator "~", wanted one of'),
    "wcsp no scope": ("p.wcsp", wcsp("2 0 1 0 2", "0 -1 salldiff var 9"), r"of no variables"),
    "wcsp float": ("p.wcsp", wcsp("0 1 7", "0 1 7.5"), r'line 4: a cost of function 0 is "7.5", wanted a whole number'),
    "wcsp comma": ("p.wcsp", wcsp("0 1 7", "0 1 7,5"), r'line 4: .*"7,5".*decimal comma'),
    "wcsp 1e9 tuples": ("p.wcsp", wcsp("2 0 1 0 2", "2 0 1 0 1000000000"), r"line \d+: "),
    "wcsp 1e9 functions": ("p.wcsp", wcsp("3 100", "1000000000 100"), r"line 8: the file ends where the arity of function 3"),
    "wcsp no shared": ("p.wcsp", wcsp("1 1 3 1", "1 1 3 -1"), r'line 6: the number of tuples of function 1 is "-1"'),
    "wcsp two costs": ("p.wcsp", wcsp("1 2 100", "0 1 8"), r"function 0 .* gives the tuple \(0, 1\) two different costs"),
    "wcsp inexact": ("p.wcsp", WCSP.replace("100", str(2**60)).replace("1 2 " + str(2**60), f"1 2 {2**60 - 1}"), r"2\*\*53"),
    "wcsp trailing": ("p.wcsp", WCSP + "7", r'line 9: "7" follows'),
    "wcsp infeasible": ("p.wcsp", wcsp("1 1 3 1", "1 1 300 0"), r"line \d+: |node 1 has every label forbidden"),
    "cfn empty": ("p.cfn", "", r"line 1: not JSON"),
    "cfn truncated": ("p.cfn", CFN[:150], r"line 5: not JSON"),
    "cfn nested": ("p.cfn", "[" * 100_000, r"nested too deeply"),
    "cfn nested inside": ("p.cfn", cfn("[2, ", "[" + "[" * 900 + "]" * 900 + ", "), r'nested|function "g"'),
    "cfn not UTF-8": ("p.cfn", CFN.encode().replace(b'"b"', b'"\xff"'), r"line 3: byte 0xff is not UTF-8"),
    "cfn duplicate": ("p.cfn", cfn('"g":', '"f":'), r'line 6: the key "f" stands twice'),
    "cfn duplicate variable": ("p.cfn", cfn('"y": 3', '"x": 3'), r'line 3: the key "x" stands twice'),
    "cfn no mustbe": ("p.cfn", cfn(', "mustbe": "<100"', ""), r'no "mustbe"'),
    "cfn mustbe": ("p.cfn", cfn("<100", "=100"), r'"mustbe" is "=100"'),
    "cfn mustbe comma": ("p.cfn", cfn("<100", "<1,5"), r'"1,5".*decimal comma'),
    "cfn interval": ("p.cfn", cfn('"y": 3', '"y": -3'), r'line 3: variable 1 \("y"\) .*interval domains'),
    "cfn zero domain": ("p.cfn", cfn('"y": 3', '"y": 0'), r"line 3: variable 1 .*0"),
    "cfn huge domain": ("p.cfn", cfn('"y": 3', '"y": 4000000000'), r"domains of up to 4000000000"),
    "cfn repeated value": ("p.cfn", cfn('"b"', '"a"'), r"line 3: variable 0 .*twice"),
    "cfn unknown variable": ("p.cfn", cfn('["y"]', '["w"]'), r'line 6: function "g" names the variable "w"'),
    "cfn index": ("p.cfn", cfn('["y"]', "[2]"), r'line 6: function "g" names variable "2", but there are 2'),
    "cfn repeated variable": ("p.cfn", cfn('["x", "y"], "costs": [', '["x", 0], "costs": ['), r'line 5: function "f" .*twice'),
    "cfn global": (
        "p.cfn",
        cfn('"defaultcost": 1, "costs": [2, "0.5"]', '"type": "MST", "params": []'),
        r'line 6: .*global function "MST"',
    ),
    "cfn params": (
        "p.cfn",
        cfn('"defaultcost": 1, "costs": [2, "0.5"]', '"type": "salldiff", "params": {}'),
        r'line 6: params .*no "metric"',
    ),
    "cfn list": (
        "p.cfn",
        cfn('"defaultcost": 1, "costs": [2, "0.5"]', '"type": "knapsack", "params": {"capacity": 1, "weights": [1, 2]}'),
        r'line 6: function "g" has 2 items .* list of 1',
    ),
    "cfn maximised": (
        "p.cfn",
        cfn("<100", ">-100").replace('"defaultcost": 1, "costs": [2, "0.5"]', '"type": "salldiff", "params": ["var", 3]'),
        r'line 6: .*"salldiff" with a cost in a file that is maximised',
    ),
    "cfn relaxed nested": (
        "p.cfn",
        "{problem {name a mustbe <9} variables {x 2} functions {f {scope [x] type zz params " + "[" * 500,
        r"nested too deeply",
    ),
    "cfn relaxed order": ("p.cfn", "{problem {mustbe <9 name a}}", r"line 1: not JSON .*the field name is missing"),
    "cfn relaxed twice": ("p.cfn", "{problem {name a mustbe <9}\nvariables {x 2\nx 2}}", r"line 3: .*x stands twice"),
    "cfn relaxed quote": ("p.cfn", '{problem {name "a mustbe <9}', r"line 1: .*quote is not closed"),
    "cfn count": ("p.cfn", cfn("5, 6]", "5]"), r'line 5: function "f" has 5 costs, but its domains \(2, 3\) give 6'),
    "cfn comma": ("p.cfn", cfn('"0.5"', '"0,5"'), r'line 6: .*"0,5".*decimal comma'),
    "cfn nan": ("p.cfn", cfn("5, 6]", "5, NaN]"), r'line 5: .*"NaN"'),
    "cfn overflow": ("p.cfn", cfn("5, 6]", "5, 1e999]"), r'line 5: .*"inf"'),
    "cfn bool": ("p.cfn", cfn("5, 6]", "5, true]"), r"line 5: .*True"),
    "cfn shared missing": ("p.cfn", cfn('"costs": "f"', '"costs": "q"'), r'line 7: .*"q", which does not exist'),
    "cfn shared circle": ("p.cfn", cfn('"costs": "f"', '"costs": "h"'), r"line 7: .*circle"),
    "cfn shared shape": ("p.cfn", cfn('"costs": "f"', '"costs": "g"'), r"line 7: .*domains \(2, 3\), but"),
    "cfn value": ("p.cfn", cfn("[2, ", "[3, "), r'line 6: .*value "3" of variable 1, which has 3 values'),
    "cfn unknown key": ("p.cfn", cfn('"defaultcost"', '"default"'), r'line 6: .*"default", which is not known'),
    "cfn no object": ("p.cfn", "[1]", r"the file is a list"),
    "cfn digits": ("p.cfn", cfn("5, 6]", "5, " + "9" * 5000 + "]"), r"not JSON that can be read"),
    "gz truncated": ("p.uai.gz", gzip.compress(UAI.encode())[:-12], r"truncated compressed data"),
    "gz garbage": ("p.uai.gz", UAI, r"compressed data"),
    "xz garbage": ("p.uai.xz", UAI, r"compressed data"),
    "xz empty": ("p.uai.xz", b"", r"compressed data"),
    "bz2 garbage": ("p.uai.bz2", UAI, r"compressed data"),
    "npz garbage": ("p.npz", UAI, r"not a \.npz file"),
}


def test_the_plain_files_are_valid(tmp_path):
    assert outcome(tmp_path / "p.uai", "\ufeff" + UAI).n_edges == 1
    assert outcome(tmp_path / "p.wcsp", WCSP).score([0, 2]) == -5
    assert outcome(tmp_path / "p.cfn", "\ufeff" + CFN).score([0, 2]) == -6.5


@pytest.mark.parametrize("case", TEXT)
def test_fault_61_is_named(tmp_path, case):
    name, data, message = TEXT[case]
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(ms.ParseError, match=message) as caught:
            outcome(tmp_path / name, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert name in str(caught.value)
    assert len(str(caught.value)) < 600
    assert "line" not in message[:5] or caught.value.line is not None
    assert peak < 30e6
    assert time.process_time() - start < 5


def test_fault_59_a_bomb_is_refused(tmp_path):
    path = tmp_path / "p.uai.gz"
    path.write_bytes(gzip.compress(b"MARKOV\n" + b" " * 30_000_000))
    with pytest.raises(ms.ParseError, match="more than 1000000 bytes after decompression"):
        _read(path, None, None, Limits(bytes=1_000_000))
    path = tmp_path / "p.cfn.gz"
    path.write_bytes(gzip.compress(b" " * 3_000_000))
    with pytest.raises(ms.ParseError, match="more than 1000000 bytes; refused"):
        _read(path, None, None, Limits(bytes=4_000_000))


def test_small_files_cannot_ask_for_large_tables(tmp_path):
    text = "p 2 9000 2 9\n9000 9000\n2 0 1 0 0\n2 0 1 1 0\n"
    with pytest.raises(ms.ParseError, match=r"line 3: the functions have more than \d+ entries"):
        outcome(tmp_path / "p.wcsp", text)
    path = tmp_path / "q.wcsp"
    path.write_text("p 3 100 1 9\n100 1 1\n2 1 2 0 0\n")
    with pytest.raises(ms.ParseError, match=r"1 different tables, padded .* need 10300 numbers, the limit is 5000"):
        _read(path, None, None, Limits(cells=5000))
    head = '{"problem": {"mustbe": "<9"}, "variables": {"x": 5000, "y": 5000}, "functions": {'
    one = '"f": {"scope": [0, 1], "defaultcost": 1, "costs": []}'
    more = "".join(f', "g{i}": {{"scope": [0, 1], "costs": "f"}}' for i in range(50))
    start = time.process_time()
    with pytest.raises(ms.ParseError, match="more than 62500000 entries"):
        outcome(tmp_path / "p.cfn", head + one + more + "}}")
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("domains", "words", "message"),
    [
        ("3 " * 3000, "salldiff decbi 1", "more than 62500000 entries"),
        ("60000 " * 900, "salldiff var 1", "more than 62500000 entries"),
        ("200 " * 3000, "wsum hard 9 == 300000", "pairs of a partial sum and a label|more than 62500000 entries"),
        ("40 " * 9, "wsum lin 1 == 7", r"soft sum of values, and as a table it has 262144000000000 entries"),
        ("40 " * 9, "sgcc var 1 2 0 1 3 1 1 3", "variable-based cost"),
    ],
)
def test_global_functions_of_absurd_sizes_are_refused(tmp_path, domains, words, message):
    n = len(domains.split())
    text = f"p {n} 99999 1 9\n{domains}\n{n} {' '.join(map(str, range(n)))} -1 {words}\n"
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(ms.ParseError, match=message):
            outcome(tmp_path / "p.wcsp", text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1e9
    assert time.process_time() - start < 30


def test_sparse_tables_cost_what_they_list(tmp_path):
    n = 500
    text = f"p {n} 2 1 9\n{'2 ' * n}\n{n} {' '.join(map(str, range(n)))} 0 1\n{'1 ' * n} 3\n"
    tracemalloc.start()
    problem = outcome(tmp_path / "p.wcsp", text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
    assert problem.score(np.ones(n, dtype=int)) == -3


def test_long_chains_of_shared_functions(tmp_path):
    n = 20_000
    functions = ", ".join(f'"f{i}": {{"scope": [0], "costs": "f{i + 1}"}}' for i in range(n))
    text = f'{{"problem": {{"mustbe": "<1e9"}}, "variables": [2], "functions": {{{functions}, "f{n}": {{"scope": [0], "costs": [0, 1]}}}}}}'
    start = time.process_time()
    assert outcome(tmp_path / "p.cfn", text).score([1]) == -(n + 1)
    assert time.process_time() - start < 5


# ---- npz ---------------------------------------------------------------------------------------------------------------


class Canary:
    def __reduce__(self):
        return (Path("canary").touch, ())


def header(**changes):
    base = {"format": "maxsum-problem", "version": 1, "n_nodes": 3, "n_edge_types": 1, "shape": None, "offset": 1.5}
    return npy(np.frombuffer(json.dumps({**base, **changes}).encode(), dtype=np.uint8))


def declared(shape, descr="<f8", data=b""):
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


NPZ = {
    "object": ("unary", npy(np.array([Canary()], dtype=object)), r"unary has dtype object"),
    "raw pickle": ("unary", pickle.dumps(Canary()), r"\.npz file"),
    "1e12 elements": ("tables", declared((10**12, 2, 2)), r"tables declares shape \(1000000000000, 2, 2\).*past the limit"),
    "declared more": ("tables", declared((2, 2, 2), data=bytes(32)), r"declares shape \(2, 2, 2\), that is 64 bytes, .* 32"),
    "declared less": ("tables", declared((1, 1, 1), data=bytes(32)), r"that is 8 bytes, .* holds 32"),
    "negative": ("tables", declared((-1, 2, 2)), r"tables has a \.npy header"),
    "big-endian": ("unary", npy(np.zeros((3, 2), dtype=">f8")), r"unary has dtype >f8"),
    "float32": ("unary", npy(np.zeros((3, 2), dtype=np.float32)), r"unary has dtype float32"),
    "Python 2": ("unary", declared("(3L, 2)", data=bytes(48)), r"unary has a \.npy header that numpy does not write"),
    "axes": ("unary", npy(np.zeros(6)), r"shape \(6,\), wanted <f8 and 2 axes"),
    "Fortran": ("unary", npy(np.asfortranarray(np.zeros((3, 2)))), r"Fortran"),
    "version": ("header", header(version=3), r"version 3 of the format.*newer maxsum"),
    "version 0": ("header", header(version=0), r'version "0"'),
    "version text": ("header", header(version="1"), r'version "1"'),
    "format": ("header", header(format="other"), r"another kind of file"),
    "extra": ("header", header(extra=1), r'"extra"'),
    "nodes": ("header", header(n_nodes=4), r'n_nodes "4", but unary has 3 rows'),
    "offset": ("header", header(offset="1"), r"offset"),
    "offset nan": ("header", header(offset=float("nan")), r"offset"),
    "types": ("header", header(n_edge_types=0), r"n_edge_types"),
    "shape": ("header", header(shape=[2, 2]), r"shape \[2, 2\], but 3 nodes"),
    "shape text": ("header", header(shape="2x2"), r"\[height, width\]"),
    "not JSON": ("header", npy(np.frombuffer(b"[" * 9000, dtype=np.uint8)), r"header is not JSON"),
    "long header": ("header", npy(np.zeros(20_000, dtype=np.uint8)), r"header declares .*limit"),
    "edge": ("edges", npy(np.array([[0, 7]], dtype=np.int32)), r"edge 0 names node 7"),
    "loop": ("edges", npy(np.array([[1, 1]], dtype=np.int32)), r"joins node 1 to itself"),
    "edge columns": ("edges", npy(np.zeros((1, 3), dtype=np.int32)), r"wanted \(n_edges, 2\)"),
    "parts": ("parts", npy(np.array([0, 5, 3])), r"parts must rise"),
    "no parts": ("parts", npy(np.zeros(0, dtype=np.int64)), r"parts must rise"),
    "nan": ("unary", npy(np.full((3, 2), np.nan)), r"unary of node 0, label 0 is nan"),
    "posinf": ("tables", npy(np.full((1, 2, 2), np.inf)), r"table 0 .* is inf"),
    "table number": ("edge_table", npy(np.array([1], dtype=np.int32)), r"edge_table of edge 0 is 1"),
    "weight": ("edge_weight", npy(np.array([-1.0])), r"positive weight"),
    "states": ("n_states", npy(np.array([2, 2, 9], dtype=np.int32)), r"n_states = 9"),
    "clique ptr": ("clique_ptr", npy(np.array([0, 9, 5])), r"clique_ptr must rise"),
    "clique empty": ("clique_ptr", npy(np.array([0, 0, 5])), r"clique_ptr must rise"),
    "clique node": ("clique_nodes", npy(np.array([0, 1, 2, 1, 3], dtype=np.int32)), r"clique 1 names node 3"),
    "clique weight": ("clique_weights", npy(np.array([[1.0, -1.0], [0, 0]])), r"weights >= 0"),
    "clique shape": ("clique_weights", npy(np.zeros((2, 3))), r"clique_weights have shape"),
}


@pytest.mark.parametrize("case", NPZ)
def test_fault_58_59_of_an_npz_is_named(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    name, data, message = NPZ[case]
    contents = {**members(tmp_path), f"{name}.npy": data}
    with pytest.raises(ms.ParseError, match=message):
        read_problem(pack(tmp_path / "bad.npz", contents.items()))
    assert not Path("canary").exists()


def test_fault_59_npz_members_are_a_fixed_set(tmp_path):
    good = members(tmp_path)
    for name in ("../evil.npy", "/evil.npy", "evil.npy", "unary.txt", "sub/unary.npy"):
        with pytest.raises(ms.ParseError, match="no part of a problem"):
            read_problem(pack(tmp_path / "bad.npz", [*good.items(), (name, b"x")]))
    with pytest.warns(UserWarning, match="Duplicate"):
        pack(tmp_path / "bad.npz", [*good.items(), ("unary.npy", good["unary.npy"])])
    with pytest.raises(ms.ParseError, match="twice"):
        read_problem(tmp_path / "bad.npz")
    with pytest.raises(ms.ParseError, match="packed in an unknown way"):
        read_problem(pack(tmp_path / "bad.npz", good.items(), zipfile.ZIP_LZMA))
    with pytest.raises(ms.ParseError, match="has no unary, tables"):
        read_problem(pack(tmp_path / "bad.npz", [(k, v) for k, v in good.items() if k not in ("unary.npy", "tables.npy")]))
    np.savez(tmp_path / "bad.npz", unary=np.zeros((3, 2)))
    with pytest.raises(ms.ParseError, match="no header"):
        read_problem(tmp_path / "bad.npz")
    assert read_problem(pack(tmp_path / "ok.npz", good.items(), zipfile.ZIP_STORED)).score([0, 1, 0]) == example().score(
        [0, 1, 0]
    )


def test_npz_bomb_is_refused_before_it_is_unpacked(tmp_path):
    contents = {**members(tmp_path), "tables.npy": declared((10_000, 100, 100), data=bytes(800_000_000 // 40))}
    with pytest.raises(ms.ParseError, match="past the limit"):
        read_problem(pack(tmp_path / "bad.npz", contents.items()))
