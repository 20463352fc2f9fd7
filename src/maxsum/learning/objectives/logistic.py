r"""Surrogate ``logistic``: the logistic random field of Tappen, Samuel, Dean and Lyle (2008), on all convex energies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...core.errors import CertificateError, OracleError
from ...executors.threads import split, thread_map
from ...kernels import conjugate_gradients as cg
from ...losses import Loss
from ...models.bound import Encoded
from ...models.convex import ConvexBound, samples_of
from ..certificate import Check, Proven
from ..proofs.tangents import PlainEnergies
from .convex import ConvexObjective, energies_at
from .energy import Energies
from .smooth import Evaluation

_LEFT_OVER = 1e-4  # relative residual with which gradients are still of some use; with more the systems count as unsolvable
_CHECKED = 1e-12  # residual behind a proof, where no direct solver takes the operators
_ULPS = 1e-13  # of the value and of a label: what rounding can hide in a loss


class Solved(NamedTuple):
    """Solutions (n_nodes, K), the largest relative residual of an example, and the most iterations."""

    x: np.ndarray
    residual: float
    n_iter: int


class LinearSystems:
    r"""Solves :math:`\Theta_j x = b` of all examples by conjugate gradients with the diagonal as preconditioner."""

    def __init__(self, energies: Energies, tol: float = 1e-9, max_iter: int = 10_000):
        self.energies, self.tol, self.max_iter = energies, tol, max_iter

    def solve(self, b: np.ndarray, init: np.ndarray | None = None) -> Solved:
        """Solve from a warm start; raises `OracleError` if the systems are too badly conditioned."""
        energies = self.energies
        x = np.zeros_like(b) if init is None else init.copy()
        inverse = np.ones_like(b)
        cg.block_diagonal(energies.rows, inverse)
        inverse = 1.0 / inverse
        found = self._operators(b, x, inverse) if energies.operators is not None else self._blocks(b, x, inverse)
        if found.residual > _LEFT_OVER:
            raise OracleError(
                f"conjugate gradients left a relative residual of {found.residual:.3g} after {found.n_iter} iterations, wanted "
                f"{self.tol:g}: the quadratic form is badly conditioned. Raise ridge or floor of the model, or lower C."
            )
        return found

    def _blocks(self, b: np.ndarray, x: np.ndarray, inverse: np.ndarray) -> Solved:
        energies = self.energies
        r, p, q = (np.zeros_like(b) for _ in range(3))
        residual = np.zeros(energies.data.n_examples)

        def part(piece: tuple[int, int]) -> int:
            return int(
                cg.solve_parts(
                    energies.rows, b, x, r, p, q, inverse, energies.starts, *piece, self.tol, self.max_iter, residual
                )
            )

        counts = thread_map(part, split(energies.starts, energies.n_jobs), energies.n_jobs)
        return Solved(x, float(residual.max(initial=0.0)), max(counts, default=0))

    def _operators(self, b: np.ndarray, x: np.ndarray, inverse: np.ndarray) -> Solved:
        energies, work = self.energies, np.zeros((2, *b.shape))

        def one(j: int) -> tuple[float, int]:
            from scipy.sparse.linalg import LinearOperator
            from scipy.sparse.linalg import cg as solver

            example, rows = energies.example(j, work), slice(int(energies.starts[j]), int(energies.starts[j + 1]))
            mask, steps = example.mask, [0]
            form = LinearOperator(example.shape, matvec=lambda v: example.matvec(np.asarray(v).reshape(-1)), dtype=np.float64)
            scale = inverse[rows][mask]
            precondition = LinearOperator(example.shape, matvec=lambda v: scale * np.asarray(v).reshape(-1), dtype=np.float64)

            def count(_: np.ndarray) -> None:
                steps[0] += 1

            right = b[rows][mask]
            own, _ = solver(form, right, x[rows][mask], rtol=self.tol, maxiter=self.max_iter, M=precondition, callback=count)
            x[rows][mask] = own
            size = float(np.linalg.norm(right))
            left = float(np.linalg.norm(example.matvec(own) - right))
            return (left / size if size > 0 else 0.0), steps[0]

        answers = thread_map(one, range(energies.data.n_examples), energies.n_jobs)
        return Solved(x, max((a[0] for a in answers), default=0.0), max((a[1] for a in answers), default=0))


class LogisticObjective(ConvexObjective):
    r"""Logistic loss of the unconstrained minimiser of a convex energy:

    .. math:: F(w) = \tfrac12\|w\|^2 + \sum_j c_j\sum_v \omega_v\Big(\log\sum_k e^{\mu_v(k)} - \mu_v(y_v)\Big),\qquad
              \mu = \operatorname*{argmin}_\mu E_j(\mu; w) = -\Theta_j^{-1}\theta_j,

    with :math:`\omega_v` the largest loss at a node. It is differentiable but **not convex** in the weights: what is found is a
    stationary point, and no lower bound is claimed. The gradient takes one more solve, :math:`\Theta\lambda = p - y`:
    :math:`\partial F = -\langle\lambda, \partial\theta + \partial\Theta\,\mu\rangle`.

    Parameters
    ----------
    model : ConvexBound
        With labels.
    C, loss, sample_weight, operators, n_jobs
        As in `QPObjective`; of the loss only the cost of a wrong label at each node is used.
    tol : float
        Relative residual of the linear systems.
    """

    surrogate = "logistic"

    convex = False
    modulus = 0.0

    def __init__(
        self,
        model: ConvexBound,
        C: float = 1.0,
        loss: Loss | str = "hamming",
        sample_weight: Any = None,
        operators: Sequence[Any] | None = None,
        n_jobs: int = 1,
        tol: float = 1e-9,
    ):
        super().__init__(model, C, loss, sample_weight, operators, n_jobs)
        self.node_weight = self.loss_table.max(axis=1, initial=0.0) * np.repeat(self.c, np.diff(model.data.node_ptr))
        self.systems = LinearSystems(self.energies, tol)
        self.mu, self.back = np.zeros_like(self.truth), np.zeros_like(self.truth)
        self._solved = self.mu

    def _rescale(self, ratio: float) -> None:
        self.node_weight = self.node_weight * ratio

    def value_and_gradient(self, w: np.ndarray) -> Evaluation:
        self.energies.at(w)
        self.mu = self.systems.solve(-self.energies.theta, self.mu).x
        value, share = self._loss(self.mu)
        self.back = self.systems.solve(self.node_weight[:, None] * (share - self.truth), self.back).x
        gradient = w - self.energies.moments(self.back, np.ones(self.n_examples), 2.0 * self.mu)
        return Evaluation(0.5 * float(w @ w) + value, gradient)

    def _loss(self, mu: np.ndarray) -> tuple[float, np.ndarray]:
        """Logistic loss of scores, and the probabilities of all labels."""
        score = np.where(self.inside, mu, -np.inf)
        top = score.max(axis=1, keepdims=True)
        mass = np.exp(score - top)
        total = mass.sum(axis=1, keepdims=True)
        each = np.log(total[:, 0]) + top[:, 0] - (mu * self.truth).sum(axis=1)
        return float(self.node_weight @ each), mass / total

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """The value, with a residual of the linear systems that is worked out in plain numpy from the formula of the energies."""
        if check.exact:
            raise CertificateError(
                "a logistic objective has sums of exponentials, which cannot be checked in rational arithmetic; leave exact=True out."
            )
        self.evaluate(w)
        plain = PlainEnergies(self.model, self.energies.operators)
        theta, bank, operators = plain.terms(w)
        left = np.where(self.inside, theta + plain.multiply(bank, operators, self._solved), 0.0)
        # the least eigenvalue of the form is at least the ridge, so that scores are off by at most residual / ridge
        off = float(np.sqrt((left * left).sum())) / self.model.spec.ridge
        value = 0.5 * float((w * w).sum()) + self._loss(self._solved)[0]
        error = 2.0 * off * float(np.sqrt((self.node_weight**2).sum())) + _ULPS * abs(value) * (1 + self.truth.shape[1])
        return Proven(
            value - error, value + error, 2 * error, "objective by a sparse direct solver, its residual in plain numpy"
        )

    def evaluate(self, w: np.ndarray) -> float:
        """The value with scores from a sparse direct solver (from tight conjugate gradients with operators)."""
        self.energies.at(w)
        if self.energies.operators is not None:
            mu = LinearSystems(self.energies, _CHECKED).solve(-self.energies.theta).x
        else:
            from scipy.sparse.linalg import spsolve

            mu = np.zeros_like(self.truth)
            matrix = sparse.csc_array(self.energies.matrix())
            mu[self.inside] = spsolve(matrix, -self.energies.theta[self.inside])
        self._solved = mu
        return 0.5 * float(w @ w) + self._loss(mu)[0]

    def state(self) -> dict[str, np.ndarray]:
        return {"logistic_mu": self.mu, "logistic_back": self.back}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.mu, self.back = np.array(state["logistic_mu"]), np.array(state["logistic_back"])


@dataclass(frozen=True, eq=False)
class LogisticPrediction:
    """Prediction of one sample by a logistic random field: its scores are the minimiser of the energy without constraints.

    Attributes
    ----------
    labels : ndarray of int32, shape (n_nodes,)
        Labels of the largest score.
    scores : ndarray, shape (n_nodes, K)
    residual : float
        Largest relative residual of the linear systems of the batch.
    """

    labels: np.ndarray
    scores: np.ndarray
    residual: float


def predict_logistic(
    model: ConvexBound,
    w: np.ndarray,
    samples: Any = None,
    *,
    data: Encoded | None = None,
    operators: Sequence[Any] | None = None,
    tol: float = 1e-6,
    n_jobs: int = 1,
) -> list[LogisticPrediction]:
    """Predictions for samples, or for the training data; arguments as in `predict_convex`."""
    energies = energies_at(model, w, samples, data, operators, n_jobs)
    found = LinearSystems(energies, tol).solve(-energies.theta)
    inside = np.arange(model.n_labels) < energies.data.n_states[:, None]
    labels = np.where(inside, found.x, -np.inf).argmax(axis=1).astype(np.int32) if found.x.size else np.zeros(0, dtype=np.int32)
    return [
        LogisticPrediction(y, scores, found.residual)
        for y, scores in zip(samples_of(energies.data, labels), samples_of(energies.data, found.x), strict=True)
    ]
