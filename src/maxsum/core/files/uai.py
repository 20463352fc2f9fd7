r"""UAI files: a product of factors, :math:`\prod_a f_a(y_a)`, maximised; also used for sums of costs.

Layout: ``MARKOV`` (or ``BAYES``), the number of variables, their domain sizes, the number of factors, a scope per factor
(``arity v1 .. vk``), then per factor the number of its entries and the entries, the last variable fastest. Factors of three or more variables
are factors of the `Problem`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import BinaryIO

import numpy as np

from ..errors import UnsupportedProblemError
from ..factors import SparseTable, Table
from ..problem import Problem
from ..validation import LARGEST
from .build import Builder, counted, named, product
from .text import Limits, Stream, Tokens, shown

VALUES = ("probabilities", "costs", "scores")

_RANGE = {"probabilities": (0.0, float(np.finfo(np.float64).max)), "costs": (-LARGEST, np.inf), "scores": (-np.inf, LARGEST)}
_LOWEST_LOG = -708.0  # logarithm of the smallest float that has all its digits: probabilities below it would be written as 0
# Factors that a constant may be written as, each within that range; more would be a file of nothing else.
_CONSTANT_FACTORS = 1000
MAX_TABLE = 1 << 20
"""Entries of a table that a function without one (all different, a count, a sum, a list of tuples) may be written as: 20 MB of text."""


def read(stream: Stream, limits: Limits, values: str) -> Problem:
    """Read a UAI file; see `maxsum.read_problem`."""
    tokens = Tokens(stream)
    kind = tokens.next("the type of network")
    if kind.upper() not in (b"MARKOV", b"BAYES"):
        tokens.fail(f"the file starts with {shown(kind)}, wanted MARKOV or BAYES: is it a UAI file?")
    n_nodes = tokens.integer("the number of variables", low=0)
    n_states = tokens.integers(n_nodes, ("a domain size",), (1,), (2**62,))
    builder = Builder(n_states, limits, tokens.fail)
    n_factors = tokens.integer("the number of factors", low=0)
    scopes = [_scope(tokens, i, n_nodes) for i in range(n_factors)]
    low, high = _RANGE[values]
    hint = ' If the file holds costs, read it with values="costs".' if values == "probabilities" else ""
    for i, scope in enumerate(scopes):
        size = product(builder.shape(scope))
        given = tokens.integer(f"the number of entries of factor {i}", low=0)
        if given != size:
            tokens.fail(
                f"factor {i} (variables {named(scope)}) declares {given} entries, but its domains give {counted(size)}."
            )
        numbers = tokens.floats(size, f"an entry of factor {i}", low, high, hint, whole=values != "probabilities")
        builder.add(scope, _to_scores(numbers, values))
    tokens.end("the last factor")
    return builder.problem(stream.path)


def _scope(tokens: Tokens, i: int, n_nodes: int) -> tuple[int, ...]:
    arity = tokens.integer(f"the arity of factor {i}", low=0, high=n_nodes)
    what = f"a variable of factor {i}"
    scope = tuple(tokens.integer(what, low=0, high=n_nodes - 1) for _ in range(arity))
    if len(set(scope)) < arity:
        tokens.fail(f"factor {i} names variable {Counter(scope).most_common(1)[0][0]} twice.")
    return scope


def _to_scores(numbers: np.ndarray, values: str) -> np.ndarray:
    if values == "probabilities":
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(numbers))
    return 0.0 - numbers if values == "costs" else numbers + 0.0


class Writer:
    """Checks at once that a problem can be written as UAI; `write` then writes it.

    Parameters
    ----------
    problem : Problem
    values : {"probabilities", "costs", "scores"}
    """

    def __init__(self, problem: Problem, values: str):
        self._problem = problem
        self._values = values
        self._terms = [(nodes.tolist(), function, f"factor {f}") for f, (nodes, function) in enumerate(problem.factors.items())]
        self._terms += [(nodes, function, f"clique {c}") for c, (nodes, function) in enumerate(clique_tables(problem))]
        for nodes, function, name in self._terms:
            cells = product(problem.n_states[nodes].tolist())
            if cells > MAX_TABLE and not isinstance(function, Table):
                raise UnsupportedProblemError(
                    f"{name} ({function!r}) has {counted(cells)} entries as a table, which is all that UAI can hold; wanted at most {MAX_TABLE}. "
                    "Save it as .npz, .wcsp or .cfn."
                )
        self._constants = [problem.offset] if problem.offset else []
        if values == "probabilities":
            self._constants = self._split(math.fsum([problem.offset, *(_top(scores) for _, scores in self._factors())]))

    def _factors(self) -> Iterator[tuple[str, np.ndarray]]:
        p = self._problem
        for v in range(p.n_nodes):
            yield f"the unary of node {v}", p.unary[v, : p.n_states[v]]
        for e, (u, v) in enumerate(p.graph.edges):
            table = p.tables[p.edge_table[e], : p.n_states[u], : p.n_states[v]]
            yield f"the table of edge {e} (nodes {u}-{v})", table * p.edge_weight[e]
        for nodes, function, name in self._terms:
            yield name, function.dense(tuple(p.n_states[nodes].tolist()))

    def _split(self, constant: float) -> list[float]:
        """The constant as a sum of numbers whose exponential a float64 can hold."""
        for name, scores in self._factors():
            below = scores[np.isfinite(scores)] - _top(scores)
            if len(below) and below.min() < _LOWEST_LOG:
                raise UnsupportedProblemError(
                    f"{name} spans {-below.min():.6g}, past what probabilities can hold ({-_LOWEST_LOG:g}): its lowest "
                    'entry would become 0, that is, forbidden. Save with values="costs", which is exact, or as .npz.'
                )
        parts = math.ceil(abs(constant) / -_LOWEST_LOG)
        if parts > _CONSTANT_FACTORS:
            raise UnsupportedProblemError(
                f"the maxima of the factors add up to {constant:.6g}, whose exponential is out of reach of "
                f'{_CONSTANT_FACTORS} factors. Save with values="costs", which is exact, or as .npz.'
            )
        return [constant / parts] * parts

    def write(self, file: BinaryIO) -> None:
        """Write the problem in the format of the UAI competitions."""
        p = self._problem

        def line(*words: object) -> None:
            file.write((" ".join(map(str, words)) + "\n").encode("ascii"))

        line("MARKOV")
        line(p.n_nodes)
        line(*p.n_states.tolist())
        line(p.n_nodes + p.n_edges + len(self._terms) + len(self._constants))
        for v in range(p.n_nodes):
            line(1, v)
        for u, v in p.graph.edges.tolist():
            line(2, u, v)
        for nodes, _, _ in self._terms:
            line(len(nodes), *nodes)
        for _ in self._constants:
            line(0)
        line()
        for v, k in enumerate(p.n_states.tolist()):
            file.write(self._text(p.unary[v, :k]))
        n_states = p.n_states.tolist()

        @lru_cache(maxsize=256)
        def edge_text(t: int, weight: float, rows: int, columns: int) -> bytes:
            return self._text(p.tables[t, :rows, :columns] * weight)

        for t, w, (u, v) in zip(p.edge_table.tolist(), p.edge_weight.tolist(), p.graph.edges.tolist(), strict=True):
            file.write(edge_text(t, w, n_states[u], n_states[v]))
        for nodes, function, _ in self._terms:
            file.write(self._text(function.dense(tuple(p.n_states[nodes].tolist()))))
        for constant in self._constants:
            number = math.exp(constant) if self._values == "probabilities" else constant
            line(1)
            line(repr(0.0 - number if self._values == "costs" else number))

    def _text(self, scores: np.ndarray) -> bytes:
        if self._values == "probabilities":
            numbers = np.exp(scores - _top(scores))
        else:
            numbers = 0.0 - scores if self._values == "costs" else scores + 0.0
        return f"{scores.size}\n{' '.join(map(repr, numbers.ravel().tolist()))}\n".encode("ascii")


def clique_tables(problem: Problem) -> Iterator[tuple[list[int], SparseTable]]:
    """The associative cliques of a problem as lists of tuples: a weight where all nodes have the same label, 0 elsewhere."""
    cliques = problem.cliques
    for c in range(len(cliques)):
        nodes = cliques.nodes[cliques.ptr[c] : cliques.ptr[c + 1]].tolist()
        states = problem.n_states[nodes].tolist()
        label = np.arange(min(states))
        tuples = np.repeat(label[:, None], len(nodes), axis=1)
        yield nodes, SparseTable(tuple(states), tuples, cliques.weights[c, label])


def _top(scores: np.ndarray) -> float:
    """Maximum of a factor, 0 if it forbids everything."""
    top = float(scores.max())
    return top if top > -np.inf else 0.0
