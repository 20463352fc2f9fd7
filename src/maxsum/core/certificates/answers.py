"""Answer files: a labelling, its claims and their proof, for anyone to check against the problem.

An answer is an ``.npz`` archive whose larger members are not compressed. Reading one trusts nothing: members, types, shapes and
index ranges must be exactly those that the problem calls for, and nothing much larger than the file itself is ever allocated.

==================  =====================  ========================================================================
member              type, shape            meaning
==================  =====================  ========================================================================
``answer``          int64, ()              version of the format, 2; version 1 is read too
``form``            uint8, (n,)            ASCII: ``none``, ``messages``, ``cycles``, ``partial``, ``elimination``, ``search``, ``cores`` or ``quadratic``
``solver``          uint8, (n,)            UTF-8: who found it
``score, bound``    float64, ()            the claims
``guarantee``       uint8, (n,)            ASCII: the claim in a word, a `Guarantee` (not in version 1)
``labels``          int32, (N,)            left out if there is no labelling
``edge, clique``    float64                form messages: (2, E, K) and (M, K)
``factor``          float64, (M, K)        form messages, where the problem has factors: of their members
``cycle_ptr`` ...   int64, (C + 1,)        form cycles, beside edge and clique: cycle ``c`` has the places ``cycle_ptr[c] .. cycle_ptr[c + 1] - 1``
``cycle_edge``      int32, (L,)            edge of each place,
``cycle_turned``    uint8, (L,)            1 if it is gone through from its second node to its first,
``cycle_held``      float64, (L, K, K)     and the part of its table that the cycle has
``part``            int32, (Q,)            form partial, beside all of cycles and elimination: the nodes that the elimination, with their
                                           numbers in this list, is about
``edge, mu``        float64                form quadratic: (2, E, K) and (N, K)
``nodes``           int32, (N,)            form elimination: the order
``separator_ptr``   int64, (N + 1,)        separator of ``nodes[i]``: ``separators[separator_ptr[i]:separator_ptr[i + 1]]``
``separators``      int32, (n,)
``tables``          float64, (n,)          the separator tables one after another
``parent`` ...      integers, (B,)         form search: ``parent, node, label, relation, message_set, passes, effort`` of the
                                           boxes, each in the smallest type that holds it (see `SearchCertificate`)
``ptr``             integers, (S + 1,)     and their messages: set ``s`` has the entries ``ptr[s] .. ptr[s + 1] - 1``
``index, value``    integers, floats, (n,) of ``index`` and ``value`` (float32 or float64)
``level``           float64, ()            gap up to which boxes may be closed
``core_ptr``        int64, (C + 1,)        form cores, beside edge, clique and all of search: core ``c`` has the places ``core_ptr[c] .. core_ptr[c + 1] - 1``
``core_nodes``      int32, (Q,)            of its nodes
``core_labels``     int32, (Q,)            and of its own labelling,
``box_ptr``         int64, (C + 1,)        and the boxes ``box_ptr[c] .. box_ptr[c + 1] - 1``, numbered from its first one on; nodes and entries of messages are
                                           numbered within the core, message sets are not, and ``level`` has the shape (C,)
==================  =====================  ========================================================================

A form with ``lifted-`` before its name is a proof of the problem whose factors are written with extra nodes and edges (`core.factors.lifting`).

In version 1 the form search has no ``passes``, ``effort`` and ``level``, its boxes are int32, its ``ptr`` and ``index`` int64 and its
``value`` float64; the other forms are the same.
"""

from __future__ import annotations

import os
import secrets
import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CertificateError, InfeasibleError, MaxsumError, ParseError, UnsupportedProblemError
from ..factors.lifting import lift
from ..problem import Messages, Problem
from ..result import Guarantee, Result
from ..validation import LARGEST, as_labels
from .base import Certificate, EliminationCertificate, MessageCertificate, Verification
from .cores import Core, CoresCertificate, Cut
from .cycles import CycleCertificate
from .lifted import LiftedCertificate
from .partial import PartialCertificate, split
from .quadratic import QPCertificate
from .scale import score_rounding
from .search.certificate import MAX_EFFORT, MAX_PASSES, SearchCertificate

