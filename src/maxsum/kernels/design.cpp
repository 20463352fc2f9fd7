#include "design.hpp"

namespace maxsum {

// The label that all members of clique c have, or -1; labels[0] is that of node `first`.
static i64 common(const Design &design, i64 c, const i32 *labels, i64 first) {
    const i64 k = labels[design.member[design.member_ptr[c]] - first];
    for (i64 i = design.member_ptr[c] + 1; i < design.member_ptr[c + 1]; i++) {
        if (labels[design.member[i] - first] != k) return -1;
    }
    return k;
}

Difference difference(const Design &design, i64 j, const i32 *labels, i32 *index, double *value) {
    const i64 first = design.node_ptr[j], last = design.node_ptr[j + 1], n_labels = design.loss.shape[1];
    i64 n = 0;
    double loss = 0.0;
    // the features col/val of row r, those that meet a weight p = weight_of(feature)
    const auto add = [&](Array<const i64> ptr, Array<const i32> col, Array<const double> val, i64 r, double sign, auto weight_of) {
        for (i64 i = ptr[r]; i < ptr[r + 1]; i++) {
            const i32 p = weight_of(col[i]);
            if (p >= 0) {
                index[n] = p;
                value[n] = sign * val[i];
                n += 1;
            }
        }
    };
    for (i64 v = first; v < last; v++) {
        const i64 k = labels[v - first], t = design.truth[v];
        if (k == t) continue;
        loss += design.loss(v, k);
        const i64 row = v * design.node_step[0];
        add(design.x_ptr, design.x_col, design.x_val, row + t * design.node_step[1], 1.0, [&](i64 f) { return design.node_index(f, t); });
        add(design.x_ptr, design.x_col, design.x_val, row + k * design.node_step[1], -1.0, [&](i64 f) { return design.node_index(f, k); });
    }
    for (i64 e = design.edge_ptr[j]; e < design.edge_ptr[j + 1]; e++) {
        const i64 u = design.edges(e, 0), v = design.edges(e, 1);
        const i64 k = labels[u - first], m = labels[v - first], s = design.truth[u], t = design.truth[v];
        if (k == s && m == t) continue;
        const i64 row = e * design.edge_step[0], step = design.edge_step[1];
        add(design.f_ptr, design.f_col, design.f_val, row + (s * n_labels + t) * step, 1.0, [&](i64 f) { return design.edge_index(f, s, t); });
        add(design.f_ptr, design.f_col, design.f_val, row + (k * n_labels + m) * step, -1.0, [&](i64 f) { return design.edge_index(f, k, m); });
    }
    if (design.clique_ptr.size()) {
        for (i64 c = design.clique_ptr[j]; c < design.clique_ptr[j + 1]; c++) {
            const i64 k = common(design, c, labels, first), t = common(design, c, design.truth.data, 0);
            if (k == t) continue;
            for (i64 i = design.h_ptr[c]; i < design.h_ptr[c + 1]; i++) {
                const i32 plus = t >= 0 ? design.clique_index(design.h_col[i], t) : -1;
                if (plus >= 0) index[n] = plus, value[n] = design.h_val[i], n += 1;
                const i32 minus = k >= 0 ? design.clique_index(design.h_col[i], k) : -1;
                if (minus >= 0) index[n] = minus, value[n] = -design.h_val[i], n += 1;
            }
        }
    }
    return {n, loss};
}

// Loss-augmented node scores of some examples, written to their rows of the union.
static void augmented_scores(const Design &design, Array<const i64> examples, Array<const double> w, Array<double, 2> scores) {
    for (i64 i = 0; i < examples.size(); i++) {
        for (i64 v = design.node_ptr[examples[i]]; v < design.node_ptr[examples[i] + 1]; v++) {
            double *row = scores[v].data;
            node_score(design, v, w.data, row);
            for (i64 k = 0; k < scores.shape[1]; k++) row[k] += design.loss(v, k);
        }
    }
}

static std::tuple<i64, double> bound_difference(const Design &design, i64 j, Array<const i32> labels, Array<i32> index, Array<double> value) {
    const Difference found = difference(design, j, labels.data, index.data, value.data);
    return {found.n, found.loss};
}

void bind_design(nb::module_ &m) {
    bind_record<Design>(m);
    def(m, "augmented_scores", augmented_scores, "design"_a, "examples"_a, "w"_a, "scores"_a,
        "Loss-augmented node scores of some examples, written to their rows of the union.");
    def(m, "difference", bound_difference, "design"_a, "j"_a, "labels"_a, "index"_a, "value"_a,
        "Entries of z = Psi(x_j, y_j) - Psi(x_j, y), repeated indices left apart; returns (their number, the loss).");
}

} // namespace maxsum
