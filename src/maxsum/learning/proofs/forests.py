r"""Best labellings, and sums over all labellings, of a union of forests in plain numpy: level by level, all examples at once.

Nothing here is shared with the kernels of the learners' oracles: it is what certificates are checked with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ...models.bound import BoundModel, Tables
from ..certificate import Check
from .exact_sums import add_up, scaled
from .feature_sums import EPS, absolute

_CELLS = 2**21  # entries of the tables that are worked on at once: 16 MB, which stays in the cache of most machines
MOST_LEVELS = 3000  # deeper trees have too little in a level for numpy: a level costs about 50 microseconds whatever its size


class Level(NamedTuple):
    """Nodes of one depth, with the edge to the parent; ``turned`` where the node is the second end of that edge."""

    nodes: np.ndarray
    parents: np.ndarray
    edges: np.ndarray
    turned: np.ndarray


class Forest(NamedTuple):
    """Roots, and the levels below them, from the top."""

    roots: np.ndarray
    levels: list[Level]

    @classmethod
    def of(cls, n_nodes: int, edges: np.ndarray, which: np.ndarray, most: int = MOST_LEVELS) -> Forest | None:
        """The forest on the nodes in the mask ``which``, which no edge leaves; None if it has more than ``most`` levels."""
        u, v = edges.T.astype(np.int64)
        graph = sparse.coo_array((np.ones(len(u), dtype=np.int8), (u, v)), shape=(n_nodes, n_nodes))
        _, part = connected_components(graph, directed=False)
        _, first = np.unique(part, return_index=True)
        roots = first[which[first]]
        end, number = np.concatenate([u, v]), np.tile(np.arange(len(u)), 2)
        order = np.argsort(end, kind="stable")
        ptr = np.searchsorted(end[order], np.arange(n_nodes + 1))
        number, turned, other = number[order], order < len(u), np.concatenate([v, u])[order]
        levels: list[Level] = []
        above, at = np.full(n_nodes, -1, dtype=np.int64), roots
        while True:
            counts = ptr[at + 1] - ptr[at]
            place = np.repeat(ptr[at] - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
            parents = np.repeat(at, counts)
            down = number[place] != above[parents]
            place, parents = place[down], parents[down]
            if not len(place):
                return cls(roots, levels)
            if len(levels) >= most:
                return None
            at = other[place]
            above[at] = number[place]
            levels.append(Level(at, parents, number[place], turned[place]))


class Scores(NamedTuple):
    """Scores of a union, as what each label gains over the true one: nodes (N, K), ``-inf`` where there is no label; tables of edges; and
    a bound on the rounding error of the score of any labelling of each example."""

    unary: np.ndarray
    tables: Tables
    truth: np.ndarray | None
    error: np.ndarray

    def edge(self, ends: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Tables (n, K, K) of some edges, 0 at the truth; as they are where no truth is known."""
        table = self.tables.bank[self.tables.edge_table[some]] * self.tables.edge_weight[some, None, None]
        if self.truth is None:
            return np.asarray(table)
        a, b = ends[some].T
        return np.asarray(table - table[np.arange(len(some)), self.truth[a], self.truth[b]][:, None, None])


def scores_of(model: BoundModel, w: np.ndarray, loss: np.ndarray | float = 0.0) -> Scores:
    """Loss-augmented scores of the training examples under ``w``."""
    data, truth = model.data, np.asarray(model.labels, dtype=np.int64)
    unary = model.unary(w) + loss
    unary = unary - unary[np.arange(len(unary)), truth][:, None]
    sizes = absolute(model)
    node = sizes.unary(np.abs(w)) + loss
    node = np.where(np.isfinite(node), node, 0.0).max(axis=1, initial=0.0)
    tables, large = model.tables(w), sizes.tables(np.abs(w))
    bank = np.where(np.isfinite(large.bank), large.bank, 0.0).max(axis=(1, 2), initial=0.0) if len(large.bank) else np.zeros(0)
    edge = bank[large.edge_table] * np.abs(large.edge_weight) if len(data.edges) else np.zeros(0)
    n = data.n_examples
    n_nodes, n_edges = np.diff(data.node_ptr), np.diff(data.edge_ptr)
    total = np.bincount(np.repeat(np.arange(n), n_nodes), node, n) + np.bincount(np.repeat(np.arange(n), n_edges), edge, n)
    # each labelling's score is off by at most one rounding for each addition on the way: features of a term, then terms
    features = max(widest(data.x), widest(data.f))
    return Scores(unary, tables, truth, 4.0 * EPS * (n_nodes + n_edges + features + 4) * total)


