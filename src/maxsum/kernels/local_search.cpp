#include "local_search.hpp"

#include "message.hpp"
#include "poll.hpp"

namespace maxsum {

// Score of a labelling.
double total_score(const Net &problem, Array<const i32> labels) {
    const Net net = problem;
    double total = 0.0;
    for (i64 v = 0; v < net.n_states.size(); v++) total += net.unary(v, labels[v]);
    for (i64 e = 0; e < net.edges.size(); e++) {
        total += net.edge_weight[e] * net.tables(net.edge_table[e], labels[net.edges(e, 0)], labels[net.edges(e, 1)]);
    }
    for (i64 c = 0; c + 1 < net.clique_ptr.size(); c++) {
        i64 common = labels[net.clique_nodes[net.clique_ptr[c]]];
        for (i64 i = net.clique_ptr[c]; i < net.clique_ptr[c + 1]; i++) {
            if (labels[net.clique_nodes[i]] != common) {
                common = -1;
                break;
            }
        }
        if (common >= 0) total += net.clique_weights(c, common);
    }
    return total;
}

// A random set of nodes without a cycle among them, to which no node could be added; returns its size.
//
// `order` lists its nodes, parents first; up[v] is the place of the edge to the parent of v in the adjacency of that parent, -1 at a root. A node
// joins if one edge leads to the set, or if it starts a tree; `touch` counts those edges (two for a clique that has a member in the set, so that no
// clique has two).
static i64 grow_forest(const Net &problem, Array<u64> state, Array<i32> order, Array<i32> touch, Array<i64> up, Array<i32> frontier) {
    const Net net = problem;
    const i64 n_nodes = net.n_states.size();
    touch.fill(0);
    u64 number = state[0];
    i64 size = 0;
    const i64 start = below(n_nodes, number);
    for (i64 j = 0; j < n_nodes; j++) {
        const i64 root = start + j >= n_nodes ? start + j - n_nodes : start + j;
        if (touch[root]) continue;
        up[root] = -1;
        frontier[0] = i32(root);
        i64 n_frontier = 1;
        while (n_frontier) {
            const i64 pick = below(n_frontier, number);
            const i64 v = frontier[pick];
            n_frontier -= 1;
            frontier[pick] = frontier[n_frontier];
            if (touch[v] > 1) continue;
            order[size] = i32(v);
            size += 1;
            touch[v] = 2;
            for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
                const i64 w = net.edges(net.adj_edge[i], 1 - net.adj_side[i]);
                touch[w] += 1;
                if (touch[w] == 1) {
                    up[w] = i;
                    frontier[n_frontier] = i32(w);
                    n_frontier += 1;
                }
            }
            for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
                const i64 c = net.member_clique[net.member[i]];
                for (i64 m = net.clique_ptr[c]; m < net.clique_ptr[c + 1]; m++) touch[net.clique_nodes[m]] += 2;
            }
        }
    }
    state[0] = number;
    return size;
}

// Add to theta, the row of v, the terms that join v to nodes which keep their labels.
static void outside_scores(const Net &net, i64 v, Array<const i32> labels, Array<const i32> inside, double *__restrict theta) {
    const i64 states = net.n_states[v], n_labels = net.unary.shape[1];
    for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
        const i64 e = net.adj_edge[i], side = net.adj_side[i], w = net.edges(e, 1 - side);
        if (inside[w]) continue;
        const i64 t = net.edge_table[e], y = labels[w];
        const double weight = net.edge_weight[e];
        if (side == 0 && !net.turned.size()) {
            const double *column = net.tables[t].data + y;
            for (i64 k = 0; k < states; k++) theta[k] += weight * column[k * n_labels];
        } else {
            const double *row = (side == 1 ? net.tables : net.turned)[t][y].data;
            for (i64 k = 0; k < states; k++) theta[k] += weight * row[k];
        }
    }
    for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
        const i64 c = net.member_clique[net.member[i]];
        const i64 common = common_label(net, c, v, labels);
        if (common == ANY) {
            for (i64 k = 0; k < states; k++) theta[k] += net.clique_weights(c, k);
        }
        if (common >= 0 && common < states) theta[common] += net.clique_weights(c, common);
    }
}

