r"""Losses of structured scores :math:`F(y) = \sum_v q_v(y_v) + \sum_{uv} g_{uv}(y_u, y_v)`, one file for all: each is a convex function of the scores of
all labellings minus that of the known one.

============================ =================================================================================================
`StructuredHinge`            :math:`\max_z [F(z) + L(y, z)] - F(y)`
`CRFLoss`                    :math:`\log\sum_z e^{F(z)} - F(y)`
`SmoothedHinge`              :math:`\tau\log\sum_z e^{(F(z) + L(y, z)) / \tau} - F(y)`
`PerturbedFenchelYoung`      :math:`\mathbb{E}_\varepsilon \max_z [F(z) + \sigma\sum_v \varepsilon_v(z_v)] - F(y)`
`PseudoLikelihood`           :math:`-\sum_v \log p(y_v \mid y_u, u \ne v)`
============================ =================================================================================================

Where labels are unknown or sets, :math:`F(y)` is the same function (a maximum, a sum) of the labellings that agree with what is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.graph import Graph
from ..core.parameters import OneOf, Real, WholeNumber, check_value
from .answers import Answer
from .chains import Chains
from .costs import cost_matrix, costs, read_loss
from .modules import Reading, StructuredModule, Target, Value, read_target

REDUCTIONS = ("mean", "sum", "none", "node_mean")

_SETTINGS = """
    Parameters
    ----------
    n_labels : int
        Number of labels K.
    graph : {"chain", "grid", "graph"}
        Scores are (B, T, K), (B, K, H, W), or (N, K) with ``graphs`` or ``edge_index`` and ``batch`` in every call.
    potentials : {"general", "potts", "associative", "supermodular", "none"}
        Family of the pairwise weights, which are parameters of this module; ``"none"`` has no weights (tables come from the network).
    neighbours : {4, 8} or list of (down, right)
        Of pixels, for grids.
    edge_types : {"tied", "directions"}
        Whether edges of all directions of a grid share their weights.
    n_edge_types : int
        Number of types of edges, for graphs.
    forbidden : {"bio", "bioes"} or list of pairs of classes, optional
        Which label may not follow which: such labellings have the score ``-inf``, in training and in `decode`.
    classes : sequence, optional
        Names of the labels, which ``forbidden`` needs; 0 .. K - 1 by default.
    n_passes : int
        Passes over graphs with cycles that have no exact method, in each call.
    tol : float
        Bracket of log-partitions, for each node, at which passes end.
    n_jobs : int, optional
        Threads over the examples; as many as PyTorch has by default.
    reduction : {"mean", "sum", "none", "node_mean"}
        Mean over examples (by their weights), sum, a value for each example, or the sum over the number of nodes of known label.
