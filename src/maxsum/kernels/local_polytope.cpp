#include "local_polytope.hpp"

#include "design.hpp"

namespace maxsum {

// Nodes first .. last - 1 made distributions over their own labels, in place; an empty row becomes uniform.
static void settle_nodes(Array<const i32> n_states, Array<double, 2> node, i64 first, i64 last) {
    const i64 n_labels = node.shape[1];
    for (i64 v = first; v < last; v++) {
        const i64 own = n_states[v];
        double *row = node[v].data, total = 0.0;
        for (i64 k = 0; k < own; k++) row[k] = std::max(row[k], 0.0);
        for (i64 k = 0; k < own; k++) total += row[k];
        if (own < n_labels) std::fill(row + own, row + n_labels, 0.0);
        if (total > 0.0) {
            for (i64 k = 0; k < own; k++) row[k] /= total;
        } else {
            for (i64 k = 0; k < own; k++) row[k] = 1.0 / double(own);
        }
    }
}

// Add both marginals of each edge table to the rows of its nodes, so that `settle_nodes` makes their average.
static void add_edge_marginals(Array<const i32, 2> edges, Array<const double, 3> edge, Array<double, 2> node) {
    const i64 n_labels = node.shape[1];
    for (i64 e = 0; e < edges.size(); e++) {
        double *__restrict one = node[edges(e, 0)].data, *__restrict two = node[edges(e, 1)].data;
        for (i64 k = 0; k < n_labels; k++) {
            const double *row = &edge(e, k, 0);
            double sum = one[k];
            for (i64 m = 0; m < n_labels; m++) sum += row[m];
            for (i64 m = 0; m < n_labels; m++) two[m] += row[m];
            one[k] = sum;
        }
    }
}

// Edges first .. last - 1 moved, in place, to non-negative tables with the marginals that their nodes have.
static void settle_edges(Array<const i32, 2> edges, Array<const double, 2> node, Array<double, 3> edge, i64 first, i64 last) {
    const i64 n_labels = node.shape[1];
    std::vector<double> room(3 * n_labels);
    for (i64 e = first; e < last; e++) {
        double *table = edge[e].data;
        for (i64 k = 0; k < n_labels * n_labels; k++) table[k] = std::max(table[k], 0.0);
        settle_table(node[edges(e, 0)].data, node[edges(e, 1)].data, n_labels, n_labels, table, n_labels, room.data(), room.data() + n_labels,
                     room.data() + 2 * n_labels);
    }
}

// Add sum_j c_j (Psi(y_j) - Psi(mu_j)) of the examples first .. last - 1 to `out`; returns sum_j c_j <L_j, mu_j>.
static double expected_difference(const Design &design, Array<const double> c, Array<const double, 2> node, Array<const double, 3> edge, i64 first,
                                  i64 last, Array<double> out_array) {
    const i64 n_labels = design.loss.shape[1];
    double value = 0.0, *out = out_array.data;
    for (i64 j = first; j < last; j++) {
        const double factor = c[j];
        for (i64 v = design.node_ptr[j]; v < design.node_ptr[j + 1]; v++) {
            const i64 t = design.truth[v];
            const double *shares = node[v].data;
            if (shares[t] == 1.0) continue;
            for (i64 k = 0; k < n_labels; k++) {
                double amount = -factor * shares[k];
                if (k == t) {
                    amount += factor;
                } else {
                    value -= amount * design.loss(v, k);
                }
                if (amount == 0.0) continue;
                const i64 r = v * design.node_step[0] + k * design.node_step[1];
                for (i64 i = design.x_ptr[r], end = design.x_ptr[r + 1]; i < end; i++) {
                    const i64 p = design.node_index(design.x_col[i], k);
                    if (p >= 0) out[p] += amount * design.x_val[i];
                }
            }
        }
        for (i64 e = design.edge_ptr[j]; e < design.edge_ptr[j + 1]; e++) {
            const i64 s = design.truth[design.edges(e, 0)], t = design.truth[design.edges(e, 1)];
            if (edge(e, s, t) == 1.0) continue;
            for (i64 k = 0; k < n_labels; k++) {
                const double *shares = &edge(e, k, 0);
                for (i64 m = 0; m < n_labels; m++) {
                    double amount = -factor * shares[m];
                    if (k == s && m == t) amount += factor;
                    if (amount == 0.0) continue;
                    const i64 r = e * design.edge_step[0] + (k * n_labels + m) * design.edge_step[1];
                    for (i64 i = design.f_ptr[r], end = design.f_ptr[r + 1]; i < end; i++) {
                        const i64 p = design.edge_index(design.f_col[i], k, m);
                        if (p >= 0) out[p] += amount * design.f_val[i];
                    }
                }
            }
        }
    }
    return value;
}

void bind_local_polytope(nb::module_ &m) {
    def(m, "settle_nodes", settle_nodes, "n_states"_a, "node"_a, "first"_a, "last"_a,
        "Nodes ``first .. last - 1`` made distributions over their own labels, in place; an empty row becomes uniform.");
    def(m, "add_edge_marginals", add_edge_marginals, "edges"_a, "edge"_a, "node"_a,
        "Add both marginals of each edge table to the rows of its nodes, so that `settle_nodes` makes their average.");
    def(m, "settle_edges", settle_edges, "edges"_a, "node"_a, "edge"_a, "first"_a, "last"_a,
        "Edges ``first .. last - 1`` moved, in place, to non-negative tables with the marginals that their nodes have.");
    def(m, "expected_difference", expected_difference, "design"_a, "c"_a, "node"_a, "edge"_a, "first"_a, "last"_a, "out"_a,
        "Add the expected difference of features of the examples ``first .. last - 1`` to ``out``; returns their expected loss.");
}

} // namespace maxsum
