r"""What factors add to the sums of planes of a certificate: :math:`\sum_i\alpha_i\,(h_j(y_i) - h_j(y_j))`, from the factors themselves.

A labelling that a factor forbids has :math:`h = -\infty`: its plane is none, and a certificate with one is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...core.errors import CertificateError
from ...models.bound import BoundModel
from .exact_sums import Dyadic
from .feature_sums import EPS, FeatureSum


def _terms(model: BoundModel, examples: np.ndarray, keys: Sequence[Any]) -> Iterator[list[float]]:
    """For each plane the scores of its factors, and with the other sign those at the truth: finite numbers."""
    for j, key in zip(examples.tolist(), keys, strict=True):
        factors = None if model.data.factors is None else model.data.factors[j]
        if factors is None or not len(factors):
            yield []
            continue
        at, truth = (factors.values(np.asarray(labels)) for labels in (key, model.truth(j)))
        if np.isneginf(at).any():
            f = int(np.flatnonzero(np.isneginf(at))[0])
            raise CertificateError(f"a plane of example {j} has labels that its factor {f} forbids, so it proves nothing.")
        yield [*at.tolist(), *(-truth).tolist()]


def add_factors(
    model: BoundModel, total: FeatureSum, examples: np.ndarray, keys: Sequence[Any], alpha: np.ndarray
) -> FeatureSum:
    """The sums with what factors add, and with what rounding may hide: sums of terms are rounded once, products and the last sum again."""
    if model.data.factors is None:
        return total
    parts = [share * math.fsum(terms) for share, terms in zip(alpha.tolist(), _terms(model, examples, keys), strict=True)]
    value = math.fsum(parts)
    error = 4 * EPS * (math.fsum(map(abs, parts)) + abs(total.value + value))
    return total._replace(value=total.value + value, value_error=total.value_error + error)


def exact_factors(model: BoundModel, examples: np.ndarray, keys: Sequence[Any], alpha: np.ndarray) -> Dyadic:
    """The same sum in rational arithmetic, as a vector of one number."""
    value = Fraction(0)
    if model.data.factors is not None:
        for share, terms in zip(alpha.tolist(), _terms(model, examples, keys), strict=True):
            value += Fraction(share) * sum(map(Fraction, terms), Fraction(0))
    power = value.denominator.bit_length() - 1  # float64 numbers are dyadic, and so are their sums
    return Dyadic(np.zeros(1, dtype=np.int64), np.array([value.numerator], dtype=object), -power)
