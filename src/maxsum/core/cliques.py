"""Associative cliques: terms that pay ``w_c[k] >= 0`` when every node of clique ``c`` has label ``k`` (AMN paper, (2))."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import InvalidProblemError, NotAssociativeError
from .ownership import own, owned
from .validation import as_float


@dataclass(frozen=True, eq=False, repr=False)
class Cliques:
    """Associative cliques in flat form; build them with `Cliques.build`.

    Attributes
    ----------
    ptr : ndarray of int64, shape (n_cliques + 1,)
    nodes : ndarray of int32, shape (n_members,)
        Members of clique ``c`` are ``nodes[ptr[c]:ptr[c + 1]]``.
    weights : ndarray of float64, shape (n_cliques, K)
    """

    ptr: np.ndarray
    nodes: np.ndarray
    weights: np.ndarray

    def __post_init__(self) -> None:
        for name in ("ptr", "nodes", "weights"):
            object.__setattr__(self, name, owned(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __repr__(self) -> str:
        return f"Cliques({len(self)} cliques, {len(self.nodes)} members)"

    @property
    def n_members(self) -> int:
        return len(self.nodes)

    @property
    def owner(self) -> np.ndarray:
        """Clique of each member."""
        return np.repeat(np.arange(len(self)), np.diff(self.ptr))

    def members(self, clique: int) -> np.ndarray:
        """Nodes of a clique."""
        return self.nodes[self.ptr[clique] : self.ptr[clique + 1]]

    def values(self, labels: np.ndarray) -> np.ndarray:
        """Term of each clique under a labelling, shape (n_cliques,)."""
        if not len(self):
            return np.zeros(0)
        member = labels[self.nodes]
        low = np.minimum.reduceat(member, self.ptr[:-1])
        agree = low == np.maximum.reduceat(member, self.ptr[:-1])
        return np.where(agree, self.weights[np.arange(len(self)), low], 0.0)

    def common(self, node: np.ndarray) -> np.ndarray:
        """Largest share of each label that all members of a clique can have under node marginals: their least, (2) of Taskar, Chatalbashev & Koller 2004."""
        return np.minimum.reduceat(node[self.nodes], self.ptr[:-1], axis=0) if len(self) else np.zeros((0, node.shape[1]))

    @classmethod
    def empty(cls, n_labels: int) -> Cliques:
        """No cliques."""
        return cls(own(np.zeros(1, dtype=np.int64)), own(np.zeros(0, dtype=np.int32)), own(np.zeros((0, n_labels))))

    @classmethod
    def build(cls, cliques: Any, n_states: np.ndarray, n_labels: int) -> Cliques:
        """Check and flatten cliques.

        Parameters
        ----------
        cliques : Cliques, or iterable of (nodes, weights) pairs
            ``weights`` has one entry per label, or is one number for all labels.
        n_states : ndarray of int32, shape (n_nodes,)
        n_labels : int
            ``n_states.max()``.
        """
        if cliques is None:
            return cls.empty(n_labels)
        if isinstance(cliques, Cliques):
            pairs: Iterable[Any] = [(cliques.members(c), cliques.weights[c]) for c in range(len(cliques))]
        else:
            pairs = cliques
        ptr, nodes, weights = [0], [], []
        for c, pair in enumerate(pairs):
            try:
                given_nodes, given_weights = pair
            except (TypeError, ValueError):
                raise InvalidProblemError(f"clique {c} is {pair!r}, wanted a pair (nodes, weights).") from None
            member = check_members(c, given_nodes, len(n_states))
            nodes.append(member)
            weights.append(_weights(c, given_weights, n_labels, int(n_states[member].min())))
            ptr.append(ptr[-1] + len(member))
        if not nodes:
            return cls.empty(n_labels)
        return cls(own(np.array(ptr, dtype=np.int64)), own(np.concatenate(nodes)), own(np.stack(weights)))


def check_members(c: int, given: Any, n_nodes: int, term: str = "clique") -> np.ndarray:
    """The nodes of clique (or factor) ``c`` as int32, refused if one does not exist or is named twice."""
    member = np.asarray(given)
    if member.ndim != 1 or len(member) == 0:
        raise InvalidProblemError(f"{term} {c} has nodes of shape {member.shape}, wanted a list of at least one node.")
    if member.dtype.kind not in "iu":
        raise InvalidProblemError(f"{term} {c} has nodes of dtype {member.dtype}, wanted integers.")
    if member.min() < 0 or member.max() >= n_nodes:
        bad = member[(member < 0) | (member >= n_nodes)][0]
        raise InvalidProblemError(f"{term} {c} names node {bad}, but the graph has {n_nodes} nodes (0..{n_nodes - 1}).")
    values, counts = np.unique(member, return_counts=True)
    if counts.max() > 1:
        raise InvalidProblemError(
            f"{term} {c} names node {values[counts > 1][0]} more than once; list each node once (np.unique)."
        )
    return member.astype(np.int32)


def _weights(c: int, given: Any, n_labels: int, usable: int) -> np.ndarray:
    weight = as_float(given, f"weights of clique {c}")
    if weight.ndim == 0:
        weight = np.full(n_labels, float(weight))
    if weight.ndim != 1 or not usable <= len(weight) <= n_labels:
        raise InvalidProblemError(
            f"clique {c} has weights of shape {weight.shape}, wanted ({n_labels},), one per label, or one number."
        )
    weight = np.concatenate([weight, np.zeros(n_labels - len(weight))])
    if not np.isfinite(weight).all():
        raise InvalidProblemError(f"clique {c} has the weight {weight[~np.isfinite(weight)][0]}, wanted finite numbers.")
    if weight.min() < 0:
        k = int(np.argmin(weight))
        raise NotAssociativeError(
            f"clique {c} has the weight {weight[k]:.6g} for label {k}; associative cliques need weights >= 0."
        )
    weight[usable:] = 0.0
    return weight
