"""Quadratic forms that are sums of positive semidefinite blocks on edges and nodes."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ..core.errors import InvalidProblemError
from ..core.graph import Graph
from ..kernels.qp import multiply
from ..kernels.records import BlockRows

log = logging.getLogger("maxsum")

_SLIGHT = 1e-8  # of the largest eigenvalue of a block: one that is more negative is refused, not taken for rounding
_ROUNDING = 1e-13  # of the same: a block more negative than this is lifted to be positive semidefinite
_CHUNK = 1 << 16  # numbers of blocks whose eigenvalues are computed at a time: half a MB


class BlockForm:
    r"""A positive semidefinite quadratic form, the sum of blocks on edges and nodes:

    .. math:: \langle \mu, \Theta \mu \rangle
              = \sum_{uv} w_{uv} (\mu_u, \mu_v)' B_{uv} (\mu_u, \mu_v) + \sum_v \mu_v' A_v \mu_v.

    Every block is checked when the form is built: a smallest eigenvalue below ``-1e-8`` of the largest is refused, a slightly
    negative one is lifted to zero by adding to the diagonal, which is logged. For a disjoint union, build the form on
    ``Graph.union``.

    Parameters
    ----------
    graph : Graph
    n_states : int, or array-like of int, shape (n_nodes,)
        Number of states of each node; K is the largest.
    edge_blocks : array-like, shape (2K, 2K) or (T, 2K, 2K), or list of one matrix per edge, optional
        :math:`B`: row ``k`` belongs to label ``k`` of the edge's first node, row ``K + l`` to label ``l`` of the second. One
        block is shared by all edges; T blocks are one per edge, one per edge type, or a bank that ``edge_block`` indexes.
        In a list, the block of an edge has ``n_states[u] + n_states[v]`` rows.
    edge_block : array-like of int, shape (n_edges,), optional
    edge_weight : array-like, shape (n_edges,), optional
        Factors :math:`w \ge 0`.
    node_blocks : array-like, shape (K, K) or (S, K, K), optional
        :math:`A`: shared, one per node, or a bank that ``node_block`` indexes.
    node_block : array-like of int, shape (n_nodes,), optional
    """

    rows: BlockRows

    def __init__(
        self,
        graph: Graph,
        n_states: Any,
        edge_blocks: Any = None,
        edge_block: Any = None,
        edge_weight: Any = None,
        node_blocks: Any = None,
        node_block: Any = None,
    ):
        n_nodes, n_edges = graph.n_nodes, graph.n_edges
        n_labels = int(np.max(n_states, initial=1)) if np.size(n_states) else 1
        states = states_array(n_states, n_nodes, n_labels)
        weight = np.ones(n_edges) if edge_weight is None else np.array(edge_weight, dtype=np.float64)
        if weight.shape != (n_edges,):
            raise InvalidProblemError(f"edge_weight has shape {weight.shape}, wanted ({n_edges},).")
        if not (np.isfinite(weight) & (weight >= 0)).all():
            e = int(np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))[0])
            raise InvalidProblemError(
                f"edge_weight of edge {e} is {weight[e]}, wanted finite and >= 0, else the form is not convex."
            )
        if edge_blocks is None:
            edge_blocks, edge_block = np.zeros((0, 2 * n_labels, 2 * n_labels)), None
            edges, weight = np.zeros((0, 2), dtype=np.int32), weight[:0]
        else:
            edges = graph.edges
            if isinstance(edge_blocks, (list, tuple)) and len(edge_blocks) == n_edges:
                edge_blocks = _pad_blocks(edge_blocks, edges, states, n_labels)
        kinds = None if graph.n_edge_types == 1 else graph.edge_type
        pair, number = _bank(edge_blocks, edge_block, len(edges), 2 * n_labels, "edge", kinds)
        pair = _definite(pair, "edge")
        if node_blocks is None:
            own, which = np.zeros((0, n_labels, n_labels)), np.zeros(0, dtype=np.int64)
        else:
            own, which = _bank(node_blocks, node_block, n_nodes, n_labels, "node", None)
            own = _definite(own, "node")
        self.rows = _rows(states, edges, pair, number, weight, own, which)

    @classmethod
    def _from_rows(cls, rows: BlockRows) -> BlockForm:
        """A form that is known to be positive semidefinite (internal)."""
        form = cls.__new__(cls)
        form.rows = rows
        return form

    @property
    def n_states(self) -> np.ndarray:
        return self.rows.n_states

    @property
    def n_labels(self) -> int:
        """Most labels of a node."""
        return self.rows.diagonal.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix over the entries that exist, node after node."""
        size = int(self.rows.n_states.sum())
        return size, size

    def matvec(self, x: Any) -> np.ndarray:
        """Product with a vector of ``shape[0]`` entries: the form as an operator."""
        mask = np.arange(self.n_labels) < self.n_states[:, None]
        given, full = np.asarray(x, dtype=np.float64), np.zeros(mask.shape)
        if given.shape != (self.shape[0],):
            raise InvalidProblemError(f"the vector has shape {given.shape}, wanted ({self.shape[0]},).")
        full[mask] = given
        out = np.zeros_like(full)
        multiply(self.rows, full, out, 0, len(full))
        return out[mask]


