r"""Messages through tables that depend on the distance of the two labels only, and no more from a width ``D`` on.

With :math:`f(d)` the table's value at distance ``d``, ``f`` constant and lowest at :math:`d \ge D`, the message is

.. math:: m(l) = \max\Bigl(\max_k a(k) + w f(D),\ \max_{|k - l| < D} a(k) + w f(|k - l|)\Bigr).

A narrow band is taken as it stands, ``O(K D)`` in contiguous loops. A wide one is a distance transform of ``O(K)``: two
recursions where ``f`` falls linearly, the upper envelope of parabolas where it falls quadratically.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel

GENERAL = 1  # any table; the kinds are bits, so that a sum of them names the kernel
ASSOCIATIVE = 2  # a constant and a diagonal above it
BAND = 4  # of the distance alone, constant from a width on
LINEAR = 8  # a band that falls linearly
QUADRATIC = 16  # a band that falls with the square


@kernel
def linear(own, n_labels, step, same, apart, out, back):  # type: ignore[no-untyped-def]
    """``out[l] = max(apart, max_k own[k] + same - step * abs(k - l))``."""
    rise, fall = -np.inf, -np.inf
    for k in range(n_labels):
        rise = max(rise - step, own[k])
        fall = max(fall - step, own[n_labels - 1 - k])
        out[k] = rise
        back[n_labels - 1 - k] = fall
    for k in range(n_labels):
        out[k] = max(apart, max(out[k], back[k]) + same)


@kernel
def quadratic(own, n_labels, step, same, apart, out, lifted, hull):  # type: ignore[no-untyped-def]
    r"""``out[l] = max(apart, max_k own[k] + same - step * (k - l) ** 2)``.

    ``own[k] - step * (k - l)**2 = lifted[k] + 2 * step * k * l - step * l * l``: only corners of the concave hull of
    ``lifted`` can be the highest, in their order.
    """
    size = 0
    for k in range(n_labels):
        value = own[k] - step * (k * k)
        lifted[k] = value
        while size >= 2:
            i, j = hull[size - 2], hull[size - 1]
            if (lifted[j] - lifted[i]) * (k - j) > (value - lifted[j]) * (j - i):
                break
            size -= 1
        hull[size] = k
        size += 1
    corner, at = hull[0], 0
    for m in range(n_labels):
        while at + 1 < size:
            further = hull[at + 1]
            if lifted[further] - lifted[corner] < -2.0 * step * m * (further - corner):
                break
            corner = further
            at += 1
        out[m] = max(apart, own[corner] + same - step * ((m - corner) * (m - corner)))
