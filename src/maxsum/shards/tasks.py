"""What workers do for a training on shards. A task reads the shard and its state, works, and writes the next state: it can run again
on any worker, with the same result bit for bit."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..executors.base import Executor
from ..kernels.vectors import inner
from ..learning.dual.planes import PlaneStore
from ..learning.learners.block_frank_wolfe import Ascent, BlockFrankWolfe
from ..learning.objectives.margin import MarginObjective
from ..learning.oracles.base import Effort
from ..models.cone import Cone
from .state import offset_sum, pack, packed_alpha, read_state, unpack, write_state

# Passes over a shard in one visit: beyond it, its planes follow weights that the other shards no longer have.
_MOST_ROUNDS = 10


class ShardSource(Protocol):
    """A training set in shards, as workers get it: small to send, it reads shards where it is.

    Attributes
    ----------
    sizes : ndarray of int64
        Examples of each shard.
    cone : Cone
    surrogate : str
    token : str
        The same for all copies of this source, and for no other.
    """

    token: str

    @property
    def sizes(self) -> np.ndarray: ...

    @property
    def cone(self) -> Cone: ...

    @property
    def surrogate(self) -> str: ...

    def check(self, shard: int) -> None:
        """Raise an error if the data of a shard have changed."""

    def objective(self, shard: int) -> Any:
        """The objective of one shard with any C: a source has none, whoever opens the shard sets it (see `shard_objective`)."""

    def digest(self) -> bytes:
        """What tells these data, model and loss from others."""


@dataclass(frozen=True)
class Job:
    """A training, as tasks see it: the data, where states are kept, and how to work on a shard.

    ``C`` is that of the objective when the training began. Each visit asks the oracle for one of ``parts`` parts of the examples, or for more until ``least_work`` operations are done;
    ``memory`` are bytes of shards that a worker keeps open; states are ``durable`` if they outlive the training.
    """

    source: Any
    folder: str
    origin: dict[str, Any]
    C: float
    local: BlockFrankWolfe = field(default_factory=BlockFrankWolfe)
    seed: int = 0
    parts: int = 1
    least_work: float = 0.0
    memory: int = 2**28
    durable: bool = True


class Place(NamedTuple):
    """A shard in a task: the round of its last state (-1: none), the step that was taken then, and states to be kept."""

    shard: int
    version: int
    gamma: float
    keep: tuple[int, ...] = ()


class Sum(NamedTuple):
    """What shards return, summed up: a vector, scalars, and facts of each shard in order."""

    vector: np.ndarray
    scalars: np.ndarray
    facts: tuple[Any, ...]

    def __add__(self, other: Sum) -> Sum:  # type: ignore[override]
        return Sum(self.vector + other.vector, self.scalars + other.scalars, self.facts + other.facts)


def tree_nodes(n_items: int, n_groups: int) -> list[tuple[int, int]]:
    """Ranges of items, each a node of the fixed binary tree over all of them: at least ``n_groups``, if there are so many items."""
    nodes = [(0, n_items)]
    while len(nodes) < n_groups:
        a, b = max(nodes, key=lambda node: (node[1] - node[0], -node[0]))
        if b - a < 2:
            break
        at = nodes.index((a, b))
        nodes[at : at + 1] = [(a, (a + b) // 2), ((a + b) // 2, b)]
    return nodes


def tree_sum(first: int, last: int, leaf: Callable[[int, int], Any | None]) -> Any:
    """The sum over the binary tree of items ``first .. last - 1``; ``leaf`` gives nodes that are known, None for others."""
    found = leaf(first, last)
    if found is not None:
        return found
    middle = (first + last) // 2
    return tree_sum(first, middle, leaf) + tree_sum(middle, last, leaf)


def gather(
    executor: Executor, function: Any, n_items: int, item: Any, shared: Any, name: str, n_groups: int | None = None
) -> Any:
    """The sum over the fixed tree of ``n_items`` items, of which ``item(first, last)`` makes tasks; items near each other go to the same
    worker, in this call and in the next. By default there are a few tasks for each worker, as the vectors that they return are in
    memory at the same time."""
    nodes = tree_nodes(n_items, n_groups or 4 * executor.n_workers)
    names = [f"{name}-{a}-{b - 1}" for a, b in nodes]
    homes = [executor.n_workers * i // len(nodes) for i in range(len(nodes))]
    found = executor.run(function, [item(a, b) for a, b in nodes], names, shared, homes)
    known = dict(zip(nodes, found, strict=True))
    return tree_sum(0, n_items, lambda a, b: known.get((a, b)))


def group(function: Callable[..., Sum], items: Sequence[Any], shared: Any) -> Sum:
    """The sum of ``function(item, shared)``, in the order of the tree."""
    return tree_sum(0, len(items), lambda a, b: function(items[a], shared) if b - a == 1 else None)


def visit_group(item: tuple[Job, int, list[Place]], shared: Any) -> Sum:
    """`visit` some shards of a round."""
    job, number, places = item
    return group(lambda place, _: visit(job, number, place, shared), places, shared)


def evaluate_group(item: tuple[Job, list[Place], float, tuple[Effort, ...]], shared: np.ndarray) -> Sum:
    """`evaluate` some shards."""
    job, places, allowed, efforts = item
    return group(lambda place, w: evaluate(job, place, w, allowed, efforts), places, shared)


def visit(job: Job, number: int, place: Place, shared: tuple[np.ndarray, np.ndarray, float, float]) -> Sum:
    r"""Ascend on the planes of one shard from the weights that all share, and write its state.

    Returns its direction :math:`\Delta = \sum_i (\alpha'_i - \alpha_i) z_i`, and :math:`\sum_i (\alpha'_i - \alpha_i) b_i`, operations,
    oracle calls and seconds; of each shard the slacks that it saw.
    """
    with opened(job.source, place.shard, job.C, job.memory) as objective:
        return _visit(job, number, place, objective, *shared)


def _visit(
    job: Job, number: int, place: Place, objective: Any, plain: np.ndarray, mu: np.ndarray, sigma: float, dual: float
) -> Sum:
    calls, seconds = objective.n_calls, objective.seconds
    store, state = load_store(job, objective, place)
    weights = store.weights = store.weights._replace(sigma=float(sigma))
    weights.plain[:], weights.mu[:] = plain, mu
    cut(weights)
    random = np.random.default_rng([job.seed, number + 1, place.shard])
    ascent = Ascent(job.local, objective, store, random)
    ascent.dual = dual
    n, turn, slack = objective.n_examples, 0, np.full(objective.n_examples, np.inf)
    if state is not None:
        ascent.gaps[:], slack, turn = state["gaps"], state["slack"].copy(), int(state["turn"][0])
    used, alpha, offset = store.planes.used.copy(), packed_alpha(store), offset_sum(store)
    store.keeps = True
    parts = max(1, min(job.parts, n))
    for _ in range(_MOST_ROUNDS * parts):
        order = np.random.default_rng([job.seed, place.shard, turn // parts]).permutation(n)
        for examples, own in ascent.batches(order[turn % parts :: parts]):
            slack[examples] = own
        turn += 1
        if ascent.work >= job.least_work:
            break
    kept = {"gaps": ascent.gaps, "slack": slack, "turn": np.array([turn])}
    new = {**pack(store, used, alpha), **objective.state(), **kept}
    write_state(job.folder, job.origin, place.shard, number, new, (place.version, *place.keep), job.durable)
    change = weights.plain - plain
    if len(mu):
        change -= job.source.cone.rows.T @ (weights.mu - mu)
    scalars = [offset_sum(store) - offset, ascent.work, objective.n_calls - calls, objective.seconds - seconds]
    return Sum(change / sigma, np.array(scalars), ((place.shard, inner(objective.c, slack)),))


def evaluate(job: Job, place: Place, w: np.ndarray, allowed: float, efforts: tuple[Effort, ...]) -> Sum:
    r"""Everything that a certificate needs of one shard, in double precision and without a trace: its part
    :math:`\sum_i \alpha_i z_i` of the weights and :math:`\sum_i \alpha_i b_i` from its planes, and
    :math:`\sum_j c_j \xi_j(w)`, as reached by labellings and as proven from above."""
    with opened(job.source, place.shard, job.C, job.memory) as objective:
        return _evaluate(job, place, objective, w, allowed, efforts)


def _evaluate(job: Job, place: Place, objective: Any, w: np.ndarray, allowed: float, efforts: tuple[Effort, ...]) -> Sum:
    calls, seconds = objective.n_calls, objective.seconds
    store, _ = load_store(job, objective, place)
    total = store.refresh() + 0.5 * inner(store.weights.value, store.weights.value)
    answer = objective.ask(w)
    if efforts and not answer.is_proven:
        answer = objective.spend(w, answer, allowed * objective.n_examples / float(job.source.sizes.sum()), efforts)
    reached, proven = (inner(objective.c, np.maximum(own, 0.0)) for own in (answer.value, answer.upper))
    facts = (answer.is_proven,)
    numbers = [total, reached, proven, objective.n_calls - calls, objective.seconds - seconds]
    return Sum(store.weights.plain, np.array(numbers), facts)


def load_store(job: Job, objective: MarginObjective, place: Place) -> tuple[PlaneStore, dict[str, np.ndarray] | None]:
    """The planes of a shard after its last committed visit, and the state they come from."""
    store = PlaneStore(objective, job.local.max_planes)
    if place.version < 0:
        return store, None
    state = read_state(job.folder, job.origin, place.shard, place.version)
    unpack(store, state, place.gamma)
    objective.restore(state)
    return store, state


def cut(weights: Any) -> None:
    """``value`` from ``plain``."""
    if len(weights.nonneg):
        weights.value[:] = np.where(weights.nonneg & (weights.plain < 0.0), 0.0, weights.plain)


def shard_objective(source: Any, shard: int, C: float) -> Any:
    """The objective of a shard, with this ``C``."""
    own = source.objective(shard)
    own.set_C(C)
    return own


_lock = threading.Lock()
_sources: dict[str, Any] = {}
_open: OrderedDict[tuple[str, int], tuple[Any, dict[str, np.ndarray], int]] = OrderedDict()


@contextlib.contextmanager
def opened(source: Any, shard: int, C: float, memory: int = 2**28) -> Iterator[Any]:
    """The objective of a shard, from this worker's memory if it is there, as if it were new and of this ``C`` of the whole set.

    Nobody else has it meanwhile; afterwards it is kept, and the least used ones are forgotten where all need more than ``memory``
    bytes. Each task brings a copy of its source: the first one is kept, with what it has worked out.
    """
    source.check(shard)
    token = source.token
    with _lock:
        source, found = _sources.setdefault(token, source), _open.pop((token, shard), None)
    if found is None:
        own = shard_objective(source, shard, C)
        found = own, {name: np.array(value) for name, value in own.state().items()}, footprint(own)
    found[0].set_C(C)
    found[0].restore(found[1])
    yield found[0]
    with _lock:
        _open[token, shard] = found
        total = sum(size for *_, size in _open.values())
        while total > memory and _open:
            total -= _open.popitem(last=False)[1][-1]
        for other in _sources.keys() - {own for own, _ in _open} - {token}:
            del _sources[other]


def forget(source: Any) -> None:
    """Let go of a source and its shards."""
    with _lock:
        _sources.pop(source.token, None)
        for key in [key for key in _open if key[0] == source.token]:
            del _open[key]


def footprint(objective: Any) -> int:
    """Bytes of an objective, about."""
    design = getattr(objective, "design", None)
    own = sum(array.nbytes for array in design) if design is not None else 0
    return 4 * own + 1024 * int(objective.n_examples)
