// Simplices: projection in expected linear time, and the pairwise step, which all dual ascents here are made of.
//
// A concave quadratic over {alpha >= 0, sum alpha = c} rises fastest, among moves of two entries, when the entry with the largest gradient (`ends`:
// high) takes from the one with the smallest that has any (low). Along this line the gradient falls by the curvature, so the best length is known in
// closed form (`exchange`).
#pragma once

#include "arrays.hpp"

namespace maxsum {

// The tau with sum_k max(z[k] - tau, 0) = 1 over n numbers; `work` has room for n.
double threshold(const double *z, i64 n, double *work);

// Smallest of n numbers; four minima at a time, which do not wait for each other.
inline double least(const double *row, i64 n) {
    double a = row[0], b = a, c = a, d = a;
    i64 k = 0;
    for (; k + 3 < n; k += 4) {
        a = std::min(a, row[k]);
        b = std::min(b, row[k + 1]);
        c = std::min(c, row[k + 2]);
        d = std::min(d, row[k + 3]);
    }
    for (; k < n; k++) a = std::min(a, row[k]);
    return std::min(std::min(a, b), std::min(c, d));
}

struct Ends {
    i64 high, low;
};

// Of n entries: the one with the largest gradient, and that with the smallest among those with weight (-1 if none has any); the first of equal ones.
inline Ends ends(const double *gradient, const double *alpha, i64 n) {
    i64 high = 0, low = -1;
    for (i64 i = 0; i < n; i++) {
        if (gradient[i] > gradient[high]) high = i;
        if (alpha[i] > 0.0 && (low < 0 || gradient[i] < gradient[low])) low = i;
    }
    return {high, low};
}

// Move the best amount from alpha[low] to alpha[high], whose gradients differ by `slope`, along a line of curvature `curve`; returns the amount. An
// entry that gives all it has becomes 0 exactly.
inline double exchange(double *alpha, i64 high, i64 low, double slope, double curve) {
    const double has = alpha[low], size = slope < has * curve ? std::min(slope / curve, has) : has;
    alpha[low] = size < has ? has - size : 0.0;
    alpha[high] += size;
    return size;
}

// Whether two gradients differ by no more than the rounding of sums that made them.
inline bool is_flat(const double *gradient, i64 high, i64 low) {
    return gradient[high] - gradient[low] <= 1e-13 * (std::abs(gradient[high]) + std::abs(gradient[low]));
}

// Up to n_steps pairwise steps on a quadratic <g, alpha> - s / 2 alpha' G alpha; returns the gain.
//
// `gradient` and the n entries of `alpha` are kept up to date, `change` adds up what was moved. The products of entry i are gram[i * width ...]. Ends
// when two gradients differ by at most `least`, or by their rounding alone, or when a step gains less than `little` of all gained so far.
inline double pairwise_steps(const double *gram, i64 width, double scale, double *__restrict gradient, double *alpha, i64 n, double *change,
                             i64 n_steps, double least, double little) {
    double gain = 0.0;
    for (i64 step = 0; step < n_steps; step++) {
        const auto [high, low] = ends(gradient, alpha, n);
        if (low < 0 || is_flat(gradient, high, low)) break;
        const double slope = gradient[high] - gradient[low];
        if (slope <= least) break;
        const double *plus = gram + high * width, *minus = gram + low * width;
        const double curve = scale * (plus[high] + minus[low] - 2.0 * plus[low]);
        const double size = exchange(alpha, high, low, slope, curve);
        change[high] += size;
        change[low] -= size;
        const double factor = size * scale;
        for (i64 i = 0; i < n; i++) gradient[i] -= factor * (plus[i] - minus[i]);
        const double gained = size * (slope - 0.5 * size * curve);
        gain += gained;
        if (gained < little * gain) break;
    }
    return gain;
}

} // namespace maxsum
