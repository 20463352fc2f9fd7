// Dual block-coordinate ascent where an example has so few labellings that all of them are planes.
//
// Block j holds a multiplier for every subset S of labels. A step moves some of it from the worst subset in use to the best one. Scores of all
// subsets cost less than one product with the features, so nothing is cached.
#include "poll.hpp"
#include "simplex.hpp"

namespace maxsum {

// total[S]: sum of own[l] over l in S and of pair[l, m] over l < m in S.
static void scores(const double *own, const double *pair, i64 n_labels, double *__restrict column, double *__restrict total) {
    total[0] = 0.0;
    for (i64 m = 0; m < n_labels; m++) {
        const i64 half = i64(1) << m;
        column[0] = own[m];
        for (i64 i = 0; i < m; i++) {
            const i64 size = i64(1) << i;
            const double both = pair[i * n_labels + m];
            double *__restrict upper = column + size; // the lower half ends where it begins
            for (i64 s = 0; s < size; s++) upper[s] = column[s] + both;
        }
        double *__restrict upper = total + half;
        for (i64 s = 0; s < half; s++) upper[s] = total[s] + column[s];
    }
}

// A product with eight sums, so that it does not wait for each addition.
static double dot(const double *a, const double *b, i64 n) {
    double s[8] = {};
    const i64 whole = n / 8 * 8;
    for (i64 p = 0; p < whole; p += 8) {
        for (i64 q = 0; q < 8; q++) s[q] += a[p + q] * b[p + q];
    }
    for (i64 p = whole; p < n; p++) s[0] += a[p] * b[p];
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

// Add to the entry of table e that a subset uses, and to what `scores` reads.
static void add_to_table(Array<double, 3> tables, double *own, double *pair, i64 n_labels, i64 e, i64 u, i64 v, i64 subset, double amount) {
    const i64 p = (subset >> u) & 1, q = (subset >> v) & 1;
    double &both = pair[std::min(u, v) * n_labels + std::max(u, v)];
    tables(e, p, q) += amount;
    if (p == q) {
        both += amount;
        if (p == 0) {
            own[u] -= amount;
            own[v] -= amount;
        }
    } else {
        both -= amount;
        own[p == 1 ? u : v] += amount;
    }
}

// Visit the examples of `order`; gaps[j] is the gap of block j before. Returns the gain of the dual.
//
// x (n, d) holds dense features, or none (0, 0) and they are the CSR arrays. `norm` are squared norms of rows, `loss` (n, L) is the loss of label 1
// minus that of 0. `node` (L, d), `tables`, `own` and `pair` are the weights, changed in place.
static double ascend(Array<const i64> order, Array<const double, 2> x, Array<const i64> x_ptr, Array<const i32> x_col, Array<const double> x_val,
                     Array<const double> norm, Array<const double, 2> loss, Array<const i32, 2> edges, Array<double, 2> alpha, Array<double, 2> node,
                     Array<double, 3> tables, Array<double> own, Array<double, 2> pair, i64 max_steps, Array<double> gaps) {
    const i64 n_labels = loss.shape[1], n_subsets = alpha.shape[1], n_edges = edges.size(), width = node.shape[1], n_features = x.shape[1];
    Owned<double> memory(2 * n_subsets + 3 * n_labels);
    double *total = memory.data, *column = total + n_subsets, *score = column + n_subsets, *moved = score + n_labels, *all_own = moved + n_labels;
    const bool dense = x.size() > 0;
    double gain = 0.0;
    Poll poll(1 << 17); // subsets
    for (i64 i = 0; i < order.size(); i++) {
        poll(u64(n_subsets));
        const i64 j = order[i];
        const double *features = dense ? x.data + j * n_features : nullptr;
        const i64 begin = dense ? 0 : x_ptr[j], end = dense ? 0 : x_ptr[j + 1];
        double *weight = alpha.data + j * n_subsets;
        for (i64 m = 0; m < n_labels; m++) {
            const double *row = node.data + m * width;
            moved[m] = 0.0;
            if (dense) {
                score[m] = loss(j, m) + dot(row, features, width);
            } else {
                double product = 0.0;
                for (i64 p = begin; p < end; p++) product += x_val.data[p] * row[x_col.data[p]];
                score[m] = loss(j, m) + product;
            }
        }
        double gap = 0.0;
        for (i64 step = 0; step < max_steps; step++) {
            for (i64 m = 0; m < n_labels; m++) all_own[m] = score[m] + own[m];
            scores(all_own, pair.data, n_labels, column, total);
            const auto [high, low] = ends(total, weight, n_subsets);
            if (low < 0) break;
            if (step == 0) {
                for (i64 s = 0; s < n_subsets; s++) {
                    if (weight[s] > 0.0) gap += weight[s] * (total[high] - total[s]);
                }
            }
            if (is_flat(total, high, low)) break;
            const double slope = total[high] - total[low];
            const i64 differ = high ^ low;
            double curve = 0.0;
            for (i64 m = 0; m < n_labels; m++) {
                if ((differ >> m) & 1) curve += norm[j];
            }
            for (i64 e = 0; e < n_edges; e++) {
                if (((differ >> edges(e, 0)) & 1) || ((differ >> edges(e, 1)) & 1)) curve += 2.0;
            }
            const double size = exchange(weight, high, low, slope, curve);
            for (i64 m = 0; m < n_labels; m++) {
                const double change = size * double(((low >> m) & 1) - ((high >> m) & 1));
                moved[m] += change;
                score[m] += change * norm[j];
            }
            for (i64 e = 0; e < n_edges; e++) {
                const i64 u = edges(e, 0), v = edges(e, 1);
                if (((differ >> u) & 1) || ((differ >> v) & 1)) {
                    add_to_table(tables, own.data, pair.data, n_labels, e, u, v, low, size);
                    add_to_table(tables, own.data, pair.data, n_labels, e, u, v, high, -size);
                }
            }
            const double gained = size * (slope - 0.5 * size * curve);
            gain += gained;
            if (gained < 1e-3 * gap) break;
        }
        gaps[j] = gap;
        for (i64 m = 0; m < n_labels; m++) {
            const double factor = moved[m];
            if (factor == 0.0) continue;
            double *__restrict row = node.data + m * width;
            if (dense) {
                for (i64 p = 0; p < n_features; p++) row[p] += factor * features[p];
            } else {
                for (i64 p = begin; p < end; p++) row[x_col.data[p]] += factor * x_val.data[p];
            }
        }
    }
    return gain;
}

void bind_subset_ascent(nb::module_ &m) {
    def(m, "ascend", ascend, "order"_a, "x"_a, "x_ptr"_a, "x_col"_a, "x_val"_a, "norm"_a, "loss"_a, "edges"_a, "alpha"_a, "node"_a, "tables"_a,
        "own"_a, "pair"_a, "max_steps"_a, "gaps"_a,
        "Visit the examples of ``order``; ``gaps[j]`` is the gap of block ``j`` before. Returns the gain of the dual.");
}

} // namespace maxsum
