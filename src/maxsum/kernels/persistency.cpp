// What each label of a box loses: the fast twin of `core.certificates.persistency` for problems without hard constraints and cliques.
#include "lanes.hpp"

namespace maxsum {

// How far the best of a box may lie above a known labelling; what each of its labels loses is put into `loss`.
//
// With theta the reparametrised scores and maxima over the labels in `domain` (some at each node), the answer is sum_v (max theta_v - theta_v(y_v)) +
// sum_uv (max theta_uv - theta_uv(y_u, y_v)), and loss[v, k] sums what k falls short of these maxima at the node and its edges.
static double box_losses(Array<const double, 2> unary, Array<const i32, 2> edges, Array<const i32> edge_table, Array<const double> edge_weight,
                         Array<const double, 3> tables, Array<const i64> ptr, Array<const i32> adj_edge, Array<const i8> adj_side,
                         Array<const double, 3> messages, Array<const u8, 2> domain, Array<const i32> labels, Array<double, 2> loss) {
    using L = Lanes<LANES>;
    const i64 n_nodes = unary.shape[0], n_labels = unary.shape[1];
    const Rows scratch(4, n_labels);
    double *__restrict theta = scratch[0], *__restrict first = scratch[1], *__restrict second = scratch[2], *__restrict theirs = scratch[3];
    double total = 0.0;
    for (i64 v = 0; v < n_nodes; v++) {
        const double *own = unary[v].data;
        const u8 *inside = domain[v].data;
        for (i64 k = 0; k < n_labels; k++) theta[k] = own[k];
        for (i64 i = ptr[v]; i < ptr[v + 1]; i++) {
            const double *message = messages[adj_side[i]][adj_edge[i]].data;
            for (i64 k = 0; k < n_labels; k++) theta[k] -= message[k];
        }
        double top = -INF;
        for (i64 k = 0; k < n_labels; k++) top = std::max(top, inside[k] ? theta[k] : -INF);
        double *lost = loss[v].data;
        for (i64 k = 0; k < n_labels; k++) lost[k] = top - theta[k];
        total += top - theta[labels[v]];
    }
    for (i64 e = 0; e < edge_table.size(); e++) {
        const i64 u = edges(e, 0), v = edges(e, 1);
        const double weight = edge_weight[e], *table = tables[edge_table[e]].data, *one = messages[0][e].data, *two = messages[1][e].data;
        const u8 *mine = domain[u].data, *other = domain[v].data;
        // A message of -inf keeps the labels outside the box out of all maxima.
        for (i64 m = 0; m < n_labels; m++) theirs[m] = other[m] ? two[m] : -INF, second[m] = -INF;
        double top = -INF;
        for (i64 k = 0; k < n_labels; k++) {
            first[k] = -INF;
            if (!mine[k]) continue;
            const double *row = table + k * n_labels, from = one[k];
            const L start = L::all(from), times = L::all(weight);
            L best = L::all(-INF);
            i64 m = 0;
            for (; m + LANES <= n_labels; m += LANES) {
                const L value = (start + times * L::load(row + m)) + L::load(theirs + m);
                max(L::load(second + m), value).store(second + m);
                best = max(best, value);
            }
            double highest = best.largest();
            for (; m < n_labels; m++) {
                const double value = (from + weight * row[m]) + theirs[m];
                second[m] = std::max(second[m], value);
                highest = std::max(highest, value);
            }
            first[k] = highest;
            top = std::max(top, highest);
        }
        double *lost = loss[u].data;
        for (i64 k = 0; k < n_labels; k++) {
            if (mine[k]) lost[k] += top - first[k];
        }
        lost = loss[v].data;
        for (i64 k = 0; k < n_labels; k++) {
            if (other[k]) lost[k] += top - second[k];
        }
        const i64 k = labels[u], m = labels[v];
        total += top - ((one[k] + weight * table[k * n_labels + m]) + two[m]);
    }
    return total;
}

void bind_persistency(nb::module_ &m) {
    def(m, "box_losses", box_losses, "unary"_a, "edges"_a, "edge_table"_a, "edge_weight"_a, "tables"_a, "ptr"_a, "adj_edge"_a, "adj_side"_a,
        "messages"_a, "domain"_a, "labels"_a, "loss"_a,
        "How far the best of a box may lie above a known labelling; what each of its labels loses is put into ``loss``.");
}

} // namespace maxsum
