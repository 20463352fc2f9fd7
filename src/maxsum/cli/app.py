"""The commands. Whatever takes long to import is imported inside them, so that ``--help`` is quick."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import CertificateError, InvalidParameterError
from ..core.result import Guarantee, Result
from .common import (
    CLAIM_FAILED,
    EXIT_CODES,
    INFEASIBLE,
    NO_LABELLING,
    NOT_CHECKED,
    OK,
    JsonOption,
    exit_codes,
    is_model,
)
from .datasets import datasets
from .inspecting import show as show_learned
from .learning import bench, evaluate, fit, predict, report, verify_fitted

if TYPE_CHECKING:
    from ..core.problem import Problem

app = typer.Typer(
    help="Max-sum problems and classifiers, every answer with a proof of how good it is.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(datasets, name="datasets")
for command in (fit, predict, evaluate, report, bench):
    app.command(epilog=EXIT_CODES)(command)
app.command("show", epilog=EXIT_CODES)(show_learned)


class Values(StrEnum):
    """What the numbers in a file are."""

    costs = "costs"
    probabilities = "probabilities"
    scores = "scores"


ProblemFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The problem: .npz, .uai, .wcsp or .cfn, perhaps with .gz, .xz or .bz2.")
]
ValuesOption = Annotated[Values | None, typer.Option(help="What the numbers of a .uai file are; probabilities by default.")]
FormatOption = Annotated[str | None, typer.Option(metavar="NAME", help="Format of the file; its name decides by default.")]
EvidenceOption = Annotated[
    str | None,
    typer.Option(metavar="FILE|auto", help="Known values of variables (UAI .evid); auto takes the file beside the problem."),
]
LimitOption = Annotated[float | None, typer.Option(metavar="S", min=0.0, help="Stop after S seconds with the best so far.")]


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"maxsum {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


def _read(file: Path, format: str | None, values: Values | None, evidence: str | None = None) -> Problem:
    import maxsum

    return maxsum.read_problem(file, format=format, values=None if values is None else values.value, evidence=evidence)


def _code(result: Result) -> int:
    if result.guarantee == Guarantee.infeasible:
        return INFEASIBLE
    return NO_LABELLING if result.labels is None else OK


@app.command(epilog=EXIT_CODES)
def solve(
    file: ProblemFile,
    solver: Annotated[str | None, typer.Option(metavar="NAME", help="A solver that `maxsum info FILE` lists.")] = None,
    gap: Annotated[float | None, typer.Option(metavar="G", min=0.0, help="Stop at a proven relative gap of G.")] = None,
    time_limit: LimitOption = None,
    k: Annotated[
        int, typer.Option("--k", metavar="K", min=1, help="The K best labellings, with the proof of their order.")
    ] = 1,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of the solver, as max_iter=500; may be repeated.")
    ] = None,
    values: ValuesOption = None,
    format: FormatOption = None,
    evidence: EvidenceOption = None,
    json: JsonOption = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="ANSWER", help="Write labelling and proof for `maxsum verify`; or FILE.MPE, the labelling."),
    ] = None,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="A live line on stderr; on a terminal by default.")
    ] = None,
) -> None:
    """Find the best labelling of a problem, and prove how good it is. Ctrl-C gives the best so far."""
    from ..core.files.uai_answers import MPE, answer_kind, write_mpe
    from ..progress import Progress
    from . import show
    from .questions.commands import chosen_solver, show_k_best

    with exit_codes():
        problem = _read(file, format, values, evidence)
        chosen = chosen_solver(solver, option or [])
        if k > 1:
            if chosen is not None:
                raise InvalidParameterError("--k chooses its own way; leave --solver out.")
            raise typer.Exit(show_k_best(problem, k, gap, time_limit, file, json, out, _in_costs(file, format, values)))
        with Progress(not json if progress is None else progress, time_limit, force=bool(progress)) as line:
            result = _solve(problem, chosen, time_limit, line, gap)
        if out is not None and answer_kind(out) == MPE:
            write_mpe(out, result.labels)
        elif out is not None:
            from ..core.certificates.answers import save_answer

            save_answer(out, result)
        if json:
            show.print_json(show.result_json(problem, result, file, costs=_in_costs(file, format, values)))
        else:
            show.print_result(problem, result, file, costs=_in_costs(file, format, values))
    raise typer.Exit(_code(result))


def _solve(problem: Problem, solver: Any, time_limit: float | None, callback: Any, gap: float | None = None) -> Result:
    from .. import inference

    return inference.solve(problem, solver, gap=gap, time_limit=time_limit, callback=callback)


def _in_costs(file: Path, format: str | None, values: Values | None) -> bool:
    """Whether whoever wrote the file thinks in costs."""
    from ..core.files import holds_costs

    return holds_costs(file, format=format, values=None if values is None else values.value)


@app.command(epilog=EXIT_CODES)
def verify(
    file: ProblemFile,
    answer: Annotated[Path, typer.Argument(metavar="ANSWER", help="What `maxsum solve --out` wrote.")],
    exact: Annotated[bool, typer.Option("--exact", help="Recompute in rational arithmetic, without any rounding.")] = False,
    values: ValuesOption = None,
    format: FormatOption = None,
    evidence: EvidenceOption = None,
    json: JsonOption = False,
) -> None:
    """Check an answer: recompute its score from the labels and its bound from the certificate, without the solvers.

    Or check a model: `maxsum verify MODEL DATA` recomputes objective and lower bound on the data it was trained on (fit --proof)."""
    from ..core.certificates.answers import read_answer
    from . import show

    with exit_codes():
        if is_model(file):
            return verify_fitted(file, answer, json, exact)
        problem = _read(file, format, values, evidence)
        claim = read_answer(answer, problem)
        try:
            proven, fault = claim.verify(problem, exact=exact), ""
        except CertificateError as error:
            proven, fault = None, str(error)
        if json:
            show.print_json(show.verification_json(claim, proven, fault, file, answer))
        else:
            show.print_verification(claim, proven, fault, costs=_in_costs(file, format, values))
    raise typer.Exit(OK if proven is not None else CLAIM_FAILED)


class Marginals(StrEnum):
    """How probabilities are found."""

    auto = "auto"
    gibbs = "gibbs"


class Sampling(StrEnum):
    """How labellings are drawn."""

    exact = "exact"
    gibbs = "gibbs"


SeedOption = Annotated[int | None, typer.Option("--random-state", metavar="N", min=0, help="For the same draws again.")]


@app.command(epilog=EXIT_CODES)
def marginals(
    file: ProblemFile,
    method: Annotated[Marginals, typer.Option(help="auto is exact where that is possible; gibbs samples.")] = Marginals.auto,
    random_state: SeedOption = None,
    time_limit: LimitOption = None,
    values: ValuesOption = None,
    format: FormatOption = None,
    evidence: EvidenceOption = None,
    json: JsonOption = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write FILE.MAR (probabilities) or FILE.PR (log10 of Z).")
    ] = None,
) -> None:
    """Probabilities of the labels of each node, and the logarithm of the sum of all exponentiated scores; exact where possible."""
    from .questions.commands import show_marginals

    with exit_codes():
        show_marginals(_read(file, format, values, evidence), method.value, random_state, time_limit, file, json, out)


@app.command(epilog=EXIT_CODES)
def sample(
    file: ProblemFile,
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="How many labellings.")] = 1,
    method: Annotated[
        Sampling, typer.Option(help="exact refuses graphs that are too wide; gibbs is never exact.")
    ] = Sampling.exact,
    random_state: SeedOption = None,
    values: ValuesOption = None,
    format: FormatOption = None,
    evidence: EvidenceOption = None,
    json: JsonOption = False,
) -> None:
    """Draw labellings with their probabilities."""
    from .questions.commands import show_samples

    with exit_codes():
        show_samples(_read(file, format, values, evidence), n, method.value, random_state, file, json)


@app.command(epilog=EXIT_CODES)
def info(
    file: ProblemFile,
    values: ValuesOption = None,
    format: FormatOption = None,
    evidence: EvidenceOption = None,
    json: JsonOption = False,
) -> None:
    """Show the size and structure of a problem and which solvers take it; or what a model of `maxsum fit` says about itself."""
    from . import show

    with exit_codes():
        if is_model(file):
            return _model_info(file, json)
        from ..inference import list_solvers

        problem = _read(file, format, values, evidence)
        costs = _in_costs(file, format, values)
        if json:
            show.print_json(show.info_json(problem, list_solvers(problem), file, costs=costs))
        else:
            show.print_info(problem, list_solvers(problem), file, costs=costs)


def _model_info(file: Path, json: bool) -> None:
    from ..storage import read_header
    from . import show
    from .show_learning import print_model

    header = read_header(file)
    if json:
        show.print_json({"file": str(file), **header})
    else:
        print_model(header, file)


@app.command(epilog=EXIT_CODES)
def demo(
    size: Annotated[int, typer.Option(min=8, max=1024, help="Height and width of the new image.")] = 96,
    labels: Annotated[int, typer.Option(min=2, max=8, help="Number of classes.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other images.")] = 0,
    out: Annotated[Path, typer.Option(metavar="PNG", help="Where the picture goes.")] = Path("demo.png"),
    time_limit: LimitOption = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Check the proof of the weights, after all is drawn.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Learn to clean noisy images, clean a new one, prove how good weights and labelling are, and draw it."""
    from ..progress import Progress, learning_line
    from . import show
    from .demo import checked_weights, draw, learn, noisy_image

    with exit_codes():
        image = noisy_image(size, labels, seed)
        with Progress(not json, time_limit, describe=learning_line) as line:
            learned = learn(labels, seed, time_limit, line)
        problem = learned.problem(image)
        with Progress(not json, time_limit) as line:
            result = _solve(problem, None, time_limit, line)
        verified = None if result.certificate is None else result.certificate.verify(problem, result.labels)
        pixel_labels = learned.pixel_labels(image)
        if result.labels is not None:
            draw(image, pixel_labels, result, out)
        learned = checked_weights(learned, check, not json, time_limit)
        facts = show.Demo(image, learned, pixel_labels, problem, result, verified, out)
        if json:
            show.print_json(show.demo_json(facts))
        else:
            show.print_demo(facts)
    raise typer.Exit(_code(result) or (NOT_CHECKED if learned.unchecked and check else OK))


@app.command(epilog=EXIT_CODES)
def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The experiment, or `all`; without it, those that exist are listed.")
    ] = "",
    table: Annotated[int | None, typer.Option(metavar="N", help="One of its published tables alone, by number.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small part of it, for a look.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The complete protocol, which may take an hour.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write a page with tables, plots and notes there.")] = None,
    json: JsonOption = False,
) -> None:
    """Run a published experiment again, or all of them: the published numbers beside ours; exit code 1 if a claim fails."""
    from .reproduce import list_experiments, run_all, run_experiment

    with exit_codes():
        if name == "all":
            failed = run_all(quick, json, full, out)
        else:
            failed = run_experiment(name, quick, json, table, full, out) if name else list_experiments(json)
    raise typer.Exit(CLAIM_FAILED if failed else OK)
