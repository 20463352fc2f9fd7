"""What all layers share: settings, pairwise weights, and how tensors become a batch with a backend that answers for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ..core.errors import InvalidParameterError, InvalidSampleError, UnsupportedProblemError
from ..core.graph import Graph
from ..core.parameters import OneOf, Real, WholeNumber, check_value
from .answers import Answer
from .batches import FORMS, UNKNOWN, Batch, chains, graphs_of, grids, offsets_of
from .chains import Chains
from .nets import Nets
from .pairwise import Pairwise

_ABSENT = (
    -1000.0
)  # score of all labels but the first of a node that is masked out: exp(-1000) is 0, so that its sum and its maximum are both 0

Call = Callable[[np.ndarray, np.ndarray, "np.ndarray | None"], Answer]


@dataclass(frozen=True, eq=False)
class Reading:
    """One call of a layer: the batch, who answers for it, and the scores in float64 on the CPU, with gradients.

    ``unary`` is (B, T, K) for the kernels of chains, (N, K) elsewhere; ``tables`` (n_tables, K, K) and ``weight`` (E,) are those of the edges.
    """

    batch: Batch
    backend: Chains | Nets
    unary: torch.Tensor
    tables: torch.Tensor
    weight: torch.Tensor | None
    starts: np.ndarray
    ends: np.ndarray

    @property
    def by_chains(self) -> bool:
        """Whether the kernels of whole chains answer."""
        return isinstance(self.backend, Chains)

    def hard(self, unary: np.ndarray) -> np.ndarray:
        """Scores with ``-inf`` for labels that chains may not begin or end with, and those of absent nodes made harmless; a copy where that changes
        anything. Refuses what is no number."""
        batch = self.batch
        if unary.size and not unary.max() < np.inf:
            wrong = np.argwhere(~(unary < np.inf))[0].tolist()
            where = f"example {wrong[0]}, position {wrong[1]}" if self.by_chains else f"node {wrong[0]}"
            absent = self.by_chains and wrong[1] >= batch.lengths[wrong[0]]  # type: ignore[index]
            if not absent or not (unary[batch.is_in_chain] < np.inf).all():
                raise InvalidSampleError(
                    f"scores hold {unary[tuple(wrong)]} at {where}, label {wrong[-1]}, wanted finite numbers or -inf (forbidden). A diverged network? "
                    "Clip its gradients or lower its rate."
                )
        if batch.exists is not None:
            unary = unary.copy()
            unary[~batch.exists] = _ABSENT
            unary[~batch.exists, 0] = 0.0
        if batch.form == "chain" and (self.starts.any() or self.ends.any()):
            unary = unary.copy()
            lengths = batch.lengths
            assert lengths is not None
            some = np.flatnonzero(lengths > 0)
            first = np.zeros(1, dtype=np.int64)
            if self.by_chains:
                unary[np.ix_(some, first, np.flatnonzero(self.starts))] = -np.inf
                unary[some[:, None], lengths[some][:, None] - 1, np.flatnonzero(self.ends)] = -np.inf
            else:
                unary[np.ix_(batch.node_ptr[:-1][some], np.flatnonzero(self.starts))] = -np.inf
                unary[np.ix_(batch.node_ptr[1:][some] - 1, np.flatnonzero(self.ends))] = -np.inf
        return unary

    def rows(self, values: torch.Tensor) -> torch.Tensor:
        """A tensor of the caller's shape in the shape of ``unary``, with or without the axis of labels."""
        return values if self.by_chains else self.batch.rows(values)


class Value(torch.autograd.Function):
    """Values of the examples, whose gradient the backend gives."""

    @staticmethod
    def forward(
        ctx: Any, unary: torch.Tensor, tables: torch.Tensor, weight: torch.Tensor | None, call: Call, batch: Batch, name: str
    ) -> torch.Tensor:
        """Call the backend with views of the tensors."""
        arrays = unary.detach().numpy(), tables.detach().numpy(), None if weight is None else weight.detach().numpy()
        answer = call(*arrays)
        ctx.answer, ctx.batch, ctx.name, ctx.tables, ctx.weight = answer, batch, name, arrays[1], arrays[2]
        return torch.from_numpy(np.array(answer.value))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """Marginals times the gradient of each example's value."""
        if torch.is_grad_enabled():
            raise UnsupportedProblemError(
                f"{ctx.name}: double backward (create_graph=True) was asked for, but its gradient, marginals or labellings, is not differentiable here; "
                "wanted a plain backward(). MaxSumLayer(output='marginals') makes marginals that can be differentiated once."
            )
        answer, batch, amount = ctx.answer, ctx.batch, grad.detach().numpy()
        node = tables = weight = None
        if ctx.needs_input_grad[0]:
            share = grad[:, None, None] if answer.node.ndim == 3 else torch.from_numpy(amount[batch.owner])[:, None]
            node = torch.from_numpy(answer.node) * share
        if ctx.needs_input_grad[1]:
            n_tables = len(ctx.tables)
            tables = torch.from_numpy(sum(sign * part.of_tables(amount, n_tables, ctx.weight) for sign, part in answer.edges))
        if ctx.needs_input_grad[2]:
            weight = torch.from_numpy(sum(sign * part.of_weights(amount, ctx.tables) for sign, part in answer.edges))
        return node, tables, weight, None, None, None