def widest(matrix: Any) -> int:
    """Most features of a row."""
    return int(np.diff(matrix.indptr).max(initial=0)) if sparse.issparse(matrix) else int(matrix.shape[1])


def highest(forest: Forest, edges: np.ndarray, scores: Scores, check: Check) -> np.ndarray:
    """Best score of each tree above that of the truth, by dynamic programming: one for each root."""
    best = scores.unary.copy()
    for level in reversed(forest.levels):
        for part in _parts(level, best.shape[1]):
            table = _towards_parent(scores, edges, part)
            _give(best, part.parents, (best[part.nodes][:, :, None] + table).max(axis=1))
        check.step(len(level.nodes))
    check.step(len(forest.roots))
    return np.asarray(best[forest.roots].max(axis=1, initial=-np.inf))


def log_sums(forest: Forest, edges: np.ndarray, scores: Scores, check: Check, heat: float = 1.0) -> np.ndarray:
    r""":math:`\epsilon\log\sum_y e^{F(y)/\epsilon}` of each tree less the score of the truth: one for each root."""
    total = scores.unary.copy()
    for level in reversed(forest.levels):
        for part in _parts(level, total.shape[1]):
            table = total[part.nodes][:, :, None] + _towards_parent(scores, edges, part)
            _give(total, part.parents, soft_max(table, 1, heat))
        check.step(len(level.nodes))
    check.step(len(forest.roots))
    return soft_max(total[forest.roots], 1, heat)


def soft_max(values: np.ndarray, axis: int, heat: float) -> np.ndarray:
    r""":math:`\epsilon\log\sum e^{v/\epsilon}` along an axis."""
    top = values.max(axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.squeeze(top, axis) + heat * np.log(np.exp((values - top) / heat).sum(axis=axis)))


