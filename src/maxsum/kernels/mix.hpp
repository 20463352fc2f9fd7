// Sums of rows of a table: the inner loop of every sum-product message.
#pragma once

#include "arrays.hpp"

namespace maxsum {

// out[m] = sum_k share[k] * rows[k * width + m] for n_out entries, summed in the order of the n rows, two at a time.
inline void mix(const double *share, i64 n, const double *rows, i64 width, i64 n_out, double *__restrict out) {
    for (i64 m = 0; m < n_out; m++) out[m] = 0.0;
    i64 k = 0;
    for (; k + 2 <= n; k += 2) {
        const double a = share[k], b = share[k + 1];
        const double *__restrict first = rows + k * width, *__restrict second = first + width;
        for (i64 m = 0; m < n_out; m++) out[m] = (out[m] + a * first[m]) + b * second[m];
    }
    if (k < n) {
        const double a = share[k], *__restrict first = rows + k * width;
        for (i64 m = 0; m < n_out; m++) out[m] += a * first[m];
    }
}

} // namespace maxsum
