// The adjacency that kernels need, by counting sort.
#include "net.hpp"

namespace maxsum {

// Edges at each node in the order of the edges.
static std::tuple<Owned<i64>, Owned<i32>, Owned<i8>> adjacency(i64 n_nodes, Array<const i32, 2> edges) {
    const i64 n_edges = edges.size();
    auto ptr = Owned<i64>::zeros(n_nodes + 1);
    for (i64 e = 0; e < n_edges; e++) {
        ptr[edges(e, 0) + 1] += 1;
        ptr[edges(e, 1) + 1] += 1;
    }
    for (i64 v = 0; v < n_nodes; v++) ptr[v + 1] += ptr[v];
    std::vector<i64> fill(ptr.begin(), ptr.end());
    Owned<i32> adj_edge(2 * n_edges);
    Owned<i8> adj_side(2 * n_edges);
    for (i64 e = 0; e < n_edges; e++) {
        for (i64 side = 0; side < 2; side++) {
            const i64 v = edges(e, side);
            adj_edge[fill[v]] = i32(e);
            adj_side[fill[v]] = i8(side);
            fill[v] += 1;
        }
    }
    return {std::move(ptr), std::move(adj_edge), std::move(adj_side)};
}

// Positions in `nodes` (clique members) of each node.
static std::tuple<Owned<i64>, Owned<i32>> memberships(i64 n_nodes, Array<const i32> nodes) {
    auto ptr = Owned<i64>::zeros(n_nodes + 1);
    for (i32 v : nodes) ptr[v + 1] += 1;
    for (i64 v = 0; v < n_nodes; v++) ptr[v + 1] += ptr[v];
    std::vector<i64> fill(ptr.begin(), ptr.end());
    Owned<i32> member(nodes.size());
    for (i64 i = 0; i < nodes.size(); i++) member[fill[nodes[i]]++] = i32(i);
    return {std::move(ptr), std::move(member)};
}

void bind_net(nb::module_ &m) {
    bind_record<Net>(m);
    def(m, "adjacency", adjacency, "n_nodes"_a, "edges"_a,
        "Edges at each node in the order of the edges (counting sort): ``(ptr, adj_edge, adj_side)``.");
    def(m, "memberships", memberships, "n_nodes"_a, "nodes"_a, "Positions in ``nodes`` (clique members) of each node: ``(ptr, member)``.");
}

} // namespace maxsum
