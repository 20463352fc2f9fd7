"""``maxsum fit``: learn from files, with checkpoints, and save a model that knows how to read more of them."""

from __future__ import annotations

import contextlib
import glob
import json
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import CertificateError, CheckpointError, CheckTimeout, InvalidParameterError, MaxsumError
from ..core.parameters import OneOf, check_value
from ..core.result import Termination
from ..progress import Progress, check_line
from .forms import TASKS, Content, Form, guess_task, make_form
from .options import CONFIGS, checked, read_config, split_settings

N_VALUES = 10
# Seconds of a check though training has used up all of --time-limit: an unchecked proof is worth less than a command that ends
# a little earlier.
_LEAST_SECONDS = 2.0
_LEAST_SHARE = 0.25  # the same as a share of the limit: most checks end in less than a quarter of the time of their training


class Plan(NamedTuple):
    """What to learn from, where the model goes, and how."""

    data: Path
    out: Path
    task: str
    parameters: dict[str, Any]
    reader: dict[str, Any]
    cv: bool


class Fitted(NamedTuple):
    """A training that has ended; ``verified`` is what the check of its proof found, or ``unchecked`` says why there is none."""

    estimator: Any
    form: Form
    content: Content
    warnings: list[str]
    verified: Any = None
    unchecked: str = ""

    @property
    def unfinished(self) -> bool:
        """Whether it ended before its tolerance."""
        return self.estimator.result_.termination not in (Termination.converged, Termination.stalled) and bool(
            self.estimator.result_.relative_gap > 1e-9
        )


def make_plan(paths: list[Path], options: dict[str, Any], sets: dict[str, Any]) -> Plan:
    """Settings of the CONFIG file, then ``--set``, then options: what comes later wins."""
    config = paths[0] if paths and paths[0].suffix.lower() in CONFIGS and (len(paths) == 2 or paths[0].is_file()) else None
    rest = paths[1:] if config is not None else paths
    if len(paths) == 2 and config is None:
        raise InvalidParameterError(f"{paths[0]} is no CONFIG file; wanted .toml or .json before the data.")
    if len(rest) > 1 or len(paths) > 2:
        raise InvalidParameterError(f"there are {len(paths)} files, wanted DATA, or CONFIG and DATA.")
    given = checked({} if config is None else read_config(config))
    base = Path() if config is None else config.parent
    settings = given | checked(sets) | checked(options)
    data = rest[0] if rest else None if "data" not in given else base / given["data"]
    if data is None:
        raise InvalidParameterError("there are no data to learn from; wanted maxsum fit DATA, or data = ... in CONFIG.")
    if "edges" in given and "edges" not in {**checked(sets), **checked(options)}:
        settings["edges"] = str(base / given["edges"])
    out = options.get("out") or (str(base / given["out"]) if "out" in given else None)
    if out is None:
        raise InvalidParameterError("where does the model go? Say --out MODEL.")
    task = settings.get("task") or guess_task(data, settings)
    check_value("task", task, OneOf(*TASKS))
    parameters, reader = split_settings(settings, task)
    cv = bool(settings.get("cv", "Cs" in parameters))
    if cv and "C" in parameters:
        raise InvalidParameterError(
            "C is given beside cv, which chooses it; leave one of them out, or give values to choose from as Cs."
        )
    if not cv and (extra := {"Cs", "cv", "cv_tol", "scoring", "folds"} & set(parameters)):
        raise InvalidParameterError(f"{', '.join(sorted(extra))} given without cv; say --cv to choose C.")
    return Plan(data, Path(out), task, parameters, reader, cv)


def check_out(out: Path, data: Path) -> None:
    """Refuse, before hours of training, what cannot be written."""
    if out.is_dir():
        raise InvalidParameterError(f"{out} is a folder, wanted the name of a file for the model.")
    if not out.absolute().parent.is_dir():
        raise FileNotFoundError(2, "the folder does not exist; make it first", str(out.absolute().parent))
    if out.exists() and data.exists() and out.samefile(data):
        raise InvalidParameterError(f"the model would replace the data {data}; name another file.")


