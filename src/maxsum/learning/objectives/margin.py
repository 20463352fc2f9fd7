r"""The objective that every learner minimises, and all that a learner sees of the data.

.. math:: F(w) = \tfrac12\|w\|^2 + \sum_j c_j\,\xi_j(w),\qquad w \in \text{cone},\qquad c_j = C\,s_j / \textstyle\sum_i s_i
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.errors import CertificateError, InvalidSampleError, OracleError
from ...core.problem import Problem
from ...inference.base import Solver
from ...inference.dispatch import TABLE
from ...kernels.clock import Clock
from ...kernels.design import Design
from ...kernels.planes import Scratch, largest_difference, values
from ...kernels.vectors import inner
from ...losses import Hamming, Loss, as_loss
from ...models.bound import BoundModel
from ...models.cone import Cone
from ..certificate import Check, Proven
from ..oracles.exact import BracketOracle, ForestOracle, Key, Oracle, SolverOracle, augmented

if TYPE_CHECKING:
    from ..proofs.feature_sums import FeatureSum

_SEARCH_EFFORT = 3
_MOVED = 2**22  # nodes and edges of planes that are summed at once: about 200 MB
_FEATURES = 64  # numbers that may have been added up in one entry of a plane, beside planes themselves


class Plane(NamedTuple):
    r"""A linear lower bound on the slack of one example: :math:`\xi_j(w) \ge b - \langle w, z\rangle`.

    ``key`` says where it comes from (the labelling), so that anyone can make it again.
    """

    example: int
    offset: float
    index: np.ndarray  # type: ignore[assignment]
    value: np.ndarray
    key: Key


class Answer(NamedTuple):
    """What an oracle found at ``w``: for each example the key of its most violated plane, the slack of that plane, and a proven
    upper bound on the slack of any."""

    examples: np.ndarray
    keys: list[Key]
    value: np.ndarray
    upper: np.ndarray


class Objective(ABC):
    """What margin and trivial surrogates share: example weights, counters, the primal value.

    Attributes
    ----------
    n_examples, n_weights : int
    c : ndarray, shape (n_examples,)
        Weight of each slack: ``C * sample_weight / sum(sample_weight)``.
    cone : Cone
    exact : bool
        Whether ``upper`` of an answer equals the slack.
    relaxed : bool
        Whether answers may be pseudo-marginals.
    n_calls : int
        Oracle calls, one an example.
    seconds : float
        Wall time in oracles.
    """

    exact = True
    relaxed = False
    design: Design

    def __init__(self, n_examples: int, cone: Cone, C: float, sample_weight: Any = None, n_jobs: int = 1):
        self.n_examples, self.cone, self.n_jobs = n_examples, cone, n_jobs
        self.sample_weight = _sample_weight(sample_weight, n_examples)
        self.set_C(C)
        self.n_calls, self.seconds = 0, 0.0

    @property
    def n_weights(self) -> int:
        return self.cone.n_weights

    def set_C(self, C: float) -> None:
        """Change the regularisation; planes do not depend on it. This is the only place that sets ``C`` and ``c``."""
        check_C(C)
        self.C = float(C)
        self.c = self.C * self.sample_weight / self.sample_weight.sum()

    def ask(self, w: np.ndarray, examples: np.ndarray | None = None, effort: int = 0) -> Answer:
        """The most violated planes of some examples (all by default) at ``w``."""
        examples = np.arange(self.n_examples) if examples is None else np.asarray(examples, dtype=np.int64)
        started = time.perf_counter()
        answer = self._ask(w, examples, effort)
        self.seconds += time.perf_counter() - started
        self.n_calls += len(examples)
        return answer

    def close(self, w: np.ndarray, answer: Answer, allowed: float, efforts: Sequence[int], seconds: float = np.inf) -> Answer:
        """The answer with more effort where its bracket is open, until ``c @ (upper - value) <= allowed``.

        Parameters
        ----------
        allowed : float
            Part of the objective that the oracle may leave unproven.
        efforts : sequence of int
            What to try, in this order (see the oracles).
        seconds : float
            No new call is made after this time.
        """
        value, upper, keys = answer.value.copy(), answer.upper.copy(), list(answer.keys)
        clock = Clock(seconds)
        for effort in efforts:
            loose = self.c[answer.examples] * (upper - np.maximum(value, 0.0))
            order = np.argsort(-loose, kind="stable")
            enough = int(np.searchsorted(-(loose.sum() - np.cumsum(loose[order])), -0.5 * allowed)) + 1
            if loose.sum() <= allowed:
                break
            chosen = order[:enough][loose[order[:enough]] > 0]
            for part in np.split(chosen, range(1, len(chosen))) if effort >= _SEARCH_EFFORT else [chosen]:
                if not len(part) or clock.left <= 0:
                    break
                better = self.ask(w, answer.examples[part], effort)
                for i, new, bound, key in zip(part, better.value, better.upper, better.keys, strict=True):
                    if new > value[i]:
                        value[i], keys[i] = new, key
                    upper[i] = max(value[i], min(upper[i], bound))
        return Answer(answer.examples, keys, value, upper)

    @abstractmethod
    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: int) -> Answer: ...

    @abstractmethod
    def plane(self, j: int, key: Key) -> Plane:
        """The plane that a key stands for."""

    @abstractmethod
    def evaluate(self, w: np.ndarray) -> float:
        """The objective at ``w`` by an independent way, for certificates: an upper bound where slacks are relaxed."""

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """`evaluate` as a rigorous bracket, for certificates; no more effort is made once the objective is proven to be ``goal`` or less."""
        high = self.evaluate(w)
        return Proven(0.5 * float(inner(w, w)), high, 1e-12 * abs(high), "objective by the objective's own evaluation")

    def sum_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray, check: Check) -> FeatureSum:
        r""":math:`\sum_i\alpha_i z_i` and :math:`\sum_i\alpha_i b_i` from the keys, which are checked, with bounds on rounding errors."""
        from ..proofs.feature_sums import EPS, FeatureSum

        u, size, value = np.zeros(self.n_weights), np.zeros(self.n_weights), 0.0
        check.expect(len(keys))
        for j, key, share in zip(examples.tolist(), keys, alpha.tolist(), strict=True):
            plane = self.plane(j, key)
            u[plane.index] += share * plane.value
            size[plane.index] += share * np.abs(plane.value)
            value += share * plane.offset
            check.step()
        few = (len(keys) + _FEATURES) * EPS
        return FeatureSum(u, few * size, value, few * abs(value))

    def exact_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray) -> tuple[Any, Any]:
        """The sums of `sum_planes` in rational arithmetic."""
        raise CertificateError(
            f"the certificate of a {type(self).__name__} cannot be checked in rational arithmetic; leave exact=True out, or train in memory."
        )

    def content(self) -> Iterable[np.ndarray]:
        """Arrays that tell these data from others."""
        return (*self.design, self.cone.nonneg, *self.cone.tables)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the data, without the weights of examples."""
        from ..checkpoint import digest_arrays

        return digest_arrays(self.content())

    def state(self) -> dict[str, np.ndarray]:
        """What oracles remember, for a checkpoint."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:  # noqa: B027
        """The state that `state` gave; nothing by default."""

    def primal(self, w: np.ndarray, slack: np.ndarray) -> float:
        r""":math:`\tfrac12\|w\|^2 + \sum_j c_j\,\xi_j`."""
        return float(0.5 * inner(w, w) + inner(self.c, slack))


class MarginObjective(Objective):
    r"""Margin-rescaled hinge: :math:`\xi_j(w) = \max_y L(y_j, y) - \langle w, z_j(y)\rangle`, with
    :math:`z_j(y) = \Psi(x_j, y_j) - \Psi(x_j, y)`; problems (21) and (23) of Franc & Savchynskyy 2008.

    Parameters
    ----------
    model : BoundModel
        With labels.
    C : float
    loss : Loss or str
    oracle : None, str, Solver or callable
        Who maximises the loss-augmented problems: by structure (None), a solver, or a function of a `Problem` that
        returns labels, or (labels, upper bound), or a `Result`. Labels without a bound get one by TRW-S.
    sample_weight : array-like, optional
    n_jobs : int
        Threads over examples.
    """

    surrogate = "margin"
    oracle_given = _foreign = False

    def __init__(
        self,
        model: BoundModel,
        C: float = 1.0,
        loss: Loss | str = "hamming",
        oracle: Any = None,
        sample_weight: Any = None,
        n_jobs: int = 1,
    ):
        super().__init__(model.n_examples, model.cone, C, sample_weight, n_jobs)
        self.model, self.loss = model, as_loss(loss)
        self.loss_table = loss_table(model, self.loss)
        self.design = model.design(self.loss_table)
        self.size = int(largest_difference(self.design))
        self.oracle = self._choose(oracle)
        self.oracle_given, self._foreign = oracle is not None, self.oracle is oracle
        self.exact = self.oracle.exact
        self.scratch = self.new_scratch(1)

    def _choose(self, oracle: Any) -> Oracle:
        return choose_oracle(self.model, self.design, oracle)

    def new_scratch(self, capacity: int) -> Scratch:
        """Work space for kernels."""
        return scratch_for(self.design, self.size, self.n_weights, capacity)

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: int) -> Answer:
        keys, gap = self.oracle.answer(w, examples, effort, self.n_jobs)
        if self._foreign and not np.isfinite(gap).all():
            j = int(examples[np.flatnonzero(~np.isfinite(gap))[0]])
            raise OracleError(
                f"example {j}: {type(self.oracle).__name__} answers with a gap that is not finite, wanted a proven one: without it nothing is "
                "known about the weights. Give a function of a Problem that returns labels; their bounds are then found by TRW-S."
            )
        value = self.values(w, examples, keys)
        return Answer(examples, keys, value, np.maximum(value + gap, 0.0))

    def values(self, w: np.ndarray, examples: np.ndarray, keys: Sequence[Key]) -> np.ndarray:
        r"""Slacks :math:`b - \langle w, z\rangle` of one labelling an example."""
        out = np.empty(len(examples))
        ptr = np.concatenate([[0], np.cumsum(np.diff(self.design.node_ptr)[examples])])
        values(self.design, examples, ptr, np.concatenate(keys).astype(np.int32, copy=False), w, self.scratch, out)
        return out

    def plane(self, j: int, key: Key) -> Plane:
        index, value = self.model.difference(j, key)
        rows = slice(self.model.data.node_ptr[j], self.model.data.node_ptr[j + 1])
        offset = float(self.loss_table[rows][np.arange(len(key)), key].sum())
        return Plane(j, offset, index, value, np.asarray(key))

    def state(self) -> dict[str, np.ndarray]:
        return self.oracle.state() if hasattr(self.oracle, "state") else {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        if hasattr(self.oracle, "restore"):
            self.oracle.restore(state)

    def sum_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray, check: Check) -> FeatureSum:
        from ..proofs.feature_sums import feature_sum, labelling_moves

        sizes = np.diff(self.model.data.node_ptr)[examples] + np.diff(self.model.data.edge_ptr)[examples]
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _MOVED, prepend=0)) if len(sizes) else sizes
        total = super().sum_planes(examples[:0], [], alpha[:0], check)
        check.expect(len(examples))
        for part in np.split(np.arange(len(examples)), cuts):
            own = [keys[i] for i in part.tolist()]
            total += feature_sum(self.model, self.loss_table, labelling_moves(self.model, examples[part], own, alpha[part]))
            check.step(len(part))
        return total

    def exact_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray) -> tuple[Any, Any]:
        from ..proofs.exact_sums import scaled
        from ..proofs.feature_sums import exact_feature_sum, labelling_moves

        numbers, power = scaled(alpha)
        moves = labelling_moves(self.model, examples, keys, numbers)
        return exact_feature_sum(self.model, self.loss_table, moves, (power,) * 3)

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        from ..proofs.evaluation import hinge

        return hinge(self, w, check, goal)

    def evaluate(self, w: np.ndarray) -> float:
        """The objective, never from below: by dynamic programming over forests in plain numpy, elsewhere from certificates of fresh
        solves."""
        return self.prove(np.asarray(w, dtype=np.float64), Check()).high

    def loss_problem(self, w: np.ndarray, j: int) -> Problem:
        """The loss-augmented problem of example ``j``, made from its parts without the kernels."""
        problem, labels = self.model.problem(w, j), self.model.truth(j)
        rows = slice(self.model.data.node_ptr[j], self.model.data.node_ptr[j + 1])
        table = self.loss.table(labels, self.model.n_labels) * self.model.data.node_weights[rows, None]
        return Problem(
            problem.graph, problem.unary + table, problem.tables, problem.edge_table, problem.edge_weight, problem.n_states,
            problem.cliques,
        )  # fmt: skip


def scratch_for(design: Design, size: int, n_weights: int, capacity: int) -> Scratch:
    """Work space of kernels for ``capacity`` planes an example; ``size`` is `largest_difference` of the design."""
    nodes, n_labels, room = int(np.diff(design.node_ptr).max(initial=1)), design.loss.shape[1], max(1, capacity)
    return Scratch(
        np.zeros(size, dtype=np.int32),
        np.zeros(size),
        np.zeros(n_weights),
        np.zeros(room),
        np.zeros(room),
        np.zeros(room, dtype=np.int64),
        np.zeros(nodes, dtype=np.uint8),
        np.zeros((nodes, n_labels)),
        np.zeros(n_labels),
        np.zeros(n_labels, dtype=np.uint8),
        np.zeros(n_labels + 1, dtype=np.int64),
    )


def loss_table(model: BoundModel, loss: Loss) -> np.ndarray:
    """Loss of each label at each node of the union, node weights of the samples included."""
    ptr = model.data.node_ptr
    if type(loss) is Hamming and not loss.normalised and model.labels is not None:
        return np.ascontiguousarray(loss.table(model.labels, model.n_labels) * model.data.node_weights[:, None])
    rows = [loss.table(model.truth(j), model.n_labels) for j in range(model.n_examples)]
    table = np.concatenate(rows).reshape(int(ptr[-1]), model.n_labels) * model.data.node_weights[:, None]
    return np.ascontiguousarray(table)


def choose_oracle(model: BoundModel, design: Design, oracle: Any) -> Oracle:
    """The oracle that fits the graphs and the cone: see `MarginObjective`."""
    if oracle is not None:
        if isinstance(oracle, (str, Solver)) or callable(oracle):
            name = oracle if isinstance(oracle, str) else type(oracle).__name__
            exact = name in ("TreeDP", "MaxFlow", "JunctionTree", "Exhaustive")
            return BracketOracle(model, design) if name == "bracket" else SolverOracle(model, design, oracle, exact)
        if hasattr(oracle, "answer"):
            return oracle
        raise InvalidSampleError(f"oracle is {oracle!r}, wanted None, a solver, its name, or a function of a Problem.")
    if model.is_forest:
        return ForestOracle(model, design)
    random = np.random.default_rng(0).standard_normal(model.n_weights)
    for probe in (random, -random):
        w = model.cone.repair(model.cone.project(probe).weights)
        for problem in augmented(model, design.loss, w, range(min(model.n_examples, 8))):
            if (problem.n_edges or len(problem.cliques)) and not any(row.fits(problem) for row in TABLE):
                return BracketOracle(model, design)
    return SolverOracle(model, design, None, True)


def refuse_oracle(learner: Any, objective: Any) -> None:
    """For learners that ask no oracle: refuse one that was given, which would be ignored."""
    if getattr(objective, "oracle_given", False):
        name = type(learner).__name__
        raise InvalidSampleError(
            f"an oracle is given ({type(objective.oracle).__name__}), but {name} asks none, wanted oracle=None with it. Learners that ask the "
            "oracle: BlockFrankWolfe, CuttingPlane."
        )


def check_C(C: Any) -> None:
    """Refuse what is not a positive number."""
    if isinstance(C, bool) or not isinstance(C, (int, float, np.number)) or not 0 < C < np.inf:
        raise InvalidSampleError(f"C is {C!r}, wanted a finite number > 0.")


def _sample_weight(given: Any, n_examples: int) -> np.ndarray:
    weight = np.ones(n_examples) if given is None else np.asarray(given, dtype=np.float64)
    if weight.shape != (n_examples,) or not (np.isfinite(weight) & (weight >= 0)).all() or not weight.sum() > 0:
        raise InvalidSampleError(f"sample_weight is {given!r}, wanted {n_examples} finite numbers >= 0 that are not all 0.")
    return weight
