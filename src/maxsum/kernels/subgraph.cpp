// Moves of the local search on random subgraphs of small width, and the better parts of two labellings.
#include "subgraph.hpp"

namespace maxsum {

// Give a random subgraph its best labelling, its scores being perturbed by Gumbel noise times the temperature; returns the nodes in it and the cells
// of its tables.
//
// A node may take the first `count` entries of its row of `label`, the present one among them. Bags have at most `most_cells` cells. Without noise
// the score does not fall.
static std::tuple<i64, double> subgraph_move(const Net &problem, i64 most_cells, double temperature, Array<const double> gumbel, Array<u64> state,
                                             Array<i32> labels) {
    Subgraph graph(problem, most_cells);
    Poll poll(1 << 16); // cells
    graph.grow(state[0]);
    graph.solve(labels, temperature, gumbel.data, state[0], poll);
    return {i64(graph.inside().size()), graph.made};
}

// Nodes of the subgraph that a move would choose.
static Owned<i32> grow_subgraph(const Net &problem, i64 most_cells, Array<u64> state) {
    Subgraph graph(problem, most_cells);
    graph.grow(state[0]);
    Owned<i32> made(i64(graph.inside().size()));
    std::copy(graph.inside().begin(), graph.inside().end(), made.data);
    return made;
}

// Take from another labelling the parts that are better: of the nodes where the two differ, each connected component (by edges and cliques) by
// itself. Returns how much the score grew.
static double take_better_parts(const Net &problem, Array<i32> labels, Array<const i32> other) {
    const Net net = problem;
    const i64 n = net.n_states.size();
    std::vector<u8> seen(n, 0), in_clique(net.clique_weights.shape[0], 0);
    std::vector<i32> part;
    std::vector<i64> cliques;
    double total = 0.0;
    for (i64 root = 0; root < n; root++) {
        if (seen[root] || labels[root] == other[root]) continue;
        part.assign(1, i32(root)), cliques.clear();
        seen[root] = 1;
        double gain = 0.0;
        for (std::size_t at = 0; at < part.size(); at++) {
            const i64 v = part[at];
            gain += net.unary(v, other[v]) - net.unary(v, labels[v]);
            for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
                const i64 e = net.adj_edge[i], side = net.adj_side[i], w = net.edges(e, 1 - side), t = net.edge_table[e];
                const bool differs = labels[w] != other[w];
                if (differs && side == 1) continue; // counted at its first end
                const i64 a = net.edges(e, 0), b = net.edges(e, 1);
                gain += net.edge_weight[e] * (net.tables(t, other[a], other[b]) - net.tables(t, labels[a], labels[b]));
            }
            auto add = [&](i64 w) {
                if (!seen[w] && labels[w] != other[w]) seen[w] = 1, part.push_back(i32(w));
            };
            for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) add(net.edges(net.adj_edge[i], 1 - net.adj_side[i]));
            for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
                const i64 c = net.member_clique[net.member[i]];
                if (in_clique[c]) continue;
                in_clique[c] = 1;
                cliques.push_back(c);
                for (i64 m = net.clique_ptr[c]; m < net.clique_ptr[c + 1]; m++) add(net.clique_nodes[m]);
            }
        }
        for (i64 c : cliques) {
            const i64 now = common_label(net, c, -1, labels), then = common_label(net, c, -1, other);
            gain += (then >= 0 ? net.clique_weights(c, then) : 0.0) - (now >= 0 ? net.clique_weights(c, now) : 0.0);
        }
        if (gain <= 0.0) continue;
        total += gain;
        for (i32 v : part) labels[v] = other[v];
    }
    return total;
}

void bind_subgraph(nb::module_ &m) {
    def(m, "subgraph_move", subgraph_move, "net"_a, "most_cells"_a, "temperature"_a, "gumbel"_a, "state"_a, "labels"_a,
        "Give a random subgraph of small width its best labelling; returns its number of nodes and the cells of its tables.");
    def(m, "grow_subgraph", grow_subgraph, "net"_a, "most_cells"_a, "state"_a, "Nodes of the subgraph that a move would choose.");
    def(m, "take_better_parts", take_better_parts, "net"_a, "labels"_a, "other"_a,
        "Take from another labelling the connected parts that are better; returns how much the score grew.");
}

} // namespace maxsum
