"""Made shapes under noise: a CNN of three layers alone, with `maxsum.refine` after it, and trained through the layer."""

from __future__ import annotations

import copy
import time
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from maxsum import refine
from maxsum.datasets import make_shapes
from maxsum.torch import StructuredHinge, decode

N_LABELS = 4
NOISE = 0.6  # standard deviation in each colour, all of which are in [0, 1]
CHANNELS = 12  # of the inner layers
RATE = 1e-2  # highest rate of Adam, for network and layer
BATCH = 4  # images
WEIGHTS = (0.0, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0)  # of Potts, tried on the validation images


class Images(NamedTuple):
    """Colours (n, 3, H, W) and labels (n, H, W)."""

    x: torch.Tensor
    y: torch.Tensor


class Found(NamedTuple):
    """Wrong pixels in percent, CPU seconds of training, weight or diagonal of the table, and the labels of the test images."""

    error: float
    seconds: float
    weight: str
    labels: torch.Tensor


def make(count: int, side: int, seed: int) -> Images:
    """Images of the generator `make_shapes`."""
    x, y = make_shapes(count, side, side, N_LABELS, 6, NOISE, seed, kind="rgb")
    return Images(torch.tensor(np.stack(x), dtype=torch.float32).permute(0, 3, 1, 2).contiguous(), torch.tensor(np.stack(y)))


def network() -> nn.Sequential:
    """Three convolutions of 3 x 3 pixels: a pixel sees 7 x 7."""
    return nn.Sequential(
        *(nn.Conv2d(3, CHANNELS, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU()),
        nn.Conv2d(CHANNELS, N_LABELS, 3, padding=1),
    )


def train(net: nn.Module, layer: StructuredHinge | None, images: Images, n_epochs: int) -> float:
    """CPU seconds of the epochs, by cross-entropy of pixels or by the loss of the layer."""
    parameters = [*net.parameters(), *(layer.parameters() if layer is not None else [])]
    optimizer = torch.optim.Adam(parameters)
    n_batches = -(-len(images.x) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=n_epochs * n_batches)
    began = time.process_time()
    for _ in range(n_epochs):
        for own in torch.randperm(len(images.x)).split(BATCH):
            scores, wanted = net(images.x[own]), images.y[own]
            if layer is None:
                loss = nn.functional.cross_entropy(scores, wanted)
            else:
                loss = layer(scores, wanted, sample_ids=own.tolist())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return time.process_time() - began


@torch.no_grad()
def labels_of(net: nn.Module, layer: StructuredHinge, x: torch.Tensor) -> torch.Tensor:
    """Best labellings of images."""
    return decode(net(x), layer).labels


@torch.no_grad()
def refined(net: nn.Module, x: torch.Tensor, weight: float) -> torch.Tensor:
    """Labels of a network's probabilities, cleaned."""
    every = net(x).softmax(dim=1).permute(0, 2, 3, 1).numpy()
    return torch.tensor(np.stack([refine(own, weight=weight, connectivity=4).labels for own in every]))


def percent(labels: torch.Tensor, images: Images) -> float:
    """Wrong pixels."""
    return 100 * (labels != images.y).double().mean().item()


def run(n_train: int, n_test: int, side: int, n_epochs: int, n_more: int, seed: int = 0) -> dict[str, Found]:
    """All three on the same images: one network after ``n_epochs``, then ``n_more`` by pixels or through the layer."""
    torch.manual_seed(seed)
    images, validation, test = (make(n, side, 3 * seed + i) for i, n in enumerate((n_train, 4, n_test)))
    net = network()
    seconds = train(net, None, images, n_epochs)
    own = copy.deepcopy(net)
    plain = seconds + train(net, None, images, n_more)
    with torch.no_grad():
        alone = net(test.x).argmax(dim=1)
    found = {"CNN alone": Found(percent(alone, test), plain, "", alone)}
    tried = {weight: percent(refined(net, validation.x, weight), validation) for weight in WEIGHTS}
    best = min(tried, key=tried.__getitem__)
    after = refined(net, test.x, best)
    found["refine after it"] = Found(percent(after, test), plain, f"{best:g}, by validation", after)
    layer = StructuredHinge(N_LABELS, "grid", reduction="node_mean")
    layer.pairwise.set_tables(best * np.eye(N_LABELS)[None])
    more = train(own, layer, images, n_more)
    through = labels_of(own, layer, test.x)
    diagonal = " ".join(f"{float(g):.2f}" for g in torch.diagonal(layer.pairwise()[0].detach()))
    found["trained through the layer"] = Found(percent(through, test), seconds + more, f"learned: {diagonal}", through)
    return found
