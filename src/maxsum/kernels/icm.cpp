#include "icm.hpp"

namespace maxsum {

// Improve `labels` (in place) by sweeps in node order until nothing changes; returns (sweeps, moves).
//
// A node moves to the label with the fewest forbidden terms around it and, among those, the highest q_v(k) + sum_uv g_uv(y_u, k) + sum_{c of v} a_c(k,
// y_{c - v}), only if that is strictly better than what it has, and to the lowest such label. Nodes around which nothing has changed are passed over.
// `moves` are those of the last sweep.
std::tuple<i64, i64> icm_sweeps(const Net &problem, Array<i32> labels, i64 max_iter) {
    const Net net = problem;
    const i64 n_nodes = net.unary.shape[0], n_labels = net.unary.shape[1], n_cliques = net.clique_ptr.size() - 1;
    std::vector<double> scratch(2 * n_labels);
    double *__restrict value = scratch.data(), *__restrict bad = value + n_labels;
    std::vector<i32> count(std::max<i64>(n_cliques, 0) * n_labels, 0);
    for (i64 i = 0; i < net.clique_nodes.size(); i++) count[net.member_clique[i] * n_labels + labels[net.clique_nodes[i]]] += 1;
    std::vector<u8> dirty(n_nodes, 1);
    i64 sweeps = 0, moves = 0;
    while (sweeps < max_iter) {
        sweeps += 1;
        moves = 0;
        for (i64 v = 0; v < n_nodes; v++) {
            if (!dirty[v]) continue;
            dirty[v] = 0;
            const i64 states = net.n_states[v], own = labels[v];
            const double *unary = net.unary[v].data;
            for (i64 k = 0; k < states; k++) {
                const bool forbidden = unary[k] == -INF;
                value[k] = forbidden ? 0.0 : unary[k];
                bad[k] = forbidden ? 1.0 : 0.0;
            }
            for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
                const i64 e = net.adj_edge[i], side = net.adj_side[i], other = labels[net.edges(e, 1 - side)];
                const double weight = net.edge_weight[e];
                const double *table = net.tables[net.edge_table[e]].data;
                const double *from = side == 1 ? table + other * n_labels : table + other;
                const i64 step = side == 1 ? 1 : n_labels;
                const auto add = [&](i64 stride) {
                    for (i64 k = 0; k < states; k++) {
                        const double term = weight * from[k * stride];
                        value[k] += term == -INF ? 0.0 : term;
                        bad[k] += term == -INF ? 1.0 : 0.0;
                    }
                };
                if (step == 1) {
                    add(1);
                } else {
                    add(step);
                }
            }
            for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
                const i64 c = net.member_clique[net.member[i]];
                const i64 others = net.clique_ptr[c + 1] - net.clique_ptr[c] - 1;
                for (i64 k = 0; k < states; k++) {
                    if (count[c * n_labels + k] - (k == own ? 1 : 0) == others) value[k] += net.clique_weights(c, k);
                }
            }
            i64 best = own;
            for (i64 k = 0; k < states; k++) {
                if (bad[k] < bad[best] || (bad[k] == bad[best] && value[k] > value[best])) best = k;
            }
            if (best == own) continue;
            for (i64 k = 0; k < best; k++) {
                if (bad[k] == bad[best] && value[k] == value[best]) {
                    best = k;
                    break;
                }
            }
            moves += 1;
            labels[v] = i32(best);
            for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) dirty[net.edges(net.adj_edge[i], 1 - net.adj_side[i])] = 1;
            for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
                const i64 c = net.member_clique[net.member[i]];
                count[c * n_labels + own] -= 1;
                count[c * n_labels + best] += 1;
                for (i64 j = net.clique_ptr[c]; j < net.clique_ptr[c + 1]; j++) dirty[net.clique_nodes[j]] = 1;
            }
            dirty[v] = 0;
        }
        if (moves == 0) break;
    }
    return {sweeps, moves};
}

void bind_icm(nb::module_ &m) {
    def(m, "icm_sweeps", icm_sweeps, "net"_a, "labels"_a, "max_iter"_a,
        "Improve ``labels`` (int32, in place) by sweeps in node order until nothing changes; returns ``(sweeps, moves)``.");
}

} // namespace maxsum
