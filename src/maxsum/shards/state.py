"""What a shard remembers between visits: its planes with their multipliers before and after the last one, in a file of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..kernels.planes import drop_all
from ..kernels.records import Planes
from ..learning.checkpoint import load_arrays, save_arrays
from ..learning.dual.planes import PlaneStore, ranges
from ..learning.oracles.relaxed import Relaxed

_SPARE = 4  # planes an example that a visit can add before arrays are copied: it adds about one a pass
_OLD = 10  # visits without weight after which a plane is dropped, as in the store of planes in memory


def state_path(folder: str | Path, shard: int, version: int) -> Path:
    """Where the state of a shard after round ``version`` is."""
    return Path(folder, f"shard-{shard:06d}-{version:08d}")


def write_state(
    folder: str | Path,
    origin: Mapping[str, Any],
    shard: int,
    version: int,
    state: Mapping[str, np.ndarray],
    keep: Iterable[int],
    durable: bool = True,
) -> None:
    """Write a state, whole or not at all, then remove those of rounds that are not in ``keep``; see `atomic` for ``durable``.

    Raises
    ------
    OSError
        If there is no room; older states are as they were.
    """
    path = state_path(folder, shard, version)
    try:
        save_arrays(path, {**origin, "shard": shard, "version": version}, state, durable)
    except OSError as error:
        raise OSError(
            error.errno,
            f"the state of shard {shard} was not written: {error.strerror or error}. The last one is intact; make room and run the "
            "same call with the same checkpoint to go on",
            str(path),
        ) from error
    kept = {version, *keep}
    for other in Path(folder).glob(f"shard-{shard:06d}-*"):
        if other.name.rsplit("-", 1)[1].isdigit() and int(other.name.rsplit("-", 1)[1]) not in kept:
            with contextlib.suppress(OSError):
                os.unlink(other)


def read_state(folder: str | Path, origin: Mapping[str, Any], shard: int, version: int) -> dict[str, np.ndarray]:
    """The state that `write_state` wrote.

    Raises
    ------
    CheckpointError
        If it is missing, damaged, or of another training.
    """
    return load_arrays(state_path(folder, shard, version), {**origin, "shard": shard, "version": version})


def pack(store: PlaneStore, used_before: np.ndarray, alpha_before: np.ndarray) -> dict[str, np.ndarray]:
    """The planes in use, without spare room; ``alpha_before`` are the multipliers of the first ``used_before`` planes of each example,
    as `packed_alpha` gave them before the visit."""
    planes, used = store.planes, store.planes.used
    slots = ranges(planes.slot_ptr[:-1], used)
    pool = planes.pool[ranges(planes.pool_ptr[:-1], used * store.sizes)]
    ends = np.cumsum(used)
    before = np.zeros(len(slots))
    before[ranges(ends - used, used_before)] = alpha_before
    relaxed = [key.pack() for key in store.relaxed.values()]
    return {
        "used": used.astype(np.int32),
        "alpha": planes.alpha[slots],
        "before": before,
        "offset": planes.offset[slots],
        "age": planes.age[slots].astype(np.int32),
        "pool": pool.astype(_narrow(pool)),
        "gram": planes.gram[ranges(*_gram_rows(planes, used))],
        "vector": planes.vector[slots] if store.explicit else planes.vector,
        "relaxed_number": np.array(list(store.relaxed), dtype=np.int64),
        "relaxed_ptr": np.cumsum([0] + [len(row) for row in relaxed]),
        "relaxed": np.concatenate([np.zeros(0), *relaxed]),
    }


def packed_alpha(store: PlaneStore) -> np.ndarray:
    """Multipliers of the planes in use, example after example."""
    return store.planes.alpha[ranges(store.planes.slot_ptr[:-1], store.planes.used)]


def offset_sum(store: PlaneStore) -> float:
    r""":math:`\sum_i \alpha_i b_i` of all planes."""
    slots = ranges(store.planes.slot_ptr[:-1], store.planes.used)
    return float((store.planes.alpha[slots] * store.planes.offset[slots]).sum())


def unpack(store: PlaneStore, state: Mapping[str, np.ndarray], gamma: float) -> None:
    r"""Planes of a state with the multipliers :math:`\alpha + \gamma(\alpha' - \alpha)` between before and after its visit.

    Planes that have had no weight for long are dropped.
    """
    used = state["used"].astype(np.int64)
    store.capacity = np.maximum(used + _SPARE, 2)
    planes = store.planes = store._allocate(store.capacity)
    planes.used[:] = used
    slots = ranges(planes.slot_ptr[:-1], used)
    before, after = state["before"], state["alpha"]
    planes.alpha[slots] = after if gamma == 1.0 else np.maximum(before + gamma * (after - before), 0.0)
    planes.offset[slots], planes.age[slots] = state["offset"], state["age"]
    planes.pool[ranges(planes.pool_ptr[:-1], used * store.sizes)] = state["pool"]
    planes.gram[ranges(*_gram_rows(planes, used))] = state["gram"]
    if store.explicit:
        planes.vector[slots] = state["vector"]
    store.scratch = store.objective.new_scratch(int(store.capacity.max(initial=1)))
    rows = np.split(state["relaxed"], state["relaxed_ptr"][1:-1]) if len(state["relaxed_number"]) else []
    store.relaxed = {int(i): Relaxed.unpack(row) for i, row in zip(state["relaxed_number"], rows, strict=True)}
    drop_all(store.objective.design, planes, np.where(used <= store.max_planes, _OLD, 0))


def _gram_rows(planes: Planes, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the products of each plane in use start, and how many they are."""
    number = ranges(np.zeros_like(used), used)
    starts = np.repeat(planes.gram_ptr[:-1], used) + number * np.repeat(np.diff(planes.slot_ptr), used)
    return starts, np.repeat(used, used)


def _narrow(array: np.ndarray) -> Any:
    """The smallest integer type that holds all numbers."""
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    return next(kind for kind in (np.int8, np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
