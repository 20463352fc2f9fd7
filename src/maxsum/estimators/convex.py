"""Estimators on convex energies (surrogates ``qp`` and ``logistic``): objectives, predictions with proofs, weights in blocks."""

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
from ..learning.learners.quasi_newton import ProjectedQuasiNewton
from ..learning.learners.smoothed_lp import SmoothedLP
from ..learning.objectives.logistic import LogisticObjective, predict_logistic
from ..learning.objectives.qp import QPObjective, predict_convex
from ..models.bound import BoundModel, Encoded
from ..models.convex import Convex, ConvexBound
from ..models.graph_model import GraphModel
from ..models.labels import read_labels
from ..models.matting import RestrictedOperator
from ..models.sample import GraphSample
from ..models.trees import Trees

CONVEX = ("qp", "logistic")
_SAME = ("general", "convex", "auto")


class Point(NamedTuple):
    """What a convex energy says of one sample: labels, the point (n_nodes, K) they are rounded from, marginals, and words."""

    labels: np.ndarray
    mu: np.ndarray
    marginals: np.ndarray
    termination: Termination
    words: str


def is_convex(objective: Any) -> bool:
    """Whether an objective is one of `CONVEX`."""
    return getattr(objective, "surrogate", "") in CONVEX


def as_convex(estimator: Any, surrogate: str, learner: Any) -> Convex | None:
    """The convex energies that an estimator asks for, None for other surrogates; refuses what does not go together."""
    given = estimator.potentials
    if surrogate not in CONVEX:
        if isinstance(given, Convex) or (isinstance(given, str) and given == "convex"):
            raise InvalidParameterError(
                f"potentials is {given!r} beside surrogate={surrogate!r}, wanted surrogate='qp' or 'logistic' with convex energies."
            )
        return None
    if not isinstance(given, Convex) and not (isinstance(given, str) and given in _SAME):
        raise InvalidParameterError(
            f"potentials is {given!r} beside surrogate={surrogate!r}, wanted 'general' or 'convex' (here the same) or a "
            "maxsum.models.Convex: its energies are made of positive definite matrices. Other tables go with surrogate='margin' or 'lp'."
        )
    if getattr(estimator, "symmetric", False):
        raise InvalidParameterError(
            f"symmetric is True beside surrogate={surrogate!r}, wanted False: both ends of an edge have blocks of their own."
        )
    if estimator.oracle is not None and not (isinstance(estimator.oracle, str) and estimator.oracle == "auto"):
        raise InvalidParameterError(
            f"oracle is {estimator.oracle!r} beside surrogate={surrogate!r}, wanted None: training needs no max-sum solver. "
            "A solver for predictions goes to predict_result(X, solver=...)."
        )
    if not isinstance(learner, ProjectedQuasiNewton) or isinstance(learner, SmoothedLP):
        raise InvalidParameterError(
            f"learner is {type(learner).__name__} beside surrogate={surrogate!r}, wanted None or ProjectedQuasiNewton: the objective is "
            "smooth and has no planes."
        )
    spec = given if isinstance(given, Convex) else Convex()
    if spec.n_operators and spec.operators is None:
        raise InvalidParameterError(
            f"potentials has n_operators={spec.n_operators} but no operators, wanted Convex(operators=Matting(...)): an estimator makes them "
            "from each sample. For operators of your own use QPObjective itself."
        )
    if (spec.operators is not None or spec.trees is not None) and not hasattr(estimator, "_samples"):
        raise InvalidParameterError(
            f"potentials has operators or trees in a {type(estimator).__name__}, wanted neither: its samples are rows of a table. They go "
            "with GridLabeler and GraphLabeler."
        )
    if spec.trees is not None and not isinstance(spec.trees, Trees):
        raise InvalidParameterError(f"trees of potentials is {spec.trees!r}, wanted None or maxsum.models.Trees(...).")
    return spec


def convex_objective(
    surrogate: str,
    spec: Convex,
    bound: BoundModel,
    C: float,
    loss: Any,
    weight: np.ndarray,
    n_jobs: int,
    operators: list[Any] | None = None,
) -> Any:
    """The objective of a surrogate of `CONVEX`; its ``model`` holds the convex energies."""
    kind: Any = QPObjective if surrogate == "qp" else LogisticObjective
    return kind(spec.bind(bound), C, loss, weight, operators=operators, n_jobs=n_jobs)


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
    estimator: Any, model: GraphModel, samples: list[GraphSample], labels: Any, classes: Any, weight: np.ndarray, C: float
) -> BoundModel:
    """The model with the leaves of trees, grown on the samples, as node features and edge types; it leads new samples through them."""
    spec, surrogate = estimator.potentials, str(estimator.surrogate)
    if spec.operators is not None:
        raise InvalidParameterError(
            "potentials has operators and trees, wanted one of them: trees are grown for pairwise energies."
        )
    if estimator.class_weight is not None:
        raise InvalidParameterError("class_weight is given beside trees, wanted None: give the weights as a loss instead.")
    own = spec.trees
    grower = TreeGrower(
        own.ask(samples), own.node_depth, own.edge_depth, own.n_candidates, own.min_items, own.max_items, C, estimator.loss, surrogate,
        replace(spec, trees=None), n_jobs=estimator.n_jobs, random_state=estimator.random_state, model=model,
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


def points(objective: Any, model: ConvexBound, w: np.ndarray, samples: Any, n_jobs: int) -> list[Point]:
    """Predictions of a surrogate of `CONVEX` for samples."""
    return _points(objective, model, w, model.encode(samples), n_jobs, sample_operators(model.spec, samples))


def _points(
    objective: Any, model: ConvexBound, w: np.ndarray, data: Encoded, n_jobs: int, operators: list[Any] | None = None
) -> list[Point]:
    if not data.n_examples:
        return []
    if objective.surrogate == "qp":
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
    found = predict_logistic(model, w, data=data, operators=operators, n_jobs=n_jobs)
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
        for j, own in enumerate(found)
    ]


def _softmax(scores: np.ndarray, n_states: np.ndarray) -> np.ndarray:
    inside = np.arange(scores.shape[1]) < n_states[:, None]
    mass = np.where(inside, np.exp(scores - np.where(inside, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)), 0.0)
    return mass / mass.sum(axis=1, keepdims=True)


def results(objective: Any, model: ConvexBound, w: np.ndarray, samples: Any, n_jobs: int) -> list[Result]:
    r"""Predictions as answers to the max-sum problems ``model.problems(w, samples)``, with a proof for each.

    As :math:`W \succeq 0`, the tangent of an edge's energy at any point bounds it: with :math:`z = (\mu_u, \mu_v)`

    .. math:: -\tfrac12 (e_k, e_l)^\top W (e_k, e_l) \le \tfrac12 z^\top W z - (Wz)_u(k) - (Wz)_v(l),

    so :math:`Wz` are messages, whose bound is at most that of the tangent of the whole energy. The certificate holds them, and
    needs no trust in the matrices.
    """
    if model.spec.n_operators:
        raise InvalidParameterError(
            "predict_result answers max-sum problems, but operators join all pixels of an image, so there is none; use predict, or "
            "maxsum.learning.objectives.qp.predict_convex(model_, weights_, samples, operators=...), whose answers have bounds of their own."
        )
    data = model.encode(samples)
    problems = model.problems(w, samples)
    found = _points(objective, model, w, data, n_jobs)
    bank = model.family.bank(w[model.slices[2]])
    name = "ConvexQP" if objective.surrogate == "qp" else "LogisticField"

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
