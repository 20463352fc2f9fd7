"""MarginObjective: the margin-rescaled hinge of structured labellings, exact or with a proven bracket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import InvalidParameterError, OracleError
from ...core.problem import Problem
from ...kernels.planes import largest_difference, values
from ...kernels.records import Scratch
from ...losses import Hamming, Loss, as_loss
from ...models.bound import BoundModel
from ..certificate import Check, Proven
from ..dual.planes import scratch_for
from ..oracles.base import Effort, Key, Oracle
from ..oracles.choice import choose_oracle
from .base import Answer, Plane, PlaneObjective

if TYPE_CHECKING:
    from ..proofs.feature_sums import FeatureSum

_MOVED = 2**22  # nodes and edges of planes that are summed at once: about 200 MB


class MarginObjective(PlaneObjective):
    r"""Margin-rescaled hinge: :math:`\xi_j(w) = \max_y L(y_j, y) - \langle w, z_j(y)\rangle`, with
    :math:`z_j(y) = \Psi(x_j, y_j) - \Psi(x_j, y)`; problems (21) and (23) of Franc & Savchynskyy 2008. Where samples have factors, with the
    scores :math:`h_j`, the loss is :math:`L(y_j, y) + h_j(y) - h_j(y_j)`, which is what all planes and bounds here mean by it.

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
        model.check_truth()
        self.loss_table = self._losses()
        self.design = model.design(self.loss_table)
        self.size = int(largest_difference(self.design))
        self.oracle = self._choose(oracle)
        self.oracle_given, self._foreign = oracle is not None, self.oracle is oracle
        self.exact = self.oracle.exact
        self.scratch = self.new_scratch(1)

    def _losses(self) -> np.ndarray:
        """Loss of each label at each node of the union."""
        if type(self)._loss_rows is MarginObjective._loss_rows:
            return loss_table(self.model, self.loss)
        rows = [self._loss_rows(j) for j in range(self.model.n_examples)]
        return np.concatenate([np.zeros((0, self.model.n_labels)), *rows])

    def _loss_rows(self, j: int) -> np.ndarray:
        """Loss of each label at each node of an example."""
        rows = slice(self.model.data.node_ptr[j], self.model.data.node_ptr[j + 1])
        return self.loss.table(self.model.truth(j), self.model.n_labels) * self.model.data.node_weights[rows, None]

    def _choose(self, oracle: Any) -> Oracle:
        return choose_oracle(self.model, self.design, oracle)

    def new_scratch(self, capacity: int) -> Scratch:
        """Work space for kernels."""
        return scratch_for(self.design, self.size, self.n_weights, capacity)

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: Effort) -> Answer:
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
        return out + self.gains(examples, keys)

    @property
    def has_gains(self) -> bool:
        """Whether losses of labellings are more than sums over nodes: see `gains`."""
        return self.model.data.factors is not None

    def gains(self, examples: np.ndarray, keys: Sequence[Key]) -> np.ndarray:
        """What is added to the losses of the labels of one labelling an example: what factors prefer it by."""
        if not self.has_gains:
            return np.zeros(len(examples))
        rows = zip(examples.tolist(), keys, strict=True)
        return np.array([self.model.factor_gains(j, np.asarray(key)[None])[0] for j, key in rows])

    def plane(self, j: int, key: Key) -> Plane:
        index, value = self.model.difference(j, key)
        rows = slice(self.model.data.node_ptr[j], self.model.data.node_ptr[j + 1])
        offset = float(self.loss_table[rows][np.arange(len(key)), key].sum()) + float(self.gains(np.array([j]), [key])[0])
        return Plane(j, offset, index, value, np.asarray(key))

    def state(self) -> dict[str, np.ndarray]:
        return self.oracle.state() if hasattr(self.oracle, "state") else {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        if hasattr(self.oracle, "restore"):
            self.oracle.restore(state)

    def sum_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray, check: Check) -> FeatureSum:
        from ..proofs.factor_sums import add_factors
        from ..proofs.feature_sums import feature_sum, labelling_moves

        sizes = np.diff(self.model.data.node_ptr)[examples] + np.diff(self.model.data.edge_ptr)[examples]
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _MOVED, prepend=0)) if len(sizes) else sizes
        total = super().sum_planes(examples[:0], [], alpha[:0], check)
        check.expect(len(examples))
        for part in np.split(np.arange(len(examples)), cuts):
            own = [keys[i] for i in part.tolist()]
            total += feature_sum(self.model, self.loss_table, labelling_moves(self.model, examples[part], own, alpha[part]))
            check.step(len(part))
        return add_factors(self.model, total, examples, keys, alpha)

    def exact_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray) -> tuple[Any, Any]:
        from ..proofs.exact_sums import scaled
        from ..proofs.factor_sums import exact_factors
        from ..proofs.feature_sums import exact_feature_sum, labelling_moves

        numbers, power = scaled(alpha)
        moves = labelling_moves(self.model, examples, keys, numbers)
        total, value = exact_feature_sum(self.model, self.loss_table, moves, (power,) * 3)
        return total, value + exact_factors(self.model, examples, keys, alpha)

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        from ..proofs.evaluation import hinge

        return hinge(self, w, check, goal)

    def prove_by_messages(self, w: np.ndarray, messages: Any, check: Check) -> Proven:
        """The objective from above, by messages that a certificate holds."""
        from ..proofs.evaluation import by_messages

        return by_messages(self, w, messages, check)

    def evaluate(self, w: np.ndarray) -> float:
        """The objective, never from below: by dynamic programming over forests in plain numpy, elsewhere from certificates of fresh
        solves."""
        return self.prove(np.asarray(w, dtype=np.float64), Check()).high

    def loss_problem(self, w: np.ndarray, j: int) -> Problem:
        """The loss-augmented problem of example ``j``, made from its parts without the kernels."""
        problem = self.model.problem(w, j)
        return Problem(
            problem.graph, problem.unary + self._loss_rows(j), problem.tables, problem.edge_table, problem.edge_weight, problem.n_states,
            problem.cliques, factors=problem.factors,
        )  # fmt: skip

    def content(self) -> Iterable[np.ndarray]:
        return (*super().content(), *self.model.factor_arrays())


def loss_table(model: BoundModel, loss: Loss) -> np.ndarray:
    """Loss of each label at each node of the union, node weights of the samples included."""
    ptr = model.data.node_ptr
    if type(loss) is Hamming and not loss.normalised and model.labels is not None:
        return np.ascontiguousarray(loss.table(model.labels, model.n_labels) * model.data.node_weights[:, None])
    rows = [loss.table(model.truth(j), model.n_labels) for j in range(model.n_examples)]
    table = np.concatenate(rows).reshape(int(ptr[-1]), model.n_labels) * model.data.node_weights[:, None]
    return np.ascontiguousarray(table)


def refuse_oracle(learner: Any, objective: Any) -> None:
    """For learners that ask no oracle: refuse one that was given, which would be ignored."""
    if getattr(objective, "oracle_given", False):
        name = type(learner).__name__
        raise InvalidParameterError(
            f"an oracle is given ({type(objective.oracle).__name__}), but {name} asks none, wanted oracle=None with it. Learners that ask the "
            "oracle: BlockFrankWolfe, CuttingPlane."
        )
