"""Check answers and models of maxsum without maxsum: this file needs Python and numpy, and nothing else.

    python check_maxsum.py PROBLEM.npz ANSWER.npz
    python check_maxsum.py MODEL DATA

Every claim of the second file (of the model) is recomputed and compared, a line each. The exit code is 0 if all hold, 1 if one does
not, 2 if a file cannot be read or holds a form of proof that is not checked here. File formats and mathematics are in
docs/certificates.md; sections of it are named below. Floats are dyadic rationals, so all sums are taken in whole numbers, times a power
of two: nothing is rounded. Float arithmetic only says, with its error, which entries can be the largest of many.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

EPS = 2.0**-52
TINY = 2.0**-1000  # larger than what underflow can take from a product
LARGEST = 1e100  # sums of larger numbers may overflow
TOLERANCE = 1e-9  # of the variation of a score (of an objective): the gap that still counts as none
CELLS = 1 << 20  # entries of tables that are in memory at once
Value = Fraction | float  # a float only for inf and -inf


class Unreadable(Exception):
    """The file is broken, does not belong to the other one, or holds a form that is not checked here."""


class Claim(NamedTuple):
    """A line of the report; ``holds`` is None if this file can neither confirm nor refute it."""

    name: str
    claimed: str
    found: str
    holds: bool | None


def need(condition: Any, words: str) -> None:
    if not condition:
        raise Unreadable(words)


# ---- exact numbers -------------------------------------------------------------------------------------------------


def shift_of(*arrays: Any) -> int:
    """A number of bits s such that every finite number, times 2**s, is whole."""
    low = 0
    for array in arrays:
        used = np.asarray(array, dtype=np.float64)
        used = used[np.isfinite(used) & (used != np.floor(used))]
        if used.size:
            low = min(low, int(np.frexp(np.abs(used).min())[1]) - 53)
    return -low


def whole(values: Any, shift: int) -> np.ndarray:
    """An array of finite floats times 2**shift, as Python integers."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    up = np.maximum(exponent.astype(np.int64) - 53 + shift, -53)
    digits = np.ldexp(mantissa, (53 + np.minimum(up, 0)).astype(np.int32))  # up to 53 of them, and whole by the choice of shift
    return np.left_shift(digits.astype(np.int64).astype(object), np.maximum(up, 0).astype(object))


