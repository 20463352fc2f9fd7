"""Labelers on shards: training sets larger than memory, on one machine or many, and predictions from shards to shards."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.files.arrays import write_arrays
from ..core.files.store import write_bytes
from ..core.graph import Graph
from ..core.parameters import check
from ..executors.base import Executor, executing
from ..learning.driver import Learner
from ..learning.learners.block_frank_wolfe import BlockFrankWolfe
from ..learning.learners.cutting_plane import CuttingPlane
from ..models.bound import BoundModel
from ..models.cone import Cone
from ..models.features import NodeFeatures
from ..models.graph_model import Layout
from ..models.labels import induced
from ..models.sample import GraphSample
from ..progress import LearningLine, watched
from ..shards.ascent import ShardAscent, ShardedObjective
from ..shards.dataset import MANIFEST, Shard, ShardedDataset
from ..shards.objectives import AggregatedObjective, ShardedSmooth
from .base import Labeler, graph_model, labels_known
from .costs import balanced, check_balanced
from .grid import GridLabeler
from .pipeline import Plan, sentence
from .settings import LIMITS, Settings
from .surrogates import Choice, choose_learner, surrogate_of

_KINDS = {"SequenceLabeler": "sequence", "GridLabeler": "image", "GraphLabeler": "graph"}
_ON_SHARDS = ("margin", "lp", "qp")


class LabelerSource:
    """A labeler and a folder of shards as the source of a training: small to send; models are made where they are needed."""

    def __init__(self, labeler: Labeler, dataset: ShardedDataset, facts: dict[str, Any]):
        self.labeler, self.dataset, self.facts = labeler, dataset, facts
        self.sizes, self.token = dataset.sizes, uuid.uuid4().hex

    @property
    def surrogate(self) -> str:
        """Name of the surrogate that is minimised."""
        return surrogate_of(self.settings).name

    @cached_property
    def settings(self) -> Settings:
        """Those of the labeler."""
        return Settings.of(self.labeler)

    @cached_property
    def cone(self) -> Cone:
        """The cone of allowed weights."""
        return self.template.cone

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in ("labeler", "dataset", "facts", "sizes", "token")}

    @cached_property
    def classes(self) -> np.ndarray:
        """All classes: those of the labeler, which must hold those of the shards, or else these."""
        found, given = self.dataset.classes, self.labeler.classes
        if found is None:
            raise InvalidSampleError(f"{self.dataset!r} has no labels; wanted some to learn from.")
        if given is None:
            return found
        own = np.asarray(given)
        missing = [label for label in found.tolist() if label not in set(own.tolist())]
        if missing:
            raise InvalidSampleError(
                f"the shards have the label {missing[0]!r}, wanted one of the classes {own.tolist()[:12]}."
            )
        return own

    @cached_property
    def numbers(self) -> np.ndarray:
        """Number in `classes` of each class of the shards, and -1 for -1."""
        place = {label: i for i, label in enumerate(self.classes.tolist())}
        assert self.dataset.classes is not None
        return np.array([place[label] for label in self.dataset.classes.tolist()] + [-1], dtype=np.int32)

    @cached_property
    def layout(self) -> Layout:
        """How features and labels become weights, known from the manifest alone."""
        return self._layout(self.dataset.features)

    @cached_property
    def template(self) -> BoundModel:
        """The model without data."""
        return self.layout.bound((self.classes,))

    @cached_property
    def model(self) -> Any:
        """The model that new samples meet, without data; for convex energies the convex one."""
        bound = self._layout(self.dataset.input_features).bound((self.classes,))
        spec = surrogate_of(self.settings).energies(self.settings)
        return bound if spec is None else spec.bind(bound)

    def _layout(self, features: NodeFeatures) -> Layout:
        facts, given = self.dataset.manifest["graph"], self.settings.features
        if given is not None:
            features = given.fit(self.samples(self.dataset.shard(0))) if given.kind != "dicts" else features
        model = graph_model(self.settings, features)
        n_types, width = int(facts["n_edge_types"]), int(facts["edge_features"]) or 1
        loops = not facts["forest"]
        if self.dataset.kind == "image":
            some = next((sample for sample in self.samples(self.dataset.shard(0)) if sample.n_nodes), None)
            if some is not None:
                n_types, width = some.graph.n_edge_types, 1 if some.edge_features is None else some.edge_features.shape[1]
            loops = True
        is_open = surrogate_of(self.settings).potentials(self.settings) is None
        if is_open and len(self.classes) == 2 and loops and facts["least_edge_feature"] >= 0:
            model = replace(model, potentials="supermodular")
        if facts["clique_types"] and model.potentials not in ("associative", "potts"):
            raise InvalidSampleError(
                f"samples have cliques, but potentials are {model.potentials!r}; rewards of cliques need 'associative' or 'potts'."
            )
        if not model.homogeneous and facts["size"] is None:
            raise InvalidParameterError(
                "homogeneous is False, but the graphs of the shards differ in size; wanted graphs of one size."
            )
        size = tuple(facts["size"] or (0, 0))
        cliques = (int(facts["clique_types"]), int(facts["clique_features"]) or int(facts["clique_types"] > 0))
        return Layout(model, 1, (len(self.classes),), n_types, width, size, *cliques)

    def samples(self, shard: Shard) -> list[GraphSample]:
        """The samples of a shard."""
        if self.dataset.kind != "sequence":
            return self.labeler._samples(shard.items(), self.facts)
        return shard.batch([_chain(n) for n in shard.arrays["nodes"].tolist()])

    def bound(self, k: int) -> BoundModel:
        """The model with the data of a shard; nodes of unknown label are left out."""
        shard = self.dataset.shard(k)
        codes = self.numbers[shard.codes]
        if (codes >= 0).all():
            return replace(self.template, data=self.layout.encode(self.samples(shard)), labels=codes)
        parts = np.split(codes, shard.node_ptr[1:-1])
        samples = self.labeler._samples(shard.items(), self.facts)
        kept, labels = induced(samples, parts, list(range(len(self.classes)))) if (codes >= 0).any() else ([], [])
        return replace(
            self.template,
            data=self.layout.encode(kept),
            labels=np.concatenate([np.zeros(0, dtype=np.int32), *labels]).astype(np.int32),
        )

    def check(self, k: int) -> None:
        """Raise `ParseError` if the file of a shard is not what the manifest says."""
        self.dataset.check_shard(k)

    def objective(self, k: int) -> Any:
        """The objective of one shard; its C is set by whoever opens it."""
        return surrogate_of(self.settings).objective(self.settings, self.bound(k), np.ones(int(self.sizes[k])), 1.0)

    def digest(self) -> bytes:
        """A hash of the data and of all settings that change what is learned."""
        skipped = {*LIMITS, "C", "callback", "learner", "n_jobs", "warm_start", "solver"}
        params = {name: repr(value) for name, value in self.labeler.get_params(deep=False).items() if name not in skipped}
        text = json.dumps([type(self.labeler).__name__, params, self.dataset.digest, repr(self.facts)], sort_keys=True)
        return hashlib.sha256(text.encode()).digest()


@lru_cache(maxsize=1024)
def _chain(n: int) -> Graph:
    """The chain of ``n`` nodes, with what is known of it already."""
    return Graph.chain(n)


def fit_shards(labeler: Labeler, dataset: ShardedDataset, executor: Any = None) -> Any:
    """Train a labeler on shards; what ``labeler.fit(dataset, executor=executor)`` does."""
    check(labeler)
    settings = Settings.of(labeler)
    _check(settings, labeler, dataset)
    with executing(executor) as runner:
        own = clone(labeler).set_params(callback=None, verbose=0, checkpoint=None, random_state=settings.random_state)
        if isinstance(own.class_weight, str):
            own.set_params(class_weight=_balanced(own.class_weight, dataset))
        source = LabelerSource(own, dataset, _facts(own, dataset, runner))
        learner, objective = _choose(settings, source, labeler.C, runner)
        line = LearningLine(learner.tol)
        with watched(settings.verbose, settings.callback, time_limit=learner.time_limit, describe=line) as callback:
            result = learner.fit(objective, callback)
        surrogate = surrogate_of(settings)
        choice = Choice(type(learner).__name__, "the default on shards")
        words = sentence(settings, surrogate, objective, learner, choice)
        facts = source.facts | labels_known(source.model, None)
        facts["n_features_in_"] = int(dataset.manifest["features"]["width"])
        plan = Plan(settings, learner, objective, source.model, facts, words)
        labeler._accept(plan, result)._warn(plan, result)
    return labeler


def _check(settings: Settings, labeler: Labeler, dataset: ShardedDataset) -> None:
    """Refuse what shards do not have."""
    wanted = next((kind for name, kind in _KINDS.items() if name in [own.__name__ for own in type(labeler).__mro__]), None)
    if wanted != dataset.kind:
        raise InvalidSampleError(
            f"the shards hold items of kind {dataset.kind!r}, but {settings.owner} takes {wanted!r}; wanted shards of that kind."
        )
    surrogate = surrogate_of(settings)
    if settings.has_states:
        raise InvalidParameterError(
            f"n_hidden is {settings.n_hidden!r} on shards, wanted 1: hidden states are for samples in memory."
        )
    if surrogate.name not in _ON_SHARDS:
        raise InvalidParameterError(f"surrogate is {surrogate.name!r} on shards, wanted one of {', '.join(_ON_SHARDS)}.")
    if settings.order != 1 or settings.smoothing or settings.tighten or settings.warm_start:
        raise InvalidParameterError(
            "order=2, smoothing, tighten and warm_start are for data in memory; wanted order=1, smoothing=0, tighten=False, warm_start=False."
        )
    if settings.penalty != "l2":
        raise InvalidParameterError(
            f"penalty is {settings.penalty!r} on shards, wanted 'l2': penalties of absolute values are for data in memory."
        )
    if settings.forbidden is not None:
        raise InvalidParameterError(
            f"forbidden is {settings.forbidden!r} on shards, wanted None: rules of neighbours are for data in memory. Or give samples factors."
        )
    if labeler.scale == "standard":
        raise InvalidParameterError(
            "scale is 'standard' on shards, wanted 'auto' or False: scale the features before they are written."
        )
    if dataset.manifest["features"]["kind"] == "dicts" and settings.features is not None:
        raise InvalidParameterError(
            f"features is {settings.features!r}, wanted 'auto': shards of dicts have their columns from write_shards."
        )
    surrogate.check(settings, choose_learner(settings, surrogate.default))
    spec = surrogate.energies(settings)
    if spec is not None and (spec.operators is not None or spec.trees is not None):
        raise InvalidParameterError(
            "potentials has operators or trees, which need samples in memory; wanted neither on shards."
        )


def _facts(labeler: Labeler, dataset: ShardedDataset, executor: Executor) -> dict[str, Any]:
    """What the whole training set says about features."""
    first = dataset.shard(0).items() if dataset.kind == "image" and dataset.n_shards else []
    facts = labeler._facts(first, np.ones(len(first)))
    if not isinstance(labeler, GridLabeler) or facts["gamma_"] is None or labeler.gamma is not None:
        return facts
    items = [(labeler, dataset, k) for k in range(dataset.n_shards)]
    sums = executor.run(_fact_sums, items, [f"facts-{k}" for k in range(dataset.n_shards)])
    return facts | labeler._facts_of(np.sum(sums, axis=0))


def _fact_sums(item: tuple[GridLabeler, ShardedDataset, int]) -> np.ndarray:
    labeler, dataset, k = item
    return labeler._fact_sums(dataset.shard(k).items())


def _balanced(given: str, dataset: ShardedDataset) -> list[float]:
    check_balanced(given)
    count = np.zeros(0 if dataset.classes is None else len(dataset.classes))
    for shard in dataset:
        count += np.bincount(shard.codes[shard.codes >= 0], minlength=len(count))
    return [float(own) for own in balanced(count)]


def _choose(settings: Settings, source: LabelerSource, C: float, executor: Executor) -> tuple[Learner, Any]:
    """Learner and objective of a surrogate on shards."""
    if surrogate_of(settings).rounds:
        return choose_learner(settings, "ProjectedQuasiNewton"), ShardedSmooth(source, C, executor)
    named = "ShardAscent" if settings.learner in (None, "BlockFrankWolfe") else settings.learner
    learner = choose_learner(replace(settings, learner=named), "ShardAscent")
    if isinstance(learner, ShardAscent):
        return learner, ShardedObjective(source, C, executor)
    if isinstance(learner, BlockFrankWolfe):
        # The limits of the learner inside have no effect, and a checkpoint must not depend on them.
        local = replace(learner, **_limits(BlockFrankWolfe()))
        return ShardAscent(**_limits(learner), local=local), ShardedObjective(source, C, executor)
    if isinstance(learner, CuttingPlane):
        return learner, AggregatedObjective(source, C, executor)
    raise InvalidParameterError(
        f"learner is {type(learner).__name__} on shards, wanted None, ShardAscent, BlockFrankWolfe or CuttingPlane."
    )


def _limits(learner: Learner) -> dict[str, Any]:
    """Limits and checkpoints of a learner."""
    return {name: getattr(learner, name) for name in LIMITS}


def predict_shards(labeler: Labeler, dataset: ShardedDataset, folder: str | Path, executor: Any = None) -> ShardedDataset:
    """Labels of all samples of a dataset, shard by shard, as shards of labels; what ``labeler.predict_shards`` does."""
    folder = Path(folder)
    if (folder / MANIFEST).exists():
        raise InvalidParameterError(f"folder {folder} holds shards already; wanted a new one, or remove its {MANIFEST} first.")
    folder.mkdir(parents=True, exist_ok=True)
    light = _light(labeler)
    items = [(light, dataset, k, str(folder)) for k in range(dataset.n_shards)]
    with executing(executor) as runner:
        rows = runner.run(_predict_shard, items, [f"predict-{k}" for k in range(dataset.n_shards)])
    manifest = {
        **dataset.manifest, "labelled": True, "classes": np.asarray(labeler.classes_).tolist(), "declared": True, "unknown": 0,
        "features": {"kind": "none", "width": 0, "hashed": False}, "vocabulary": None, "shards": rows,
    }  # fmt: skip
    content = json.dumps(manifest, indent=1).encode()
    write_bytes(folder / MANIFEST, content)
    return ShardedDataset(folder)


def _light(labeler: Labeler) -> Any:
    """A labeler that predicts, without what was needed to train it."""
    own = clone(labeler).set_params(callback=None)
    for name, value in vars(labeler).items():
        if name.endswith("_") or name == "_coding":
            setattr(own, name, value)
    return own


def _predict_shard(item: tuple[Labeler, ShardedDataset, int, str]) -> dict[str, Any]:
    labeler, dataset, k, folder = item
    shard = dataset.shard(k)
    place = {label: i for i, label in enumerate(np.asarray(labeler.classes_).tolist())}
    found = [own.reshape(-1) for own in predict_shard(labeler, shard)]
    flat = np.concatenate([np.zeros(0, dtype=np.asarray(labeler.classes_).dtype), *found])
    arrays: dict[str, np.ndarray] = {name: shard.arrays[name] for name in ("nodes", "shape") if name in shard.arrays}
    classes, inverse = np.unique(flat, return_inverse=True)
    arrays["labels"] = np.array([place[label] for label in classes.tolist()], dtype=np.int32)[inverse.reshape(-1)]
    name = f"shard-{k:06d}.arrays"
    size, digest = write_arrays(Path(folder, name), arrays)
    return {"file": name, "samples": shard.n_samples, "nodes": len(flat), "bytes": size, "sha256": digest}


def predict_shard(labeler: Labeler, shard: Shard) -> list[np.ndarray]:
    """Labels of the samples of one shard."""
    source = LabelerSource(labeler, shard.dataset, {name: getattr(labeler, name, None) for name in ("gamma_", "scaling_")})
    samples = source.samples(shard)
    if shard.dataset.manifest["features"]["kind"] != "dicts":
        return labeler._predict(samples)
    twin = _light(labeler)
    layout: Any = labeler.model_.layout
    expected = layout.model.features
    if expected.n_features != shard.dataset.features.n_features:
        raise InvalidSampleError(
            f"the shards have {shard.dataset.features.n_features} features, but the labeler learned {expected.n_features}; wanted shards "
            "that were written with features=Dicts(vocabulary) of the training set."
        )
    stored = replace(layout, model=replace(layout.model, features=shard.dataset.features))
    model = labeler.model_
    twin.model_ = (
        replace(model, layout=stored)
        if isinstance(model, BoundModel)
        else replace(model, base=replace(model.base, layout=stored))
    )
    return twin._predict(samples)


def score_shards(labeler: Labeler, dataset: ShardedDataset) -> float:
    """Fraction of right labels among all nodes whose label is known, shard by shard."""
    right = count = 0
    for shard in dataset:
        for own, truth in zip(predict_shard(labeler, shard), shard.labels(), strict=True):
            known = np.array([label is not None for label in truth.reshape(-1)])
            right += int(np.count_nonzero(own.reshape(-1)[known] == truth.reshape(-1)[known]))
            count += int(known.sum())
    if not count:
        raise InvalidSampleError("no node has a known label, so there is nothing to score; wanted at least one.")
    return right / count
