"""Check answers and models of maxsum without maxsum: this file needs Python and numpy, and nothing else.

    python check_maxsum.py PROBLEM.npz ANSWER.npz
    python check_maxsum.py MODEL DATA

Every claim of the second file (of the model) is recomputed and compared, a line each. The exit code is 0 if all hold, 1 if one does
not, 2 if a file cannot be read, or a claim can be neither confirmed nor refuted here. File formats and mathematics are in
docs/certificates.md; sections of it are named below. Every float is a whole multiple of 2**-BITS, so all sums are taken in Python's
integers: nothing is rounded. Float arithmetic only says, with its error, which entries can be the largest of many.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import struct
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate, combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

BITS = 1074  # every float is a whole multiple of 2**-BITS
ONE = 1 << 2 * BITS  # exact scores are integers, in units of 1 / ONE: a product of two floats (weight and feature) is one
EPS = 2.0**-52  # rounding of a float
TINY = 2.0**-1000  # more than underflow can take from a product
LARGEST = 1e100  # sums of larger numbers may overflow
TOLERANCE = 1e-9  # of the variation of a score (of an objective): the gap that still counts as none
MOST_NODES = 6  # of a factor whose changes count in the variation of a score
MOST_LABELS = 4096  # of an extra node
MOST_PAIRS = 10**7  # of a state and a label in a function that is read label by label
LOOSE = 1e-6  # of an objective: what the slacks of graphs with cycles may be open by
CELLS = 1 << 23  # entries of partial labellings that are in memory at once
ELSEWHERE = "`maxsum verify MODEL DATA`, with the data that the model was trained on, checks it"
Value = Any  # a Fraction, or inf or -inf
Arrays = dict[str, np.ndarray]
Part = tuple[tuple[int, ...], np.ndarray, np.ndarray]
Lift = tuple[list[np.ndarray], list[tuple[int, int, np.ndarray]]]


class Unreadable(Exception):
    """The file is broken, does not belong to the other one, or holds a form that is not checked here."""


class Claim(NamedTuple):
    """A line of the report; ``holds`` is None if this file can neither confirm nor refute it."""

    name: str
    claimed: Any
    found: Any
    holds: bool | None


def need(condition: Any, words: str) -> None:
    """Refuse a file."""
    if not condition:
        raise Unreadable(words)


# ---- files -----------------------------------------------------------------------------------------------------------

# Members with type, shape and values. Letters are sizes, the same wherever they occur. "0:N" means 0 <= x < N, "|M" that the member cuts
# M things into pieces, "low" that -inf may occur, "any" that the values are looked at elsewhere; "i" and "f" are types of any width.
PROBLEM = {
    "header": "u1 H", "edges": "i4 E,2 0:N", "edge_type": "i4 E", "parts": "i8 P", "unary": "f8 N,K any", "tables": "f8 T,K,K any",
    "edge_table": "i4 E 0:T", "edge_weight": "f8 E", "n_states": "i4 N 1:K+1", "clique_ptr": "i8 C+1 |M", "clique_nodes": "i4 M 0:N",
    "clique_weights": "f8 C,K", "factor_ptr": "i8 F+1 |G", "factor_nodes": "i4 G 0:N", "factor_function": "i4 F 0:O",
    "function_kind": "u1 O 0:5", "function_ptr": "i8 2,O+1", "function_numbers": "i8 I", "function_scores": "f8 J low",
}  # fmt: skip
COMMON = {"answer": "i8 -", "form": "u1 A", "solver": "u1 B", "score": "f8 - any", "bound": "f8 - any", "labels": "i4 N 0:K",
          "guarantee": "u1 D"}  # fmt: skip
FORMS = {
    "none": {},
    "messages": {"edge": "f8 2,E,K", "clique": "f8 M,K"},
    "cycles": {"edge": "f8 2,E,K", "clique": "f8 M,K", "cycle_ptr": "i8 U+1 |V", "cycle_edge": "i4 V 0:E", "cycle_turned": "u1 V 0:2",
               "cycle_held": "f8 V,K,K"},
    "partial": {"edge": "f8 2,E,K", "clique": "f8 M,K", "cycle_ptr": "i8 U+1 |V", "cycle_edge": "i4 V 0:E", "cycle_turned": "u1 V 0:2",
                "cycle_held": "f8 V,K,K", "part": "i4 Q 0:N", "nodes": "i4 Q 0:Q", "separator_ptr": "i8 Q+1 |S", "separators": "i4 S 0:Q",
                "tables": "f8 L low"},
    "elimination": {"nodes": "i4 N 0:N", "separator_ptr": "i8 N+1 |S", "separators": "i4 S 0:N", "tables": "f8 L low"},
    "search": {"parent": "i X", "node": "i X", "label": "i X", "relation": "i X 0:4", "message_set": "i X -1:Y", "ptr": "i Y+1 |Z",
               "index": "i Z", "value": "f Z", "passes": "i X 0:256", "effort": "i X 0:27", "level": "f8 - any"},
    "cores": {"edge": "f8 2,E,K", "clique": "f8 M,K", "core_ptr": "i8 R+1 |W", "core_nodes": "i4 W 0:N", "core_labels": "i4 W 0:K",
              "box_ptr": "i8 R+1 |X", "parent": "i X", "node": "i X", "label": "i X", "relation": "i X 0:4", "message_set": "i X -1:Y",
              "ptr": "i Y+1 |Z", "index": "i Z", "value": "f Z", "passes": "i X 0:256", "effort": "i X 0:27", "level": "f8 R any"},
    "quadratic": {"edge": "f8 2,E,K", "mu": "f8 N,K"},
}  # fmt: skip
FACTORED = (
    "none",
    "messages",
    "elimination",
    *(f"lifted-{form}" for form in ("messages", "cycles", "partial", "elimination", "search")),
)  # with factors
TRAINING = {
    "header": "u1 H", "node_ptr": "i8 J+1 |N", "edge_ptr": "i8 J+1 |E", "edges": "i4 E,2 0:N", "x_ptr": "i8 N+1 |X", "x_col": "i4 X 0:D",
    "x_val": "f8 X", "node_index": "i4 D,K -1:W", "f_ptr": "i8 E+1 |Y", "f_col": "i4 Y 0:F", "f_val": "f8 Y", "edge_index": "i4 F,K,K -2:W",
    "truth": "i4 N 0:K", "loss": "f8 N,K", "n_states": "i4 N 1:K+1", "c": "f8 J", "nonneg": "i8 Q 0:W", "row_ptr": "i8 R+1 |V",
    "row_col": "i8 V 0:W", "row_val": "f8 V",
}  # fmt: skip
PROOF = {"examples": "i A", "alpha": "f A any", "mu": "f B any", "w": "f W", "messages": "f8 O,K"}


def read_npz(path: str, kind: str = "") -> tuple[Arrays, dict[str, Any]]:
    """The arrays of an archive, without pickle (nothing is executed), and the header of a file of this kind; problems have version 2 too."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            need(len(set(names)) == len(names) and all(name.endswith(".npy") for name in names), "it holds odd members")
            found = {name[:-4]: np.lib.format.read_array(archive.open(name), allow_pickle=False) for name in names}
        header = json.loads(found["header"].tobytes()) if kind else {}
        known = (1, 2) if kind == "maxsum-problem" else (1,)
        need(not kind or (header["format"] == kind and header["version"] in known), f"it is no {kind} file of version {known}")
        return found, header
    except Exception as error:  # zipfile, numpy and json raise a dozen kinds on damaged bytes
        raise Unreadable(f"{path} is broken, or another kind of file ({error}).") from None


def checked(arrays: Arrays, members: dict[str, str], sizes: dict[str, int], optional: str = "") -> Arrays:
    """Refuse members that are missing, unknown, of another type, shape or range. New sizes are noted in ``sizes``."""
    odd = set(arrays) ^ set(members)
    need(odd <= set(optional.split()) & set(members), f"member {min(odd, default='')!r} is missing, or should not be there.")
    specs, arrays = {name: (*members[name].split(), "")[:3] for name in members if name in arrays}, dict(arrays)
    for name, (kind, shape, _) in specs.items():
        letters, width = [own for own in shape.split(",") if own != "-"], arrays[name].dtype.newbyteorder("<").str[1:]
        need(width == kind or (len(kind) == 1 and width[0] in kind.replace("i", "iu")), f"{name!r} has type {width}.")
        arrays[name] = arrays[name].astype({"i": np.int64, "f": np.float64}.get(kind, arrays[name].dtype))
        need(arrays[name].ndim == len(letters), f"{name!r} has {arrays[name].ndim} axes, wanted {len(letters)}.")
        for length, letter in zip(arrays[name].shape, letters, strict=True):
            wanted = int(letter) if letter.isdigit() else sizes.setdefault(letter[0], length - letter.count("+"))
            need(length == wanted + letter.count("+"), f"{name!r} has shape {arrays[name].shape}, wanted {shape} of {sizes}.")
    for name, (kind, _, span) in specs.items():
        array, good = arrays[name], np.array(True)
        if span.startswith("|"):
            good = np.array(len(array) > 0 and array[0] == 0 and array[-1] == sizes[span[1:]] and (np.diff(array) >= 0).all())
        elif ":" in span:
            low, high = span.split(":")
            good = (array >= int(low)) & (array < (int(high) if high.isdigit() else sizes[high[0]] + high.count("+")))
        elif kind[0] == "f" and span != "any":
            good = (np.abs(array) <= LARGEST) | (np.isneginf(array) & (span == "low"))
        need(good.all(), f"{name!r} holds numbers that it must not hold ({span or f'above {LARGEST}'} of {sizes}).")
    return arrays


# ---- exact numbers ---------------------------------------------------------------------------------------------------
#
# A sum of terms over a few variables is a list of parts (axes, tables, factors): tables[i] has an axis for each of the variables ``axes``
# and counts factors[i] times. Nodes, edges, cliques and bags are all given so, and `top` finds the maximum of any of them.


