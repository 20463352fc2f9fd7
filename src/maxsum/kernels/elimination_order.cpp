// Orders of elimination: greedy by least fill, and the separators of a given order.
#include "arrays.hpp"
#include "poll.hpp"

#include <queue>

namespace maxsum {

using Order = std::tuple<Owned<i32>, Owned<i64>, Owned<i32>, Owned<double>, i64, double>;

// What an order is made of while it grows, and its limits.
struct Growing {
    std::vector<i32> nodes, separators;
    std::vector<i64> ptr{0};
    std::vector<double> cells; // of separator tables
    i64 width = 0;
    double total = 0.0;

    // Add a node with its separator; false if that is beyond the limits.
    bool add(i64 v, const i32 *from, const i32 *to, Array<const i32> n_states, i64 max_width, double max_cells) {
        double table = 1.0;
        for (const i32 *w = from; w < to; w++) table *= n_states[*w];
        width = std::max(width, i64(to - from));
        total += n_states[v] * table;
        if (width > max_width || total > max_cells) return false;
        nodes.push_back(i32(v));
        separators.insert(separators.end(), from, to);
        ptr.push_back(i64(separators.size()));
        cells.push_back(table);
        return true;
    }

    Order given() const {
        Owned<i32> order(i64(nodes.size())), flat(i64(separators.size()));
        Owned<i64> cuts(i64(ptr.size()));
        Owned<double> sizes(i64(cells.size()));
        std::copy(nodes.begin(), nodes.end(), order.data);
        std::copy(separators.begin(), separators.end(), flat.data);
        std::copy(ptr.begin(), ptr.end(), cuts.data);
        std::copy(cells.begin(), cells.end(), sizes.data);
        return {std::move(order), std::move(cuts), std::move(flat), std::move(sizes), width, total};
    }

    static Order none() { return {Owned<i32>(0), Owned<i64>(0), Owned<i32>(0), Owned<double>(0), -1, INF}; }
};

// Neighbours of each node by edges and scopes, each once and in rising order: those of v are near[ptr[v]] .. near[ptr[v + 1] - 1].
struct Neighbours {
    std::vector<i64> ptr;
    std::vector<i32> near;

    Neighbours(i64 n, Array<const i32, 2> edges, Array<const i64> scope_ptr, Array<const i32> scopes) : ptr(std::size_t(n + 1), 0) {
        auto each = [&](auto &&meet) {
            for (i64 e = 0; e < edges.size(); e++) meet(edges(e, 0), edges(e, 1));
            for (i64 t = 0; t + 1 < scope_ptr.size(); t++) {
                for (i64 i = scope_ptr[t]; i < scope_ptr[t + 1]; i++) {
                    for (i64 j = scope_ptr[t]; j < i; j++) meet(scopes[i], scopes[j]);
                }
            }
        };
        each([&](i32 u, i32 v) { ptr[u + 1]++, ptr[v + 1]++; });
        for (i64 v = 0; v < n; v++) ptr[v + 1] += ptr[v];
        near.resize(std::size_t(ptr[n]));
        std::vector<i64> at(ptr.begin(), ptr.end() - 1);
        each([&](i32 u, i32 v) { near[at[u]++] = v, near[at[v]++] = u; });
        i64 kept = 0;
        for (i64 v = 0; v < n; v++) {
            const auto first = near.begin() + ptr[v], last = near.begin() + ptr[v + 1];
            std::sort(first, last);
            ptr[v] = kept;
            kept = std::unique_copy(first, last, near.begin() + kept) - near.begin();
        }
        ptr[n] = kept;
        near.resize(std::size_t(kept));
    }

    const i32 *begin(i64 v) const { return near.data() + ptr[v]; }
    const i32 *end(i64 v) const { return near.data() + ptr[v + 1]; }
    const i32 *later(i64 v) const { return std::upper_bound(begin(v), end(v), i32(v)); }

