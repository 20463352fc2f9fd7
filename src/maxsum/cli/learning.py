"""The commands that learn and use what was learned; heavy imports wait inside them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.errors import CertificateError, InvalidParameterError
from .common import CLAIM_FAILED, NOT_CHECKED, OK, UNFINISHED, JsonOption, exit_codes, standard_input, standard_output

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="What `maxsum fit` wrote.")]
DataPath = Annotated[
    Path, typer.Argument(metavar="DATA", help="Data in the form that the model was trained with; - for standard input.")
]
ProgressOption = Annotated[
    bool | None, typer.Option("--progress/--no-progress", help="A live line on stderr; on a terminal by default.")
]
SchedulerOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Shards: a Dask cluster, such as tcp://host:8786.")
]
WorkersOption = Annotated[int | None, typer.Option(metavar="N", min=1, help="Shards: worker processes on this machine.")]


def fit(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[CONFIG] DATA",
            help="DATA: a file of columns (CoNLL), a folder of images with masks, a CSV, Parquet, ARFF or LIBSVM table of samples with "
            "labels, a folder with nodes.csv and edges.csv, or GraphML. CONFIG: settings in a .toml or .json file.",
        ),
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="MODEL", help="Where the model goes.")] = None,
    task: Annotated[
        str | None, typer.Option(help="sequence, image, multilabel or graph; guessed from the data by default.")
    ] = None,
    potentials: Annotated[
        str | None, typer.Option(help="general, supermodular, associative, potts, auto or convex; auto by default.")
    ] = None,
    surrogate: Annotated[
        str | None,
        typer.Option(help="margin, lp, trivial, qp, logistic, likelihood, pseudolikelihood or auto; auto by default."),
    ] = None,
    learner: Annotated[str | None, typer.Option(help="BlockFrankWolfe, CuttingPlane, ...; by surrogate by default.")] = None,
    C: Annotated[
        float | None,
        typer.Option("--C", help="Weight of the slacks against half the squared norm of the weights; 1 by default."),
    ] = None,
    cv: Annotated[bool | None, typer.Option("--cv", help="Choose C by cross-validation; off by default.")] = None,
    Cs: Annotated[
        str | None,
        typer.Option("--Cs", metavar="1,10,...", help="Values to choose from, with --cv; ten from 0.001 to 30 by default."),
    ] = None,
    tol: Annotated[float | None, typer.Option(help="Relative gap at which training stops; 0.001 by default.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Passes over the samples; 1000 by default.")] = None,
    random_state: Annotated[int | None, typer.Option(help="Another seed, another order of samples; 0 by default.")] = None,
    n_jobs: Annotated[int | None, typer.Option(help="Threads; -1 for one a core, and 1 by default.")] = None,
    classes: Annotated[str | None, typer.Option(metavar="a,b,...", help="All classes, where the data may lack some.")] = None,
    labels: Annotated[str | None, typer.Option(metavar="N|first:N|a,b,...", help="Columns of a table that are labels.")] = None,
    edges: Annotated[str | None, typer.Option(metavar="FILE", help="List of edges, where DATA is a table of nodes.")] = None,
    mask: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Names of masks beside images, such as mask-*.png: * is that of the image."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of CONFIG; `maxsum fit --help-settings` lists them."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="S", help="Stop each training after S seconds with the best so far; no limit by default."),
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the state of the training in FILE.")] = None,
    checkpoint_seconds: Annotated[
        float | None, typer.Option(metavar="S", min=0.0, help="Time between checkpoints, 30 by default.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one; MODEL.checkpoint by default.")
    ] = False,
    shards: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="In the place of DATA: a folder that `write_shards` made.")
    ] = None,
    scheduler: SchedulerOption = None,
    workers: WorkersOption = None,
    log: Annotated[Path | None, typer.Option(metavar="FILE", help="A line of JSON for each pass, for `maxsum report`.")] = None,
    proof: Annotated[
        bool, typer.Option("--proof", help="Keep the proof in the model, for `maxsum verify MODEL DATA`.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check/--no-check", help="Check the proof after the model is saved; Ctrl-C ends that without harm."),
    ] = True,
    json: JsonOption = False,
    progress: ProgressOption = None,
    save_data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --proof: the training data as numbers, for `python -m maxsum.check MODEL FILE`."
        ),
    ] = None,
    help_settings: Annotated[
        bool,
        typer.Option("--help-settings", callback=lambda wanted: _settings(wanted), is_eager=True, help="List all settings."),
    ] = False,
) -> None:
    """Learn a classifier from files, prove how good its weights are, and save it. Ctrl-C saves the best so far."""
    from ..progress import LearningLine, Progress
    from . import sharding, show
    from .fitting import N_VALUES, Log, Watch, checked_proof, make_plan, run_fit, save_fitted
    from .options import read_sets
    from .show_learning import fit_json, print_fit

    options = {
        "out": out, "task": task, "potentials": potentials, "surrogate": surrogate, "learner": learner, "C": C, "cv": cv, "Cs": Cs,
        "tol": tol, "max_iter": max_iter, "random_state": random_state, "n_jobs": n_jobs, "classes": classes, "labels": labels, "edges": edges, "mask": mask,
        "time_limit": time_limit,
    }  # fmt: skip
    with exit_codes(), contextlib.ExitStack() as stack:
        if save_data is not None and (shards is not None or not proof):
            raise InvalidParameterError("--save-data is for --proof, and not for --shards; leave it out, or say --proof too.")
        if shards is None:
            plan = make_plan(paths or [], options, read_sets(set_ or []))
            if scheduler is not None or workers is not None:
                raise InvalidParameterError(
                    "--scheduler and --workers are for --shards FOLDER; --n-jobs sets the threads of other data."
                )
        else:
            plan, dataset = sharding.make_shard_plan(paths or [], shards, options, read_sets(set_ or []))
            executor = stack.enter_context(sharding.workers(scheduler, workers))
        place = checkpoint or (plan.out.with_name(plan.out.name + ".checkpoint") if resume else None)
        own = plan.parameters
        n = 1 + own.get("cv", 5) * len(own.get("Cs", range(N_VALUES))) if plan.cv else 1
        line: Any = LearningLine(own.get("tol", 1e-3), n)
        line = line if shards is None else sharding.Traffic(line, executor)
        record = None if log is None else Log(log, plan)
        shown = not json if progress is None else progress
        with Progress(shown, own.get("time_limit"), bool(progress), line) as live:
            watch = Watch(live, record)
            if shards is None:
                fitted = run_fit(plan, watch, place, checkpoint_seconds, resume)
            else:
                fitted = sharding.fit_shards(plan, dataset, executor, watch, place, checkpoint_seconds, resume)
        if record is not None:
            record.close(fitted.estimator.result_.trace)
        if shards is None:
            save_fitted(fitted, plan, place, proof)
            if save_data is not None:
                from ..storage import save_training

                save_training(save_data, fitted.estimator)
        else:
            sharding.save_shards(fitted, plan)
        for words in fitted.warnings:
            typer.echo(f"maxsum: warning: {words}", err=True)
        fitted = checked_proof(fitted, plan, check, shown, bool(progress))
        if fitted.unchecked and check:
            typer.echo(f"maxsum: the model {plan.out} is saved; its proof was not checked ({fitted.unchecked}).", err=True)
        if json:
            show.print_json(fit_json(fitted, plan, place))
        else:
            print_fit(fitted, plan, place)
    raise typer.Exit(UNFINISHED if fitted.unfinished else NOT_CHECKED if fitted.unchecked and check else OK)


def _settings(wanted: bool) -> None:
    if not wanted:
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from .options import keys

    table = Table("setting", "what it is", "for", box=SIMPLE_HEAD)
    for name, key in keys().items():
        table.add_row(name, escape(key.what), "" if len(key.tasks) == 4 else ", ".join(key.tasks))
    Console().print(table)
    raise typer.Exit


def predict(
    model: ModelFile,
    data: DataPath,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Where predictions go, in the form of DATA; a folder for images; - for standard output."
        ),
    ],
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Also write FILE.certificates.jsonl: what is proven for each sample, checked.")
    ] = False,
    solver: Annotated[str | None, typer.Option(metavar="NAME", help="Who predicts; by structure by default.")] = None,
    edges: Annotated[str | None, typer.Option(metavar="FILE", help="List of edges, where DATA is a table of nodes.")] = None,
    keep_known: Annotated[
        bool, typer.Option("--keep-known", help="Graphs: keep labels that DATA has, and label the rest.")
    ] = False,
    scheduler: SchedulerOption = None,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Label new data; results have the form of the data: a column more, label images, labels in the table, shards of labels."""
    from . import sharding, show
    from .fitting import load_fitted
    from .predicting import check_target, summary, write_facts
    from .predicting import predict as run
    from .show_learning import print_predicted

    with exit_codes():
        if sharding.is_sharded(data):
            if certificate or keep_known or solver or edges:
                raise InvalidParameterError(
                    "--certificate, --keep-known, --solver and --edges are not for shards; leave them out."
                )
            labelled = sharding.predict_shards(model, data, out, scheduler, workers)
            words = {"model": str(model), "data": str(data), "out": str(out), "n_samples": labelled.n_samples}
            if json:
                show.print_json(words)
            else:
                print_predicted(out, f"{data}: {labelled.n_samples} samples in {labelled.n_shards} shards", None, None)
            return
        estimator, form, _ = load_fitted(model)
        _with_edges(form, edges)
        piped = str(out) == "-"
        if piped and (json or certificate):
            raise InvalidParameterError("--out is -, standard output, so --json and --certificate have no place; name a file.")
        suffix = stream_suffix(form, "-" in (str(data), str(out)))
        with standard_input(data, suffix) as source, standard_output(out, suffix) as target:
            check_target(target, source, form)
            content = form.read(source, training=False)
            found = run(estimator, form, content, certificate, solver, keep_known)
            form.write(target, content, found.labels)
        if piped:
            return
        file = None
        if found.facts is not None:
            file = out.with_name(out.name + ".certificates.jsonl")
            write_facts(file, found.facts, show._plain)
        proven = None if found.facts is None else summary(found.facts)
        if json:
            content_json = {"model": str(model), "data": str(data), "out": str(out), "n_samples": len(content.names)}
            show.print_json({**content_json, "certificates": None if file is None else str(file), "proven": proven})
        else:
            print_predicted(out, f"{data}: {content.words}", proven, file)