"""


class StructuredLoss(StructuredModule, ABC):
    """Base of the losses: reading, brackets, reduction; subclasses have `_values`."""

    def __init__(
        self, n_labels: int, graph: str = "chain", potentials: str = "general", *, reduction: str = "mean", **settings: Any
    ):
        super().__init__(n_labels, graph, potentials, **settings)
        check_value("reduction", reduction, OneOf(*REDUCTIONS), type(self).__name__)
        self.reduction = reduction
        self.last_bracket: tuple[np.ndarray, np.ndarray] | None = None
        self._share: np.ndarray | None = None

    @property
    def last_gap(self) -> float:
        """Proven bracket of the last batch: how far the loss that was reported can be from its exact value, reduced as the loss is (summed for
        ``"none"``). For `CRFLoss` and `SmoothedHinge` on graphs with cycles of large width, how far from the minimum of their bound."""
        if self.last_bracket is None or self._share is None:
            raise InvalidParameterError(f"{type(self).__name__} has no last_gap yet, wanted a call before it.")
        return float(self._share @ np.maximum(self.last_bracket[1] - self.last_bracket[0], 0.0))

    def forward(
        self,
        scores: torch.Tensor,
        labels: torch.Tensor,
        *,
        lengths: Any = None,
        mask: Any = None,
        graphs: Sequence[Graph] | None = None,
        edge_index: Any = None,
        batch: Any = None,
        edge_type: Any = None,
        pairwise: torch.Tensor | None = None,
        edge_weight: torch.Tensor | None = None,
        sample_weight: Any = None,
        sample_ids: Sequence[Any] | None = None,
        factors: Sequence[Any] | None = None,
    ) -> torch.Tensor:
        """The loss of a batch.

        Parameters
        ----------
        scores : Tensor
            Of the network; (B, T, K), (B, K, H, W) or (N, K).
        labels : Tensor
            Whole numbers of the shape of the scores without K, -100 where unknown; or sets of labels, truth values of the shape of the scores.
        lengths : Tensor of shape (B,), optional
            Of chains; ``mask`` (B, T) says the same.
        mask : Tensor of truth values, optional
            Nodes that exist; others, and their edges, are left out.
        graphs : list of Graph, optional
            For ``graph="graph"``; or ``edge_index`` (2, E) and ``batch`` (N,), with ``edge_type`` (E,), as PyTorch Geometric packs them. Of an edge
            that is given both ways the first is kept.
        pairwise : Tensor, optional
            Tables of the network in the place of the module's: (B, T - 1, K, K), (B, n_offsets, H, W, K, K) or (E, K, K).
        edge_weight : Tensor, optional
            Factors of the tables: (B, T - 1), (B, n_offsets, H, W) or (E,).
        sample_weight : Tensor of shape (B,), optional
            Weights of the examples.
        sample_ids : sequence, optional
            Under which messages are kept in ``cache``, for a warm start in the next epoch.
        factors : list, optional
            For each example a list of ``(nodes, function)``, as `maxsum.Problem` takes them: constraints on any number of nodes.

        Returns
        -------
        Tensor
            A number; (B,) for ``reduction="none"``.
        """
        reading = self.read(
            scores,
            lengths=lengths,
            mask=mask,
            graphs=graphs,
            edge_index=edge_index,
            batch=batch,
            edge_type=edge_type,
            pairwise=pairwise,
            edge_weight=edge_weight,
            sample_ids=sample_ids,
            factors=factors,
        )
        target = read_target(reading, labels)
        values = self._values(reading, target)
        return self._reduce(values, reading, target, sample_weight).to(device=scores.device, dtype=scores.dtype)

    @abstractmethod
    def _values(self, reading: Reading, target: Target) -> torch.Tensor:
        """The loss of each example; sets ``last_bracket``."""

    def _forbidden_words(self, reading: Reading, target: Target, unary: np.ndarray, j: int) -> str:
        """What is wrong with known labels that have the score ``-inf``."""
        start = f"the labels of example {j} are forbidden"
        if reading.batch.form == "chain" and target.allowed is None:
            assert reading.batch.lengths is not None
            length = int(reading.batch.lengths[j])
            own = target.labels[j, :length] if reading.by_chains else np.split(target.labels, reading.batch.node_ptr[1:-1])[j]
            pairs = np.flatnonzero(self.pairwise.mask.cpu().numpy()[own[:-1], own[1:]])
            names = self.classes
            if len(pairs):
                t = int(pairs[0])
                start += f": {names[own[t + 1]]!r} follows {names[own[t]]!r} at position {t + 1}"
            elif reading.starts[own[0]]:
                start += f": they begin with {names[own[0]]!r}"
            elif reading.ends[own[-1]]:
                start += f": they end with {names[own[-1]]!r}"
        return f"{start}, wanted a labelling of finite score. Correct the labels, or let the layer forbid less."

    def _reduce(self, values: torch.Tensor, reading: Reading, target: Target, sample_weight: Any) -> torch.Tensor:
        count = len(values)
        weight = torch.ones(count, dtype=torch.float64)
        if sample_weight is not None:
            weight = torch.as_tensor(sample_weight).detach().to(device="cpu", dtype=torch.float64)
            if tuple(weight.shape) != (count,) or not bool(((weight >= 0) & (weight < torch.inf)).all()):
                raise InvalidSampleError(f"sample_weight is {sample_weight!r}, wanted {count} finite numbers >= 0.")
        if self.reduction == "mean":
            weight = weight / max(float(weight.sum()), np.finfo(float).tiny)
        elif self.reduction == "node_mean":
            weight = weight / max(1, int(target.known.sum()))
        self._share = weight.numpy()
        return values * weight if self.reduction == "none" else values @ weight


class InferredLoss(StructuredLoss):
    """Base of the losses whose values and gradients come from inference on each example; subclasses have `_answer`."""

    def _values(self, reading: Reading, target: Target) -> torch.Tensor:
        def call(unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None) -> Answer:
            answer = self._answer(reading, target, unary, tables, weight)
            self.last_bracket = answer.lower, answer.upper
            return answer

        values: torch.Tensor = Value.apply(
            reading.unary, reading.tables, reading.weight, call, reading.batch, type(self).__name__
        )
        return values

    @abstractmethod
    def _answer(
        self, reading: Reading, target: Target, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None
    ) -> Answer:
        """Values of a batch, their bracket and their gradients."""

    def _difference(
        self, reading: Reading, target: Target, answer: Answer, ask: Any, unary: np.ndarray, tables: np.ndarray, weight: Any
    ) -> Answer:
        """The answer minus the score of the known labels; of the labellings that agree with them, by ``ask``, where that are several."""
        if target.allowed is None:
            found, score = reading.backend.less_truth(answer, unary, tables, weight, target.labels)
        else:
            known = ask(np.where(target.allowed, unary, -np.inf), tables, weight)
            score = known.lower
            found = answer.minus(known) if np.isfinite(score).all() else answer
        if not np.isfinite(score).all():
            raise InvalidSampleError(self._forbidden_words(reading, target, unary, int(np.argmax(~np.isfinite(score)))))
        return found


class StructuredHinge(InferredLoss):
    """The margin-rescaled hinge: how much better than the known labelling another one is, with its loss added. See the module for the formula.

    Exact on chains, forests, graphs of small width and supermodular problems with two labels (max-flow); elsewhere the dual bound of the linear
    relaxation at the messages of TRW-S, which is never below the hinge, with relaxed marginals as gradient, as ``surrogate="lp"`` of the estimators.
    ``last_gap`` says how far it is above.

    Parameters
    ----------
    loss : {"hamming", "normalised"}, (K, K) costs, or Loss
        What a wrong label costs.
    class_weight : sequence of K numbers, optional
        Cost of missing each true label.
    """

    def __init__(
        self,
        n_labels: int,
        graph: str = "chain",
        potentials: str = "general",
        *,
        loss: Any = "hamming",
        class_weight: Any = None,
        **settings: Any,
    ):
        super().__init__(n_labels, graph, potentials, **settings)
        self.loss = read_loss(loss, class_weight)
        self._costs = cost_matrix(self.loss, self.n_labels)

    def _answer(
        self, reading: Reading, target: Target, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None
    ) -> Answer:
        plain, backend = reading.hard(unary), reading.backend
        answer = backend.best(plain + costs(self.loss, self._costs, reading, target), tables, weight)
        return self._difference(reading, target, answer, backend.best, plain, tables, weight)


class CRFLoss(InferredLoss):
    """The negative log-likelihood of a conditional random field; see the module for the formula.

    Exact on chains, forests and graphs of small width; elsewhere the tree-reweighted bound of the log-partition (Wainwright et al. 2005), so that the
    loss is never below the negative log-likelihood.
    """

    def _answer(
        self, reading: Reading, target: Target, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None
    ) -> Answer:
        plain, backend = reading.hard(unary), reading.backend
        answer = backend.log_sum(plain, tables, weight)
        return self._difference(reading, target, answer, backend.log_sum, plain, tables, weight)


class SmoothedHinge(InferredLoss):
    """The hinge with its maximum smoothed by entropy; never below the hinge, at most the temperature times the number of nodes times log K above it.

    Parameters
    ----------
    temperature : float
        Towards 0 it is the hinge; with 1 it is the likelihood with the loss inside (softmax-margin, Gimpel & Smith 2010).
    loss, class_weight
        As in `StructuredHinge`.
    """

    def __init__(
        self,
        n_labels: int,
        graph: str = "chain",
        potentials: str = "general",
        *,
        temperature: float = 1.0,
        loss: Any = "hamming",
        class_weight: Any = None,
        **settings: Any,
    ):
        super().__init__(n_labels, graph, potentials, **settings)
        check_value("temperature", temperature, Real(above=0.0, below=np.inf), "SmoothedHinge")
        self.temperature, self.loss = float(temperature), read_loss(loss, class_weight)
        self._costs = cost_matrix(self.loss, self.n_labels)

    def _answer(
        self, reading: Reading, target: Target, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None
    ) -> Answer:
        heat, backend = self.temperature, reading.backend

        def ask(given: np.ndarray, bank: np.ndarray, share: np.ndarray | None) -> Answer:
            return backend.log_sum(reading.hard(given / heat), bank / heat, share).times(heat)

        answer = ask(unary + costs(self.loss, self._costs, reading, target), tables, weight)
        plain = reading.hard(unary)
        return self._difference(reading, target, answer, ask, plain, tables, weight)


class PerturbedFenchelYoung(InferredLoss):
    """The Fenchel-Young loss of the maximum under Gaussian noise of the node scores (Berthet et al. 2020), by a few draws in each call.

    Parameters
    ----------
    noise : float
        Standard deviation of the noise.
    n_draws : int
    random_state : int, optional
        Seed; the generator of PyTorch by default.
    """

    def __init__(
        self,
        n_labels: int,
        graph: str = "chain",
        potentials: str = "general",
        *,
        noise: float = 1.0,
        n_draws: int = 8,
        random_state: int | None = None,
        **settings: Any,
    ):
        super().__init__(n_labels, graph, potentials, **settings)
        check_value("noise", noise, Real(above=0.0, below=np.inf), "PerturbedFenchelYoung")
        check_value("n_draws", n_draws, WholeNumber(1), "PerturbedFenchelYoung")
        self.noise, self.n_draws, self.random_state = float(noise), int(n_draws), random_state

    def _answer(
        self, reading: Reading, target: Target, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None
    ) -> Answer:
        backend, plain = reading.backend, reading.hard(unary)
        draws = self.noise * noise_of(unary.shape, self.n_draws, self.random_state)

        def ask(given: np.ndarray, bank: np.ndarray, share: np.ndarray | None) -> Answer:
            return mean_answer([backend.best(reading.hard(given + own), bank, share) for own in draws])

        return self._difference(reading, target, ask(plain, tables, weight), ask, plain, tables, weight)


def noise_of(shape: tuple[int, ...], n_draws: int, seed: int | None) -> np.ndarray:
    """Standard normal numbers (n_draws, *shape), from PyTorch's generator or from a seed of their own."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return torch.randn((n_draws, *shape), generator=generator, dtype=torch.float64).numpy()