def product(x: float, y: float = 1.0) -> int:
    """x times y times ONE, exactly: denominators of floats are powers of two."""
    (a, b), (c, d) = x.as_integer_ratio(), y.as_integer_ratio()
    return a * c << 2 * BITS + 2 - b.bit_length() - d.bit_length()


def part(axes: tuple[int, ...], tables: np.ndarray, factor: float = 1.0) -> Part:
    """Tables with the same factor."""
    return axes, tables, np.full(len(tables), factor)


def sums(parts: list[Part], place: Any) -> list[int]:
    """Exact sums, times ONE, of some cells of finite entries: ``place[i]`` lists their labels of variable i."""
    entries: Any = np.concatenate([tables[(slice(None), *[place[i] for i in axes])] for axes, tables, _ in parts])
    factors = np.concatenate([own for _, _, own in parts]).tolist()
    return [sum(map(product, row, factors)) for row in entries.T.tolist()]


def added(parts: list[Part], labels: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Approximate sums over all cells of some labels of each variable, with their errors."""
    mesh: list[Any] = [
        own.reshape(-1, *[1] * (len(labels) - 1 - i)) for i, own in enumerate(labels)
    ]  # an axis for each variable
    value, size = np.zeros((2, *map(len, labels)))
    for axes, tables, factors in parts:
        own: Any = tables[(slice(None), *[mesh[i] for i in axes])]
        own = own * factors.reshape(-1, *[1] * (own.ndim - 1))
        value += own.sum(axis=0)
        size += np.abs(np.where(np.isneginf(own), 0.0, own)).sum(axis=0)
    return value, (sum(len(tables) for _, tables, _ in parts) + 2) * EPS * size + TINY


def top(parts: list[Part], labels: list[np.ndarray]) -> int | None:
    """The exact maximum over some labels of each variable, times ONE; None if everything is forbidden."""
    value, error = added(parts, labels)
    least = (value - error).max(initial=-np.inf)
    if least == -np.inf:
        return None
    cells: Any = np.nonzero(value + error >= least)
    if error.max() < 0.5 and all(np.array_equal(own, np.floor(own)) for _, *some in parts for own in some):
        cells = np.unravel_index([value.argmax()], value.shape)  # whole numbers, whose sums are exact: ties need no second look
    return max(sums(parts, [own[cell] for own, cell in zip(labels, cells, strict=True)]))


class Terms:
    """Terms of nodes, edges, cliques and factors, and messages between them (sections "The problem" and "Messages").

    ``node(v)`` and ``edge(e)`` are parts. ``ends`` lists what sends messages to nodes: first nodes of all edges, second nodes, members of
    cliques, of factors. Messages are an array with a row for each.
    """

    def __init__(
        self, edges: Any, states: Any, node: Callable[[int], Part], edge: Callable[[int], Part], cliques: Any, factors: Any = ()
    ):
        self.edges, self.states, self.node, self.edge = edges, states, node, edge
        (self.cliques, self.reward), self.factors = cliques, list[tuple[np.ndarray, Function]](factors)
        self.n_nodes, self.n_edges, self.size = len(states), len(edges), self.reward.shape[1]
        self.label = np.arange(self.size)
        self.ends = np.concatenate([*edges.T, *self.cliques, *(nodes for nodes, _ in self.factors)]).astype(np.int64)
        self.other = np.concatenate([edges[:, 1], edges[:, 0]]).astype(np.int64)
        cuts = np.cumsum(np.bincount(self.ends, minlength=self.n_nodes))[:-1]
        self.at = np.split(np.argsort(self.ends, kind="stable"), cuts)  # the ends at each node
        self.has = self.label < states[:, None]
        self.allowed = self.has & [added([node(v)], [self.label])[0] > -np.inf for v in range(self.n_nodes)]
        fits = (~np.isneginf(edge(e)[1][:, : states[u], : states[v]]).any(axis=0) for e, (u, v) in enumerate(edges))
        # edges with forbidden pairs, and which pairs fit
        self.hard = [(*edges[e].tolist(), own) for e, own in enumerate(fits) if not own.all()]

    def less(self, v: int, messages: np.ndarray) -> list[Part]:
        """A node, less its messages."""
        return [self.node(v), part((0,), messages[self.at[v]], -1.0)]

    def more(self, e: int, messages: np.ndarray) -> list[Part]:
        """An edge, with its messages."""
        return [self.edge(e), part((0,), messages[[e]]), part((1,), messages[[self.n_edges + e]])]

    def arc_consistent(self, domain: np.ndarray) -> np.ndarray:
        """Section "Arc consistency": labels without a partner at some edge, or in some factor, go, until none does."""
        domain, before = domain.copy(), -1
        while domain.sum() != before:
            before = domain.sum()
            for u, v, fits in self.hard:
                first, second = domain[u, : len(fits)], domain[v, : fits.shape[1]]
                first &= fits[:, second].any(axis=1)
                second &= fits[first].any(axis=0)
            for nodes, function in self.factors:
                own = [np.flatnonzero(domain[v]) for v in nodes]
                for v, labels, good in zip(nodes, own, function.support(own), strict=True):
                    domain[v, labels] = good
        return domain

    def tops(self, messages: np.ndarray, domain: np.ndarray) -> list[list[Any]] | None:
        """Exact maxima of all nodes, edges, cliques and factors over a domain; None if there is no labelling in it."""
        own = [np.flatnonzero(row) for row in domain]
        nodes = [top(self.less(v, messages), [own[v]]) for v in range(self.n_nodes)]
        edges = [top(self.more(e, messages), [own[u], own[v]]) for e, (u, v) in enumerate(self.edges.tolist())]
        if None in nodes or None in edges:
            return None
        best, at = [], 2 * self.n_edges
        for c, clique in enumerate(self.cliques):  # the larger of the best without the reward and the best with it
            psi, at = messages[at : at + len(clique)], at + len(clique)
            apart = sum(product(float(row[own[v]].max())) for v, row in zip(clique, psi, strict=True))
            together = top([part((0,), self.reward[[c]]), part((0,), psi)], [np.flatnonzero(domain[clique].all(axis=0))])
            best.append(apart if together is None else max(apart, together))
        rows = np.split(messages[at:], np.cumsum([len(nodes) for nodes, _ in self.factors], dtype=int)[:-1])
        factors = [function.best(psi, [own[v] for v in at]) for psi, (at, function) in zip(rows, self.factors, strict=False)]
        return None if None in factors else [nodes, edges, best, factors]

    def agreed(self, y: np.ndarray) -> list[float]:
        """The reward that a labelling has at each clique."""
        return [float(self.reward[c, y[own[0]]]) if (y[own] == y[own[0]]).all() else 0.0 for c, own in enumerate(self.cliques)]

    def values(self, y: np.ndarray | None) -> list[list[Any]] | None:
        """Exact values of all nodes, edges, cliques and factors at a labelling; None if it uses something forbidden, or is none."""
        if y is None or not self.allowed[np.arange(self.n_nodes), y].all():
            return None
        if not all(fits[y[u], y[v]] for u, v, fits in self.hard):
            return None
        nodes = [sums([self.node(v)], y[[v], None])[0] for v in range(self.n_nodes)]
        edges = [sums([self.edge(e)], y[own][:, None])[0] for e, own in enumerate(self.edges)]
        factors = [float(function.scores(y[nodes][None])[0]) for nodes, function in self.factors]
        return None if -math.inf in factors else [nodes, edges, list(map(product, self.agreed(y))), list(map(product, factors))]

    def sweep(self, messages: np.ndarray, domain: np.ndarray, order: list[int], even: bool) -> None:
        """Change messages by a pass of TRW-S (Kolmogorov 2006): each node shares its score between its edges to nodes that come later in
        the order. From the leaves of trees to their roots, and not ``even``, this is dynamic programming. Any result is valid."""
        rank = np.argsort(order)
        for v in order:
            later = self.at[v][rank[self.other[self.at[v]]] > rank[v]]
            among = max(1, len(later), len(self.at[v]) - len(later) if even else 1)
            share = np.where(domain[v], added(self.less(v, messages), [self.label])[0], 0.0) / among
            for end in later.tolist():
                messages[end] = np.where(domain[v], messages[end] + share, 0.0)
                here, there = np.flatnonzero(domain[v]), np.flatnonzero(domain[self.other[end]])
                first = end < self.n_edges
                table = added([self.edge(end % self.n_edges)], [here, there] if first else [there, here])[0]
                best = ((table if first else table.T) + messages[end, here, None]).max(axis=0, initial=-np.inf)
                back = messages[(end + self.n_edges) % (2 * self.n_edges)]
                back[:], back[there] = 0.0, np.where(np.isneginf(best), 0.0, best.max(initial=-np.inf) - best)
        messages[~(np.abs(messages) <= LARGEST)] = 0.0


# ---- factors ---------------------------------------------------------------------------------------------------------


def linked(fits: np.ndarray) -> np.ndarray:
    """A table that forbids what does not fit."""
    return np.where(fits, 0.0, -np.inf)


def tuple_node(tuples: np.ndarray, scores: np.ndarray, shape: Any) -> Lift:
    """One extra node, whose labels are tuples; a single one that agrees with nothing, if there are none."""
    if not len(tuples):
        tuples, scores = np.full((1, len(shape)), -1), np.zeros(1)
    return [scores], [(i, len(shape), linked(np.arange(size)[:, None] == tuples[:, i])) for i, size in enumerate(shape)]


class Function:
    """A function of the labels of some nodes (section "Factors"); ``own`` lists labels of each node.

    It may be for any ``shape`` of labels or for one, for any ``arity`` or for one, and has the ``finite`` scores.
    """

    shape: tuple[int, ...] | None = None
    arity: int | None = None
    finite = np.zeros(1)

    def scores(self, rows: np.ndarray) -> Any:
        """Scores of rows of labels."""

    def best(self, psi: np.ndarray, own: list[np.ndarray]) -> int | None:
        """The exact maximum with messages, times ONE; None if nothing is possible."""

    def support(self, own: list[np.ndarray]) -> Any:
        """Masks of the labels that are part of something possible."""

    def lift(self, shape: Any) -> Any:
        """Scores of extra nodes, and edges (i, j, table), where nodes of the factor are counted first and extra nodes after them."""


class Table(Function):
    """Kind 0: a dense table."""

    def __init__(self, numbers: np.ndarray, scores: np.ndarray):
        self.shape = tuple(numbers.tolist())
        sound = 0 < len(self.shape) <= 30 and min(self.shape) > 0 and math.prod(self.shape) == len(scores)
        need(sound, "the table of a factor has another shape than size.")
        self.table, self.arity = scores.reshape(self.shape), len(self.shape)
        self.possible, self.finite = self.table > -np.inf, scores[scores > -np.inf]

    def scores(self, rows: np.ndarray) -> Any:
        return self.table[tuple(rows.T)]

    def best(self, psi: np.ndarray, own: list[np.ndarray]) -> int | None:
        messages = [part((i,), psi[[i]]) for i in range(len(psi))]
        return top([part(tuple(range(len(psi))), self.table[None]), *messages], own)

    def support(self, own: list[np.ndarray]) -> list[np.ndarray]:
        some = self.possible[np.ix_(*own)]
        return [some.any(axis=tuple(j for j in range(len(own)) if j != i)) for i in range(len(own))]

    def lift(self, shape: Any) -> Lift:
        return tuple_node(np.argwhere(self.possible), self.finite, shape)


class Diagram(Function):
    """Each label leads from state to state, and the last state has a score: ``steps[i][s, k]`` is the number of the state after label k of
    node i in state s, -1 for none. States are those that lead to something possible, in rising order."""

    def __init__(self, shape: Any, start: Any, after: Callable[[int, Any, int], Any], end: Callable[[Any], float]):
        self.shape, self.arity, layer, steps, pairs = tuple(shape), len(shape), [start], [], 0
        for i, size in enumerate(shape):
            pairs += len(layer) * size
            need(pairs <= MOST_PAIRS, f"a factor has more than {MOST_PAIRS} pairs of a state and a label.")
            found = [[after(i, state, k) for k in range(size)] for state in layer]
            layer = sorted({state for row in found for state in row if state is not None})
            number = {state: j for j, state in enumerate(layer)}
            steps.append(np.array([[number.get(state, -1) for state in row] for row in found], dtype=int).reshape(-1, size))
        ends, self.steps = np.array([end(state) for state in layer], dtype=float), list[np.ndarray]()
        keep = ends > -np.inf
        self.ends = ends[keep]
        for step in steps[::-1]:
            step = np.append(np.where(keep, np.cumsum(keep) - 1, -1), -1)[step]  # the last one, so that -1 stays
            keep = (step >= 0).any(axis=1)
            self.steps.insert(0, step[keep])

    def best(self, psi: np.ndarray, own: list[np.ndarray]) -> int | None:
        reached = {0: 0} if len(self.ends) else {}
        for step, row, labels in zip(self.steps, psi, own, strict=True):
            found, cells = dict[int, int](), [(k, product(float(row[k]))) for k in labels.tolist()]
            for state, value in reached.items():
                for k, more in cells:
                    to = int(step[state, k])
                    if to >= 0 and (to not in found or found[to] < value + more):
                        found[to] = value + more
            reached = found
        return max((value + product(float(self.ends[state])) for state, value in reached.items()), default=None)

    def support(self, own: list[np.ndarray]) -> list[np.ndarray]:
        steps = [step[:, labels] for step, labels in zip(self.steps, own, strict=True)]
        reached = [np.ones(len(steps[0]), dtype=bool)]
        for step, size in zip(steps, [*map(len, steps[1:]), len(self.ends)], strict=True):
            reached.append(np.isin(np.arange(size), step[reached[-1]]))
        masks, open_ends = list[np.ndarray](), np.append(self.ends > -np.inf, False)  # the last one is where -1 leads
        for step, here in zip(steps[::-1], reached[-2::-1], strict=True):
            good = open_ends[step]
            masks.insert(0, good[here].any(axis=0))
            open_ends = np.append(good.any(axis=1), False)
        return masks

    def lift(self, shape: Any) -> Lift:
        if not len(self.ends):
            return tuple_node(np.zeros((0, len(shape))), self.ends, shape)
        n, pairs, to = len(shape), [np.nonzero(step >= 0) for step in self.steps], [step[step >= 0] for step in self.steps]
        edges = [(i, n + i, linked(np.arange(size)[:, None] == pairs[i][1])) for i, size in enumerate(shape)]
        edges += [(n + i - 1, n + i, linked(to[i - 1][:, None] == pairs[i][0])) for i in range(1, n)]
        return [*(np.zeros(len(own)) for own in to[:-1]), self.ends[to[-1]]], edges


class SparseTable(Diagram):
    """Kind 1: listed tuples, and one score for all others. States are the beginnings of listed tuples, and one for whatever is not."""

    def __init__(self, numbers: np.ndarray, scores: np.ndarray):
        n = int(numbers[0]) if len(numbers) else 0
        need(0 < n < len(numbers) and len(numbers) == 1 + n * len(scores), "a sparse table has too few or too many numbers.")
        shape, rows = numbers[1 : n + 1], numbers[n + 1 :].reshape(-1, n)
        need((shape > 0).all() and ((rows >= 0) & (rows < shape)).all(), "a sparse table lists labels that do not exist.")
        self.listed, self.default = dict(zip(map(tuple, rows.tolist()), scores[1:].tolist(), strict=True)), float(scores[0])
        need(len(self.listed) == len(rows), "a sparse table lists a tuple twice.")
        self.finite = scores[int(math.prod(shape.tolist()) == len(rows)) :]
        self.finite, known = self.finite[self.finite > -np.inf], {row[:i] for row in self.listed for i in range(n + 1)}
        super().__init__(
            shape.tolist(), (), lambda i, state, k: (*state, k) if (*state, k) in known else (math.inf,),
            lambda state: self.listed.get(state, self.default),
        )  # fmt: skip

    def scores(self, rows: np.ndarray) -> Any:
        return np.array([self.listed.get(tuple(row), self.default) for row in rows.tolist()])

    def lift(self, shape: Any) -> Lift:
        if self.default > -np.inf:
            return super().lift(shape)
        some = sorted(row for row, score in self.listed.items() if score > -np.inf)
        return tuple_node(np.array(some), np.array([self.listed[row] for row in some]), shape)


class Linear(Diagram):
    """Kind 4: a sum of whole numbers between two limits. States are partial sums."""

    def __init__(self, numbers: np.ndarray, scores: np.ndarray):
        given = numbers.tolist()
        n = given[0] if len(given) > 3 else 0
        sizes = given[3 : 3 + n]
        sound = 0 < n == len(sizes) and min(sizes) > 0 and 3 + n + sum(sizes) == len(given) and not len(scores)
        need(
            sound and max(map(abs, given[3 + n :])) <= 2**40, "a linear inequality has too few, too many or too large numbers."
        )
        self.low, self.high = given[1:3]
        self.weights = np.split(numbers[3 + n :], np.cumsum(sizes)[:-1])
        rows = [row.tolist() for row in self.weights]
        # what the last nodes can add: all, all but the first, ...
        least, most = ([*accumulate(map(f, rows[::-1]), initial=0)][::-1] for f in (min, max))

        def after(i: int, state: int, k: int) -> int | None:
            total: int = state + rows[i][k]
            return total if total + most[i + 1] >= self.low and total + least[i + 1] <= self.high else None

        super().__init__(sizes, 0, after, lambda state: 0.0 if self.low <= state <= self.high else -math.inf)

    def scores(self, rows: np.ndarray) -> Any:
        total: Any = sum(own[rows[:, i]] for i, own in enumerate(self.weights))
        return linked((total >= self.low) & (total <= self.high))


class Cardinality(Function):
    """Kind 3: a score of how many nodes have one of some labels."""

    def __init__(self, numbers: np.ndarray, scores: np.ndarray):
        need(len(numbers) and (numbers >= 0).all() and len(scores) > 1, "a count has no labels, or too few scores.")
        self.counted, self.by_count, self.arity = numbers, scores, len(scores) - 1
        self.possible, self.finite = scores > -np.inf, scores[scores > -np.inf]

    def scores(self, rows: np.ndarray) -> Any:
        return self.by_count[np.isin(rows, self.counted).sum(axis=1)]

    def best(self, psi: np.ndarray, own: list[np.ndarray]) -> int | None:
        base, gains, forced = 0, list[int](), 0
        for row, labels in zip(psi, own, strict=True):
            inside = np.isin(labels, self.counted)
            yes, no = (float(row[labels[some]].max(initial=-np.inf)) for some in (inside, ~inside))
            if yes == no == -math.inf:
                return None
            forced, base = forced + (no == -math.inf), base + product(yes if no == -math.inf else no)
            gains += [product(yes) - product(no)] if min(yes, no) > -math.inf else []
        best = accumulate(sorted(gains, reverse=True), initial=base)  # with `forced` nodes that count, with one more, ...
        ends = zip(best, self.by_count[forced:].tolist(), strict=False)
        return max((own + product(score) for own, score in ends if score > -math.inf), default=None)

    def support(self, own: list[np.ndarray]) -> list[np.ndarray]:
        inside = [np.isin(labels, self.counted) for labels in own]
        can = [(bool(some.any()), not some.all()) for some in inside]  # count, or not
        least, most = sum(not no for _, no in can), sum(yes for yes, _ in can)
        if not all(map(len, own)):
            return [np.zeros(len(labels), dtype=bool) for labels in own]
        return [
            np.where(some, self.possible[least + no : most + 1].any(), self.possible[least : most + 1 - yes].any())
            for some, (yes, no) in zip(inside, can, strict=True)
        ]

    def lift(self, shape: Any) -> Lift:
        counted = set(self.counted.tolist())
        return Diagram(shape, 0, lambda i, state, k: state + (k in counted), self.by_count.__getitem__).lift(shape)


class AllDifferent(Function):
    """Kind 2: an assignment of labels to nodes."""

    def __init__(self, numbers: np.ndarray, scores: np.ndarray):
        need(not len(numbers) and not len(scores), "all-different has numbers.")

    def scores(self, rows: np.ndarray) -> Any:
        return linked(np.array([len(set(row)) == len(row) for row in rows.tolist()]))

    def best(self, psi: np.ndarray, own: list[np.ndarray]) -> int | None:
        """For any prices >= 0, their sum and the most that each node gains beyond the price of its label are a bound."""
        gain = [{k: product(float(row[k])) for k in labels.tolist()} for row, labels in zip(psi, own, strict=True)]
        size = 1 + max((k for row in gain for k in row), default=-1)
        if not all(gain) or size < len(gain):
            return None
        never = 2 * (len(gain) + 1) * (1 + max(abs(x) for row in gain for x in row.values()))  # more than any assignment costs
        price = np.maximum(assigned([[-row.get(k, -never) for k in range(size)] for row in gain])[1], 0).tolist()
        return sum(max(x - price[k] for k, x in row.items()) for row in gain) + sum(price)

    def support(self, own: list[np.ndarray]) -> list[np.ndarray]:
        """Régin 1994: a node may take a label if those who are displaced, one after the other, can end with its present label."""
        can = np.zeros((len(own), max(len(own), *(1 + labels.max(initial=-1) for labels in own))), dtype=bool)
        for i, labels in enumerate(own):
            can[i, labels] = True
        row = assigned((~can).astype(int).tolist())[0]
        held, leads = np.argsort(row)[-len(own) :], can[row]  # from each label, where whoever has it may go
        leads[row < 0] = True  # nobody has it
        for middle in range(len(leads)):
            leads |= leads[:, middle, None] & leads[middle]
        possible = can[range(len(own)), held].all()
        return [leads[labels, held[i]] & possible for i, labels in enumerate(own)]

    def lift(self, shape: Any) -> Lift:
        label = [np.arange(size) for size in shape]
        return [], [(i, j, linked(label[i][:, None] != label[j])) for i, j in combinations(range(len(shape)), 2)]


def assigned(costs: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The row of each column (-1: none) in a cheapest assignment, and prices of the columns. There are no more rows than columns.

    The Hungarian method (Kuhn 1955): rows enter one by one, and displace others along the cheapest path."""
    cost = np.array(costs, dtype=object)
    paid, price, row = np.zeros(len(cost), dtype=object), np.zeros(cost.shape[1], dtype=object), np.full(cost.shape[1], -1)
    for start in range(len(cost)):
        i, at, free, came = start, -1, np.ones(len(row), dtype=bool), np.full(len(row), -1)
        least = cost[start] - paid[start] + price
        while i >= 0:
            own = cost[i] - paid[i] + price
            better = free & (own < least)
            least[better], came[better] = own[better], at
            at = min(np.flatnonzero(free).tolist(), key=least.__getitem__)
            step, taken = least[at], ~free
            paid[[start, *row[taken]]] += step
            price[taken] += step
            least[free] -= step
            free[at], i = False, row[at]
        while at >= 0:
            row[at], at = start if came[at] < 0 else row[came[at]], came[at]
    return row, price


KINDS: Any = (Table, SparseTable, AllDifferent, Cardinality, Linear)


# ---- problems and answers --------------------------------------------------------------------------------------------


class Problem(Terms):
    """A problem file (section "Problem files")."""

    def __init__(self, path: str):
        self.sizes: dict[str, int] = {}
        a, header = read_npz(path, "maxsum-problem")
        more = {name for name in PROBLEM if name.startswith(("factor", "function"))}
        need(not (more & set(a)) or more <= set(a), "some of the members of factors are missing.")
        a = checked(a, PROBLEM, self.sizes, " ".join({"parts", *more}))
        edges, states, rewards = a["edges"], a["n_states"], a["clique_weights"]
        self.number, self.weight = a["edge_table"], a["edge_weight"]
        self.offset: Any = header.get("offset", "")
        label, used = np.arange(self.sizes["K"]), np.zeros((2, self.sizes["T"]), dtype=int)
        cliques = np.split(a["clique_nodes"], a["clique_ptr"][1:-1])[: len(rewards)]
        need(type(self.offset) in (int, float) and abs(self.offset) <= LARGEST, "the offset is no number.")
        need((edges[:, 0] != edges[:, 1]).all(), "an edge joins a node to itself.")
        need((rewards >= 0).all() and all(0 < len(own) == len(set(own.tolist())) for own in cliques), "a clique is not sound.")
        for side in (0, 1):
            np.maximum.at(used[side], self.number, states[edges[:, side]])
        # labels that a node lacks are forbidden, and entries that no edge can use count as 0
        self.unary = np.where(label < states[:, None], a["unary"], -np.inf)
        self.bank = np.where((label[:, None] < used[0][:, None, None]) & (label < used[1][:, None, None]), a["tables"], 0.0)
        for array in (self.unary, self.bank):
            need((np.isneginf(array) | (np.abs(array) <= LARGEST)).all(), f"a score is nan, inf or above {LARGEST}.")
        hard: Any = np.isneginf(self.bank).any(axis=(1, 2))
        need((self.weight[hard[self.number]] > 0).all(), "an edge with forbidden pairs has a weight of 0 or below.")
        need(not np.isneginf(self.unary).all(axis=1).any(), "a node has no label that is allowed.")
        factors = self.read_factors(a) if "factor_ptr" in a else []
        every = (self.unary, self.bank, self.weight, rewards, np.array(self.offset), *(own.finite for _, own in factors))
        self.whole_numbers = all((np.isneginf(x) | (x == np.floor(x))).all() for x in every)
        super().__init__(
            edges, states, lambda v: part((0,), self.unary[[v]]),
            lambda e: ((0, 1), self.bank[self.number[[e]]], self.weight[[e]]), (cliques, rewards), factors,
        )  # fmt: skip

    def read_factors(self, a: Arrays) -> list[tuple[np.ndarray, Function]]:
        """Nodes and function of every factor (section "Factors")."""
        codes = []
        for cuts, array in zip(a["function_ptr"], (a["function_numbers"], a["function_scores"]), strict=True):
            checked({"cuts": cuts}, {"cuts": "i8 C |L"}, {"L": len(array)})
            codes.append(np.split(array, cuts[1:-1]))
        functions = [KINDS[kind](*code) for kind, *code in zip(a["function_kind"].tolist(), *codes, strict=False)]
        nodes = np.split(a["factor_nodes"], a["factor_ptr"][1:-1])[: self.sizes["F"]]
        need(all(0 < len(some) == len(set(some.tolist())) for some in nodes), "a factor has no nodes, or one of them twice.")
        self.which: list[int] = a["factor_function"].tolist()
        factors = [(some, functions[i]) for some, i in zip(nodes, self.which, strict=True)]
        for some, own in factors:
            fits = own.arity in (None, len(some)) and own.shape in (None, tuple(a["n_states"][some].tolist()))
            need(fits, "a function is for another number of nodes or of labels than its factor has.")
        return factors

    def total(self, parts: list[list[Any]] | None) -> Value:
        """The offset and all terms; -inf if there are none."""
        return -math.inf if parts is None else Fraction(self.offset) + Fraction(sum(map(sum, parts)), ONE)

    def variation(self, y: np.ndarray) -> float:
        """Section "What optimal means": how much the score varies at a labelling, from what the labelling touches."""
        counts = (self.n_nodes, self.n_edges, len(self.factors))
        n, e, f = (np.unique(np.linspace(0, m - 1, min(m, 512)).astype(np.int64)) for m in counts)
        (u, v), table, weight = self.edges[e].T, self.bank[self.number[e]], np.abs(self.weight[e])
        cells = np.where(self.has[u][:, :, None] & self.has[v][:, None, :], table, -np.inf).reshape(len(e), self.size**2)
        at_edge = nearest(table[np.arange(len(e)), y[u], y[v]], cells) * np.where(weight > 0, weight, np.nan)
        at_clique = nearest(np.array(self.agreed(y)), np.hstack([self.reward, np.zeros((len(self.reward), 1))]))
        change, (u, v), at = self.unary - self.unary[np.arange(self.n_nodes), y][:, None], self.edges.T, slice(None)
        for end, cells in ((u, self.bank[self.number, :, y[v]]), (v, self.bank[self.number, y[u], at])):
            np.add.at(change, end, (cells - self.bank[self.number, y[u], y[v]][:, None]) * self.weight[:, None])
        change += self.moves(y)
        some = [self.factors[i] for i in f]
        at_factor = [nearest(own.scores(y[nodes][None]), np.unique(own.finite)[None])[0] for nodes, own in some]
        terms = [
            (nearest(self.unary[n, y[n]], self.unary[n]), self.n_nodes),
            (at_edge, self.n_edges),
            (at_clique, len(self.cliques)),
            (np.array(at_factor), len(self.factors)),
        ]
        by_terms, by_moves = self.low_sum(terms), self.low_sum([(nearest(np.zeros(len(n)), change[n]), self.n_nodes)])
        return min(by_terms, by_moves) if by_moves > 0 else by_terms

    def moves(self, y: np.ndarray) -> np.ndarray:
        """Changes of the sum of small factors when one node takes another label; factors of one function are summed one after another."""
        change, small = np.zeros(self.unary.shape), [f for f, (nodes, _) in enumerate(self.factors) if len(nodes) <= MOST_NODES]
        places = [(self.which[f], len(self.factors[f][0]), i, f) for f in small for i in range(len(self.factors[f][0]))]
        for _, _, i, f in sorted(places):
            nodes, own = self.factors[f]
            rows = np.tile(y[nodes], (self.states[nodes[i]], 1))
            rows[:, i] = self.label[: len(rows)]
            change[nodes[i], : len(rows)] += own.scores(rows) - own.scores(y[nodes][None])
        return change

    @staticmethod
    def low_sum(kinds: list[tuple[np.ndarray, int]]) -> float:
        """Sum of the distances of some kinds, none counted with more than a hundred times a low one."""
        low, varying = math.inf, []
        for near, count in kinds:
            some = np.sort(near[np.isfinite(near) & (near > 0)])
            if len(some):
                low = min(low, float(some[int(0.05 * max(0, len(some) - 100))]))
                varying.append((some, count / len(near)))
        return float(sum(share * np.minimum(some, 100 * low).sum() for some, share in varying))


class Lifted(Problem):
    """A problem whose factors are written with extra nodes and edges (section "Lifted forms"): it has the same scores."""

    def __init__(self, given: Problem):
        need(not given.cliques, "a lifted form is not for problems with cliques.")
        edges, parts, extra = given.edges.tolist(), list(map(given.edge, range(given.n_edges))), list[np.ndarray]()
        known, apart = dict[Any, Lift](), dict[tuple[int, int], None]()  # pairs of nodes whose labels differ, in their order
        for nodes, function in given.factors:
            shape = tuple(given.states[nodes].tolist())
            if (id(function), shape) not in known:
                known[id(function), shape] = function.lift(shape)
            scores, links = known[id(function), shape]
            own = [*nodes.tolist(), *range(given.n_nodes + len(extra), given.n_nodes + len(extra) + len(scores))]
            extra += scores
            for i, j, table in links:
                if j < len(nodes):
                    apart[min(own[i], own[j]), max(own[i], own[j])] = None
                else:
                    edges.append([own[i], own[j]])
                    parts.append(part((0, 1), table[None]))
        need(max(map(len, extra), default=0) <= MOST_LABELS, f"an extra node has more than {MOST_LABELS} labels.")
        place = {(min(u, v), max(u, v)): e for e, (u, v) in enumerate(given.edges.tolist())}
        same = np.eye(given.size, dtype=bool)
        for pair in apart:  # a weight that is not positive cannot forbid: its sign goes into the table
            if pair in place:
                _, tables, weight = parts[place[pair]]
                parts[place[pair]] = (0, 1), np.where(same, -np.inf, np.sign(weight) * tables), np.abs(weight) + (weight == 0)
            else:
                edges.append(list(pair))
                parts.append(part((0, 1), linked(~same)[None]))
        self.offset, self.whole_numbers = given.offset, given.whole_numbers
        states = np.concatenate([given.states, np.array(list(map(len, extra)), dtype=int)])
        domain = given.arc_consistent(given.allowed)
        need(domain.any(axis=1).all(), "arc consistency leaves a node without labels: such a problem has no lifted form.")
        self.unary = np.full((len(states), max([given.size, *map(len, extra)])), -np.inf)
        self.unary[: given.n_nodes, : given.size] = np.where(domain, given.unary, -np.inf)
        for v, row in enumerate(extra, start=given.n_nodes):
            self.unary[v, : len(row)] = row
        self.sizes = {"N": len(states), "E": len(edges), "K": self.unary.shape[1], "M": 0}
        pairs, none = np.array(edges, dtype=int).reshape(-1, 2), np.zeros((0, self.unary.shape[1]))
        Terms.__init__(self, pairs, states, lambda v: part((0,), self.unary[[v]]), parts.__getitem__, ([], none))


def nearest(at: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Distance of each ``at`` from the nearest other finite number of its row, a twentieth of them left out; inf if there is none."""
    apart = np.abs(np.where(np.isfinite(values), values, 0.0) - at[:, None])
    apart = np.sort(np.where(np.isfinite(values) & (apart > 0), apart, np.inf), axis=1)
    left_out = (np.isfinite(apart).sum(axis=1) * 0.05).astype(np.int64)
    return np.take_along_axis(apart, left_out[:, None], axis=1)[:, 0] if apart.size else np.full(len(at), np.inf)


def check_answer(problem_path: str, answer_path: str) -> list[Claim]:
    """Compare the claims of an answer with what its certificate proves (section "Claims of an answer")."""
    problem, a = Problem(problem_path), read_npz(answer_path)[0]
    form, word = (a[name].tobytes().decode("utf-8", "replace") if name in a else "" for name in ("form", "guarantee"))
    known = FACTORED if problem.factors else tuple(FORMS)
    need(form in known, f"{answer_path} has a certificate of the form {form!r}; this file checks {', '.join(known)}.")
    proven = Lifted(problem) if form.startswith("lifted-") else problem  # what the proof is about
    form, common = form.removeprefix("lifted-"), {name: own for name, own in a.items() if name in COMMON}
    members = FORMS[form] | ({"factor": "f8 G,K"} if form == "messages" and proven.factors else {})
    proof = checked(
        {name: own for name, own in a.items() if name not in COMMON},
        members,
        proven.sizes,
        "" if form == "cores" else "passes effort level",
    )
    a = checked(common, COMMON, problem.sizes, "labels guarantee") | proof
    version, y, claimed, upper = int(a["answer"]), a.get("labels"), float(a["score"]), float(a["bound"])
    need(version in (1, 2) and (version == 2) == ("guarantee" in a), "the answer is not of version 1, or 2 with a guarantee.")
    need(y is None or (y < problem.states).all(), "labels are not one label of its own for each node.")
    need(not math.isnan(claimed) and not math.isnan(upper) and claimed < math.inf, "score or bound is no number.")
    values, tolerance = problem.values(y), Fraction(0)
    score, room = problem.total(values), Fraction(EPS) / 2 * abs(Fraction(problem.offset))
    if values is not None and y is not None:  # room: two ways to add up the values that the labelling touches
        tolerance = Fraction(TOLERANCE) * Fraction(problem.variation(y))
        touched = abs(Fraction(problem.offset)) + Fraction(sum(abs(x) for own in values for x in own), ONE)
        room = Fraction(EPS / 2 * (8 + math.log2(2 + problem.n_nodes + problem.n_edges + len(problem.factors)))) * touched
    if form == "none":
        bound: Value = math.inf
    elif form == "messages":
        messages = np.concatenate([a["edge"].reshape(-1, proven.size), a["clique"], *([a["factor"]] if proven.factors else [])])
        bound = proven.total(proven.tops(messages, proven.arc_consistent(proven.allowed)))
    elif form in ("cycles", "partial"):
        bound = by_cycles(proven, a)
    elif form == "search":
        bound = by_search(proven, a, score, tolerance, upper)
    elif form == "cores":
        bound = by_cores(proven, a)
    else:
        bound = by_elimination(proven, a) if form == "elimination" else by_tangent(proven, a)
    if problem.whole_numbers and math.isfinite(bound):
        bound = Fraction(math.floor(bound))
    feasible, optimal = values is not None, values is not None and bound - score <= tolerance
    proves: dict[str, bool | None] = {
        "infeasible": bound == -math.inf, "optimal": optimal, "within_gap": feasible and bound < math.inf,
        "upper_bound": math.isfinite(bound), "feasible": feasible, "none": True,
    }  # fmt: skip
    best = next(own for own in proves if proves[own])
    need(version == 1 or word in proves, f"the guarantee is {word!r}, wanted one of {', '.join(proves)}.")
    same = claimed == score or (feasible and math.isfinite(claimed) and abs(Fraction(claimed) - score) <= room)
    room += tolerance if form in ("search", "cores") and optimal else 0  # boxes may be closed with other messages than ours
    below: bool | None = bound <= upper or (math.isfinite(upper) and math.isfinite(bound) and bound <= Fraction(upper) + room)
    if any(name in a and a[name].any() for name in ("passes", "effort")):  # what our replay does not reach may still be true
        below = below or (None if score <= upper else False)
        proves["optimal"] = optimal or (None if feasible else False)
        proves["infeasible"] = proves["infeasible"] or (False if feasible else None)
    held = proves[word] if version == 2 else True
    return [
        Claim("score", claimed, score, same),
        Claim("bound", upper, bound, below),
        Claim("guarantee", word or "nothing", best, held),
    ]


def by_cycles(problem: Problem, a: Arrays) -> Value:
    """Section "Cycles": messages for what cycles leave of the tables, and the best closed walk of every cycle."""
    ptr, edges, turned, held = a["cycle_ptr"], a["cycle_edge"], a["cycle_turned"].astype(np.int64), a["cycle_held"]
    begin, end = problem.edges[edges, turned], problem.edges[edges, 1 - turned]
    taken: dict[int, list[np.ndarray]] = {}
    for e, table in zip(edges.tolist(), held, strict=True):
        taken.setdefault(e, []).append(table)
    left = copy.copy(problem)

    def less(e: int) -> Part:
        axes, tables, factors = problem.edge(e)
        own = taken.get(e, [])
        return axes, np.concatenate([tables, *(table[None] for table in own)]), np.append(factors, [-1.0] * len(own))

    left.edge, domain = less, problem.arc_consistent(problem.allowed)
    messages = np.concatenate([a["edge"].reshape(-1, problem.size), a["clique"]])
    tops, total, inside = left.tops(messages, domain), 0, Fraction(0)
    if tops is not None and "part" in a:
        part, inner = a["part"], np.isin(problem.edges, a["part"]).all(axis=1).reshape(-1)
        need((np.diff(part) > 0).all() and not len(problem.cliques), "the part is not in order, or there are cliques.")
        tops[0] = [own for v, own in enumerate(tops[0]) if v not in set(part.tolist())]
        tops[1] = [own for e, own in enumerate(tops[1]) if not inner[e]]
        inside = by_elimination(cut_out(left, part, np.flatnonzero(inner), messages, domain), a)
        if not isinstance(inside, Fraction):
            return inside
    for first, last in pairwise(ptr.tolist()):
        need(last - first > 1 and (end[first:last] == np.roll(begin[first:last], -1)).all(), "a cycle is broken.")
        own = [np.flatnonzero(domain[v]).tolist() for v in begin[first:last]]
        if not all(own):
            return -math.inf
        walks = {(k, k): 0 for k in own[0]}  # the best way to the place, from a label of the first node to one of this
        for i in range(first, last):
            table = held[i].T if turned[i] else held[i]
            steps: dict[tuple[int, int], int] = {}
            for (start, k), value in walks.items():
                for m in own[(i + 1 - first) % len(own)]:
                    longer = value + product(float(table[k, m]))
                    steps[start, m] = max(longer, steps.get((start, m), longer))
            walks = steps
        total += max(value for (start, k), value in walks.items() if start == k)
    return -math.inf if tops is None else problem.total([*tops, [total]]) + inside


def cut_out(left: Problem, part: np.ndarray, inner: np.ndarray, messages: np.ndarray, domain: np.ndarray) -> Problem:
    """Section "Partial search": the problem of a part of the nodes and the edges between them; messages of other edges go to its nodes."""
    own, border = copy.copy(left), np.setdiff1d(np.arange(2 * left.n_edges), np.concatenate([inner, left.n_edges + inner]))

    def node(i: int) -> Part:
        v = int(part[i])
        axes, tables, factors = left.node(v)
        less = messages[np.intersect1d(left.at[v], border)]
        lost = np.where(domain[v], 0.0, -np.inf)[None, : tables.shape[1]]
        return (
            axes,
            np.concatenate([tables, less[:, : tables.shape[1]], lost]),
            np.concatenate([factors, -np.ones(len(less)), [1.0]]),
        )

    edges = np.searchsorted(part, left.edges[inner])
    Terms.__init__(own, edges, left.states[part], node, lambda e: left.edge(int(inner[e])), ([], left.reward[:0]))
    own.offset = 0.0
    return own


def by_cores(problem: Problem, a: Arrays) -> Value:
    """Section "Cores": messages outside, and a search of its own inside each of some disjoint sets of nodes."""
    need(not len(problem.cliques), "a search of cores is for problems without cliques.")
    messages, domain = a["edge"].reshape(-1, problem.size), problem.arc_consistent(problem.allowed)
    tops, inside, free, loose = (
        problem.tops(messages, domain),
        Fraction(0),
        problem.states > 0,
        np.ones(problem.n_edges, dtype=bool),
    )
    for c, (first, last) in enumerate(pairwise(a["core_ptr"].tolist())):
        part, y, boxes = a["core_nodes"][first:last], a["core_labels"][first:last], slice(*a["box_ptr"][c : c + 2].tolist())
        need(
            len(part) and (np.diff(part) > 0).all() and free[part].all(),
            f"core {c} is not in order, or shares a node with another.",
        )
        inner, border = np.isin(problem.edges, part).all(axis=1).reshape(-1), np.isin(problem.ends, part)
        free[part], loose[inner], border = False, False, border & ~np.concatenate([inner, inner])
        core = cut_out(problem, part, np.flatnonzero(inner), messages, domain)
        core.whole_numbers = problem.whole_numbers and bool((messages[border] == np.floor(messages[border])).all())
        values = core.values(y) if (y < core.states).all() else None
        need(values is not None, f"the labels of core {c} are forbidden, or not labels of its nodes.")
        tree = {name: a[name][boxes] for name in ("parent", "node", "label", "relation", "message_set", "passes", "effort")}
        used = tree["message_set"][tree["message_set"] >= 0]
        need(len(used), f"core {c} has no messages.")
        low, high = a["ptr"][[used.min(), used.max() + 1]].tolist()
        tree |= {"level": a["level"][c], "ptr": a["ptr"] - low, "index": a["index"][low:high], "value": a["value"][low:high]}
        bound = by_search(core, tree, core.total(values), Fraction(0), math.inf)
        inside += math.floor(bound) if core.whole_numbers else bound
    if tops is None:
        return -math.inf
    return (
        problem.total([[x for x, own in zip(tops[i], kept, strict=True) if own] for i, kept in ((0, free), (1, loose))])
        + inside
    )


def by_elimination(problem: Problem, a: Arrays) -> Value:
    """Section "Elimination": the sum of the maxima of the bags."""
    order, at, total = a["nodes"].tolist(), 0, 0
    need(sorted(order) == list(range(len(order))), "the order does not list every node once.")
    rank = {v: i for i, v in enumerate(order)}
    bags = [(v, *own.tolist()) for v, own in zip(order, np.split(a["separators"], a["separator_ptr"][1:-1]), strict=True)]
    for i, bag in enumerate(bags):
        need(len(set(bag)) == len(bag) and all(rank[w] >= i for w in bag), f"the separator of node {bag[0]} is not sound.")
    sizes = [math.prod(problem.states[list(bag[1:])].tolist()) for bag in bags]
    need(sum(sizes) == len(a["tables"]), "the separators need more or fewer numbers than the tables hold.")
    inbox: list[list[Part]] = [[] for _ in order]  # what goes to each bag

    def home(scope: Any) -> tuple[list[Part], tuple[int, ...]]:
        """The inbox for a term, and the axes of the term there."""
        first = min(rank[v] for v in scope)
        need(set(scope) <= set(bags[first]), f"the bag of node {order[first]} does not hold all its terms.")
        return inbox[first], tuple(bags[first].index(v) for v in scope)

    terms: list[tuple[Any, Part]] = [((v,), problem.node(v)) for v in range(problem.n_nodes)]
    for scope, (_, tables, factors) in terms + [(own, problem.edge(e)) for e, own in enumerate(problem.edges.tolist())]:
        box, axes = home(scope)
        box.append((axes, tables, factors))
    for c, clique in enumerate(problem.cliques):
        (box, axes), shape = home(clique.tolist()), problem.states[clique].tolist()
        cube = np.zeros((1, *shape))
        diagonal: Any = (0, *[problem.label[: min(shape)]] * len(shape))
        cube[diagonal] = problem.reward[c, : min(shape)]
        box.append(part(axes, cube))
    for nodes, function in problem.factors:
        (box, axes), shape = home(nodes.tolist()), problem.states[nodes].tolist()
        box.append(part(axes, function.scores(np.indices(shape).reshape(len(shape), -1).T).reshape(1, *shape)))
    for i, bag in enumerate(bags):
        labels = [problem.label[: problem.states[w]] for w in bag]
        shape = [len(own) for own in labels[1:]]
        own, at = a["tables"][at : at + sizes[i]], at + sizes[i]
        if shape:
            own = own.reshape(1, *shape)
            if (np.isneginf(own) & (added(inbox[i], labels)[0] > -np.inf)).any():
                return math.inf  # the table would prove too much
            box, axes = home(bag[1:])
            box.append(part(axes, own))
            inbox[i].append(part(tuple(range(1, len(bag))), np.where(np.isneginf(own), 0.0, own), -1.0))
        best = top(inbox[i], labels)
        if best is None:
            return -math.inf
        total += best
    return problem.total([[total]])


def by_tangent(problem: Problem, a: Arrays) -> Value:
    """Section "Quadratic": the tangent of the concave relaxation at a point bounds every score."""
    if problem.cliques or problem.hard:
        return math.inf
    allowed, messages, size = problem.allowed, a["edge"].reshape(-1, problem.size), problem.size
    mu = np.vectorize(product, otypes=[object])(np.where(allowed, np.clip(a["mu"], 0.0, 1.0), 0.0))
    theta = np.zeros(mu.shape, dtype=object)
    for v, own in enumerate(allowed):
        theta[v, own] = sums(problem.less(v, messages), [np.flatnonzero(own)])
    dominance, pull, bowl, centres = np.zeros_like(theta), np.zeros_like(theta), 0, 0  # 2 d, g mu, the sum of squares, s z
    for e, (u, v) in enumerate(problem.edges.tolist()):
        centre = top([problem.edge(e)], [np.flatnonzero(problem.has[u]), np.flatnonzero(problem.has[v])]) or 0
        table = np.array(sums(problem.more(e, messages), np.divmod(np.arange(size**2), size)), dtype=object) - centre
        table = np.where(allowed[u][:, None] & allowed[v], table.reshape(size, size), 0)
        dominance[u], dominance[v] = dominance[u] + np.abs(table).sum(axis=1), dominance[v] + np.abs(table).sum(axis=0)
        pull[u], pull[v] = pull[u] + (table * mu[v]).sum(axis=1), pull[v] + (table * mu[u][:, None]).sum(axis=0)
        bowl += (np.abs(table) * (mu[u][:, None] - np.where(table >= 0, 1, -1) * mu[v]) ** 2).sum()
        centres += centre
    slope = (2 * theta + dominance) * ONE - 2 * dominance * mu + 2 * pull
    steepest = sum(max(row[mask]) for row, mask in zip(slope, allowed, strict=True))
    return problem.total([[centres]]) + Fraction(steepest, 2 * ONE**2) + Fraction(bowl, 2 * ONE**3)


def by_search(problem: Problem, a: Arrays, score: Value, tolerance: Fraction, upper: float) -> Value:
    """Section "Search": replay the branching tree; the bound is that of the worst box that it leaves open."""
    parent, node, label, relation, number = (a[name] for name in ("parent", "node", "label", "relation", "message_set"))
    n_boxes, level = len(parent), float(a.get("level", 0.0))
    passes, effort = (a.get(name, np.zeros(n_boxes, dtype=np.int64)) for name in ("passes", "effort"))
    need(n_boxes and (parent[1:] >= 0).all() and (parent[1:] < np.arange(1, n_boxes)).all(), "a box comes before its parent.")
    need(((node[1:] >= 0) & (node[1:] < problem.n_nodes)).all() and 0 <= level < math.inf, "a box or the level is not sound.")
    need(((a["index"] >= 0) & (a["index"] < len(problem.ends) * problem.size)).all(), "messages of boxes are not sound.")
    compare, children = (np.not_equal, np.equal, np.less, np.greater_equal), [list[int]() for _ in range(n_boxes)]
    kept = [compare[relation[i]](problem.label, label[i]) for i in range(n_boxes)]  # labels of its node that a box keeps
    for i in range(1, n_boxes):
        children[parent[i]].append(i)
    # Numbers are exact, times ONE, and count from the known score. A box with nothing above the room is closed; what it may hold is
    # left open. Without a known score there is no room.
    base, room, left = Fraction(0), None, list[int]()
    if isinstance(score, Fraction):
        base, left = score, [0]
        room = max(math.floor(max(tolerance, Fraction(level)) * ONE), ONE - 1 if problem.whole_numbers else 0)
        if score <= upper < math.inf:  # no more than the claim leaves open
            room = min(room, math.floor((Fraction(upper) - score) * ONE))
    stack = [(0, problem.allowed, np.zeros((len(problem.ends), problem.size)))]  # box, domain, messages of the parent
    while stack:
        i, domain, messages = stack.pop()
        if number[i] >= 0:
            own, messages = slice(a["ptr"][number[i]], a["ptr"][number[i] + 1]), np.zeros_like(messages)
            messages.reshape(-1)[a["index"][own]] = a["value"][own]
        domain, above = shrink(problem, messages, domain, base, room, left)
        recipe = not problem.cliques and above is not None
        if recipe and passes[i]:
            for turn in range(int(passes[i])):
                problem.sweep(messages, domain, list(range(problem.n_nodes))[:: 1 if turn % 2 else -1], True)
            domain, above = shrink(problem, messages, domain, base, room, left)
        if above is None:
            continue
        nodes = {int(node[child]) for child in children[i]}
        if len(nodes) == 1 and not (domain[min(nodes)] & ~np.any([kept[c] for c in children[i]], axis=0)).any():
            with np.errstate(over="ignore"):
                short = messages.astype(np.float32).astype(np.float64)
            for child in children[i]:
                smaller = domain.copy()
                smaller[node[child]] &= kept[child]
                stack.append((child, smaller, np.where(np.isfinite(short), short, 0.0)))
        else:
            left += (
                enumerated(problem, messages, domain, base, above, room, 1 << effort[i]) if recipe and effort[i] else [above]
            )
    return base + Fraction(max(left), ONE) if left else -math.inf


def shrink(problem: Problem, messages: Any, domain: Any, base: Fraction, room: int | None, left: list[int]) -> Any:
    """Steps 1 to 3 of a box: the domain that is left, and how far it may lie above the known score, None if the box is closed."""
    while True:
        domain = problem.arc_consistent(domain)
        found = problem.tops(messages, domain)
        above = None if found is None else math.ceil((problem.total(found) - base) * ONE)
        if found is None or above is None or room is None:
            return domain, above
        if above <= room:
            left.append(above)
            return domain, None
        before = domain.sum()
        for v, best in enumerate(found[0]):
            labels = np.flatnonzero(domain[v])
            for k, own in zip(labels, sums(problem.less(v, messages), [labels]), strict=True):
                if above - best + own <= room:
                    left.append(above - best + own)
                    domain[v, k] = False
        if domain.sum() == before:
            return domain, above


def enumerated(
    problem: Problem, messages: Any, domain: Any, base: Fraction, above: int, room: int | None, most: int
) -> list[int]:
    """What the labellings of a box leave open, by trying them node by node; ``above`` if there are too many.

    A labelling loses against the maxima of nodes and edges: ``rest`` is what each label would lose, given the labels chosen so far.
    Losses are floats from below; labellings that they do not close are computed exactly.
    """
    (node, label), place, slack = np.nonzero(domain), np.cumsum(domain).reshape(domain.shape) - 1, 0.0
    if len(node) > 1024:
        return [above]
    own, rest = [np.flatnonzero(row) for row in domain], np.zeros(len(node))
    pairs = np.where((node[:, None] == node) & (label[:, None] != label), np.inf, 0.0)  # a label excludes others of its node
    for v in range(problem.n_nodes):
        value, error = added(problem.less(v, messages), [own[v]])
        rest[place[v, own[v]]], slack = value.max() - value, slack + 2 * float(error.max())
    for e, (u, v) in enumerate(problem.edges.tolist()):
        value, error = added(problem.more(e, messages), [own[u], own[v]])
        cells, slack = np.ix_(place[u, own[u]], place[v, own[v]]), slack + 2 * float(error.max())
        pairs[cells] += value.max() - value
        pairs.T[cells] += value.max() - value
    needed = math.inf if room is None else float(Fraction(above - room, ONE)) * (1 + EPS)
    exactness = 1 - 4 * EPS * (problem.n_nodes + problem.n_edges + 4)  # of sums of losses
    start, tried, left, stack = np.flatnonzero(np.diff(node, prepend=-1)), 0, list[int](), [(rest[None], list(range(len(own))))]
    while stack:
        rows, todo = stack.pop()
        # next comes the node whose labels lose most, on average, and which has few of them
        todo = sorted(todo, key=lambda v: float(np.minimum(rows[0, node == v], needed).mean()) / len(own[v]))
        # an edge counts once: at the node of it that is chosen later
        brings = np.where(np.isin(node, todo), pairs[node == todo.pop()], 0.0)
        rows = (rows[:, None] + brings).reshape(-1, len(node))
        lost = np.minimum.reduceat(rows, start, axis=1).sum(axis=1) * exactness - slack
        left += [above - math.floor(Fraction(low) * ONE) for low in [lost[lost >= needed].min(initial=np.inf)] if low < np.inf]
        rows, tried = rows[lost < needed], tried + int((lost < needed).sum())
        if tried > 4 * most or (room is None and not todo and len(rows)):
            return [above]
        if todo:
            step = max(1, CELLS // (len(node) * problem.size))
            stack += [(rows[at : at + step], todo) for at in range(0, len(rows), step)]
        else:
            scores = (problem.total(problem.values(label[np.isfinite(row)])) for row in rows)
            left += [math.ceil((score - base) * ONE) for score in scores if score > -math.inf]
    return left


# ---- models and training data ----------------------------------------------------------------------------------------


def read_model(path: str) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model file (section "Model files")."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        version, digest, length = struct.unpack("<I32sQ", content[13:57])
        need(version == 1, f"{path} is a model file of version {version}; this file reads 1.")
        need(hashlib.sha256(content[49:]).digest() == digest, f"{path} is damaged: its checksum is another one.")
        header, arrays, at = json.loads(content[57 : 57 + length]), {}, 57 + length
        for name, kind, shape in header["arrays"]:
            dtype = np.dtype(str(kind))
            need(dtype.kind in "biuf" and all(type(n) is int and n >= 0 for n in shape), f"array {name!r} is not sound.")
            end = at + math.prod(shape) * dtype.itemsize
            arrays[name], at = np.frombuffer(content[at:end], dtype=dtype).reshape(shape), end
        need(at == len(content), "the arrays do not fill the file.")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise Unreadable(f"{path} has a broken header ({error}).") from None
    return header, arrays


def unpacked(given: Any, arrays: Arrays) -> Any:
    """A value of the header: what it says itself, or the arrays that it names."""
    if not isinstance(given, dict):
        return given
    if "array" in given:
        return arrays[given["array"]]
    if "float" in given:
        return float(given["float"])
    if "tuple" in given:
        return [unpacked(own, arrays) for own in given["tuple"]]
    need("rows" in given, f"the proof holds a {given.get('record', 'value')!s:.40} that is not checked here; {ELSEWHERE}.")
    flat, ends = (unpacked(own, arrays) for own in given["rows"])
    checked({"rows": np.concatenate([[0], ends])}, {"rows": "i R |L"}, {"L": len(flat)})
    return np.split(flat, ends[:-1])


class Training(Terms):
    """A training file with weights: the loss-augmented problems of all examples side by side (section "Training files")."""

    def __init__(self, path: str, weights: np.ndarray):
        a, self.header = read_npz(path, "maxsum-training")
        self.a = a = checked(a, TRAINING, {"W": len(weights)})
        truth, (u, v), digest = a["truth"], a["edges"].T, hashlib.sha256()
        for name in TRAINING:
            digest.update(f"{a[name].dtype.str}{a[name].shape}".encode() + np.ascontiguousarray(a[name]).tobytes())
        self.digest, self.weights = digest.hexdigest(), weights
        owner, own = (np.repeat(np.arange(len(a["c"])), np.diff(a[ptr])) for ptr in ("node_ptr", "edge_ptr"))
        need((owner[u] == own).all() and (owner[v] == own).all() and (u != v).all(), "an edge leaves its example.")
        need((truth < a["n_states"]).all() and (a["c"] >= 0).all(), "a true label or the weight of a slack is not sound.")
        need((a["loss"] >= 0).all() and not a["loss"][np.arange(len(truth)), truth].any(), "a loss is not sound.")
        hard = (a["edge_index"] == -2).any(axis=(1, 2))[a["f_col"]]
        need((a["f_val"][hard] > 0).all(), "a feature that forbids pairs is not positive.")
        w = np.concatenate([weights, [-np.inf, 0.0]])  # so that index -2 forbids, and -1 counts nothing

        def node(v: int) -> Part:  # its features, and the loss
            own = slice(a["x_ptr"][v], a["x_ptr"][v + 1])
            tables = np.concatenate([w[a["node_index"][a["x_col"][own]]], a["loss"][[v]]])
            return (0,), tables, np.append(a["x_val"][own], 1.0)

        def edge(e: int) -> Part:
            own = slice(a["f_ptr"][e], a["f_ptr"][e + 1])
            return (0, 1), w[a["edge_index"][a["f_col"][own]]], a["f_val"][own]

        none: Any = [], np.zeros((0, a["loss"].shape[1]))
        super().__init__(a["edges"], a["n_states"], node, edge, none)

    def in_cone(self) -> bool:
        """Whether the weights are in the cone, up to the rounding of a sum of four numbers."""
        parts = list(map(product, self.a["row_val"].tolist(), self.weights[self.a["row_col"]].tolist()))
        rows = [parts[start:end] for start, end in pairwise(self.a["row_ptr"].tolist())]
        return bool((self.weights[self.a["nonneg"]] >= 0).all()) and all(sum(row) << 51 >= -sum(map(abs, row)) for row in rows)

    def leaves_first(self) -> list[int]:
        """Nodes with at most one neighbour that is not listed before: all of them if no graph has a cycle."""
        open_ends = np.array([len(own) for own in self.at])
        order: list[int] = np.flatnonzero(open_ends <= 1).tolist()
        for v in order:  # which grows
            for w in self.other[self.at[v]].tolist():
                open_ends[w] -= 1
                order += [w] if open_ends[w] == 1 else []
        return order

    def objective(self, messages: np.ndarray | None) -> tuple[Fraction, bool]:
        """A number that the objective is not above, and whether it is the objective (section "The objective")."""
        domain, order = self.arc_consistent(self.allowed), self.leaves_first()
        forest = len(order) == self.n_nodes
        if forest:
            messages = np.zeros((len(self.ends), self.size))
            self.sweep(messages, domain, order, False)
        if messages is None:
            raise Unreadable(f"a graph has a cycle and the model no messages: its slacks cannot be checked here; {ELSEWHERE}.")
        truth, tops = self.values(self.a["truth"]), self.tops(messages, domain)
        if truth is None or tops is None:
            raise Unreadable("a true labelling is forbidden.")
        total = sum(product(x, x) for x in self.weights.tolist()) * ONE
        for j, c in enumerate(self.a["c"].tolist()):
            spans = [slice(*self.a[ptr][j : j + 2].tolist()) for ptr in ("node_ptr", "edge_ptr")]
            slack = sum(sum(high[own]) - sum(low[own]) for own, high, low in zip(spans, tops, truth, strict=False))
            total += 2 * product(c) * max(slack, 0)
        return Fraction(total, 2 * ONE**2), forest

    def lower_bound(self, examples: np.ndarray, keys: list[np.ndarray], alpha: np.ndarray, mu: np.ndarray) -> Value:
        """Section "Planes and multipliers"; -inf if the numbers are no proof."""
        a, n, first, truth = self.a, len(self.a["c"]), len(self.a["nonneg"]), self.a["truth"]
        good = len(keys) == len(alpha) and len(mu) == first + len(a["row_ptr"]) - 1 and ((examples >= 0) & (examples < n)).all()
        if not good or not all(((x >= 0) & (x <= LARGEST)).all() for x in (alpha, mu)):
            return -math.inf
        # Multipliers of an example that sum to more than c_j are scaled down, to 60 bits: a mass is in units of 2**-60 / ONE.
        planes, total = list(zip(examples.tolist(), keys, map(product, alpha.tolist()), strict=True)), [0] * n
        for j, _, own in planes:
            total[j] += own
        # (item, *labels): how much of a cell of a node or an edge the true labelling has more than those of the planes
        nodes, edges = Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
        for j, key, own in planes:
            (start, end), (begin, stop) = a["node_ptr"][j : j + 2].tolist(), a["edge_ptr"][j : j + 2].tolist()
            own_labels = key.dtype.kind in "iu" and key.shape == (end - start,)
            if not own_labels or not ((key >= 0) & (key < self.states[start:end])).all():
                return -math.inf
            mass = own * min(1 << 60, (product(float(a["c"][j])) << 60) // total[j]) if own else 0
            ends = self.edges[begin:stop]
            pairs = (edges, begin, truth[ends], key[ends - start])
            for cells, at, old, new in ((nodes, start, truth[start:end, None], key[:, None]), pairs):
                for i in np.flatnonzero((old != new).any(axis=1)).tolist():
                    cells[(at + i, *old[i].tolist())] += mass
                    cells[(at + i, *new[i].tolist())] -= mass
        # D = gain - |u|^2 / 2 with u = sum of alpha z + A'mu
        gain, u = -sum(mass * product(float(a["loss"][cell])) for cell, mass in nodes.items()), [0] * len(self.weights)
        for x, index, cells in (("x", a["node_index"], nodes), ("f", a["edge_index"], edges)):
            for (item, *labels), mass in cells.items():
                features = slice(a[x + "_ptr"][item], a[x + "_ptr"][item + 1])
                meets = index[(a[x + "_col"][features], *labels)].tolist()
                if -2 in meets:
                    return -math.inf  # a labelling that is forbidden
                for i, value in zip(meets, a[x + "_val"][features].tolist(), strict=True):
                    if i >= 0:
                        u[i] += mass * (product(value) >> BITS) >> BITS  # both are whole multiples of 2**BITS
        rows = first + np.repeat(np.arange(len(mu) - first), np.diff(a["row_ptr"]))
        force = map(product, [1.0] * first + a["row_val"].tolist(), mu[:first].tolist() + mu[rows].tolist())
        for i, own in zip(a["nonneg"].tolist() + a["row_col"].tolist(), force, strict=True):
            u[i] += own << 60
        return Fraction(gain, ONE**2 << 60) - Fraction(sum(x * x for x in u), 2 * (ONE << 60) ** 2)


def check_model(model_path: str, data_path: str) -> list[Claim]:
    """Compare the claims of a model with what its certificate proves (section "Claims of a model")."""
    header, arrays = read_model(model_path)
    try:
        told, result, proof = header["objective"], header["result"], header["proof"]
        need(proof is not None, f"{model_path} holds no proof: save it with certificate=True, or `maxsum fit --proof`.")
        kind, surrogate, digest = proof["record"], told["surrogate"], str(told.get("training", ""))
        taken = kind == "DualCertificate" and surrogate in ("margin", "lp") and digest
        need(taken, f"a {kind!s:.40} of {surrogate!s:.40} on {digest or 'no file'} is not checked here; {ELSEWHERE}.")
        given = {name: unpacked(own, arrays) for name, own in [*proof["fields"].items(), ("messages", header.get("messages"))]}
        given["w"] = np.concatenate([arrays["weights"], arrays["more_weights"]]).astype(np.float64)
        keys, named = [np.asarray(key) for key in given["keys"]], ("surrogate", "C", "n_examples", "n_nodes")
        numbers = {name: np.asarray(given[name]) for name in PROOF if given[name] is not None}
        wanted = ("objective", "lower_bound", "gap", "relative_gap")
        claimed, least, gap, relative = (float(unpacked(result[x], arrays)) for x in wanted)
        word, exact = str(result["guarantee"]), result["oracle_guarantee"] == "optimal"
        facts = " ".join(str(told[x]) for x in named)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise Unreadable(f"{model_path} describes no model with a proof ({error}).") from None
    sizes: dict[str, int] = {}
    numbers = checked(numbers, PROOF, sizes, "messages")
    data = Training(data_path, numbers["w"])
    found, cone = " ".join(str(data.header.get(name)) for name in named), data.in_cone()
    need(len(data.weights) == data.header.get("n_weights"), "the model has another number of weights than the data.")
    need(sizes.get("O", len(data.ends)) == len(data.ends) and sizes.get("K", data.size) == data.size, "messages are too few.")
    high, forest = data.objective(numbers.get("messages"))
    bound = data.lower_bound(numbers["examples"], keys, numbers["alpha"], numbers["mu"])
    low = high if forest else bound  # dynamic programming is exact, up to rounding; F(w) is not below what no F is below
    room = Fraction(TOLERANCE) * high
    open_by = room if forest else Fraction(LOOSE) * high
    # The objective is claimed as a number that F(w) is not above, and as F(w) itself if the oracle was exact.
    holds: bool | None = False
    if math.isfinite(claimed) and not (exact and Fraction(claimed) > high + room):
        holds = high <= Fraction(claimed) + open_by or (None if low <= Fraction(claimed) + room else False)
    below = least == -math.inf or (math.isfinite(least) and Fraction(least) <= bound + room)
    difference = max(0.0, claimed - least)
    share = 0.0 if difference == 0 else difference / abs(claimed) if math.isfinite(difference) and claimed else math.inf
    close = share <= TOLERANCE and high - bound <= open_by + 2 * room
    proven = {"optimal": holds is not False and close, "within_gap": bound > -math.inf, "feasible": True}
    return [
        Claim("data", digest[:20], data.digest[:20], digest == data.digest),
        Claim("objective of", facts, found, facts == found),
        Claim("weights", "in the cone", "in the cone" if cone else "outside", cone),
        Claim("objective", claimed, high, holds),
        Claim("lower bound", least, bound, below),
        Claim("gap", gap, difference, gap == difference),
        Claim("relative gap", relative, share, relative == share),
        Claim("guarantee", word, next(name for name in proven if proven[name]), proven.get(word, False)),
    ]


def main(arguments: list[str] | None = None) -> int:
    """The command: report on two files, and the exit code."""
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
    words = {True: "holds", False: "DOES NOT HOLD", None: "not confirmed"}
    for name, *both, holds in claims:
        claimed, found = (own if isinstance(own, str) else repr(float(own)) for own in both)
        print(f"{name:<12} claimed {claimed:<24} found {found:<24} {words[holds]}")
    verdicts = [claim.holds for claim in claims]
    return 1 if False in verdicts else 2 if None in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
