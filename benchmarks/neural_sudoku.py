"""Handwritten Sudoku end to end: a small CNN on the images of the cells, trained through the max-sum layer that learns the rules.

Franc & Savchynskyy 2008, section 7.3, with a network in the place of kernels: 10 solved grids of USPS digits to train on, no image twice. The layer
has one table for all pairs of cells that share a row, a column or a box; nothing is known of what the rules say. While
training, some cells show the image of another cell, so that the rules have to overrule an image that is clear but wrong, as a few of USPS are.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from maxsum.experiments import handwritten_sudoku
from maxsum.torch import StructuredHinge, decode

N_TRAIN = 10  # grids, as in the paper
GRIDS_OF_A_BATCH = 2
NETWORK_RATE = 1e-2  # highest rate of Adam for the network
RULES_RATE = 0.1  # the same for the table of the layer: 0.05 learns rules half as strong
EXCHANGED = 0.1  # share of cells that show the image of another cell while training
SIDE = 16  # pixels of an image
PUBLISHED = {"kernel": 0.04, "linear": 7.2}  # wrong digits in percent


class Found(NamedTuple):
    """Wrong digits in percent, CPU seconds of training; with a layer also whether all rules hold, and grids proven optimal."""

    error: float
    seconds: float
    rules: bool | None = None
    optimal: int | None = None


def network() -> nn.Module:
    """Two convolutions and a linear layer: 9 scores of an image."""
    return nn.Sequential(
        *(nn.Conv2d(1, 12, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.3), nn.Linear(24 * (SIDE // 4) ** 2, 9)),
    )


def tensors(grids: list[handwritten_sudoku.Grid]) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (n, 81, 1, 16, 16) and labels (n, 81)."""
    images = torch.tensor(np.stack([grid.images for grid in grids]), dtype=torch.float32)
    return images.reshape(-1, 81, 1, SIDE, SIDE), torch.tensor(np.stack([grid.digits for grid in grids]) - 1)


def jitter(images: torch.Tensor, exchanged: float) -> torch.Tensor:
    """Images turned, stretched and moved a little; some cells show the image of another one."""
    turn = torch.eye(2, 3) + 0.1 * torch.randn(len(images), 2, 3)
    moved = nn.functional.grid_sample(
        images, nn.functional.affine_grid(turn, list(images.shape), align_corners=False), align_corners=False
    )
    other = torch.randint(len(images), (len(images),))
    return moved[torch.where(torch.rand(len(images)) < exchanged, other, torch.arange(len(images)))]


def run(grids: list[handwritten_sudoku.Grid], structured: bool, n_epochs: int, seed: int = 0) -> Found:
    """Train on the first grids, test on the others."""
    torch.manual_seed(seed)
    (images, labels), (new, truth) = tensors(grids[:N_TRAIN]), tensors(grids[N_TRAIN:])
    board, net = handwritten_sudoku.board(), network()
    layer = StructuredHinge(9, "graph", reduction="node_mean")
    groups = [{"params": list(net.parameters())}] + ([{"params": list(layer.parameters())}] if structured else [])
    optimizer = torch.optim.Adam(groups)
    n_batches = -(-N_TRAIN // GRIDS_OF_A_BATCH)
    rates = [NETWORK_RATE, RULES_RATE][: len(groups)]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=n_epochs * n_batches)
    began = time.process_time()
    net.train()
    for _ in range(n_epochs):
        for own in torch.randperm(N_TRAIN).split(GRIDS_OF_A_BATCH):
            scores, wanted = net(jitter(images[own].flatten(0, 1), EXCHANGED if structured else 0.0)), labels[own].flatten()
            if structured:
                loss = layer(scores, wanted, graphs=[board] * len(own))
            else:
                loss = nn.functional.cross_entropy(scores, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    seconds = time.process_time() - began
    net.eval()
    with torch.no_grad():
        scores = net(new.flatten(0, 1))
    if not structured:
        return Found(100 * (scores.argmax(dim=1) != truth.flatten()).double().mean().item(), seconds)
    found = decode(scores, layer, graphs=[board] * len(new))
    table = layer.pairwise()[0].detach()
    equal = torch.eye(9, dtype=torch.bool)
    rules = bool(table[~equal].min() > table[equal].max())
    optimal = sum(found.result(i).guarantee == "optimal" for i in range(len(found)))
    return Found(100 * (found.labels != truth.flatten()).double().mean().item(), seconds, rules, optimal)
