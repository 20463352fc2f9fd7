"""Hidden states: each class has several, the labels of the model are the states, and training completes which of them a node has."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans

from ...core.errors import InvalidParameterError
from ...core.transitions import Neighbours
from ...learning.latent import Partial
from ...losses import Loss, as_loss
from ...models.bound import BoundModel
from ..costs import weighted_loss
from ..settings import Settings

_MOST_ROWS = 20_000  # nodes of a class that k-means looks at: more change its centres little, and it takes seconds for so many
_RESTARTS = 4  # of k-means: one run now and then merges two styles of a letter, four did not


@dataclass(frozen=True, eq=False)
class States:
    """Which class each state belongs to; states of a class follow each other.

    Attributes
    ----------
    classes : ndarray, shape (K,)
    owner : ndarray of int64, shape (S,)
        Number of the class of each state, ascending.
    """

    classes: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, classes: np.ndarray, given: Any) -> States:
        """The states of ``n_hidden``: as many for each class, or those of a dictionary, 1 for classes that it lacks."""
        known = classes.tolist()
        if isinstance(given, Mapping):
            strange = [label for label in given if label not in known]
            if strange:
                raise InvalidParameterError(f"n_hidden names {strange[0]!r}, wanted some of the classes {known[:12]}.")
            counts = [given.get(label, 1) for label in known]
        else:
            counts = [given] * len(known)
        for label, count in zip(known, counts, strict=True):
            if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
                raise InvalidParameterError(
                    f"n_hidden is {count!r} for class {label!r}, wanted a whole number >= 1, or a dictionary of these by class."
                )
        return cls(classes, np.repeat(np.arange(len(known)), counts))

    @classmethod
    def named(cls, names: Sequence[tuple[Any, int]], as_objects: bool) -> States:
        """States from their `names`; ``as_objects`` where classes are neither all numbers nor all strings."""
        number: dict[Any, int] = {}
        owner = np.array([number.setdefault(label, len(number)) for label, _ in names], dtype=np.int64)
        classes = np.array(list(number)) if not as_objects else np.empty(len(number), dtype=object)
        classes[:] = list(number)
        found = cls(classes, owner)
        if (np.diff(owner) < 0).any() or found.names.tolist() != [tuple(own) for own in names]:
            raise ValueError("hidden states are not in the order of their classes")
        return found

    @property
    def first(self) -> np.ndarray:
        """The first state of each class."""
        return np.searchsorted(self.owner, np.arange(len(self.classes)))

    @property
    def place(self) -> np.ndarray:
        """The number of each state in its class."""
        found: np.ndarray = np.arange(len(self.owner)) - self.first[self.owner]
        return found

    @property
    def names(self) -> np.ndarray:
        """``(class, number in it)`` of each state."""
        known, found = self.classes.tolist(), np.empty(len(self.owner), dtype=object)
        found[:] = [(known[k], i) for k, i in zip(self.owner.tolist(), self.place.tolist(), strict=True)]
        return found

    def best(self, table: np.ndarray) -> np.ndarray:
        """Numbers for states, by the last axis, as the largest over the states of each class."""
        found: np.ndarray = np.maximum.reduceat(table, self.first, axis=-1)
        return found


@dataclass(frozen=True, eq=False)
class StateLoss(Loss):
    """What a wrong class costs, as a loss of states: states of the right class cost nothing.

    Parameters
    ----------
    of_classes : Loss
    states : States
    """

    of_classes: Loss
    states: States

    def rows(self, labels: np.ndarray, n_labels: int) -> np.ndarray:
        """Costs of the classes that states belong to."""
        return self.of_classes.rows(self.states.owner[labels], len(self.states.classes))[:, self.states.owner]

    def table(self, labels: Any, n_labels: int) -> np.ndarray:
        """`rows`, checked as those of classes are."""
        labels = np.asarray(labels)
        classes = np.where(labels >= 0, self.states.owner[labels], labels)
        found: np.ndarray = self.of_classes.table(classes, len(self.states.classes))[:, self.states.owner]
        return found


def with_states(
    settings: Settings, known: BoundModel, partial: Partial | None, weight: np.ndarray
) -> tuple[States, BoundModel, Partial, Settings]:
    """The model of states with a first guess of them as its labels, what is known of the states of all nodes, and the settings with the loss of states.

    Parameters
    ----------
    settings : Settings
    known : BoundModel
        Of classes, with labels.
    partial : Partial or None
        What is known of classes, where training infers them.
    weight : ndarray
        Of the samples of ``known``.
    """
    assert known.labels is not None
    if any(len(own) != len(known.classes[0]) or (own != known.classes[0]).any() for own in known.classes):
        raise InvalidParameterError(
            "n_hidden is given, and types of nodes have classes of their own; wanted the same classes for all nodes."
        )
    if known.data.factors is not None:
        raise InvalidParameterError(
            "n_hidden is given, and samples have factors, whose scores are those of classes, not of hidden states; wanted samples without factors."
        )
    states = States.of(known.classes[0], settings.n_hidden)
    loss = StateLoss(as_loss(weighted_loss(settings, known, weight)), states)
    bound = refined(known, states, first_states(known, states, settings.random_state))
    if partial is None:
        own = states.owner == known.labels[:, None]
        partial = Partial(replace(bound, labels=None), own, weight, "Hidden states")
    else:
        whole = refined(partial.model, states, None)
        partial = Partial(whole, partial.allowed[:, states.owner], partial.weight, "Hidden states and unknown labels")
    return states, bound, partial, replace(settings, loss=loss, class_weight=None)


def refined(model: BoundModel, states: States, labels: np.ndarray | None) -> BoundModel:
    """The model whose labels are states, on the same data; rules of neighbours hold for the classes of states."""
    layout, owner, data = model.layout, states.owner, model.data
    rules = layout.neighbours
    if rules is not None:
        rules = Neighbours(rules.pairs[:, owner][:, :, owner], rules.starts[:, owner], rules.ends[:, owner])
    layout = replace(layout, model=replace(layout.model, forbidden=rules), n_classes=(len(owner),) * len(layout.n_classes))
    excluded = None if data.excluded is None else data.excluded[:, owner]
    data = replace(data, n_states=np.full_like(data.n_states, len(owner)), excluded=excluded)
    bound: BoundModel = layout.bound((states.names,) * len(model.classes), data, labels)
    return bound


def first_states(model: BoundModel, states: States, seed: int) -> np.ndarray:
    """A state of its class for each node, by k-means on the features of the nodes of a class; at random where these make fewer groups.

    With states that start alike training would leave them so.
    """
    assert model.labels is not None
    rows, found = _node_rows(model), np.zeros(len(model.labels), dtype=np.int32)
    rng, counts = np.random.default_rng(seed), np.bincount(states.owner)
    for k, (first, count) in enumerate(zip(states.first.tolist(), counts.tolist(), strict=True)):
        mine = np.flatnonzero(model.labels == k)
        found[mine] = first + _groups(rows[mine], count, rng)
    return found


def _node_rows(model: BoundModel) -> Any:
    """Features of nodes, without the blocks of types and places."""
    x, width = model.data.x, model.layout.width
    if not hasattr(x, "tocsr"):
        return np.asarray(x)
    x = sparse.csr_array(x)
    shape = (x.shape[0], width)
    return sparse.csr_matrix(
        (x.data, x.indices % width, x.indptr), shape=shape
    )  # k-means of older scikit-learn takes no arrays


def _groups(rows: Any, count: int, rng: np.random.Generator) -> np.ndarray:
    size = int(rows.shape[0])
    if count == 1 or size == 0:
        return np.zeros(size, dtype=np.int64)
    if size > count:
        some = rng.permutation(size)[:_MOST_ROWS] if size > _MOST_ROWS else slice(None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that rows are too alike, which is seen below
            groups = KMeans(count, n_init=_RESTARTS, random_state=int(rng.integers(2**31))).fit(rows[some])
            found: np.ndarray = groups.predict(rows)
        if len(np.unique(found)) == count:
            return found
    return rng.permutation(np.arange(size) % count)
