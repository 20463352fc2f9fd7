"""
Train a network through the labelling of an image
=================================================

Noisy images of coloured pieces. A network of three convolutions labels each pixel alone, is cleaned by ``ms.refine`` afterwards, and is trained
through the layer that labels the image as a whole.

Run: ``python examples/neural_images.py`` (needs PyTorch, matplotlib)
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn

import maxsum as ms
from maxsum.torch import StructuredHinge, decode

N_LABELS, SIDE, NOISE = 4, 40, 0.6


def pictures(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Colours (count, 3, SIDE, SIDE) and labels (count, SIDE, SIDE)."""
    x, y = ms.datasets.make_shapes(count, SIDE, SIDE, N_LABELS, 6, NOISE, seed, kind="rgb")
    return torch.tensor(np.stack(x), dtype=torch.float32).permute(
        0, 3, 1, 2
    ).contiguous(), torch.tensor(np.stack(y))


def train(
    network: nn.Module, layer: StructuredHinge | None, x: torch.Tensor, y: torch.Tensor, epochs: int
) -> None:
    """By the cross-entropy of the pixels, or by the loss of the layer."""
    parameters = [*network.parameters(), *(layer.parameters() if layer is not None else [])]
    optimizer = torch.optim.Adam(parameters, lr=5e-3)
    for _ in range(epochs):
        for own in torch.randperm(len(x)).split(4):
            scores = network(x[own])
            loss = (
                nn.functional.cross_entropy(scores, y[own])
                if layer is None
                else layer(scores, y[own])
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    (x, y), (new, truth) = pictures(8, 0), pictures(4, 1)
    network = nn.Sequential(
        *(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU()),
        nn.Conv2d(12, N_LABELS, 3, padding=1),
    )
    train(network, None, x, y, 100)
    through, layer = (
        copy.deepcopy(network),
        StructuredHinge(N_LABELS, graph="grid", reduction="node_mean"),
    )
    layer.pairwise.set_tables(np.eye(N_LABELS)[None])
    train(network, None, x, y, 30)
    train(through, layer, x, y, 30)
    with torch.no_grad():
        scores, found = network(new), decode(through(new), layer)
    probabilities = scores.softmax(dim=1).permute(0, 2, 3, 1).numpy()
    answers = {
        "network alone": scores.argmax(dim=1).numpy(),
        "refined": np.stack(
            [ms.refine(own, weight=1.0, connectivity=4).labels for own in probabilities]
        ),
        "trained through": found.labels.numpy(),
    }
    for name, labels in answers.items():
        print(f"{name}: {(labels != truth.numpy()).mean():.1%} of the pixels wrong")
    result = found.result(0)
    print(result.verify(found.problem(0)))
    draw(
        new[0].permute(1, 2, 0).numpy(),
        truth[0].numpy(),
        {name: labels[0] for name, labels in answers.items()},
    )


def draw(image: np.ndarray, truth: np.ndarray, answers: dict[str, np.ndarray]) -> None:
    """An image that was not trained on, its labels, and what each one says."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 5, figsize=(14, 3.2))
    axes[0].imshow(image, interpolation="nearest")
    axes[0].set_title("image")
    for axis, (name, labels) in zip(axes[1:], {"truth": truth, **answers}.items(), strict=True):
        axis.imshow(labels, cmap="tab10", vmin=0, vmax=9, interpolation="nearest")
        axis.set_title(name if name == "truth" else f"{name}: {(labels != truth).mean():.1%}")
    for axis in axes:
        axis.axis("off")
    figure.tight_layout()
    plt.show()


if __name__ == "__main__":
    main()
