"""KernelMap: node kernels with the norm of their own space, as support vector expansions have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError
from .features import Kernel, Matrix
from .sample import GraphSample


@dataclass(frozen=True)
class KernelMap(Kernel):
    r"""Features whose products are the kernel: :math:`\langle\phi(x), \phi(x')\rangle = k(x, x')` on the basis.

    With all training nodes as basis (the default) the weights of label ``k`` are a support vector expansion (12) of Taskar, Chatalbashev & Koller 2004,

    .. math:: w_k = \sum_i (C \hat y_i^k - \mu_i^k)\,\phi(x_i),\qquad \langle w_k, \phi(x)\rangle = \sum_i (C \hat y_i^k - \mu_i^k)\,k(x_i, x),

    and :math:`\|w_k\|` is its norm in the space of the kernel, as in the dual (11) with products replaced by kernels. With
    :math:`G = U \Lambda U^\top` the kernel matrix of the basis, :math:`\phi(x) = \Lambda^{-1/2} U^\top k(B, x)`. A part of the training
    nodes as basis gives the approximation of Nyström.

    Parameters are those of `Kernel`, without ``precomputed``. `Kernel` itself penalises the coefficients of the expansion instead.

    Examples
    --------
    The label of a node says whether both of its features have the same sign, which no linear score can tell:

    >>> import numpy as np, maxsum as ms
    >>> x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
    >>> samples, y = [ms.GraphSample(x, ms.Graph.chain(4))], [[1, 0, 1, 0]]
    >>> net = ms.GraphLabeler(features=ms.models.KernelMap("rbf", gamma=0.5), C=10.0).fit(samples, y)
    >>> net.predict(samples)[0].tolist()
    [1, 0, 1, 0]
    """

    root: Any = None

    @property
    def n_features(self) -> int:
        return 0 if self.root is None else int(self.root.shape[1])

    def fit(self, samples: Sequence[GraphSample]) -> KernelMap:
        if self.kernel == "precomputed":
            raise InvalidParameterError(
                "kernel of KernelMap is 'precomputed', wanted a name or a function, to be used on new nodes."
            )
        known = super().fit(samples)
        gram = np.asarray(self._values(known, known.basis))
        if not np.isfinite(gram).all():
            raise InvalidParameterError("the kernel is not finite on the training nodes; wanted finite numbers.")
        size = float(np.abs(gram).max(initial=0.0))
        skew = float(np.abs(gram - gram.T).max(initial=0.0))
        if skew > 1e-8 * size:
            raise InvalidParameterError(f"the kernel is not symmetric: k(x, y) and k(y, x) differ by up to {skew:.3g}.")
        value, vector = np.linalg.eigh(0.5 * (gram + gram.T)) if gram.size else (np.zeros(0), gram)
        if value.min(initial=0.0) < -1e-8 * max(value.max(initial=0.0), size):
            raise InvalidParameterError(
                f"the kernel is not positive semidefinite: its matrix of {len(gram)} training nodes has the eigenvalue {value.min():.3g}. "
                "Use another kernel, or Kernel(...), which takes any function."
            )
        kept = value > 1e-12 * value.max(initial=0.0)
        return replace(self, basis=known.basis, gamma=known.gamma, root=vector[:, kept] / np.sqrt(value[kept]))

    @staticmethod
    def _values(known: Kernel, x: np.ndarray) -> Matrix:
        plain = Kernel(known.kernel, known.gamma, known.degree, known.coef0, known.basis)
        from ..core.graph import Graph

        return plain._encode([GraphSample(x, Graph.from_edges([], n_nodes=len(x)))])

    def _encode(self, samples: Sequence[GraphSample]) -> Matrix:
        return super()._encode(samples) @ self.root