def checkpoint_files(path: Path) -> list[Path]:
    """The checkpoint, and those of folds."""
    near = path.parent.glob(f"{glob.escape(path.name)}.*") if path.parent.is_dir() else []
    return [own for own in [path, *sorted(near)] if own.is_file() and _is_ours(own, path)]


def _is_ours(own: Path, path: Path) -> bool:
    rest = own.name.removeprefix(path.name)
    return rest == "" or rest.startswith(".fold") or rest == ".second"


def run_fit(
    plan: Plan, callback: Any, checkpoint: Path | None, seconds: float | None, resume: bool, loaded: Any = None
) -> Fitted:
    """Read and learn; the caller saves, then lets `checked_proof` look at the proof."""
    check_out(plan.out, plan.data)
    if checkpoint is not None and not resume and (old := checkpoint_files(checkpoint)):
        raise CheckpointError(f"the checkpoint {old[0]} exists. Say --resume to go on from it, or remove it.")
    form = make_form(plan.task, plan.reader)
    content = form.read(plan.data, training=True)
    if loaded is not None:
        loaded(content)
    estimator = make_estimator(plan, form, content)
    return Fitted(estimator, form, content, train(estimator, (content.X, content.y), callback, checkpoint, seconds))


def train(
    estimator: Any, data: tuple[Any, ...], callback: Any, checkpoint: Path | None, seconds: float | None, **more: Any
) -> list[str]:
    """Fit an estimator, which SIGTERM and Ctrl-C end with the best so far; returns the words of its warnings."""
    if seconds is not None and checkpoint is None:
        raise InvalidParameterError(
            "--checkpoint-seconds is given, but no checkpoint; wanted --checkpoint FILE or --resume with it."
        )
    if checkpoint is not None:
        estimator.set_params(checkpoint=str(checkpoint), **({} if seconds is None else {"checkpoint_seconds": seconds}))
    estimator.set_params(callback=callback)
    with warnings.catch_warnings(record=True) as caught, terminable():
        warnings.simplefilter("always")
        estimator.fit(*data, **more)
    return [str(own.message) for own in caught if issubclass(own.category, UserWarning)]


def checked_proof(fitted: Fitted, plan: Plan, wanted: bool = True, progress: bool = False, force: bool = False) -> Fitted:
    """The training with its proof checked, in what is left of the time limit, or with the reason why it is not.

    Parameters
    ----------
    wanted : bool
        False: the user said ``--no-check``.
    progress, force : bool
        Of the line on stderr, see `Progress`.

    Raises
    ------
    CertificateError
        If a claim does not hold; the model is on disk already.
    """
    if not wanted:
        return fitted._replace(unchecked="--no-check")
    result = fitted.estimator.result_
    seconds = check_seconds(plan.parameters.get("time_limit"), result.seconds)
    try:
        verified, why = check(result, fitted.estimator.objective_, progress, seconds, force)
    except CertificateError as error:
        raise CertificateError(f"{error} The model {plan.out} is saved, but do not trust what it claims.") from error
    return fitted._replace(verified=verified, unchecked=why)


def check_seconds(time_limit: float | None, used: float) -> float | None:
    """How long a check may take: what training has left of the limit, but at least a quarter of it and 2 seconds."""
    return None if time_limit is None else max(time_limit - used, _LEAST_SHARE * time_limit, _LEAST_SECONDS)


def check(
    result: Any, objective: Any, progress: bool = False, seconds: float | None = None, force: bool = False
) -> tuple[Any, str]:
    """What the check of a proof finds (None without a proof), or why it did not end; Ctrl-C and SIGTERM stop it."""
    if result.certificate is None:
        return None, ""
    try:
        with terminable(), Progress(progress, seconds, force, check_line, "checking the proof") as live:
            return result.verify(objective, progress=lambda done, n: live((done, n)), time_limit=seconds), ""
    except KeyboardInterrupt:
        return None, "interrupted"
    except CheckTimeout:
        return None, f"time limit: it did not end in {seconds:.3g} s"