def mean_answer(answers: list[Answer]) -> Answer:
    """The mean of answers for the same batch."""
    n = len(answers)
    value, lower, upper, node = (sum(getattr(own, name) for own in answers) / n for name in ("value", "lower", "upper", "node"))
    return Answer(value, lower, upper, node, tuple((sign / n, part) for own in answers for sign, part in own.edges))


class PseudoLikelihood(StructuredLoss):
    """Each node's log-likelihood given the labels of its neighbours (Besag 1975): exact, on any graph, without a sum over labellings.

    Nodes of unknown label, and their edges, are left out.

    Parameters
    ----------
    class_weight : sequence of K numbers, optional
        Weights of nodes by their true labels.
    """

    def __init__(
        self, n_labels: int, graph: str = "chain", potentials: str = "general", *, class_weight: Any = None, **settings: Any
    ):
        super().__init__(n_labels, graph, potentials, **settings)
        given = np.ones(self.n_labels) if class_weight is None else np.asarray(class_weight, dtype=np.float64)
        if given.shape != (self.n_labels,) or not (np.isfinite(given) & (given >= 0)).all():
            raise InvalidParameterError(f"class_weight is {class_weight!r}, wanted {self.n_labels} finite numbers >= 0.")
        self._class_weight = torch.from_numpy(given)

    def _values(self, reading: Reading, target: Target) -> torch.Tensor:
        batch = reading.batch
        if isinstance(reading.backend, Chains):
            rows, labels, known = (
                reading.unary[torch.from_numpy(batch.is_in_chain)],
                target.labels[batch.is_in_chain],
                target.known[batch.is_in_chain],
            )
            hard = reading.hard(reading.unary.detach().numpy())[batch.is_in_chain]
            slot = np.zeros(len(batch.edges), dtype=np.int64)
        else:
            if reading.backend.factors is not None:
                raise InvalidSampleError(
                    "factors are given to PseudoLikelihood, which knows nodes and edges alone; wanted StructuredHinge."
                )
            rows, labels, known, slot = reading.unary, target.labels, target.known, reading.backend.slot.astype(np.int64)
            hard = reading.hard(rows.detach().numpy())
        if target.allowed is not None and target.known.any():
            full = target.allowed if target.allowed.ndim == 2 else target.allowed[batch.is_in_chain]
            if ((full.sum(axis=1) > 1) & known).any():
                raise InvalidSampleError(
                    "sets of labels are given to PseudoLikelihood, which conditions on labels; wanted single or unknown ones."
                )
        rows = rows.masked_fill(torch.from_numpy(np.isneginf(hard)), -torch.inf)
        both = known[batch.edges].all(axis=1)
        ends, slots, label = batch.edges[both].astype(np.int64), torch.from_numpy(slot[both]), torch.from_numpy(labels)
        first, second = torch.from_numpy(ends[:, 0]), torch.from_numpy(ends[:, 1])
        share = None if reading.weight is None else reading.weight[torch.from_numpy(both)][:, None]
        to_first, to_second = reading.tables[slots, :, label[second]], reading.tables[slots, label[first], :]
        if share is not None:
            to_first, to_second = to_first * share, to_second * share
        local = rows.index_add(0, first, to_first).index_add(0, second, to_second)
        used = torch.from_numpy(np.flatnonzero(known))
        local, label = local[used], label[used]
        score = local.gather(1, label[:, None])[:, 0]
        if len(score) and not bool(torch.isfinite(score.detach()).all()):
            j = int(batch.owner[known][int(torch.argmax((~torch.isfinite(score.detach())).int()))])
            raise InvalidSampleError(self._forbidden_words(reading, target, hard, j))
        losses = (torch.logsumexp(local, dim=1) - score) * self._class_weight[label]
        values = torch.zeros(batch.n_examples, dtype=torch.float64).index_add(0, torch.from_numpy(batch.owner[known]), losses)
        self.last_bracket = values.detach().numpy(), values.detach().numpy()
        return values


for _loss in (StructuredHinge, CRFLoss, SmoothedHinge, PerturbedFenchelYoung, PseudoLikelihood):
    # The settings that all losses share stand in the docstring of each.
    _own = _loss.__doc__ or ""
    _head, _mark, _more = _own.partition("    Parameters\n    ----------\n")
    _loss.__doc__ = _head.rstrip() + "\n" + _SETTINGS.rstrip() + ("\n" + _more.rstrip() if _mark else "") + "\n    "
