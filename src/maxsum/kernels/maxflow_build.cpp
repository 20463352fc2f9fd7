// From a supermodular problem to a flow network, and from its flow back to messages.
//
// A node with alive labels 0 .. n - 1 has binary variables x^i = [y >= i], i = 1 .. n - 1, joined by infinite arcs that enforce x^{i+1} <= x^i. A
// table is split into a constant, terms of one variable, and
//
//     sum_ij D_ij x_u^i x_v^j,    D_ij = g(i, j) + g(i-1, j-1) - g(i-1, j) - g(i, j-1) >= 0,
//
// where D x x' = D x - D x (1 - x') is an arc of capacity D from u to v; half of it is used as flow at once. Forbidden pairs of a supermodular table
// lie in two corners: D is 0 there and infinite arcs keep the labels inside the band.
#include "maxflow.hpp"
#include "net.hpp"

namespace maxsum {

constexpr double EPS = 0x1p-51; // rounding of a sum of four terms, relative to their sizes: four units of 2^-53

// D of the labels k < k2 and m < m2, given the table at (k, m), (k, m2), (k2, m), (k2, m2): 0 beside a forbidden pair, and 0 where it is no more than
// rounding.
static double bend(double low, double up, double down, double high, double weight) {
    if (up == -INF || down == -INF) return 0.0;
    const double value = weight * (low - up + (high - down));
    const double noise = EPS * std::abs(weight) * (std::abs(low) + std::abs(high) + std::abs(up) + std::abs(down));
    return value > noise ? value : 0.0;
}

static double bend(Array<const double, 2> table, double weight, i64 k, i64 k2, i64 m, i64 m2) {
    return bend(table(k, m), table(k, m2), table(k2, m), table(k2, m2), weight);
}

// Network of a problem in which every node has two labels: the arcs are the adjacency of `net`. `slot` (E,) is scratch.
static void fill_binary(const Net &net, const Flow &flow, Array<i32> slot) {
    const Array<Arc> arcs = arcs_of(flow);
    const Array<const i64> ptr = net.ptr;
    const Array<const i32> adj_edge = net.adj_edge, edge_table = net.edge_table;
    const Array<const i8> adj_side = net.adj_side;
    const Array<const i32, 2> edges = net.edges;
    const Array<const double> edge_weight = net.edge_weight;
    const Array<const double, 3> tables = net.tables;
    for (i64 v = 0; v < flow.excess.size(); v++) {
        double t = net.unary(v, 1) - net.unary(v, 0);
        const i64 last = ptr[v + 1];
        for (i64 i = ptr[v]; i < last; i++) {
            const i64 e = adj_edge[i], side = adj_side[i];
            const i64 w = edges(e, 1 - side);
            const Array<const double, 2> table = tables[edge_table[e]];
            const double weight = edge_weight[e];
            const double half = 0.5 * bend(table, weight, 0, 1, 0, 1);
            t += weight * ((side == 0 ? table(1, 0) : table(0, 1)) - table(0, 0)) + half;
            arcs[i].head = i32(w);
            arcs[i].cap = half;
            if (w > v) {
                slot[e] = i32(i);
            } else {
                arcs[i].sister = slot[e];
                arcs[slot[e]].sister = i32(i);
            }
        }
        flow.excess[v] = t;
    }
}

// Labelling of the minimum cut and messages of the maximum flow, for `fill_binary`.
static void read_binary(const Net &net, const Flow &flow, Array<double, 3> messages, Array<i32> labels) {
    const Array<const Arc> arcs = arcs_of(flow);
    const Array<const Node> nodes = nodes_of(flow);
    const Array<const i64> ptr = net.ptr;
    const Array<const i32> adj_edge = net.adj_edge, edge_table = net.edge_table;
    const Array<const i8> adj_side = net.adj_side;
    const Array<const double> edge_weight = net.edge_weight;
    const Array<const double, 3> tables = net.tables;
    for (i64 v = 0; v < labels.size(); v++) {
        labels[v] = nodes[v].dist > 0;
        const i64 last = ptr[v + 1];
        for (i64 i = ptr[v]; i < last; i++) {
            if (adj_side[i] == 0) continue;
            const i64 e = adj_edge[i];
            const Array<const double, 2> table = tables[edge_table[e]];
            const double weight = edge_weight[e];
            const double used = arcs[i].cap;
            const double left = bend(table, weight, 0, 1, 0, 1) - used;
            messages(0, e, 1) = -weight * (table(1, 0) - table(0, 0)) - left;
            messages(1, e, 1) = -weight * (table(0, 1) - table(0, 0)) - used;
        }
    }
}

// Labels of each node that may be used, their number, and the first variable of each node; returns the number of variables.
static i64 alive_labels(const Net &net, Array<i32, 2> alive, Array<i32> count, Array<i64> base) {
    const i64 n_nodes = net.n_states.size();
    i64 total = 0;
    for (i64 v = 0; v < n_nodes; v++) {
        const i64 n_states = net.n_states[v];
        i64 n = 0;
        for (i64 k = 0; k < n_states; k++) {
            if (net.unary(v, k) > -INF) {
                alive(v, n) = i32(k);
                n += 1;
            }
        }
        count[v] = i32(n);
        base[v] = total;
        total += n - 1;
    }
    base[n_nodes] = total;
    return total;
}

// Whether clique c has a reward for `label` that no fixed member rules out.
static bool pays(const Net &net, Array<const i32, 2> alive, Array<const i32> count, i64 c, i64 label) {
    if (net.clique_weights(c, label) <= 0.0) return false;
    for (i64 i = net.clique_ptr[c]; i < net.clique_ptr[c + 1]; i++) {
        const i64 v = net.clique_nodes[i];
        if (count[v] == 1 && alive(v, 0) != label) return false;
    }
    return true;
}

// First and last allowed partner of each label: both never decrease in a supermodular table.
static void band(Array<const double, 2> table, Array<const i32> alive_u, i64 n_u, Array<const i32> alive_v, i64 n_v, i64 *low, i64 *high) {
    for (i64 i = 0; i < n_u; i++) {
        const Array<const double> row = table[alive_u[i]];
        i64 from = 0, to = n_v - 1;
        while (from < to && row[alive_v[from]] == -INF) from++;
        while (to > from && row[alive_v[to]] == -INF) to--;
        low[i] = from;
        high[i] = to;
    }
}

// The terms of one variable: g(k, l) = g(0, 0) + sum first[1..k] + sum second[1..l] + sum D[1..k, 1..l].
//
// Read off on a path of allowed pairs, to the right where possible, so that D is 0 above each such step; else down; where only the diagonal is
// allowed its step is all first's.
static void linear(Array<const double, 2> table, double weight, Array<const i32> alive_u, i64 n_u, Array<const i32> alive_v, i64 n_v, double *first,
                   double *second) {
    i64 i = 0, j = 0;
    while (i < n_u - 1 || j < n_v - 1) {
        const double here = table(alive_u[i], alive_v[j]);
        if (j < n_v - 1 && table(alive_u[i], alive_v[j + 1]) > -INF) {
            j += 1;
            second[j] = weight * (table(alive_u[i], alive_v[j]) - here);
            continue;
        }
        i += 1;
        if (table(alive_u[i], alive_v[j]) == -INF) {
            j += 1;
            second[j] = 0.0;
        }
        double own = weight * (table(alive_u[i], alive_v[j]) - here);
        for (i64 m = 1; m < j + 1; m++) own -= bend(table, weight, alive_u[i - 1], alive_u[i], alive_v[m - 1], alive_v[m]);
        first[i] = own;
    }
}

namespace {

// Arcs of the order of `list_arcs`, counted and, if there is where to, written.
struct ArcList {
    bool write;
    Array<i32> tail, head;
    Array<double> cap;
    i64 size = 0;