def make_estimator(plan: Plan, form: Form, content: Content) -> Any:
    """The estimator of the task with the parameters of the plan."""
    import maxsum

    own = dict(plan.parameters)
    if plan.task == "image":
        found = {int(label) for mask in content.y for label in np.unique(mask)} - {-1}
        own["classes"] = [as_int(label) for label in own["classes"]] if "classes" in own else sorted(found)
    if plan.task in ("sequence", "graph") and "classes" in own:
        own["classes"] = [str(label) for label in own["classes"]]
    if plan.reader.get("min_count") is not None:
        own["features"] = maxsum.models.Dicts(min_count=plan.reader["min_count"])
    estimator = getattr(maxsum, form.estimator + ("CV" if plan.cv else ""))()
    names = set(estimator.get_params(deep=False))
    for name in own:
        if name not in names:
            raise InvalidParameterError(
                f"{name} is no parameter of {type(estimator).__name__}; leave it out for {plan.task} data."
            )
    return estimator.set_params(**own)


def as_int(label: Any) -> int:
    """A class as a whole number, as palettes and grey levels have them."""
    try:
        return int(label)
    except ValueError:
        raise InvalidParameterError(f"classes name {label!r}, wanted whole numbers, as of palettes and grey levels.") from None


def save_fitted(fitted: Fitted, plan: Plan, checkpoint: Path | None, proof: bool = False) -> None:
    """Write the model; a finished training needs its checkpoint no more."""
    import maxsum

    fitted.estimator.set_params(callback=None, checkpoint=None)
    notes = {
        "task": plan.task,
        "reader": {name: value for name, value in fitted.form.settings.items() if name != "edges"},
        "trained_on": {"name": plan.data.name, "words": fitted.content.words},
    }
    maxsum.save_model(fitted.estimator, plan.out, notes=notes, certificate=proof)
    if checkpoint is not None and not fitted.unfinished:
        torn = checkpoint.parent.glob(f".{glob.escape(checkpoint.name)}*.part")  # what a kill in the midst of writing leaves
        for path in [*checkpoint_files(checkpoint), *torn]:
            path.unlink(missing_ok=True)


def load_fitted(path: Path) -> tuple[Any, Form, dict[str, Any]]:
    """The estimator of a model, the form of its data, and its notes."""
    import maxsum
    from maxsum.storage import read_header

    notes = read_header(path).get("notes") or {}
    estimator = maxsum.load_model(path)
    try:
        form = make_form(notes["task"], notes["reader"])
    except (KeyError, TypeError):
        raise MaxsumError(
            f"{path} does not say how its data are read: it was not written by `maxsum fit`. Load it in Python: maxsum.load_model."
        ) from None
    return estimator, form, notes


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end a training as Ctrl-C does: with the best so far."""
    try:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Log:
    """A file with a line of JSON for each pass, for `maxsum report RUN` while the training goes on."""

    def __init__(self, path: Path, plan: Plan):
        self._file, self._last = path.open("w", encoding="utf-8"), 0
        self._write({"maxsum": "run", "data": plan.data.name, "task": plan.task, "tol": plan.parameters.get("tol", 1e-3)})

    def __call__(self, point: Any) -> None:
        self._last = point.iteration
        self._write(
            {
                "iteration": point.iteration,
                "seconds": point.seconds,
                "objective": point.objective if np.isfinite(point.objective) else None,
                "lower_bound": point.lower_bound if np.isfinite(point.lower_bound) else None,
                "n_oracle_calls": point.n_oracle_calls,
            }
        )

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self, trace: Sequence[Any]) -> None:
        """Add the pass that ended the training, which no callback sees."""
        if trace and trace[-1].iteration != self._last:
            self(trace[-1])
        self._file.close()


class Watch:
    """The callback of a training: the live line and the log."""

    def __init__(self, line: Any, log: Log | None):
        self._line, self._log, self.started = line, log, time.monotonic()

    def __call__(self, point: Any) -> bool:
        if self._log is not None:
            self._log(point)
        return bool(self._line(point))
