"""Layers for PyTorch: speed beside pytorch-crf, grids, and three tasks where a network is trained through them."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from maxsum.experiments import MissingDataError, handwritten_sudoku

from .measure import NO_DATA, data_folder, verdict

TITLE = "Layers for PyTorch"
DESCRIPTION = """
*Chains*: 64 sequences of 50 positions with 20 labels, float32, forward and backward on the CPU, beside pytorch-crf 0.7.2 in alternating runs;
*threads* is what both have (`torch.set_num_threads`, which our layers follow). Ratios are theirs over ours, of CPU and of wall seconds; the targets
(5 for the likelihood, 10 for the hinge, which pytorch-crf does not have and is held against its likelihood, 10 for decoding) ask both of them. *Grid*: 64 images of
64 x 64 pixels, 4 labels, beside the CNN of three layers that makes the scores; brackets are in loss for each pixel.
*Chunking*: CoNLL-2000, words alone (random embeddings of words and suffixes, no parts of speech), a BiLSTM of 48 units each way; targets: structure wins by 0.5 of F1, no illegal
transition. *Sudoku*: 10 solved grids of USPS digits to train a CNN and the rules on, other ones to test; published for 10 grids: 0.04 % wrong digits (kernels), 7.2 % (linear);
target 0.1 %. *Images*: made shapes under noise; the same CNN goes on with the loss of pixels, its answers
cleaned by `ms.refine`, or through the layer; target: errors fall from row to row. Errors are means over the splits. `--long` takes more epochs and splits.
"""
TARGETS = {"CRFLoss": 5.0, "StructuredHinge": 10.0, "decode": 10.0}
SIZES = (64, 50, 20)  # sequences, positions, labels
QUICK_SIZES = (4, 6, 3)  # the same in a quick run
REPEATS = 15
MIN_GAIN = 0.5  # of F1 over softmax
MAX_WRONG = 0.1  # digits in percent


def rows(quick: bool = False, long: bool = False) -> list[dict[str, Any]]:
    try:
        import torch
    except ImportError:
        return [{"table": "Chains", "what": "skipped: PyTorch is not installed"}]
    before = torch.get_num_threads()
    try:
        found = [row for threads in (1,) if quick for row in _chains(threads, quick)]
        found += [row for threads in (1, 2) if not quick for row in _chains(threads, quick)]
        torch.set_num_threads(1)
        return found + _grid(quick) + _chunking(quick, long) + _sudoku(quick, long) + _images(quick, long)
    finally:
        torch.set_num_threads(before)


def _clocks(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, tuple[float, float]]:
    """Median CPU and wall seconds of functions that are called in turn, once before the clock."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in functions}
    for number in range(repeats + 1):
        for name, function in functions.items():
            cpu, wall = time.process_time(), time.perf_counter()
            function()
            if number:
                found[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    return {name: (statistics.median(c for c, _ in own), statistics.median(w for _, w in own)) for name, own in found.items()}


def _chains(threads: int, quick: bool) -> list[dict[str, Any]]:
    import torch

    from maxsum.torch import CRFLoss, StructuredHinge, decode

    try:
        import torchcrf
    except ImportError:
        torchcrf = None
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    count, steps, size = QUICK_SIZES if quick else SIZES
    scores, labels = torch.randn(count, steps, size, requires_grad=True), torch.randint(size, (count, steps))
    mask = torch.ones(count, steps, dtype=torch.bool)

    def step(loss: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            scores.grad = None
            loss().backward()

        return run

    crf, hinge = CRFLoss(size), StructuredHinge(size)
    functions: dict[str, Callable[[], Any]] = {
        "CRFLoss": step(lambda: crf(scores, labels, mask=mask)),
        "StructuredHinge": step(lambda: hinge(scores, labels, mask=mask)),
        "decode": lambda: decode(scores, crf, mask=mask),
    }
    if torchcrf is not None:
        peer = torchcrf.CRF(size, batch_first=True)
        functions["their loss"] = step(lambda: -peer(scores, labels, mask=mask, reduction="mean"))
        functions["their decode"] = lambda: peer.decode(scores, mask=mask)
    found, table = _clocks(functions, 2 if quick else REPEATS), []
    for name, target in TARGETS.items():
        (cpu, wall), other = found[name], found.get("their decode" if name == "decode" else "their loss")
        row = {"table": "Chains", "what": name, "threads": threads, "ms CPU": 1e3 * cpu, "ms wall": 1e3 * wall}
        if other is None:
            table.append(row | {"target": "skipped: pytorch-crf is not installed"})
            continue
        ratios = other[0] / cpu, other[1] / wall
        row |= {
            "pytorch-crf, ms CPU": 1e3 * other[0],
            "its ms wall": 1e3 * other[1],
            "ratio CPU": ratios[0],
            "ratio wall": ratios[1],
        }
        table.append(row | {"target": f"{target:g}: {verdict(min(ratios) >= target)}"})
    return table


def _grid(quick: bool) -> list[dict[str, Any]]:
    import torch

    from maxsum.torch import CRFLoss, StructuredHinge

    from . import neural_images as own

    torch.manual_seed(0)
    count, side = (2, 8) if quick else (64, 64)
    images, net = own.make(count, side, 1), own.network()
    own.train(net, None, own.make(4, side, 0), 2 if quick else 100)
    cpu, wall = time.process_time(), time.perf_counter()
    loss = torch.nn.functional.cross_entropy(net(images.x), images.y)
    loss.backward()
    table = [
        {
            "table": "Grid",
            "what": "CNN alone, forward and backward",
            "s CPU": time.process_time() - cpu,
            "s wall": time.perf_counter() - wall,
            "loss": loss.item(),
        }
    ]
    scores = net(images.x).detach().requires_grad_()
    for kind in (StructuredHinge, CRFLoss):
        layer = kind(own.N_LABELS, "grid", "potts", reduction="node_mean")
        layer.pairwise.set_tables(np.eye(own.N_LABELS)[None])
        for name in ("first call", "second call, messages kept"):
            cpu, wall = time.process_time(), time.perf_counter()
            loss = layer(scores, images.y, sample_ids=range(count))
            loss.backward()
            table.append(
                {
                    "table": "Grid",
                    "what": f"{kind.__name__}, {name}",
                    "s CPU": time.process_time() - cpu,
                    "s wall": time.perf_counter() - wall,
                    "loss": loss.item(),
                    "bracket": layer.last_gap,
                }
            )
    return table


def _chunking(quick: bool, long: bool) -> list[dict[str, Any]]:
    from . import neural_chunking as own

    folder, table = data_folder(), "Chunking"
    if folder is None or not (folder / "conll2000").is_dir():
        return [{"table": table, "model": NO_DATA}]
    data, n_epochs = own.load(folder, 60 if quick else None), 1 if quick else 12 if long else 5
    found = {kind: own.run(data, kind, n_epochs) for kind in own.KINDS}
    plain = found["softmax"].f1
    return [
        {
            "table": table,
            "model": "BiLSTM, softmax" if kind == "softmax" else f"BiLSTM, {kind} + BIO",
            "F1": round(one.f1, 2),
            "illegal transitions": one.illegal,
            "epochs": n_epochs,
            "CPU s": one.seconds,
            "of these in the loss": one.loss_seconds,
            "target": "" if kind == "softmax" else f"+{MIN_GAIN}: {verdict(one.f1 >= plain + MIN_GAIN and not one.illegal)}",
        }
        for kind, one in found.items()
    ]


def _sudoku(quick: bool, long: bool) -> list[dict[str, Any]]:
    from . import neural_sudoku as own

    folder, table = data_folder(), "Sudoku"
    if folder is None:
        return [{"table": table, "classifier": NO_DATA}]
    with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)):
        try:
            X, y, solutions = handwritten_sudoku.load()
        except MissingDataError as error:
            return [{"table": table, "classifier": f"skipped: {error}"}]
    n_test, n_splits, n_epochs = (1, 1, 12) if quick else (60, 6 if long else 3, 60)
    found: dict[str, list[own.Found]] = {"CNN alone": [], "CNN through the layer": []}
    for seed in range(n_splits):
        grids = handwritten_sudoku.make_grids(X, y, solutions, own.N_TRAIN + n_test, seed)
        for name, runs in found.items():
            runs.append(own.run(grids, name != "CNN alone", n_epochs, seed))
    rows = []
    for name, runs in found.items():
        wrong = statistics.mean(one.error for one in runs)
        row = {
            "table": table,
            "classifier": name,
            "wrong digits, %": wrong,
            "each split": ", ".join(f"{r.error:.2f}" for r in runs),
        }
        row |= {"CPU s of a training": statistics.mean(one.seconds for one in runs)}
        if name != "CNN alone":
            row |= {"rules learned": f"{sum(bool(r.rules) for r in runs)} of {n_splits}"}
            row |= {"proven optimal": f"{sum(r.optimal or 0 for r in runs)} of {n_test * n_splits}"}
            row |= {"target": f"{MAX_WRONG}: {verdict(wrong <= MAX_WRONG)}"}
        rows.append(row)
    return rows + [
        {"table": table, "classifier": f"published, {name}", "wrong digits, %": wrong} for name, wrong in own.PUBLISHED.items()
    ]


def _images(quick: bool, long: bool) -> list[dict[str, Any]]:
    from . import neural_images as own

    sizes = (4, 2, 12, 2, 1) if quick else (8, 12, 48, 150, 60)
    runs = [own.run(*sizes, seed=seed) for seed in range(1 if quick else 8 if long else 4)]
    rows: list[dict[str, Any]] = []
    for name in runs[0]:
        wrong = statistics.mean(run[name].error for run in runs)
        row = {"table": "Images", "classifier": name, "wrong pixels, %": wrong}
        row |= {"each split": ", ".join(f"{run[name].error:.2f}" for run in runs)}
        row |= {
            "CPU s of a training": statistics.mean(run[name].seconds for run in runs),
            "table of the first": runs[0][name].weight,
        }
        rows.append(row | {"target": f"less: {verdict(wrong < rows[-1]['wrong pixels, %'])}" if rows else ""})
    return rows
