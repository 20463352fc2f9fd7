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

    With ``joint`` each cell of an item has features of its own. Index -1 counts nothing, -2 forbids the cell.
    """

    def __init__(self, ptr: Any, col: Any, val: Any, index: Any, weight: Any, joint: bool = False):
        self.ptr, self.col, self.val, self.joint, self.weight = ptr.astype(np.int64), col, val, joint, weight
        self.cells = math.prod(index.shape[1:])
        self.index = index.reshape(len(index), self.cells)
        self.shifts = shift_of(val), shift_of(weight)
        self.shift = sum(self.shifts)

    def rows(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Approximate scores (len(items), cells), and a bound on their errors."""
        wide = (items[:, None] * self.cells + np.arange(self.cells)).ravel() if self.joint else items
        count, start = self.ptr[wide + 1] - self.ptr[wide], self.ptr[wide]
        value = np.zeros((len(wide), 1 if self.joint else self.cells))
        size = np.zeros_like(value)
        for i in range(int(count.max(initial=0))):
            some = np.flatnonzero(count > i)
            at = start[some] + i
            index = self.index[self.col[at], :1] if self.joint else self.index[self.col[at]]
            term = self.val[at, None] * np.where(index >= 0, self.weight[index], 0.0)
            value[some] += np.where(index == -2, -np.inf, term)
            size[some] += np.abs(np.where(np.isfinite(term), term, 0.0))
        error = (count[:, None] + 2) * EPS * size + TINY
        return value.reshape(len(items), self.cells), error.reshape(len(items), self.cells)

    def exact(self, items: np.ndarray, cells: np.ndarray, shift: int) -> np.ndarray:
        """The scores of some cells that are not forbidden, times 2**shift."""
        at, count = spread(self.ptr, items * self.cells + cells if self.joint else items)
        index = self.index[self.col[at], np.repeat(cells, count)]
        used = index >= 0
        parts = np.zeros(len(at), dtype=object)
        parts[used] = whole(self.val[at[used]], self.shifts[0]) * whole(self.weight[index[used]], self.shifts[1])
        return np.left_shift(fold(parts, count), shift - self.shift)


class Terms:
    """Node, edge and clique terms with what certificates need of them (section "The problem")."""

    def __init__(self, edges: np.ndarray, node: Sums, edge: Sums, cliques: tuple[np.ndarray, np.ndarray, Sums], has: np.ndarray):
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

    def chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Numbers of edges, with their tables (n, K, K) and errors."""
        step = max(1, CELLS // max(1, self.size**2))
        for start in range(0, len(self.edges), step):
            part = np.arange(start, min(start + step, len(self.edges)))
            value, error = self.edge.rows(part)
            shape = (len(part), self.size, self.size)
            yield part, value.reshape(shape), error.reshape(shape)

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

    def variation(self, y: np.ndarray) -> float:
        """Section "What optimal means": the score's own variation at a labelling."""
        nodes = np.arange(self.n_nodes)
        loss = [np.where(self.allowed, self.q, -np.inf).max(axis=1, initial=-np.inf) - self.q[nodes, y]]
        for part, value, _ in self.chunks():
            u, v = self.edges[part].T
            usable = self.has[u][:, :, None] & self.has[v][:, None, :]
            best = np.where(usable, value, -np.inf).reshape(len(part), -1).max(axis=1)
            loss.append(best - value[np.arange(len(part)), y[u], y[v]])
        for c in range(len(self.clique_ptr) - 1):
            member = self.members[self.clique_ptr[c] : self.clique_ptr[c + 1]]
            reward = self.reward.rows(np.array([c]))[0][0]
            own = reward[y[member[0]]] if (y[member] == y[member[0]]).all() else 0.0
            loss.append(np.array([max(0.0, reward[self.has[member].all(axis=0)].max(initial=0.0)) - own]))
        every = np.concatenate(loss)
        every = every[every > 0]
        return min(len(every) * float(np.median(every)), math.fsum(every)) if len(every) else 0.0


# ---- problems and answers ------------------------------------------------------------------------------------------

PROBLEM = {
    "header": "u1:1", "edges": "i4:2", "edge_type": "i4:1", "parts": "i8:1", "unary": "f8:2", "tables": "f8:3", "edge_table": "i4:1",
    "edge_weight": "f8:1", "n_states": "i4:1", "clique_ptr": "i8:1", "clique_nodes": "i4:1", "clique_weights": "f8:2",
}  # fmt: skip
COMMON = {"answer": "i8:0", "form": "u1:1", "solver": "u1:1", "score": "f8:0", "bound": "f8:0", "labels": "i4:1", "guarantee": "u1:1"}
BOXES = ("parent", "node", "label", "relation", "message_set")
FORMS = {
    "none": {},
    "messages": {"edge": "f8:3", "clique": "f8:2"},
    "elimination": {"nodes": "i4:1", "separator_ptr": "i8:1", "separators": "i4:1", "tables": "f8:1"},
    "search": {**dict.fromkeys(BOXES, "i4:1"), "ptr": "i8:1", "index": "i8:1", "value": "f8:1"},
    "quadratic": {"edge": "f8:3", "mu": "f8:2"},
}


