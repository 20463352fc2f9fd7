"""Proofs by cores for any problem of nodes and edges: random cores, random messages, a search of its own in each core."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import maxsum as ms
from maxsum.core.certificates.cores import Core, CoresCertificate, Cut
from maxsum.core.certificates.search.certificate import target_gap
from maxsum.core.problem import Messages
from maxsum.inference import BranchAndBound
from maxsum.inference.exact.cores import tree_of


def random_cores(rng: np.random.Generator, n_nodes: int) -> list[np.ndarray]:
    """Some disjoint sets of nodes, in increasing order, not always of all nodes."""
    number = rng.integers(-1, 3, size=n_nodes)
    return [np.flatnonzero(number == c) for c in range(3) if (number == c).any()]


def proof_by_cores(rng: np.random.Generator, problem: ms.Problem, max_nodes: int | None = None) -> CoresCertificate | None:
    """A proof with random cores and messages; None where a core has no search, as where it is infeasible."""
    zero, scale = problem.zero_messages(), float(rng.choice([0.0, 1.0, 0.3]))
    edge = scale * rng.normal(size=zero.edge.shape)
    messages = Messages(np.round(edge) if rng.random() < 0.3 else edge, zero.clique)
    cut, cores = Cut(problem, messages, random_cores(rng, problem.n_nodes)), []
    if not cut.domain.any(axis=1).all():
        return None
    for nodes, part in zip(cut.cores, cut.problems, strict=True):
        found = BranchAndBound(root_iter=int(rng.integers(3)), max_nodes=max_nodes).solve(part)
        tree = tree_of(found)
        if tree is None or found.labels is None or not np.isfinite(found.score):
            return None
        cores.append(Core(nodes, found.labels, replace(tree, level=max(tree.level, target_gap(part, found.labels)))))
    return CoresCertificate(messages, tuple(cores))


def result_by_cores(rng: np.random.Generator, problem: ms.Problem) -> ms.Result | None:
    """A result with such a proof and the best labelling."""
    proof, best = proof_by_cores(rng, problem), BranchAndBound().solve(problem)
    if proof is None or best.labels is None:
        return None
    found = proof.verify(problem, best.labels)
    return replace(
        best,
        certificate=proof,
        bound=found.bound,
        gap=found.gap,
        guarantee=found.guarantee,
        solver="CoreSearch",
        marginals=None,
    )
