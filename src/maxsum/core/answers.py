"""Answer files: a labelling, its claims and their proof, for anyone to check against the problem.

An answer is an uncompressed ``.npz`` archive. Reading one trusts nothing: members, types, shapes and index ranges must be
exactly those that the problem calls for, and nothing larger than the file itself is ever allocated.

==================  =====================  ========================================================================
member              type, shape            meaning
==================  =====================  ========================================================================
``answer``          int64, ()              version of the format, 2
``form``            uint8, (n,)            ASCII: ``none``, ``messages``, ``elimination``, ``search`` or ``quadratic``
``solver``          uint8, (n,)            UTF-8: who found it
``score, bound``    float64, ()            the claims
``guarantee``       uint8, (n,)            ASCII: the claim in a word, a `Guarantee` (not in version 1)
``labels``          int32, (N,)            left out if there is no labelling
``edge, clique``    float64                form messages: (2, E, K) and (M, K)
``edge, mu``        float64                form quadratic: (2, E, K) and (N, K)
``nodes``           int32, (N,)            form elimination: the order
``separator_ptr``   int64, (N + 1,)        separator of ``nodes[i]``: ``separators[separator_ptr[i]:separator_ptr[i + 1]]``
``separators``      int32, (n,)
``tables``          float64, (n,)          the separator tables one after another
``parent`` ...      int32, (B,)            form search: ``parent, node, label, relation, message_set`` of the boxes
``ptr``             int64, (S + 1,)        and their messages: set ``s`` has the entries ``ptr[s] .. ptr[s + 1] - 1``
``index, value``    int64, float64, (n,)   of ``index`` and ``value``
==================  =====================  ========================================================================
"""

from __future__ import annotations

import os
import secrets
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .certificate import Certificate, EliminationCertificate, MessageCertificate, SearchCertificate, Verification
from .errors import CertificateError, MaxsumError, ParseError
from .problem import Messages, Problem
from .qp_certificate import QPCertificate
from .result import Guarantee, Result
from .scale import score_rounding
from .validation import LARGEST, as_labels

_VERSION = 2
_COMMON = {"answer", "form", "solver", "score", "bound"}
_SINCE_2 = {"guarantee"}
_BOXES = ("parent", "node", "label", "relation", "message_set")
_FORMS: dict[str, set[str]] = {
    "none": set(),
    "messages": {"edge", "clique"},
    "elimination": {"nodes", "separator_ptr", "separators", "tables"},
    "search": {*_BOXES, "ptr", "index", "value"},
    "quadratic": {"edge", "mu"},
}
_TEXT_LIMIT = 200


@dataclass(frozen=True, eq=False)
class Answer:
    """What an answer file claims, and the certificate that is to prove it.

    Attributes
    ----------
    labels : ndarray of int32, shape (n_nodes,), or None
    score, bound : float
        Claims; ``-inf`` and ``inf`` claim nothing, a bound of ``-inf`` claims infeasibility.
    certificate : Certificate or None
    solver : str
    guarantee : Guarantee or None
        The claim in a word; None in files of version 1.
    """

    labels: np.ndarray | None
    score: float
    bound: float
    certificate: Certificate | None
    solver: str
    guarantee: Guarantee | None = None

    def verify(self, problem: Problem, *, exact: bool = False) -> Verification:
        """Recompute score and bound; `CertificateError` if a claim does not hold. ``exact`` is that of `Certificate.verify`."""
        if self.certificate is not None:
            claims = dict(score=self.score, bound=self.bound, guarantee=self.guarantee)
            return self.certificate.verify(problem, self.labels, **claims, exact=exact)  # type: ignore[arg-type]
        if not np.isposinf(self.bound):
            raise CertificateError(f"the claimed bound is {self.bound}, but the answer holds no certificate.")
        found = -np.inf if self.labels is None else problem.score(self.labels)
        room = score_rounding(problem, self.labels) if self.labels is not None and np.isfinite(found) else 0.0
        if not (self.score == found or abs(self.score - found) <= room):
            raise CertificateError(f"the claimed score is {self.score}, but the labelling has {found}.")
        verified = Verification(found, np.inf, np.inf, optimal=False, infeasible=False)
        if self.guarantee not in (None, Guarantee.none, verified.guarantee):
            raise CertificateError(f"the claim is {str(self.guarantee)!r}, but the answer holds no certificate.")
        return verified


