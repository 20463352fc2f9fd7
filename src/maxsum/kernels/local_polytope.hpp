// Pseudo-marginals made consistent: any non-negative node and edge tables moved into the local polytope.
#pragma once

#include "arrays.hpp"

namespace maxsum {

// A non-negative table, its rows `width` apart, moved in place to one with the marginals a and b.
//
// Rows are scaled down to sum_l P(k,l) <= a(k), then columns to sum_k P(k,l) <= b(l); what is missing, r >= 0 and s >= 0 with equal sums, is added as
// r s' / sum r (Altschuler, Weed & Rigollet 2017). The table is changed by at most twice its distance from the marginals. `lack` has room for n_first
// numbers, `lacking` and `scale` for n_second: scratch.
inline void settle_table(const double *a, const double *b, i64 n_first, i64 n_second, double *table, i64 width, double *__restrict lack,
                         double *__restrict lacking, double *__restrict scale) {
    for (i64 m = 0; m < n_second; m++) lacking[m] = 0.0;
    for (i64 k = 0; k < n_first; k++) {
        double *__restrict row = table + k * width, total = 0.0;
        for (i64 m = 0; m < n_second; m++) total += row[m];
        const double factor = total > 0.0 ? std::min(1.0, a[k] / total) : 0.0;
        lack[k] = a[k];
        for (i64 m = 0; m < n_second; m++) {
            row[m] *= factor;
            lacking[m] += row[m]; // the sums of the columns, for now
        }
    }
    for (i64 m = 0; m < n_second; m++) {
        const double total = lacking[m];
        scale[m] = total > 0.0 ? std::min(1.0, b[m] / total) : 0.0;
        lacking[m] = std::max(b[m] - scale[m] * total, 0.0);
    }
    double missing = 0.0;
    for (i64 k = 0; k < n_first; k++) {
        double *__restrict row = table + k * width, left = lack[k];
        for (i64 m = 0; m < n_second; m++) {
            row[m] *= scale[m];
            left -= row[m];
        }
        lack[k] = std::max(left, 0.0);
        missing += lack[k];
    }
    if (missing > 0.0) {
        for (i64 k = 0; k < n_first; k++) {
            const double share = lack[k] / missing;
            if (share > 0.0) {
                double *__restrict row = table + k * width;
                for (i64 m = 0; m < n_second; m++) row[m] += share * lacking[m];
            }
        }
    }
}

} // namespace maxsum