def states_array(n_states: Any, n_nodes: int, n_labels: int) -> np.ndarray:
    """``n_states`` as int32 (N,), each in ``1 .. n_labels``."""
    given = np.asarray(n_states)
    if given.dtype.kind not in "iu":
        raise InvalidProblemError(f"n_states has dtype {given.dtype}, wanted integers.")
    if given.ndim == 0:
        given = np.full(n_nodes, given)
    if given.shape != (n_nodes,):
        raise InvalidProblemError(f"n_states has shape {given.shape}, wanted ({n_nodes},).")
    if n_nodes and not (given.min() >= 1 and given.max() <= n_labels):
        v = int(np.flatnonzero((given < 1) | (given > n_labels))[0])
        raise InvalidProblemError(f"node {v} has {given[v]} states, wanted 1 .. {n_labels}.")
    return np.ascontiguousarray(given, dtype=np.int32)


def _pad_blocks(blocks: Any, edges: np.ndarray, states: np.ndarray, n_labels: int) -> np.ndarray:
    padded = np.zeros((len(blocks), 2 * n_labels, 2 * n_labels))
    for e, (u, v) in enumerate(edges.tolist()):
        block, a, b = np.asarray(blocks[e], dtype=np.float64), states[u], states[v]
        if block.shape == padded.shape[1:]:
            padded[e] = block
        elif block.shape == (a + b, a + b):
            at = np.concatenate([np.arange(a), n_labels + np.arange(b)])
            padded[e][np.ix_(at, at)] = block
        else:
            raise InvalidProblemError(f"edge block {e} (nodes {u}-{v}) has shape {block.shape}, wanted {(int(a + b),) * 2}.")
    return padded


