"""The one problem that everything here is about: maximise a sum of scores of nodes, edges, cliques and factors over labellings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .cliques import Cliques
from .errors import InvalidProblemError
from .factors.collection import Factors
from .graph import Graph
from .memory import check_room
from .ownership import own
from .validation import LARGEST, as_float, as_labels, check_exact, read_only, states_and_unary, tables_and_edges

if TYPE_CHECKING:
    from .structure import Structure


_NO_FACTORS = np.zeros((0, 0))


class Messages(NamedTuple):
    """Messages of all edges, clique members and factor members: the free variables of the dual bound.

    Attributes
    ----------
    edge : ndarray, shape (2, n_edges, n_labels)
        ``edge[0, e]`` belongs to the first node of edge ``e``, ``edge[1, e]`` to the second.
    clique : ndarray, shape (n_members, n_labels)
        ``clique[i]`` belongs to the ``i``-th entry of ``problem.cliques.nodes``.
    factor : ndarray, shape (n_members, n_labels)
        The same for ``problem.factors.nodes``.
    """

    edge: np.ndarray
    clique: np.ndarray
    factor: np.ndarray = _NO_FACTORS


class Problem:
    r"""Max-sum problem: find the labelling :math:`y` that maximises

    .. math:: F(y) = c + \sum_v q_v(y_v) + \sum_{uv} g_{uv}(y_u, y_v) + \sum_c a_c(y_c) + \sum_f h_f(y_f),

    where :math:`a_c` pays ``w_c[k] >= 0`` if every node of clique ``c`` has label ``k``, and nothing otherwise, and :math:`h_f` is any
    function of the labels of the nodes of factor ``f``.

    A problem is frozen: its arrays are read-only and may be shared.

    Parameters
    ----------
    graph : Graph
    unary : array-like, shape (n_nodes, K), or list of n_nodes vectors
        Node scores :math:`q`. For a grid the shape (height, width, K) is accepted too. ``-inf`` forbids a label.
    tables : array-like, shape (K, K) or (T, K, K), or list of one (n_states[u], n_states[v]) table per edge
        Pairwise scores :math:`g`, [label of the edge's first node, label of its second]. One table is shared by all
        edges; T tables are one per edge, one per edge type, or a bank that ``edge_table`` indexes. ``-inf`` forbids a
        pair.
    edge_table : array-like of int, shape (n_edges,), optional
        Table of each edge.
    edge_weight : array-like, shape (n_edges,), optional
        Factor of each edge's table.
    n_states : array-like of int, shape (n_nodes,), optional
        Number of labels of each node, where they differ; K by default.
    cliques : iterable of (nodes, weights), or Cliques, optional
    offset : float
        The constant :math:`c`.
    factors : iterable of (nodes, function), optional
        Terms over any number of nodes: a table with one axis a node, or a function of `maxsum.factors` (all different, a count, a linear
        inequality, a list of tuples). ``-inf`` forbids. Equal tables are stored once.

    Examples
    --------
    >>> p = Problem(Graph.chain(3), [[0, 1], [0, 0], [2, 0]], tables=np.eye(2))
    >>> p.score([1, 1, 0])
    4.0
    """

    graph: Graph
    unary: np.ndarray
    tables: np.ndarray
    edge_table: np.ndarray
    edge_weight: np.ndarray
    n_states: np.ndarray
    cliques: Cliques
    offset: float
    factors: Factors

    def __init__(
        self,
        graph: Graph,
        unary: Any,
        tables: Any = None,
        edge_table: Any = None,
        edge_weight: Any = None,
        n_states: Any = None,
        cliques: Any = None,
        offset: float = 0.0,
        factors: Any = None,
    ):
        if not isinstance(graph, Graph):
            raise InvalidProblemError(f"graph is a {type(graph).__name__}, wanted maxsum.Graph (see Graph.from_edges).")
        if not isinstance(offset, (int, float, np.number)) or not abs(offset) <= LARGEST:
            raise InvalidProblemError(f"offset is {offset!r}, wanted a finite number of at most {LARGEST} in size.")
        if isinstance(offset, (int, np.integer)):
            check_exact(int(offset), "offset")
        numbers = sum(int(getattr(given, "size", 0)) for given in (unary, tables))
        check_room(16 * numbers + 40 * graph.n_edges, "this problem", "Take fewer nodes or labels, or tables that edges share")
        states, scores = states_and_unary(graph, unary, n_states)
        n_labels = scores.shape[1]
        bank, number, weight = tables_and_edges(graph, states, n_labels, tables, edge_table, edge_weight)
        built = Cliques.build(cliques, states, n_labels)
        terms = Factors.build(factors, states)
        self._set(graph, own(scores), own(bank), own(number), own(weight), own(states), built, float(offset), terms)

    def _set(self, graph, unary, tables, edge_table, edge_weight, n_states, cliques, offset, factors=None) -> None:  # type: ignore[no-untyped-def]
        values = dict(
            graph=graph,
            unary=read_only(unary),
            tables=read_only(tables),
            edge_table=read_only(edge_table),
            edge_weight=read_only(edge_weight),
            n_states=read_only(n_states),
            cliques=cliques,
            offset=offset,
            factors=Factors.empty() if factors is None else factors,
        )
        self.__dict__.update(values)

    @classmethod
    def _trusted(cls, **arrays: Any) -> Problem:
        """A problem from arrays that are known to be valid (internal)."""
        problem = cls.__new__(cls)
        problem._set(**arrays)
        return problem

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Problem is frozen; build a new one instead of setting {name!r}.")

    def __repr__(self) -> str:
        more = f", {len(self.cliques)} cliques" if len(self.cliques) else ""
        more += f", {len(self.factors)} factors" if len(self.factors) else ""
        return f"Problem({self.n_nodes} nodes, {self.n_edges} edges, {self.n_labels} labels, {len(self.tables)} tables{more})"

    @classmethod
    def from_costs(
        cls,
        graph: Graph,
        unary: Any,
        tables: Any = None,
        edge_table: Any = None,
        edge_weight: Any = None,
        n_states: Any = None,
        offset: float = 0.0,
        factors: Any = None,
    ) -> Problem:
        """Problem from costs that are to be minimised: ``score = -cost``, and ``+inf`` forbids.

        Parameters are those of `Problem`; ``edge_weight`` keeps its sign, since the tables change theirs. Cliques
        are rewards, not costs, and cannot be given here. Tables of factors are costs, functions of `maxsum.factors` are scores as ever.
        """
        constant = -int(offset) if isinstance(offset, (int, np.integer)) else -float(offset)
        from .factors import Function

        terms = None if factors is None else [(v, f if isinstance(f, Function) else _negate(f)) for v, f in factors]
        return cls(graph, _negate(unary), _negate(tables), edge_table, edge_weight, n_states, None, constant, terms)

    # ---- sizes -------------------------------------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        return self.graph.n_nodes

    @property
    def n_edges(self) -> int:
        return self.graph.n_edges

    @property
    def n_labels(self) -> int:
        """Largest number of labels of a node."""
        return self.unary.shape[1]

    @cached_property
    def has_hard_constraints(self) -> bool:
        """Whether a label or a pair of labels is forbidden (``-inf``)."""
        forbidden = np.isneginf(self.unary).sum()
        padding = self.unary.size - self.n_states.sum(dtype=np.int64)
        return bool(forbidden > padding or np.isneginf(self.tables).any() or self.factors.is_hard)

    @cached_property
    def resolution(self) -> float:
        """Gap at which a solver need not go on: 1e-9 of a low spread of a term, times the number of terms.

        What counts as optimal is decided at the labelling, by `core.certificates.scale.tolerance`.
        """
        from .certificates.scale import resolution

        return resolution(self)

    @cached_property
    def step(self) -> float:
        """1 if all scores are whole numbers, so that labellings differ by 0 or at least 1; 0 otherwise."""
        from .certificates.scale import step

        return step(self)

    # ---- scores and bounds -------------------------------------------------------------------------------------

    def edge_scores(self, first: int = 0, last: int | None = None) -> np.ndarray:
        """Weighted tables of the edges from ``first`` to ``last - 1``, shape (last - first, K, K)."""
        part = slice(first, last)
        return self.tables[self.edge_table[part]] * self.edge_weight[part, None, None]

    def score(self, labels: Any) -> float:
        """``F(labels)``; ``-inf`` if the labelling uses something forbidden."""
        y = as_labels(labels, self.n_states)
        u, v = y[self.graph.edges[:, 0]], y[self.graph.edges[:, 1]]
        node = self.unary[np.arange(self.n_nodes), y]
        edge = self.tables[self.edge_table, u, v] * self.edge_weight
        terms = (node, edge, self.cliques.values(y), self.factors.values(y))
        return float(np.longdouble(self.offset) + sum(term.sum(dtype=np.longdouble) for term in terms))

    def zero_messages(self) -> Messages:
        """Messages that change nothing."""
        members = (self.cliques.n_members, self.factors.n_members)
        return Messages(np.zeros((2, self.n_edges, self.n_labels)), *(np.zeros((n, self.n_labels)) for n in members))

    def as_messages(self, messages: Any) -> Messages:
        """Check messages, given as `Messages` or as the edge part alone; non-finite ones are refused."""
        given = messages if isinstance(messages, tuple) else (messages,)
        empty = self.zero_messages()
        if not 0 < len(given) <= len(empty) or (isinstance(messages, tuple) and len(given) < 2):
            raise InvalidProblemError(
                f"messages are a tuple of {len(given)}, wanted edge messages, clique messages and factor messages."
            )
        found = []
        for name, part, zero in zip(
            ("messages", "clique messages", "factor messages"), (*given, None, None), empty, strict=False
        ):
            array = (
                zero
                if part is None or (name.startswith("factor") and not zero.size and not np.size(part))
                else as_float(part, name)
            )
            if array.shape != zero.shape:
                raise InvalidProblemError(f"{name} have shape {array.shape}, wanted {zero.shape}.")
            if not np.isfinite(array).all():
                raise InvalidProblemError(f"{name} hold {array[~np.isfinite(array)][0]}, wanted finite numbers.")
            found.append(array)
        return Messages(*found)

    def bound(self, messages: Any = None) -> float:
        r"""Upper bound on every score, valid for any messages :math:`\varphi` (weak duality):

        .. math:: U(\varphi) = c + \sum_v \max_k q^\varphi_v(k) + \sum_{uv} \max_{k,l} g^\varphi_{uv}(k, l)
                  + \sum_c \max_{y_c} a^\varphi_c(y_c) + \sum_f \max_{y_f} h^\varphi_f(y_f),

        with :math:`g^\varphi_{uv}(k,l) = g_{uv}(k,l) + \varphi_{uv}(k) + \varphi_{vu}(l)`, likewise for cliques and factors, and
        :math:`q^\varphi_v(k) = q_v(k) - \sum \varphi` over all terms at ``v``. Labels that arc consistency excludes are
        left out of the maxima, so hard constraints that exclude each other give ``-inf``.
        """
        from .certificates.dual import height

        return height(self, self.as_messages(messages))

    def reparametrize(self, messages: Any) -> Problem:
        """The equivalent problem with scores :math:`q^\\varphi, g^\\varphi` (see `bound`): every labelling keeps its score.

        Every edge gets a table of its own. Clique and factor messages must be zero: a shifted clique is no longer associative, a shifted
        count no count.
        """
        edge, clique, factor = self.as_messages(messages)
        if clique.any() or factor.any():
            raise InvalidProblemError("clique and factor messages must be zero in reparametrize; bound() takes any.")
        unary = self.unary.copy()
        np.subtract.at(unary, self.graph.edges[:, 0], edge[0])
        np.subtract.at(unary, self.graph.edges[:, 1], edge[1])
        tables = self.edge_scores() + edge[0][:, :, None] + edge[1][:, None, :]
        if not self.n_edges:
            tables = np.zeros((1, self.n_labels, self.n_labels))
        return Problem._trusted(
            graph=self.graph,
            unary=unary,
            tables=tables,
            edge_table=np.arange(self.n_edges, dtype=np.int32),
            edge_weight=np.ones(self.n_edges),
            n_states=self.n_states,
            cliques=self.cliques,
            offset=self.offset,
            factors=self.factors,
        )

    def structure(self) -> Structure:
        """Facts that decide which solvers apply: forest, binary, supermodular (or the witness against), ..."""
        return self._structure

    @cached_property
    def _structure(self) -> Structure:
        from .structure import analyse

        return analyse(self)

    # ---- known labels ------------------------------------------------------------------------------------------

    def condition(self, fixed: Mapping[int, int]) -> Problem:
        """The problem on the nodes that are not fixed: for each labelling of them, the score of the whole.

        Scores of edges to fixed nodes go into unaries, those between fixed nodes into ``offset``. A clique with a fixed member pays
        for the label of that member alone.

        Parameters
        ----------
        fixed : dict
            ``{node: label}``.

        Returns
        -------
        Problem
            Its node ``i`` is the node ``kept_nodes(fixed)[i]`` of this one.

        Raises
        ------
        InfeasibleError
            If what is fixed is forbidden (``-inf``), or forbids every label of another node.

        Examples
        --------
        >>> p = Problem(Graph.chain(3), [[0, 1], [0, 0], [2, 0]], tables=np.eye(2))
        >>> p.condition({0: 1}).unary.tolist(), p.kept_nodes({0: 1}).tolist()
        ([[0.0, 1.0], [2.0, 0.0]], [1, 2])
        """
        from .conditioning import condition

        return condition(self, fixed)

    def kept_nodes(self, fixed: Mapping[int, int]) -> np.ndarray:
        """Numbers of the nodes that `condition` keeps, in their order."""
        from .conditioning import kept_nodes

        return kept_nodes(self, fixed)

    def restrict(self, fixed: Mapping[int, int] | None = None, allowed: Any = None) -> Problem:
        """The same graph and scores, with ``-inf`` in the unaries of labels that are not allowed: what ``solve(fixed=, allowed=)`` solves.

        Parameters
        ----------
        fixed : dict, optional
            ``{node: label}``.
        allowed : ndarray of bool, shape (n_nodes, K), or dict, optional
            Labels that nodes may have, as a mask or as ``{node: labels}``; nodes that are not named keep all of theirs.

        Raises
        ------
        InfeasibleError
            If a node has no label left.
        """
        from .conditioning import restrict

        return restrict(self, fixed, allowed)

    # ---- combination and files ---------------------------------------------------------------------------------

    @classmethod
    def union(cls, problems: Iterable[Problem]) -> Problem:
        """Disjoint union; ``graph.parts`` holds the node offsets. Equal table banks are stored once."""
        problems = list(problems)
        if not problems:
            raise InvalidProblemError("union of no problems; wanted at least one.")
        n_labels = max(p.n_labels for p in problems)
        graph = Graph.union(p.graph for p in problems)
        banks: dict[int, int] = {}
        tables, numbers, n_tables = [], [], 0
        for p in problems:
            if id(p.tables) not in banks:
                banks[id(p.tables)] = n_tables
                tables.append(_pad(p.tables, n_labels, 0.0))
                n_tables += len(p.tables)
            numbers.append(p.edge_table + np.int32(banks[id(p.tables)]))
        offsets = graph.parts if graph.parts is not None else np.zeros(1, dtype=np.int64)
        members = np.cumsum([0] + [p.cliques.n_members for p in problems])
        cliques = Cliques(
            np.concatenate([[0]] + [p.cliques.ptr[1:] + m for p, m in zip(problems, members, strict=False)]).astype(np.int64),
            np.concatenate([p.cliques.nodes + np.int32(o) for p, o in zip(problems, offsets, strict=False)]),
            np.concatenate([_pad(p.cliques.weights, n_labels, 0.0) for p in problems]),
        )
        return cls._trusted(
            graph=graph,
            unary=np.concatenate([_pad(p.unary, n_labels, -np.inf) for p in problems]),
            tables=np.concatenate(tables),
            edge_table=np.concatenate(numbers),
            edge_weight=np.concatenate([p.edge_weight for p in problems]),
            n_states=np.concatenate([p.n_states for p in problems]),
            cliques=cliques,
            offset=float(sum(p.offset for p in problems)),
            factors=Factors.union([p.factors for p in problems], offsets),
        )

    def save(self, path: str | Path, **options: Any) -> None:
        """Write the problem to ``.npz`` (exact) or ``.uai``, whole or not at all; see `maxsum.core.files.save`."""
        from .files import save

        save(self, path, **options)


def _negate(values: Any) -> Any:
    if values is None:
        return None
    if isinstance(values, (list, tuple)):
        return [-as_float(v, "costs") for v in values]
    return -as_float(values, "costs")


def _pad(array: np.ndarray, n_labels: int, value: float) -> np.ndarray:
    """Grow every axis of labels (all but the first) to ``n_labels``."""
    short = n_labels - array.shape[-1]
    return np.pad(array, [(0, 0)] + [(0, short)] * (array.ndim - 1), constant_values=value) if short else array
