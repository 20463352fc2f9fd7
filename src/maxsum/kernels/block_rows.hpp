// Symmetric matrices by rows of shared blocks, and their products.
#pragma once

#include "arrays.hpp"

namespace maxsum {

// A symmetric matrix by rows of blocks from a shared bank, plus a diagonal:
//
//     (Theta x)_v(k) = D_v(k) x_v(k) + sum_{j = ptr_v}^{ptr_{v+1} - 1} w_j sum_l bank_{b_j}(l, k) x_{c_j}(l).
//
// Blocks are stored with the label of the *other* node first, so that the inner loop is contiguous.
struct BlockRows {
    Array<const i32> n_states;       // (N,)
    Array<const i64> ptr;            // (N + 1,)
    Array<const i32> col;            // (nnz,): the other node, or v itself
    Array<const i32> block;          // (nnz,): which block of the bank
    Array<const double> weight;      // (nnz,)
    Array<const double, 3> bank;     // (B, K, K)
    Array<const double, 2> diagonal; // (N, K)
    MAXSUM_RECORD(BlockRows, n_states, ptr, col, block, weight, bank, diagonal)
};

// out += w x block over n_other entries of x, four that are not 0 at a time; rows of the block are `width` apart.
inline void add_block(const double *__restrict block, i64 width, double w, const double *x, i64 n_other, double *__restrict out, i64 n) {
    int count = 0;
    double x0 = 0.0, x1 = 0.0, x2 = 0.0;
    const double *first = block, *second = block, *third = block;
    for (i64 i = 0; i < n_other; i++) {
        double x3 = x[i];
        if (x3 == 0.0) continue;
        x3 *= w;
        const double *row = block + i * width;
        if (count == 0) {
            first = row, x0 = x3, count = 1;
        } else if (count == 1) {
            second = row, x1 = x3, count = 2;
        } else if (count == 2) {
            third = row, x2 = x3, count = 3;
        } else {
            for (i64 k = 0; k < n; k++) out[k] += (first[k] * x0 + second[k] * x1) + (third[k] * x2 + row[k] * x3);
            count = 0;
        }
    }
    if (count == 1) {
        for (i64 k = 0; k < n; k++) out[k] += first[k] * x0;
    } else if (count == 2) {
        for (i64 k = 0; k < n; k++) out[k] += first[k] * x0 + second[k] * x1;
    } else if (count == 3) {
        for (i64 k = 0; k < n; k++) out[k] += (first[k] * x0 + second[k] * x1) + third[k] * x2;
    }
}

using Pair = std::tuple<double, double>;

// out = Theta x for the nodes first .. last - 1; returns <x, out> and <out, out> over them.
inline Pair multiply(const BlockRows &rows, Array<const double, 2> x, Array<double, 2> out, i64 first, i64 last) {
    const i32 *n_states = rows.n_states.data, *col = rows.col.data, *block = rows.block.data;
    const i64 *ptr = rows.ptr.data, width = rows.bank.shape[2], cells = rows.bank.shape[1] * width, n_labels = x.shape[1];
    const double *weight = rows.weight.data, *bank = rows.bank.data;
    double inner = 0.0, square = 0.0;
    for (i64 v = first; v < last; v++) {
        const i64 states = n_states[v];
        const double *own = x.data + v * n_labels, *diagonal = rows.diagonal.data + v * rows.diagonal.shape[1];
        double *__restrict to = out.data + v * n_labels;
        for (i64 k = 0; k < states; k++) to[k] = diagonal[k] * own[k];
        for (i64 j = ptr[v]; j < ptr[v + 1]; j++) {
            const i64 u = col[j];
            add_block(bank + block[j] * cells, width, weight[j], x.data + u * n_labels, n_states[u], to, states);
        }
        for (i64 k = 0; k < states; k++) {
            inner += own[k] * to[k];
            square += to[k] * to[k];
        }
    }
    return {inner, square};
}

} // namespace maxsum

MAXSUM_RECORD_CASTER(BlockRows)
