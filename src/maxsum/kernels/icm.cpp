#include "icm.hpp"

#include "lanes.hpp"

namespace maxsum {

namespace {

// Add the terms weight * from[k * step] (STEP, where that is not 0) to the values, and count those that are -inf.
template <int STEP>
inline void add(const double *__restrict from, i64 step, double weight, i64 states, double *__restrict value, double *__restrict bad) {
    for (i64 k = 0; k < states; k++) {
        const double term = weight * from[k * (STEP ? STEP : step)];
        value[k] += term == -INF ? 0.0 : term;
        bad[k] += term == -INF ? 1.0 : 0.0;
    }
}

// The label that node v takes, its own if none is better. A number of labels STATES > 0 is a constant of the code.
template <int STATES> i64 best_label(const Net &net, const i32 *labels, i64 v, const i32 *count, const Rows &scratch) {
    alignas(64) double small_value[STATES + 1], small_bad[STATES + 1];
    double *__restrict value = STATES ? small_value : scratch[0], *__restrict bad = STATES ? small_bad : scratch[1];
    const i64 states = STATES ? STATES : net.n_states[v], own = labels[v], n_labels = net.unary.shape[1];
    const double *unary = net.unary[v].data;
    for (i64 k = 0; k < states; k++) {
        const bool forbidden = unary[k] == -INF;
        value[k] = forbidden ? 0.0 : unary[k];
        bad[k] = forbidden ? 1.0 : 0.0;
    }
    for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
        const i64 e = net.adj_edge[i], side = net.adj_side[i], other = labels[net.edges(e, 1 - side)];
        const double weight = net.edge_weight[e];
        const i64 at = net.edge_table[e] * n_labels * n_labels;
        if (side == 1) {
            add<1>(net.tables.data + at + other * n_labels, 1, weight, states, value, bad);
        } else if (net.turned.size()) {
            add<1>(net.turned.data + at + other * n_labels, 1, weight, states, value, bad);
        } else {
            add<0>(net.tables.data + at + other, n_labels, weight, states, value, bad);
        }
    }
    for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
        const i64 c = net.member_clique[net.member[i]], others = net.clique_ptr[c + 1] - net.clique_ptr[c] - 1;
        const double *reward = net.clique_weights[c].data;
        const i32 *has = count + c * n_labels;
        for (i64 k = 0; k < states; k++) {
            if (has[k] - (k == own ? 1 : 0) == others) value[k] += reward[k];
        }
    }
    // Which label is the better one is as good as random: maxima without branches first, then the lowest label that reaches them.
    double fewest = bad[0], highest = -INF;
    for (i64 k = 1; k < states; k++) fewest = std::min(fewest, bad[k]);
    for (i64 k = 0; k < states; k++) highest = std::max(highest, bad[k] == fewest ? value[k] : -INF);
    if (bad[own] == fewest && value[own] == highest) return own;
    i64 best = 0;
    while (bad[best] != fewest || value[best] != highest) best += 1;
    return best;
}

} // namespace

// Improve `labels` (in place) by sweeps in node order until nothing changes; returns (sweeps, moves).
//
// A node moves to the label with the fewest forbidden terms around it and, among those, the highest q_v(k) + sum_uv g_uv(y_u, k) + sum_{c of v}
// a_c(k, y_{c - v}), only if that is strictly better than what it has, and to the lowest such label. Nodes around which nothing has changed are
// passed over. `moves` are those of the last sweep.
std::tuple<i64, i64> icm_sweeps(const Net &problem, Array<i32> labels, i64 max_iter) {
    const Net net = problem;
    const i64 n_nodes = net.unary.shape[0], n_labels = net.unary.shape[1], n_cliques = net.clique_ptr.size() - 1;
    const Rows scratch(2, n_labels);
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
            i64 best = 0;
            switch (net.n_states[v]) {
            case 2:
                best = best_label<2>(net, labels.data, v, count.data(), scratch);
                break;
            case 3:
                best = best_label<3>(net, labels.data, v, count.data(), scratch);
                break;
            case 4:
                best = best_label<4>(net, labels.data, v, count.data(), scratch);
                break;
            case 5:
                best = best_label<5>(net, labels.data, v, count.data(), scratch);
                break;
            case 6:
                best = best_label<6>(net, labels.data, v, count.data(), scratch);
                break;
            case 7:
                best = best_label<7>(net, labels.data, v, count.data(), scratch);
                break;
            case 8:
                best = best_label<8>(net, labels.data, v, count.data(), scratch);
                break;
            default:
                best = best_label<0>(net, labels.data, v, count.data(), scratch);
            }
            const i64 own = labels[v];
            if (best == own) continue;
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