def spread(ptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions ``ptr[r] .. ptr[r + 1] - 1`` of all rows one after another, and how many each row has."""
    count = ptr[rows + 1] - ptr[rows]
    start = np.cumsum(count) - count
    return np.repeat(ptr[rows] - start, count) + np.arange(int(count.sum())), count


def fold(items: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Sums of runs of ``count`` items each; a run of none is 0."""
    total = np.zeros(len(count), dtype=object)
    some = count > 0
    if some.any():
        total[some] = np.add.reduceat(items, (np.cumsum(count) - count)[some])
    return total


def row_maxima(value: np.ndarray, error: np.ndarray, exact: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Exact maximum of each row, from approximate values with their errors; every row has a finite entry."""
    row, cell = np.nonzero(value + error >= (value - error).max(axis=1, keepdims=True))
    first = np.flatnonzero(np.diff(row, prepend=-1))
    return np.maximum.reduceat(exact(row, cell), first) if len(row) else np.zeros(0, dtype=object)


class Sums:
    """Scores of items and cells: sum over the features f of an item of ``val * weight[index[f, cell]]``.

    Index -1 counts nothing, -2 forbids the cell.
    """

    def __init__(self, ptr: Any, col: Any, val: Any, index: Any, weight: Any):
        self.ptr, self.col, self.val, self.weight = ptr, col, val, weight
        self.cells = math.prod(index.shape[1:])
        self.index = index.reshape(len(index), self.cells)
        self.shifts = shift_of(val), shift_of(weight)
        self.shift = sum(self.shifts)

    def rows(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Approximate scores (len(items), cells), and a bound on their errors."""
        count, start = self.ptr[items + 1] - self.ptr[items], self.ptr[items]
        value = np.zeros((len(items), self.cells))
        size = np.zeros_like(value)
        for i in range(int(count.max(initial=0))):
            some = np.flatnonzero(count > i)
            at = start[some] + i
            index = self.index[self.col[at]]
            term = self.val[at, None] * np.where(index >= 0, self.weight[index], 0.0)
            value[some] += np.where(index == -2, -np.inf, term)
            size[some] += np.abs(np.where(np.isfinite(term), term, 0.0))
        return value, (count[:, None] + 2) * EPS * size + TINY

    def exact(self, items: np.ndarray, cells: np.ndarray, shift: int) -> np.ndarray:
        """The scores of some cells that are not forbidden, times 2**shift."""
        at, count = spread(self.ptr, items)
        index = self.index[self.col[at], np.repeat(cells, count)]
        used = index >= 0
        parts = np.zeros(len(at), dtype=object)
        parts[used] = whole(self.val[at[used]], self.shifts[0]) * whole(self.weight[index[used]], self.shifts[1])
        return np.left_shift(fold(parts, count), shift - self.shift)

    def add_to(self, total: np.ndarray, items: np.ndarray, cells: np.ndarray, mass: np.ndarray) -> None:
        """Add whole numbers ``mass`` of the features of some cells to their weights, times 2**shifts[0]: the adjoint of `exact`."""
        at, count = spread(self.ptr, items)
        index = self.index[self.col[at], np.repeat(cells, count)]
        used = index >= 0
        np.add.at(total, index[used], (whole(self.val[at], self.shifts[0]) * np.repeat(mass, count))[used])


class Terms:
    """Node, edge and clique terms with what certificates need of them (section "The problem")."""

    def __init__(
        self, edges: np.ndarray, node: Sums, edge: Sums, cliques: tuple[np.ndarray, np.ndarray, Sums], has: np.ndarray
    ):
        self.edges, self.node, self.edge = edges, node, edge
        self.clique_ptr, self.members, self.reward = cliques
        self.has = has  # (N, K): labels that a node has
        self.n_nodes, self.size = has.shape
        self.q, self.q_error = node.rows(np.arange(self.n_nodes))
        self.allowed = has & ~np.isneginf(self.q)
        self.ends = np.concatenate([edges[:, 0], edges[:, 1], self.members]).astype(np.int64)
        self.order = np.argsort(self.ends, kind="stable")
        self.degree = np.bincount(self.ends, minlength=self.n_nodes)
        self.at = np.concatenate([[0], np.cumsum(self.degree)])
        self.shift = max(node.shift, edge.shift, self.reward.shift)
        self.hard: list[tuple[np.ndarray, np.ndarray]] | None = None
        self.kept: list[np.ndarray] | None = None

    def chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Numbers of edges, with their tables (n, K, K) and errors."""
        step = max(1, CELLS // max(1, self.size**2))
        for start in range(0, len(self.edges), step):
            part = np.arange(start, min(start + step, len(self.edges)))
            if self.kept is None or len(part) < len(self.edges):
                shape = (len(part), self.size, self.size)
                self.kept = [own.reshape(shape) for own in self.edge.rows(part)]
            yield part, self.kept[0], self.kept[1]

    def arc_consistent(self, domain: np.ndarray) -> np.ndarray:
        """Section "Arc consistency": labels without a partner at some edge go, until none does."""
        domain, (u, v) = domain.copy(), self.edges.T
        if self.hard is None:
            self.hard = [(part[some], ~np.isneginf(value[some])) for part, value, _ in self.chunks()
                         for some in [np.isneginf(value).any(axis=(1, 2))] if some.any()]  # fmt: skip
        while True:
            before = domain.copy()
            for part, fits in self.hard:
                pair = fits & domain[u[part], :, None] & domain[v[part], None, :]
                np.logical_and.at(domain, u[part], pair.any(axis=2))
                np.logical_and.at(domain, v[part], pair.any(axis=1))
            if (before == domain).all():
                return domain

    def thetas(self, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Approximate reparametrised node scores with errors; a row of messages (K) for each entry of ``ends``."""
        value, size = self.q.copy(), np.where(self.allowed, np.abs(self.q), 0.0)
        np.subtract.at(value, self.ends, messages)
        np.add.at(size, self.ends, np.abs(messages))
        return value, self.q_error + (self.degree[:, None] + 2) * EPS * size + TINY

    def theta_exact(self, v: np.ndarray, k: np.ndarray, messages: np.ndarray, shift: int) -> np.ndarray:
        at, count = spread(self.at, v)
        sent = fold(whole(messages[self.order[at], np.repeat(k, count)], shift), count)
        return self.node.exact(v, k, shift) - sent

    def tables(self, messages: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Reparametrised tables as `chunks`."""
        for part, value, error in self.chunks():
            first, second = messages[part][:, :, None], messages[len(self.edges) + part][:, None, :]
            table = value + first + second
            size = np.where(np.isfinite(value), np.abs(value), 0.0) + np.abs(first) + np.abs(second)
            yield part, table, error + 4 * EPS * size

    def maxima(self, messages: np.ndarray, domain: np.ndarray) -> tuple[Any, Any, Any, int] | None:
        """Exact maxima of all nodes, edges and cliques over a domain, and their shift; None if there is no labelling in it."""
        shift, n_edges = max(self.shift, shift_of(messages)), len(self.edges)
        if not domain.any(axis=1).all():
            return None
        value, error = self.thetas(messages)
        node = row_maxima(np.where(domain, value, -np.inf), error, lambda v, k: self.theta_exact(v, k, messages, shift))
        edge = np.zeros(n_edges, dtype=object)
        for part, table, wrong in self.tables(messages):
            u, v = self.edges[part].T
            table = np.where(domain[u][:, :, None] & domain[v][:, None, :], table, -np.inf).reshape(len(part), -1)
            if np.isneginf(table.max(axis=1)).any():
                return None

            def exact(row: np.ndarray, cell: np.ndarray, part: np.ndarray = part) -> np.ndarray:
                e, (k, m) = part[row], np.divmod(cell, self.size)
                sent = whole(messages[e, k], shift) + whole(messages[n_edges + e, m], shift)
                return self.edge.exact(e, cell, shift) + sent

            edge[part] = row_maxima(table, wrong.reshape(len(part), -1), exact)
        return node, edge, self.clique_maxima(messages[2 * n_edges :], domain, shift), shift

    def clique_maxima(self, messages: np.ndarray, domain: np.ndarray, shift: int) -> np.ndarray:
        """The larger of the best without the reward and the best with it, for each clique."""
        top = np.zeros(len(self.clique_ptr) - 1, dtype=object)
        for c in range(len(top)):
            part = slice(self.clique_ptr[c], self.clique_ptr[c + 1])
            psi, own = whole(messages[part], shift), domain[self.members[part]]
            together = np.flatnonzero(own.all(axis=0))
            reward = self.reward.exact(np.full(len(together), c), together, shift)
            best = [sum(max(row[mask]) for row, mask in zip(psi, own, strict=True))]
            top[c] = max(best + (reward + psi[:, together].sum(axis=0)).tolist())
        return top

    def values(self, y: np.ndarray) -> tuple[Any, Any, Any] | None:
        """Exact terms of a labelling, times 2**shift; None if it uses something forbidden."""
        nodes, e = np.arange(self.n_nodes), np.arange(len(self.edges))
        cell = y[self.edges[:, 0]].astype(np.int64) * self.size + y[self.edges[:, 1]]
        forbidden = any(np.isneginf(value.reshape(len(part), -1)[np.arange(len(part)), cell[part]]).any()
                        for part, value, _ in self.chunks())  # fmt: skip
        if forbidden or not self.allowed[nodes, y].all():
            return None
        ptr, agree = self.clique_ptr, np.zeros(0, dtype=np.int64)
        clique = np.zeros(len(ptr) - 1, dtype=object)
        if len(clique):
            low = np.minimum.reduceat(y[self.members], ptr[:-1])
            agree = np.flatnonzero(low == np.maximum.reduceat(y[self.members], ptr[:-1]))
            clique[agree] = self.reward.exact(agree, low[agree].astype(np.int64), self.shift)
        return self.node.exact(nodes, y.astype(np.int64), self.shift), self.edge.exact(e, cell, self.shift), clique


# ---- problems and answers ------------------------------------------------------------------------------------------

PROBLEM = {
    "header": "u1:1", "edges": "i4:2", "edge_type": "i4:1", "parts": "i8:1", "unary": "f8:2", "tables": "f8:3", "edge_table": "i4:1",
    "edge_weight": "f8:1", "n_states": "i4:1", "clique_ptr": "i8:1", "clique_nodes": "i4:1", "clique_weights": "f8:2",
}  # fmt: skip
COMMON = {
    "answer": "i8:0",
    "form": "u1:1",
    "solver": "u1:1",
    "score": "f8:0",
    "bound": "f8:0",
    "labels": "i4:1",
    "guarantee": "u1:1",
}
RECIPE = {"passes": "i8:1", "effort": "i8:1", "level": "f8:0"}  # from version 2 on
BOXES = ("parent", "node", "label", "relation", "message_set")
FORMS = {
    "none": {},
    "messages": {"edge": "f8:3", "clique": "f8:2"},
    "elimination": {"nodes": "i4:1", "separator_ptr": "i8:1", "separators": "i4:1", "tables": "f8:1"},
    "search": {**dict.fromkeys(BOXES, "i8:1"), "ptr": "i8:1", "index": "i8:1", "value": "f8:1", **RECIPE},
    "quadratic": {"edge": "f8:3", "mu": "f8:2"},
}


def read_npz(path: str) -> dict[str, np.ndarray]:
    """The arrays of an archive, without pickle; nothing is executed."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            need(len(set(names)) == len(names) and all(name.endswith(".npy") for name in names), f"{path} holds odd members.")
            found = {}
            for name in names:
                with archive.open(name) as file:
                    found[name.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
            return found
    except Unreadable:
        raise
    except Exception as error:  # zipfile and numpy raise a dozen kinds on damaged bytes
        raise Unreadable(f"{path} is no archive of arrays, or a broken one ({error}).") from None


def of_kind(arrays: dict[str, np.ndarray], kinds: dict[str, str], optional: set[str], path: str) -> None:
    """Refuse members that are missing, unknown, or of another type."""
    odd = set(arrays) ^ set(kinds)
    need(odd <= optional & set(kinds), f"{path} lacks, or should not have, the member {min(odd, default='')!r}.")
    for name, array in arrays.items():
        kind = f"{array.dtype.newbyteorder('<').str.lstrip('<|')}:{array.ndim}"
        need(kind == kinds[name], f"member {name!r} of {path} has type and axes {kind}, wanted {kinds[name]}.")


def inside(array: np.ndarray, low: int, high: int) -> bool:
    return bool(((array >= low) & (array < high)).all())


def cuts(ptr: np.ndarray, length: int) -> bool:
    """Whether ``ptr`` cuts something of this length into pieces."""
    return bool(len(ptr) and ptr[0] == 0 and ptr[-1] == length and (np.diff(ptr) >= 0).all())


def text(array: np.ndarray) -> str:
    return array.tobytes().decode("utf-8", "replace")


class Problem(Terms):
    """A problem file (section "Problem files")."""

    def __init__(self, path: str):
        a = read_npz(path)
        of_kind(a, PROBLEM, {"parts"}, path)
        try:
            header = json.loads(text(a["header"]))
            good = header["format"] == "maxsum-problem" and header["version"] == 1
            offset = float(header["offset"])
        except (ValueError, LookupError, TypeError):
            good = False
        need(good, f"{path} has no header of a problem of version 1.")
        edges, unary, bank, number, weight = a["edges"], a["unary"], a["tables"], a["edge_table"], a["edge_weight"]
        states, ptr, members, rewards = a["n_states"], a["clique_ptr"], a["clique_nodes"], a["clique_weights"]
        n_nodes, size = unary.shape
        need(edges.shape[1] == 2 and inside(edges, 0, n_nodes) and (edges[:, 0] != edges[:, 1]).all(), "edges name no nodes.")
        need(states.shape == (n_nodes,) and inside(states, 1, size + 1), "n_states is not one number of labels a node.")
        need(bank.shape[1:] == (size, size) and number.shape == weight.shape == (len(edges),), "tables have another shape.")
        need(inside(number, 0, len(bank)), "edge_table names a table that is not there.")
        need(cuts(ptr, len(members)) and (np.diff(ptr) > 0).all() and inside(members, 0, n_nodes), "cliques are not sound.")
        for c in range(len(ptr) - 1):
            need(len(set(members[ptr[c] : ptr[c + 1]])) == ptr[c + 1] - ptr[c], f"clique {c} names a node twice.")
        need(rewards.shape == (len(ptr) - 1, size) and (rewards >= 0).all(), "rewards of cliques are negative, or too few.")
        has = np.arange(size) < states[:, None]
        unary = np.where(has, unary, -np.inf)
        # entries that no edge can use count as 0
        used = np.zeros((2, len(bank)), dtype=np.int64)
        for side in (0, 1):
            np.maximum.at(used[side], number, states[edges[:, side]])
        label = np.arange(size)
        bank = np.where((label[:, None] < used[0][:, None, None]) & (label < used[1][:, None, None]), bank, 0.0)
        for array in (unary, bank, weight, rewards, np.array(offset)):
            need((np.isneginf(array) | (np.abs(array) <= LARGEST)).all(), f"{path} holds nan, inf or a number above {LARGEST}.")
        need(np.isfinite(weight).all() and np.isfinite(rewards).all() and abs(offset) < np.inf, "a weight is not finite.")
        hard = np.logical_or.reduce(np.isneginf(bank), axis=(1, 2))
        need(not (hard[number] & (weight <= 0)).any(), "an edge with forbidden pairs has a weight that is not positive.")
        need(not np.isneginf(unary).all(axis=1).any(), "a node has no label that is allowed.")
        self.states, self.weight, self.bank, self.number = states, weight, bank, number
        ones, cells = np.ones(n_nodes), np.arange(bank.size).reshape(bank.shape)
        node = Sums(np.arange(n_nodes + 1), np.arange(n_nodes), ones, np.arange(unary.size).reshape(unary.shape), unary.ravel())
        edge = Sums(np.arange(len(edges) + 1), number, weight, cells, bank.ravel())
        reward = Sums(np.arange(len(ptr)), np.arange(len(rewards)), np.ones(len(rewards)),
                      np.arange(rewards.size).reshape(rewards.shape), rewards.ravel())  # fmt: skip
        super().__init__(edges, node, edge, (ptr, members, reward), has)
        self.unary = unary
        self.offset = Fraction(offset)
        self.whole_numbers = all(
            (np.isneginf(x) | (x == np.floor(x))).all() for x in (unary, bank, weight, rewards, np.array(offset))
        )

    def variation(self, y: np.ndarray) -> float:
        """Section "What optimal means": how much the score varies at a labelling, from what the labelling touches."""
        n, e = sample(self.n_nodes), sample(len(self.edges))
        (u, v), weight, table = self.edges[e].T, np.abs(self.weight[e]), self.bank[self.number[e]]
        cells = np.where(self.has[u][:, :, None] & self.has[v][:, None, :], table, -np.inf).reshape(len(e), self.size**2)
        at_edge = nearest(table[np.arange(len(e)), y[u], y[v]], cells) * np.where(weight > 0, weight, np.nan)
        rewards = self.reward.rows(np.arange(len(self.clique_ptr) - 1))[0]
        agreed = [rewards[c, y[m[0]]] if (y[m] == y[m[0]]).all() else 0.0
                  for c, m in enumerate(np.split(self.members, self.clique_ptr[1:-1])) if len(m)]  # fmt: skip
        at_clique = nearest(np.array(agreed), np.hstack([rewards, np.zeros((len(rewards), 1))]))
        least, varying = math.inf, 0.0
        for near, count in (
            (nearest(self.unary[n, y[n]], self.unary[n]), self.n_nodes),
            (at_edge, len(self.edges)),
            (at_clique, len(rewards)),
        ):
            some = np.sort(near[np.isfinite(near) & (near > 0)])
            if len(some):
                least = min(least, float(some[int(0.05 * max(0, len(some) - 100))]))
                varying += count * len(some) / len(near)
        return least * varying if varying else 0.0

    def score(self, y: np.ndarray | None) -> Value:
        found = None if y is None else self.values(y)
        return -math.inf if found is None else self.offset + Fraction(sum(int(part.sum()) for part in found), 1 << self.shift)

    def height(self, messages: np.ndarray, domain: np.ndarray) -> Value:
        """Section "Messages": the bound of messages over a domain."""
        found = self.maxima(messages, domain)
        return -math.inf if found is None else self.offset + Fraction(sum(int(part.sum()) for part in found[:3]), 1 << found[3])


def sample(count: int) -> np.ndarray:
    """Numbers of all terms, or of 4096 that are evenly spaced."""
    return np.arange(count) if count <= 4096 else np.linspace(0, count - 1, 4096).astype(np.int64)


def nearest(at: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Distance of each ``at`` from the nearest other finite number of its row; nan or inf if there is none."""
    finite = np.where(np.isfinite(values), values, 0.0)
    apart = np.abs(finite - at[:, None])
    other = np.isfinite(values) & (apart > 8 * EPS * np.maximum(np.abs(finite), np.abs(at)[:, None]))
    return np.where(other, apart, np.inf).min(axis=1, initial=np.inf)


def check_answer(problem_path: str, answer_path: str) -> list[Claim]:
    """Compare the claims of an answer with what its certificate proves (section "Claims of an answer")."""
    problem, a = Problem(problem_path), read_npz(answer_path)
    form = text(a["form"]) if "form" in a else ""
    version = int(a["answer"]) if "answer" in a and a["answer"].ndim == 0 and a["answer"].dtype.kind == "i" else 0
    need(version in (1, 2), f"{answer_path} is an answer of version {version}; this file reads 1 and 2.")
    need(form in FORMS, f"{answer_path} has a certificate of the form {form!r}; this file checks {', '.join(FORMS)}.")
    if form == "search":  # whole numbers and messages have the smallest type that holds them
        wide = {"i": np.int64, "u": np.int64, "f": np.float64}
        a = {name: own.astype(wide.get(own.dtype.kind, own.dtype)) if name in FORMS[form] else own for name, own in a.items()}
    of_kind(a, {**COMMON, **FORMS[form]}, {"labels", "guarantee", "passes", "effort", "level"}, answer_path)
    need((version == 2) == ("guarantee" in a), "answers have a guarantee from version 2 on.")
    y = a.get("labels")
    need(y is None or (y.shape == (problem.n_nodes,) and inside(y, 0, 2**31) and (y < problem.states).all()),
         "labels are not one label of its own for each node.")  # fmt: skip
    claimed, upper = float(a["score"]), float(a["bound"])
    need(not math.isnan(claimed) and not math.isnan(upper) and claimed < math.inf, "score or bound is no number.")
    score = problem.score(y)
    known = y if isinstance(score, Fraction) else None
    tolerance = Fraction(TOLERANCE) * Fraction(problem.variation(known)) if known is not None else Fraction(0)
    if form == "none":
        bound: Value = math.inf
    elif form == "messages":
        need(a["edge"].shape == (2, len(problem.edges), problem.size), "edge messages have another shape.")
        need(a["clique"].shape == (len(problem.members), problem.size), "clique messages have another shape.")
        messages = np.concatenate([a["edge"].reshape(-1, problem.size), a["clique"]])
        need((np.abs(messages) <= LARGEST).all(), f"a message is no number of at most {LARGEST} in size.")
        bound = problem.height(messages, problem.arc_consistent(problem.allowed))
    elif form == "elimination":
        bound = elimination(problem, a)
    elif form == "search":
        bound = search(problem, a, known, score, tolerance)
    else:
        bound = quadratic(problem, a)
    if problem.whole_numbers and isinstance(bound, Fraction):
        bound = Fraction(math.floor(bound))
    gap = bound - score if known is not None else math.inf
    optimal = known is not None and gap <= tolerance
    room = Fraction(EPS) / 2 * abs(problem.offset)
    if y is not None and known is not None:  # two ways to add up the values that the labelling touches
        touched = abs(problem.offset) + Fraction(
            sum(int(np.abs(part).sum()) for part in problem.values(y) or ()), 1 << problem.shift
        )
        room = Fraction(EPS / 2 * (8 + math.log2(2 + problem.n_nodes + len(problem.edges)))) * touched
    same = claimed == score or (
        isinstance(score, Fraction) and math.isfinite(claimed) and abs(Fraction(claimed) - score) <= room
    )
    if form == "search" and optimal:  # boxes may be closed by less or by more, as long as that counts as nothing
        room += tolerance
    below = bound <= upper or (isinstance(bound, Fraction) and math.isfinite(upper) and bound <= Fraction(upper) + room)
    claims = [Claim("score", repr(claimed), shown(score), same), Claim("bound", repr(upper), shown(bound), below)]
    proves = {
        "optimal": optimal, "within_gap": known is not None and bound < math.inf, "upper_bound": isinstance(bound, Fraction),
        "feasible": known is not None, "infeasible": bound == -math.inf, "none": True,
    }  # fmt: skip
    best = next(word for word in ("infeasible", "optimal", "within_gap", "upper_bound", "feasible", "none") if proves[word])
    if version == 1:
        return [*claims, Claim("guarantee", "nothing", best, True)]
    word = text(a["guarantee"])
    need(word in proves, f"the guarantee is {word!r}, wanted one of {', '.join(proves)}.")
    return [*claims, Claim("guarantee", word, best, proves[word])]


def shown(value: Value) -> str:
    return repr(float(value))


def elimination(problem: Problem, a: dict[str, np.ndarray]) -> Value:
    """Section "Elimination": the sum of the maxima of the bags."""
    n, order, ptr, flat = problem.n_nodes, a["nodes"].tolist(), a["separator_ptr"], a["separators"]
    need(
        sorted(order) == list(range(n)) and len(ptr) == n + 1 and cuts(ptr, len(flat)),
        "the order does not list every node once.",
    )
    rank = {v: i for i, v in enumerate(order)}
    numbers, at, states = a["tables"], 0, problem.states
    need((np.isneginf(numbers) | (np.abs(numbers) <= LARGEST)).all(), f"a table holds nan, inf or a number above {LARGEST}.")
    split = shift_of(problem.weight)  # an entry times its factor has `shift` bits in all
    shift = split + shift_of(problem.unary, problem.bank, problem.reward.weight, numbers)
    inbox: list[list[tuple[tuple[int, ...], np.ndarray, float]]] = [[] for _ in order]
    for v in range(n):
        inbox[rank[v]].append(((v,), problem.unary[v, : states[v]], 1.0))
    for e, (u, v) in enumerate(problem.edges.tolist()):
        table = problem.bank[problem.number[e], : states[u], : states[v]]
        inbox[min(rank[u], rank[v])].append(((u, v), table, float(problem.weight[e])))
    for c in range(len(problem.clique_ptr) - 1):
        scope = tuple(problem.members[problem.clique_ptr[c] : problem.clique_ptr[c + 1]].tolist())
        cube, least = np.zeros([states[v] for v in scope]), min(states[v] for v in scope)
        cube[(np.arange(least),) * len(scope)] = problem.reward.rows(np.array([c]))[0][0, :least]
        inbox[min(rank[v] for v in scope)].append((scope, cube, 1.0))
    total = 0
    for i, v in enumerate(order):
        separator = flat[ptr[i] : ptr[i + 1]].tolist()
        need(len(set(separator)) == len(separator) and all(0 <= w < n and rank[w] > i for w in separator),
             f"the separator of node {v} repeats a node, or names one that is eliminated before.")  # fmt: skip
        bag, terms = (v, *separator), inbox[i]
        need(all(set(scope) <= set(bag) for scope, _, _ in terms), f"the bag of node {v} does not hold all its terms.")
        shape = [int(states[w]) for w in separator]
        size = math.prod(shape)
        need(size <= len(numbers) - at, "the separator tables are cut short.")
        own, at = numbers[at : at + size].reshape(shape), at + size
        views = [(laid_out(table, scope, bag), factor) for scope, table, factor in terms]
        value, error = np.zeros([int(states[w]) for w in bag]), np.zeros(1)
        for table, factor in views:
            value = value + table * factor
        impossible = np.isneginf(value)
        if separator:
            if (np.isneginf(own)[None] & ~impossible).any():
                return math.inf
            inbox[min(rank[w] for w in separator)].append((tuple(separator), own, 1.0))
            views.append((np.where(np.isneginf(own), 0.0, own)[None], -1.0))
            value = np.where(impossible, -np.inf, value + views[-1][0] * -1.0)
        if impossible.all():
            return -math.inf
        for table, factor in views:
            error = error + np.abs(np.where(np.isfinite(table), table, 0.0) * factor)
        error = (len(views) + 2) * EPS * error + TINY

        def exact(_: np.ndarray, cell: np.ndarray, views: Any = views, shape: Any = value.shape) -> np.ndarray:
            place, found = np.unravel_index(cell, shape), np.zeros(len(cell), dtype=object)
            for table, factor in views:
                entry = table[tuple(np.minimum(p, s - 1) for p, s in zip(place, table.shape, strict=True))]
                found = found + whole(entry, shift - split) * int(whole([factor], split)[0])
            return found

        total += row_maxima(value.reshape(1, -1), np.broadcast_to(error, value.shape).reshape(1, -1), exact)[0]
    need(at == len(numbers), "there are more numbers than the separator tables need.")
    return problem.offset + Fraction(int(total), 1 << shift)


def laid_out(table: np.ndarray, scope: tuple[int, ...], bag: tuple[int, ...]) -> np.ndarray:
    """A table over ``scope`` as one over ``bag``, with an axis of length 1 for every other node."""
    order = sorted(range(len(scope)), key=lambda i: bag.index(scope[i]))
    shape = [1] * len(bag)
    for i in order:
        shape[bag.index(scope[i])] = table.shape[i]
    return table.transpose(order).reshape(shape)


def search(problem: Problem, a: dict[str, np.ndarray], y: np.ndarray | None, score: Value, tolerance: Fraction) -> Value:
    """Section "Search": replay the branching tree; the bound is that of the worst box that it leaves open."""
    parent, node, label, relation, number = (a[name] for name in BOXES)
    ptr, index, value, size, n_boxes = a["ptr"], a["index"], a["value"], problem.size, len(a["parent"])
    passes, effort = (a.get(name, np.zeros(n_boxes, dtype=np.int64)) for name in ("passes", "effort"))
    per_box, places = (node, label, relation, number, passes, effort), len(problem.ends) * size
    need(n_boxes and all(len(own) == n_boxes for own in per_box) and len(ptr), "the search has no boxes.")
    need((parent[1:] >= 0).all() and (parent[1:] < np.arange(1, n_boxes)).all(), "a box of the search comes before its parent.")
    need(inside(node[1:], 0, problem.n_nodes) and inside(relation, 0, 4), "a box of the search is not sound.")
    need(
        inside(number, -1, len(ptr) - 1) and inside(effort, 0, 27) and inside(passes, 0, 256),
        "a box of the search has no messages, or too much to do.",
    )
    need(cuts(ptr, len(index)) and len(index) == len(value) and inside(index, 0, places), "messages of boxes are not sound.")
    need((np.abs(value) <= LARGEST).all(), f"a message is no number of at most {LARGEST} in size.")
    level = float(a.get("level", 0.0))
    need(0 <= level < math.inf, f"the level of the search is {level}.")
    children: list[list[int]] = [[] for _ in range(n_boxes)]
    for i in range(1, n_boxes):
        children[parent[i]].append(i)

    def kept(box: int) -> np.ndarray:
        mask: np.ndarray = (np.not_equal, np.equal, np.less, np.greater_equal)[relation[box]](np.arange(size), label[box])
        return mask

    # A box that holds nothing above the known labelling by more than this is closed; what it may hold goes into the gap.
    room = max(tolerance, Fraction(level), 1 - Fraction(1, 1 << 4000) if problem.whole_numbers else tolerance)
    plain = not len(problem.members)  # passes and enumeration are for problems without cliques
    stack = [(0, problem.allowed, np.zeros((len(problem.ends), size), dtype=np.float32))]
    left: list[Value] = [Fraction(0)] if y is not None else [-math.inf]
    while stack:
        i, domain, inherited = stack.pop()
        messages = inherited.astype(np.float64)
        if number[i] >= 0:
            part, messages = slice(ptr[number[i]], ptr[number[i] + 1]), np.zeros_like(messages)
            messages.reshape(-1)[index[part]] = value[part]
        domain, above = shrink(problem, messages, domain, y, score, room, left)
        if above is not None and passes[i] and plain:
            messages = trws(problem, messages, domain, int(passes[i]))
            domain, above = shrink(problem, messages, domain, y, score, room, left)
        if above is None:
            continue
        nodes = {int(node[child]) for child in children[i]}
        if len(nodes) == 1 and not (domain[min(nodes)] & ~np.any([kept(child) for child in children[i]], axis=0)).any():
            with np.errstate(over="ignore"):
                short = messages.astype(np.float32)
            for child in children[i]:
                smaller = domain.copy()
                smaller[node[child]] &= kept(child)
                stack.append((child, smaller, np.where(np.isfinite(short), short, 0)))
        else:
            if y is None:
                above = problem.height(messages, domain)
            left.append(enumerated(problem, messages, domain, above, None if y is None else room, 1 << int(effort[i]))
                        if effort[i] and plain else above)  # fmt: skip
    return max(left) if y is None else score + max(left)


def shrink(
    problem: Problem, messages: np.ndarray, domain: np.ndarray, y: Any, score: Value, room: Value, left: list[Value]
) -> tuple[np.ndarray, Value | None]:
    """Remove labels that lead nowhere; the domain that is left, and how far it may lie above the score, None if it is closed."""
    while True:
        domain = problem.arc_consistent(domain)
        if not domain.any(axis=1).all():
            return domain, None
        if y is None:
            return domain, math.inf
        (v, k), found = np.nonzero(domain), problem.maxima(messages, domain)
        if found is None:
            return domain, None
        above = problem.offset + Fraction(sum(int(part.sum()) for part in found[:3]), 1 << found[3]) - score
        less = found[0][v] - problem.theta_exact(v, k, messages, found[3])
        limit = np.array([above - Fraction(int(x), 1 << found[3]) for x in less], dtype=object)
        worse = limit <= room
        if above <= room or not worse.any():
            left += [above] if above <= room else []
            return domain, None if above <= room else above
        left.append(limit[worse].max())
        domain[v[worse], k[worse]] = False


def trws(problem: Problem, messages: np.ndarray, domain: np.ndarray, count: int) -> np.ndarray:
    """Passes of TRW-S (Kolmogorov 2006) on a box, from the last node to the first, then in turn. Any result is valid."""
    kind = np.float32 if problem.whole_numbers else np.float64
    n_edges, sent = len(problem.edges), messages.astype(kind)
    top = np.where(problem.allowed, problem.unary, -np.inf).max(axis=1, keepdims=True)
    unary = np.where(domain, problem.unary - top, -np.inf).astype(kind)
    tables = [value[j].astype(kind) for _, value, _ in problem.chunks() for j in range(len(value))]
    other = np.concatenate([problem.edges[:, 1], problem.edges[:, 0]])
    with np.errstate(invalid="ignore", over="ignore"):
        for iteration in range(count):
            forward = iteration % 2 == 1
            for v in range(problem.n_nodes) if forward else range(problem.n_nodes - 1, -1, -1):
                mine, some = problem.order[problem.at[v] : problem.at[v + 1]], domain[v]
                later = mine[(other[mine] > v) == forward]
                share = (unary[v, some] - sent[mine][:, some].sum(axis=0)) / max(len(later), len(mine) - len(later), 1)
                for m in later.tolist():
                    sent[m, some] += share
                    table = tables[m] if m < n_edges else tables[m - n_edges].T
                    out = np.where(domain[other[m]], (sent[m, some][:, None] + table[some]).max(axis=0), -np.inf)
                    sent[(m + n_edges) % (2 * n_edges)] = np.where(np.isneginf(out), 0, out.max() - out)
    sent = sent.astype(np.float64)
    return np.where(domain[problem.ends] & (np.abs(sent) <= LARGEST), sent, 0.0)


def enumerated(
    problem: Problem, messages: np.ndarray, domain: np.ndarray, above: Value, room: Value | None, most: int
) -> Value:
    """How far the labellings of a box may lie above the score, by trying them node by node; ``above`` if there are too many.

    Terms lose something against their maxima; losses are counted in units, rounded down, up to ``needed``, at which a labelling is not
    above the room. Without a room only forbidden pairs count, and a box of nothing else holds no labelling.
    """
    found, (u, v), (row, cell) = problem.maxima(messages, domain), problem.edges.T, np.nonzero(domain)
    if found is None or len(row) > 1024 or (room is None and not problem.hard):
        return -math.inf if found is None else above
    shift, n = found[3], problem.n_nodes
    wanted = 1 if room is None else math.ceil((above - room) * (1 << shift))
    bits = 61 - ((n + 1) * (int(problem.degree.max(initial=0)) + 2)).bit_length()  # so that no sum of losses overflows
    unit = max(1, wanted >> bits)
    needed = -(-wanted // unit)
    loss, pairs, place = (
        np.zeros(len(row), dtype=np.int64),
        np.zeros((len(row), len(row)), dtype=np.int64),
        np.zeros(domain.shape, dtype=int),
    )
    place[row, cell] = np.arange(len(row))
    if room is not None:
        exact = found[0][row] - problem.theta_exact(row, cell, messages, shift)
        loss = np.minimum(exact // unit, needed).astype(np.int64)
    for part, value, _ in problem.chunks():
        e, k, m = np.nonzero(domain[u[part]][:, :, None] & domain[v[part]][:, None, :])
        lost, free = np.full(len(e), needed), np.isfinite(value[e, k, m])
        e = part[e]
        if room is None:
            lost[free] = 0
        else:
            ei, ki, mi = e[free], k[free], m[free]
            score = problem.edge.exact(ei, ki * problem.size + mi, shift)
            score = score + whole(messages[ei, ki], shift) + whole(messages[len(u) + ei, mi], shift)
            lost[free] = np.minimum((found[1][ei] - score) // unit, needed).astype(np.int64)
        for first, second in ((place[u[e], k], place[v[e], m]), (place[v[e], m], place[u[e], k])):
            np.add.at(pairs, (first, second), lost)
    # First come nodes with few labels that lose much.
    size, start, order = domain.sum(axis=1), np.cumsum(domain.sum(axis=1)) - domain.sum(axis=1), []
    mean = np.add.reduceat(np.add.reduceat(pairs, start, axis=0), start, axis=1) / np.outer(size, size)
    within, without, still = np.add.reduceat(loss, start) / size + 1e-9 * needed, mean.sum(axis=1), np.ones(n, dtype=bool)
    for _ in range(n):
        order.append(int(np.where(still, size / (within + 0.3 * without), np.inf).argmin()))
        still[order[-1]] = False
        within, without = within + mean[order[-1]], without - mean[order[-1]]
    labels = [start[w] + np.arange(size[w]) for w in order]
    # rows of partial labellings: what they have lost, and what each label of the nodes to come would lose
    least, opened, stack = 1 << 62, 0, [(0, np.zeros(1, dtype=np.int64), [loss[own][None] for own in labels])]
    while stack:
        depth, spent, rest = stack.pop()
        here = (spent + sum((own.min(axis=1) for own in rest[1:]), np.zeros(1, dtype=np.int64)))[:, None] + rest[0]
        least = min(least, int(here.min(where=here >= needed, initial=least)))
        r, k = np.nonzero(here < needed)
        opened += len(r)
        if depth == n - 1 or opened > 4 * most:
            least = min(least, int(here.min()))
            continue
        for begin in range(0, len(r), 1 << 14):
            some, chosen = r[begin : begin + (1 << 14)], k[begin : begin + (1 << 14)]
            brings = pairs[labels[depth][chosen]]
            after = [own[some] + brings[:, to_come] for own, to_come in zip(rest[1:], labels[depth + 1 :], strict=True)]
            stack.append((depth + 1, spent[some] + rest[0][some, chosen], after))
    if room is None:
        return -math.inf if least >= needed else above
    return above - Fraction(least * unit, 1 << shift)


def quadratic(problem: Problem, a: dict[str, np.ndarray]) -> Value:
    """Section "Quadratic": the tangent of the concave relaxation at a point bounds every score."""
    n_edges, size, (u, v) = len(problem.edges), problem.size, problem.edges.T
    need(
        a["edge"].shape == (2, n_edges, size) and a["mu"].shape == (problem.n_nodes, size),
        "point or messages have another shape.",
    )
    need((np.abs(a["edge"]) <= LARGEST).all() and np.isfinite(a["mu"]).all(), "point or messages hold what is no number.")
    if len(problem.members) or np.isneginf(problem.bank).any():
        return math.inf
    messages, allowed = a["edge"].reshape(-1, size), problem.allowed
    mu = np.where(allowed, np.clip(a["mu"], 0.0, 1.0), 0.0)
    shift, fine = max(problem.shift, shift_of(messages)), shift_of(mu)
    point = whole(mu, fine)
    rows, cells = np.nonzero(allowed)
    theta = np.zeros(mu.shape, dtype=object)
    theta[rows, cells] = problem.theta_exact(rows, cells, messages, shift)
    dominance, pull, bowl, centres = np.zeros_like(theta), np.zeros_like(theta), 0, 0
    weight_bits, bank_bits = problem.edge.shifts
    step = max(1, CELLS // (16 * size**2))
    for start in range(0, n_edges, step):
        e = np.arange(start, min(start + step, n_edges))
        bank, weight = problem.bank[problem.number[e]], problem.weight[e]
        used = problem.has[u[e]][:, :, None] & problem.has[v[e]][:, None, :]
        high, low = np.where(used, bank, -np.inf).max(axis=(1, 2)), np.where(used, bank, np.inf).min(axis=(1, 2))
        centre = whole(np.where(weight >= 0, high, low), bank_bits)
        factor = np.left_shift(whole(weight, weight_bits), shift - weight_bits - bank_bits)
        centres += int((centre * factor).sum())
        table = (whole(bank, bank_bits) - centre[:, None, None]) * factor[:, None, None]
        table = table + whole(messages[e], shift)[:, :, None] + whole(messages[n_edges + e], shift)[:, None, :]
        table = np.where(allowed[u[e]][:, :, None] & allowed[v[e]][:, None, :], table, 0)
        first, second, far = point[u[e]][:, :, None], point[v[e]][:, None, :], np.abs(table)
        np.add.at(dominance, u[e], far.sum(axis=2))
        np.add.at(dominance, v[e], far.sum(axis=1))
        np.add.at(pull, u[e], (table * second).sum(axis=2))
        np.add.at(pull, v[e], (table * first).sum(axis=1))
        bowl += int((far * (first - np.where(table >= 0, 1, -1) * second) ** 2).sum())
    slope = (2 * theta + dominance) * (1 << fine) - 2 * dominance * point + 2 * pull
    top = sum(max(row[mask]) for row, mask in zip(slope, allowed, strict=True))
    parts = (
        Fraction(centres, 1 << shift),
        Fraction(int(top), 1 << (shift + fine + 1)),
        Fraction(bowl, 1 << (shift + 2 * fine + 1)),
    )
    return problem.offset + sum(parts)


# ---- models and training data --------------------------------------------------------------------------------------

MARK = b"maxsum model\0"
TRAINING = {
    "header": "u1:1", "node_ptr": "i8:1", "edge_ptr": "i8:1", "edges": "i4:2", "x_ptr": "i8:1", "x_col": "i4:1", "x_val": "f8:1",
    "node_index": "i4:2", "f_ptr": "i8:1", "f_col": "i4:1", "f_val": "f8:1", "edge_index": "i4:3", "truth": "i4:1", "loss": "f8:2",
    "n_states": "i4:1", "c": "f8:1", "nonneg": "i8:1", "row_ptr": "i8:1", "row_col": "i8:1", "row_val": "f8:1",
}  # fmt: skip
FACTS = ("surrogate", "C", "n_examples", "n_nodes")
LOOSE = 1e-6  # of an objective: what the slacks of graphs with cycles may be open by
PASSES = 300  # of messages over graphs with cycles, where the model holds none
ELSEWHERE = "`maxsum verify MODEL DATA`, with the data that the model was trained on, checks it"


def read_model(path: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a model file (section "Model files")."""
    with open(path, "rb") as file:
        content = file.read()
    start = len(MARK) + 4 + 32 + 8
    need(len(content) >= start and content[: len(MARK)] == MARK, f"{path} is no model file.")
    version, digest, length = struct.unpack("<I32sQ", content[len(MARK) : start])
    need(version == 1, f"{path} is a model file of version {version}; this file reads 1.")
    need(hashlib.sha256(content[start - 8 :]).digest() == digest, f"{path} is damaged: its checksum is another one.")
    try:
        header = json.loads(content[start : start + length])
        arrays, at = {}, start + length
        for name, kind, shape in header["arrays"]:
            dtype = np.dtype(str(kind))
            need(dtype.kind in "biuf" and all(type(n) is int and n >= 0 for n in shape), f"array {name!r} is not sound.")
            end = at + math.prod(shape) * dtype.itemsize
            arrays[name], at = np.frombuffer(content[at:end], dtype=dtype).reshape(shape), end
        need(at == len(content), "the arrays do not fill the file.")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{path} has a broken header ({error}).") from None
    return header, arrays


class Training(Terms):
    """A training file with weights: the loss-augmented problems of all examples side by side (section "Training files")."""

    def __init__(self, path: str, w: np.ndarray):
        self.a = a = read_npz(path)
        of_kind(a, TRAINING, set(), path)
        try:
            self.header = json.loads(text(a["header"]))
            good = self.header["format"] == "maxsum-training" and self.header["version"] == 1
        except (ValueError, LookupError, TypeError):
            good = False
        need(good, f"{path} has no header of training data of version 1.")
        n, e, p, (n_nodes, size) = len(a["c"]), len(a["edges"]), len(w), a["loss"].shape
        ptr, truth = a["node_ptr"], a["truth"]
        need(
            len(ptr) == len(a["edge_ptr"]) == n + 1 and cuts(ptr, n_nodes) and cuts(a["edge_ptr"], e), "examples are not sound."
        )
        owner = np.repeat(np.arange(n), np.diff(a["edge_ptr"]))[:, None]
        need(
            a["edges"].shape == (e, 2) and ((a["edges"] >= ptr[owner]) & (a["edges"] < ptr[owner + 1])).all(),
            "edges leave examples.",
        )
        need((a["edges"][:, 0] != a["edges"][:, 1]).all(), "an edge joins a node to itself.")
        need(a["n_states"].shape == truth.shape == (n_nodes,) and inside(a["n_states"], 1, size + 1), "n_states is not sound.")
        need(inside(truth, 0, size) and (truth < a["n_states"]).all(), "a true label is one that its node lacks.")
        need(
            (a["loss"] >= 0).all() and not a["loss"][np.arange(n_nodes), truth].any(),
            "a loss is negative, or that of a true label not 0.",
        )
        for x, rows, index, least in (("x", n_nodes, "node_index", -1), ("f", e, "edge_index", -2)):
            need(cuts(a[x + "_ptr"], len(a[x + "_val"])) and len(a[x + "_ptr"]) == rows + 1, f"rows of {x} are not sound.")
            need(
                len(a[x + "_col"]) == len(a[x + "_val"]) and inside(a[x + "_col"], 0, len(a[index])),
                f"columns of {x} are not sound.",
            )
            need(inside(a[index], least, p) and set(a[index].shape[1:]) == {size}, f"{index} is not sound.")
        for name in ("x_val", "f_val", "loss", "c", "row_val"):
            need((np.abs(a[name]) <= LARGEST).all(), f"{name} holds what is no number of at most {LARGEST}.")
        need(
            (a["f_val"][(a["edge_index"] == -2).any(axis=(1, 2))[a["f_col"]]] > 0).all(),
            "a feature that forbids pairs is not positive.",
        )
        need(
            (a["c"] >= 0).all() and inside(a["nonneg"], 0, p) and inside(a["row_col"], 0, p),
            "weights or the cone are not sound.",
        )
        need(cuts(a["row_ptr"], len(a["row_val"])) and len(a["row_col"]) == len(a["row_val"]), "the cone is not sound.")
        self.digest = hashlib.sha256()
        for name in TRAINING:
            self.digest.update(f"{a[name].dtype.str}{a[name].shape}".encode() + np.ascontiguousarray(a[name]).tobytes())
        # the loss is one more feature of each node, with weights of its own
        losses = p + np.arange(n_nodes * size, dtype=np.int64).reshape(n_nodes, size)
        node = Sums(
            a["x_ptr"] + np.arange(n_nodes + 1), np.insert(a["x_col"], a["x_ptr"][1:], len(a["node_index"]) + np.arange(n_nodes)),
            np.insert(a["x_val"], a["x_ptr"][1:], 1.0), np.concatenate([a["node_index"], losses]), np.concatenate([w, a["loss"].ravel()]),
        )  # fmt: skip
        edge = Sums(a["f_ptr"], a["f_col"], a["f_val"], a["edge_index"], w)
        none = np.zeros(0, dtype=np.int64)
        reward = Sums(np.zeros(1, dtype=np.int64), none, np.zeros(0), np.zeros((0, size), dtype=np.int64), w)
        super().__init__(
            a["edges"], node, edge, (np.zeros(1, dtype=np.int64), none, reward), np.arange(size) < a["n_states"][:, None]
        )
        self.w, self.cell = w, self.cells_of(truth)

    def cells_of(self, y: np.ndarray, edges: Any = slice(None)) -> np.ndarray:
        return y[self.edges[edges, 0]].astype(np.int64) * self.size + y[self.edges[edges, 1]]

    def by_example(self, node: np.ndarray, edge: np.ndarray, shift: int) -> list[Fraction]:
        """Sums of terms, example by example."""
        total = fold(node, np.diff(self.a["node_ptr"])) + fold(edge, np.diff(self.a["edge_ptr"]))
        return [Fraction(int(x), 1 << shift) for x in total]

    def objective(self, messages: np.ndarray | None) -> tuple[Fraction, Fraction, bool]:
        """Numbers that the objective is not above, and not below; whether no graph has a cycle (section "The objective")."""
        domain, bits = self.arc_consistent(self.allowed), shift_of(self.w)
        guess, y, forest = tree_messages(self, domain)
        if not forest:
            guess = averaged(self, domain, guess) if messages is None else messages
            y = np.where(domain, self.thetas(guess)[0], -np.inf).argmax(axis=1)
        truth, found, other = self.values(self.a["truth"]), self.maxima(guess, domain), self.values(y)
        if truth is None or found is None:
            raise Unreadable("a true labelling is forbidden.")
        base = self.by_example(truth[0], truth[1], self.shift)
        tops = self.by_example(found[0], found[1], found[3])
        ends = base if other is None else self.by_example(other[0], other[1], self.shift)
        half = Fraction(int((whole(self.w, bits) ** 2).sum()), 1 << (2 * bits + 1))
        high, low = (half + sum((Fraction(c) * max(x - b, Fraction(0)) for c, x, b in zip(self.a["c"].tolist(), each, base, strict=True)),
                                Fraction(0)) for each in (tops, ends))  # fmt: skip
        return high, low, forest

    def lower_bound(self, examples: np.ndarray, keys: list[np.ndarray], alpha: np.ndarray, mu: np.ndarray) -> Value:
        """Section "Planes and multipliers"; -inf if the numbers are no proof."""
        a, n, first = self.a, len(self.a["c"]), len(self.a["nonneg"])
        if (
            not len(examples) == len(keys) == len(alpha)
            or not inside(examples, 0, n)
            or len(mu) != first + len(a["row_ptr"]) - 1
        ):
            return -math.inf
        if not (np.isfinite(alpha) & (alpha >= 0)).all() or not (np.isfinite(mu) & (mu >= 0)).all():
            return -math.inf
        # multipliers as whole numbers; those of an example that sum to more than c_j are scaled down, to 60 bits
        bits, total = shift_of(alpha, a["c"]), np.zeros(n, dtype=object)
        np.add.at(total, examples, whole(alpha, bits))
        scale = [min(1 << 60, (int(c) << 60) // int(t)) if t else 0 for c, t in zip(whole(a["c"], bits), total, strict=True)]
        mass = whole(alpha, bits) * np.array(scale, dtype=object)[examples]
        bits += 60
        # what the labellings of planes have otherwise than the true one: (item, cell, multiplier) of nodes and edges
        parts: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = [[], []]
        y = a["truth"].copy()
        for j, key, own in zip(examples.tolist(), keys, mass.tolist(), strict=True):
            nodes, edges = (np.arange(ptr[j], ptr[j + 1]) for ptr in (a["node_ptr"], a["edge_ptr"]))
            if (
                key.dtype.kind not in "iu"
                or key.shape != nodes.shape
                or not (inside(key, 0, self.size) and self.has[nodes, key].all())
            ):
                return -math.inf
            y[nodes] = key
            for place, items, true, new in (
                (0, nodes, a["truth"][nodes], y[nodes]),
                (1, edges, self.cell[edges], self.cells_of(y, edges)),
            ):
                some = np.flatnonzero(true != new)
                for cells, sign in ((true, 1), (new, -1)):
                    parts[place].append(
                        (items[some], cells[some].astype(np.int64), np.full(len(some), sign * own, dtype=object))
                    )
            y[nodes] = a["truth"][nodes]
        value, u = Fraction(0), np.zeros(len(self.w), dtype=object)
        fine = max(self.node.shifts[0], self.edge.shifts[0])
        for scores, own_parts in zip((self.node, self.edge), parts, strict=True):
            if not own_parts:
                continue
            item, cell, each = (np.concatenate([part[i] for part in own_parts]) for i in range(3))
            code, back = np.unique(item * scores.cells + cell, return_inverse=True)
            sums = np.zeros(len(code), dtype=object)
            np.add.at(sums, back, each)
            item, cell = np.divmod(code, scores.cells)
            if np.isneginf(scores.rows(item)[0][np.arange(len(item)), cell]).any():
                return -math.inf  # a labelling that is forbidden
            features = np.zeros(len(scores.weight), dtype=object)
            scores.add_to(features, item, cell, sums)
            u = u + np.left_shift(features[: len(u)], fine - scores.shifts[0])
            if scores is self.node:
                loss_bits = shift_of(a["loss"])
                value = Fraction(-int((whole(a["loss"][item, cell], loss_bits) * sums).sum()), 1 << (bits + loss_bits))
        # the rows of the cone, each with its multiplier
        mu_bits, row_bits, force = shift_of(mu), shift_of(a["row_val"]), np.zeros(len(u), dtype=object)
        np.add.at(force, a["nonneg"], np.left_shift(whole(mu[:first], mu_bits), row_bits))
        np.add.at(
            force, a["row_col"], whole(a["row_val"], row_bits) * np.repeat(whole(mu[first:], mu_bits), np.diff(a["row_ptr"]))
        )
        shift = max(bits + fine, mu_bits + row_bits)
        u = np.left_shift(u, shift - bits - fine) + np.left_shift(force, shift - mu_bits - row_bits)
        return value - Fraction(int((u * u).sum()), 1 << (2 * shift + 1))

    def in_cone(self) -> bool:
        """Whether the weights are in the cone, up to the rounding of a sum of four numbers."""
        a, w, count = self.a, self.w, np.diff(self.a["row_ptr"])
        bits, row_bits = shift_of(w), shift_of(a["row_val"])
        sums = fold(whole(a["row_val"], row_bits) * whole(w[a["row_col"]], bits), count)
        size = fold(np.abs(a["row_val"] * w[a["row_col"]]).astype(object), count)
        rows = all(Fraction(int(s), 1 << (bits + row_bits)) >= -2 * EPS * float(m) for s, m in zip(sums, size, strict=True))
        return rows and bool((w[a["nonneg"]] >= 0).all())


def tree_messages(terms: Terms, domain: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Messages of dynamic programming over a spanning forest, the labelling it finds, and whether the graph is that forest."""
    n_edges, messages = len(terms.edges), np.zeros((len(terms.ends), terms.size))
    seen, order = np.zeros(terms.n_nodes, dtype=bool), []  # (node, parent, end of the edge at the node), parents first
    for root in range(terms.n_nodes):
        stack = [] if seen[root] else [(root, -1, -1)]
        while stack:
            node, parent, end = stack.pop()
            if seen[node]:
                continue
            seen[node] = True
            order.append((node, parent, end))
            for at in terms.order[terms.at[node] : terms.at[node + 1]].tolist():
                other = int(terms.ends[(at + n_edges) % (2 * n_edges)])
                if not seen[other]:
                    stack.append((other, node, (at + n_edges) % (2 * n_edges)))
    theta, y, tables = np.where(domain, terms.q, -np.inf), np.zeros(terms.n_nodes, dtype=np.int64), {}
    for node, parent, end in reversed(order):
        if parent >= 0:
            table = terms.edge.rows(np.array([end % n_edges]))[0].reshape(terms.size, terms.size)
            tables[node] = table if end >= n_edges else table.T  # [label of the parent, label of the node]
            up = np.where(domain[parent], (tables[node] + theta[node]).max(axis=1), 0.0)
            messages[end], messages[(end + n_edges) % (2 * n_edges)] = np.where(domain[node], theta[node], 0.0), -up
            theta[parent] += up
    for node, parent, _ in order:
        y[node] = (theta[node] if parent < 0 else theta[node] + tables[node][y[parent]]).argmax()
    return messages, y, sum(parent >= 0 for _, parent, _ in order) == n_edges


def averaged(terms: Terms, domain: np.ndarray, messages: np.ndarray) -> np.ndarray:
    """Messages for graphs with cycles: each edge in turn shares the best of both its nodes' scores between them (MPLP of Globerson &
    Jaakkola 2007), edges without a common node at once. No step raises the bound."""
    (u, v), size, n_edges = terms.edges.T, terms.size, len(terms.edges)
    colour, taken = np.full(n_edges, -1), [set[int]() for _ in range(terms.n_nodes)]
    for i, (a, b) in enumerate(terms.edges.tolist()):
        colour[i] = next(c for c in range(n_edges) if c not in taken[a] and c not in taken[b])
        taken[a].add(int(colour[i]))
        taken[b].add(int(colour[i]))
    groups = [np.flatnonzero(colour == c) for c in range(colour.max() + 1)]
    tables = [np.where(domain[u[e]][:, :, None] & domain[v[e]][:, None, :], terms.edge.rows(e)[0].reshape(-1, size, size), -np.inf)
              for e in groups]  # fmt: skip
    theta, messages = np.where(domain, terms.thetas(messages)[0], 0.0), messages.copy()
    for _ in range(PASSES):
        for e, table in zip(groups, tables, strict=True):
            own = theta[u[e]] + messages[e], theta[v[e]] + messages[n_edges + e]
            both = table + own[0][:, :, None] + own[1][:, None, :]
            for side, node in ((0, u[e]), (1, v[e])):
                half = np.where(domain[node], 0.5 * both.max(axis=2 - side), 0.0)
                messages[side * n_edges + e], theta[node] = np.where(domain[node], own[side] - half, 0.0), half
    return messages


def unpacked(given: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A value of the header: what it says itself, or the arrays that it names."""
    if not isinstance(given, dict):
        return given
    if "array" in given:
        return arrays[given["array"]]
    if "float" in given:
        return float(given["float"])
    if "tuple" in given:
        return [unpacked(own, arrays) for own in given["tuple"]]
    if "rows" in given:
        flat, ends = (unpacked(own, arrays) for own in given["rows"])
        need(cuts(np.concatenate([[0], ends]), len(flat)), "rows do not end where their items do.")
        return np.split(flat, ends[:-1])
    raise Unreadable(f"the proof holds a {given.get('record', 'value')!s:.40} that is not checked here; {ELSEWHERE}.")


def check_model(model_path: str, data_path: str) -> list[Claim]:
    """Compare the claims of a model with what its certificate proves (section "Claims of a model")."""
    header, arrays = read_model(model_path)
    try:
        told, result, proof = header["objective"], header["result"], header["proof"]
        need(proof is not None, f"{model_path} holds no proof: save it with certificate=True, or `maxsum fit --proof`.")
        kind, surrogate, digest = proof["record"], told["surrogate"], str(told.get("training", ""))
        need(kind == "DualCertificate" and surrogate in ("margin", "lp"),
             f"a {kind!s:.40} of the surrogate {surrogate!s:.40} is not checked here; {ELSEWHERE}.")  # fmt: skip
        need(digest, f"{model_path} does not name a training file that its proof is about; {ELSEWHERE}.")
        fields = {name: unpacked(own, arrays) for name, own in proof["fields"].items()}
        examples, alpha, mu = (np.asarray(fields[name]) for name in ("examples", "alpha", "mu"))
        keys, messages = [np.asarray(key) for key in fields["keys"]], unpacked(header.get("messages"), arrays)
        w = np.concatenate([arrays["weights"], arrays["more_weights"]]).astype(np.float64)
        claimed, least, gap, relative = (
            float(unpacked(result[x], arrays)) for x in ("objective", "lower_bound", "gap", "relative_gap")
        )
        word, exact = result["guarantee"], result["oracle_guarantee"] == "optimal"
        facts = " ".join(str(told[name]) for name in FACTS)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"{model_path} describes no model with a proof ({error}).") from None
    need(examples.dtype.kind in "iu" and alpha.dtype.kind == mu.dtype.kind == "f", "the multipliers are not numbers.")
    need(
        examples.ndim == alpha.ndim == mu.ndim == w.ndim == 1 and (np.abs(w) <= LARGEST).all(),
        "weights or multipliers are not sound.",
    )
    data = Training(data_path, w)
    found = " ".join(str(data.header.get(name)) for name in FACTS)
    same = data.digest.hexdigest()
    claims = [Claim("data", digest[:20], same[:20], digest == same), Claim("objective of", facts, found, facts == found)]
    need(len(w) == data.header.get("n_weights"), "the model has another number of weights than the data.")
    claims.append(Claim("weights", "in the cone", "in the cone" if data.in_cone() else "outside", data.in_cone()))
    need(
        messages is None or (messages.shape == (len(data.ends), data.size) and (np.abs(messages) <= LARGEST).all()),
        "messages are not sound.",
    )
    high, low, forest = data.objective(messages)
    bound = data.lower_bound(examples, keys, alpha, mu)
    room = Fraction(TOLERANCE) * high
    open_by = room if forest else Fraction(LOOSE) * high
    # The objective is claimed as a number that F(w) is not above, and as F(w) itself if the oracle was exact.
    holds: bool | None = math.isfinite(claimed) and high <= Fraction(claimed) + open_by
    if math.isfinite(claimed) and not holds and low <= Fraction(claimed) + room:
        holds = None
    if holds and exact and Fraction(claimed) > high + room:
        holds = False
    claims.append(Claim("objective", repr(claimed), shown(high) if forest else f"{shown(low)} .. {shown(high)}", holds))
    below = least == -math.inf or (math.isfinite(least) and Fraction(least) <= bound + room)
    claims.append(Claim("lower bound", repr(least), shown(bound), below))
    difference = max(0.0, claimed - least)
    claims.append(Claim("gap", repr(gap), repr(difference), gap == difference))
    share = 0.0 if difference == 0 else difference / abs(claimed) if math.isfinite(difference) and claimed else math.inf
    claims.append(Claim("relative gap", repr(relative), repr(share), relative == share))
    proven = {"optimal": holds is not False and share <= TOLERANCE and high - bound <= open_by + 2 * room,
              "within_gap": bound > -math.inf, "feasible": True}  # fmt: skip
    best = next(name for name in proven if proven[name])
    return [*claims, Claim("guarantee", str(word), best, bool(proven.get(word, False)))]


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 2 or given[0].startswith("-"):
        print(__doc__)
        return 2
    try:
        with open(given[0], "rb") as file:
            model = file.read(13) == b"maxsum model\0"
        claims = (check_model if model else check_answer)(*given)
    except (Unreadable, OSError) as error:
        print(f"cannot be checked: {error}")
        return 2
    except Exception as error:  # nothing that a file holds may end as a traceback, or as a claim that holds
        print(f"cannot be checked: this file met what it did not expect ({type(error).__name__}: {error}).")
        return 2
    words = {True: "holds", False: "DOES NOT HOLD", None: "not decided here"}
    for claim in claims:
        print(f"{claim.name:<12} claimed {claim.claimed:<24} found {claim.found:<24} {words[claim.holds]}")
    if any(claim.holds is False for claim in claims):
        return 1
    return 2 if any(claim.holds is None for claim in claims) else 0


if __name__ == "__main__":
    sys.exit(main())
