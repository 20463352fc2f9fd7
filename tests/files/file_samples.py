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

MANY_UAI = "MARKOV\n3\n2 3 2\n2\n3 0 1 2\n1 1\n12\n1 2 8 4 5 6 1 2 8 4 5 0\n3\n1 2 3\n"
GLOBAL_WCSP = (
    "p 4 3 8 100\n2 3 2 3\n4 0 1 2 3 -1 salldiff var 2\n3 1 2 3 -1 sgcc dec 3 2 0 0 1 1 1 2\n4 0 1 2 3 -1 knapsackp 2 1 1 2 1 2 1 1 1 3 0\n"
    "3 0 1 3 -1 wsum lin 2 <= 2\n3 0 1 2 0 2\n0 1 1 7\n1 2 0 100\n3 0 2 3 -1 wamong hard 100 1 1 0 2\n2 0 1 -1 >= 0 2\n"
    "4 0 1 2 3 -1 knapsackv -5 2 0 1 -3 3 2 -2\n"
)
RELAXED_CFN = (
    "# c\n{problem {name p mustbe <100.0}\nvariables {x [a b] y 3 z 2}\nfunctions {\nf {scope [x y z] costs [1 2 3 4 5 6 7 8 9 10 11 12]}\n"
    "g {scope [x y z] type wamong params {metric lin cost 2.5 values [1] min 1 max 1}}\nh {scope [y] defaultcost 1 costs [2 0.5]}}}\n"
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
