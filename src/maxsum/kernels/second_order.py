"""Dynamic programming on second-order chains, over pairs of tags, without the pairs of pairs that cannot follow each other."""

from __future__ import annotations

import numpy as np

from .jit import kernel


@kernel
def solve_pairs(ranges, head, x_ptr, x_col, x_val, nodes, pairs, triples, loss, rest, scores, tags):  # type: ignore[no-untyped-def]
    r"""Best tags of the nodes ``ranges[i, 0] .. ranges[i, 1] - 1``, in chains that start where ``head`` is set.

    From the last node to the first, the best score of what begins at node ``v``, given the tags there and before, is

    .. math:: V_v(a, b) = q_v(b) + g(a, b) + \max_c\, [h(a, b, c) + V_{v + 1}(b, c)],

    without the maximum at the end of a chain. ``rest`` (most nodes, K, K) and ``scores`` (most nodes, K) are work space; ``loss``
    has no rows if there is none to add. Ties go to the lowest tag.
    """
    n_tags = nodes.shape[1]
    for r in range(len(ranges)):
        first, last = ranges[r, 0], ranges[r, 1]
        for v in range(first, last):
            i = v - first
            for k in range(n_tags):
                scores[i, k] = loss[v, k] if len(loss) else 0.0
            for p in range(x_ptr[v], x_ptr[v + 1]):
                f, x = x_col[p], x_val[p]
                for k in range(n_tags):
                    scores[i, k] += x * nodes[f, k]
        for v in range(last - 1, first - 1, -1):
            i = v - first
            if head[v]:
                continue
            ends = v + 1 == last or head[v + 1]
            for a in range(n_tags):
                for b in range(n_tags):
                    best = 0.0
                    if not ends:
                        best = -np.inf
                        for c in range(n_tags):
                            best = max(best, triples[a, b, c] + rest[i + 1, b, c])
                    rest[i, a, b] = scores[i, b] + pairs[a, b] + best
        for v in range(first, last):
            i = v - first
            label, top = 0, -np.inf
            if head[v]:
                ends = v + 1 == last or head[v + 1]
                for b in range(n_tags):
                    own = scores[i, b]
                    if not ends:
                        best = -np.inf
                        for c in range(n_tags):
                            best = max(best, rest[i + 1, b, c])
                        own += best
                    if own > top:
                        label, top = b, own
            else:
                b = tags[v - 1]
                for c in range(n_tags):
                    own = rest[i, b, c]
                    if not head[v - 1]:
                        own += triples[tags[v - 2], b, c]
                    if own > top:
                        label, top = c, own
            tags[v] = label
