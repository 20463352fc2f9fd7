// Messages through tables that depend on the distance of the two labels only, and no more from a width D on.
//
// With f(d) the table's value at distance d, f constant and lowest at d >= D, the message is
//
//     m(l) = max(max_k a(k) + w f(D), max_{|k - l| < D} a(k) + w f(|k - l|)).
//
// A narrow band is taken as it stands, O(K D) in contiguous loops. A wide one is a distance transform of O(K): two recursions where f falls linearly,
// the upper envelope of parabolas where it falls quadratically.
#pragma once

#include "arrays.hpp"

namespace maxsum {

constexpr i64 GENERAL = 1;     // any table; the kinds are bits, so that a sum of them names those of a problem
constexpr i64 ASSOCIATIVE = 2; // a constant and a diagonal above it
constexpr i64 BAND = 4;        // of the distance alone, constant from a width on
constexpr i64 LINEAR = 8;      // a band that falls linearly
constexpr i64 QUADRATIC = 16;  // a band that falls with the square

// out[l] = max(apart, max_k own[k] + same - step * abs(k - l)).
inline void linear(const double *own, i64 n_labels, double step, double same, double apart, double *__restrict out, double *__restrict back) {
    double rise = -INF, fall = -INF;
    for (i64 k = 0; k < n_labels; k++) {
        rise = std::max(rise - step, own[k]);
        fall = std::max(fall - step, own[n_labels - 1 - k]);
        out[k] = rise;
        back[n_labels - 1 - k] = fall;
    }
    for (i64 k = 0; k < n_labels; k++) out[k] = std::max(apart, std::max(out[k], back[k]) + same);
}

// out[l] = max(apart, max_k own[k] + same - step * (k - l) ** 2).
//
// own[k] - step * (k - l)**2 = lifted[k] + 2 * step * k * l - step * l * l: only corners of the concave hull of `lifted` can be the highest, in their
// order.
inline void quadratic(const double *own, i64 n_labels, double step, double same, double apart, double *__restrict out, double *__restrict lifted,
                      i64 *__restrict hull) {
    i64 size = 0;
    for (i64 k = 0; k < n_labels; k++) {
        const double value = own[k] - step * double(k * k);
        lifted[k] = value;
        while (size >= 2) {
            const i64 i = hull[size - 2], j = hull[size - 1];
            if ((lifted[j] - lifted[i]) * double(k - j) > (value - lifted[j]) * double(j - i)) break;
            size -= 1;
        }
        hull[size] = k;
        size += 1;
    }
    i64 corner = hull[0], at = 0;
    for (i64 m = 0; m < n_labels; m++) {
        while (at + 1 < size) {
            const i64 further = hull[at + 1];
            if (lifted[further] - lifted[corner] < -2.0 * step * double(m) * double(further - corner)) break;
            corner = further;
            at += 1;
        }
        out[m] = std::max(apart, own[corner] + same - step * double((m - corner) * (m - corner)));
    }
}

} // namespace maxsum
