// Cycles of a graph that are worth being clusters: short ones by listing, longer ones by the signs of their edges.
#include "net.hpp"
#include "poll.hpp"

#include <numeric>

namespace maxsum {

namespace {

// Cycles as they are found: the edges of each in turn, and whether an edge is gone through from its second node.
struct Found {
    const Net &net;
    std::vector<i64> ptr{0};
    std::vector<i32> edge{};
    std::vector<i8> turned{};

    void step(i64 from, i64 e) {
        edge.push_back(i32(e));
        turned.push_back(i8(net.edges(e, 0) != from));
    }
    void close() { ptr.push_back(i64(edge.size())); }
    i64 count() const { return i64(ptr.size()) - 1; }
};

template <class T> Owned<T> owned(const std::vector<T> &values) {
    Owned<T> made(i64(values.size()));
    std::copy(values.begin(), values.end(), made.data);
    return made;
}

using Listed = std::tuple<Owned<i64>, Owned<i32>, Owned<i8>>;

Listed listed(const Found &found) { return {owned(found.ptr), owned(found.edge), owned(found.turned)}; }

struct Step {
    i64 middle, near, far; // a way of two edges: the node between, the edge to it and the edge from it
};

// All triangles, and all squares without a diagonal, of the nodes that `wanted` marks, as long as there are at most `limit` of them.
Listed short_cycles(const Net &problem, Array<const u8> wanted, i64 limit) {
    const Net net = problem;
    const i64 n_nodes = net.n_states.size();
    Found found{net};
    std::vector<i64> mark(std::size_t(n_nodes), -1), seen(std::size_t(n_nodes), -1);
    std::vector<std::vector<Step>> ways(static_cast<std::size_t>(n_nodes));
    std::vector<i64> reached;
    Poll poll;
    auto other = [&](i64 i, i64 e) { return i64(net.edges(e, 1 - net.adj_side[i])); };
    for (i64 u = 0; u < n_nodes && found.count() < limit; u++) {
        if (!wanted[u]) continue;
        for (i64 i = net.ptr[u]; i < net.ptr[u + 1]; i++) mark[std::size_t(other(i, net.adj_edge[i]))] = net.adj_edge[i];
        for (i64 i = net.ptr[u]; i < net.ptr[u + 1]; i++) {
            const i64 near = net.adj_edge[i], v = other(i, near);
            poll(u64(net.ptr[v + 1] - net.ptr[v]));
            if (v < u || !wanted[v]) continue;
            for (i64 j = net.ptr[v]; j < net.ptr[v + 1]; j++) {
                const i64 far = net.adj_edge[j], w = other(j, far);
                if (w <= u || !wanted[w]) continue;
                if (mark[std::size_t(w)] < 0) {
                    auto &mine = ways[std::size_t(w)];
                    if (mine.empty()) reached.push_back(w);
                    mine.push_back({v, near, far});
                } else if (w > v && found.count() < limit) {
                    found.step(u, near), found.step(v, far), found.step(w, mark[std::size_t(w)]);
                    found.close();
                }
            }
        }
        for (i64 w : reached) {
            auto &mine = ways[std::size_t(w)];
            for (std::size_t a = 0; a < mine.size(); a++) {
                for (i64 i = net.ptr[mine[a].middle]; i < net.ptr[mine[a].middle + 1]; i++) seen[std::size_t(other(i, net.adj_edge[i]))] = i64(a);
                for (std::size_t b = a + 1; b < mine.size() && found.count() < limit; b++) {
                    poll();
                    if (seen[std::size_t(mine[b].middle)] == i64(a)) continue; // a diagonal: two triangles do more
                    found.step(u, mine[a].near), found.step(mine[a].middle, mine[a].far);
                    found.step(w, mine[b].far), found.step(mine[b].middle, mine[b].near);
                    found.close();
                }
                for (i64 i = net.ptr[mine[a].middle]; i < net.ptr[mine[a].middle + 1]; i++) seen[std::size_t(other(i, net.adj_edge[i]))] = -1;
            }
            mine.clear();
        }
        reached.clear();
        for (i64 i = net.ptr[u]; i < net.ptr[u + 1]; i++) mark[std::size_t(other(i, net.adj_edge[i]))] = -1;
    }
    return listed(found);
}

// By how much an edge prefers that both ends have their label of `labels`, or both another one (less than 0: that exactly one has).
Owned<double> edge_signs(const Net &problem, Array<const double, 3> messages, Array<const i32> labels) {
    const Net net = problem;
    const i64 n_labels = net.unary.shape[1];
    Owned<double> out(net.edges.size());
    for (i64 e = 0; e < net.edges.size(); e++) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1);
        const double weight = net.edge_weight[e], *table = net.tables[net.edge_table[e]].data;
        double same = -INF, different = -INF;
        for (i64 a = 0; a < net.n_states[u]; a++) {
            if (net.unary(u, a) == -INF) continue;
            for (i64 b = 0; b < net.n_states[v]; b++) {
                if (net.unary(v, b) == -INF) continue;
                const double value = weight * table[a * n_labels + b] + messages(0, e, a) + messages(1, e, b);
                double &best = (a == labels[u]) == (b == labels[v]) ? same : different;
                best = std::max(best, value);
            }
        }
        out[e] = same - different;
    }
    return out;
}

