"""Scores and verdicts in rational numbers, by the definitions: slow, and without rounding. Nothing of the library is called."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .functions import every_score as function_scores
from .functions import written_out

NEVER = float("-inf")


def exact_score(problem: Any, labels: Sequence[int]) -> Fraction | float:
    """The score of a labelling, number by number; ``-inf`` if something forbidden is used."""
    total = Fraction(problem.offset)
    for table, at, weight in terms(problem):
        value = table[tuple(labels[v] for v in at)]
        if value == NEVER:
            return NEVER
        total += Fraction(float(value)) * weight
    return total


def terms(problem: Any) -> list[tuple[np.ndarray, tuple[int, ...], Fraction]]:
    """Table, nodes and weight of every term: nodes, edges, cliques, factors."""
    states = problem.n_states.tolist()
    found = [(problem.unary[v, : states[v]], (v,), Fraction(1)) for v in range(problem.n_nodes)]
    for e, (u, v) in enumerate(problem.graph.edges.tolist()):
        table = problem.tables[problem.edge_table[e], : states[u], : states[v]]
        found.append((table, (u, v), Fraction(float(problem.edge_weight[e]))))
    for c in range(len(problem.cliques)):
        nodes = tuple(problem.cliques.members(c).tolist())
        table = np.zeros([states[v] for v in nodes])
        for k in range(min(table.shape)):
            table[(k,) * len(nodes)] = problem.cliques.weights[c, k]
        found.append((table, nodes, Fraction(1)))
    for members, function in problem.factors.items():
        nodes = tuple(members.tolist())
        found.append((written_out(function, [states[v] for v in nodes]), nodes, Fraction(1)))
    return found


def values_of(problem: Any) -> list[np.ndarray]:
    """All values of every term, at whatever labels: those of a factor are all scores of its function."""
    others = [table for table, _, _ in terms(problem)][: problem.n_nodes + problem.n_edges + len(problem.cliques)]
    return others + [function_scores(function) for _, function in problem.factors.items()]


def every_score(problem: Any) -> dict[tuple[int, ...], Fraction | float]:
    """All labellings with their scores."""
    own = [(table, at, weight) for table, at, weight in terms(problem)]
    exact = [np.array([NEVER if x == NEVER else Fraction(float(x)) * w for x in t.ravel()], dtype=object).reshape(t.shape)
             for t, _, w in own]  # fmt: skip
    scores: dict[tuple[int, ...], Fraction | float] = {}
    for y in itertools.product(*(range(n) for n in problem.n_states.tolist())):
        values = [table[tuple(y[v] for v in at)] for table, (_, at, _) in zip(exact, own, strict=True)]
        scores[y] = NEVER if any(isinstance(x, float) for x in values) else Fraction(problem.offset) + sum(values)
    return scores


def is_whole(problem: Any) -> bool:
    """Whether every number of the problem is a whole one, so that scores are."""
    arrays = (problem.unary, problem.tables, problem.edge_weight, problem.cliques.weights, np.array([problem.offset]))
    more = [function_scores(function) for _, function in problem.factors.items()]
    return all((np.isneginf(a) | (a == np.floor(a))).all() for a in (*arrays, *more))


def variation(problem: Any, labels: Sequence[int]) -> Fraction:
    """What "optimal" is measured by, for problems of at most 100 terms: the least distance of a term's value at the labelling from
    another value of that term is d, that of term t is d_t; the sum of min(d_t, 100 d)."""
    labels = [int(k) for k in labels]
    distances = []
    for (table, at, weight), values in zip(terms(problem), values_of(problem), strict=True):
        here = float(table[tuple(labels[v] for v in at)])
        others = [float(x) for x in values.ravel() if np.isfinite(x) and x != here]
        if others and weight != 0:
            distances.append(min(abs(Fraction(x) - Fraction(here)) for x in others) * abs(weight))
    moves = []
    for v, k in itertools.product(range(problem.n_nodes), range(problem.n_labels)):
        if k < problem.n_states[v] and k != labels[v]:
            other = [*labels[:v], k, *labels[v + 1 :]]
            change = exact_score(problem, other)
            if change != NEVER:
                moves.append((v, abs(change - exact_score(problem, labels))))
    best = [min((c for w, c in moves if w == v and c > 0), default=None) for v in range(problem.n_nodes)]
    some = [c for c in best if c is not None]
    total = sum((min(own, 100 * min(distances)) for own in distances), Fraction(0))
    return total if len(problem.cliques) or not some else min(total, sum((min(c, 100 * min(some)) for c in some), Fraction(0)))


def lies(problem: Any, scores: dict[tuple[int, ...], Fraction | float], labels: Any, score: float | None, bound: float,
         gap: float, guarantee: str) -> str:  # fmt: skip
    """The first of these claims that is false, in words; empty if all are true."""
    best = max(scores.values())
    true = NEVER if labels is None else scores[tuple(int(k) for k in labels)]
    if bound < best:
        return f"the bound {bound} lies below the optimum {float(best)}"
    if guarantee == "infeasible" and best > NEVER:
        return "infeasible, but a labelling exists"
    if true == NEVER:
        return f"{guarantee} without a labelling" if guarantee in ("optimal", "within_gap", "feasible") else ""
    if score is not None and abs(Fraction(score) - true) > sizes(problem, labels) * Fraction(2) ** -45:
        return f"the score is {score}, but the labelling has {float(true)}"
    if gap < best - true:
        return f"the gap is {gap}, but the labelling is {float(best - true)} away"
    allowed = 0 if is_whole(problem) else Fraction(1.000001e-9) * variation(problem, labels)
    if guarantee == "optimal" and best - true > allowed:
        return f"optimal, but the labelling is {float(best - true)} away, and {float(allowed)} counts as nothing"
    return ""


def sizes(problem: Any, labels: Sequence[int]) -> Fraction:
    """Sum of the sizes of the numbers that the score of a labelling adds up."""
    at = [(table[tuple(int(labels[v]) for v in nodes)], weight) for table, nodes, weight in terms(problem)]
    return abs(Fraction(problem.offset)) + sum(abs(Fraction(float(value)) * weight) for value, weight in at)
