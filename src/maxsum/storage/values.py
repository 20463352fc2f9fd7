"""Values as JSON and arrays, and back: numbers, text, arrays, and records of classes that are listed here; nothing else."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from ..core.errors import ModelFileError
from ..learning.registry import LEARNERS

_SHORT = 16  # items of a list up to which the header holds them, where people can read them; longer ones are arrays
_WIDE = 2**20  # bytes of an array of words up to which its width is kept: a file cannot ask for more than 1 MB so
_RECORDS = {
    "core.transitions": "Neighbours",
    "inference.registry": (
        "AlphaExpansion AugmentingDAG BranchAndBound ConvexBP DualDecomposition Exhaustive ICM JunctionTree LPFinisher LinearProgram "
        "LocalSearch MaxFlow QPRelaxation TRWS Toulbar2 TreeDP"
    ),
    "learning": " ".join(LEARNERS),
    "learning.certificate": "DualCertificate",
    "learning.dual.pseudo_marginals": "MarginalCertificate",
    "learning.objectives.smooth": "GradientCertificate",
    "learning.penalties.hinge": "PenalisedCertificate",
    "learning.penalties.objective": "PenaltyCertificate",
    "learning.streams": "StreamCertificate",
    "learning.oracles.relaxed": "Relaxed",
    "learning.objectives.smoothed": "SmoothedCertificate",
    "losses": "Hamming TableLoss ZeroOne",
    "models": "Codes Convex Dense Dicts Hashed Kernel KernelMap Matting PixelTests Sparse Trees",
    "models.scaling": "Scaling",
    "models.trees": "FeatureTests Tree TreeFeatures",
    "storage.values": "LeftOut",
}
_HOME = {name: module for module, names in _RECORDS.items() for name in names.split()}


@dataclass(frozen=True)
class LeftOut:
    """Stands for a training parameter that a model file cannot hold, such as a function; training with it is refused."""

    kind: str

    def __repr__(self) -> str:
        return f"<left out of the model file: {self.kind}>"


class Writer:
    """Turns values into JSON; large parts become named arrays.

    Attributes
    ----------
    arrays : dict of ndarray
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def value(self, value: Any, name: str) -> Any:
        """JSON of a value; ``name`` says where it comes from, and names its arrays."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (str, PurePath)):
            return str(value)
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return {"scalar": value.dtype.str, "value": self.value(value.item(), name)}
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, name)
        if isinstance(value, (list, tuple)):
            return self._sequence(value, name)
        if isinstance(value, Mapping):
            return {
                "dict": [
                    [self.value(k, f"{name}.{i}.key"), self.value(v, f"{name}.{i}")] for i, (k, v) in enumerate(value.items())
                ]
            }
        if is_dataclass(value) and not isinstance(value, type) and _record(type(value).__name__) is type(value):
            own = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            return {"record": type(value).__name__, "fields": {key: self.value(v, f"{name}.{key}") for key, v in own.items()}}
        raise ModelFileError(
            f"{name} is {_kind(value)}, which a model file does not hold; wanted numbers, text, tuples of them, arrays, or objects of "
            "maxsum: a file must not bring code of its own. Replace it by a name or a number, or keep the estimator with pickle."
        )

    def _array(self, value: np.ndarray, name: str) -> Any:
        if value.dtype.kind in "biuf":
            return self._put(value, name)
        if value.ndim == 1 and value.dtype.kind == "U":
            kept = value.dtype.str[1:] if value.nbytes <= _WIDE else None
            return {"words": self.value(value.tolist(), name), "type": kept}
        if value.ndim == 1 and value.dtype.kind == "O":
            return {"objects": [self.value(own, f"{name}.{i}") for i, own in enumerate(value)]}
        raise ModelFileError(
            f"{name} is an array of {value.dtype} and shape {value.shape}; wanted numbers, or a list of texts."
        )

    def _sequence(self, value: Any, name: str) -> Any:
        kind = "tuple" if isinstance(value, tuple) else "list"
        if len(value) > _SHORT and all(type(own) is str for own in value):
            coded = [own.encode("utf-8", "surrogatepass") for own in value]
            text = np.frombuffer(b"".join(coded), dtype=np.uint8)
            return {"texts": self._rows(text, [len(own) for own in coded], name), "as": kind}
        rows = [own for own in value if isinstance(own, np.ndarray) and own.ndim == 1 and own.dtype.kind in "biuf"]
        if len(value) > _SHORT and len(rows) == len(value) and len({own.dtype for own in rows}) == 1:
            return {"rows": self._rows(np.concatenate(rows), [len(own) for own in rows], name), "as": kind}
        items = [self.value(own, f"{name}.{i}") for i, own in enumerate(value)]
        return items if kind == "list" else {"tuple": items}

    def _rows(self, flat: np.ndarray, sizes: list[int], name: str) -> list[Any]:
        return [self._put(flat, name), self._put(np.cumsum(sizes, dtype=np.int64), f"{name}.ends")]

    def _put(self, array: np.ndarray, name: str) -> dict[str, Any]:
        """The order in memory is kept, as the last digits of matrix products depend on it."""
        own = name
        while own in self.arrays:
            own += "'"
        turned = array.flags.f_contiguous and not array.flags.c_contiguous
        self.arrays[own] = array.T if turned else array
        return {"array": own, "turned": True} if turned else {"array": own}


class Reader:
    """Turns JSON and arrays of a file back into values; what is not of that form raises ValueError, KeyError or TypeError."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self.arrays = arrays

    def value(self, given: Any) -> Any:
        """The value that `Writer.value` was given."""
        if given is None or isinstance(given, (bool, int, float, str)):
            return given
        if isinstance(given, list):
            return [self.value(own) for own in given]
        if "array" in given:
            array = self.arrays[given["array"]]
            return array.T if given.get("turned") is True else array
        if "float" in given:
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[given["float"]]
        if "scalar" in given:
            dtype = np.dtype(str(given["scalar"]))
            if dtype.kind not in "biuf":
                raise ValueError(f"a scalar of type {dtype}")
            return dtype.type(_number(self.value(given["value"])))
        if "tuple" in given:
            return tuple(self.value(own) for own in _listed(given["tuple"]))
        if "texts" in given:
            flat, ends = self._rows(given["texts"], np.uint8)
            coded = flat.tobytes()
            return _as(given["as"], (coded[a:b].decode("utf-8", "surrogatepass") for a, b in ends))
        if "rows" in given:
            flat, ends = self._rows(given["rows"], None)
            return _as(given["as"], (flat[a:b].copy() for a, b in ends))
        if "words" in given:
            return _words(self.value(given["words"]), given["type"])
        if "objects" in given:
            items = [self.value(own) for own in _listed(given["objects"])]
            out = np.empty(len(items), dtype=object)
            for i, own in enumerate(items):
                out[i] = own
            return out
        if "dict" in given:
            return {self.value(key): self.value(own) for key, own in _listed(given["dict"])}
        record = _record(given["record"])
        if record is None:
            raise ValueError(f"a record of the unknown class {given['record']!r}")
        return record(**{str(key): self.value(own) for key, own in given["fields"].items()})

    def _rows(self, given: Any, dtype: Any) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """Flat items, and where each row starts and ends."""
        flat, ends = (self.value(own) for own in given)
        steps = np.diff(ends, prepend=0)
        if flat.ndim != 1 or ends.ndim != 1 or ends.dtype.kind != "i" or (steps < 0).any() or (ends[-1:] != len(flat)).any():
            raise ValueError("rows that do not end where their items do")
        if dtype is not None and flat.dtype != dtype:
            raise ValueError(f"text of type {flat.dtype}")
        return flat, list(zip((ends - steps).tolist(), ends.tolist(), strict=True))


