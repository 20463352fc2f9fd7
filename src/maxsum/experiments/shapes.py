r"""Table 1 of Franc & Laskov 2011: LP-M3N beside the approximate cutting plane algorithm (ACP), on images of a shape-sorter puzzle.

The photographs of the paper are not public; `make_shape_sorter` makes images like them. A pixel shows one of 512 colours, its label is
the carpet or one of five pieces, and a labelling scores :math:`\sum_t q(x_t, y_t) + \sum_{tt'} g(y_t, y_{t'})` with
:math:`512 \cdot 6 + 6^2` weights. The paper's objective weighs the mean of the slacks,

.. math:: F(w) = \tfrac12\|w\|^2 + C \cdot \text{mean}_j\, \xi_j,

which is ours with :math:`C` divided by the number of images. All learners run to the same end, from nothing for every :math:`C` and with the
same limit: an objective of at most :math:`L / (1 - 0.01)`, where :math:`L` is a lower bound on the optimum that was proven beforehand. So
every answer is within 1 % of the optimum, whoever found it. ACP is `CuttingPlane` with a relaxed solver as its oracle; GPPA is
`ProximalPoint` as published: a bundle of one slack, proximal problems to a relative gap, no steps between them and no bound.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.graph import Graph
from ..datasets.made.shape_sorter import PIECES, colour_codes, make_shape_sorter
from ..inference import TRWS, AugmentingDAG
from ..inference.dispatch import solve
from ..learning.driver import Learner
from ..learning.learners.block_frank_wolfe import BlockFrankWolfe
from ..learning.learners.proximal_point import ProximalPoint
from ..learning.objectives.lp import LPObjective
from ..learning.paths import path
from ..learning.result import LearningResult
from ..models.bound import BoundModel
from ..models.features import Codes
from ..models.graph_model import GraphModel
from ..models.sample import GraphSample
from . import Claim, MissingDataError, Plot, Progress, Report
from .images import segmentation
from .peers.contest import TOL, Run, cutting_plane, timed, to_gap, to_target

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
LIMIT = 60.0  # processor seconds that every learner has for a C
FULL_LIMIT = 300.0  # the same in a full run
QUICK_SECONDS = 1.0  # the same in a quick run
REFERENCE_TOL = 2.5e-3  # relative gap of the bound that defines the common end
PHOTOGRAPH_C = (0.1, 1.0)  # values of C on made photographs
PHOTOGRAPH_SECONDS = 40.0  # of a training on them
MAX_SECONDS = 60.0  # wanted, for all values of C
MAX_ERROR = 3.0  # wanted, in per cent of test pixels
SOLVERS = {"ACP, DAG": AugmentingDAG(), "ACP, TRW-S": TRWS()}
ACP, GPPA, BEST = "ACP, DAG", "GPPA", "BlockFrankWolfe"
OTHERS: dict[str, Learner] = {
    GPPA: ProximalPoint(tol=TOL, lambda_0=2.0, slacks="one", polish=False, inner_tol=TOL, certify=False),
    "ProximalPoint": ProximalPoint(tol=TOL),
}
WANTED = {(ACP, GPPA): 1.0, (ACP, BEST): 20.0, ("ACP, TRW-S", BEST): 10.0}  # ratios of processor time
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
        Five times the limit, for all learners, and ACP with TRW-S as well: about an hour.
    """
    train, validation, test = data(quick)
    limit = QUICK_SECONDS if quick else FULL_LIMIT if full else LIMIT
    solvers = {name: solver for name, solver in SOLVERS.items() if quick or full or name == ACP}
    model, parts = bind(train), (train, validation)
    values = QUICK_C if quick else C_VALUES
    _warm_up(progress)
    runs: dict[float, dict[str, Run]] = {}
    errors, rows = {}, []
    for C in values:
        share = C / model.n_examples
        bound = to_gap(model, share, np.inf, None, REFERENCE_TOL).result.lower_bound
        end = bound / (1.0 - TOL)
        own = {name: cutting_plane(model, share, solver, end, limit) for name, solver in solvers.items()}
        own |= {name: to_target(model, share, learner, end, limit) for name, learner in OTHERS.items()}
        own[BEST] = to_gap(model, share, end, limit)
        runs[C] = own
        w = own[BEST].result.weights
        errors[C] = [error(label(model, w, part.samples), part.truth) for part in parts]
        rows += _rows(C, own, bound, errors[C])
        progress(f"C = {C:g}: " + "; ".join(f"{name} {run}" for name, run in own.items()))
    objective = LPObjective(model, n_jobs=N_JOBS)
    together = timed(
        lambda ends: _worst(path(BlockFrankWolfe(tol=TOL), objective, [C / model.n_examples for C in values])),
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
    claims = [
        Claim("wrong pixels by colour alone: training, test", "", f"{alone[0]:.2f} %, {alone[1]:.2f} %"),
        Claim(f"wrong pixels of test images, C = {C:g} by validation", "", f"{found:.2f} %", None if quick else found <= MAX_ERROR, f"at most {MAX_ERROR:g} %"),
        *(_ratio({C: own}, ACP, GPPA, f"C = {C:g}") for C, own in runs.items()),
        *(_ratio(runs, slow, fast, "all C", None if quick else least) for (slow, fast), least in WANTED.items() if slow in solvers),
        _ratio(runs, GPPA, BEST, "all C"),
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
        f"Every learner runs until its objective is at most L / (1 - {TOL:g}), L a lower bound on the LP-M3N optimum proven beforehand to a relative gap of "
        f"{REFERENCE_TOL:g} (its time is not counted), and has {limit:g} processor seconds for a value of C, all the same, on one thread. '>' stands "
        "before the seconds of what did not get there, and ratios are then bounds. 'above the bound' is 1 - L/F. In the paper GPPA was run to "
        "what ACP had reached, in the same way.",
        f"{BEST} has to prove its gap of {TOL:g} itself as well; {GPPA} proves nothing, as published: one slack, first lambda 2, proximal problems to a relative "
        f"gap of {TOL:g}, no steps between them. ProximalPoint is the same with a model for each tree, TRW-S between steps, and bounds. The objective of ACP has the "
        "bounds of its solver as slacks. Errors: training, validation. DAG: AugmentingDAG. `maxsum reproduce shapes --full` gives "
        f"{FULL_LIMIT:g} s to each, and has ACP with TRW-S too.",
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
        ("C", "learner", "F", "above the bound %", "s", "CPU s", "errors %"),
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
    for solver in SOLVERS.values():
        cutting_plane(model, 0.1, solver, 0.0, QUICK_SECONDS)
    for learner in OTHERS.values():
        to_target(model, 0.1, learner, 0.0, QUICK_SECONDS)
    to_gap(model, 0.1, np.inf, 5.0)
    progress("everything is loaded")


def _worst(results: list[LearningResult]) -> LearningResult:
    return max(results, key=lambda result: result.relative_gap)


def _rows(C: float, runs: dict[str, Run], bound: float, errors: Sequence[float]) -> list[tuple[Any, ...]]:
    """One row a learner."""
    both = "{:.2f}, {:.2f}".format
    return [
        (
            f"{C:g}", name, f"{own.objective:.2f}", f"{100 * (1.0 - bound / own.objective):.2f}", f"{'' if own.done else '>'}{own.seconds:.1f}",
            f"{own.processor:.1f}", both(*errors) if name == BEST else "",
        )
        for name, own in runs.items()
    ]  # fmt: skip


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"


def _ratio(runs: dict[float, dict[str, Run]], slow: str, fast: str, which: str, least: float | None = None) -> Claim:
    """Summed processor seconds of one learner over those of another; a bound where one was stopped, and nothing where both were for some C."""
    what = f"processor time of {slow} over that of {fast}, {which}"
    pairs = [(own[slow], own[fast]) for own in runs.values()]
    times = [sum(own.processor for own in side) for side in zip(*pairs, strict=True)]
    ratio = times[0] / times[1]
    cut = [sum(not own.done for own in side) for side in zip(*pairs, strict=True)]
    stopped = "".join(
        f"; {name} stopped" + (f" for {n} C" if len(pairs) > 1 else "") for name, n in zip((slow, fast), cut, strict=True) if n
    )
    side = {(True, False): "at least ", (False, True): "at most "}.get((cut[0] > 0, cut[1] > 0), "")
    text = f"{side}{ratio:.1f} ({times[0]:.1f} s to {times[1]:.1f} s{stopped})"
    if all(cut):
        text = f"not known ({times[0]:.1f} s and {times[1]:.1f} s{stopped})"
    if least is None:
        return Claim(what, "", text)
    met = ratio >= least
    holds = None if all(cut) or (cut[0] and not met) or (cut[1] and met) else met
    return Claim(what, "", text, holds, f"{least:g} or more")


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