def _parts(level: Level, size: int) -> Iterator[Level]:
    step = max(1, _CELLS // size**2)
    for start in range(0, len(level.nodes), step):
        yield Level(*(column[start : start + step] for column in level))


def _towards_parent(scores: Scores, edges: np.ndarray, part: Level) -> np.ndarray:
    """Tables with the label of the node first, that of its parent second."""
    table = scores.edge(edges, part.edges)
    if part.turned.all():
        return table.transpose(0, 2, 1)
    table[part.turned] = table[part.turned].transpose(0, 2, 1)
    return table


def _give(total: np.ndarray, parents: np.ndarray, message: np.ndarray) -> None:
    """Add messages to parents, of which one may have several children."""
    if len(parents) < 2 or (np.diff(parents) > 0).all():
        total[parents] += message
    else:
        np.add.at(total, parents, message)


def beliefs(forest: Forest, edges: np.ndarray, scores: Scores, check: Check) -> tuple[np.ndarray, np.ndarray]:
    """Marginals of nodes (N, K) and edges (E, K, K) of the distributions with these scores, by sums up and down the trees."""
    up, size = scores.unary.copy(), scores.unary.shape[1]
    messages = np.zeros(up.shape)
    for level in reversed(forest.levels):
        for part in _parts(level, size):
            table = up[part.nodes][:, :, None] + _towards_parent(scores, edges, part)
            messages[part.nodes] = soft_max(table, 1, 1.0)
            _give(up, part.parents, messages[part.nodes])
        check.step(len(level.nodes))
    node, edge = np.zeros(up.shape), np.zeros((len(edges), size, size))
    node[forest.roots] = _shares(up[forest.roots])
    for level in forest.levels:
        for part in _parts(level, size):
            table = up[part.nodes][:, :, None] + _towards_parent(scores, edges, part)
            with np.errstate(invalid="ignore"):
                table = np.exp(table - messages[part.nodes][:, None, :])  # p(node | parent)
            table = np.where(np.isfinite(table), table, 0.0) * node[part.parents][:, None, :]
            node[part.nodes] = table.sum(axis=2)
            table[part.turned] = table[part.turned].transpose(0, 2, 1)
            edge[part.edges] = table
    return node / np.maximum(node.sum(axis=1, keepdims=True), 1e-300), edge


def _shares(values: np.ndarray) -> np.ndarray:
    mass = np.exp(values - values.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def exact_slacks(
    model: BoundModel,
    w: np.ndarray,
    loss: np.ndarray,
    easy: np.ndarray,
    forest: Forest,
    scores: Scores,
    check: Check,
    apart: bool = False,
) -> tuple[np.ndarray, int]:
    """Best scores above those of the truth of the examples that are forests, in rational arithmetic: whole numbers and a power of two; with
    ``apart`` those of the best labellings other than the truth, None where there are none.

    Labels that float64 already shows to be no part of a best labelling, by more than its rounding errors, are left out.
    """
    data, size = model.data, model.n_labels
    owner = np.repeat(np.arange(model.n_examples), np.diff(data.node_ptr))
    top = _max_marginals(forest, data.edges, scores, check)
    best = top.max(axis=1, initial=-np.inf)
    truth = np.asarray(model.labels, dtype=np.int64)
    if (
        apart
    ):  # what a label allows beside the best of the other trees, and the best of these at labels other than the true ones
        roots = np.bincount(owner[forest.roots], best[forest.roots], model.n_examples)
        top = top + (roots[owner] - best)[:, None]
        other_best = np.where(np.arange(size) == truth[:, None], -np.inf, top).max(axis=1, initial=-np.inf)
        best = np.full(model.n_examples, -np.inf)
        np.maximum.at(best, owner, other_best)
        best = best[owner] - 12 * scores.error[owner]
    kept = top >= (best - 4 * scores.error[owner])[:, None]
    kept &= np.isfinite(top)
    kept[~easy[owner]] = False
    nodes, labels = np.nonzero(kept)
    own = np.flatnonzero(easy[np.repeat(np.arange(model.n_examples), np.diff(data.edge_ptr))])
    pairs = kept[data.edges[own, 0]][:, :, None] & kept[data.edges[own, 1]][:, None, :]
    if model.has_forbidden:  # pairs that no labelling has
        pairs &= np.isfinite(scores.edge(data.edges, own))
    at, first, second = np.nonzero(pairs)
    edges, cells = own[at], first * size + second
    ends = truth[data.edges].astype(np.int64)
    every = np.flatnonzero(easy[owner])
    node_scores, power = _exact_scores(model, 0, np.concatenate([nodes, every]), np.concatenate([labels, truth[every]]), w)
    edge_scores, other = _exact_scores(
        model, 1, np.concatenate([edges, own]), np.concatenate([cells, (ends[:, 0] * size + ends[:, 1])[own]]), w
    )
    costs, unit = scaled(loss[nodes, labels])
    least = min(power, other, unit)
    node_scores, edge_scores, costs = (
        values * (1 << (own_power - least)) for values, own_power in ((node_scores, power), (edge_scores, other), (costs, unit))
    )
    base = dict(zip(every.tolist(), node_scores[len(nodes) :], strict=True))
    value: dict[int, dict[int, int]] = {}
    for v, k, score, cost in zip(nodes.tolist(), labels.tolist(), node_scores, costs, strict=False):
        value.setdefault(v, {})[k] = score + cost - base[v]
    edge_base = dict(zip(own.tolist(), edge_scores[len(edges) :], strict=True))
    tables: dict[int, dict[int, int]] = {}
    for e, cell, score in zip(edges.tolist(), cells.tolist(), edge_scores, strict=False):
        tables.setdefault(e, {})[cell] = score - edge_base[e]
    below: dict[int, int] = {}  # of a node: what is lost by a difference in the subtree below it, at its true label
    for level in reversed(forest.levels):
        for v, parent, e, turned in zip(*(column.tolist() for column in level), strict=True):
            mine, table = value[v], tables[e]
            for m in value[parent]:
                cell_of = {k: m * size + k if turned else k * size + m for k in mine}
                ways = {k: mine[k] + table[cell] for k, cell in cell_of.items() if cell in table}
                plain = max(ways.values())
                value[parent][m] += plain
                away = _other(ways, int(truth[v]), below.get(v)) if apart and m == truth[parent] else None
                if away is not None:
                    below[parent] = max(below.get(parent, away - plain), away - plain)
        check.step(len(level.nodes))
    slack = np.zeros(model.n_examples, dtype=object)
    lost: dict[int, int] = {}
    for root in forest.roots.tolist():
        j, plain = int(owner[root]), max(value[root].values(), default=0)
        slack[j] += plain
        away = _other(value[root], int(truth[root]), below.get(root)) if apart else None
        if away is not None:
            lost[j] = max(lost.get(j, away - plain), away - plain)
    if apart:
        slack = np.array([slack[j] + lost[j] if j in lost else None for j in range(model.n_examples)], dtype=object)
    return slack, least


def _other(values: dict[int, int], truth: int, below: int | None) -> int | None:
    """The best of some labels without the true one, which counts with a difference below it."""
    found = [own for k, own in values.items() if k != truth]
    if below is not None and truth in values:
        found.append(values[truth] + below)
    return max(found, default=None)


def second_highest(
    forest: Forest, edges: np.ndarray, scores: Scores, owner: np.ndarray, n_examples: int, check: Check
) -> np.ndarray:
    r"""Best score of each example above that of the truth among all labellings but the truth, by dynamic programming; ``-inf`` without any.

    Beside the best score of a subtree with each label at its node, what it loses at the true label if a label below has to differ: a child
    offers the best that it has with a difference in its subtree, less the best at all.
    """
    best, truth = scores.unary.copy(), np.asarray(scores.truth)
    least = np.full(len(best), -np.inf)
    for level in reversed(forest.levels):
        for part in _parts(level, best.shape[1]):
            table, at = _towards_parent(scores, edges, part), np.arange(len(part.nodes))
            ways = best[part.nodes][:, :, None] + table
            message = ways.max(axis=1)
            above = truth[part.parents]
            offered = _apart(ways[at, :, above], truth[part.nodes], least[part.nodes]) - message[at, above]
            _give(best, part.parents, message)
            np.maximum.at(least, part.parents, offered)
        check.step(len(level.nodes))
    check.step(len(forest.roots))
    roots, top = forest.roots, best[forest.roots].max(axis=1, initial=-np.inf)
    lost = _apart(best[roots], truth[roots], least[roots]) - top
    most = np.full(n_examples, -np.inf)
    np.maximum.at(most, owner[roots], lost)
    return np.bincount(owner[roots], weights=top, minlength=n_examples) + most


def _apart(values: np.ndarray, truth: np.ndarray, least: np.ndarray) -> np.ndarray:
    """The best of each row without the true label, which counts with a difference below it."""
    rows, other = np.arange(len(values)), values.copy()
    other[rows, truth] += least
    return np.asarray(other.max(axis=1, initial=-np.inf))


def _exact_scores(model: BoundModel, kind: int, row: np.ndarray, cell: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, int]:
    """Scores of cells without the loss, in rational arithmetic."""
    entry, weight, feature = model.features_of(kind, row, cell)
    (left, one), (right, two) = scaled(feature), scaled(w[weight])
    out = np.zeros(len(row), dtype=object)
    places, sums = add_up(entry, left * right)
    out[places] = sums
    return out, one + two


def _max_marginals(forest: Forest, edges: np.ndarray, scores: Scores, check: Check) -> np.ndarray:
    """Best score of the tree of each node with each of its labels, in float64."""
    up, size = scores.unary.copy(), scores.unary.shape[1]
    messages = np.zeros(up.shape)
    for level in reversed(forest.levels):
        for part in _parts(level, size):
            messages[part.nodes] = (up[part.nodes][:, :, None] + _towards_parent(scores, edges, part)).max(axis=1)
            _give(up, part.parents, messages[part.nodes])
        check.step(0)
    for level in forest.levels:
        for part in _parts(level, size):
            with np.errstate(invalid="ignore"):
                rest = up[part.parents] - messages[part.nodes]
            rest = np.where(np.isnan(rest), -np.inf, rest)
            up[part.nodes] += (rest[:, None, :] + _towards_parent(scores, edges, part)).max(axis=2)
    return up
