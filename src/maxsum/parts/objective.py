r"""PartsObjective: large-margin training on one graph in parts, with the dual bound over parts and cuts as the slack."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import CheckpointError, InvalidParameterError, InvalidSampleError
from ..executors.base import as_executor
from ..learning.objectives.base import Answer, Plane, PlaneObjective
from ..learning.oracles.base import Effort, Key
from ..losses import Loss, as_loss
from ..models.bound import BoundModel
from ..models.graph_model import GraphModel
from .engine import Engine
from .folder import Parts, open_parts
from .solve import run
from .sources import SampleSource, as_source

# Passes over all parts for a plane, by effort; above these, as many as gain (see `Tuning`).
_ROUNDS = {Effort.EXPAND: 2, Effort.GLANCE: 2, Effort.QUICK: 2, Effort.NORMAL: 4, Effort.LONG: 20}


@dataclass(frozen=True)
class Tuning:
    """How long the relaxation of a graph in parts is improved for one plane."""

    most_rounds: int = 200  # passes over all parts for one plane, or for a check, at most
    rounds_a_look: int = 10  # passes between two looks at the bound: looking takes a visit of every part
    stalled: float = 1e-3  # share of the open gap that so many passes must gain to be followed by more
    fresh_planes: int = 8  # planes that were found and not yet asked for, whose files are kept
    # Relative gap of the messages behind a checked objective: far below the gaps that training claims.
    check_tol: float = 1e-7


_TUNING = Tuning()


class PartsObjective(PlaneObjective):
    r"""Structured hinge loss of one sample in parts,

    .. math:: F(w) = \tfrac12\|w\|^2 + C\,\xi(w),\qquad \xi(w) = \max_y L(y^*, y) - \langle w, \Psi(y^*) - \Psi(y)\rangle .

    From above :math:`\xi` is bounded by the dual bound of the loss-augmented problem, over parts and cut edges, with messages that go on
    from one call to the next. From below by planes of labellings of the whole graph: each part adds its features and its loss, cut
    edges are counted once. So the gap of a training is proven for the margin and for the linear relaxation (LP-M3N) inside it,
    whose optimum lies between the two bounds.

    Use it with `CuttingPlane`. Labellings of planes are files in ``work``; the certificate of a training reads them again.

    Parameters
    ----------
    parts : path or Parts
        A sample in parts, written with labels (numbers ``0 .. K - 1``).
    work : path
        Folder for messages and labellings, made if needed. About 16 bytes an edge and label, and 4 bytes a node and plane.
    model : GraphModel or BoundModel
        A `GraphModel` takes its sizes (features, edge types) from the first part.
    classes : array-like, optional
        The labels that exist, in order; needed for a `GraphModel`.
    C : float
    loss : Loss or str
        A sum over nodes; a normalised one needs the whole graph and is refused.
    executor : optional
        As in `solve_parts`.
    """

    exact = False

    def __init__(
        self,
        parts: str | Path | Parts,
        work: str | Path,
        model: GraphModel | BoundModel,
        classes: Any = None,
        C: float = 1.0,
        loss: Loss | str = "hamming",
        executor: Any = None,
    ):
        self.parts = open_parts(parts)
        self.loss = as_loss(loss)
        if getattr(self.loss, "normalised", False):
            raise InvalidParameterError(
                "a normalised loss divides by the nodes of the whole graph; wanted a sum, and a smaller C."
            )
        self.model = bind(self.parts, model, classes)
        super().__init__(1, self.model.cone, C)
        self.source = as_source(self.model, self.parts, np.zeros(self.n_weights), self.loss)
        self.engine = Engine(self.source, work, as_executor(executor))
        truth = self.engine.label_truly()
        self.truth = self.engine.describe(truth.generation, self.engine.labels)[0]
        self.engine.drop(truth.generation)
        self._fresh: dict[int, Plane] = {}

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: Effort) -> Answer:
        engine = self.engine
        engine.source = replace(self.source, w=np.array(w, dtype=np.float64))
        bound = engine.rounds(_ROUNDS[effort])[-1] if effort < Effort.FULL else self._settle()
        found = engine.label()
        labels = engine.labels.copy()
        np.save(self._cuts_path(found.generation), labels, allow_pickle=False)
        psi, loss, error = engine.describe(found.generation, labels)
        z = self.truth - psi
        value = loss - float(w @ z)
        self._remember(found.generation, loss, z)
        upper = max(value + max(bound - found.score, 0.0) + error, 0.0)
        return Answer(examples, [np.array([found.generation])], np.array([value]), np.array([upper]))

    def _settle(self) -> float:
        """Rounds until the bound does not fall any more."""
        bounds = self.engine.rounds(1)
        for _ in range(_TUNING.most_rounds // _TUNING.rounds_a_look):
            before = bounds[-1]
            bounds = self.engine.rounds(_TUNING.rounds_a_look)
            if before - bounds[-1] <= _TUNING.stalled * self._open(bounds[-1]):
                break
        return bounds[-1]

    def _open(self, bound: float) -> float:
        """A gap below which more rounds do not matter: that of a labelling, found and forgotten."""
        found = self.engine.label()
        self.engine.drop(found.generation)
        return max(bound - found.score, 0.0)

    def _remember(self, generation: int, loss: float, z: np.ndarray) -> None:
        """Keep a plane until it is asked for, and forget the oldest that nobody asked for."""
        index = np.flatnonzero(z)
        self._fresh[generation] = Plane(0, loss, index.astype(np.int64), z[index], np.array([generation]))
        for old in sorted(self._fresh)[: -_TUNING.fresh_planes]:
            del self._fresh[old]
            self.engine.drop(old)
            self._cuts_path(old).unlink(missing_ok=True)

    def _cuts_path(self, generation: int) -> Path:
        return self.engine.work / f"cuts-{generation:05d}.npy"

    def plane(self, j: int, key: Key) -> Plane:
        """The plane of a labelling: as it was found the first time, from its files after that."""
        generation = int(np.asarray(key).reshape(-1)[0])
        if generation in self._fresh:
            return self._fresh.pop(generation)
        try:
            labels = np.load(self._cuts_path(generation), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"labelling {generation} is not in {self.engine.work} any more ({error}).") from error
        psi, loss, _ = self.engine.describe(generation, labels)
        z = self.truth - psi
        index = np.flatnonzero(z)
        return Plane(0, loss, index.astype(np.int64), z[index], np.array([generation]))

    def evaluate(self, w: np.ndarray) -> float:
        """The objective with a slack from fresh messages, checked part by part in plain numpy."""
        check = self.engine.work / "check"
        shutil.rmtree(check, ignore_errors=True)
        source = replace(self.source, w=np.array(w, dtype=np.float64))
        result = run(source, check, tol=_TUNING.check_tol, max_iter=_TUNING.most_rounds, executor=self.engine.executor)
        shutil.rmtree(check, ignore_errors=True)
        return self.primal(w, np.array([max(result.bound - float(w @ self.truth), 0.0)]))

    def content(self) -> Iterable[np.ndarray]:
        return (np.frombuffer(bytes.fromhex(self.parts.digest), dtype=np.uint8), self.cone.nonneg, *self.cone.tables)

    def state(self) -> dict[str, np.ndarray]:
        return {"parts_messages": self.engine.messages, "parts_last": np.array([self.engine.generation])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.engine.messages[:] = state["parts_messages"]
        self.engine.generation = max(self.engine.generation, int(state["parts_last"][0]))


def bind(parts: Parts, model: GraphModel | BoundModel, classes: Any) -> BoundModel:
    """A model that knows its sizes, from the first part."""
    if isinstance(model, BoundModel):
        return model
    if not model.homogeneous:
        raise InvalidParameterError("homogeneous=False gives every node weights of its own; graphs in parts share weights.")
    if classes is None:
        raise InvalidParameterError(
            "classes are not given; wanted all labels that exist, such as range(4): one part may lack some."
        )
    if parts.kind != "sample":
        raise InvalidSampleError(f"{parts.folder} holds scores, not features; wanted the parts of a sample.")
    template = SampleSource(parts, None, np.zeros(0))  # type: ignore[arg-type]
    return model.bind([template.sample(0, parts.arrays(0))], classes=list(classes))
