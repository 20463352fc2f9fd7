"""What the objectives on convex energies share: the data, the loss, the energies and the allowed weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...core.errors import InvalidSampleError
from ...losses import Loss, as_loss
from ...models.bound import Encoded
from ...models.convex import ConvexBound, one_hot
from ...models.matrices import Definite
from .base import as_sample_weight, check_C
from .energy import Energies
from .margin import loss_table
from .smooth import SmoothObjective

_ROUNDING = 1e-9  # eigenvalues that are cut off at the floor come out so near to it, relative to the weights


class ConvexObjective(SmoothObjective):
    r"""A smooth function of the weights of convex energies; examples are weighted by :math:`c_j = C s_j`.

    Attributes
    ----------
    model : ConvexBound
    loss_table : ndarray, shape (n_nodes, K)
        Loss of each label; 0 past the labels of a node.
    inside : ndarray of bool, shape (n_nodes, K)
        Which labels exist.
    truth : ndarray, shape (n_nodes, K)
        The training labelling as a point of the simplices.
    energies : Energies
    """

    def __init__(
        self,
        model: ConvexBound,
        C: float,
        loss: Loss | str,
        sample_weight: Any,
        operators: Sequence[Any] | None,
        n_jobs: int,
    ):
        check_C(C)
        if model.labels is None:
            raise InvalidSampleError("the model was bound without labels; give them to bind().")
        self.model, self.loss = model, as_loss(loss)
        self.n_weights, self.n_examples, self.free = model.n_weights, model.n_examples, model.free
        self.sample_weight = as_sample_weight(sample_weight, model.n_examples)
        self._weigh(C)
        self.inside = np.arange(model.n_labels) < model.data.n_states[:, None]
        self.loss_table = loss_table(model.base, self.loss)
        self.loss_table[~self.inside] = 0.0
        self.energies = Energies(model, operators=operators, n_jobs=n_jobs)
        self.truth = one_hot(model.labels, model.n_labels)

    def set_C(self, C: float) -> None:
        """Change the regularisation."""
        check_C(C)
        ratio = float(C) / self.C
        if ratio != 1.0:
            self._weigh(C)
            self._rescale(ratio)

    def _rescale(self, ratio: float) -> None:
        """Follow a change of C by this factor; ``c`` has changed already. What evaluations use must not depend on earlier values of C."""

    def project(self, w: np.ndarray) -> np.ndarray:
        return self.model.project(w)

    def contains(self, w: np.ndarray) -> bool:
        """Whether weights are allowed, up to rounding: by plain numpy."""
        return allows(self.model, w)

    def scale(self) -> np.ndarray:
        r""":math:`(1 + \kappa\sum_j c_j\|\Psi_j\|^2)^{-1/2}` of each node weight, and of each group of other weights."""
        return self.energies.scale(self.c)

    def content(self) -> Iterable[np.ndarray]:
        data, spec = self.model.data, self.model.spec
        x = (data.x,) if isinstance(data.x, np.ndarray) else (data.x.data, data.x.indices, data.x.indptr)
        form = np.frombuffer(spec.form.encode(), dtype=np.uint8)
        numbers = np.array([spec.floor, spec.ridge, spec.linear, spec.n_operators, self.model.family.n_weights])
        operators = np.zeros(0)
        if spec.n_operators:
            operators = self.energies.operator_moments(np.random.default_rng(0).standard_normal(self.truth.shape))
        parts = (data.edges, data.f.data, data.f.indices, data.node_ptr, self.truth, self.loss_table, form, numbers)
        return (*x, *parts, operators)


def allows(model: ConvexBound, w: np.ndarray) -> bool:
    """Whether all matrices have eigenvalues, or dictionaries weights, of at least the floor, and operators weights >= 0; up to rounding."""
    family, own = model.family, w[model.slices[2]]
    room = _ROUNDING * (1.0 + float(np.abs(w).max(initial=0.0)))
    if (w[model.slices[3]] < -room).any():
        return False
    if not isinstance(family, Definite):
        return not (own < family.floor - room).any()
    bank = family.bank(own)
    matrices = [bank[p][np.ix_(place, place)] for p, place in enumerate(family.places) if len(place)]
    return all(float(np.linalg.eigvalsh(matrix)[0]) >= family.floor - room for matrix in matrices)


def energies_at(
    model: ConvexBound, w: Any, samples: Any, data: Encoded | None, operators: Sequence[Any] | None, n_jobs: int
) -> Energies:
    """Energies of samples, of encoded samples, or of the training data, at checked weights."""
    w = np.asarray(w, dtype=np.float64)
    if w.shape != (model.n_weights,) or not np.isfinite(w).all():
        raise InvalidSampleError(f"w has shape {w.shape}, wanted {model.n_weights} finite weights.")
    own = data if data is not None else model.encode(samples) if samples is not None else None
    return Energies(model, own, operators, n_jobs).at(w)
