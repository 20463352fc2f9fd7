"""The exact format: a zip of plain arrays with a JSON header, checked member by member before anything is loaded."""

from __future__ import annotations

import io
import json
import math
import re
import struct
import zipfile
from typing import Any, BinaryIO

import numpy as np

from ..cliques import Cliques
from ..errors import ParseError
from ..factors import KINDS, Factors, Function
from ..graph import Graph
from ..problem import Problem
from ..validation import LARGEST
from .text import Limits, Stream, shown, size_on_disk

FORMAT = "maxsum-problem"
VERSION = 2  # with factors; files without them have version 1, as before

_ARRAYS = {
    "header": ("|u1", 1),
    "edges": ("<i4", 2),
    "edge_type": ("<i4", 1),
    "parts": ("<i8", 1),
    "unary": ("<f8", 2),
    "tables": ("<f8", 3),
    "edge_table": ("<i4", 1),
    "edge_weight": ("<f8", 1),
    "n_states": ("<i4", 1),
    "clique_ptr": ("<i8", 1),
    "clique_nodes": ("<i4", 1),
    "clique_weights": ("<f8", 2),
    "factor_ptr": ("<i8", 1),
    "factor_nodes": ("<i4", 1),
    "factor_function": ("<i4", 1),
    "function_kind": ("|u1", 1),
    "function_ptr": ("<i8", 2),
    "function_numbers": ("<i8", 1),
    "function_scores": ("<f8", 1),
}
_FACTORS = tuple(name for name in _ARRAYS if name.startswith(("factor_", "function_")))
_OPTIONAL = ("parts", *_FACTORS)
_MOST_AXES = 32  # of a grid; numpy has no more on all versions
_HEADER = {"format", "version", "n_nodes", "n_edge_types", "shape", "offset"}
_HEADER_BYTES = 10_000  # of the largest header that is read: files from strangers are not trusted with memory
_NPY_HEADER = re.compile(
    rb"\{'descr': '[^'\n]{2,20}', 'fortran_order': (True|False), 'shape': \(((0|[1-9]\d{0,18})(,|(, (0|[1-9]\d{0,18})){1,9}))?\), \} *\n"
)


def write(problem: Problem, file: BinaryIO) -> None:
    """Write every field of a problem; equal problems give equal bytes."""
    graph, cliques = problem.graph, problem.cliques
    header = {
        "format": FORMAT,
        "version": VERSION if len(problem.factors) else 1,
        "n_nodes": graph.n_nodes,
        "n_edge_types": graph.n_edge_types,
        "shape": None if graph.shape is None else [int(size) for size in graph.shape],
        "offset": problem.offset,
    }
    arrays = {
        "header": np.frombuffer(json.dumps(header).encode("ascii"), dtype=np.uint8),
        "edges": graph.edges,
        "edge_type": graph.edge_type,
        "unary": problem.unary,
        "tables": problem.tables,
        "edge_table": problem.edge_table,
        "edge_weight": problem.edge_weight,
        "n_states": problem.n_states,
        "clique_ptr": cliques.ptr,
        "clique_nodes": cliques.nodes,
        "clique_weights": cliques.weights,
    }
    if graph.parts is not None:
        arrays["parts"] = graph.parts
    if len(problem.factors):
        arrays |= _factor_arrays(problem.factors)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as member:
                plain = np.ascontiguousarray(array, dtype=_ARRAYS[name][0])
                np.lib.format.write_array(member, plain, version=(1, 0), allow_pickle=False)


def _factor_arrays(factors: Factors) -> dict[str, np.ndarray]:
    """Factors as arrays: function ``i`` has ``function_numbers[ptr[0, i]:ptr[0, i + 1]]`` and ``function_scores[ptr[1, i]:ptr[1, i + 1]]``."""
    codes = [function.encode() for function in factors.functions]
    ptr = np.zeros((2, len(codes) + 1), dtype=np.int64)
    for side in (0, 1):
        np.cumsum([len(code[side]) for code in codes], out=ptr[side, 1:])
    return {
        "factor_ptr": factors.ptr,
        "factor_nodes": factors.nodes,
        "factor_function": factors.number,
        "function_kind": np.array([KINDS.index(type(function)) for function in factors.functions]),
        "function_ptr": ptr,
        "function_numbers": np.concatenate([code[0] for code in codes]),
        "function_scores": np.concatenate([code[1] for code in codes]),
    }