// Frustrated cycles (Sontag, Choe & Li 2012): of the forest of the edges with the strongest signs, closed by each other edge whose sign contradicts
// those of the way between its ends, which has at most `longest` edges.
Listed frustrated_cycles(const Net &problem, Array<const double, 3> messages, Array<const i32> labels, double least, i64 longest) {
    const Net net = problem;
    const i64 n_nodes = net.n_states.size(), n_edges = net.edges.size();
    const Owned<double> sign = edge_signs(net, messages, labels);
    std::vector<i64> order;
    for (i64 e = 0; e < n_edges; e++) {
        if (std::abs(sign[e]) > least) order.push_back(e);
    }
    std::stable_sort(order.begin(), order.end(), [&](i64 a, i64 b) { return std::abs(sign[a]) > std::abs(sign[b]); });
    std::vector<i64> root(static_cast<std::size_t>(n_nodes));
    std::iota(root.begin(), root.end(), 0);
    auto find = [&](i64 v) {
        while (root[std::size_t(v)] != v) v = root[std::size_t(v)] = root[std::size_t(root[std::size_t(v)])];
        return v;
    };
    std::vector<std::vector<i64>> tree(static_cast<std::size_t>(n_nodes));
    std::vector<i64> closing;
    for (i64 e : order) {
        const i64 a = find(net.edges(e, 0)), b = find(net.edges(e, 1));
        if (a == b) {
            closing.push_back(e);
            continue;
        }
        root[std::size_t(a)] = b;
        tree[std::size_t(net.edges(e, 0))].push_back(e), tree[std::size_t(net.edges(e, 1))].push_back(e);
    }
    std::vector<i64> parent(std::size_t(n_nodes), -1), depth(std::size_t(n_nodes), -1), queue;
    std::vector<i8> odd(std::size_t(n_nodes), 0); // whether a node disagrees with its root
    for (i64 start = 0; start < n_nodes; start++) {
        if (depth[std::size_t(start)] >= 0) continue;
        depth[std::size_t(start)] = 0;
        queue.assign(1, start);
        for (std::size_t at = 0; at < queue.size(); at++) {
            const i64 v = queue[at];
            for (i64 e : tree[std::size_t(v)]) {
                const i64 w = net.edges(e, 0) == v ? net.edges(e, 1) : net.edges(e, 0);
                if (depth[std::size_t(w)] >= 0) continue;
                depth[std::size_t(w)] = depth[std::size_t(v)] + 1, parent[std::size_t(w)] = e;
                odd[std::size_t(w)] = i8(odd[std::size_t(v)] != (sign[e] < 0));
                queue.push_back(w);
            }
        }
    }
    Found found{net};
    Poll poll;
    std::vector<std::pair<i64, i64>> back; // (node, edge) on the way up from the first end
    for (i64 e : closing) {
        i64 u = net.edges(e, 0), v = net.edges(e, 1);
        if ((odd[std::size_t(u)] != odd[std::size_t(v)]) == (sign[e] < 0)) continue;
        poll(u64(longest));
        back.clear();
        std::vector<std::pair<i64, i64>> down{{u, e}}; // from u over e to v, then up from v; the way up from u is gone backwards
        while (u != v && i64(back.size() + down.size()) < longest) {
            if (depth[std::size_t(u)] >= depth[std::size_t(v)]) {
                const i64 up = parent[std::size_t(u)];
                u = net.edges(up, 0) == u ? net.edges(up, 1) : net.edges(up, 0);
                back.emplace_back(u, up);
            } else {
                const i64 up = parent[std::size_t(v)];
                down.emplace_back(v, up);
                v = net.edges(up, 0) == v ? net.edges(up, 1) : net.edges(up, 0);
            }
        }
        if (u != v) continue;
        for (const auto &[node, edge] : down) found.step(node, edge);
        for (auto way = back.rbegin(); way != back.rend(); ++way) found.step(way->first, way->second);
        found.close();
    }
    return listed(found);
}

} // namespace

void bind_cycle_search(nb::module_ &m) {
    def(m, "short_cycles", short_cycles, "net"_a, "wanted"_a, "limit"_a,
        "Triangles, and squares without a diagonal, of the nodes marked in ``wanted`` (uint8), about ``limit`` at most: ``(ptr, edge, turned)``.");
    def(m, "edge_signs", edge_signs, "net"_a, "messages"_a, "labels"_a,
        "By how much each edge prefers that both ends, or none, have their label of ``labels``.");
    def(m, "frustrated_cycles", frustrated_cycles, "net"_a, "messages"_a, "labels"_a, "least"_a, "longest"_a,
        "Cycles whose edges, of signs above ``least``, contradict each other, of at most ``longest`` edges: ``(ptr, edge, turned)``.");
}

} // namespace maxsum