class StructuredModule(nn.Module):
    """Settings and pairwise weights of a layer; the parameters are told with the layers themselves."""

    def __init__(
        self,
        n_labels: int,
        graph: str = "chain",
        potentials: str = "general",
        *,
        neighbours: Any = 4,
        edge_types: str = "tied",
        n_edge_types: int = 1,
        forbidden: Any = None,
        classes: Sequence[Any] | None = None,
        n_passes: int = 16,
        tol: float = 1e-4,
        n_jobs: int | None = None,
    ):
        super().__init__()
        name = type(self).__name__
        check_value("graph", graph, OneOf(*FORMS), name)
        check_value("edge_types", edge_types, OneOf("tied", "directions"), name)
        check_value("n_passes", n_passes, WholeNumber(1), name)
        check_value("tol", tol, Real(0.0), name)
        if n_jobs is not None:
            check_value("n_jobs", n_jobs, WholeNumber(-1), name)
        self.n_labels, self.graph, self.edge_types = int(n_labels), graph, edge_types
        self.offsets = offsets_of(neighbours) if graph == "grid" else ()
        if graph == "grid" and edge_types == "directions":
            n_edge_types = len(self.offsets)
        elif graph == "chain" and n_edge_types != 1:
            raise InvalidParameterError(
                f"n_edge_types is {n_edge_types} for chains, wanted 1; give tables by pairwise= for edges that differ."
            )
        self.n_passes, self.tol, self.n_jobs = int(n_passes), float(tol), n_jobs
        self.pairwise = Pairwise(n_labels, potentials, n_edge_types, forbidden, classes)
        self.cache: dict[Any, np.ndarray] = {}

    @property
    def classes(self) -> list[Any]:
        """Names of the labels."""
        return self.pairwise.classes

    def extra_repr(self) -> str:
        """Sizes, for ``print(layer)``."""
        return f"n_labels={self.n_labels}, graph={self.graph!r}, potentials={self.pairwise.potentials!r}"

    def to_estimator(self) -> Any:
        """An estimator with the scores of the network as features and these pairwise weights, for `maxsum.save_model`: see `bridge.to_estimator`."""
        from .bridge import to_estimator

        return to_estimator(self)

    def read(
        self,
        scores: torch.Tensor,
        *,
        lengths: Any = None,
        mask: Any = None,
        graphs: Sequence[Graph] | None = None,
        edge_index: Any = None,
        batch: Any = None,
        edge_type: Any = None,
        pairwise: torch.Tensor | None = None,
        edge_weight: torch.Tensor | None = None,
        sample_ids: Sequence[Any] | None = None,
        factors: Sequence[Any] | None = None,
    ) -> Reading:
        """The batch of one call, with who answers for it."""
        if not isinstance(scores, torch.Tensor) or not scores.is_floating_point():
            kind = scores.dtype if isinstance(scores, torch.Tensor) else type(scores).__name__
            raise InvalidSampleError(f"scores are {kind}, wanted a tensor of floating-point numbers.")
        wrong = [name for name, own in (("lengths", lengths),) if own is not None and self.graph != "chain"]
        packed = (("graphs", graphs), ("edge_index", edge_index), ("batch", batch), ("edge_type", edge_type))
        wrong += [name for name, own in packed if own is not None and self.graph != "graph"]
        if wrong:
            raise InvalidSampleError(
                f"{wrong[0]} is given to a layer of graph={self.graph!r}, which has no use for it; wanted none."
            )
        if self.graph == "chain":
            found = chains(scores, lengths, mask)
        elif self.graph == "grid":
            found = grids(scores, mask, self.offsets, self.edge_types == "directions")
        else:
            found = graphs_of(scores, graphs, edge_index, batch, edge_type, mask, self.pairwise.n_edge_types)
        if found.n_labels != self.n_labels:
            raise InvalidSampleError(
                f"scores have {found.n_labels} labels (shape {tuple(scores.shape)}), but the layer has n_labels={self.n_labels}."
            )
        ids = None if sample_ids is None else [own.item() if isinstance(own, torch.Tensor) else own for own in sample_ids]
        if ids is not None and len(ids) != found.n_examples:
            raise InvalidSampleError(f"sample_ids has {len(ids)} entries, wanted one for each of {found.n_examples} examples.")
        jobs = torch.get_num_threads() if self.n_jobs is None else self.n_jobs
        tables, weight = _double(self.pairwise()), None
        mask_starts, mask_ends = self.pairwise.starts.cpu().numpy(), self.pairwise.ends.cpu().numpy()
        if self.graph == "chain" and pairwise is None and edge_weight is None and factors is None:
            return Reading(found, Chains(found, jobs), _double(scores), tables, None, mask_starts, mask_ends)
        slot = found.edge_type
        if pairwise is not None:
            tables = _double(found.edge_values(pairwise, 2, "pairwise"))
            if self.pairwise.is_hard:
                tables = tables.masked_fill(self.pairwise.mask.cpu(), -torch.inf)
            slot = np.arange(len(slot), dtype=np.int32)
            _check_numbers(tables, "pairwise")
        if edge_weight is not None:
            weight = _double(found.edge_values(edge_weight, 0, "edge_weight"))
            _check_numbers(weight, "edge_weight")
        backend = Nets(found, slot, jobs, self.n_passes, self.tol, self.cache, ids, factors)
        return Reading(found, backend, _double(found.rows(scores)), tables, weight, mask_starts, mask_ends)