# ---- writing ---------------------------------------------------------------------------------------------------


def save_answer(path: str | Path, result: Result) -> None:
    """Write labelling, claims and certificate of a result, whole or not at all."""
    form, arrays = _certificate_arrays(result.certificate)
    members: dict[str, Any] = {
        "answer": np.int64(_VERSION),
        "form": _encode(form),
        "solver": _encode(result.solver),
        "score": np.float64(result.score),
        "bound": np.float64(result.bound),
        "guarantee": _encode(str(result.guarantee)),
        **arrays,
    }
    if result.labels is not None:
        members["labels"] = np.asarray(result.labels, dtype="<i4")
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file to write the answer to.")
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with open(scratch, "xb") as file:
            np.savez(file, **members)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def _encode(text: str) -> np.ndarray:
    return np.frombuffer(text.encode()[:_TEXT_LIMIT], dtype=np.uint8)


def _certificate_arrays(certificate: Certificate | None) -> tuple[str, dict[str, np.ndarray]]:
    if certificate is None:
        return "none", {}
    if isinstance(certificate, MessageCertificate):
        edge, clique = certificate.messages
        return "messages", {"edge": _doubles(edge), "clique": _doubles(clique)}
    if isinstance(certificate, EliminationCertificate):
        flat = [np.asarray(table, dtype=np.float64).ravel() for table in certificate.tables]
        return "elimination", {
            "nodes": np.array(certificate.nodes, dtype="<i4"),
            "separator_ptr": np.cumsum([0] + [len(s) for s in certificate.separators], dtype="<i8"),
            "separators": np.array([v for s in certificate.separators for v in s], dtype="<i4"),
            "tables": _doubles(np.concatenate(flat) if flat else np.zeros(0)),
        }
    if isinstance(certificate, SearchCertificate):
        return "search", {
            **{name: np.asarray(getattr(certificate, name)).astype("<i4") for name in _BOXES},
            "ptr": np.asarray(certificate.ptr).astype("<i8"),
            "index": np.asarray(certificate.index).astype("<i8"),
            "value": _doubles(certificate.value),
        }
    if isinstance(certificate, QPCertificate):
        return "quadratic", {"edge": _doubles(certificate.reparametrisation.edge), "mu": _doubles(certificate.mu)}
    raise TypeError(f"no file form for a {type(certificate).__name__}.")


def _doubles(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, dtype="<f8")


# ---- reading ---------------------------------------------------------------------------------------------------


def read_answer(path: str | Path, problem: Problem) -> Answer:
    """Read an answer to ``problem``; `ParseError` if the file is broken, hostile or belongs to another problem."""
    where = str(path)
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _Reader(archive, problem).answer()
        except ParseError as error:
            raise ParseError(str(error), where) from None
        except MaxsumError as error:
            raise ParseError(f"{error} Does the answer belong to this problem?", where) from None
        except MemoryError:
            raise
        except Exception as error:  # zipfile and numpy raise a dozen kinds on damaged bytes
            raise ParseError(
                f"not an answer file, or a broken one ({error}); write it with `maxsum solve --out`.", where
            ) from None


