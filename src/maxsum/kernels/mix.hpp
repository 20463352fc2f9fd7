// Sums of rows of a table: the inner loop of every sum-product message.
#pragma once

#include "arrays.hpp"

namespace maxsum {

// out[m] = sum_k share[k] * rows[k * width + m] for n_out entries, summed in the order of the n > 0 rows, two at a time.
inline void mix(const double *share, i64 n, const double *rows, i64 width, i64 n_out, double *__restrict out) {
    i64 k = n % 2 ? 1 : 2;
    if (n % 2) {
        const double a = share[0];
        for (i64 m = 0; m < n_out; m++) out[m] = a * rows[m];
    } else {
        const double a = share[0], b = share[1], *second = rows + width;
        for (i64 m = 0; m < n_out; m++) out[m] = a * rows[m] + b * second[m];
    }
    for (; k < n; k += 2) {
        const double a = share[k], b = share[k + 1], *first = rows + k * width, *second = first + width;
        for (i64 m = 0; m < n_out; m++) out[m] = (out[m] + a * first[m]) + b * second[m];
    }
}

} // namespace maxsum
