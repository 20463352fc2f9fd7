"""`partial_fit`: training on data that come in chunks, of which one plane is kept; see `maxsum.learning.streams`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.errors import InvalidParameterError
from ..core.parameters import check
from ..learning.learners.block_frank_wolfe import BlockFrankWolfe
from ..learning.streams import Past, StreamObjective, StreamStore
from ..progress import LearningLine, watched
from .costs import is_zero_one, weighted_loss
from .pipeline import Plan
from .settings import Settings, chosen
from .surrogates import choose_learner, surrogate_of

_WANTED = {
    "surrogate": (None, "margin"),
    "order": (1,),
    "unknown": ("drop",),
    "n_hidden": (1,),
    "checkpoint": (None,),
    "warm_start": (False,),
    "penalty": ("l2",),
}


def learn_chunk(estimator: Any, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
    """Train on a chunk beside the plane of those before it; sets what `fit` sets, and ``stream_``."""
    check(estimator)
    settings = replace(Settings.of(estimator), potentials=chosen(estimator.potentials) or "general", surrogate="margin")
    _refuse(estimator, settings)
    past: Past | None = getattr(estimator, "stream_", None)
    declared = classes if classes is not None else estimator.classes
    if past is None and declared is None:
        raise InvalidParameterError(
            "classes is None in the first call of partial_fit, wanted all labels that will ever be seen: a chunk may lack some."
        )
    if past is not None:
        known = list(estimator.stream_classes_)
        if classes is not None and list(classes) != known:
            raise InvalidParameterError(
                f"classes is {classes!r}, but the first call of partial_fit had {known!r}, wanted the same or None."
            )
        declared = known
    learner = choose_learner(settings, "BlockFrankWolfe")
    if not isinstance(learner, BlockFrankWolfe):
        raise InvalidParameterError(
            f"learner is {learner!r} for partial_fit, wanted None or BlockFrankWolfe, whose planes can be put together."
        )
    surrogate_of(settings).check(settings, learner)
    bound = estimator._bind(settings, estimator._read(X, y, sample_weight), estimator.C, classes=declared)
    model = bound.model
    names = list(model.names)
    if past is None:
        past = Past.nothing(model.n_weights)
    elif names != estimator.stream_names_:
        raise InvalidParameterError(
            f"this chunk makes other weights ({len(names)}) than those before it ({len(estimator.stream_names_)}), wanted the same: features that "
            "do not depend on the data (arrays, CSR matrices, features=Hashed(...)), and edge types that all chunks have."
        )
    objective = StreamObjective(
        model, past, estimator.C, weighted_loss(settings, bound, bound.weight), settings.oracle, bound.weight, settings.n_jobs
    )
    store = StreamStore(objective, learner.max_planes)
    line = LearningLine(learner.tol)
    with watched(settings.verbose, settings.callback, time_limit=learner.time_limit, describe=line) as callback:
        result = learner.fit(objective, callback, store)
    kept = result.extra.pop("planes", store)
    after = kept.merged()
    words = (
        f"Chunk of a stream: objective and gap are those of the chunk beside one plane of the {past.n_examples} examples before it; no weights have "
        f"an objective below {after.lower_bound:.8g} on all {after.n_examples} examples seen"
    )
    estimator._accept(Plan(settings, learner, objective, model, bound.facts, words, None), result)
    estimator.stream_, estimator.stream_names_, estimator.stream_classes_ = after, names, declared


def _refuse(estimator: Any, settings: Settings) -> None:
    """Refuse settings that need all data at once."""
    for name, wanted in _WANTED.items():
        value = getattr(estimator, name, wanted[0])
        value = chosen(value) if name == "surrogate" else value
        if not any(value is own or (isinstance(value, str | int) and value == own) for own in wanted):
            raise InvalidParameterError(
                f"{name} is {value!r} for partial_fit, wanted {' or '.join(map(repr, wanted))}: chunks are learned from by the margin hinge, and what "
                "needs all data at once goes with fit."
            )
    if isinstance(settings.class_weight, str):
        raise InvalidParameterError(
            f"class_weight is {settings.class_weight!r} for partial_fit, wanted numbers: it counts the labels of all data, which a chunk does not have."
        )
    if isinstance(getattr(estimator, "scale", None), str) and estimator.scale == "standard":
        raise InvalidParameterError(
            "scale is 'standard' for partial_fit, wanted 'auto' or False: means and deviations of a chunk are not those of all."
        )
    if is_zero_one(settings.loss):
        raise InvalidParameterError("loss is 'zero_one' for partial_fit, wanted a loss that is a sum over nodes.")
