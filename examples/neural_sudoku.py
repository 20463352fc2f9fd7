"""
Read handwritten Sudokus, rules learned
=======================================

A small network reads images of digits on solved Sudokus. It is trained through a layer that sees all 81 cells at once and learns, from eight
solved grids, what the rules are: nothing but who is next to whom is given.

Run: ``python examples/neural_sudoku.py`` (needs PyTorch, matplotlib)
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits

import maxsum as ms
from maxsum.torch import StructuredHinge, decode

N_TRAIN, N_TEST, EPOCHS = 8, 3, 30


def board() -> ms.Graph:
    """Cells that share a row, a column or a box."""
    cell = np.arange(81).reshape(9, 9)
    boxes = cell.reshape(3, 3, 3, 3).transpose(0, 2, 1, 3).reshape(9, 9)
    units = np.concatenate([cell, cell.T, boxes]).tolist()
    return ms.Graph.from_edges(
        sorted({(u, v) for unit in units for u in unit for v in unit if u < v}), n_nodes=81
    )


def solved(random: np.random.Generator) -> np.ndarray:
    """A solved grid: a known one with digits, rows and columns moved."""
    row, column = np.mgrid[:9, :9]
    grid = (3 * (row % 3) + row // 3 + column) % 9

    def order() -> np.ndarray:
        return np.concatenate([3 * band + random.permutation(3) for band in random.permutation(3)])

    return random.permutation(9)[grid[order()][:, order()]].ravel()


def handwritten(random: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (count, 81, 64) of the digits of solved grids, no image twice, and their labels 0 .. 8."""
    images, digits = load_digits(return_X_y=True)
    left = {
        digit: random.permutation(np.flatnonzero(digits == digit + 1)).tolist()
        for digit in range(9)
    }
    labels = np.stack([solved(random) for _ in range(count)])
    chosen = [left[int(digit)].pop() for digit in labels.ravel()]
    return torch.tensor(images[chosen] / 16, dtype=torch.float32).reshape(
        count, 81, 64
    ), torch.tensor(labels)


def main() -> None:
    torch.manual_seed(1)
    images, labels = handwritten(np.random.default_rng(0), N_TRAIN + N_TEST)
    train, test, truth, graph = images[:N_TRAIN], images[N_TRAIN:], labels[N_TRAIN:], board()

    network = torch.nn.Sequential(
        torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(48, 9)
    )
    # one table of 9 x 9 for all pairs of cells
    layer = StructuredHinge(9, graph="graph", reduction="node_mean")
    groups = [
        {"params": network.parameters(), "lr": 5e-3},
        {"params": layer.parameters(), "lr": 0.02},
    ]
    optimizer = torch.optim.Adam(groups)
    for _ in range(EPOCHS):
        for i in torch.randperm(N_TRAIN).tolist():
            # Some cells show the image of another: the rules have to tell them.
            shown = torch.where(torch.rand(81) < 0.1, torch.randint(81, (81,)), torch.arange(81))
            loss = layer(
                network(train[i, shown] + 0.05 * torch.randn(81, 64)), labels[i], graphs=[graph]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    network.eval()
    with torch.no_grad():
        scores = network(test.flatten(0, 1))
    found = decode(scores, layer, graphs=[graph] * N_TEST, time_limit=2.0)
    alone, together = scores.argmax(dim=1).reshape(truth.shape), found.labels.reshape(truth.shape)
    table = layer.pairwise()[0].detach().numpy()
    print(
        f"equal digits next to each other lose {(table[~np.eye(9, dtype=bool)].min() - np.diag(table).max()):.2f} at least: the rules"
    )
    print(
        f"wrong digits: {int((alone != truth).sum())} of {truth.numel()} by the network alone, {int((together != truth).sum())} together"
    )
    result = found.result(0)
    print(result.verify(found.problem(0)))
    draw(test, alone, together, truth, table)


def draw(
    test: torch.Tensor,
    alone: torch.Tensor,
    together: torch.Tensor,
    truth: torch.Tensor,
    table: np.ndarray,
) -> None:
    """The grid with most errors of the network: its images, what is read (wrong ones red), and the table that was learned."""
    import matplotlib.pyplot as plt

    i = int((alone != truth).sum(dim=1).argmax())
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.5))
    tiles = (
        torch.nn.functional.pad(test[i].reshape(9, 9, 8, 8), (2, 2, 2, 2))
        .permute(0, 2, 1, 3)
        .reshape(108, 108)
    )
    axes[0].imshow(tiles, cmap="gray_r")
    axes[0].set_title("images")
    for axis, read, title in (
        (axes[1], alone[i], "network alone"),
        (axes[2], together[i], "with learned rules"),
    ):
        axis.imshow(np.ones((108, 108)), cmap="gray", vmin=0, vmax=1)
        wrong = int((read != truth[i]).sum())
        for cell in range(81):
            colour = "black" if read[cell] == truth[i, cell] else "red"
            place = (12 * (cell % 9) + 5.5, 12 * (cell // 9) + 5.5)
            axis.text(
                *place,
                str(int(read[cell]) + 1),
                color=colour,
                ha="center",
                va="center",
                weight="bold" if colour == "red" else None,
            )
        axis.set_title(f"{title}: {wrong} wrong")
    for axis in axes[:3]:
        for line in range(0, 109, 36):
            axis.axhline(line - 0.5, color="tab:blue")
            axis.axvline(line - 0.5, color="tab:blue")
        axis.set_xticks([])
        axis.set_yticks([])
    shown = axes[3].imshow(
        table,
        cmap="RdBu",
        vmin=-abs(table).max(),
        vmax=abs(table).max(),
        extent=(0.5, 9.5, 9.5, 0.5),
    )
    axes[3].set_title("learned table of two cells")
    axes[3].set_xticks(range(1, 10))
    axes[3].set_yticks(range(1, 10))
    figure.colorbar(shown, ax=axes[3], fraction=0.046)
    figure.tight_layout()
    plt.show()


if __name__ == "__main__":
    main()
