"""Estimators on convex energies (surrogates ``qp`` and ``logistic``): operators, trees, predictions with proofs, weights in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core.certificates.base import MessageCertificate
from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.problem import Messages, Problem
from ..core.result import Guarantee, Result, Termination
from ..executors.threads import thread_map
from ..inference.base import Run
from ..learning.learners.grow import TreeGrower
from ..learning.objectives.logistic import predict_logistic
from ..learning.objectives.qp import QPObjective, predict_convex
from ..models.bound import BoundModel, Encoded
from ..models.convex import Convex, ConvexBound
from ..models.graph_model import GraphModel
from ..models.labels import read_labels
from ..models.matting import RestrictedOperator
from ..models.sample import GraphSample
from .settings import Settings


class Point(NamedTuple):
    """What a convex energy says of one sample: labels, the point (n_nodes, K) they are rounded from, marginals, and words."""

    labels: np.ndarray
    mu: np.ndarray
    marginals: np.ndarray
    termination: Termination
    words: str


def sample_operators(
    spec: Convex | None, samples: Sequence[GraphSample], labels: Any = None, classes: Any = None
) -> list[Any] | None:
    """The operators that the energies ask for, made from each sample; with labels those of the nodes whose label is known."""
    if spec is None or spec.operators is None:
        return None
    known = [None] * len(samples) if labels is None else [own for _, own in read_labels(samples, labels, classes)]
    found = []
    for j, (sample, mask) in enumerate(zip(samples, known, strict=True)):
        try:
            own = [rule.of(sample) for rule in spec.operators]
        except InvalidSampleError as error:
            raise InvalidSampleError(f"sample {j}: {error}") from error
        found.append(own if mask is None or mask.all() else [RestrictedOperator(one, mask) for one in own])
    return found


def tree_model(
    settings: Settings,
    model: GraphModel,
    samples: list[GraphSample],
    labels: Any,
    classes: Any,
    weight: np.ndarray,
    C: float,
) -> BoundModel:
    """The model with the leaves of trees, grown on the samples, as node features and edge types; it leads new samples through them."""
    spec, surrogate = settings.potentials, str(settings.surrogate)
    if spec.operators is not None:
        raise InvalidParameterError(
            "potentials has operators and trees, wanted one of them: trees are grown for pairwise energies."
        )
    if settings.class_weight is not None:
        raise InvalidParameterError("class_weight is given beside trees, wanted None: give the weights as a loss instead.")
    own = spec.trees
    grower = TreeGrower(
        own.ask(samples), own.node_depth, own.edge_depth, own.n_candidates, own.min_items, own.max_items, C, settings.loss, surrogate,
        replace(spec, trees=None), n_jobs=settings.n_jobs, random_state=settings.random_state, model=model,
    )  # fmt: skip
    return grower.grow(samples, labels, classes, sample_weight=weight).model.base


def warm_weights(before: Any, new: Any, weights: np.ndarray) -> np.ndarray | None:
    """Weights to start from: those of an earlier training, if they mean the same; on the same data its minimisers and accuracy are
    taken over as well."""
    if before.digest != new.digest:
        return weights if len(weights) == new.n_weights and before.model.names == new.model.names else None
    new.restore(before.state())
    if isinstance(new, QPObjective):
        new.allowed *= new.C / before.C
    return weights


def qp_points(model: ConvexBound, w: np.ndarray, data: Encoded, n_jobs: int, operators: list[Any] | None = None) -> list[Point]:
    """Predictions of the convex quadratic relaxation."""
    if not data.n_examples:
        return []
    return [
        Point(
            own.labels,
            own.mu,
            own.mu,
            own.termination,
            f"the energy of the QP relaxation has its minimum in [{own.lower_bound:.8g}, {own.value:.8g}], and the rounded "
            f"labelling has {own.energy:.8g}",
        )
        for own in predict_convex(model, w, data=data, operators=operators, n_jobs=n_jobs)
    ]


def logistic_points(
    model: ConvexBound, w: np.ndarray, data: Encoded, n_jobs: int, operators: list[Any] | None = None
) -> list[Point]:
    """Predictions of a logistic random field."""
    if not data.n_examples:
        return []
    ends = data.node_ptr.tolist()
    return [
        Point(
            own.labels,
            own.scores,
            _softmax(own.scores, data.n_states[ends[j] : ends[j + 1]]),
            Termination.converged,
            "the labels have the largest logistic scores, which solve a linear system up to the relative residual "
            f"{own.residual:.1g}; they need not be those of the best score of the max-sum problem",
        )
        for j, own in enumerate(predict_logistic(model, w, data=data, operators=operators, n_jobs=n_jobs))
    ]


def _softmax(scores: np.ndarray, n_states: np.ndarray) -> np.ndarray:
    inside = np.arange(scores.shape[1]) < n_states[:, None]
    mass = np.where(inside, np.exp(scores - np.where(inside, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)), 0.0)
    return mass / mass.sum(axis=1, keepdims=True)


def proven(
    name: str, model: ConvexBound, w: np.ndarray, data: Encoded, problems: Sequence[Problem], found: list[Point], n_jobs: int
) -> list[Result]:
    r"""Predictions as answers to the max-sum problems ``model.problems(w, samples)``, with a proof for each.

    As :math:`W \succeq 0`, the tangent of an edge's energy at any point bounds it: with :math:`z = (\mu_u, \mu_v)`

    .. math:: -\tfrac12 (e_k, e_l)^\top W (e_k, e_l) \le \tfrac12 z^\top W z - (Wz)_u(k) - (Wz)_v(l),

    so :math:`Wz` are messages, whose bound is at most that of the tangent of the whole energy. The certificate holds them, and
    needs no trust in the matrices.
    """
    bank = model.family.bank(w[model.slices[2]])

    def one(j: int) -> Result:
        return _result(name, problems[j], found[j], _messages(bank, data, j, found[j].mu))

    return thread_map(one, range(len(found)), n_jobs)


def _result(name: str, problem: Problem, point: Point, edge: np.ndarray) -> Result:
    run = Run(name, problem)
    run.offer(point.labels)
    run.marginals, run.termination = point.marginals, point.termination
    run.certify(np.inf, MessageCertificate(Messages(edge, problem.zero_messages().clique)))
    result = run.result()
    proven = (
        "proven to be the best one"
        if result.guarantee == Guarantee.optimal
        else f"at most {result.gap:.3g} below the best score"
    )
    return replace(result, message=f"{name}: {point.words}; in the max-sum problem this labelling is {proven}.")


def _messages(bank: np.ndarray, data: Encoded, j: int, mu: np.ndarray) -> np.ndarray:
    r""":math:`Wz` at both ends of the edges of a sample, (2, n_edges, K)."""
    first, last = int(data.edge_ptr[j]), int(data.edge_ptr[j + 1])
    size = mu.shape[1]
    out = np.zeros((last - first, 2 * size))
    if last > first:
        edges = data.edges[first:last] - int(data.node_ptr[j])
        z = np.concatenate([mu[edges[:, 0]], mu[edges[:, 1]]], axis=1)
        f = data.f[first:last].tocsc()
        for p in range(f.shape[1]):
            part = slice(int(f.indptr[p]), int(f.indptr[p + 1]))
            rows = f.indices[part]
            out[rows] += f.data[part, None] * (z[rows] @ bank[p])
    return np.ascontiguousarray(np.stack([out[:, :size], out[:, size:]]))


def convex_blocks(model: ConvexBound, w: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    r"""Weights of the nodes, as long as those of the base model, linear terms :math:`b_p`, and matrices :math:`W_p`."""
    nodes = np.zeros(max(model.base.n_weights, model.slices[0].stop))
    nodes[model.slices[0]] = w[model.slices[0]]
    places = model.family.places
    terms = np.zeros((len(places), 2 * model.n_labels))
    if model.spec.linear:
        terms = w[model.slices[1]].reshape(terms.shape)
    return nodes, [own[place] for own, place in zip(terms, places, strict=True)], model.matrices(w)