def _double(values: torch.Tensor) -> torch.Tensor:
    """Contiguous float64 on the CPU, the same memory where it is that already; gradients flow back."""
    return values.to(device="cpu", dtype=torch.float64).contiguous()


def _check_numbers(values: torch.Tensor, name: str) -> None:
    wrong = ~(values < torch.inf)
    if bool(wrong.any()):
        raise InvalidSampleError(f"{name} holds {float(values[wrong][0])}, wanted finite numbers or -inf (forbidden).")


@dataclass(frozen=True, eq=False)
class Target:
    """Known labels, in the shape of a reading's rows.

    Attributes
    ----------
    labels : ndarray of int64
        0 where there is no node; of partial labels the lowest that is allowed.
    allowed : ndarray of bool, (..., K), or None
        Labels that nodes may have; None if every node has one label.
    known : ndarray of bool
        Nodes of whose label something is known.
    """

    labels: np.ndarray
    allowed: np.ndarray | None
    known: np.ndarray


def read_target(reading: Reading, labels: torch.Tensor) -> Target:
    """Labels (-100 is unknown), or sets of labels as a tensor of truth values with the shape of the scores."""
    batch, size = reading.batch, reading.batch.n_labels
    if not isinstance(labels, torch.Tensor):
        labels = torch.as_tensor(np.asarray(labels))
    plain = batch.sizes
    sets = (batch.sizes[0], size, *batch.sizes[1:]) if batch.form == "grid" else (*batch.sizes, size)
    is_sets = labels.dtype == torch.bool and tuple(labels.shape) == sets
    if not is_sets and (tuple(labels.shape) != plain or labels.is_floating_point() or labels.dtype == torch.bool):
        raise InvalidSampleError(
            f"labels have shape {tuple(labels.shape)} and dtype {labels.dtype}, wanted whole numbers of shape {plain}, {UNKNOWN} where unknown, or "
            f"truth values of shape {sets} for sets of labels."
        )
    found = np.ascontiguousarray(reading.rows(labels.detach().cpu()).numpy())
    exists = batch.is_in_chain if reading.by_chains else batch.exists
    if is_sets:
        given = found if exists is None else found | ~exists[..., None]
        empty = ~given.any(axis=-1)
        if empty.any():
            raise InvalidSampleError(
                f"the set of labels at {np.argwhere(empty)[0].tolist()} is empty, wanted at least one label."
            )
        single = given.sum(axis=-1) == 1
        own = given.argmax(axis=-1)
        if exists is not None:
            single = single | ~exists
        known = np.asarray(~given.all(axis=-1) | (size == 1))
        known = known if exists is None else known & exists
        return Target(np.ascontiguousarray(own), None if single.all() else given, known)
    own = found.astype(np.int64)
    known = own != UNKNOWN if exists is None else (own != UNKNOWN) & exists
    if ((own < 0) | (own >= size))[known].any():
        place = np.argwhere(known & ((own < 0) | (own >= size)))[0]
        raise InvalidSampleError(
            f"label {own[tuple(place)]} at {place.tolist()}, wanted 0..{size - 1}, or {UNKNOWN} where unknown."
        )
    open_ = ~known if exists is None else exists & ~known
    own = np.where(known, own, 0)
    if not open_.any():
        return Target(own, None, known)
    allowed = np.zeros((*own.shape, size), dtype=bool)
    np.put_along_axis(allowed, own[..., None], True, axis=-1)
    allowed[open_] = True
    return Target(own, allowed, known)
