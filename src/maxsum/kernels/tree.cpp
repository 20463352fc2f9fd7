// Dynamic programming on forests: leaves to root, then back, component by component.
#include "lanes.hpp"
#include "message.hpp"
#include "net.hpp"
#include "poll.hpp"

namespace maxsum {

// Nodes component by component, parents first; the edge to the parent and the side of the child on it.
//
// Returns (order, parent_edge, parent_side, starts); component c is order[starts[c]:starts[c + 1]]. Roots, the lowest nodes of their components, have
// parent_edge -1.
static std::tuple<Owned<i32>, Owned<i32>, Owned<i8>, Owned<i64>> forest_order(i64 n_nodes, Array<const i32, 2> edges, Array<const i64> ptr,
                                                                              Array<const i32> adj_edge, Array<const i8> adj_side) {
    Owned<i32> order(n_nodes);
    auto parent_edge = Owned<i32>::filled({n_nodes}, -1);
    Owned<i8> parent_side(n_nodes);
    for (i64 v = 0; v < n_nodes; v++) parent_side[v] = 0;
    std::vector<u8> seen(n_nodes, 0);
    std::vector<i64> starts;
    i64 filled = 0;
    for (i64 root = 0; root < n_nodes; root++) {
        if (seen[root]) continue;
        starts.push_back(filled);
        seen[root] = 1;
        order[filled] = i32(root);
        i64 head = filled;
        filled += 1;
        while (head < filled) {
            const i64 v = order[head];
            head += 1;
            for (i64 i = ptr[v]; i < ptr[v + 1]; i++) {
                const i64 e = adj_edge[i], side = adj_side[i];
                const i64 w = edges(e, 1 - side);
                if (!seen[w]) {
                    seen[w] = 1;
                    parent_edge[w] = i32(e);
                    parent_side[w] = i8(1 - side);
                    order[filled] = i32(w);
                    filled += 1;
                }
            }
        }
    }
    starts.push_back(filled);
    Owned<i64> given(i64(starts.size()));
    std::copy(starts.begin(), starts.end(), given.data);
    return {std::move(order), std::move(parent_edge), std::move(parent_side), std::move(given)};
}

static i64 argmax(const double *values, i64 n) {
    double best = -INF;
    i64 label = 0;
    for (i64 k = 0; k < n; k++) {
        if (values[k] > best) best = values[k], label = k;
    }
    return label;
}

// Best labelling of the components first .. last - 1, with messages that prove it.
//
// Upwards, with theta_v = q_v + sum of M over the children, the message of v to its parent is M(l) = max_k theta_v(k) + g(k, l), shifted to a maximum
// of 0. The certificate has theta_v on the child's side of the edge and -M on the parent's: every node but the root then has score 0, and every edge
// reaches its maximum wherever M does. `hard` says whether some label is excluded.
static void solve_forest(const Net &problem, Array<const i32> order, Array<const i32> parent_edge, Array<const i8> parent_side,
                         Array<const i64> starts, i64 first, i64 last, Flag hard, Array<double, 3> messages, Array<i32> labels) {
    const Net net = problem;
    const i64 n_labels = net.unary.shape[1];
    const Rows scratch(2, n_labels);
    double *root_theta = scratch[0], *out = scratch[1];
    Poll poll;
    for (i64 c = first; c < last; c++) {
        for (i64 i = starts[c]; i < starts[c + 1]; i++) {
            const i64 v = order[i];
            double *__restrict theta = parent_edge[v] >= 0 ? messages[parent_side[v]][parent_edge[v]].data : root_theta;
            const double *unary = net.unary[v].data;
            for (i64 k = 0; k < net.n_states[v]; k++) theta[k] = unary[k];
        }
        for (i64 i = starts[c + 1] - 1; i > starts[c]; i--) {
            poll();
            const i64 v = order[i], e = parent_edge[v], side = parent_side[v], w = net.edges(e, 1 - side);
            const double *theta = messages[side][e].data;
            double *back = messages[1 - side][e].data;
            const i64 n_to = net.n_states[w];
            push(net.tables, net.turned, net.edge_table[e], net.edge_weight[e], side, theta, net.n_states[v], n_to, out);
            const double top = largest(out, n_to);
            double *above = parent_edge[w] >= 0 ? messages[parent_side[w]][parent_edge[w]].data : root_theta;
            for (i64 k = 0; k < n_to; k++) {
                const double x = out[k];
                above[k] += x - top;
                back[k] = x > -INF ? top - x : 0.0;
            }
        }
        const i64 root = order[starts[c]];
        labels[root] = i32(argmax(root_theta, net.n_states[root]));
        for (i64 i = starts[c] + 1; i < starts[c + 1]; i++) {
            const i64 v = order[i], e = parent_edge[v], side = parent_side[v];
            double *theta = messages[side][e].data;
            const double weight = net.edge_weight[e];
            const i64 label = labels[net.edges(e, 1 - side)], states = net.n_states[v];
            const double *table = net.tables[net.edge_table[e]].data;
            if (side == 1) {
                const double *row = table + label * n_labels;
                for (i64 k = 0; k < states; k++) out[k] = theta[k] + weight * row[k];
            } else {
                for (i64 k = 0; k < states; k++) out[k] = theta[k] + weight * table[k * n_labels + label];
            }
            labels[v] = i32(argmax(out, states));
            if (hard) {
                for (i64 k = 0; k < states; k++) theta[k] = theta[k] > -INF ? theta[k] : 0.0;
            }
        }
    }
}

// solve_forest for several ranges of components, ranges[i, 0] .. ranges[i, 1] - 1.
static void solve_forests(const Net &net, Array<const i32> order, Array<const i32> parent_edge, Array<const i8> parent_side, Array<const i64> starts,
                          Array<const i64, 2> ranges, Flag hard, Array<double, 3> messages, Array<i32> labels) {
    for (i64 i = 0; i < ranges.size(); i++) {
        solve_forest(net, order, parent_edge, parent_side, starts, ranges(i, 0), ranges(i, 1), hard, messages, labels);
    }
}

// The best labelling that differs from the true one, of each range of components taken as a whole: the second best where the truth is the best.
//
// Beside theta_v, as in solve_forest, `least[v]` is what the best labelling of the subtree of v with the true label at v loses if it must differ from
// the truth below v, and `through[v]` the child below which it then does: a child c offers the best it has with a difference in its own subtree,
// less the best it has at all, both with the true label at v. Only the ends of ranges know each other: one component must differ, the one that loses
// least by it. Without another labelling of finite score the truth is given.
static void solve_apart(const Net &problem, Array<const i32> order, Array<const i32> parent_edge, Array<const i8> parent_side,
                        Array<const i64> starts, Array<const i64, 2> ranges, Array<const i32> truth, Array<double, 3> messages, Array<i32> labels) {
    const Net net = problem;
    const i64 n_labels = net.unary.shape[1];
    const Rows scratch(2, n_labels);
    double *root_theta = scratch[0], *out = scratch[1];
    std::vector<double> least;
    std::vector<i32> through;
    std::vector<u8> forced;
    Poll poll;
    // The best label at v other than the true one, or the true one with a difference below: values are in `row`.
    const auto apart = [&](const double *row, i64 v, i64 low) {
        const i64 own = truth[v];
        double best = row[own] + least[v - low];
        i64 label = own;
        for (i64 k = 0; k < net.n_states[v]; k++) {
            if (k != own && row[k] > best) best = row[k], label = k;
        }
        return std::pair<double, i64>(best, label);
    };
    for (i64 r = 0; r < ranges.shape[0]; r++) {
        const i64 first = ranges(r, 0), last = ranges(r, 1);
        if (first >= last) continue;
        const i64 low = order[starts[first]], count = starts[last] - starts[first];
        least.assign(count, -INF);
        through.assign(count, -1);
        forced.assign(count, 0);
        double smallest = -INF;
        i64 chosen = -1, chosen_label = -1;
        for (i64 c = first; c < last; c++) {
            for (i64 i = starts[c]; i < starts[c + 1]; i++) {
                const i64 v = order[i];
                double *__restrict theta = parent_edge[v] >= 0 ? messages[parent_side[v]][parent_edge[v]].data : root_theta;
                const double *unary = net.unary[v].data;
                for (i64 k = 0; k < net.n_states[v]; k++) theta[k] = unary[k];
            }
            for (i64 i = starts[c + 1] - 1; i > starts[c]; i--) {
                poll();
                const i64 v = order[i], e = parent_edge[v], side = parent_side[v], w = net.edges(e, 1 - side), own = truth[w];
                const double *theta = messages[side][e].data;
                const i64 n_to = net.n_states[w];
                push(net.tables, net.turned, net.edge_table[e], net.edge_weight[e], side, theta, net.n_states[v], n_to, out);
                const double top = largest(out, n_to), plain = out[own];
                double *above = parent_edge[w] >= 0 ? messages[parent_side[w]][parent_edge[w]].data : root_theta;
                for (i64 k = 0; k < n_to; k++) above[k] += out[k] - top;
                const double *table = net.tables[net.edge_table[e]].data;
                const double weight = net.edge_weight[e];
                for (i64 k = 0; k < net.n_states[v]; k++)
                    out[k] = theta[k] + weight * (side == 1 ? table[own * n_labels + k] : table[k * n_labels + own]);
                const double offered = apart(out, v, low).first - plain;
                if (plain > -INF && offered > least[w - low]) least[w - low] = offered, through[w - low] = i32(v);
            }
            const i64 root = order[starts[c]];
            const i64 label = argmax(root_theta, net.n_states[root]);
            const auto other = apart(root_theta, root, low);
            labels[root] = i32(label);
            if (other.first - root_theta[label] > smallest) smallest = other.first - root_theta[label], chosen = root, chosen_label = other.second;
        }
        if (chosen < 0) {
            for (i64 i = starts[first]; i < starts[last]; i++) labels[order[i]] = truth[order[i]];
            continue;
        }
        const auto settle = [&](i64 v, i64 label) {
            labels[v] = i32(label);
            if (label == truth[v]) forced[through[v - low] - low] = 1;
        };
        settle(chosen, chosen_label);
        for (i64 c = first; c < last; c++) {
            for (i64 i = starts[c] + 1; i < starts[c + 1]; i++) {
                const i64 v = order[i], e = parent_edge[v], side = parent_side[v], states = net.n_states[v];
                const double *theta = messages[side][e].data, *table = net.tables[net.edge_table[e]].data;
                const double weight = net.edge_weight[e];
                const i64 label = labels[net.edges(e, 1 - side)];
                for (i64 k = 0; k < states; k++) out[k] = theta[k] + weight * (side == 1 ? table[label * n_labels + k] : table[k * n_labels + label]);
                if (forced[v - low])
                    settle(v, apart(out, v, low).second);
                else
                    labels[v] = i32(argmax(out, states));
            }
        }
    }
}

void bind_tree(nb::module_ &m) {
    def(m, "forest_order", forest_order, "n_nodes"_a, "edges"_a, "ptr"_a, "adj_edge"_a, "adj_side"_a,
        "Nodes component by component, parents first; the edge to the parent and the side of the child on it: "
        "``(order, parent_edge, parent_side, starts)``.");
    def(m, "solve_forest", solve_forest, "net"_a, "order"_a, "parent_edge"_a, "parent_side"_a, "starts"_a, "first"_a, "last"_a, "hard"_a,
        "messages"_a, "labels"_a, "Best labelling of the components ``first .. last - 1``, with messages that prove it.");
    def(m, "solve_forests", solve_forests, "net"_a, "order"_a, "parent_edge"_a, "parent_side"_a, "starts"_a, "ranges"_a, "hard"_a, "messages"_a,
        "labels"_a, "`solve_forest` for several ranges of components, ``ranges[i, 0] .. ranges[i, 1] - 1``.");
    def(m, "solve_apart", solve_apart, "net"_a, "order"_a, "parent_edge"_a, "parent_side"_a, "starts"_a, "ranges"_a, "truth"_a, "messages"_a,
        "labels"_a, "The best labelling of each range of components that is not the true one; the truth where there is no other.");
}

} // namespace maxsum