    // Whether the order 0, 1, 2, .. has no fill: the later neighbours of a node but the first of them are neighbours of that one. No order is
    // narrower then.
    bool is_perfect() const {
        for (i64 v = 0; v + 1 < i64(ptr.size()); v++) {
            const i32 *first = later(v);
            if (end(v) - first > 1 && !std::includes(later(*first), end(*first), first + 1, end(v))) return false;
        }
        return true;
    }
};

// The order of least fill, ties to fewer table cells, then to the lowest node; the nodes as they are numbered if that has no fill. Its width is -1 if
// it would pass a limit.
//
// Nodes are kept in a heap with the fill that they had when they were last looked at; an entry is computed again when it comes up, as an elimination
// changes the fill only near the eliminated node. A node with more neighbours than the largest width waits for others to go first.
static Order least_fill(Array<const i32> n_states, Array<const i32, 2> edges, Array<const i64> scope_ptr, Array<const i32> scopes, i64 max_width,
                        double max_cells) {
    const i64 n = n_states.size();
    const Neighbours graph(n, edges, scope_ptr, scopes);
    Growing order;
    if (graph.is_perfect()) {
        for (i64 v = 0; v < n; v++) {
            if (!order.add(v, graph.later(v), graph.end(v), n_states, max_width, max_cells)) return Growing::none();
        }
        return order.given();
    }
    std::vector<std::vector<i32>> near(n);
    for (i64 v = 0; v < n; v++) near[v].assign(graph.begin(v), graph.end(v));

    using Key = std::tuple<i64, double, i32>;
    std::vector<u8> marked(n, 0), done(n, 0);
    auto key = [&](i32 v) -> Key {
        const auto &own = near[v];
        const i64 degree = i64(own.size());
        if (degree > max_width) return {std::numeric_limits<i64>::max(), INF, v};
        double cells = n_states[v];
        for (i32 w : own) cells *= n_states[w];
        if (degree < 2) return {0, cells, v};
        i64 missing = 0;
        for (i32 w : own) marked[w] = 1;
        for (i32 w : own) {
            const auto &other = near[w];
            i64 common = 0;
            if (i64(other.size()) > 16 * degree) {
                for (i32 u : own) common += std::binary_search(other.begin(), other.end(), u);
            } else {
                for (i32 u : other) common += marked[u];
            }
            missing += degree - 1 - common;
        }
        for (i32 w : own) marked[w] = 0;
        return {missing / 2, cells, v};
    };

    std::vector<Key> start(n);
    for (i64 v = 0; v < n; v++) start[v] = key(i32(v));
    std::priority_queue<Key, std::vector<Key>, std::greater<Key>> heap(std::greater<Key>(), std::move(start));
    std::vector<i32> merged;
    Poll poll(100);
    while (!heap.empty()) {
        poll();
        const Key entry = heap.top();
        heap.pop();
        const i32 v = std::get<2>(entry);
        if (done[v]) continue;
        const Key now = key(v);
        if (now != entry && !heap.empty() && now > heap.top()) {
            heap.push(now);
            continue;
        }
        const std::vector<i32> own = std::move(near[v]);
        near[v] = {};
        if (!order.add(v, own.data(), own.data() + own.size(), n_states, max_width, max_cells)) return Growing::none();
        done[v] = 1;
        for (i32 w : own) {
            merged.clear();
            std::set_union(near[w].begin(), near[w].end(), own.begin(), own.end(), std::back_inserter(merged));
            std::erase_if(merged, [&](i32 u) { return u == v || u == w; });
            near[w] = merged;
        }
        for (i32 w : own) heap.push(key(w));
    }
    return order.given();
}

// The separators of the order `nodes`; the width is -1 if a limit is passed.
//
// The separator of a node has what its terms, and the separators that were sent to it, leave after it. A separator is sent to its first node in the
// order.
static Order along(Array<const i32> n_states, Array<const i32, 2> edges, Array<const i64> scope_ptr, Array<const i32> scopes, Array<const i32> nodes,
                   i64 max_width, double max_cells) {
    const i64 n = n_states.size(), n_edges = edges.size(), n_scopes = scope_ptr.size() - 1;
    std::vector<i32> rank(n);
    for (i64 i = 0; i < n; i++) rank[nodes[i]] = i32(i);

    // terms by the position of their first node: a list that goes on from `next`
    std::vector<i64> head(n, -1), next(n_edges + n_scopes, -1);
    auto hold = [&](i64 term, i64 at) {
        next[term] = head[at];
        head[at] = term;
    };
    for (i64 e = 0; e < n_edges; e++) hold(e, std::min(rank[edges(e, 0)], rank[edges(e, 1)]));
    for (i64 t = 0; t < n_scopes; t++) {
        i64 first = n;
        for (i64 i = scope_ptr[t]; i < scope_ptr[t + 1]; i++) first = std::min(first, i64(rank[scopes[i]]));
        if (first < n) hold(n_edges + t, first);
    }
    std::vector<i64> sent(n, -1), sibling(n, -1); // bags that send their separator to this one
    std::vector<i64> seen(n, -1);
    std::vector<i32> near;
    Growing order;
    Poll poll(1000);
    for (i64 i = 0; i < n; i++) {
        poll();
        const i64 v = nodes[i];
        near.clear();
        seen[v] = i;
        auto meet = [&](i32 w) {
            if (seen[w] != i) {
                seen[w] = i;
                near.push_back(w);
            }
        };
        for (i64 term = head[i]; term >= 0; term = next[term]) {
            if (term < n_edges) {
                meet(edges(term, 0));
                meet(edges(term, 1));
            } else {
                for (i64 j = scope_ptr[term - n_edges]; j < scope_ptr[term - n_edges + 1]; j++) meet(scopes[j]);
            }
        }
        for (i64 child = sent[i]; child >= 0; child = sibling[child]) {
            for (i64 j = order.ptr[child]; j < order.ptr[child + 1]; j++) meet(order.separators[j]);
        }
        std::sort(near.begin(), near.end());
        if (!order.add(v, near.data(), near.data() + near.size(), n_states, max_width, max_cells)) return Growing::none();
        i64 first = n;
        for (i32 w : near) first = std::min(first, i64(rank[w]));
        if (first < n) {
            sibling[i] = sent[first];
            sent[first] = i;
        }
    }
    return order.given();
}

void bind_elimination_order(nb::module_ &m) {
    def(m, "least_fill", least_fill, "n_states"_a, "edges"_a, "scope_ptr"_a, "scopes"_a, "max_width"_a, "max_cells"_a,
        "The greedy order of least fill: ``(nodes, separator_ptr, separators, table_cells, width, cells)``; the width is -1 if it would pass a "
        "limit.");
    def(m, "along", along, "n_states"_a, "edges"_a, "scope_ptr"_a, "scopes"_a, "nodes"_a, "max_width"_a, "max_cells"_a,
        "The same for the order that removes the nodes as they are listed.");
}

} // namespace maxsum
