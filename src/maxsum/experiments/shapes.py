r"""Table 1 of Franc & Laskov 2011: LP-M3N beside the approximate cutting plane algorithm (ACP), on images of a shape-sorter puzzle.

The photographs of the paper are not public; `make_shape_sorter` makes images like them. A pixel shows one of 512 colours, its label is
the carpet or one of five pieces, and a labelling scores :math:`\sum_t q(x_t, y_t) + \sum_{tt'} g(y_t, y_{t'})` with
:math:`512 \cdot 6 + 6^2` weights. The paper's objective is the library's own:

.. math:: F(w) = \tfrac12\|w\|^2 + C \cdot \text{mean}_j\, \xi_j,

slacks summed over the pixels of an image. ACP is `CuttingPlane` with a relaxed solver as its oracle, to a relative gap of 1 %; then each
learner of LP-M3N runs until its objective is at least as low; all from nothing for every :math:`C`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.graph import Graph
from ..datasets.shape_sorter import PIECES, colour_codes, make_shape_sorter
from ..inference import TRWS, AugmentingDAG
from ..inference.dispatch import solve
from ..learning.driver import Learner
from ..learning.learners.block_frank_wolfe import BlockFrankWolfe
from ..learning.learners.proximal_point import ProximalPoint
from ..learning.learners.subgradient import Subgradient
from ..learning.objectives.lp import LPObjective
from ..learning.paths import path
from ..learning.result import LearningResult
from ..models.bound import BoundModel
from ..models.features import Codes
from ..models.graph_model import GraphModel
from ..models.sample import GraphSample
from . import Claim, MissingDataError, Plot, Progress, Report, segmentation
from .contest import TOL, Run, cutting_plane, timed, to_gap, to_target

C_VALUES = (
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
)  # of Table 1, which weigh the mean of the slacks: divided by the number of images they are ours
QUICK_C = (0.1, 1.0)  # the same in a quick run
# F and seconds of ACP, F and seconds of GPPA, training and validation error in percent
PUBLISHED = {
    0.01: (20.6042, 3795, 20.6018, 451, 3.26, 2.69),
    0.05: (50.7373, 7363, 50.6869, 665, 1.93, 1.06),
    0.1: (72.9288, 9885, 72.8832, 754, 1.71, 0.98),
    0.5: (197.7133, 17609, 197.6659, 888, 1.11, 0.09),
    1.0: (327.7952, 24445, 327.6003, 1166, 1.09, 0.87),
    5.0: (1279.7376, 36956, 1279.2701, 1264, 0.98, 0.99),
}
PUBLISHED_TOTAL, PUBLISHED_TEST = ("27:47:33", "1:26:28"), "1.04 +- 0.02 %"
N_COLOURS = 512  # codes of a pixel: eight levels a channel
N_LABELS = len(PIECES)  # pieces and carpet
N_JOBS = 2  # threads of the trainings that are compared
ACP_SECONDS = 45.0  # processor time that ACP has for a C
LP_SECONDS = 15.0  # that the other learners have
QUICK_SECONDS = 1.0  # of all in a quick run
PHOTOGRAPH_C = (0.1, 1.0)  # values of C on made photographs
PHOTOGRAPH_SECONDS = 40.0  # of a training on them
MAX_SECONDS = 60.0  # wanted, for all values of C
MAX_ERROR = 3.0  # wanted, in per cent of test pixels
_ENOUGH = 1.4  # times as long as wanted that ACP has in a full run: then it is slower beyond doubt
ACP = {"ACP, DAG": AugmentingDAG(), "ACP, TRW-S": TRWS()}
OTHERS: dict[str, Learner] = {"ProximalPoint": ProximalPoint(tol=TOL), "Subgradient": Subgradient(tol=TOL)}
BEST = "BlockFrankWolfe"
WANTED = {"ACP, DAG": 20.0, "ACP, TRW-S": 10.0}
_PALETTE = np.array(
    [(150, 135, 120), (205, 50, 50), (50, 140, 70), (50, 85, 180), (230, 200, 60), (230, 125, 50)], dtype=np.uint8
)


class Part(NamedTuple):
    """Images, and for learning their samples and flat labels."""

    images: list[np.ndarray]
    labels: list[np.ndarray]

    @property
    def samples(self) -> list[GraphSample]:
        return [GraphSample(colour_codes(own).ravel(), Graph.grid(*own.shape[:2])) for own in self.images]

    @property
    def truth(self) -> list[np.ndarray]:
        """Labels of each image, flattened."""
        return [own.ravel() for own in self.labels]


def data(quick: bool) -> tuple[Part, Part, Part]:
    """Images to train, to validate and to test: 14, 4 (100 x 100) and 4 (200 x 200); or a few small ones."""
    sizes = ((4, 30), (2, 30), (2, 40)) if quick else ((14, 100), (4, 100), (4, 200))
    train, validation, test = (Part(*make_shape_sorter(n, side, side, i)) for i, (n, side) in enumerate(sizes))
    return train, validation, test


def bind(part: Part) -> BoundModel:
    """The model of colour codes with the images of a part."""
    return GraphModel(features=Codes(N_COLOURS)).bind(part.samples, part.truth, classes=np.arange(N_LABELS))


def label(model: BoundModel, w: np.ndarray, samples: Sequence[GraphSample]) -> list[np.ndarray]:
    """Labels of images by `solve`."""
    found: list[Any] = [solve(problem, time_limit=10.0).labels for problem in model.problems(w, samples)]
    return found


def error(predicted: Sequence[np.ndarray], truth: Sequence[np.ndarray]) -> float:
    """Wrong pixels of an image in percent, mean over images."""
    return float(np.mean([100 * (own.ravel() != labels.ravel()).mean() for own, labels in zip(predicted, truth, strict=True)]))


def colour_table(train: Part) -> np.ndarray:
    """The most frequent label of each colour: the best labelling of pixels that do not know their neighbours."""
    counts = np.zeros((N_COLOURS, N_LABELS))
    for image, labels in zip(train.images, train.labels, strict=True):
        np.add.at(counts, (colour_codes(image), labels), 1)
    return np.asarray(counts.argmax(axis=1))


def by_colour(table: np.ndarray, part: Part) -> list[np.ndarray]:
    """Labels of the images by a table of colours."""
    return [table[colour_codes(own)] for own in part.images]


def run(quick: bool, progress: Progress, full: bool = False) -> Report:
    """All learners for every C, in the layout of Table 1; then labellings of the test images, and photographs of MSRC.

    Parameters
    ----------
    quick : bool
    progress : callable
    full : bool
        Give ACP as many times the processor seconds of LP-M3N as the ratios claim, so that they are settled: about an hour in all.
    """
    train, validation, test = data(quick)
    limit = QUICK_SECONDS if quick else None if full else ACP_SECONDS
    others, longest = LP_SECONDS if limit is None else min(limit, LP_SECONDS), 60 + 4 * (limit or ACP_SECONDS)
    model, parts = bind(train), (train, validation)
    values = QUICK_C if quick else C_VALUES
    _warm_up(progress)
    runs: dict[float, dict[str, Run]] = {}
    errors, rows = {}, []
    for C in values:
        share = C / model.n_examples
        first = to_gap(model, share, np.inf, longest)
        own = {
            name: cutting_plane(model, share, solver, limit or _ENOUGH * WANTED[name] * first.processor)
            for name, solver in ACP.items()
        }
        least = min(run.objective for run in own.values())
        own[BEST] = first if first.objective <= least else to_gap(model, share, least, longest)
        target = min(least, own[BEST].result.lower_bound / (1.0 - TOL))
        own |= {name: to_target(model, share, learner, target, others) for name, learner in OTHERS.items()}
        runs[C] = own
        w = own[BEST].result.weights
        errors[C] = [error(label(model, w, part.samples), part.truth) for part in parts]
        rows += _rows(C, own, errors[C])
        progress(f"C = {C:g}: " + "; ".join(f"{name} {run}" for name, run in own.items()))
    objective = LPObjective(model, n_jobs=N_JOBS)
    together = timed(
        lambda ends: _worst(
            path(BlockFrankWolfe(tol=TOL, time_limit=longest), objective, [C / model.n_examples for C in values])
        ),
        None,
        lambda result: result.relative_gap <= TOL,
    )
    C = min(values, key=lambda C: errors[C][1])
    w = runs[C][BEST].result.weights
    table = colour_table(train)
    alone = [error(by_colour(table, part), part.truth) for part in (train, test)]
    found = error(label(model, w, test.samples), test.truth)
    objective.set_C(C / model.n_examples)
    tight = [objective.tightness(w), LPObjective(bind(test)).tightness(w)]
    best = runs[C][BEST].result
    proven = best.verify(objective).gap / runs[C][BEST].objective if best.certificate is not None else np.inf
    progress(f"C = {C:g} by validation, {found:.2f} % of test pixels wrong, {alone[1]:.2f} % by colour alone")
    lower = all(run.objective <= own[name].objective for own in runs.values() for name in ACP for run in (own[BEST],))
    claims = [
        Claim("wrong pixels by colour alone: training, test", "", f"{alone[0]:.2f} %, {alone[1]:.2f} %"),
        Claim(f"wrong pixels of test images, C = {C:g} by validation", "", f"{found:.2f} %", None if quick else found <= MAX_ERROR, f"at most {MAX_ERROR:g} %"),
        Claim("objective of LP-M3N at most that of ACP, every C", "", "yes" if lower else "no", lower, "yes, as in the paper"),
        *(_ratio(name, runs, quick) for name in ACP),
        *(_ratio("ACP, DAG", runs, True, name) for name in OTHERS),
        Claim(
            f"all {len(values)} values of C, planes reused, each gap proven to be at most 1 %",
            "",
            f"{together.seconds:.1f} s (processor {together.processor:.1f} s), gap {together.gap:.1e}",
            together.done and (quick or together.seconds <= MAX_SECONDS),
            "done" if quick else f"{MAX_SECONDS:g} s",
        ),
        Claim("gap at the chosen C, verified from planes and fresh solves", "", f"{proven:.1e}", proven <= TOL * (1 + 1e-6), f"at most {TOL:g}"),
        Claim(
            "relaxation tight at the chosen weights: training, test images",
            "-",
            ", ".join(f"{100 * own['tight']:.0f} % ({100 * own['undecided']:.2f} % of pixels undecided)" for own in tight),
        ),
    ]  # fmt: skip
    notes = [
        "Training, validation and test images are made with the seeds 0, 1 and 2; C by the validation images.",
        ("" if limit is None else f"ACP was stopped after {limit:g} s for a value of C. ")
        + f"ProximalPoint and Subgradient were stopped after {others:g} s. '>' stands before the seconds of what did not get there, and "
        "ratios are then lower bounds. `maxsum reproduce shapes --full` gives ACP the time that settles them; all ran on one thread.",
        f"{BEST} runs until its gap is proven to be at most {TOL:g} and its objective at most that of ACP; the others until theirs is "
        f"as low as that of ACP and within {TOL:g} of the bound of {BEST}. Errors: training, validation. DAG: AugmentingDAG.",
        "CompactQP is no part of this: its programme would have ten million nonzeros.",
    ]
    try:
        claims += photographs(quick, progress)
    except MissingDataError as missing:
        notes.append(f"No photographs of MSRC: {missing}")
    return Report(
        "shapes",
        "Franc & Laskov 2011, section 6, Table 1",
        "Shape-sorter images: LP-M3N beside approximate cutting planes",
        tuple(claims),
        ("C", "learner", "F", "gap %", "s", "CPU s", "errors %"),
        tuple(rows),
        tuple(notes),
        "made images of a shape-sorter puzzle. The paper has photographs that are not public, an Intel processor of 1.83 GHz, and GPPA "
        "stopped at a threshold that was known beforehand: "
        + "; ".join(
            f"C = {C:g}: ACP F {own[0]:.2f} in {_clock(own[1])}, GPPA {own[2]:.2f} in {_clock(own[3])}, errors {own[4]:.2f} and {own[5]:.2f} %"
            for C, own in PUBLISHED.items()
        )
        + f"; in all {PUBLISHED_TOTAL[0]} and {PUBLISHED_TOTAL[1]}, a ratio of 19.3; test error {PUBLISHED_TEST}. The validation error of 0.09 for "
        "C = 0.5 stands out and may be a slip. F and errors can be compared between columns of ours, not with these.",
        (
            Plot(
                "Processor seconds to the same end, by C",
                "C of the mean of the slacks",
                "CPU s",
                {name: (list(runs), [own[name].processor for own in runs.values()]) for name in next(iter(runs.values()))},
                log_y=True,
            ),
        ),
    )


def _warm_up(progress: Progress) -> None:
    """Everything is imported and loaded before the clock starts."""
    model = bind(Part(*make_shape_sorter(3, 16, 16, 9)))
    for solver in ACP.values():
        cutting_plane(model, 0.1, solver, QUICK_SECONDS)
    for learner in OTHERS.values():
        to_target(model, 0.1, learner, 0.0, QUICK_SECONDS)
    to_gap(model, 0.1, np.inf, 5.0)
    progress("everything is loaded")


def _worst(results: list[LearningResult]) -> LearningResult:
    return max(results, key=lambda result: result.relative_gap)


def _rows(C: float, runs: dict[str, Run], errors: Sequence[float]) -> list[tuple[Any, ...]]:
    """One row a learner."""
    both = "{:.2f}, {:.2f}".format
    return [
        (
            f"{C:g}", name, f"{own.objective:.2f}", f"{100 * own.gap:.2f}", f"{'' if own.done else '>'}{own.seconds:.1f}",
            f"{own.processor:.1f}", both(*errors) if name == BEST else "",
        )
        for name, own in runs.items()
    ]  # fmt: skip


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"


def _ratio(name: str, runs: dict[float, dict[str, Run]], quick: bool, rival: str = BEST) -> Claim:
    """Summed processor seconds of ACP over those of a learner of LP-M3N."""
    slow, fast = (sum(own[who].processor for own in runs.values()) for who in (name, rival))
    cut, open_ = (sum(not own[who].done for own in runs.values()) for who in (name, rival))
    text = f"{'at least ' if cut else ''}{slow / fast:.1f} ({slow:.0f} s to {fast:.0f} s{f'; ACP stopped for {cut} C' if cut else ''})"
    met = slow / fast >= WANTED[name]
    holds = None if quick or rival != BEST or (cut and not met) else met
    aim = f"{WANTED[name]:g} or more" if rival == BEST else ""
    if open_:
        text, holds = f"{rival} stopped for {open_} C", None if quick or rival != BEST else False
    return Claim(f"processor time of {name} over that of {rival}, all C", "", text, holds, aim)


def photographs(quick: bool, progress: Progress) -> list[Claim]:
    """Cow, grass, water and void: 10 photographs to train, colours as codes and as numbers; see `segmentation`."""
    train, validation, test = segmentation.split_images(segmentation.load(), 0, quick)
    claims = []
    for kind in ("codes", "linear"):
        parts = [_photograph_samples(kind, part) for part in (train, validation, test)]
        truth = [[own.y.ravel() for own in part] for part in (train, validation, test)]
        network = GraphModel(features=Codes(N_COLOURS)) if kind == "codes" else GraphModel()
        model = network.bind(parts[0], truth[0], classes=np.arange(len(segmentation.LABELS)))
        learner = BlockFrankWolfe(tol=TOL, time_limit=QUICK_SECONDS if quick else PHOTOGRAPH_SECONDS)
        wall = time.perf_counter()
        results = path(learner, LPObjective(model, n_jobs=N_JOBS), [C / model.n_examples for C in PHOTOGRAPH_C])
        wall = time.perf_counter() - wall
        wrong = [[error(label(model, own.weights, part), y) for part, y in zip(parts, truth, strict=True)] for own in results]
        best = min(range(len(results)), key=lambda i: wrong[i][1])
        gaps = ", ".join(f"{own.relative_gap:.1e}" for own in results)
        claims.append(
            Claim(
                f"MSRC, {len(train)} photographs, colours as {'512 codes' if kind == 'codes' else '3 numbers'}, "
                f"C = {', '.join(f'{C:g}' for C in PHOTOGRAPH_C)}",
                "",
                f"{wall:.0f} s, gaps {gaps}; C = {PHOTOGRAPH_C[best]:g}: {', '.join(f'{own:.2f} %' for own in wrong[best])} of pixels wrong "
                "(training, validation, test)",
            )
        )
        progress(f"{claims[-1].what}: {claims[-1].ours}")
    return claims


def _photograph_samples(kind: str, images: Sequence[segmentation.Image]) -> list[GraphSample]:
    found = []
    for own in images:
        colours = np.rint(255 * own.x).astype(np.uint8)
        shown = colour_codes(colours).ravel() if kind == "codes" else own.x.reshape(-1, 3)
        found.append(GraphSample(shown, Graph.grid(*own.y.shape)))
    return found


def picture(path: str | os.PathLike[str], C: float = 0.5, quick: bool = False, n_images: int = 2) -> None:
    """Draw test images, their truth, labels by colour alone, and those of LP-M3N.

    Parameters
    ----------
    path : path-like
        Where to write it, ``.png``.
    C : float
    quick : bool
        Smaller images.
    n_images : int
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    train, _, test = data(quick)
    test = Part(test.images[:n_images], test.labels[:n_images])
    model = bind(train)
    w = BlockFrankWolfe(tol=TOL).fit(LPObjective(model, C / model.n_examples, n_jobs=N_JOBS)).weights
    answers = {"colour alone": by_colour(colour_table(train), test), "LP-M3N": label(model, w, test.samples)}
    figure, axes = pyplot.subplots(len(test.images), 4, figsize=(9, 2.4 * len(test.images)), squeeze=False)
    for i, (line, image, truth) in enumerate(zip(axes, test.images, test.labels, strict=True)):
        shown = [("image", image), ("truth", _PALETTE[truth])]
        for name, labels in answers.items():
            shown.append((f"{name}: {error([labels[i]], [truth]):.1f} % wrong", _PALETTE[labels[i].reshape(truth.shape)]))
        for axis, (title, pixels) in zip(line, shown, strict=True):
            axis.imshow(pixels, interpolation="nearest")
            axis.set_title(title, fontsize=8, pad=3)
            axis.axis("off")
    figure.tight_layout(pad=0.4)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
