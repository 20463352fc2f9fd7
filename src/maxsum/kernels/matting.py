r"""Products with the matting Laplacian of an image by running box sums: a cost that does not depend on the size of the windows.

Windows are squares of ``2 r + 1`` pixels a side that lie inside the image; window ``(i, j)`` has its corner at pixel ``(i, j)``.
"""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def prepare(image, radius, epsilon, mean, inverse):  # type: ignore[no-untyped-def]
    r"""Mean colour and :math:`(\Sigma + \epsilon I / m)^{-1}` (six entries) of every window of ``m`` pixels.

    The inverse is made of :math:`L D L^\top` with :math:`D \ge \epsilon / m`, so it is positive definite whatever the rounding.
    """
    height, width = image.shape[0], image.shape[1]
    side = 2 * radius + 1
    m = side * side
    sums, run = np.zeros((width, 9)), np.zeros(9)
    for top in range(height - side + 1):
        for j in range(width):
            if top == 0:
                for i in range(side):
                    _add_colours(image, i, j, 1.0, sums)
            else:
                _add_colours(image, top + side - 1, j, 1.0, sums)
                _add_colours(image, top - 1, j, -1.0, sums)
        for left in range(width - side + 1):
            for q in range(9):
                if left == 0:
                    run[q] = 0.0
                    for j in range(side):
                        run[q] += sums[j, q]
                else:
                    run[q] += sums[left + side - 1, q] - sums[left - 1, q]
            r, g, b = run[0] / m, run[1] / m, run[2] / m
            rr = run[3] / m - r * r + epsilon / m
            rg = run[4] / m - r * g
            rb = run[5] / m - r * b
            gg = run[6] / m - g * g + epsilon / m
            gb = run[7] / m - g * b
            bb = run[8] / m - b * b + epsilon / m
            least = epsilon / m
            d0 = max(rr, least)
            rg, rb, below, under = rg / d0, rb / d0, rg, rb
            d1 = max(gg - rg * below, least)
            gb = (gb - rb * below) / d1
            d2 = max(bb - rb * under - gb * gb * d1, least)
            low = rg * gb - rb
            mean[top, left, 0], mean[top, left, 1], mean[top, left, 2] = r, g, b
            inverse[top, left, 0] = 1.0 / d0 + rg * rg / d1 + low * low / d2
            inverse[top, left, 1] = -rg / d1 - low * gb / d2
            inverse[top, left, 2] = low / d2
            inverse[top, left, 3] = 1.0 / d1 + gb * gb / d2
            inverse[top, left, 4] = -gb / d2
            inverse[top, left, 5] = 1.0 / d2


@kernel
def _add_colours(image, i, j, sign, sums):  # type: ignore[no-untyped-def]
    r, g, b = image[i, j, 0], image[i, j, 1], image[i, j, 2]
    sums[j, 0] += sign * r
    sums[j, 1] += sign * g
    sums[j, 2] += sign * b
    sums[j, 3] += sign * r * r
    sums[j, 4] += sign * r * g
    sums[j, 5] += sign * r * b
    sums[j, 6] += sign * g * g
    sums[j, 7] += sign * g * b
    sums[j, 8] += sign * b * b


@kernel
def product(image, mean, inverse, radius, scale, x, out):  # type: ignore[no-untyped-def]
    r"""``out = scale * L x`` for each column of ``x`` (n_pixels, K).

    In each window :math:`x` is regressed on the colours, :math:`x_i \approx a^\top I_i + b`; then
    :math:`(L x)_i = \sum_{w \ni i} (x_i - a_w^\top I_i - b_w)` (He, Sun and Tang 2010).
    """
    height, width = image.shape[0], image.shape[1]
    rows, cols = mean.shape[0], mean.shape[1]
    side = 2 * radius + 1
    m = side * side
    fit, sums, run = np.empty((rows, cols, 4)), np.empty((width, 4)), np.empty(4)
    plane = np.empty((height, width))
    for k in range(x.shape[1]):
        constant = True
        for i in range(height):
            for j in range(width):
                plane[i, j] = x[i * width + j, k]
                constant = constant and plane[i, j] == plane[0, 0]
        if constant:
            for v in range(height * width):
                out[v, k] = 0.0
            continue
        sums[:] = 0.0
        for i in range(side - 1):
            for j in range(width):
                value = plane[i, j]
                sums[j, 0] += value
                for c in range(3):
                    sums[j, c + 1] += value * image[i, j, c]
        for top in range(rows):
            i = top + side - 1
            for j in range(width):
                value = plane[i, j]
                sums[j, 0] += value
                for c in range(3):
                    sums[j, c + 1] += value * image[i, j, c]
            run[:] = 0.0
            for j in range(side - 1):
                for c in range(4):
                    run[c] += sums[j, c]
            for left in range(cols):
                for c in range(4):
                    run[c] += sums[left + side - 1, c]
                level = run[0] / m
                r, g, b = mean[top, left, 0], mean[top, left, 1], mean[top, left, 2]
                cr, cg, cb = run[1] / m - r * level, run[2] / m - g * level, run[3] / m - b * level
                ar = inverse[top, left, 0] * cr + inverse[top, left, 1] * cg + inverse[top, left, 2] * cb
                ag = inverse[top, left, 1] * cr + inverse[top, left, 3] * cg + inverse[top, left, 4] * cb
                ab = inverse[top, left, 2] * cr + inverse[top, left, 4] * cg + inverse[top, left, 5] * cb
                fit[top, left, 0] = level - (ar * r + ag * g + ab * b)
                fit[top, left, 1], fit[top, left, 2], fit[top, left, 3] = ar, ag, ab
                for c in range(4):
                    run[c] -= sums[left, c]
            for j in range(width):
                value = plane[top, j]
                sums[j, 0] -= value
                for c in range(3):
                    sums[j, c + 1] -= value * image[top, j, c]
        sums[:] = 0.0
        for i in range(height):
            if i < rows:
                for j in range(cols):
                    for c in range(4):
                        sums[j, c] += fit[i, j, c]
            if i >= side:
                for j in range(cols):
                    for c in range(4):
                        sums[j, c] -= fit[i - side, j, c]
            deep = min(i, rows - 1) - max(0, i - side + 1) + 1
            run[:] = 0.0
            for j in range(width):
                if j < cols:
                    for c in range(4):
                        run[c] += sums[j, c]
                if j >= side:
                    for c in range(4):
                        run[c] -= sums[j - side, c]
                wide = min(j, cols - 1) - max(0, j - side + 1) + 1
                guess = run[0] + run[1] * image[i, j, 0] + run[2] * image[i, j, 1] + run[3] * image[i, j, 2]
                out[i * width + j, k] = scale * (deep * wide * plane[i, j] - guess)