    void add(i64 from, i64 to, double room) {
        if (write) {
            tail[size] = i32(from);
            head[size] = i32(to);
            cap[size] = room;
        }
        size += 1;
    }
};

} // namespace

// List all arcs and set the excesses (only count the arcs unless `write`); returns the number of arcs.
static i64 list_arcs(const Net &net, Array<const i32, 2> alive, Array<const i32> count, Array<const i64> base, Flag write_, Array<i32> tail,
                     Array<i32> head, Array<double> cap, Array<double> excess) {
    const i64 n_nodes = count.size(), n_labels = net.unary.shape[1];
    const bool write = write_;
    std::vector<double> first(n_labels), second(n_labels);
    std::vector<i64> low(n_labels), high(n_labels);
    ArcList list{write, tail, head, cap};
    for (i64 v = 0; v < n_nodes; v++) {
        const i64 n = count[v];
        for (i64 i = 1; i < n; i++) {
            const i64 x = base[v] + i - 1;
            if (write) excess[x] += net.unary(v, alive(v, i)) - net.unary(v, alive(v, i - 1));
            if (i > 1) list.add(x, x - 1, INF);
        }
    }
    for (i64 e = 0; e < net.edge_table.size(); e++) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1), n_u = count[u], n_v = count[v];
        const Array<const i32> alive_u = alive[u], alive_v = alive[v];
        const Array<const double, 2> table = net.tables[net.edge_table[e]];
        const double weight = net.edge_weight[e];
        const i64 from_u = base[u] - 1, from_v = base[v] - 1;
        for (i64 i = 1; i < n_u; i++) {
            const Array<const double> above = table[alive_u[i - 1]], own = table[alive_u[i]];
            for (i64 j = 1; j < n_v; j++) {
                const i64 m = alive_v[j - 1], m2 = alive_v[j];
                const double value = bend(above[m], above[m2], own[m], own[m2], weight);
                if (value > 0.0) {
                    list.add(from_u + i, from_v + j, value);
                    if (write) {
                        excess[from_u + i] += 0.5 * value;
                        excess[from_v + j] += 0.5 * value;
                    }
                }
            }
        }
        if (write) {
            linear(table, weight, alive_u, n_u, alive_v, n_v, first.data(), second.data());
            for (i64 i = 1; i < n_u; i++) excess[from_u + i] += first[i];
            for (i64 j = 1; j < n_v; j++) excess[from_v + j] += second[j];
        }
        band(table, alive_u, n_u, alive_v, n_v, low.data(), high.data());
        for (i64 i = 1; i < n_u; i++) {
            if (low[i] > low[i - 1]) list.add(from_u + i, from_v + low[i], INF);
            if (high[i - 1] < high[i]) list.add(from_v + high[i - 1] + 1, from_u + i, INF);
        }
    }
    for (i64 c = 0; c < net.clique_ptr.size() - 1; c++) {
        for (i64 label = 0; label < n_labels; label++) {
            if (!pays(net, alive, count, c, label)) continue;
            const i64 z = base[n_nodes] + 2 * c + label;
            if (write) excess[z] = label == 1 ? net.clique_weights(c, label) : -net.clique_weights(c, label);
            for (i64 i = net.clique_ptr[c]; i < net.clique_ptr[c + 1]; i++) {
                const i64 v = net.clique_nodes[i];
                if (count[v] != 2) continue;
                if (label == 1) {
                    list.add(z, base[v], INF);
                } else {
                    list.add(base[v], z, INF);
                }
            }
        }
    }
    return list.size;
}

