r"""Sums of planes in plain numpy, all planes of a certificate at once: :math:`\sum_i\alpha_i z_i` and :math:`\sum_i\alpha_i b_i`.

A plane moves features from the true labelling to another one, or to pseudo-marginals. What all planes move is collected first, as
amounts at (node, label), (edge, pair of labels) and (clique, label) of the union of all examples; features come in once, at the end.
Nothing here is shared with the kernels. The amounts may be float64, then every sum has a bound on its rounding error, or Python's
whole numbers, then there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...core.errors import CertificateError
from ...models.bound import FORBIDDEN, BoundModel
from ...models.multilabel import MultiLabelBound
from ..certificate import Proven, whole_numbers
from ..oracles.relaxed import Relaxed
from .exact_sums import Dyadic, add_up, rounded, scaled

EPS = float(np.finfo(np.float64).eps)
PAIRWISE = (
    256 * EPS
)  # numpy adds in blocks of 128 and then pairwise: fewer roundings than this for any array that fits into memory
_ALLOWED = 1e-9  # marginals that miss the polytope by more are no rounding of any point of it


class Cells(NamedTuple):
    """Amounts at cells of the rows of one kind; ``blur`` is how far each may be off."""

    row: np.ndarray
    cell: np.ndarray
    amount: np.ndarray
    blur: np.ndarray

    @classmethod
    def of(cls, row: Any, cell: Any, amount: Any, blur: Any = 0.0) -> Cells:
        """Cells from numbers or arrays; one ``blur`` may serve all."""
        row = np.asarray(row, dtype=np.int64)
        return cls(row, np.asarray(cell, dtype=np.int64), np.asarray(amount), np.broadcast_to(blur, row.shape))


class Moves(NamedTuple):
    """What planes move: added at the truth, taken away at their own labels."""

    node: Cells
    edge: Cells
    clique: Cells

    @classmethod
    def join(cls, parts: Sequence[Moves]) -> Moves:
        """All of them."""
        return cls(*(Cells(*(np.concatenate(column) for column in zip(*own, strict=True))) for own in zip(*parts, strict=True)))


class FeatureSum(NamedTuple):
    r""":math:`\sum_i\alpha_i z_i` and :math:`\sum_i\alpha_i b_i`, with bounds on the rounding error of every entry."""

    vector: np.ndarray
    error: np.ndarray
    value: float
    value_error: float

    def __add__(self, other: Any) -> FeatureSum:  # type: ignore[override]
        vector = self.vector + other.vector
        return FeatureSum(
            vector,
            self.error + other.error + EPS * np.abs(vector),
            self.value + other.value,
            self.value_error + other.value_error + EPS * abs(self.value + other.value),
        )

    def scaled(self, share: float) -> FeatureSum:
        """The sum times a number >= 0."""
        value = share * self.value
        error = share * self.error + EPS * share * np.abs(self.vector)
        return FeatureSum(
            share * self.vector, error * (1 + 4 * EPS), value, (share * self.value_error + EPS * abs(value)) * (1 + 4 * EPS)
        )


# ---- planes to moves -----------------------------------------------------------------------------------------------


def labelling_moves(model: BoundModel, examples: np.ndarray, keys: Sequence[Any], alpha: np.ndarray) -> Moves:
    """Moves of labellings, checked: whole numbers of the right shape, and only labels that a node has."""
    data, size = model.data, model.n_labels
    sizes = np.diff(data.node_ptr)[examples]
    rows = [np.asarray(key) for key in keys]
    for j, key, n in zip(examples.tolist(), rows, sizes.tolist(), strict=True):
        if key.shape != (n,) or (n and key.dtype.kind not in "iu"):
            raise CertificateError(
                f"a plane of example {j} has a key of {key.dtype} and shape {key.shape}, wanted the labels of its {n} nodes."
            )
    ends = np.cumsum(sizes)
    node = np.repeat(data.node_ptr[examples] - (ends - sizes), sizes) + np.arange(int(ends[-1]) if len(ends) else 0)
    flat = np.concatenate([np.zeros(0, dtype=np.int64), *rows]) if rows else np.zeros(0, dtype=np.int64)
    labels = whole_numbers(flat.astype(np.int64, copy=False), (len(node),), data.n_states[node], "labels of a plane")
    truth = np.asarray(model.labels, dtype=np.int64)
    changed = labels != truth[node]
    share = np.repeat(alpha, sizes)[changed]
    at = node[changed]
    nodes = _both(at, truth[at], labels[changed], share)
    counts = np.diff(data.edge_ptr)[examples]
    stop = np.cumsum(counts)
    edge = np.repeat(data.edge_ptr[examples] - (stop - counts), counts) + np.arange(int(stop[-1]) if len(stop) else 0)
    shift = np.repeat((ends - sizes) - data.node_ptr[examples], counts)
    u, v = data.edges[edge].astype(np.int64).T + shift
    moved = changed[u] | changed[v]
    edge, u, v, share = edge[moved], u[moved], v[moved], np.repeat(alpha, counts)[moved]
    a, b = data.edges[edge].astype(np.int64).T
    edges = _both(edge, truth[a] * size + truth[b], labels[u] * size + labels[v], share)
    return Moves(nodes, edges, _clique_moves(model, examples, ends - sizes, labels, alpha))


def _both(row: np.ndarray, truth: np.ndarray, other: np.ndarray, share: np.ndarray) -> Cells:
    return Cells.of(np.concatenate([row, row]), np.concatenate([truth, other]), np.concatenate([share, -share]))


def _clique_moves(model: BoundModel, examples: np.ndarray, first: np.ndarray, labels: np.ndarray, alpha: np.ndarray) -> Cells:
    """Cliques whose members agree, under the truth and under labellings that start at ``first`` of ``labels``."""
    none = np.zeros(0, dtype=np.int64)
    if model.data.cliques is None or model.clique_index is None:
        return Cells.of(none, none, alpha[:0])
    ptr, member_ptr, member, _ = model.data.cliques
    truth, parts = np.asarray(model.labels, dtype=np.int64), [Cells.of(none, none, alpha[:0])]
    for j, start, share in zip(examples.tolist(), first.tolist(), alpha, strict=True):
        cliques = np.arange(ptr[j], ptr[j + 1])
        if not len(cliques):
            continue
        own, cuts = member[member_ptr[ptr[j]] : member_ptr[ptr[j + 1]]], member_ptr[cliques] - member_ptr[ptr[j]]
        for values, sign in ((truth[own], 1), (labels[own - model.data.node_ptr[j] + start], -1)):
            low = np.minimum.reduceat(values, cuts)
            same = low == np.maximum.reduceat(values, cuts)
            parts.append(Cells.of(cliques[same], low[same], np.full(int(same.sum()), share * sign, dtype=alpha.dtype)))
    return Cells(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def marginal_moves(
    model: BoundModel,
    nodes: np.ndarray,
    node: np.ndarray,
    edges: np.ndarray,
    edge: np.ndarray,
    share: np.ndarray,
    whole: np.ndarray | None = None,
    examples: np.ndarray | None = None,
) -> Moves:
    """Moves of pseudo-marginals, moved into the local polytope.

    Parameters
    ----------
    nodes, node : ndarray
        Nodes of the union, ascending, and their marginals (n, K); other nodes have one label.
    edges, edge : ndarray
        Edges of the union, ascending, whose tables (m, K, K) are given; others have the product of their nodes' marginals.
    share : ndarray, shape (n_examples,)
        Weight of each example.
    whole : ndarray of int, shape (n_nodes,), optional
        Label of every other node; the truth by default.
    examples : ndarray of int, optional
        The examples that are meant; all by default.
    """
    data, size = model.data, model.n_labels
    truth = np.asarray(model.labels, dtype=np.int64)
    whole = truth if whole is None else whole
    node = settled_nodes(data.n_states[nodes], node, nodes)
    blur = 8 * size * EPS  # scaling to the sum 1, or to the nodes' marginals, leaves a few roundings of numbers below 1
    full = np.zeros((len(data.n_states), size))
    full[np.arange(len(full)), whole] = 1.0
    full[nodes] = node
    owner = np.repeat(np.arange(data.n_examples), np.diff(data.node_ptr))
    edge_owner = np.repeat(np.arange(data.n_examples), np.diff(data.edge_ptr))
    soft = np.zeros(len(full), dtype=bool)
    soft[nodes] = True
    if examples is not None:
        meant = np.zeros(data.n_examples, dtype=bool)
        meant[examples] = True
        share = np.where(meant, share, 0.0)
    changed = np.flatnonzero((soft | (whole != truth)) & (share[owner] > 0))
    left = -full[changed]
    left[np.arange(len(changed)), truth[changed]] += 1.0
    amounts = share[owner[changed], None]
    moved = _dense(changed, left * amounts, amounts * (blur * soft[changed])[:, None])
    given = np.full(len(data.edges), -1, dtype=np.int64)
    given[edges] = np.arange(len(edges))
    touched = np.zeros(len(full), dtype=bool)
    touched[changed] = True
    own = np.flatnonzero((touched[data.edges].any(axis=1) | (given >= 0)) & (share[edge_owner] > 0))
    parts, step = [], max(1, 2**20 // size**2)
    for start in range(0, len(own), step):
        some = own[start : start + step]
        a, b = data.edges[some].T
        known = given[some] >= 0
        table = np.empty((len(some), size, size))
        table[~known] = full[a[~known]][:, :, None] * full[b[~known]][:, None, :]
        table[known] = settled_edges(edge[given[some[known]]], full[a[known]], full[b[known]], some[known])
        table *= -1.0
        table[np.arange(len(some)), truth[a], truth[b]] += 1.0
        amount = share[edge_owner[some], None]
        fuzzy = blur * (known | soft[a] | soft[b])[:, None]
        parts.append(_dense(some, table.reshape(len(some), size**2) * amount, amount * fuzzy))
    none = np.zeros(0, dtype=np.int64)
    pairs = Cells(*(np.concatenate(c) for c in zip(*parts, strict=True))) if parts else Cells.of(none, none, np.zeros(0))
    return Moves(moved, pairs, _common_moves(model, full, truth, share, blur))


def _dense(rows: np.ndarray, amount: np.ndarray, blur: np.ndarray) -> Cells:
    """Cells of whole rows; those without anything are left out."""
    some, cell = np.nonzero((amount != 0) | (blur > 0))
    return Cells.of(rows[some], cell, amount[some, cell], np.broadcast_to(blur, amount.shape)[some, cell])


def _common_moves(model: BoundModel, full: np.ndarray, truth: np.ndarray, share: np.ndarray, blur: float) -> Cells:
    none = np.zeros(0, dtype=np.int64)
    if model.data.cliques is None or model.clique_index is None:
        return Cells.of(none, none, np.zeros(0))
    ptr, member_ptr, member, _ = model.data.cliques
    if not len(member):
        return Cells.of(none, none, np.zeros(0))
    owner = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    left = -np.minimum.reduceat(full[member], member_ptr[:-1], axis=0)
    low = np.minimum.reduceat(truth[member], member_ptr[:-1])
    same = low == np.maximum.reduceat(truth[member], member_ptr[:-1])
    left[np.flatnonzero(same), low[same]] += 1.0
    amount = share[owner][:, None]
    return _dense(np.arange(len(owner)), left * amount, blur * amount)


def relaxed_moves(model: BoundModel, examples: np.ndarray, keys: Sequence[Relaxed], alpha: np.ndarray) -> Moves:
    """Moves of pseudo-marginals of single examples; several of one example are taken one after another."""
    data, size, parts, left = model.data, model.n_labels, [], list(range(len(keys)))
    truth = np.asarray(model.labels, dtype=np.int64)
    for j, key in zip(examples.tolist(), keys, strict=True):
        key.check(data.n_states[data.node_ptr[j] : data.node_ptr[j + 1]], int(data.edge_ptr[j + 1] - data.edge_ptr[j]), size)
    while left:  # each example at most once in a round, so that a round is one set of marginals of the union
        _, first = np.unique(examples[left], return_index=True)
        chosen = [left[i] for i in first.tolist()]
        rest = set(chosen)
        left = [i for i in left if i not in rest]
        whole, share = truth.copy(), np.zeros(data.n_examples)
        for i in chosen:
            j = int(examples[i])
            whole[data.node_ptr[j] : data.node_ptr[j + 1]] = keys[i].labels
            share[j] = alpha[i]
        starts, edge_starts = data.node_ptr[examples[chosen]].tolist(), data.edge_ptr[examples[chosen]].tolist()
        none = np.zeros(0, dtype=np.int64)
        nodes = np.concatenate([none, *(np.asarray(keys[i].nodes) + at for i, at in zip(chosen, starts, strict=True))])
        edges = np.concatenate([none, *(np.asarray(keys[i].edges) + at for i, at in zip(chosen, edge_starts, strict=True))])
        node = np.concatenate([np.zeros((0, size)), *(keys[i].node for i in chosen)])
        edge = np.concatenate([np.zeros((0, size, size)), *(keys[i].edge for i in chosen)])
        parts.append(marginal_moves(model, nodes, node, edges, edge, share, whole, examples[chosen]))
    return Moves.join(parts)


def settled_nodes(n_states: np.ndarray, node: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Marginals (n, K) scaled to the sum 1; those that are none, or of labels that a node lacks, are refused."""
    if not np.isfinite(node).all() or (node < 0).any():
        raise CertificateError("marginals of nodes are negative or not finite, so they prove nothing.")
    total = node.sum(axis=1)
    off = np.abs(total - 1.0)
    if (off > _ALLOWED).any():
        i = int(off.argmax())
        raise CertificateError(f"marginals of node {names[i]} sum to {total[i]}, wanted 1: they miss the local polytope.")
    outside = np.arange(node.shape[1]) >= n_states[:, None]
    if (node[outside] > 0).any():
        i = int((node * outside).max(axis=1).argmax())
        raise CertificateError(f"node {names[i]} has mass on a label that it does not have.")
    return np.asarray(node / total[:, None])


