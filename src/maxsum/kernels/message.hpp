// One max-sum message through a table: the inner loop of every message-passing algorithm.
//
// Four rows at a time: the compiler keeps them in registers and vectorises over the contiguous label.
#pragma once

#include "arrays.hpp"

namespace maxsum {

// out[l] = max_k theta[k] + weight * tables[t, k, l]: from the edge's first node to its second.
inline void push_first(const double *theta, const Array<const double, 3> &tables, i64 t, double weight, i64 n_first, i64 n_second, double *out) {
    const i64 width = tables.shape[2];
    const double *row = tables.data + t * tables.shape[1] * width;
    for (i64 m = 0; m < n_second; m++) out[m] = -INF;
    i64 k = 0;
    for (; k + 4 <= n_first; k += 4) {
        const double a = theta[k], b = theta[k + 1], c = theta[k + 2], d = theta[k + 3];
        const double *first = row + k * width, *second = first + width, *third = second + width, *fourth = third + width;
        if (std::max(std::max(a, b), std::max(c, d)) > -INF) {
            for (i64 m = 0; m < n_second; m++) {
                const double low = std::max(a + weight * first[m], b + weight * second[m]);
                const double high = std::max(c + weight * third[m], d + weight * fourth[m]);
                out[m] = std::max(out[m], std::max(low, high));
            }
        }
    }
    for (; k < n_first; k++) {
        const double a = theta[k];
        for (i64 m = 0; m < n_second; m++) out[m] = std::max(out[m], a + weight * row[k * width + m]);
    }
}

// out[k] = max_l theta[l] + weight * tables[t, k, l]: from the edge's second node to its first.
inline void push_second(const double *theta, const Array<const double, 3> &tables, i64 t, double weight, i64 n_first, i64 n_second, double *out) {
    const i64 width = tables.shape[2];
    const double *row = tables.data + t * tables.shape[1] * width;
    i64 k = 0;
    for (; k + 4 <= n_first; k += 4) {
        const double *first = row + k * width, *second = first + width, *third = second + width, *fourth = third + width;
        double a = -INF, b = -INF, c = -INF, d = -INF;
        for (i64 m = 0; m < n_second; m++) {
            const double x = theta[m];
            a = std::max(a, x + weight * first[m]);
            b = std::max(b, x + weight * second[m]);
            c = std::max(c, x + weight * third[m]);
            d = std::max(d, x + weight * fourth[m]);
        }
        out[k] = a, out[k + 1] = b, out[k + 2] = c, out[k + 3] = d;
    }
    for (; k < n_first; k++) {
        double best = -INF;
        for (i64 m = 0; m < n_second; m++) best = std::max(best, theta[m] + weight * row[k * width + m]);
        out[k] = best;
    }
}

// Message through an edge with table t from its end `side` to the other end.
inline void push(const Array<const double, 3> &tables, const Array<const double, 3> &turned, i64 t, double weight, i64 side, const double *theta,
                 i64 n_from, i64 n_to, double *out) {
    if (side == 0) {
        push_first(theta, tables, t, weight, n_from, n_to, out);
    } else if (turned.size()) {
        push_first(theta, turned, t, weight, n_from, n_to, out);
    } else {
        push_second(theta, tables, t, weight, n_to, n_from, out);
    }
}

} // namespace maxsum
