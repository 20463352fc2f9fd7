// Inner products and combinations of long vectors, without the threads that a BLAS would start for each of them: these go on spinning for a while,
// which takes a core away from other workers, and their number changes the last bits.
#pragma once

#include "arrays.hpp"

namespace maxsum {

// <x, y> in four sums.
inline double inner(const double *x, const double *y, i64 n) {
    double s[4] = {};
    i64 i = 0;
    for (; i + 3 < n; i += 4) {
        for (i64 k = 0; k < 4; k++) s[k] += x[i + k] * y[i + k];
    }
    for (; i < n; i++) s[0] += x[i] * y[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

} // namespace maxsum
