// Planes of examples as labellings: stored, compared, scored, dropped. kernels/records.py tells what the arrays of the records hold.
#pragma once

#include "design.hpp"

namespace maxsum {

// Planes of all examples; example j owns the slots slot_ptr[j] .. slot_ptr[j] + used[j] - 1.
struct Planes {
    Array<const i64> slot_ptr;
    Array<i64> used;
    Array<double> alpha, offset;
    Array<i64> age;
    Array<const i64> pool_ptr;
    Array<i32> pool;
    Array<const i64> gram_ptr;
    Array<double> gram;
    Array<double, 2> vector;
    MAXSUM_RECORD(Planes, slot_ptr, used, alpha, offset, age, pool_ptr, pool, gram_ptr, gram, vector)
};

// The weight vector and what keeps it in its cone. Without `nonneg`, `value` is the array `plain` itself.
struct Weights {
    Array<double> plain, value;
    Array<const u8> nonneg;
    Array<const i64> row_ptr;
    Array<const i32> row_col;
    Array<const double> row_val, row_norm;
    Array<double> mu;
    double sigma;
    MAXSUM_RECORD(Weights, plain, value, nonneg, row_ptr, row_col, row_val, row_norm, mu, sigma)
};

// Work space of one thread.
struct Scratch {
    Array<i32> index;
    Array<double> value, dense, gradient, change;
    Array<i64> moving;
    Array<u8> active;
    Array<double, 2> scores;
    Array<double> share;
    Array<u8> wanted;
    Array<i64> chosen;
    MAXSUM_RECORD(Scratch, index, value, dense, gradient, change, moving, active, scores, share, wanted, chosen)
};

// Inner product, summed in the order of the entries.
inline double dot(const double *a, const double *b, i64 n) {
    double total = 0.0;
    for (i64 p = 0; p < n; p++) total += a[p] * b[p];
    return total;
}

// Node scores of the labels that planes of example j (and its truth) have, at nodes where they differ; returns the work.
//
// Such nodes are left marked in scratch.active. Nodes with many labels in use are scored for all labels at once.
i64 needed_scores(const Design &design, const Planes &planes, i64 j, i64 used, const double *w, const Scratch &scratch);

// <w, z_i> of all planes of example j, left in scratch.gradient, after needed_scores.
void products(const Design &design, const Planes &planes, i64 j, i64 used, const double *w, const Scratch &scratch);

} // namespace maxsum

MAXSUM_RECORD_CASTER(Planes)
MAXSUM_RECORD_CASTER(Weights)
MAXSUM_RECORD_CASTER(Scratch)