class _Reader:
    def __init__(self, archive: zipfile.ZipFile, problem: Problem):
        self.archive, self.problem = archive, problem
        names = [info.filename for info in archive.infolist()]
        if len(names) > 20 or len(set(names)) != len(names):
            raise ParseError(f"the archive lists {len(names)} members, some of them twice or too many; it is no answer.")
        self.names = {name.removesuffix(".npy") for name in names if name.endswith(".npy")}
        if len(self.names) != len(names):
            raise ParseError("the archive holds members that are not .npy arrays; it is no answer.")

    def answer(self) -> Answer:
        if "answer" not in self.names:
            raise ParseError("the archive has no member 'answer'; it is no answer file.")
        version = int(self.array("answer", "<i8", ()))
        if not 1 <= version <= _VERSION:
            way_out = "Upgrade maxsum." if version > _VERSION else "Write the answer again."
            raise ParseError(f"the answer has format version {version}; this maxsum reads versions 1 to {_VERSION}. {way_out}")
        common = _COMMON | _SINCE_2 if version > 1 else _COMMON
        missing = common - self.names
        if missing:
            raise ParseError(f"the answer lacks the member {min(missing)!r}.")
        form = self.text("form")
        if form not in _FORMS:
            raise ParseError(f"the certificate has the form {form!r}, wanted one of {', '.join(_FORMS)}.")
        wanted = common | _FORMS[form]
        for fault, odd in (("lacks", wanted - self.names), ("has the unknown", self.names - wanted - {"labels"})):
            if odd:
                raise ParseError(f"the answer of form {form!r} {fault} member {min(odd)!r}.")
        labels = None
        if "labels" in self.names:
            labels = as_labels(self.array("labels", "<i4", (self.problem.n_nodes,)), self.problem.n_states)
        score, bound = float(self.array("score", "<f8", ())), float(self.array("bound", "<f8", ()))
        if np.isnan(score) or np.isnan(bound) or np.isposinf(score):
            raise ParseError(f"the claims are score {score} and bound {bound}; wanted numbers.")
        word = self.text("guarantee") if version > 1 else None
        if word is not None and word not in list(Guarantee):
            raise ParseError(f"the guarantee is {word!r}, wanted one of {', '.join(Guarantee)}.")
        guarantee = None if word is None else Guarantee(word)
        return Answer(labels, score, bound, self.certificate(form), self.text("solver"), guarantee)

    def certificate(self, form: str) -> Certificate | None:
        if form == "messages":
            empty = self.problem.zero_messages()
            edge, clique = self.array("edge", "<f8", empty.edge.shape), self.array("clique", "<f8", empty.clique.shape)
            return MessageCertificate(self.problem.as_messages((edge, clique)))
        readers = {"elimination": self.elimination, "search": self.search, "quadratic": self.quadratic}
        return readers[form]() if form in readers else None

    def elimination(self) -> EliminationCertificate:
        n = self.problem.n_nodes
        nodes = self.array("nodes", "<i4", (n,))
        if not np.array_equal(np.sort(nodes), np.arange(n)):
            raise ParseError("the elimination order does not list every node once.")
        ptr, flat = self.array("separator_ptr", "<i8", (n + 1,)), self.array("separators", "<i4", (None,))
        if ptr[0] != 0 or ptr[-1] != len(flat) or (np.diff(ptr) < 0).any():
            raise ParseError("separator_ptr does not cut the separators into one piece per node.")
        if len(flat) and (flat.min() < 0 or flat.max() >= n):
            raise ParseError(f"a separator names a node outside 0..{n - 1}.")
        rank = np.empty(n, dtype=np.int64)
        rank[nodes] = np.arange(n)
        values, at = self.array("tables", "<f8", (None,)), 0
        if not (np.isneginf(values) | (np.abs(values) <= LARGEST)).all():
            raise ParseError(f"a separator table holds nan, inf or numbers above {LARGEST} in size.")
        states = self.problem.n_states.tolist()
        separators, tables = [], []
        for i in range(n):
            separator = flat[ptr[i] : ptr[i + 1]].tolist()
            if len(set(separator)) != len(separator) or any(rank[v] <= i for v in separator):
                raise ParseError(f"the separator of node {nodes[i]} repeats a node or names one that is eliminated before.")
            shape, size = [states[v] for v in separator], 1
            for extent in shape:
                size *= extent
            if size > len(values) - at or len(shape) > 60:
                raise ParseError(f"the separator table of node {nodes[i]} is cut short: wanted {size} numbers.")
            separators.append(tuple(separator))
            tables.append(values[at : at + size].reshape(shape))
            at += size
        if at != len(values):
            raise ParseError(f"tables hold {len(values)} numbers, wanted {at}.")
        return EliminationCertificate(tuple(nodes.tolist()), tuple(separators), tuple(tables))

    def search(self) -> SearchCertificate:
        parent = self.array("parent", "<i4", (None,))
        node, label, relation, number = (self.array(name, "<i4", parent.shape) for name in _BOXES[1:])
        ptr, index = self.array("ptr", "<i8", (None,)), self.array("index", "<i8", (None,))
        value = self.array("value", "<f8", index.shape)
        if not len(parent) or len(ptr) < 2:
            raise ParseError("the search has no boxes or no messages.")
        if ((parent[1:] < 0) | (parent[1:] >= np.arange(1, len(parent)))).any():
            raise ParseError("a box of the search comes before its parent.")
        nodes, labels = self.problem.n_nodes, self.problem.n_labels
        if ((node[1:] < 0) | (node[1:] >= nodes) | (label[1:] < -1) | (label[1:] >= labels)).any():
            raise ParseError("a box of the search branches on a node or label that the problem does not have.")
        if ((relation < 0) | (relation > 3) | (number < 0) | (number >= len(ptr) - 1)).any():
            raise ParseError("a box of the search has a relation or message set out of range.")
        if ptr[0] != 0 or ptr[-1] != len(index) or (np.diff(ptr) < 0).any():
            raise ParseError("ptr does not cut the messages of the search into sets.")
        size = sum(part.size for part in self.problem.zero_messages())
        if ((index < 0) | (index >= size)).any() or not (np.abs(value) <= LARGEST).all():
            raise ParseError(f"a message of the search has an index out of range, or is not a number up to {LARGEST} in size.")
        return SearchCertificate(parent, node, label, relation, number, ptr, index, value)

    def quadratic(self) -> QPCertificate:
        n_nodes, n_edges, n_labels = self.problem.n_nodes, self.problem.n_edges, self.problem.n_labels
        edge, mu = self.array("edge", "<f8", (2, n_edges, n_labels)), self.array("mu", "<f8", (n_nodes, n_labels))
        if not (np.abs(edge) <= LARGEST).all() or not np.isfinite(mu).all():
            raise ParseError(f"the messages or the point hold a number that is not finite, or above {LARGEST} in size.")
        return QPCertificate(mu, Messages(edge, np.zeros((0, n_labels))))

    def text(self, name: str) -> str:
        data = self.array(name, "|u1", (None,))
        if len(data) > _TEXT_LIMIT:
            raise ParseError(f"member {name!r} has {len(data)} characters, wanted at most {_TEXT_LIMIT}.")
        text = data.tobytes().decode()
        if not text.isprintable():
            raise ParseError(f"member {name!r} holds characters that cannot be printed.")
        return text

    def array(self, name: str, dtype: str, shape: tuple[int | None, ...]) -> np.ndarray:
        """A member of exactly this type and shape; None leaves an axis free."""
        info = self.archive.getinfo(f"{name}.npy")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise ParseError(f"member {name!r} is compressed or encrypted; answers are stored as they are.")
        with self.archive.open(info) as file:
            if np.lib.format.read_magic(file) != (1, 0):  # type: ignore[no-untyped-call]
                raise ParseError(f"member {name!r} has a .npy version other than 1.0.")
            found, fortran, kind = np.lib.format.read_array_header_1_0(file, max_header_size=1000)  # type: ignore[no-untyped-call]
            if kind != np.dtype(dtype) or kind.hasobject or (fortran and len(found) > 1):
                raise ParseError(f"member {name!r} has type {kind}, wanted {np.dtype(dtype)} in C order.")
            fits = len(found) == len(shape) and all(w is None or f == w for f, w in zip(found, shape, strict=True))
            if not fits:
                wanted = tuple("any" if w is None else w for w in shape)
                raise ParseError(f"member {name!r} has shape {found}, wanted {wanted}. Does the answer belong to this problem?")
            size = kind.itemsize
            for extent in found:
                size *= extent
            if size < 0 or size > info.file_size:
                raise ParseError(f"member {name!r} is cut short: its header says {size} bytes.")
            data = file.read(size + 1)
        if len(data) != size:
            raise ParseError(f"member {name!r} has {len(data)} bytes or more, wanted {size}.")
        return np.frombuffer(data, dtype=kind).reshape(found)