_VERSION = 2  # of the format of answer files: what is written
_OLD_VERSION = 1  # the oldest that is read
_TEXT_LIMIT = 200  # bytes of a text in an answer, so that a file from a stranger cannot fill a terminal
# Bytes of a member up to which it is deflated: reading one never allocates much more than that beyond the file's size.
_INFLATED = 2**25
_LIFTED = "lifted-"  # before the form of a proof of the lifted problem
_COMMON = {"answer", "form", "solver", "score", "bound"}
_SINCE_2 = {"guarantee"}
_OLD_BOXES = ("parent", "node", "label", "relation", "message_set")
_BOXES = (*_OLD_BOXES, "passes", "effort")
_INTEGERS = ("|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8")
_FORMS: dict[str, set[str]] = {
    "none": set(),
    "messages": {"edge", "clique"},
    "cycles": {"edge", "clique", "cycle_ptr", "cycle_edge", "cycle_turned", "cycle_held"},
    "partial": {
        "edge",
        "clique",
        "cycle_ptr",
        "cycle_edge",
        "cycle_turned",
        "cycle_held",
        "part",
        "nodes",
        "separator_ptr",
        "separators",
        "tables",
    },
    "elimination": {"nodes", "separator_ptr", "separators", "tables"},
    "search": {*_BOXES, "ptr", "index", "value", "level"},
    "cores": {"edge", "clique", "core_ptr", "core_nodes", "core_labels", "box_ptr", *_BOXES, "ptr", "index", "value", "level"},
    "quadratic": {"edge", "mu"},
}
_MOST_MEMBERS = 30  # of an answer: more are not even looked at
_OF_FACTORS = (
    "none",
    "messages",
    "elimination",
    *(_LIFTED + form for form in ("messages", "cycles", "partial", "elimination", "search")),
)


