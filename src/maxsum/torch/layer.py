r"""MaxSumLayer: labels or marginals as the output of a layer, for losses further down.

Labellings are piecewise constant in the scores, so their gradient is a stand-in, one of:

- ``straight_through``: that of the output is handed to the node scores as it is (Bengio, Léonard & Courville 2013); pairwise weights get none;
- ``perturbed``: labels are the mean over Gaussian noise :math:`\sigma Z` of the node scores, whose Jacobian is
  :math:`\mathbb{E}[y(\theta + \sigma Z) Z^\top] / \sigma` (Berthet et al. 2020);
- ``blackbox``: :math:`[y(\theta) - y(\theta - \lambda g)] / \lambda` for the gradient :math:`g` of the output (Vlastelica et al. 2020).

Marginals :math:`\mu(\theta)` are smooth: their Jacobian is the symmetric Hessian of :math:`\log Z`, so that the product with :math:`g` is
:math:`[\mu(\theta + hg) - \mu(\theta - hg)] / 2h` (Domke 2010), and pairwise weights have theirs from the marginals of edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..core.errors import UnsupportedProblemError
from ..core.parameters import OneOf, Real, WholeNumber, check_value
from .answers import Answer
from .losses import noise_of
from .modules import Reading, StructuredModule
from .nets import Nets

_STEP = 6e-6
"""Step of central differences, relative to the scores: the third root of the spacing of numbers, where rounding and curvature weigh the same."""


class MaxSumLayer(StructuredModule):
    """The best labelling, or the marginals, of the scores of a network as a differentiable layer; see the module for the gradients.

    Parameters
    ----------
    n_labels, graph, potentials, settings
        As in `StructuredHinge`.
    output : {"labels", "marginals"}
        One-hot labels, or probabilities of labels under :math:`p(y) \\propto e^{F(y)}` (those of the tree-reweighted bound on graphs with cycles of
        large width).
    gradient : {"straight_through", "perturbed", "blackbox"}
        For labels.
    noise : float
        Standard deviation of the noise, for ``perturbed``.
    n_draws : int
        Draws of noise in each call.
    interpolation : float
        The number :math:`\\lambda` of ``blackbox``: larger ones give smoother gradients.
    random_state : int, optional
        Seed of the noise; the generator of PyTorch by default.
    """

    def __init__(
        self,
        n_labels: int,
        graph: str = "chain",
        potentials: str = "general",
        *,
        output: str = "labels",
        gradient: str = "straight_through",
        noise: float = 1.0,
        n_draws: int = 8,
        interpolation: float = 10.0,
        random_state: int | None = None,
        **settings: Any,
    ):
        super().__init__(n_labels, graph, potentials, **settings)
        check_value("output", output, OneOf("labels", "marginals"), "MaxSumLayer")
        check_value("gradient", gradient, OneOf("straight_through", "perturbed", "blackbox"), "MaxSumLayer")
        check_value("noise", noise, Real(above=0.0, below=np.inf), "MaxSumLayer")
        check_value("n_draws", n_draws, WholeNumber(1), "MaxSumLayer")
        check_value("interpolation", interpolation, Real(above=0.0, below=np.inf), "MaxSumLayer")
        self.output, self.gradient, self.noise, self.n_draws = output, gradient, float(noise), int(n_draws)
        self.interpolation, self.random_state = float(interpolation), random_state

    def forward(self, scores: torch.Tensor, **structure: Any) -> torch.Tensor:
        """Labels or marginals, in the shape of the scores; 0 where there is no node.

        Parameters
        ----------
        scores : Tensor
        structure
            ``lengths``, ``mask``, ``graphs``, ``edge_index``, ``batch``, ``edge_type``, ``pairwise``, ``edge_weight``, ``factors`` and ``sample_ids``,
            as the losses take them.
        """
        reading = self.read(scores, **structure)
        found: torch.Tensor = _Output.apply(reading.unary, reading.tables, reading.weight, self, reading)
        shaped = found if reading.by_chains else reading.batch.shaped(found, 0.0)
        return shaped.to(device=scores.device, dtype=scores.dtype)


class _Output(torch.autograd.Function):
    """Node part of an answer, with the gradient that the layer asks for."""

    @staticmethod
    def forward(
        ctx: Any, unary: torch.Tensor, tables: torch.Tensor, weight: torch.Tensor | None, layer: MaxSumLayer, reading: Reading
    ) -> torch.Tensor:
        """Ask the backend, once or for each draw of noise."""
        given = unary.detach().numpy(), tables.detach().numpy(), None if weight is None else weight.detach().numpy()
        ctx.layer, ctx.reading, ctx.given, ctx.draws = layer, reading, given, None
        if layer.output == "labels" and layer.gradient == "perturbed":
            ctx.draws = noise_of(given[0].shape, layer.n_draws, layer.random_state)
            ctx.answers = [_ask(layer, reading, given[0] + layer.noise * own, *given[1:]) for own in ctx.draws]
        else:
            ctx.answers = [_ask(layer, reading, *given)]
        node = np.mean([own.node for own in ctx.answers], axis=0)
        if reading.batch.exists is not None:
            node[~reading.batch.exists] = 0.0
        return torch.from_numpy(node)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """See the module."""
        if torch.is_grad_enabled():
            raise UnsupportedProblemError(
                "MaxSumLayer: double backward (create_graph=True) was asked for, but its gradient is not differentiable; wanted a plain backward()."
            )
        layer, reading, (unary, tables, weight) = ctx.layer, ctx.reading, ctx.given
        g = np.ascontiguousarray(grad.numpy())
        if reading.batch.exists is not None:
            g = np.where(reading.batch.exists[:, None], g, 0.0)
        if layer.output == "labels" and layer.gradient == "straight_through":
            return (
                grad,
                torch.zeros_like(reading.tables),
                None if weight is None else torch.zeros_like(reading.weight),
                None,
                None,
            )
        ones = np.ones(reading.batch.n_examples)
        if ctx.draws is not None:
            scale = 1.0 / (layer.noise * len(ctx.draws))
            terms = [(own, scale * _by_example(reading, g * draw)) for own, draw in zip(ctx.answers, ctx.draws, strict=True)]
        elif layer.output == "labels":
            other = _ask(layer, reading, unary - layer.interpolation * g, tables, weight)
            terms = [(ctx.answers[0], ones / layer.interpolation), (other, -ones / layer.interpolation)]
        else:
            finite = np.abs(unary[np.isfinite(unary)])
            step = (
                _STEP * max(1.0, float(finite.max(initial=0.0))) / max(float(np.abs(g).max(initial=0.0)), np.finfo(float).tiny)
            )
            step = min(step, 1.0 / _STEP)
            sides = [_ask(layer, reading, unary + sign * step * g, tables, weight) for sign in (1.0, -1.0)]
            terms = [(sides[0], ones / (2 * step)), (sides[1], -ones / (2 * step))]
        return (*_gradients(ctx, terms), None, None)


def _gradients(ctx: Any, terms: list[tuple[Answer, np.ndarray]]) -> tuple[Any, Any, Any]:
    """Sums of answers times a number for each example, for nodes, tables and weights."""
    reading, (_, tables, weight) = ctx.reading, ctx.given
    node = bank = share = None
    if ctx.needs_input_grad[0]:
        spread = (lambda own: own[:, None, None]) if reading.by_chains else (lambda own: own[reading.batch.owner][:, None])
        total = sum(answer.node * spread(amount) for answer, amount in terms)
        if reading.batch.exists is not None:
            total[~reading.batch.exists] = 0.0
        node = torch.from_numpy(total)
    parts = [(sign * amount, part) for answer, amount in terms for sign, part in answer.edges]
    if ctx.needs_input_grad[1]:
        bank = torch.from_numpy(np.array(sum(part.of_tables(amount, len(tables), weight) for amount, part in parts)))
    if ctx.needs_input_grad[2]:
        share = torch.from_numpy(np.array(sum(part.of_weights(amount, tables) for amount, part in parts)))
    return node, bank, share


def _ask(layer: MaxSumLayer, reading: Reading, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None) -> Answer:
    hard = reading.hard(unary)
    if layer.output == "marginals":
        return reading.backend.log_sum(hard, tables, weight)
    if isinstance(reading.backend, Nets):
        return reading.backend.best(hard, tables, weight, relaxed=False)
    return reading.backend.best(hard, tables, weight)


def _by_example(reading: Reading, values: np.ndarray) -> np.ndarray:
    """Sums over the nodes and labels of each example."""
    if reading.by_chains:
        return np.where(reading.batch.is_in_chain[:, :, None], values, 0.0).sum(axis=(1, 2))
    return np.bincount(reading.batch.owner, values.sum(axis=1), minlength=reading.batch.n_examples)
