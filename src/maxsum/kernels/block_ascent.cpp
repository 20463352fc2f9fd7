// Dual block-coordinate ascent of the n-slack problem on stored planes.
//
//     maximise  sum_i alpha_i b_i - |w|^2 / 2,   w = sum_i alpha_i z_i + A' mu,   sum of alpha over example j = c_j,   alpha >= 0, mu >= 0
//
// The planes of an example are labellings; their vectors z_i are made on the fly from the features. Slot 0 of each example is its true labelling
// (b = 0, z = 0).
#include "planes.hpp"
#include "poll.hpp"
#include "simplex.hpp"

namespace maxsum {

// A visit ends with a step that gains less than this part of the visit: the next example has more to give.
constexpr double LITTLE = 1e-2;

// w[p] += amount, cut off at 0 where the cone says so.
template <bool CUT> static inline void add(double *plain, double *value, const u8 *nonneg, i64 p, double amount) {
    const double sum = plain[p] + amount;
    plain[p] = sum;
    if constexpr (CUT) value[p] = nonneg[p] && sum < 0.0 ? 0.0 : sum;
}

// The weights with negative entries of `nonneg` cut off.
static void cut_off(const Weights &weights) {
    const double *plain = weights.plain.data;
    double *value = weights.value.data;
    for (i64 p = 0; p < weights.nonneg.size(); p++) value[p] = weights.nonneg[p] && plain[p] < 0.0 ? 0.0 : plain[p];
}

// One sweep of exact coordinate steps on the multipliers: mu_r <- max(0, mu_r - A_r w / |A_r|^2).
static void ascend_rows(const Weights &weights) {
    const i32 *col = weights.row_col.data;
    const double *val = weights.row_val.data;
    double *plain = weights.plain.data, *value = weights.value.data;
    const u8 *nonneg = weights.nonneg.data;
    for (i64 r = 0; r < weights.mu.size(); r++) {
        const i64 begin = weights.row_ptr[r], end = weights.row_ptr[r + 1];
        double product = 0.0;
        for (i64 i = begin; i < end; i++) product += val[i] * plain[col[i]];
        const double mu = std::max(0.0, weights.mu[r] - product / weights.row_norm[r]), step = mu - weights.mu[r];
        if (step == 0.0) continue;
        weights.mu[r] = mu;
        if (weights.nonneg.size() > 0) {
            for (i64 i = begin; i < end; i++) add<true>(plain, value, nonneg, col[i], step * val[i]);
        } else {
            for (i64 i = begin; i < end; i++) plain[col[i]] += step * val[i];
        }
    }
}

// A step of the whole block towards its best plane, with closed-form line search; returns (gain, gap before).
static std::pair<double, double> frank_wolfe_step(const double *gram, i64 capacity, double *alpha, i64 used, const double *gradient, double *change,
                                                  double sigma) {
    i64 best = 0;
    double total = 0.0;
    for (i64 i = 0; i < used; i++) {
        total += alpha[i];
        if (gradient[i] > gradient[best]) best = i;
    }
    double slope = 0.0, curve = total * total * gram[best * capacity + best];
    for (i64 i = 0; i < used; i++) {
        const double a = alpha[i];
        slope += a * (gradient[best] - gradient[i]);
        curve -= 2.0 * total * a * gram[best * capacity + i];
        for (i64 k = 0; k < used; k++) curve += a * alpha[k] * gram[i * capacity + k];
    }
    if (slope <= 0.0) return {0.0, 0.0};
    curve *= sigma;
    const double size = slope >= curve ? 1.0 : slope / curve;
    for (i64 i = 0; i < used; i++) {
        const double target = i == best ? total : 0.0;
        change[i] = size * (target - alpha[i]);
        alpha[i] = size == 1.0 ? target : alpha[i] + change[i];
    }
    return {size * (slope - 0.5 * size * curve), slope};
}

// w += change[i] * z_i over the planes of an example whose vectors are stored.
static void move_explicit(const Planes &planes, const Weights &weights, i64 first, i64 used, const double *change) {
    const i64 n = planes.vector.shape[1];
    double *__restrict plain = weights.plain.data;
    for (i64 i = 1; i < used; i++) {
        const double factor = change[i];
        if (factor == 0.0) continue;
        const double *row = planes.vector.data + (first + i) * n;
        for (i64 p = 0; p < n; p++) plain[p] += factor * row[p];
    }
    cut_off(weights);
}

template <bool CUT> static i64 move_all(const Design &design, const Planes &planes, const Weights &weights, i64 j, i64 used, const Scratch &scratch) {
    const i64 first = design.node_ptr[j], last = design.node_ptr[j + 1], n_nodes = last - first, n_labels = design.node_index.shape[1];
    const i32 *pool = planes.pool.data + planes.pool_ptr[j], *truth = design.truth.data, *node_base = design.node_base.data;
    const i32 *x_col = design.x_col.data, *node_index = design.node_index.data;
    const i64 *x_ptr = design.x_ptr.data;
    const double *x_val = design.x_val.data, *change = scratch.change.data;
    double *plain = weights.plain.data, *value = weights.value.data, *share = scratch.share.data;
    const u8 *nonneg = weights.nonneg.data, *active = scratch.active.data;
    u8 *wanted = scratch.wanted.data;
    i64 *chosen = scratch.chosen.data, *moving = scratch.moving.data;
    i64 work = 0, n_moving = 0;
    for (i64 i = 1; i < used; i++) {
        if (change[i] != 0.0) moving[n_moving++] = i;
    }
    if (n_moving == 0) return 0;
    const i64 step = design.node_step[0], part = design.node_step[1];
    for (i64 v = first; v < last; v++) {
        if (!active[v - first]) continue;
        const i64 t = truth[v];
        const i32 *at = pool + (v - first);
        i64 seen = 0, n = 0;
        double own = 0.0;
        for (i64 a = 0; a < n_moving; a++) {
            const i64 i = moving[a], k = at[i * n_nodes];
            if (k == t) continue;
            if (!wanted[k]) {
                wanted[k] = 1;
                chosen[seen++] = k;
                share[k] = 0.0;
            }
            own += change[i];
            share[k] -= change[i];
        }
        for (i64 q = 0; q < seen; q++) {
            const i64 k = chosen[q];
            wanted[k] = 0;
            if (share[k] != 0.0) chosen[n++] = k;
        }
        if (own != 0.0) {
            chosen[n++] = t;
            share[t] = own;
        }
        if (n == 0) continue;
        if (part) {
            for (i64 q = 0; q < n; q++) {
                const i64 r = v * step + chosen[q], end = x_ptr[r + 1];
                const double factor = share[chosen[q]];
                for (i64 i = x_ptr[r]; i < end; i++) add<CUT>(plain, value, nonneg, x_col[i], factor * x_val[i]);
            }
            continue;
        }
        const i64 begin = x_ptr[v], end = x_ptr[v + 1];
        work += 3 * (end - begin) * n;
        if (n == 2) { // as most nodes: one plane moves and two labels change
            const i64 k = chosen[0], l = chosen[1];
            const double to_k = share[k], to_l = share[l];
            for (i64 i = begin; i < end; i++) {
                const i64 f = x_col[i], base = node_base[f];
                const double x = x_val[i];
                if (!CUT && base >= 0) {
                    plain[base + k] += x * to_k;
                    plain[base + l] += x * to_l;
                } else {
                    const i64 p = node_index[f * n_labels + k], q = node_index[f * n_labels + l];
                    if (p >= 0) add<CUT>(plain, value, nonneg, p, x * to_k);
                    if (q >= 0) add<CUT>(plain, value, nonneg, q, x * to_l);
                }
            }
            continue;
        }
        for (i64 i = begin; i < end; i++) {
            const i64 f = x_col[i], base = node_base[f];
            const double x = x_val[i];
            if (!CUT && base >= 0) {
                double *__restrict row = plain + base;
                for (i64 q = 0; q < n; q++) {
                    const i64 k = chosen[q];
                    row[k] += x * share[k];
                }
            } else {
                const i32 *index = node_index + f * n_labels;
                for (i64 q = 0; q < n; q++) {
                    const i64 k = chosen[q], p = index[k];
                    if (p >= 0) add<CUT>(plain, value, nonneg, p, x * share[k]);
                }
            }
        }
    }
    const i64 edge_step = design.edge_step[0], edge_part = design.edge_step[1], first_edge = design.edge_ptr[j], last_edge = design.edge_ptr[j + 1];
    const i32 *edges = design.edges.data, *f_col = design.f_col.data, *edge_index = design.edge_index.data;
    const i64 *f_ptr = design.f_ptr.data, table = design.edge_index.shape[1] * design.edge_index.shape[2], row = design.edge_index.shape[2];
    const double *f_val = design.f_val.data;
    for (i64 e = first_edge; e < last_edge; e++) {
        const i64 u = edges[2 * e], v = edges[2 * e + 1], s = truth[u], t = truth[v];
        if (!(active[u - first] || active[v - first])) continue;
        // the features of the labels (k, m) of the edge, times `factor`
        const auto give = [&](i64 k, i64 m, double factor) {
            const i64 r = e * edge_step + (k * n_labels + m) * edge_part, end = f_ptr[r + 1];
            for (i64 q = f_ptr[r]; q < end; q++) {
                const i64 p = edge_index[f_col[q] * table + k * row + m];
                if (p >= 0) add<CUT>(plain, value, nonneg, p, factor * f_val[q]);
            }
        };
        double total = 0.0;
        for (i64 a = 0; a < n_moving; a++) {
            const i64 i = moving[a], k = pool[i * n_nodes + u - first], m = pool[i * n_nodes + v - first];
            if (k == s && m == t) continue;
            total += change[i];
            give(k, m, -change[i]);
        }
        if (total != 0.0) give(s, t, total);
    }
    return work + used * (last_edge - first_edge);
}

// w += change[i] * z_i over all planes of example j at once, node by node; returns the entries touched.
static i64 move(const Design &design, const Planes &planes, const Weights &weights, i64 j, i64 used, const Scratch &scratch) {
    return weights.nonneg.size() > 0 ? move_all<true>(design, planes, weights, j, used, scratch)
                                     : move_all<false>(design, planes, weights, j, used, scratch);
}

struct Visit {
    double gain, gap;
    i64 work;
};

// Improve the dual in the block of example j by pairwise steps with closed-form line search.
//
// With max_steps 0 a single Frank-Wolfe step towards the best plane is taken instead. Returns (gain of the dual, gap of the block before, entries
// touched). The gain is exact without a cone and a lower bound with one: cutting off what leaves the cone only shortens w. With weights.sigma it is
// that of the model in which all curvature is so much larger.
static Visit visit(const Design &design, const Planes &planes, const Weights &weights, i64 j, i64 max_steps, const Scratch &scratch) {
    const i64 n_nodes = design.node_ptr[j + 1] - design.node_ptr[j], first = planes.slot_ptr[j], used = planes.used[j];
    const i64 capacity = planes.slot_ptr[j + 1] - first;
    const double *gram = planes.gram.data + planes.gram_ptr[j], *offset = planes.offset.data + first, *w = weights.value.data;
    double *gradient = scratch.gradient.data, *change = scratch.change.data, *alpha = planes.alpha.data + first;
    i64 *age = planes.age.data + first;
    gradient[0] = 0.0;
    change[0] = 0.0;
    const bool is_explicit = planes.vector.size() > 0;
    Visit found{0.0, 0.0, 0};
    if (is_explicit) {
        const i64 n = planes.vector.shape[1];
        const double *rows = planes.vector.data + first * n;
        found.work = used * weights.value.size();
        i64 i = 1;
        for (; i + 3 < used; i += 4) { // four sums at a time, which do not wait for each other
            const double *a = rows + i * n, *b = a + n, *c = b + n, *d = c + n;
            double to_a = 0.0, to_b = 0.0, to_c = 0.0, to_d = 0.0;
            for (i64 p = 0; p < n; p++) {
                to_a += a[p] * w[p];
                to_b += b[p] * w[p];
                to_c += c[p] * w[p];
                to_d += d[p] * w[p];
            }
            gradient[i] = to_a, gradient[i + 1] = to_b, gradient[i + 2] = to_c, gradient[i + 3] = to_d;
        }
        for (; i < used; i++) gradient[i] = dot(rows + i * n, w, n);
    } else {
        found.work = needed_scores(design, planes, j, used, w, scratch) + used * n_nodes;
        products(design, planes, j, used, w, scratch);
    }
    for (i64 i = 1; i < used; i++) {
        gradient[i] = offset[i] - gradient[i];
        change[i] = 0.0;
    }
    if (max_steps == 0) {
        std::tie(found.gain, found.gap) = frank_wolfe_step(gram, capacity, alpha, used, gradient, change, weights.sigma);
    } else {
        double top = 0.0;
        for (i64 i = 1; i < used; i++) top = std::max(top, gradient[i]);
        for (i64 i = 0; i < used; i++) found.gap += alpha[i] * (top - gradient[i]);
        found.gain = pairwise_steps(gram, capacity, weights.sigma, gradient, alpha, used, change, max_steps, 0.0, LITTLE);
    }
    for (i64 i = 0; i < used; i++) {
        age[i] = alpha[i] > 0.0 ? 0 : age[i] + 1;
        change[i] *= weights.sigma;
    }
    if (is_explicit) {
        move_explicit(planes, weights, first, used, change);
    } else {
        found.work += move(design, planes, weights, j, used, scratch);
    }
    if (weights.mu.size() > 0) ascend_rows(weights);
    return found;
}

// Passes over the stored planes of the examples in `order` (reordered in place) while they pay.
//
// A pass pays if its gain for its work is no less than gain / work so far, and more than `least`. Examples whose gap is below `active` times the mean
// are left out of the next pass. Returns (passes done, gain, work).
static std::tuple<i64, double, double> cached_passes(const Design &design, const Planes &planes, const Weights &weights, Array<i64> order,
                                                     i64 n_passes, i64 max_steps, double active, double least, double gain, double work,
                                                     Array<double> gaps, const Scratch &scratch) {
    i64 n = order.size(), done = 0;
    Poll poll(1 << 17); // entries touched
    while (done < n_passes && n > 0) {
        double more = 0.0, total = 0.0;
        i64 touched = 0;
        for (i64 i = 0; i < n; i++) {
            const i64 j = order[i];
            const Visit found = visit(design, planes, weights, j, max_steps, scratch);
            gaps[j] = found.gap;
            more += found.gain;
            touched += found.work;
            total += found.gap;
            poll(u64(found.work) + 100);
        }
        done += 1;
        const bool pays = more * work >= gain * double(touched) && more > least;
        gain += more;
        work += double(touched);
        if (!pays) break;
        i64 kept = 0;
        for (i64 i = 0; i < n; i++) {
            const i64 j = order[i];
            if (gaps[j] * double(n) > active * total) {
                order[i] = order[kept];
                order[kept] = j;
                kept += 1;
            }
        }
        n = kept;
    }
    return {done, gain, work};
}

// Recompute w from planes and multipliers, without the rounding of many small steps; returns sum of alpha * b.
static double rebuild(const Design &design, const Planes &planes, const Weights &weights, const Scratch &scratch) {
    double total = 0.0;
    weights.plain.fill(0.0);
    for (i64 j = 0; j < planes.used.size(); j++) {
        const i64 first = planes.slot_ptr[j], used = planes.used[j];
        for (i64 i = 0; i < used; i++) {
            scratch.change[i] = planes.alpha[first + i];
            total += planes.alpha[first + i] * planes.offset[first + i];
        }
        if (planes.vector.size() > 0) {
            move_explicit(planes, weights, first, used, scratch.change.data);
        } else {
            std::fill_n(scratch.active.data, design.node_ptr[j + 1] - design.node_ptr[j], u8(1));
            move(design, planes, weights, j, used, scratch);
        }
    }
    for (i64 r = 0; r < weights.mu.size(); r++) {
        for (i64 i = weights.row_ptr[r]; i < weights.row_ptr[r + 1]; i++) weights.plain[weights.row_col[i]] += weights.mu[r] * weights.row_val[i];
    }
    cut_off(weights);
    return total;
}

void bind_block_ascent(nb::module_ &m) {
    def(m, "cached_passes", cached_passes, "design"_a, "planes"_a, "weights"_a, "order"_a, "n_passes"_a, "max_steps"_a, "active"_a, "least"_a,
        "gain"_a, "work"_a, "gaps"_a, "scratch"_a, "Passes over the stored planes of the examples in ``order`` (reordered in place) while they pay.");
    def(m, "rebuild", rebuild, "design"_a, "planes"_a, "weights"_a, "scratch"_a,
        "Recompute ``w`` from planes and multipliers, without the rounding of many small steps; returns sum of alpha * b.");
}

} // namespace maxsum