def _factors(arrays: dict[str, np.ndarray], path: str) -> list[tuple[np.ndarray, Function]]:
    """The factors of a file, from a stranger; `Problem` checks the rest."""
    ptr, nodes, number = arrays["factor_ptr"], arrays["factor_nodes"], arrays["factor_function"]
    kind, ends = arrays["function_kind"], arrays["function_ptr"]
    if not (len(ptr) == len(number) + 1 and ptr[0] == 0 and ptr[-1] == len(nodes) and (np.diff(ptr) > 0).all()):
        raise ParseError(
            f"factor_ptr must rise from 0 to the number of factor members, {len(nodes)}, once for each factor.", path
        )
    if len(number) and not (number.min() >= 0 and number.max() < len(kind)):
        raise ParseError(
            f"factor_function names functions from {number.min()} to {number.max()}, but there are {len(kind)}.", path
        )
    sizes = np.array([len(arrays["function_numbers"]), len(arrays["function_scores"])])
    if ends.shape != (2, len(kind) + 1) or (ends[:, 0] != 0).any() or (ends[:, -1] != sizes).any() or (np.diff(ends) < 0).any():
        raise ParseError("function_ptr must rise from 0 to the numbers of whole numbers and of scores.", path)
    functions = []
    for i, which in enumerate(kind.tolist()):
        if which >= len(KINDS):
            raise ParseError(f"function {i} has the kind {which}, this maxsum knows 0 to {len(KINDS) - 1}.", path)
        numbers = arrays["function_numbers"][ends[0, i] : ends[0, i + 1]]
        functions.append(KINDS[which].decode(numbers, arrays["function_scores"][ends[1, i] : ends[1, i + 1]]))
    return [(nodes[ptr[f] : ptr[f + 1]], functions[number[f]]) for f in range(len(number))]


def read(stream: Stream, limits: Limits) -> Problem:
    """Read a ``.npz`` file; see `maxsum.read_problem`."""
    size = size_on_disk(stream)
    if size is None or stream.seekable is None:
        file: BinaryIO = io.BytesIO(stream.read_all(limits.bytes))
    elif size > limits.bytes:
        raise ParseError(f"the file holds {size} bytes, the limit is {limits.bytes}; refused.", stream.path)
    else:
        file = stream.seekable
    try:
        with zipfile.ZipFile(file) as archive:
            arrays = _load(archive, stream.path, limits)
    except ParseError:
        raise
    except Exception as error:  # zipfile has no common base for what broken archives raise
        raise ParseError(f"not a .npz file, or a broken one ({error}).", stream.path) from error
    return _problem(arrays, stream.path)


