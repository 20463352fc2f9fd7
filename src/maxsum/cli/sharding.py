"""``maxsum fit --shards``: learn from a folder of shards, here, in worker processes or on a Dask cluster; ``predict`` on shards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.errors import CheckpointError, InvalidParameterError
from ..shards.dataset import MANIFEST, ShardedDataset
from .fitting import Fitted, Plan, check_out, make_plan, train
from .forms import ESTIMATORS, Content


class Traffic:
    """The live line of a training on shards: what `LearningLine` says, and the bytes that were moved between processes."""

    def __init__(self, line: Any, executor: Any):
        self._line, self._executor = line, executor
        self.see = line.see

    def __call__(self, point: Any, time_limit: float | None) -> str:
        moved = self._executor.bytes_sent + self._executor.bytes_received
        return f"{self._line(point, time_limit)}  {moved / 2**20:.0f} MB moved"


def is_sharded(path: Path) -> bool:
    """Whether a path is a folder of shards."""
    return (path / MANIFEST).is_file()


@contextlib.contextmanager
def workers(scheduler: str | None, n_workers: int | None) -> Iterator[Any]:
    """Who works: a Dask cluster, processes of this machine, or this process."""
    from ..executors.base import Processes, Serial, as_executor

    if scheduler is not None and n_workers is not None:
        raise InvalidParameterError("--scheduler and --workers are given; wanted one of them: a cluster has its own workers.")
    with as_executor(scheduler) if scheduler is not None else Processes(n_workers) if n_workers else Serial() as executor:
        yield executor


def make_shard_plan(
    paths: list[Path], folder: Path, options: dict[str, Any], sets: dict[str, Any]
) -> tuple[Plan, ShardedDataset]:
    """The plan of `maxsum fit`, and the shards."""
    dataset = ShardedDataset(folder)
    if options.get("task") not in (None, dataset.kind):
        raise InvalidParameterError(
            f"--task is {options['task']}, but the shards hold samples of kind {dataset.kind}; leave it out."
        )
    plan = make_plan([*paths, folder], {**options, "task": dataset.kind}, sets)
    if plan.cv:
        raise InvalidParameterError(
            "--cv is given with --shards; choose C on a part of the data in memory, then give it as --C."
        )
    if plan.reader:
        raise InvalidParameterError(
            f"{next(iter(plan.reader))} is a setting of readers; shards have been read already. Leave it out."
        )
    return plan, dataset


def fit_shards(
    plan: Plan,
    dataset: ShardedDataset,
    executor: Any,
    callback: Any,
    checkpoint: Path | None,
    seconds: float | None,
    resume: bool,
) -> Fitted:
    """Learn; the caller saves, and lets the proof be checked shard by shard."""
    import maxsum

    check_out(plan.out, plan.data)
    if checkpoint is not None and not resume and checkpoint.is_dir() and any(checkpoint.iterdir()):
        raise CheckpointError(f"the checkpoint folder {checkpoint} is not empty. Say --resume to go on from it, or remove it.")
    own = dict(plan.parameters)
    estimator = getattr(maxsum, ESTIMATORS[dataset.kind])().set_params(**own)
    told = train(estimator, (dataset,), callback, checkpoint, seconds, executor=executor)
    result = estimator.result_
    words = f"{dataset.n_samples} samples of kind {dataset.kind} in {dataset.n_shards} shards"
    if "rounds" in result.extra:
        moved = result.extra["bytes_sent"] + result.extra["bytes_received"]
        words += f"; {result.extra['rounds']} rounds, {moved / 2**20:.1f} MB moved"
    content = Content(dataset, None, [""] * dataset.n_samples, None, words)
    form: Any = None
    return Fitted(estimator, form, content, told)


def save_shards(fitted: Fitted, plan: Plan) -> None:
    """Write the model; its checkpoint folder stays, for it holds the planes that prove the bound."""
    import maxsum

    fitted.estimator.set_params(callback=None, checkpoint=None)
    maxsum.save_model(fitted.estimator, plan.out, notes={"trained_on": {"name": plan.data.name, "words": fitted.content.words}})


def predict_shards(model: Path, folder: Path, out: Path, scheduler: str | None, n_workers: int | None) -> ShardedDataset:
    """Label shards, as shards of labels."""
    import maxsum

    estimator, dataset = maxsum.load_model(model), ShardedDataset(folder)
    with workers(scheduler, n_workers) as executor:
        return estimator.predict_shards(dataset, out, executor)  # type: ignore[no-any-return]