// order, touch, frontier, inside, up, theta, out
using Work = std::tuple<Array<i32>, Array<i32>, Array<i32>, Array<i32>, Array<i64>, Array<double, 2>, Array<double>>;

// Give a random forest its best labelling, n_moves times; returns the temperature after them.
//
// The scores of its nodes are perturbed by Gumbel noise times the temperature (for a single node that is Gibbs sampling), which each move multiplies
// by `factor`. `labels` changes in place; `best` and its score levels[0] are replaced by every better labelling.
static double forest_moves(const Net &problem, i64 n_moves, double temperature, double factor, Array<const double> gumbel, Array<u64> state,
                           Array<i32> labels, Array<i32> best, Array<double> levels, const Work &work) {
    const Net net = problem;
    const auto [order, touch, frontier, inside, up, theta, scratch] = work;
    const i64 n_labels = net.unary.shape[1];
    double *out = scratch.data;
    Poll poll(1 << 13); // nodes
    for (i64 move = 0; move < n_moves; move++) {
        poll(u64(net.n_states.size()));
        const i64 size = grow_forest(net, state, order, touch, up, frontier);
        for (i64 j = 0; j < size; j++) inside[order[j]] = 1;
        u64 number = state[0];
        for (i64 j = 0; j < size; j++) {
            const i64 v = order[j], states = net.n_states[v];
            double *__restrict own = theta[v].data;
            const double *unary = net.unary[v].data;
            for (i64 k = 0; k < states; k++) own[k] = unary[k];
            if (temperature > 0.0) noise(states, temperature, gumbel.data, number, own);
            outside_scores(net, v, labels, inside, own);
        }
        state[0] = number;
        for (i64 j = size - 1; j >= 0; j--) {
            const i64 v = order[j], i = up[v];
            if (i < 0) continue;
            const i64 e = net.adj_edge[i], side = net.adj_side[i], parent = net.edges(e, side), states = net.n_states[parent];
            push(net.tables, net.turned, net.edge_table[e], net.edge_weight[e], 1 - side, theta[v].data, net.n_states[v], states, out);
            double *__restrict above = theta[parent].data;
            for (i64 k = 0; k < states; k++) above[k] += out[k];
        }
        for (i64 j = 0; j < size; j++) {
            const i64 v = order[j], i = up[v], states = net.n_states[v];
            double *__restrict own = theta[v].data;
            inside[v] = 0;
            if (i >= 0) {
                const i64 e = net.adj_edge[i], side = net.adj_side[i], y = labels[net.edges(e, side)];
                const double weight = net.edge_weight[e], *table = net.tables[net.edge_table[e]].data;
                if (side == 0) {
                    const double *row = table + y * n_labels;
                    for (i64 k = 0; k < states; k++) own[k] += weight * row[k];
                } else {
                    for (i64 k = 0; k < states; k++) own[k] += weight * table[k * n_labels + y];
                }
            }
            double top = -INF;
            i64 label = 0;
            for (i64 k = 0; k < states; k++) {
                if (own[k] > top) top = own[k], label = k;
            }
            labels[v] = i32(label);
        }
        const double score = total_score(net, labels);
        if (score > levels[0]) {
            levels[0] = score;
            best.copy_from(labels);
        }
        temperature *= factor;
    }
    return temperature;
}

void bind_local_search(nb::module_ &m) {
    def(m, "total_score", total_score, "net"_a, "labels"_a, "Score of a labelling.");
    def(m, "grow_forest", grow_forest, "net"_a, "state"_a, "order"_a, "touch"_a, "up"_a, "frontier"_a,
        "A random set of nodes without a cycle among them, to which no node could be added; returns its size.");
    def(m, "forest_moves", forest_moves, "net"_a, "n_moves"_a, "temperature"_a, "factor"_a, "gumbel"_a, "state"_a, "labels"_a, "best"_a, "levels"_a,
        "work"_a, "Give a random forest its best labelling, ``n_moves`` times; returns the temperature after them.");
}

} // namespace maxsum
