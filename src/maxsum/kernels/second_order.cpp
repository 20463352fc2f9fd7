// Dynamic programming on second-order chains, over pairs of tags, without the pairs of pairs that cannot follow each other.
#include "lanes.hpp"

namespace maxsum {

// Best tags of the nodes ranges[i, 0] .. ranges[i, 1] - 1, in chains that start where `head` is set.
//
// From the last node to the first, the best score of what begins at node v, given the tags there and before, is
//
//     V_v(a, b) = q_v(b) + g(a, b) + max_c [h(a, b, c) + V_{v + 1}(b, c)],
//
// without the maximum at the end of a chain. `rest` (most nodes, K, K) and `scores` (most nodes, K) are work space; `loss` has no rows if there is
// none to add. Ties go to the lowest tag.
static void solve_pairs(Array<const i64, 2> ranges, Array<const bool> head, Array<const i64> x_ptr, Array<const i32> x_col, Array<const double> x_val,
                        Array<const double, 2> nodes, Array<const double, 2> pairs, Array<const double, 3> triples, Array<const double, 2> loss,
                        Array<double, 3> rest, Array<double, 2> scores, Array<i32> tags) {
    const i64 n_tags = nodes.shape[1], cells = n_tags * n_tags;
    for (i64 r = 0; r < ranges.size(); r++) {
        const i64 first = ranges(r, 0), last = ranges(r, 1);
        for (i64 v = first; v < last; v++) {
            double *__restrict own = scores[v - first].data;
            if (loss.size()) {
                const double *from = loss[v].data;
                for (i64 k = 0; k < n_tags; k++) own[k] = from[k];
            } else {
                for (i64 k = 0; k < n_tags; k++) own[k] = 0.0;
            }
            for (i64 p = x_ptr[v]; p < x_ptr[v + 1]; p++) {
                const double x = x_val[p], *weights = nodes[x_col[p]].data;
                for (i64 k = 0; k < n_tags; k++) own[k] += x * weights[k];
            }
        }
        for (i64 v = last - 1; v >= first; v--) {
            const i64 i = v - first;
            if (head[v]) continue;
            const bool ends = v + 1 == last || head[v + 1];
            const double *own = scores[i].data, *next = rest.data + (i + 1) * cells;
            double *to = rest.data + i * cells;
            for (i64 a = 0; a < n_tags; a++) {
                for (i64 b = 0; b < n_tags; b++) {
                    const i64 at = a * n_tags + b;
                    const double best = ends ? 0.0 : largest_sum(triples.data + at * n_tags, next + b * n_tags, n_tags);
                    to[at] = own[b] + pairs.data[at] + best;
                }
            }
        }
        for (i64 v = first; v < last; v++) {
            const i64 i = v - first;
            i64 label = 0;
            double top = -INF;
            if (head[v]) {
                const bool ends = v + 1 == last || head[v + 1];
                for (i64 b = 0; b < n_tags; b++) {
                    double own = scores(i, b);
                    if (!ends) own += largest(rest[i + 1][b].data, n_tags);
                    if (own > top) label = b, top = own;
                }
            } else {
                const i64 b = tags[v - 1];
                const double *row = rest[i][b].data;
                const double *before = head[v - 1] ? nullptr : triples[tags[v - 2]][b].data;
                for (i64 c = 0; c < n_tags; c++) {
                    const double own = before ? row[c] + before[c] : row[c];
                    if (own > top) label = c, top = own;
                }
            }
            tags[v] = i32(label);
        }
    }
}

void bind_second_order(nb::module_ &m) {
    def(m, "solve_pairs", solve_pairs, "ranges"_a, "head"_a, "x_ptr"_a, "x_col"_a, "x_val"_a, "nodes"_a, "pairs"_a, "triples"_a, "loss"_a, "rest"_a,
        "scores"_a, "tags"_a, "Best tags of the nodes ``ranges[i, 0] .. ranges[i, 1] - 1``, in chains that start where ``head`` is set.");
}

} // namespace maxsum
