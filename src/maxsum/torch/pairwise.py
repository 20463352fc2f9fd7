r"""Pairwise weights of a layer: a (K, K) table for each type of edges, free or in one of the families that solvers like.

Families are parametrised, so that any optimizer keeps to them: with :math:`s(x) = \log(1 + e^x) > 0`,

- ``general``: any table;
- ``potts``: :math:`g(k, l) = s(a)\,[k = l]`;
- ``associative``: :math:`g(k, l) = s(a_k)\,[k = l]`;
- ``supermodular``: :math:`g(k, l) = a_k + b_l + \sum_{i \le k, j \le l} s(c_{ij})` with :math:`i, j \ge 1`, so that
  :math:`g(k, l) + g(k+1, l+1) - g(k, l+1) - g(k+1, l) = s(c_{k+1, l+1}) > 0`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ..core.errors import InvalidParameterError
from ..core.parameters import OneOf, WholeNumber, check_value
from ..core.transitions import forbidden_ends, forbidden_pairs, forbidden_starts

POTENTIALS = ("general", "potts", "associative", "supermodular", "none")
_START = (
    0.1  # reward of equal labels before training: small beside scores of a network, and not so small that its gradient vanishes
)
_LEAST = 1e-9  # reward that a table of an estimator may have at least to be written in the parameters of a family: s(-20)


class Pairwise(nn.Module):
    """Tables of the types of edges, and what is forbidden.

    Parameters
    ----------
    n_labels : int
    potentials : {"general", "potts", "associative", "supermodular", "none"}
        ``"none"`` has no weights: all tables are 0, or come from the network.
    n_edge_types : int
    forbidden : str or iterable of pairs, optional
        As `maxsum.core.transitions.forbidden_pairs` takes it.
    classes : sequence, optional
        Names of the labels; 0 .. K - 1 by default.
    """

    mask: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor

    def __init__(
        self, n_labels: int, potentials: str, n_edge_types: int = 1, forbidden: Any = None, classes: Sequence[Any] | None = None
    ):
        super().__init__()
        check_value("n_labels", n_labels, WholeNumber(1), "a layer")
        check_value("n_edge_types", n_edge_types, WholeNumber(1), "a layer")
        check_value("potentials", potentials, OneOf(*POTENTIALS), "a layer")
        self.n_labels, self.potentials, self.n_edge_types = int(n_labels), potentials, int(n_edge_types)
        shape = (self.n_edge_types, self.n_labels, self.n_labels)
        low = float(np.log(np.expm1(_START)))
        if potentials == "general":
            self.weight = nn.Parameter(torch.zeros(shape))
        elif potentials in ("potts", "associative"):
            self.weight = nn.Parameter(torch.full(shape[: 1 if potentials == "potts" else 2], low))
        elif potentials == "supermodular":
            self.first, self.second = (nn.Parameter(torch.zeros(shape[:2])) for _ in range(2))
            self.weight = nn.Parameter(torch.full((shape[0], self.n_labels - 1, self.n_labels - 1), low))
        names = list(range(self.n_labels)) if classes is None else list(classes)
        if len(names) != self.n_labels:
            raise InvalidParameterError(f"classes has {len(names)} names, wanted {self.n_labels} (n_labels).")
        mask = torch.zeros(self.n_labels, self.n_labels, dtype=torch.bool)
        ends = torch.zeros(2, self.n_labels, dtype=torch.bool)
        if forbidden is not None:
            forbidden = forbidden if isinstance(forbidden, str) else [tuple(pair) for pair in forbidden]
            for first, second in forbidden_pairs(forbidden, names):
                mask[first, second] = True
            ends[0, forbidden_starts(forbidden, names)] = True
            ends[1, forbidden_ends(forbidden, names)] = True
        self.register_buffer("mask", mask)
        self.register_buffer("starts", ends[0].clone())
        self.register_buffer("ends", ends[1].clone())
        self.is_hard = bool(mask.any())
        self.classes = names

    def free_tables(self) -> torch.Tensor:
        """The tables (n_edge_types, K, K) without what is forbidden, with gradients."""
        size = self.n_labels
        if self.potentials == "none":
            return torch.zeros(self.n_edge_types, size, size, dtype=torch.float64)
        if self.potentials == "general":
            return self.weight
        rewards = nn.functional.softplus(self.weight)
        if self.potentials == "supermodular":
            sums = nn.functional.pad(rewards.cumsum(1).cumsum(2), (1, 0, 1, 0))
            return self.first[:, :, None] + self.second[:, None, :] + sums
        rewards = rewards[:, None].expand(-1, size) if self.potentials == "potts" else rewards
        return torch.diag_embed(rewards)

    def forward(self) -> torch.Tensor:
        """The tables with ``-inf`` where a pair is forbidden."""
        tables = self.free_tables()
        return tables.masked_fill(self.mask, -torch.inf) if self.is_hard else tables

    @torch.no_grad()
    def set_tables(self, tables: Any) -> None:
        """Start from given tables (n_edge_types, K, K) of this family; what is forbidden stays so."""
        wanted = (self.n_edge_types, self.n_labels, self.n_labels)
        given = torch.as_tensor(
            tables.detach().cpu() if isinstance(tables, torch.Tensor) else np.array(tables), dtype=torch.float64
        )
        if tuple(given.shape) != wanted:
            raise InvalidParameterError(f"tables have shape {tuple(given.shape)}, wanted {wanted}.")
        given = torch.where(torch.isneginf(given), 0.0, given)

        def inverse(rewards: torch.Tensor) -> torch.Tensor:
            if (rewards < 0).any():
                raise InvalidParameterError(
                    f"tables are not {self.potentials}: a reward is {float(rewards.min())}, wanted at least 0."
                )
            return torch.log(torch.expm1(rewards.clamp(min=_LEAST, max=30.0))) + (rewards - 30.0).clamp(min=0.0)

        if self.potentials == "none":
            raise InvalidParameterError('potentials="none" has no weights to set, wanted another family.')
        if self.potentials == "general":
            self.weight.copy_(given)
        elif self.potentials == "supermodular":
            first, second = given[:, :, 0], given[:, 0, :] - given[:, :1, 0]
            mixed = given[:, 1:, 1:] + given[:, :-1, :-1] - given[:, 1:, :-1] - given[:, :-1, 1:]
            self.first.copy_(first)
            self.second.copy_(second)
            self.weight.copy_(inverse(torch.where(mixed > -_LEAST, mixed.clamp(min=0.0), mixed)))
        else:
            rewards = torch.diagonal(given, dim1=1, dim2=2)
            if bool((given - torch.diag_embed(rewards)).any()):
                raise InvalidParameterError(f"tables are not {self.potentials}: an entry off the diagonal is not 0.")
            if self.potentials == "potts" and bool((rewards != rewards[:, :1]).any()):
                raise InvalidParameterError(
                    "tables are not potts: rewards of labels differ, wanted one for all; associative has one for each."
                )
            self.weight.copy_(inverse(rewards[:, 0] if self.potentials == "potts" else rewards))