def _load(archive: zipfile.ZipFile, path: str, limits: Limits) -> dict[str, np.ndarray]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if not info.filename.endswith(".npy") or name not in _ARRAYS:
            raise ParseError(f"the archive holds {shown(info.filename)}, which is no part of a problem; refused.", path)
        if name in members:
            raise ParseError(f"the archive holds {shown(info.filename)} twice.", path)
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ParseError(f"{shown(info.filename)} is encrypted or packed in an unknown way.", path)
        members[name] = info
    if "header" not in members:
        raise ParseError("the archive has no header: it was not written by maxsum's Problem.save.", path)
    _check_header(_member(archive, members["header"], path, _HEADER_BYTES), path)
    wanted = [name for name in _ARRAYS if name not in _OPTIONAL]
    if any(name in members for name in _FACTORS):
        wanted += _FACTORS
    missing = [name for name in wanted if name not in members]
    if missing:
        raise ParseError(f"the archive has no {', '.join(missing)}.", path)
    room = 8 * limits.cells
    arrays = {}
    for name, info in members.items():
        arrays[name] = _member(archive, info, path, room)
        room -= arrays[name].nbytes
    return arrays


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str, room: int) -> np.ndarray:
    """One array, loaded only if its header is as expected and agrees with the size in the archive."""
    name = info.filename.removesuffix(".npy")
    wanted, ndim = _ARRAYS[name]
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        if version != (1, 0):
            raise ParseError(f"{name} has the .npy version {version}, wanted (1, 0).", path)
        (length,) = struct.unpack("<H", member.read(2))
        text = member.read(length)
        if not _NPY_HEADER.fullmatch(text):
            raise ParseError(f"{name} has a .npy header that numpy does not write: {shown(text)}.", path)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(struct.pack("<H", length) + text))
        if dtype != np.dtype(wanted) or fortran or len(shape) != ndim or any(size < 0 for size in shape):
            order = " in Fortran order" if fortran else ""
            raise ParseError(f"{name} has dtype {dtype} and shape {shape}{order}, wanted {wanted} and {ndim} axes.", path)
        size = math.prod(shape) * dtype.itemsize
        if size > room:
            raise ParseError(f"{name} declares shape {shape}, that is {size} bytes, past the limit; refused.", path)
        if info.file_size != member.tell() + size:
            found = info.file_size - member.tell()
            raise ParseError(f"{name} declares shape {shape}, that is {size} bytes, but the archive holds {found}.", path)
        data = member.read(size)
        if len(data) != size or member.read(1):
            raise ParseError(f"{name} has {len(data)} bytes of data, wanted {size}.", path)
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def _check_header(raw: np.ndarray, path: str) -> dict[str, Any]:
    try:
        header = json.loads(raw.tobytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ParseError(f"the header is not JSON ({error}).", path) from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ParseError(f'the header does not say "format": "{FORMAT}": another kind of file?', path)
    version = header.get("version")
    if type(version) is not int or version < 1:
        raise ParseError(f"the header has the version {shown(str(version))}, wanted a number from 1.", path)
    if version > VERSION:
        raise ParseError(
            f"the file has version {version} of the format, this maxsum reads up to {VERSION}; install a newer maxsum.", path
        )
    if set(header) != _HEADER:
        odd = ", ".join(sorted(set(header) ^ _HEADER))
        raise ParseError(f"the header lacks or should not have: {shown(odd)}.", path)
    return header


def _problem(arrays: dict[str, np.ndarray], path: str) -> Problem:
    header = _check_header(arrays["header"], path)
    edges, unary, nodes = arrays["edges"], arrays["unary"], arrays["clique_nodes"]
    n_nodes, n_types, offset = header["n_nodes"], header["n_edge_types"], header["offset"]
    if type(n_nodes) is not int or n_nodes != len(unary):
        raise ParseError(f"the header has n_nodes {shown(str(n_nodes))}, but unary has {len(unary)} rows.", path)
    if type(offset) not in (int, float) or not abs(offset) <= LARGEST:
        raise ParseError(
            f"the header has the offset {shown(str(offset))}, wanted a finite number of at most {LARGEST} in size.", path
        )
    shape = _grid(header["shape"], n_nodes, path)
    if edges.shape[1] != 2:
        raise ParseError(f"edges have shape {edges.shape}, wanted (n_edges, 2).", path)
    checked = Graph.from_edges(edges, n_nodes, arrays["edge_type"])
    if type(n_types) is not int or not checked.n_edge_types <= n_types < 2**31:
        raise ParseError(
            f"the header has n_edge_types {shown(str(n_types))}, wanted {checked.n_edge_types} or more, as edge_type says.",
            path,
        )
    parts = arrays.get("parts")
    if parts is not None and not (len(parts) and parts[0] == 0 and parts[-1] == n_nodes and (np.diff(parts) >= 0).all()):
        raise ParseError(f"parts must rise from 0 to the number of nodes, {n_nodes}.", path)
    graph = Graph(
        n_nodes,
        checked.edges,
        checked.edge_type,
        n_edge_types=n_types,
        shape=shape,
        parts=None if parts is None else parts.astype(np.int64),
    )
    ptr, weights = arrays["clique_ptr"], arrays["clique_weights"]
    if not (len(ptr) and ptr[0] == 0 and ptr[-1] == len(nodes) and (np.diff(ptr) > 0).all()):
        raise ParseError(f"clique_ptr must rise from 0 to the number of clique members, {len(nodes)}.", path)
    if weights.shape != (len(ptr) - 1, unary.shape[1]):
        raise ParseError(f"clique_weights have shape {weights.shape}, wanted ({len(ptr) - 1}, {unary.shape[1]}).", path)
    return Problem(
        graph,
        unary,
        arrays["tables"],
        edge_table=arrays["edge_table"],
        edge_weight=arrays["edge_weight"],
        n_states=arrays["n_states"],
        cliques=Cliques(ptr, nodes, weights),
        offset=offset,
        factors=_factors(arrays, path) if "factor_ptr" in arrays else None,
    )


def _grid(shape: Any, n_nodes: int, path: str) -> tuple[int, ...] | None:
    if shape is None:
        return None
    if not (
        isinstance(shape, list) and 0 < len(shape) <= _MOST_AXES and all(type(size) is int and size >= 0 for size in shape)
    ):
        raise ParseError(
            f"the header has the shape {shown(str(shape))}, wanted the sides of a grid, as [height, width], or null.", path
        )
    if math.prod(shape) != n_nodes:
        raise ParseError(f"the header has the shape {shape}, but {n_nodes} nodes.", path)
    return tuple(shape)