// Arrange listed arcs and their sisters node by node; back[i] is the sister of listed arc i, whose capacity is the flow. `ptr` (N + 1,) must be zero.
static void link_arcs(Array<const i32> tail, Array<const i32> head, Array<const double> cap, Array<i64> ptr, const Flow &flow, Array<i32> back) {
    const Array<Arc> arcs = arcs_of(flow);
    const i64 n_arcs = tail.size();
    for (i64 i = 0; i < n_arcs; i++) {
        ptr[tail[i] + 1] += 1;
        ptr[head[i] + 1] += 1;
    }
    for (i64 v = 0; v < ptr.size() - 1; v++) ptr[v + 1] += ptr[v];
    std::vector<i64> fill(ptr.begin(), ptr.end());
    for (i64 i = 0; i < n_arcs; i++) {
        const i64 a = fill[tail[i]], s = fill[head[i]];
        fill[tail[i]] += 1;
        fill[head[i]] += 1;
        const bool endless = cap[i] == INF;
        const double half = 0.5 * cap[i];
        arcs[a] = {endless ? INF : half, head[i], i32(s)};
        arcs[s] = {endless ? 0.0 : half, tail[i], i32(a)};
        back[i] = i32(s);
    }
}

// Labelling of the minimum cut and messages of the maximum flow, for `list_arcs`, whose order of arcs it follows.
//
// Flow f on an arc from x_u^i to x_v^j adds f to the labels >= i of u and takes it from those >= j of v.
static void read_layers(const Net &net, Array<const i32, 2> alive, Array<const i32> count, Array<const i64> base, const Flow &flow,
                        Array<const i32> back, Array<double, 3> messages, Array<double, 2> clique_messages, Array<i32> labels) {
    const Array<const Arc> arcs = arcs_of(flow);
    const Array<const Node> nodes = nodes_of(flow);
    const i64 n_nodes = count.size(), n_labels = net.unary.shape[1];
    std::vector<double> first(n_labels), second(n_labels);
    std::vector<i64> low(n_labels), high(n_labels);
    i64 size = 0;
    for (i64 v = 0; v < n_nodes; v++) {
        i64 k = 0;
        while (k + 1 < count[v] && nodes[base[v] + k].dist > 0) k++;
        labels[v] = alive(v, k);
        size += std::max(count[v] - 2, 0);
    }
    for (i64 e = 0; e < net.edge_table.size(); e++) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1), n_u = count[u], n_v = count[v];
        const Array<const i32> alive_u = alive[u], alive_v = alive[v];
        const Array<const double, 2> table = net.tables[net.edge_table[e]];
        const double weight = net.edge_weight[e];
        linear(table, weight, alive_u, n_u, alive_v, n_v, first.data(), second.data());
        for (i64 i = 1; i < n_u; i++) {
            const Array<const double> above = table[alive_u[i - 1]], own = table[alive_u[i]];
            for (i64 j = 1; j < n_v; j++) {
                const i64 m = alive_v[j - 1], m2 = alive_v[j];
                const double value = bend(above[m], above[m2], own[m], own[m2], weight);
                if (value > 0.0) {
                    const double used = arcs[back[size]].cap;
                    first[i] += value - used;
                    second[j] += used;
                    size += 1;
                }
            }
        }
        band(table, alive_u, n_u, alive_v, n_v, low.data(), high.data());
        for (i64 i = 1; i < n_u; i++) {
            if (low[i] > low[i - 1]) {
                const double used = arcs[back[size]].cap;
                first[i] -= used;
                second[low[i]] += used;
                size += 1;
            }
            if (high[i - 1] < high[i]) {
                const double used = arcs[back[size]].cap;
                first[i] += used;
                second[high[i - 1] + 1] -= used;
                size += 1;
            }
        }
        double total = 0.0;
        for (i64 i = 1; i < n_u; i++) {
            total -= first[i];
            messages(0, e, alive_u[i]) = total;
        }
        total = 0.0;
        for (i64 j = 1; j < n_v; j++) {
            total -= second[j];
            messages(1, e, alive_v[j]) = total;
        }
    }
    for (i64 c = 0; c < net.clique_ptr.size() - 1; c++) {
        for (i64 label = 0; label < n_labels; label++) {
            if (!pays(net, alive, count, c, label)) continue;
            for (i64 i = net.clique_ptr[c]; i < net.clique_ptr[c + 1]; i++) {
                if (count[net.clique_nodes[i]] != 2) continue;
                const double used = arcs[back[size]].cap;
                clique_messages(i, 1) += label == 1 ? -used : used;
                size += 1;
            }
        }
    }
}