def evaluate(
    model: ModelFile,
    data: DataPath,
    solver: Annotated[str | None, typer.Option(metavar="NAME", help="Who predicts; by structure by default.")] = None,
    edges: Annotated[str | None, typer.Option(metavar="FILE", help="List of edges, where DATA is a table of nodes.")] = None,
    certificate: Annotated[
        bool, typer.Option("--certificate/--no-certificate", help="Also prove how good each prediction is as a labelling.")
    ] = True,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Each tag too, where there are chunks; other data show their classes anyway.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Predict labelled data and say how many labels are right, class by class, and what is proven about the predictions."""
    from . import show
    from .fitting import load_fitted
    from .predicting import predict as run
    from .predicting import summary
    from .scoring import scores
    from .show_learning import print_scores

    with exit_codes():
        estimator, form, _ = load_fitted(model)
        _with_edges(form, edges)
        with standard_input(data, stream_suffix(form, str(data) == "-")) as source:
            content = form.read(source, training=False)
        if content.y is None:
            scores(form, content, None)
        found = run(estimator, form, content, certificate, solver, False)
        numbers = scores(form, content, found.labels)
        proven = None if found.facts is None else summary(found.facts)
        if json:
            show.print_json({"model": str(model), "data": str(data), "task": form.task, **numbers, "proven": proven})
        else:
            print_scores(numbers, proven, content.words, f"{model} on {data}", per_class)


def stream_suffix(form: Any, wanted: bool) -> str:
    """What the name of a file of standard input or output ends in; refused where the data are no single file of text."""
    if wanted and (form.task == "image" or form.task == "graph" or form.settings.get("kind") == "arff"):
        raise InvalidParameterError(f"{form.task} data do not go through pipes; name files.")
    return ".conll" if form.task == "sequence" else ".libsvm" if form.settings.get("kind") == "libsvm" else ".csv"


def _with_edges(form: Any, edges: str | None) -> None:
    if form.task == "graph":
        form.settings["edges"] = edges


def verify_fitted(model: Path, data: Path, json: bool, exact: bool = False) -> None:
    """Recompute objective and lower bound of a model on its training data, and compare all that the file claims with them."""
    from ..storage import read_header, verify_model
    from . import show
    from .fitting import load_fitted

    estimator, form, _ = load_fitted(model)
    content = form.read(data, training=False)
    claimed = read_header(model)["result"]
    proven, fault = None, ""
    try:
        proven = verify_model(estimator, content.X, content.y, exact=exact)
    except CertificateError as error:
        fault = str(error)
    if json:
        show.print_json(
            {"model": str(model), "data": str(data), "holds": proven is not None, "fault": fault or None,
             "claimed": {name: claimed[name] for name in ("objective", "lower_bound", "gap", "relative_gap", "guarantee")},
             "proven": None if proven is None else {"objective": proven.objective, "lower_bound": proven.lower_bound,
                                                    "gap": proven.gap, "checked": proven.checked, "exact": proven.exact}}
        )  # fmt: skip
    else:
        rows = [("claimed objective", f"{claimed['objective']:.10g}"), ("claimed bound", f"{claimed['lower_bound']:.10g}")]
        if proven is None:
            rows.append(("[red]refuted[/]", fault))
        else:
            rows += [("proven objective", f"{proven.objective:.10g}"), ("proven bound", f"{proven.lower_bound:.10g}")]
            rows += [("checked", proven.checked)]
            rows.append(("[green]proven[/]", f"no weights have an objective below {proven.lower_bound:.6g} on these data"))
        show.print_rows("The claims hold" if proven is not None else "A claim does not hold", rows)
    raise typer.Exit(OK if proven is not None else CLAIM_FAILED)


def report(
    source: Annotated[Path, typer.Argument(metavar="MODEL|RUN", help="A model, or the file of `maxsum fit --log`.")],
    data: Annotated[
        Path | None, typer.Argument(metavar="[DATA]", help="Labelled data, for errors and what is proven about them.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="HTML", help="Where the page goes.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Its title.")] = None,
    edges: Annotated[str | None, typer.Option(metavar="FILE", help="List of edges, where DATA is a table of nodes.")] = None,
    json: JsonOption = False,
) -> None:
    """Write one page of HTML: convergence, weights, mistakes, the worst samples, what is proven, how it was made."""
    from . import show
    from .reporting import write_page

    with exit_codes():
        words = write_page(source, data, out, title, edges)
        if json:
            show.print_json({"source": str(source), "data": None if data is None else str(data), "out": str(out)})
        else:
            show.print_rows("Report", [("about", words), ("page", str(out))])


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Benchmarks of the repository; all by default.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="The repository's benchmarks at full size, which takes long.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the benchmarks that are here.")] = False,
    json: JsonOption = False,
) -> None:
    """Measure this machine: benchmarks of the repository if it is here, else a small one built in, beside a peer or a bound."""
    from .benchmark import run_bench

    with exit_codes():
        code = run_bench(names or [], full, list_, json)
    raise typer.Exit(code)
