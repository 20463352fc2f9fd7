"""What is known of labels that are unknown in part, for a training that infers them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...learning.latent import Partial, informed
from ...models.bound import BoundModel
from ...models.graph_model import GraphModel
from ...models.labels import encode_labels, induced
from ...models.sample import GraphSample
from ..targets import Coding, allowed_labels


def partly_labelled(
    model: GraphModel,
    bound: BoundModel,
    coding: Coding,
    samples: list[GraphSample],
    targets: Any,
    declared: Any,
    told: Any,
    weight: np.ndarray,
) -> tuple[BoundModel, Partial | None]:
    """The model of the known nodes, with the features of all, and what is known of whole samples; None where every label is known."""
    classes = bound.classes
    given: Any = classes[0] if all(own is classes[0] for own in classes) else list(classes)
    own = replace(bound.layout.model, features=model.features)
    every = own.bind(samples, None, given)
    outside = [coding.rule.classes] * len(classes) if coding.rule is not None else list(classes)
    allowed = allowed_labels(samples, told, outside, coding.rule)
    states = np.split(every.data.n_states, every.data.node_ptr[1:-1])
    if all((mask.sum(axis=1) == 1).all() for mask in allowed):
        return bound, None
    kept, labels = induced(samples, targets, declared)
    data = replace(every.layout.encode(kept), excluded=bound.data.excluded)
    known = every.layout.bound(classes, data, encode_labels(labels, kept, classes))
    some = np.flatnonzero(informed(allowed, states))
    whole = every if len(some) == len(samples) else every.layout.bound(classes, every.layout.encode([samples[j] for j in some]))
    return known, Partial(coding.named(whole), np.concatenate([allowed[j] for j in some]), weight[some])
