// Feature differences of labellings: the vectors z that large-margin learning is about, straight from the labels.
#pragma once

#include "arrays.hpp"

namespace maxsum {

// A training set for kernels: kernels/records.py tells what the arrays hold.
struct Design {
    Array<const i64> node_ptr, edge_ptr;
    Array<const i32, 2> edges;
    Array<const i64> x_ptr;
    Array<const i32> x_col;
    Array<const double> x_val;
    Array<const i32, 2> node_index;
    Array<const i32> node_base;
    Array<const i64> node_step;
    Array<const i64> f_ptr;
    Array<const i32> f_col;
    Array<const double> f_val;
    Array<const i32, 3> edge_index;
    Array<const i64> edge_step;
    Array<const i32> truth;
    Array<const double, 2> loss;
    Array<const i64> clique_ptr, member_ptr;
    Array<const i32> member;
    Array<const i64> h_ptr;
    Array<const i32> h_col;
    Array<const double> h_val;
    Array<const i32, 2> clique_index;
    MAXSUM_RECORD(Design, node_ptr, edge_ptr, edges, x_ptr, x_col, x_val, node_index, node_base, node_step, f_ptr, f_col, f_val, edge_index,
                  edge_step, truth, loss, clique_ptr, member_ptr, member, h_ptr, h_col, h_val, clique_index)
};

// Scores of all labels of node v under the weights w.
inline void node_score(const Design &design, i64 v, const double *w, double *__restrict out) {
    const i64 n_labels = design.node_index.shape[1];
    for (i64 k = 0; k < n_labels; k++) out[k] = 0.0;
    if (design.node_step[1]) {
        for (i64 k = 0; k < n_labels; k++) {
            const i64 r = v * design.node_step[0] + k;
            for (i64 i = design.x_ptr[r]; i < design.x_ptr[r + 1]; i++) out[k] += design.x_val[i] * w[design.x_col[i]];
        }
        return;
    }
    for (i64 i = design.x_ptr[v]; i < design.x_ptr[v + 1]; i++) {
        const i64 f = design.x_col[i], base = design.node_base[f];
        const double x = design.x_val[i];
        if (base >= 0) {
            const double *row = w + base;
            for (i64 k = 0; k < n_labels; k++) out[k] += x * row[k];
        } else {
            const i32 *index = design.node_index[f].data;
            for (i64 k = 0; k < n_labels; k++) {
                if (index[k] >= 0) out[k] += x * w[index[k]];
            }
        }
    }
}

struct Difference {
    i64 n;
    double loss;
};

// Entries of z = Psi(x_j, y_j) - Psi(x_j, y), repeated indices left apart; returns (their number, the loss).
Difference difference(const Design &design, i64 j, const i32 *labels, i32 *index, double *value);

} // namespace maxsum

MAXSUM_RECORD_CASTER(Design)
