"""Small valid files of each format, and the tools that take them apart."""

from __future__ import annotations

import io
import zipfile

import numpy as np

import maxsum as ms
from maxsum.core.files import read_problem, save

UAI = "MARKOV\n2\n2 3\n3\n1 0\n2 0 1\n0\n2\n0.5 1\n6\n1 2 8\n4 5 6\n1\n2\n"
WCSP = "p 2 3 3 100\n2 3\n2 0 1 0 2\n0 1 7\n1 2 100\n1 1 3 1\n2 0\n0 5 0\n"
CFN = (
    '{\n"problem": {"name": "p", "mustbe": "<100"},\n"variables": {"x": ["a", "b"], "y": 3},\n"functions": {\n'
    '"f": {"scope": ["x", "y"], "costs": [1, 2, 3, 4, 5, 6]},\n'
    '"g": {"scope": ["y"], "defaultcost": 1, "costs": [2, "0.5"]},\n"h": {"scope": ["x", "y"], "costs": "f"}\n}\n}\n'
)


def outcome(path, data, **options):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_problem(path, **options)


def example():
    cliques = [([0, 1, 2], [1.0, 0.0]), ([1, 2], 0.5)]
    graph = ms.Graph.union([ms.Graph.chain(2), ms.Graph.chain(1)])
    return ms.Problem(
        graph, [[0.0, 1.0], [-np.inf, 2.0], [3.0, 0.5]], [[0.0, 1.0], [-np.inf, 0.25]], cliques=cliques, offset=1.5
    )


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version=(1, 0), allow_pickle=True)
    return buffer.getvalue()


def members(tmp_path):
    save(example(), tmp_path / "good.npz")
    with zipfile.ZipFile(tmp_path / "good.npz") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path, contents, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in contents:
            archive.writestr(name, data)
    return path
