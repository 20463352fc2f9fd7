// All subsets of a few binary labels: the best one, and what each label is worth, by enumeration.
//
// A binary pairwise function is, up to a constant, F(S) = sum_{l in S} a_l + sum_{l < m in S} b_lm. Subset S is the number whose bit l says whether
// it has label l. The second sum does not depend on the example and is made once. `best_labellings` does the same for small graphs of any kind.
#include "arrays.hpp"
#include "poll.hpp"

namespace maxsum {

// out[S]: sum of pair[l, m] over l < m in S, for all 2^L subsets.
static void pair_sums(Array<const double, 2> pair, Array<double> out) {
    out[0] = 0.0;
    for (i64 m = 0; m < pair.size(); m++) {
        const i64 half = i64(1) << m;
        double *own = out.data + half;
        std::copy(out.data, own, own);
        for (i64 i = 0; i < m; i++) {
            const double more = pair(i, m);
            const i64 step = i64(1) << i;
            for (i64 first = step; first < half; first += 2 * step) {
                for (i64 s = first; s < first + step; s++) own[s] += more;
            }
        }
    }
}

// total[S] = F(S) of one example.
static void all_sums(Array<const double> gain, Array<const double> sums, Array<double> total) {
    total[0] = 0.0;
    for (i64 m = 0; m < gain.size(); m++) {
        const i64 half = i64(1) << m;
        const double own = gain[m], *low = total.data;
        double *__restrict high = total.data + half;
        for (i64 s = 0; s < half; s++) high[s] = low[s] + own;
    }
    double *__restrict all = total.data;
    for (i64 s = 0; s < sums.size(); s++) all[s] += sums.data[s];
}

// The best subset of each row of `gain` (n, L) as 0/1 labels, the smallest number among equals. Returns how much each scores more than the subset
// truth[i].
static Owned<double> best_subsets(Array<const double, 2> gain, Array<const double> sums, Array<const i64> truth, Array<double> total,
                                  Array<i32, 2> labels) {
    const i64 n_labels = gain.shape[1];
    Owned<double> slack(gain.size());
    for (i64 i = 0; i < gain.size(); i++) {
        all_sums(gain[i], sums, total);
        i64 best = 0;
        double top = total[0];
        for (i64 s = 1; s < sums.size(); s++) {
            if (total[s] > top) {
                top = total[s];
                best = s;
            }
        }
        slack[i] = top - total[truth[i]];
        for (i64 m = 0; m < n_labels; m++) labels(i, m) = i32((best >> m) & 1);
    }
    return slack;
}

// Eight maxima of the numbers whose places are equal mod 8; n is a multiple of 8.
static void add_maxima(double *__restrict maxima, const double *__restrict values, i64 n) {
    for (i64 s = 0; s < n; s += 8) {
        for (int q = 0; q < 8; q++) maxima[q] = maxima[q] < values[s + q] ? values[s + q] : maxima[q];
    }
}

// out[i, l]: the best F with label l minus the best without it.
static void max_marginals(Array<const double, 2> gain, Array<const double> sums, Array<double> total, Array<double, 2> out) {
    const i64 n_labels = gain.shape[1], n = sums.size();
    for (i64 i = 0; i < gain.size(); i++) {
        all_sums(gain[i], sums, total);
        double last[8]; // the best of the subsets that agree in their first three labels
        std::fill(last, last + 8, -INF);
        for (i64 s = 0; s < n && n < 8; s++) last[s] = total[s];
        if (n >= 8) add_maxima(last, total.data, n);
        for (i64 m = 0; m < n_labels; m++) {
            double inside[8], outside[8];
            std::fill(inside, inside + 8, -INF);
            std::fill(outside, outside + 8, -INF);
            if (m < 3) {
                for (int q = 0; q < 8; q++) ((q >> m) & 1 ? inside : outside)[q] = last[q];
            } else {
                const i64 half = i64(1) << m;
                for (i64 s = 0; s < n; s += 2 * half) {
                    add_maxima(outside, total.data + s, half);
                    add_maxima(inside, total.data + s + half, half);
                }
            }
            out(i, m) = largest(inside, 8) - largest(outside, 8);
        }
    }
}

// The best labelling of each example into its rows of `labels`; the smallest number among equals, the first node counting least.
//
// `total` and `column` are scratch for as many numbers as an example has labellings. They grow node by node: the scores of all labellings of the
// nodes before, for each label of the next one with the scores of its edges to them, so a labelling costs two additions, whatever the number of
// edges.
static void best_labellings(Array<const i64> node_ptr, Array<const i64> edge_ptr, Array<const i32, 2> edges, Array<const i32> n_states,
                            Array<const double, 2> unary, Array<const double, 3> bank, Array<const i32> edge_table, Array<const double> edge_weight,
                            Array<const i64> examples, Array<double> total, Array<double> column, Array<i32> labels) {
    const i64 n_labels = unary.shape[1];
    std::vector<double> pair;
    Poll poll(1 << 17); // labellings
    for (i64 i = 0; i < examples.size(); i++) {
        poll(u64(total.size()));
        const i64 first = node_ptr[examples[i]], n_nodes = node_ptr[examples[i] + 1] - first;
        const auto at = [&](i64 u, i64 v, i64 a, i64 b) -> double & { return pair[((u * n_nodes + v) * n_labels + a) * n_labels + b]; };
        pair.assign(n_nodes * n_nodes * n_labels * n_labels, 0.0);
        for (i64 e = edge_ptr[examples[i]]; e < edge_ptr[examples[i] + 1]; e++) {
            const i64 u = edges(e, 0) - first, v = edges(e, 1) - first;
            const Array<const double, 2> table = bank[edge_table[e]];
            const double weight = edge_weight[e];
            for (i64 a = 0; a < n_labels; a++) {
                for (i64 b = 0; b < n_labels; b++) {
                    if (u < v) {
                        at(u, v, a, b) += weight * table(a, b);
                    } else {
                        at(v, u, b, a) += weight * table(a, b);
                    }
                }
            }
        }
        i64 count = 1;
        total[0] = 0.0;
        for (i64 m = 0; m < n_nodes; m++) {
            // Downwards: label 0 replaces the scores that the others start from.
            for (i64 k = n_states[first + m] - 1; k >= 0; k--) {
                column[0] = unary(first + m, k);
                i64 size = 1;
                for (i64 u = 0; u < m; u++) {
                    for (i64 a = n_states[first + u] - 1; a >= 0; a--) {
                        const double more = at(u, m, a, k);
                        const double *from = column.data;
                        if (a > 0) {
                            double *__restrict to = column.data + a * size;
                            for (i64 s = 0; s < size; s++) to[s] = from[s] + more;
                        } else {
                            for (i64 s = 0; s < size; s++) column.data[s] += more;
                        }
                    }
                    size *= n_states[first + u];
                }
                const double *__restrict own = column.data;
                if (k > 0) {
                    const double *from = total.data;
                    double *__restrict to = total.data + k * count;
                    for (i64 s = 0; s < count; s++) to[s] = from[s] + own[s];
                } else {
                    for (i64 s = 0; s < count; s++) total.data[s] += own[s];
                }
            }
            count *= n_states[first + m];
        }
        i64 best = 0;
        double top = total[0];
        for (i64 s = 1; s < count; s++) {
            if (total[s] > top) {
                top = total[s];
                best = s;
            }
        }
        for (i64 m = 0; m < n_nodes; m++) {
            labels[first + m] = i32(best % n_states[first + m]);
            best /= n_states[first + m];
        }
    }
}

void bind_multilabel(nb::module_ &m) {
    def(m, "pair_sums", pair_sums, "pair"_a, "out"_a, "``out[S]``: sum of ``pair[l, m]`` over ``l < m`` in ``S``, for all ``2 ** L`` subsets.");
    def(m, "best_subsets", best_subsets, "gain"_a, "sums"_a, "truth"_a, "total"_a, "labels"_a,
        "The best subset of each row of ``gain`` (n, L) as 0/1 labels, the smallest number among equals.");
    def(m, "max_marginals", max_marginals, "gain"_a, "sums"_a, "total"_a, "out"_a,
        "``out[i, l]``: the best ``F`` with label ``l`` minus the best without it.");
    def(m, "best_labellings", best_labellings, "node_ptr"_a, "edge_ptr"_a, "edges"_a, "n_states"_a, "unary"_a, "bank"_a, "edge_table"_a,
        "edge_weight"_a, "examples"_a, "total"_a, "column"_a, "labels"_a, "The best labelling of each example into its rows of ``labels``.");
}

} // namespace maxsum