def read_npz(path: str) -> dict[str, np.ndarray]:
    """The arrays of an archive, without pickle; nothing is executed."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            need(len(set(names)) == len(names), f"{path} lists a member twice.")
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
        hard = np.isneginf(bank).any(axis=(1, 2))
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
        self.whole_numbers = all((np.isneginf(x) | (x == np.floor(x))).all() for x in (unary, bank, weight, rewards, np.array(offset)))

    def score(self, y: np.ndarray | None) -> Value:
        found = None if y is None else self.values(y)
        return -math.inf if found is None else self.offset + Fraction(sum(int(part.sum()) for part in found), 1 << self.shift)

    def height(self, messages: np.ndarray, domain: np.ndarray) -> Value:
        """Section "Messages": the bound of messages over a domain."""
        found = self.maxima(messages, domain)
        return -math.inf if found is None else self.offset + Fraction(sum(int(part.sum()) for part in found[:3]), 1 << found[3])


def check_answer(problem_path: str, answer_path: str) -> list[Claim]:
    """Compare the claims of an answer with what its certificate proves (section "Claims of an answer")."""
    problem, a = Problem(problem_path), read_npz(answer_path)
    form = text(a["form"]) if "form" in a else ""
    version = int(a["answer"]) if "answer" in a and a["answer"].ndim == 0 and a["answer"].dtype.kind == "i" else 0
    need(version in (1, 2), f"{answer_path} is an answer of version {version}; this file reads 1 and 2.")
    need(form in FORMS, f"{answer_path} has a certificate of the form {form!r}; this file checks {', '.join(FORMS)}.")
    of_kind(a, {**COMMON, **FORMS[form]}, {"labels", "guarantee"}, answer_path)
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
    optimal = known is not None and (gap <= tolerance or (problem.whole_numbers and gap < 1))
    room = tolerance + max((Fraction(4 * EPS) * abs(x) for x in (score, bound) if isinstance(x, Fraction)), default=Fraction(0))
    same = claimed == score or (isinstance(score, Fraction) and math.isfinite(claimed) and abs(Fraction(claimed) - score) <= room)
    below = bound <= upper or (isinstance(bound, Fraction) and math.isfinite(upper) and bound <= Fraction(upper) + room)
    claims = [Claim("score", repr(claimed), shown(score), same), Claim("bound", repr(upper), shown(bound), below)]
    proves = {
        "optimal": optimal, "within_gap": known is not None and bound < math.inf, "upper_bound": bound < math.inf,
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
    need(sorted(order) == list(range(n)) and len(ptr) == n + 1 and cuts(ptr, len(flat)), "the order does not list every node once.")
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
        value, error = np.zeros([int(states[w]) for w in bag]), 0.0
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
    ptr, index, value, n_edges, size = a["ptr"], a["index"], a["value"], len(problem.edges), problem.size
    n_boxes, rows = len(parent), 2 * n_edges + len(problem.members)
    need(n_boxes and all(len(a[name]) == n_boxes for name in BOXES) and len(ptr) > 1, "the search has no boxes or no messages.")
    need((parent[1:] >= 0).all() and (parent[1:] < np.arange(1, n_boxes)).all(), "a box of the search comes before its parent.")
    need(inside(node[1:], 0, problem.n_nodes) and inside(relation, 0, 4) and inside(number, 0, len(ptr) - 1), "a box is not sound.")
    need(cuts(ptr, len(index)) and len(index) == len(value) and inside(index, 0, rows * size), "messages of boxes are not sound.")
    need((np.abs(value) <= LARGEST).all(), f"a message is no number of at most {LARGEST} in size.")
    children: list[list[int]] = [[] for _ in range(n_boxes)]
    for i in range(1, n_boxes):
        children[parent[i]].append(i)
    kept = [np.arange(size)[None] != label[:, None], np.arange(size)[None] == label[:, None],
            np.arange(size)[None] < label[:, None], np.arange(size)[None] >= label[:, None]]  # fmt: skip

    def covered(i: int, domain: np.ndarray) -> bool:
        nodes = {int(node[c]) for c in children[i]}
        left = [kept[relation[c]][c] for c in children[i]]
        return len(nodes) == 1 and not (domain[nodes.pop()] & ~np.any(left, axis=0)).any()

    # The room below which a box is closed; a box closed so adds what it may hold to the gap.
    room = tolerance if not problem.whole_numbers else max(tolerance, 1 - Fraction(1, 1 << 4000))
    gap, upper = Fraction(0), -math.inf if y is None else score
    stack, last, view, messages = [(0, problem.allowed)], -1, None, np.zeros((rows, size))
    while stack:
        i, domain = stack.pop()
        if number[i] != last:
            last, part, messages = int(number[i]), slice(ptr[number[i]], ptr[number[i] + 1]), np.zeros((rows, size))
            messages.reshape(-1)[index[part]] = value[part]
            view = None if y is None else View(problem, messages, y)
        above: Value = math.inf
        precise = False
        while True:
            domain = problem.arc_consistent(domain)
            if not domain.any(axis=1).all():
                above = -math.inf
                break
            if view is None:
                break
            above, limit = view.exact(domain, score) if precise else view.fast(domain)
            if above <= room:
                break
            worse = domain & (limit <= (room if precise else low_float(room)))
            if worse.any():
                gap, domain = max(gap, Fraction(limit[worse].max())), domain & ~worse
            elif precise or covered(i, domain):
                break
            else:
                precise = True
        if above <= room:
            gap = max(gap, above)
        elif covered(i, domain):
            for child in children[i]:
                smaller = domain.copy()
                smaller[node[child]] &= kept[relation[child]][child]
                stack.append((child, smaller))
        elif view is None:
            upper = max(upper, problem.height(messages, domain))
        else:
            gap = max(gap, above)
    return upper + gap if y is not None else upper


def low_float(value: Fraction) -> float:
    """A float that is not above a number."""
    found = float(value)
    return found if found <= value else math.nextafter(found, -math.inf)


class View:
    """How far messages let the labellings of a box lie above a known one: by floats that are never too small, or exactly."""

    def __init__(self, problem: Problem, messages: np.ndarray, y: np.ndarray):
        self.problem, self.messages, nodes = problem, messages, np.arange(problem.n_nodes)
        value, error = problem.thetas(messages)
        self.theta = value + error
        self.node_at = value[nodes, y] - error[nodes, y]
        parts, (u, v) = list(problem.tables(messages)), problem.edges.T
        empty = np.zeros((0, problem.size, problem.size))
        table, wrong = (np.concatenate([empty] + [part[j] for part in parts]) for j in (1, 2))
        e = np.arange(len(u))
        self.edge_at = table[e, y[u], y[v]] - wrong[e, y[u], y[v]]
        self.table, self.u, self.v = table + wrong, u, v
        self.sent = messages[2 * len(u) :]
        self.shift = max(problem.shift, shift_of(messages))
        own = whole(self.sent[np.arange(len(self.sent)), y[problem.members]], self.shift)
        ptr = problem.clique_ptr
        values = problem.values(y)
        assert values is not None
        self.clique_at = np.left_shift(values[2], self.shift - problem.shift) + fold(own, np.diff(ptr))

    def fast(self, domain: np.ndarray) -> tuple[Value, np.ndarray]:
        """A number that the excess of the box is not above, and one for each label of the box."""
        top = np.where(domain, self.theta, -np.inf).max(axis=1)
        pair = domain[self.u][:, :, None] & domain[self.v][:, None, :]
        edge = np.where(pair, self.table, -np.inf).reshape(len(self.u), -1).max(axis=1)
        cliques = self.problem.clique_maxima(self.sent, domain, self.shift) - self.clique_at
        every = np.concatenate([top - self.node_at, edge - self.edge_at])
        more = float(Fraction(int(cliques.sum()), 1 << self.shift)) if len(cliques) else 0.0
        total = math.fsum([*every, more])
        total += 2 * EPS * (math.fsum(np.abs(every)) + abs(more)) + TINY
        limit = total - top[:, None] + self.theta
        return Fraction(total), limit + 4 * EPS * (abs(total) + np.abs(top[:, None]) + np.abs(self.theta)) + TINY

    def exact(self, domain: np.ndarray, score: Value) -> tuple[Value, np.ndarray]:
        found = self.problem.maxima(self.messages, domain)
        if found is None:
            return -math.inf, np.full(domain.shape, math.inf)
        above = self.problem.offset + Fraction(sum(int(part.sum()) for part in found[:3]), 1 << found[3]) - score
        limit = np.full(domain.shape, math.inf, dtype=object)
        v, k = np.nonzero(domain)
        less = found[0][v] - self.problem.theta_exact(v, k, self.messages, found[3])
        limit[v, k] = [above - Fraction(int(x), 1 << found[3]) for x in less]
        return above, limit


def quadratic(problem: Problem, a: dict[str, np.ndarray]) -> Value:
    """Section "Quadratic": the tangent of the concave relaxation at a point bounds every score."""
    n_edges, size, (u, v) = len(problem.edges), problem.size, problem.edges.T
    need(a["edge"].shape == (2, n_edges, size) and a["mu"].shape == (problem.n_nodes, size), "point or messages have another shape.")
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
    parts = Fraction(centres, 1 << shift), Fraction(int(top), 1 << (shift + fine + 1)), Fraction(bowl, 1 << (shift + 2 * fine + 1))
    return problem.offset + sum(parts)


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
    words = {True: "holds", False: "DOES NOT HOLD", None: "not decided here"}
    for claim in claims:
        print(f"{claim.name:<12} claimed {claim.claimed:<24} found {claim.found:<24} {words[claim.holds]}")
    if any(claim.holds is False for claim in claims):
        return 1
    return 2 if any(claim.holds is None for claim in claims) else 0


def check_model(model_path: str, data_path: str) -> list[Claim]:
    raise Unreadable("not yet")


if __name__ == "__main__":
    sys.exit(main())
