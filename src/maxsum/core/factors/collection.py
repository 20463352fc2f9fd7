"""All factors of a problem: their nodes in flat form, and a bank of the functions that they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidProblemError
from ..ownership import own, owned
from .function import Function, raise_share
from .tables import Table, finite_tops, pack, stacked, stacked_tops

_MANY = 8
"""Tables of one shape from which on they are worked on together: fewer cost a call of numpy each, and need no further array."""

MOVES_ARITY = 6
"""Nodes of a factor up to which its changes count in the variation of a score: more are rarely what distinguishes two labels."""


class Group(NamedTuple):
    """Factors that can be worked on together: their numbers (m,), their slots and nodes (m, n).

    They have the same function, or each a table of the same shape: then ``stack`` holds such tables and ``row`` (m,) says which is whose.
    """

    function: Function
    factors: np.ndarray
    slots: np.ndarray
    nodes: np.ndarray
    stack: np.ndarray | None = None
    row: np.ndarray | None = None

    def values(self, labels: np.ndarray, some: np.ndarray | None = None) -> np.ndarray:
        """Scores of labels (m, n), or of those of ``some`` of the factors (a mask or numbers of rows)."""
        if self.stack is None or self.row is None:
            return self.function.values(labels)
        return self.stack[(self.row if some is None else self.row[some], *labels.T)]

    def tops(self, psi: np.ndarray) -> np.ndarray:
        """`Function.tops` of messages (m, n, K)."""
        if self.stack is None or self.row is None:
            return self.function.tops(psi)
        return stacked_tops(self.stack, self.row, psi)


@dataclass(frozen=True, eq=False, repr=False)
class Factors:
    """Factors in flat form; build them with `Factors.build`.

    Attributes
    ----------
    ptr : ndarray of int64, shape (n_factors + 1,)
    nodes : ndarray of int32, shape (n_members,)
        Members of factor ``f`` are ``nodes[ptr[f]:ptr[f + 1]]``, in the order of the function's arguments.
    number : ndarray of int32, shape (n_factors,)
        Function of each factor.
    functions : tuple of Function
    """

    ptr: np.ndarray
    nodes: np.ndarray
    number: np.ndarray
    functions: tuple[Function, ...]

    def __post_init__(self) -> None:
        for name in ("ptr", "nodes", "number"):
            object.__setattr__(self, name, owned(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __repr__(self) -> str:
        return f"Factors({len(self)} factors, {len(self.nodes)} members, {len(self.functions)} functions)"

    @property
    def n_members(self) -> int:
        return len(self.nodes)

    @property
    def owner(self) -> np.ndarray:
        """Factor of each member."""
        return np.repeat(np.arange(len(self)), np.diff(self.ptr))

    @cached_property
    def n_cells(self) -> int:
        """Scores that are looked at to find the best of every factor, about."""
        if not len(self):
            return 0
        each = np.zeros(len(self.functions), dtype=np.int64)
        for scores, numbers in self.stacks:
            each[numbers] = scores.size // len(numbers)
        for number in self._single:
            each[number] = self.functions[number].numbers.size
        return int(each[self.number].sum()) + self.n_members

    def members(self, factor: int) -> np.ndarray:
        """Nodes of a factor."""
        return self.nodes[self.ptr[factor] : self.ptr[factor + 1]]

    def items(self) -> Iterator[tuple[np.ndarray, Function]]:
        """Nodes and function of every factor."""
        for f, number in enumerate(self.number.tolist()):
            yield self.members(f), self.functions[number]

    @cached_property
    def stacks(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Tables of each shape that many functions have: their scores in one array (t, ...), and the numbers of these functions."""
        found = []
        for numbers in _by_shape(self.functions):
            tables = [function for function in (self.functions[number] for number in numbers) if isinstance(function, Table)]
            found.append((stacked(tables), np.array(numbers)))
        return tuple(found)

    @cached_property
    def _single(self) -> list[int]:
        """Functions that are in no stack."""
        alone = np.ones(len(self.functions), dtype=bool)
        for _, numbers in self.stacks:
            alone[numbers] = False
        found: list[int] = np.flatnonzero(alone).tolist()
        return found

    @cached_property
    def are_tables(self) -> bool:
        """Whether every function is a table."""
        return all(isinstance(self.functions[number], Table) for number in self._single)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Factors that can be worked on together."""
        if not len(self):
            return ()
        found, size = [], np.diff(self.ptr)
        kind = np.arange(len(self.functions))  # functions whose factors go together
        row = np.zeros(len(self.functions), dtype=np.int64)
        stack_of = {}
        for scores, numbers in self.stacks:
            kind[numbers], row[numbers] = numbers[0], np.arange(len(numbers))
            stack_of[int(numbers[0])] = scores
        code = kind[self.number] * (int(size.max()) + 1) + size
        order = np.argsort(code, kind="stable")
        cuts = np.flatnonzero(np.diff(code[order])) + 1
        for some in np.split(order, cuts):
            slots = self.ptr[some][:, None] + np.arange(size[some[0]])
            first = int(kind[self.number[some[0]]])
            group = Group(self.functions[first], some, slots, self.nodes[slots])
            if first in stack_of:
                group = group._replace(stack=stack_of[first], row=row[self.number[some]])
            found.append(group)
        return tuple(found)

    @cached_property
    def is_hard(self) -> bool:
        """Whether one of them forbids something."""
        stacked = any(scores.min() == -np.inf for scores, _ in self.stacks)
        return stacked or any(self.functions[number].is_hard for number in self._single)

    @cached_property
    def centres(self) -> np.ndarray:
        """Largest finite score of each factor."""
        if not len(self):
            return np.zeros(0)
        each = np.zeros(len(self.functions))
        for scores, numbers in self.stacks:
            each[numbers] = finite_tops(scores)
        for number in self._single:
            each[number] = self.functions[number].centre
        return each[self.number]

    @cached_property
    def numbers(self) -> np.ndarray:
        """All finite scores of all functions."""
        return np.concatenate([np.zeros(0), *(function.numbers.ravel() for function in self.functions)])

    @property
    def spreads(self) -> np.ndarray:
        """Largest minus smallest finite score of each factor."""
        each = [float(np.ptp(function.numbers)) if function.numbers.size else 0.0 for function in self.functions]
        return np.array(each)[self.number] if len(self) else np.zeros(0)

    def values(self, labels: np.ndarray) -> np.ndarray:
        """Term of each factor under a labelling."""
        found = np.zeros(len(self))
        for group in self.groups:
            found[group.factors] = group.values(labels[group.nodes])
        return found

    def messages_inside(self, messages: np.ndarray, domain: np.ndarray) -> np.ndarray:
        """Messages (n_members, K), ``-inf`` at labels outside the domain."""
        return np.where(domain[self.nodes], messages, -np.inf) if len(self) else messages

    def tops(self, messages: np.ndarray, domain: np.ndarray) -> np.ndarray:
        """Bound on the best centred reparametrised score of each factor inside the domain, rounded up."""
        psi, found = self.messages_inside(messages, domain), np.zeros(len(self))
        for group in self.groups:
            found[group.factors] = group.tops(psi[group.slots])
        return found

    def at(self, messages: np.ndarray, domain: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centred reparametrised value of each factor at a labelling, and by how much each may be off; ``-inf`` outside the domain."""
        if not len(self):
            return np.zeros(0), np.zeros(0)
        chosen = labels[self.nodes]
        own_message = self.messages_inside(messages, domain)[np.arange(len(self.nodes)), chosen]
        term = self.values(labels) - self.centres
        value = np.add.reduceat(own_message, self.ptr[:-1]) + term
        size = np.add.reduceat(np.abs(np.where(np.isfinite(own_message), own_message, 0.0)), self.ptr[:-1])
        size += np.where(np.isfinite(term), np.abs(term), 0.0)
        share = np.array([raise_share(int(n)) for n in np.diff(self.ptr)])
        return value, share * size

    def supported(self, domain: np.ndarray) -> np.ndarray:
        """The labels of a domain (N, K) that every hard factor leaves possible, until nothing changes."""
        domain = domain.copy()
        hard = [(nodes, function) for nodes, function in self.items() if function.is_hard]
        dirty = np.ones(len(domain), dtype=bool)
        while dirty.any():
            changed = np.zeros(len(domain), dtype=bool)
            for nodes, function in hard:
                if dirty[nodes].any() or changed[nodes].any():
                    before = domain[nodes]
                    after = before & function.support(before)
                    smaller = (after != before).any(axis=1)
                    if smaller.any():
                        domain[nodes] = after
                        changed[nodes[smaller]] = True
                        if not after.any(axis=1).all():
                            return domain
            dirty = changed
        return domain

    def exact_tops(self, messages: np.ndarray, domain: np.ndarray, integer: Any) -> list[Any] | None:
        """Best reparametrised score of each factor in whole numbers; None if one has nothing left."""
        found = []
        psi = self.messages_inside(messages, domain)
        for f, (_, function) in enumerate(self.items()):
            best = function.exact_top(integer(psi[self.ptr[f] : self.ptr[f + 1]]).tolist(), integer)
            if best is None:
                return None
            found.append(best)
        return found

    def moves(
        self,
        labels: np.ndarray,
        n_labels: int,
        n_states: np.ndarray,
        most: int = MOVES_ARITY,
        wanted: np.ndarray | None = None,
    ) -> np.ndarray:
        """Change of the sum of all terms of at most ``most`` nodes (N, K) when one node, or one of those in the mask, takes another label."""
        change = np.zeros((len(labels), n_labels))
        for group in self.groups:
            if group.nodes.shape[1] > most:
                continue
            for i in range(group.nodes.shape[1]):
                some = np.arange(len(group.nodes)) if wanted is None else np.flatnonzero(wanted[group.nodes[:, i]])
                if not len(some):
                    continue
                present = labels[group.nodes[some]]
                before, states = group.values(present, some), n_states[group.nodes[some, i]]
                for k in range(int(states.max())):
                    other, use = present.copy(), k < states
                    other[:, i] = k
                    with np.errstate(invalid="ignore"):
                        gained = group.values(other[use], some[use]) - before[use]
                        np.add.at(change, (group.nodes[some[use], i], k), gained)
        return change

    @classmethod
    def empty(cls) -> Factors:
        """No factors."""
        return cls(own(np.zeros(1, dtype=np.int64)), own(np.zeros(0, dtype=np.int32)), own(np.zeros(0, dtype=np.int32)), ())

    @classmethod
    def build(cls, factors: Any, n_states: np.ndarray) -> Factors:
        """Check and flatten factors.

        Parameters
        ----------
        factors : Factors, or iterable of (nodes, function) pairs
            The function is a table (array-like, one axis a node) or a `Function`. Equal tables are kept once.
        n_states : ndarray of int32, shape (n_nodes,)
        """
        from ..cliques import check_members

        if factors is None:
            return cls.empty()
        pairs = factors.items() if isinstance(factors, Factors) else factors
        bank = _Bank()
        ptr, nodes, number = [0], [], []
        for f, pair in enumerate(pairs):
            try:
                given_nodes, given = pair
            except (TypeError, ValueError):
                raise InvalidProblemError(f"factor {f} is {pair!r}, wanted a pair (nodes, table or function).") from None
            member = check_members(f, given_nodes, len(n_states), "factor")
            which = bank.number(given)
            bank.functions[which].check(tuple(n_states[member].tolist()), f"factor {f}")
            nodes.append(member)
            number.append(which)
            ptr.append(ptr[-1] + len(member))
        if not nodes:
            return cls.empty()
        flat = own(np.concatenate(nodes))
        for numbers in _by_shape(bank.functions):
            if bank.made.issuperset(numbers):
                pack([function for function in (bank.functions[n] for n in numbers) if isinstance(function, Table)])
        found = cls(own(np.array(ptr, dtype=np.int64)), flat, own(np.array(number, dtype=np.int32)), tuple(bank.functions))
        _ = found.centres, found.is_hard  # a look at every score, which the tables have just had
        return found

    @classmethod
    def union(cls, parts: list[Factors], offsets: np.ndarray) -> Factors:
        """Factors of a disjoint union of problems, whose nodes start at ``offsets``."""
        bank = _Bank()
        ptr, nodes, number = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int32)]
        members = 0
        for part, offset in zip(parts, offsets, strict=False):
            which = np.array([bank.number(function) for function in part.functions], dtype=np.int32)
            ptr.append(part.ptr[1:] + members)
            members += part.n_members
            nodes.append(part.nodes + np.int32(offset))
            number.append(which[part.number] if len(part) else part.number)
        flat = [own(np.concatenate(arrays)) for arrays in (ptr, nodes, number)]
        return cls(flat[0], flat[1], flat[2], tuple(bank.functions))


def _by_shape(functions: Sequence[Function]) -> list[list[int]]:
    """Numbers of the dense tables of each shape that many have."""
    shapes: dict[tuple[int, ...], list[int]] = {}
    for number, function in enumerate(functions):
        if isinstance(function, Table):
            shapes.setdefault(function.scores.shape, []).append(number)
    return [numbers for numbers in shapes.values() if len(numbers) >= _MANY]


class _Bank:
    """Functions by number; the same object, or a table with the same contents, has one."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.known: dict[Any, int] = {}
        self.kept: list[Any] = []  # so that no id is used again
        self.made: set[int] = set()  # functions that no caller holds

    def number(self, given: Any) -> int:
        if id(given) in self.known:
            return self.known[id(given)]
        function = given if isinstance(given, Function) else Table(given)
        key: Any = id(function)
        if isinstance(function, Table):
            key = (function.scores.shape, blake2b(function.scores.tobytes()).digest())
        if key not in self.known:
            self.known[key] = len(self.functions)
            self.functions.append(function)
            if function is not given:
                self.made.add(self.known[key])
        self.kept.append(given)
        self.known[id(given)] = self.known[key]
        return self.known[key]