void bind_maxflow_build(nb::module_ &m) {
    def(m, "fill_binary", fill_binary, "net"_a, "flow"_a, "slot"_a, "Network of a problem in which every node has two labels.");
    def(m, "read_binary", read_binary, "net"_a, "flow"_a, "messages"_a, "labels"_a,
        "Labelling of the minimum cut and messages of the maximum flow, for `fill_binary`.");
    def(m, "alive_labels", alive_labels, "net"_a, "alive"_a, "count"_a, "base"_a,
        "Labels of each node that may be used, their number, and the first variable of each node; returns the number of variables.");
    def(m, "list_arcs", list_arcs, "net"_a, "alive"_a, "count"_a, "base"_a, "write"_a, "tail"_a, "head"_a, "cap"_a, "excess"_a,
        "List all arcs and set the excesses (only count the arcs unless ``write``); returns the number of arcs.");
    def(m, "link_arcs", link_arcs, "tail"_a, "head"_a, "cap"_a, "ptr"_a, "flow"_a, "back"_a, "Arrange listed arcs and their sisters node by node.");
    def(m, "read_layers", read_layers, "net"_a, "alive"_a, "count"_a, "base"_a, "flow"_a, "back"_a, "messages"_a, "clique_messages"_a, "labels"_a,
        "Labelling of the minimum cut and messages of the maximum flow, for `list_arcs`.");
}

} // namespace maxsum