def _words(items: Any, kind: Any) -> np.ndarray:
    if not isinstance(items, list) or not all(isinstance(own, str) for own in items):
        raise ValueError("words that are not text")
    if kind is None:
        return np.array(items, dtype=str)
    width = int(str(kind).removeprefix("U"))
    longest = max((len(own) for own in items), default=0)
    if not longest <= width or 4 * width * len(items) > _WIDE:
        raise ValueError(f"{len(items)} words of at most {width} letters")
    return np.array(items, dtype=f"<U{width}")


def _as(kind: Any, items: Any) -> Any:
    return tuple(items) if kind == "tuple" else list(items)


def _listed(given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise TypeError(f"a {type(given).__name__} where a list belongs")
    return given


def _number(given: Any) -> Any:
    if not isinstance(given, (bool, int, float)):
        raise TypeError(f"a {type(given).__name__} where a number belongs")
    return given


def _record(name: Any) -> Any:
    """The class of a name that may stand in a file, or None."""
    if name not in _HOME:
        return None
    return getattr(importlib.import_module(f"maxsum.{_HOME[name]}"), name)


def _kind(value: Any) -> str:
    if callable(value):
        return f"the function {getattr(value, '__name__', type(value).__name__)!r}"
    return f"{type(value).__name__} {value!r:.80}"


def described(value: Any) -> LeftOut:
    """What stands for a value that is left out."""
    name = getattr(value, "__name__", None)
    return LeftOut(f"{type(value).__name__} {name}" if name else type(value).__name__)


def noted(notes: dict[str, Any] | None) -> dict[str, Any] | None:
    """Notes, if JSON gives them back unchanged."""
    try:
        if json.loads(json.dumps(notes, allow_nan=False)) == notes and (notes is None or isinstance(notes, dict)):
            return notes
        fault = "they would not be read back the same"
    except (TypeError, ValueError, RecursionError) as error:
        fault = str(error)
    raise ModelFileError(f"the notes cannot be kept ({fault}); wanted a dict of text, finite numbers, None, lists and dicts.")
