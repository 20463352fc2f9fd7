r"""Second-order chains as first-order ones over pairs of tags.

.. math:: F(x, y) = \sum_i \langle w_{y_i}, x_i\rangle + \sum_i g(y_{i - 1}, y_i) + \sum_i h(y_{i - 2}, y_{i - 1}, y_i)

Label :math:`aK + b` of a node says that its tag is :math:`b` and the tag before it :math:`a`. The first node of a chain has the labels
:math:`0 \dots K - 1`, its tag alone. So the tag is always the label modulo :math:`K`. Two labels in a row that disagree about
the tag they share have the score :math:`-\infty`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from ..core.errors import InvalidParameterError
from .bound import FORBIDDEN, BoundModel, Encoded, refuse_factors
from .cone import Cone
from .sample import GraphSample

_MOST_CELLS = 2**27  # cells of the tables of label pairs, 1 GB of floats


@dataclass(frozen=True, eq=False)
class PairLayout:
    """How samples become chains over pairs of tags.

    Attributes
    ----------
    base : BoundModel
        The first-order chain; its weights (nodes, then pairs) are the first ones of the second-order chain.
    """

    base: BoundModel

    @property
    def model(self) -> Any:
        """The model behind the first-order chain."""
        return self.base.layout.model

    @property
    def n_tags(self) -> int:
        """Labels of a word, whose pairs are the labels of the chain."""
        return self.base.n_labels

    def encode(self, samples: Sequence[GraphSample]) -> Encoded:
        """Features of samples, with a constant for pairs at each node that has one before it."""
        return self.paired(self.base.encode(samples))

    def paired(self, data: Encoded) -> Encoded:
        """Data of a first-order chain as those of pairs."""
        refuse_factors(data.factors, "a chain over pairs of labels (order=2)")
        starts = heads(data)
        within = np.where(starts, 0.0, 1.0)[:, None]
        x = np.hstack([data.x, within]) if isinstance(data.x, np.ndarray) else sparse.hstack([data.x, within], format="csr")
        third = 1 - starts[data.edges[:, 0]].astype(np.int64)
        f = sparse.csr_array((np.ones(len(third)), third, np.arange(len(third) + 1)), shape=(len(third), 2))
        states = np.where(starts, self.n_tags, self.n_tags**2).astype(np.int32)
        return replace(data, x=x if isinstance(x, np.ndarray) else sparse.csr_array(x), f=f, n_states=states)

    def labels(self, tags: np.ndarray, data: Encoded) -> np.ndarray:
        """Numbers of pairs from tags of all nodes."""
        before = np.concatenate([tags[:1], tags[:-1]])
        return np.where(heads(data), tags, before * self.n_tags + tags).astype(np.int32)


def heads(data: Encoded) -> np.ndarray:
    """Which nodes have none before them."""
    first = np.ones(int(data.node_ptr[-1]), dtype=bool)
    first[data.edges[:, 1]] = False
    return first


def second_order(base: BoundModel) -> BoundModel:
    """The second-order chain on the data, labels and features of a first-order one with general potentials.

    Its weights are those of ``base``, followed by ``h[a, b, c]``.
    """
    size, width = base.n_labels, len(base.node_index)
    if size**4 > _MOST_CELLS or width * size**2 > _MOST_CELLS:
        raise InvalidParameterError(
            f"order is 2 with {size} classes and {width} features: pairs of tags need tables of {size**4} and {width * size**2} cells, "
            f"wanted at most {_MOST_CELLS}. Use order=1, or fewer features (features=Dicts(min_count=...))."
        )
    layout = PairLayout(base)
    tag = np.tile(np.arange(size), size)
    before = np.repeat(np.arange(size), size)
    node_index = np.concatenate([base.node_index[:, tag], base.edge_index[0].reshape(1, -1)])
    edge_index = np.full((2, size**2, size**2), FORBIDDEN, dtype=np.int32)
    agree = tag[:, None] == before
    edge_index[0][agree & (np.arange(size**2) < size)[:, None]] = -1
    triple = base.n_weights + before[:, None] * size**2 + tag[:, None] * size + tag
    edge_index[1][agree] = triple[agree]
    data = layout.paired(base.data)
    labels = None if base.labels is None else layout.labels(base.labels, data)
    cone = Cone.free(base.n_weights + size**3)
    return BoundModel(layout, data, node_index, edge_index, cone, base.classes, size**2, partial(_names, base.name), labels)


def _names(first: Callable[..., list[str]], classes: tuple[np.ndarray, ...]) -> list[str]:
    own = classes[0].tolist()
    return first(classes) + [f"h({a}, {b}, {c})" for a in own for b in own for c in own]