def settled_edges(tables: np.ndarray, rows: np.ndarray, columns: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Tables with these marginals, up to a rounding or two; those that miss them by more are refused."""
    if not np.isfinite(tables).all() or (tables < 0).any():
        raise CertificateError("marginals of edges are negative or not finite, so they prove nothing.")
    off = np.maximum(np.abs(tables.sum(axis=2) - rows).max(axis=1), np.abs(tables.sum(axis=1) - columns).max(axis=1))
    if (off > 2 * _ALLOWED).any():
        i = int(off.argmax())
        raise CertificateError(
            f"the marginals of edge {names[i]} miss those of its nodes by {off[i]}: no point of the local polytope."
        )
    total = tables.sum(axis=2)
    tables = tables * np.minimum(1.0, np.divide(rows, total, out=np.ones_like(total), where=total > 0))[:, :, None]
    total = tables.sum(axis=1)
    tables *= np.minimum(1.0, np.divide(columns, total, out=np.ones_like(total), where=total > 0))[:, None, :]
    lack, short = np.maximum(rows - tables.sum(axis=2), 0.0), np.maximum(columns - tables.sum(axis=1), 0.0)
    missing = lack.sum(axis=1)
    share = np.divide(lack, missing[:, None], out=np.zeros_like(lack), where=missing[:, None] > 0)
    return np.asarray(tables + share[:, :, None] * short[:, None, :])


# ---- moves to sums -------------------------------------------------------------------------------------------------


def feature_sum(model: BoundModel, loss: np.ndarray, moves: Moves) -> FeatureSum:
    """The sums in float64, with bounds on what rounding did to them."""
    size, data = model.n_labels, model.data
    shapes = ((len(data.n_states), size), (len(data.edges), size**2), (_n_cliques(model), size))
    amounts = [_gathered(cells, shape) for cells, shape in zip(moves, shapes, strict=True)]
    most = max(_longest(matrix) for matrix in _matrices(model))
    same = max((int(np.bincount(index[index >= 0]).max(initial=0)) for index in _maps(model)), default=0)
    repeats = max((_repeats(cells, shape) for cells, shape in zip(moves, shapes, strict=True)), default=0)
    unit = (most + same + repeats + 8) * EPS
    sizes = [_gathered(cells, shape, unit) for cells, shape in zip(moves, shapes, strict=True)]
    _refuse_forbidden(model, moves)
    vector, error = adjoint(model, *amounts), unit * adjoint(absolute(model), *sizes)
    product = amounts[0].multiply(loss)
    value, total = -float(product.sum()), float(abs(sizes[0]).multiply(loss).sum())
    return FeatureSum(vector, error, value, (unit + PAIRWISE) * total)


def _gathered(cells: Cells, shape: tuple[int, int], unit: float = 0.0) -> Any:
    """Amounts as a sparse matrix; with a ``unit`` of rounding their sizes, and ``blur`` in this unit."""
    amount = np.abs(cells.amount) + cells.blur / unit if unit else cells.amount
    return sparse.csr_array(sparse.coo_array((amount, (cells.row, cells.cell)), shape=shape))


def _repeats(cells: Cells, shape: tuple[int, int]) -> int:
    """Most amounts that are added up in one cell."""
    if not len(cells.row):
        return 0
    return int(np.unique(cells.row * shape[1] + cells.cell, return_counts=True)[1].max())


def adjoint(model: BoundModel, node: Any, edge: Any, clique: Any) -> np.ndarray:
    """Features under amounts of all nodes (N, K), edges (E, K * K) and cliques: sparse matrices."""
    data, result = model.data, np.zeros(model.n_weights)
    if isinstance(model, MultiLabelBound):
        own, n_labels = sparse.coo_array(node), model.graph.n_nodes
        on = own.col == 1
        place = own.row[on].astype(np.int64)
        amounts = sparse.csr_array((own.data[on], np.divmod(place, n_labels)), shape=(data.n_examples, n_labels))
        value = np.asarray(_array(amounts.T @ data.x))
        result[: value.size] = value.reshape(-1)
    elif data.joint:
        _put(result, model.node_index[:, 0], np.asarray(data.x.T @ node.toarray().reshape(-1)))
    else:
        _put(result, model.node_index, _array(node.T @ data.x).T)
    if len(data.edges):
        if data.joint:
            flat = sparse.coo_array(edge)
            rows = flat.row.astype(np.int64) * edge.shape[1] + flat.col
            column = sparse.csr_array((flat.data, (rows, np.zeros_like(rows))), shape=(data.f.shape[0], 1))
            _put(result, model.edge_index[:, 0, 0], _array(data.f.T @ column).reshape(-1))
        else:
            value = _array(edge.T @ data.f).T
            _put(result, model.edge_index.reshape(len(model.edge_index), model.n_labels**2), value)
    if data.cliques is not None and model.clique_index is not None:
        _put(result, model.clique_index, _array(clique.T @ data.cliques.h).T)
    return result


def _put(result: np.ndarray, index: np.ndarray, value: np.ndarray) -> None:
    used = index >= 0
    result += np.bincount(index[used], weights=value[used], minlength=len(result))[: len(result)]


def _array(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)


def absolute(model: BoundModel) -> BoundModel:
    """The model with the sizes of all features, for sums of sizes."""
    data = model.data
    cliques = None if data.cliques is None else data.cliques._replace(h=abs(data.cliques.h))
    return replace(model, data=replace(data, x=abs(data.x), f=abs(data.f), cliques=cliques))


def _matrices(model: BoundModel) -> list[Any]:
    data = model.data
    return [data.x, data.f] + ([] if data.cliques is None else [data.cliques.h])


def _maps(model: BoundModel) -> list[np.ndarray]:
    return [index.reshape(-1) for index in (model.node_index, model.edge_index, model.clique_index) if index is not None]


def _longest(matrix: Any) -> int:
    """Most rows that have one feature: so many numbers are added up for its weight."""
    return int(np.bincount(matrix.indices).max(initial=0)) if sparse.issparse(matrix) else len(matrix)


def _n_cliques(model: BoundModel) -> int:
    return 0 if model.data.cliques is None else int(model.data.cliques.ptr[-1])


def _refuse_forbidden(model: BoundModel, moves: Moves) -> None:
    """No plane may have a label or a pair of labels that the model forbids: it is no labelling, and bounds nothing. What is within the
    rounding of marginals is no such label."""
    if not model.has_forbidden:
        return
    nodes, edges = ((own.row[some], own.cell[some]) for own in moves[:2] for some in [np.abs(own.amount) > own.blur])
    if model.data.excluded is not None and model.data.excluded[nodes].any():
        raise CertificateError("a plane of the certificate has a label that its node may not have, so it proves nothing.")
    shape = (len(model.data.edges), model.n_labels**2)
    used = sparse.csr_array(sparse.coo_array((np.ones(len(edges[0])), edges), shape=shape))
    met = _array(used.T @ abs(model.data.f)).T.reshape(model.edge_index.shape)
    if (met[model.edge_index == FORBIDDEN] > 0).any():
        raise CertificateError("a plane of the certificate has a pair of labels that the model forbids, so it proves nothing.")


# ---- the same in whole numbers -------------------------------------------------------------------------------------


def exact_feature_sum(model: BoundModel, loss: np.ndarray, moves: Moves, units: tuple[int, int, int]) -> tuple[Dyadic, Dyadic]:
    r""":math:`\sum_i\alpha_i z_i` on its support and :math:`\sum_i\alpha_i b_i`, exactly.

    Amounts of nodes, edges and cliques are whole numbers of ``2 ** units[i]``.
    """
    total = Dyadic.none()
    _refuse_forbidden(model, moves)
    for kind, (cells, unit) in enumerate(zip(moves, units, strict=True)):
        key, amount = add_up(cells.row * model.n_labels ** (2 if kind == 1 else 1) + cells.cell, cells.amount)
        row, cell = np.divmod(key, model.n_labels ** (2 if kind == 1 else 1))
        entry, weight, feature = model.features_of(kind, row, cell)
        numbers, power = scaled(feature)
        total = total + Dyadic(*add_up(weight, numbers * amount[entry]), unit + power)
        if kind == 0:
            costs, power = scaled(loss[row, cell])
            value = Dyadic(np.zeros(1, dtype=np.int64), np.array([-int((costs * amount).sum())], dtype=object), unit + power)
    return total, value


def dual_bound(matrix: Any, mu: np.ndarray, total: Any, value: Any = None) -> Proven:
    r""":math:`\sum_i\alpha_i b_i - \tfrac12\|\sum_i\alpha_i z_i + A^\top\mu\|^2` from the sums of planes and the multipliers of the cone;
    rounding is taken off."""
    if isinstance(total, FeatureSum):
        return _float_bound(total, sparse.csr_array(matrix), mu)
    coo = sparse.coo_array(matrix)
    signs, unit = scaled(coo.data)
    numbers, power = scaled(mu)
    pushed = Dyadic(*add_up(coo.col.astype(np.int64), signs * numbers[coo.row]), unit + power)
    bound = rounded(value.sum() - (total + pushed).square() / 2, up=False)
    return Proven(bound, bound, 0.0, "lower bound from planes and multipliers in rational arithmetic")


def _float_bound(total: FeatureSum, matrix: Any, mu: np.ndarray) -> Proven:
    push = np.asarray(matrix.T @ mu).reshape(-1)
    u = total.vector + push
    longest = int(np.bincount(matrix.indices).max(initial=0)) if matrix.nnz else 0
    error = total.error + EPS * ((longest + 2) * np.asarray(abs(matrix).T @ mu).reshape(-1) + 2 * np.abs(u))
    square, blur = float((u * u).sum()), float(np.sqrt((error * error).sum())) * (1 + PAIRWISE)
    most = (np.sqrt(square) * (1 + PAIRWISE) + blur) ** 2 * (1 + PAIRWISE)
    low = total.value - 0.5 * most
    low -= total.value_error + 4 * EPS * (abs(total.value) + 0.5 * most)
    high = total.value - 0.5 * square
    return Proven(low, high, high - low, "lower bound from planes and multipliers, recomputed from features in plain numpy")