@dataclass(frozen=True, eq=False)
class AnswerClaims:
    """What an answer file claims, and the certificate that is to prove it.

    Attributes
    ----------
    labels : ndarray of int32, shape (n_nodes,), or None
    score, bound : float
        What is claimed; ``-inf`` and ``inf`` claim nothing, a bound of ``-inf`` claims infeasibility.
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
            with zipfile.ZipFile(file, "w") as archive:
                for name, value in members.items():
                    _write(archive, name, np.asarray(value))
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def _write(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    """A member, deflated where a reader will not be afraid of it: whole numbers and zeros, of which many proofs are made, shrink."""
    small = array.nbytes <= _INFLATED
    info = zipfile.ZipInfo(f"{name}.npy")  # the date of a zip's beginning: equal answers are equal files
    info.compress_type = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
    with archive.open(info, "w", force_zip64=not small) as file:
        np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)  # type: ignore[no-untyped-call]


def _encode(text: str) -> np.ndarray:
    return np.frombuffer(text.encode()[:_TEXT_LIMIT], dtype=np.uint8)


def _certificate_arrays(certificate: Certificate | None) -> tuple[str, dict[str, np.ndarray]]:
    if certificate is None:
        return "none", {}
    if isinstance(certificate, MessageCertificate):
        edge, clique, factor = certificate.messages
        more = {"factor": _doubles(factor)} if len(factor) else {}
        return "messages", {"edge": _doubles(edge), "clique": _doubles(clique), **more}
    if isinstance(certificate, CycleCertificate):
        return "cycles", {
            "edge": _doubles(certificate.left_messages.edge),
            "clique": _doubles(certificate.left_messages.clique),
            "cycle_ptr": certificate.ptr.astype("<i8"),
            "cycle_edge": certificate.edge.astype("<i4"),
            "cycle_turned": certificate.turned.astype("|u1"),
            "cycle_held": _doubles(certificate.held),
        }
    if isinstance(certificate, PartialCertificate):
        outer, inner = _certificate_arrays(certificate.outer)[1], _certificate_arrays(certificate.inner)[1]
        return "partial", {**outer, **inner, "part": certificate.part.astype("<i4")}
    if isinstance(certificate, LiftedCertificate):
        form, arrays = _certificate_arrays(certificate.inner)
        return _LIFTED + form, arrays
    if isinstance(certificate, EliminationCertificate):
        flat = [np.asarray(table, dtype=np.float64).ravel() for table in certificate.tables]
        return "elimination", {
            "nodes": np.array(certificate.nodes, dtype="<i4"),
            "separator_ptr": np.cumsum([0] + [len(s) for s in certificate.separators], dtype="<i8"),
            "separators": np.array([v for s in certificate.separators for v in s], dtype="<i4"),
            "tables": _doubles(np.concatenate(flat) if flat else np.zeros(0)),
        }
    if isinstance(certificate, SearchCertificate):
        zero = np.zeros(len(certificate), dtype=np.uint8)
        boxes = {name: getattr(certificate, name) for name in _BOXES}
        value = np.asarray(certificate.value)
        return "search", {
            **{name: _smallest(zero if part is None else part) for name, part in boxes.items()},
            "ptr": _smallest(certificate.ptr),
            "index": _smallest(certificate.index),
            "value": np.ascontiguousarray(value, dtype="<f4" if value.dtype == np.float32 else "<f8"),
            "level": np.array(certificate.level, dtype="<f8"),
        }
    if isinstance(certificate, CoresCertificate):
        return "cores", _cores_arrays(certificate)
    if isinstance(certificate, QPCertificate):
        return "quadratic", {"edge": _doubles(certificate.reparametrisation.edge), "mu": _doubles(certificate.mu)}
    raise TypeError(f"no file form for a {type(certificate).__name__}.")


def _cores_arrays(certificate: CoresCertificate) -> dict[str, np.ndarray]:
    """All searches of cores one after another."""
    cores = certificate.cores
    each = [_certificate_arrays(core.proof)[1] for core in cores]
    sets, entries = (np.cumsum([0] + [len(own[name]) - less for own in each]) for name, less in (("ptr", 1), ("index", 0)))
    for own, first, entry in zip(each, sets.tolist(), entries.tolist(), strict=False):
        number = own["message_set"].astype(np.int64)
        own["message_set"], own["ptr"] = np.where(number < 0, -1, number + first), own["ptr"][:-1].astype(np.int64) + entry
    joined = {name: _joined([own[name] for own in each]) for name in (*_BOXES, "index")}
    value, none = [own["value"] for own in each], np.zeros(0, dtype="<i4")
    return {
        "edge": _doubles(certificate.messages.edge),
        "clique": _doubles(certificate.messages.clique),
        "core_ptr": np.cumsum([0] + [len(core.nodes) for core in cores], dtype="<i8"),
        "core_nodes": np.concatenate([none, *(core.nodes for core in cores)]).astype("<i4"),
        "core_labels": np.concatenate([none, *(core.labels for core in cores)]).astype("<i4"),
        "box_ptr": np.cumsum([0] + [len(own["parent"]) for own in each], dtype="<i8"),
        **joined,
        "ptr": _smallest(np.concatenate([*(own["ptr"] for own in each), entries[-1:]])),
        "value": np.concatenate(value) if value else np.zeros(0, dtype="<f4"),
        "level": np.array([core.proof.level for core in cores], dtype="<f8"),
    }


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return _smallest(np.concatenate([np.zeros(0, dtype="<i8"), *parts]))


def _smallest(numbers: np.ndarray) -> np.ndarray:
    """The numbers as integers of the smallest type that holds them."""
    array = np.asarray(numbers).astype("<i8")
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    return array.astype(next(t for t in _INTEGERS if np.iinfo(t).min <= low and high <= np.iinfo(t).max))


def _doubles(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, dtype="<f8")


# ---- reading ---------------------------------------------------------------------------------------------------


def read_answer(path: str | Path, problem: Problem) -> AnswerClaims:
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
        if len(names) > _MOST_MEMBERS or len(set(names)) != len(names):
            raise ParseError(f"the archive lists {len(names)} members, some of them twice or too many; it is no answer.")
        self.names = {name.removesuffix(".npy") for name in names if name.endswith(".npy")}
        if len(self.names) != len(names):
            raise ParseError("the archive holds members that are not .npy arrays; it is no answer.")

    def answer(self) -> AnswerClaims:
        if "answer" not in self.names:
            raise ParseError("the archive has no member 'answer'; it is no answer file.")
        self.version = int(self.array("answer", "<i8", ()))
        if self.version not in (_OLD_VERSION, _VERSION):
            way_out = "Upgrade maxsum." if self.version > _VERSION else "Write the answer again."
            reads = f"this maxsum reads versions {_OLD_VERSION} and {_VERSION}"
            raise ParseError(f"the answer has format version {self.version}; {reads}. {way_out}")
        common = _COMMON | _SINCE_2 if self.version > _OLD_VERSION else _COMMON
        missing = common - self.names
        if missing:
            raise ParseError(f"the answer lacks the member {min(missing)!r}.")
        given, forms = self.text("form"), _OF_FACTORS if len(self.problem.factors) else tuple(_FORMS)
        if given not in forms:
            raise ParseError(f"the certificate has the form {given!r}, wanted one of {', '.join(forms)}.")
        form, is_lifted = given.removeprefix(_LIFTED), given.startswith(_LIFTED)
        wanted = common | _FORMS[form]
        if form == "messages" and len(self.problem.factors) and not is_lifted:
            wanted.add("factor")
        if form == "search" and self.version == _OLD_VERSION:
            wanted -= {"passes", "effort", "level"}
        for fault, odd in (("lacks", wanted - self.names), ("has the unknown", self.names - wanted - {"labels"})):
            if odd:
                raise ParseError(f"the answer of form {form!r} {fault} member {min(odd)!r}.")
        labels = None
        if "labels" in self.names:
            labels = as_labels(self.array("labels", "<i4", (self.problem.n_nodes,)), self.problem.n_states)
        score, bound = float(self.array("score", "<f8", ())), float(self.array("bound", "<f8", ()))
        if np.isnan(score) or np.isnan(bound) or np.isposinf(score):
            raise ParseError(f"the claims are score {score} and bound {bound}; wanted numbers.")
        word = self.text("guarantee") if self.version > _OLD_VERSION else None
        if word is not None and word not in list(Guarantee):
            raise ParseError(f"the guarantee is {word!r}, wanted one of {', '.join(Guarantee)}.")
        guarantee = None if word is None else Guarantee(word)
        if is_lifted:
            try:
                self.problem = lift(self.problem).problem
            except (InfeasibleError, UnsupportedProblemError) as error:
                raise ParseError(f"the certificate has the form {given!r}, which this problem cannot have: {error}") from None
        certificate = self.certificate(form)
        if is_lifted and certificate is not None:
            certificate = LiftedCertificate(certificate)
        return AnswerClaims(labels, score, bound, certificate, self.text("solver"), guarantee)

    def certificate(self, form: str) -> Certificate | None:
        if form == "messages":
            empty = self.problem.zero_messages()
            parts = [self.array(name, "<f8", getattr(empty, name).shape) for name in ("edge", "clique")]
            if len(self.problem.factors):
                parts.append(self.array("factor", "<f8", empty.factor.shape))
            return MessageCertificate(self.problem.as_messages(tuple(parts)))
        readers = {
            "cycles": self.cycles,
            "partial": self.partial,
            "elimination": self.elimination,
            "search": self.search,
            "cores": self.cores,
            "quadratic": self.quadratic,
        }
        return readers[form]() if form in readers else None

    def cycles(self) -> CycleCertificate:
        empty, k = self.problem.zero_messages(), self.problem.n_labels
        messages = self.problem.as_messages(
            tuple(self.array(name, "<f8", getattr(empty, name).shape) for name in ("edge", "clique"))
        )
        ptr, edge = self.array("cycle_ptr", "<i8", (None,)), self.array("cycle_edge", "<i4", (None,))
        turned, held = self.array("cycle_turned", "|u1", edge.shape), self.array("cycle_held", "<f8", (len(edge), k, k))
        certificate = CycleCertificate(messages, ptr, edge, turned, held)
        certificate.check(self.problem)
        return certificate

    def partial(self) -> PartialCertificate:
        outer, part, whole = self.cycles(), self.array("part", "<i4", (None,)).astype(np.int64), self.problem
        self.problem = split(whole, outer, part).part
        try:
            return PartialCertificate(outer, part, self.elimination())
        finally:
            self.problem = whole

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
        old = self.version == _OLD_VERSION
        level = 0.0 if old else float(self.array("level", "<f8", ()))
        boxes, ptr, index, value = self.boxes(old)
        return self.tree(boxes, ptr, index, value, level)

    def boxes(self, old: bool) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of all boxes, and their messages."""
        small, large = ("<i4", "<i8") if old else (_INTEGERS, _INTEGERS)
        parent = self.array("parent", small, (None,))
        boxes = [parent] + [self.array(name, small, parent.shape) for name in (_OLD_BOXES if old else _BOXES)[1:]]
        ptr, index = self.array("ptr", large, (None,)).astype(np.int64), self.array("index", large, (None,))
        return boxes, ptr, index, self.array("value", "<f8" if old else ("<f4", "<f8"), index.shape)

    def tree(
        self, boxes: list[np.ndarray], ptr: np.ndarray, index: np.ndarray, value: np.ndarray, level: float
    ) -> SearchCertificate:
        """The search of these boxes, once all of its numbers are known to be in range."""
        old = self.version == _OLD_VERSION
        parent, node, label, relation, number, *rest = boxes
        if not len(parent) or len(ptr) < 2 or not 0 <= level < np.inf:
            raise ParseError("the search has no boxes, no messages, or a level that is not a number from 0 on.")
        if ((parent[1:] < 0) | (parent[1:] >= np.arange(1, len(parent)))).any():
            raise ParseError("a box of the search comes before its parent.")
        nodes, labels = self.problem.n_nodes, self.problem.n_labels
        if ((node[1:] < 0) | (node[1:] >= nodes) | (label[1:] < -1) | (label[1:] >= labels)).any():
            raise ParseError("a box of the search branches on a node or label that the problem does not have.")
        if ((relation < 0) | (relation > 3) | (number < (0 if old else -1)) | (number >= len(ptr) - 1)).any():
            raise ParseError("a box of the search has a relation or message set out of range.")
        if ptr[0] != 0 or ptr[-1] != len(index) or (np.diff(ptr) < 0).any():
            raise ParseError("ptr does not cut the messages of the search into sets.")
        passes, effort = (None, None) if old else rest
        if any(((part < 0) | (part > most)).any() for part, most in zip(rest, (MAX_PASSES, MAX_EFFORT), strict=not old)):
            raise ParseError(f"a box of the search has more than {MAX_PASSES} passes or an effort above {MAX_EFFORT}.")
        size = sum(part.size for part in self.problem.zero_messages())
        if ((index < 0) | (index >= size)).any() or not (np.abs(value.astype(float)) <= LARGEST).all():
            raise ParseError(f"a message of the search has an index out of range, or is not a number up to {LARGEST} in size.")
        return SearchCertificate(
            parent, node, label, relation, number, ptr, index, value, passes=passes, effort=effort, level=level
        )

    def cores(self) -> CoresCertificate:
        empty, whole = self.problem.zero_messages(), self.problem
        pair = tuple(self.array(name, "<f8", getattr(empty, name).shape) for name in ("edge", "clique"))
        messages = whole.as_messages(pair)
        boxes, ptr, index, value = self.boxes(False)
        core_ptr, nodes = self.array("core_ptr", "<i8", (None,)), self.array("core_nodes", "<i4", (None,)).astype(np.int64)
        labels, n_cores = self.array("core_labels", "<i4", nodes.shape), len(core_ptr) - 1
        box_ptr, level = self.array("box_ptr", "<i8", core_ptr.shape), self.array("level", "<f8", (n_cores,))
        for cuts, size in ((core_ptr, len(nodes)), (box_ptr, len(boxes[0])), (ptr, len(index))):
            if not len(cuts) or cuts[0] != 0 or cuts[-1] != size or (np.diff(cuts) < 0).any():
                raise ParseError("nodes, boxes and messages are not cut into one piece per core.")
        pieces = [slice(*ends) for ends in pairwise(core_ptr.tolist())]
        cut, number, cores = Cut(whole, messages, [nodes[piece] for piece in pieces]), boxes[4], []
        if ((number < -1) | (number >= len(ptr) - 1)).any():
            raise ParseError("a box of the search has a message set out of range.")
        for c, (piece, ends) in enumerate(zip(pieces, pairwise(box_ptr.tolist()), strict=True)):
            mine = [part[slice(*ends)] for part in boxes]
            own = mine[4][mine[4] >= 0]
            if not len(own):
                raise ParseError(f"core {c} has no messages.")
            first, last = int(own.min()), int(own.max())
            mine[4] = np.where(mine[4] < 0, -1, mine[4].astype(np.int64) - first)
            entries = slice(ptr[first], ptr[last + 1])
            self.problem = cut.problems[c]
            try:
                tree = self.tree(mine, ptr[first : last + 2] - ptr[first], index[entries], value[entries], float(level[c]))
                cores.append(Core(nodes[piece], as_labels(labels[piece], self.problem.n_states), tree))
            finally:
                self.problem = whole
        return CoresCertificate(messages, tuple(cores))

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

    def array(self, name: str, dtype: str | tuple[str, ...], shape: tuple[int | None, ...]) -> np.ndarray:
        """A member of exactly this type (or one of these) and shape; None leaves an axis free."""
        info = self.archive.getinfo(f"{name}.npy")
        deflated = info.compress_type == zipfile.ZIP_DEFLATED
        if not (deflated or info.compress_type == zipfile.ZIP_STORED) or info.flag_bits & 1:
            raise ParseError(f"member {name!r} is encrypted, or compressed in another way than by deflating.")
        with self.archive.open(info) as file:
            if np.lib.format.read_magic(file) != (1, 0):  # type: ignore[no-untyped-call]
                raise ParseError(f"member {name!r} has a .npy version other than 1.0.")
            found, fortran, kind = np.lib.format.read_array_header_1_0(file, max_header_size=1000)  # type: ignore[no-untyped-call]
            kinds = [np.dtype(one) for one in ((dtype,) if isinstance(dtype, str) else dtype)]
            if kind not in kinds or kind.hasobject or (fortran and len(found) > 1):
                raise ParseError(f"member {name!r} has type {kind}, wanted {' or '.join(map(str, kinds))} in C order.")
            fits = len(found) == len(shape) and all(w is None or f == w for f, w in zip(found, shape, strict=True))
            if not fits:
                wanted = tuple("any" if w is None else w for w in shape)
                raise ParseError(f"member {name!r} has shape {found}, wanted {wanted}. Does the answer belong to this problem?")
            size = kind.itemsize
            for extent in found:
                size *= extent
            if size < 0 or size > info.file_size:
                raise ParseError(f"member {name!r} is cut short: its header says {size} bytes.")
            if deflated and size > _INFLATED:
                raise ParseError(
                    f"member {name!r} would be inflated to {size} bytes, wanted at most {_INFLATED}; store it as it is."
                )
            data = file.read(size + 1)
        if len(data) != size:
            raise ParseError(f"member {name!r} has {len(data)} bytes or more, wanted {size}.")
        return np.frombuffer(data, dtype=kind).reshape(found)