def _bank(blocks: Any, index: Any, n: int, size: int, what: str, kinds: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Blocks (T, size, size), and which one each of the ``n`` edges or nodes has."""
    bank = np.asarray(blocks, dtype=np.float64)
    if bank.ndim == 2:
        bank = bank[None]
    if bank.ndim != 3 or bank.shape[1:] != (size, size):
        raise InvalidProblemError(
            f"{what}_blocks have shape {np.shape(blocks)}, wanted (T, {size}, {size}) or ({size}, {size})."
        )
    if index is not None:
        number = np.asarray(index)
        if number.shape != (n,) or number.dtype.kind not in "iu":
            raise InvalidProblemError(
                f"{what}_block has shape {number.shape} and dtype {number.dtype}, wanted ({n},) integers."
            )
        if n and not (number.min() >= 0 and number.max() < len(bank)):
            i = int(np.flatnonzero((number < 0) | (number >= len(bank)))[0])
            raise InvalidProblemError(f"{what} {i} has block {number[i]}, but there are {len(bank)} (0..{len(bank) - 1}).")
        return bank, number.astype(np.int64)
    if len(bank) == n:
        return bank, np.arange(n)
    if len(bank) == 1:
        return bank, np.zeros(n, dtype=np.int64)
    if kinds is not None and kinds.max(initial=-1) < len(bank):
        return bank, kinds.astype(np.int64)
    raise InvalidProblemError(
        f"there are {len(bank)} {what} blocks for {n} {what}s; wanted 1 or {n}, or {what}_block to choose."
    )


def _definite(bank: np.ndarray, what: str) -> np.ndarray:
    """The blocks, slightly indefinite ones lifted; those that are not positive semidefinite are refused.

    Cholesky settles most blocks; only those of a batch where it fails are looked at by eigenvalues.
    """
    size = max(1, _CHUNK // max(1, bank.shape[1] ** 2))
    lifted: dict[int, float] = {}
    for start in range(0, len(bank), size):
        batch = bank[start : start + size]
        scale = np.abs(batch).max(axis=(1, 2))
        if not np.isfinite(scale).all():
            raise InvalidProblemError(
                f"{what} block {start + np.flatnonzero(~np.isfinite(scale))[0]} holds a number that is not finite."
            )
        skew = np.abs(batch - batch.transpose(0, 2, 1)).max(axis=(1, 2))
        if (skew > 1e-9 * scale).any():
            i = int(np.flatnonzero(skew > 1e-9 * scale)[0])
            raise InvalidProblemError(
                f"{what} block {start + i} is not symmetric (entries differ by {skew[i]:.3g}); pass (B + B.T) / 2."
            )
        try:
            np.linalg.cholesky(batch)
            continue
        except np.linalg.LinAlgError:
            values = np.linalg.eigvalsh(batch)
        low, high = values[:, 0], np.abs(values).max(axis=1)
        bad = np.flatnonzero(low < -_SLIGHT * high)
        if len(bad):
            i = int(bad[0])
            raise InvalidProblemError(
                f"{what} block {start + i} is not positive semidefinite: its smallest eigenvalue is {low[i]:.6g} (the largest "
                f"{values[i, -1]:.6g}), wanted >= 0. Add {-low[i]:.6g} to its diagonal, or project it onto the cone."
            )
        lifted |= {start + int(i): -float(low[i]) for i in np.flatnonzero(low < -_ROUNDING * high)}
    if not lifted:
        return bank
    i, shift = max(lifted.items(), key=lambda item: item[1])
    log.warning(
        "%d %s blocks are slightly indefinite (block %d: eigenvalue %.3g); lifted to zero.", len(lifted), what, i, -shift
    )
    bank = bank.copy()
    for i, shift in lifted.items():
        bank[i] += shift * np.eye(bank.shape[1])
    return bank


def _rows(
    states: np.ndarray,
    edges: np.ndarray,
    pair: np.ndarray,
    number: np.ndarray,
    weight: np.ndarray,
    own: np.ndarray,
    which: np.ndarray,
) -> BlockRows:
    """Rows of blocks. Diagonal blocks of a small bank stay shared; those of a large one are summed for each node."""
    from scipy.sparse import coo_array

    n, n_labels, n_pairs = len(states), pair.shape[1] // 2, len(pair)
    ends = edges.astype(np.int64)
    first, second = pair[:, :n_labels, :n_labels], pair[:, n_labels:, n_labels:]
    count = [coo_array((weight, (ends[:, i], number)), shape=(n, n_pairs)).tocsr() for i in (0, 1)]
    if 2 * n_pairs >= n > 0:
        flat = sum(count[i] @ np.ascontiguousarray(b).reshape(n_pairs, -1) for i, b in enumerate((first, second)))
        own = np.asarray(flat).reshape(n, n_labels, n_labels) + (own[which] if len(which) else 0.0)
        which, diagonal = np.arange(n), own
        entries = []
    else:
        diagonal = np.concatenate([own, first, second])
        entries = [(c.tocoo(), len(own) + i * n_pairs) for i, c in enumerate(count)]
    base = 2 * n_pairs
    groups = [
        (ends[:, 1], ends[:, 0], number, weight),
        (ends[:, 0], ends[:, 1], n_pairs + number, weight),
        (np.arange(len(which)), np.arange(len(which)), base + which, np.ones(len(which))),
        *((c.row, c.row, base + offset + c.col, c.data) for c, offset in entries),
    ]
    row, col, block, factor = (np.concatenate(column) for column in zip(*groups, strict=True))
    off = pair[:, :n_labels, n_labels:]
    bank = np.concatenate([off, off.transpose(0, 2, 1), diagonal])
    return block_rows(states, row, col, block, factor, bank, np.zeros((n, n_labels)))


def block_rows(
    states: np.ndarray,
    row: np.ndarray,
    col: np.ndarray,
    block: np.ndarray,
    weight: np.ndarray,
    bank: np.ndarray,
    diagonal: np.ndarray,
) -> BlockRows:
    """`BlockRows` from entries in any order."""
    order = np.argsort(row, kind="stable")
    ptr = np.zeros(len(states) + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=len(states)), out=ptr[1:])
    return BlockRows(
        states,
        ptr,
        col[order].astype(np.int32),
        block[order].astype(np.int32),
        np.ascontiguousarray(weight[order], dtype=np.float64),
        np.ascontiguousarray(bank),
        diagonal,
    )
