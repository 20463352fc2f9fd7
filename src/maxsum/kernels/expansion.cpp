// The flow network of an expansion move: every node keeps its label or takes `alpha`.
//
// With x_v = 1 where node v takes alpha, an edge with labels k, l has the scores A = g(k, l), B = g(k, alpha), C = g(alpha, l), D = g(alpha, alpha),
// and is a constant plus
//
//     (C - A) x_u + (B - A) x_v + (A + D - B - C) x_u x_v.
//
// The last term is two arcs, s from u to v and A + D - B - C - s back, for any share s of it: the flow that the last move of the same label left
// behind is the share with which its next move starts.
//
// A clique has two more variables: one is 1 only if all members end with alpha and then pays that weight; one is 0 only if no member of a clique that
// agrees on k moves, and then pays the weight of k.
//
// The arcs never change, only their capacities: those of node v are its edges, then two for each of its memberships.
#include "maxflow.hpp"
#include "net.hpp"

namespace maxsum {

constexpr double NO_SHARE = -1.0;

// What a move keeps beside its network: kernels/records.py tells what the arrays hold.
struct Move {
    Array<i32, 2> slot;
    Array<u8> active;
    Array<double> full;
    Array<double, 2> shares;
    Array<double, 3> rewards;
    MAXSUM_RECORD(Move, slot, active, full, shares, rewards)
};

} // namespace maxsum

MAXSUM_RECORD_CASTER(Move)

namespace maxsum {

// Heads and sisters of all arcs. `flow.ptr` is filled in here as well.
static void link(const Net &net, const Flow &flow, Array<i32, 2> slot) {
    const i64 n_nodes = net.n_states.size(), n_edges = net.edges.size(), n_members = net.clique_nodes.size();
    const Array<i64> ptr = flow.ptr;
    const Array<Arc> arcs = arcs_of(flow);
    for (i64 v = 0; v < n_nodes + 1; v++) ptr[v] = net.ptr[v] + 2 * net.member_ptr[v];
    for (i64 v = 0; v < n_nodes; v++) {
        i64 at = ptr[v];
        for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
            const i64 e = net.adj_edge[i], side = net.adj_side[i];
            slot(e, side) = i32(at);
            arcs[at].head = net.edges(e, 1 - side);
            at += 1;
        }
        for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
            const i64 m = net.member[i], c = net.member_clique[m];
            const i64 size = net.clique_ptr[c + 1] - net.clique_ptr[c];
            i64 there = 2 * n_edges + 2 * n_members + net.clique_ptr[c] + m;
            for (i64 take = 0; take < 2; take++) {
                arcs[at].head = i32(n_nodes + 2 * c + take);
                arcs[at].sister = i32(there);
                arcs[there].head = i32(v);
                arcs[there].sister = i32(at);
                there += size;
                at += 1;
            }
        }
    }
    for (i64 e = 0; e < n_edges; e++) {
        arcs[slot(e, 0)].sister = slot(e, 1);
        arcs[slot(e, 1)].sister = slot(e, 0);
    }
    for (i64 c = 0; c < net.clique_ptr.size() - 1; c++) {
        const i64 first = 2 * n_edges + 2 * n_members + 2 * net.clique_ptr[c];
        const i64 size = net.clique_ptr[c + 1] - net.clique_ptr[c];
        ptr[n_nodes + 2 * c + 1] = first + size;
        ptr[n_nodes + 2 * c + 2] = first + 2 * size;
    }
}

// Shares with which the move starts from the reparametrised scores: node u of an edge has C - A + s = phi_u(k) - phi_u(alpha).
template <class Label>
static void shares_of_messages(const Net &net, Array<const double, 3> messages, Array<const Label> labels, i64 alpha, Array<double> shares) {
    const Array<const i32, 2> edges = net.edges;
    const Array<const double, 3> tables = net.tables;
    for (i64 e = 0; e < edges.size(); e++) {
        const i64 k = labels[edges(e, 0)], m = labels[edges(e, 1)], t = net.edge_table[e];
        const double weight = net.edge_weight[e];
        const double a = tables(t, k, m), c = tables(t, alpha, m);
        if (a > -INF && c > -INF) shares[e] = std::max(messages(0, e, k) - messages(0, e, alpha) - weight * (c - a), 0.0);
    }
}

// Nodes that may take alpha: it is not theirs yet, not forbidden, and no neighbour that must stay forbids it.
template <class Label> static i64 choose_active(const Net &net, Array<const Label> labels, i64 alpha, Flag hard, Array<u8> active) {
    const Array<const i32, 2> edges = net.edges;
    const Array<const double, 2> unary = net.unary;
    const Array<const double, 3> tables = net.tables;
    i64 count = 0;
    for (i64 v = 0; v < labels.size(); v++) {
        const bool may = bool(labels[v] != alpha) & bool(unary(v, alpha) > -INF);
        active[v] = may;
        count += may;
    }
    bool changed = hard;
    while (changed) {
        changed = false;
        for (i64 e = 0; e < edges.size(); e++) {
            const i64 u = edges(e, 0), v = edges(e, 1);
            if (active[u] == active[v]) continue;
            const i64 t = net.edge_table[e];
            if (active[u] && tables(t, alpha, labels[v]) == -INF) {
                active[u] = 0;
                changed = true;
                count -= 1;
            } else if (active[v] && tables(t, labels[u], alpha) == -INF) {
                active[v] = 0;
                changed = true;
                count -= 1;
            }
        }
    }
    return count;
}

// Capacities and excesses of the two variables of clique c.
template <class Label> static void fill_clique(const Net &net, const Flow &flow, const Move &move, Array<const Label> labels, i64 alpha, i64 c) {
    const Array<Arc> arcs = arcs_of(flow);
    const Array<u8> active = move.active;
    const i64 n_nodes = labels.size(), first = net.clique_ptr[c], last = net.clique_ptr[c + 1];
    i64 common = labels[net.clique_nodes[first]], free = 0;
    bool possible = true;
    for (i64 i = first; i < last; i++) {
        const i64 v = net.clique_nodes[i];
        if (labels[v] != common) common = -1;
        free += active[v];
        possible = possible && (active[v] == 1 || labels[v] == alpha);
    }
    const double stay = common >= 0 && common != alpha ? net.clique_weights(c, common) : 0.0;
    const double take = possible ? net.clique_weights(c, alpha) : 0.0;
    const i64 base = 2 * net.edges.size() + 2 * net.clique_nodes.size() + first;
    for (i64 kind = 0; kind < 2; kind++) {
        const i64 z = n_nodes + 2 * c + kind;
        const double weight = kind == 1 ? take : stay;
        const bool on = weight > 0.0 && free > 0;
        double total = 0.0;
        for (i64 i = first; i < last; i++) {
            Arc &inside = arcs[base + i + kind * (last - first)]; // from the variable of the clique to the member
            Arc &outside = arcs[inside.sister];
            const i64 v = net.clique_nodes[i];
            inside.cap = 0.0;
            outside.cap = 0.0;
            if (on && active[v]) {
                const double used = move.rewards(alpha, kind, i);
                total += used;
                if (kind == 1) {
                    inside.cap = INF;
                    outside.cap = used;
                    flow.excess[v] += used;
                } else {
                    outside.cap = INF;
                    inside.cap = used;
                    flow.excess[v] -= used;
                }
            }
        }
        flow.excess[z] = !on ? 0.0 : kind == 1 ? weight - total : total - weight;
    }
}

// Capacities and excesses of the move to alpha; returns how many variables have positive excess.
template <class Label> static i64 fill(const Net &net, const Flow &flow, const Move &move, Array<const Label> labels, i64 alpha) {
    const i64 n_nodes = labels.size();
    const Array<Arc> arcs = arcs_of(flow);
    const Array<double> excess = flow.excess, full_of = move.full, shares = move.shares[alpha];
    const Array<u8> active = move.active;
    const Array<const double, 2> unary = net.unary;
    const Array<const double, 3> tables = net.tables;
    const Array<const i32, 2> edges = net.edges;
    const Array<i32, 2> slot = move.slot;
    const Array<const i32> edge_table = net.edge_table;
    const Array<const double> edge_weight = net.edge_weight;
    for (i64 v = 0; v < n_nodes; v++) excess[v] = active[v] ? unary(v, alpha) - unary(v, labels[v]) : 0.0;
    for (i64 e = 0; e < edges.size(); e++) {
        const i64 u = edges(e, 0), v = edges(e, 1);
        double there = 0.0, back = 0.0, full = 0.0;
        const bool first_may = active[u], second_may = active[v];
        if (first_may || second_may) {
            const i64 k = labels[u], m = labels[v];
            const Array<const double, 2> table = tables[edge_table[e]];
            const double weight = edge_weight[e], stay = table(k, m);
            if (!second_may) {
                excess[u] += weight * (table(alpha, m) - stay);
            } else if (!first_may) {
                excess[v] += weight * (table(k, alpha) - stay);
            } else {
                const double first = table(alpha, m), second = table(k, alpha), both = table(alpha, alpha);
                if (first > -INF && second > -INF) {
                    full = std::max(weight * ((stay - first) + (both - second)), 0.0);
                    const double share = shares[e];
                    there = share == NO_SHARE ? 0.5 * full : std::min(share, full);
                    back = full - there;
                    excess[u] += weight * (first - stay) + there;
                    excess[v] += weight * (second - stay) + back;
                } else if (first > -INF) {
                    back = INF;
                    excess[u] += weight * (first - stay);
                    excess[v] += weight * (both - first);
                } else if (second > -INF) {
                    there = INF;
                    excess[u] += weight * (both - second);
                    excess[v] += weight * (second - stay);
                } else {
                    there = INF;
                    back = INF;
                    excess[u] += weight * (both - stay);
                }
            }
        }
        arcs[slot(e, 0)].cap = there;
        arcs[slot(e, 1)].cap = back;
        full_of[e] = full;
    }
    for (i64 c = 0; c < net.clique_ptr.size() - 1; c++) fill_clique(net, flow, move, labels, alpha, c);
    i64 sources = 0;
    for (i64 v = 0; v < excess.size(); v++) sources += excess[v] > 0.0;
    return sources;
}

// As `start` of maximum flows, but only sources are active: enough, and quick where there are few of them.
static void start_from_sources(const Flow &flow) {
    const Array<double> excess = flow.excess;
    const Array<Node> nodes = nodes_of(flow);
    const Array<i32> queue = flow.queue;
    const Array<u8> queued = flow.queued;
    i64 size = 0;
    for (i64 v = 0; v < excess.size(); v++) {
        const i32 side = i32(excess[v] > 0.0) - i32(excess[v] < 0.0);
        nodes[v] = ROOTS[1 + side];
        nodes[v].parent = i32(v);
        queued[v] = side > 0;
        queue[size] = i32(v);
        size += side > 0;
    }
    flow.state[0] = 0;
    flow.state[1] = size;
    flow.state[2] = 0;
}

// Remember the flow of the move for the next move to the same label.
static void keep(const Net &net, const Flow &flow, const Move &move, i64 alpha) {
    const Array<const Arc> arcs = arcs_of(flow);
    const Array<double> full = move.full, shares = move.shares[alpha];
    const Array<i32, 2> slot = move.slot;
    const i64 n_edges = net.edges.size();
    for (i64 e = 0; e < n_edges; e++) {
        if (full[e] > 0.0) shares[e] = std::max(arcs[slot(e, 0)].cap, 0.0);
    }
    const i64 base = 2 * n_edges + 2 * net.clique_nodes.size();
    for (i64 c = 0; c < net.clique_ptr.size() - 1; c++) {
        const i64 first = net.clique_ptr[c], last = net.clique_ptr[c + 1];
        for (i64 kind = 0; kind < 2; kind++) {
            for (i64 i = first; i < last; i++) {
                const Arc arc = arcs[base + first + i + kind * (last - first)];
                const double back = kind == 1 ? arcs[arc.sister].cap : arc.cap;
                move.rewards(alpha, kind, i) = std::max(back, 0.0);
            }
        }
    }
}

// What the labelling gains if the nodes of the source tree take alpha, their number, and the rounding error of the gain. `active` is 2 for these
// nodes afterwards.
template <class Label>
static std::tuple<double, i64, double> gain(const Net &net, const Flow &flow, const Move &move, Array<const Label> labels, i64 alpha) {
    const Array<u8> active = move.active;
    const Array<const Node> nodes = nodes_of(flow);
    const Array<const double, 2> unary = net.unary;
    const Array<const double, 3> tables = net.tables;
    const Array<const i32, 2> edges = net.edges;
    const Array<const i32> edge_table = net.edge_table;
    const Array<const double> edge_weight = net.edge_weight;
    i64 moved = 0;
    double total = 0.0, size = 0.0;
    for (i64 v = 0; v < labels.size(); v++) {
        if (active[v] && nodes[v].dist > 0) {
            active[v] = 2;
            moved += 1;
            const double term = unary(v, alpha) - unary(v, labels[v]);
            total += term;
            size += std::abs(term);
        }
    }
    if (moved == 0) return {0.0, 0, 0.0};
    for (i64 e = 0; e < edges.size(); e++) {
        const i64 u = edges(e, 0), v = edges(e, 1);
        const bool first = active[u] == 2, second = active[v] == 2;
        if (!(first || second)) continue;
        const i64 k = labels[u], m = labels[v];
        const Array<const double, 2> table = tables[edge_table[e]];
        const double term = edge_weight[e] * (table(first ? alpha : k, second ? alpha : m) - table(k, m));
        total += term;
        size += std::abs(term);
    }
    for (i64 c = 0; c < net.clique_ptr.size() - 1; c++) {
        const i64 first = net.clique_ptr[c], last = net.clique_ptr[c + 1];
        i64 old = labels[net.clique_nodes[first]], now = active[net.clique_nodes[first]] == 2 ? alpha : old;
        for (i64 i = first; i < last; i++) {
            const i64 v = net.clique_nodes[i], label = labels[v];
            old = label == old ? old : -1;
            now = (active[v] == 2 ? alpha : label) == now ? now : -1;
        }
        const double term = (now >= 0 ? net.clique_weights(c, now) : 0.0) - (old >= 0 ? net.clique_weights(c, old) : 0.0);
        total += term;
        size += std::abs(term);
    }
    return {total, moved, 0x1p-50 * size};
}

// Make the move that `gain` has measured.
template <class Label> static void take(Array<Label> labels, Array<const u8> active, i64 alpha) {
    for (i64 v = 0; v < labels.size(); v++) labels[v] = active[v] == 2 ? Label(alpha) : labels[v];
}

// The first of some edges (each with a table, the sign of its weight and its label counts) that an expansion move makes not supermodular, the label
// of the move and the labels of the ends; -1 if there is none.
static std::tuple<i64, i64, i64, i64> first_conflict(Array<const double, 3> tables, Array<const i32> number, Array<const i64> sign,
                                                     Array<const i64> rows, Array<const i64> cols, double noise) {
    const auto magnitude = [](double x) { return x > -INF ? std::abs(x) : 0.0; };
    for (i64 i = 0; i < number.size(); i++) {
        const Array<const double, 2> table = tables[number[i]];
        const double s = double(sign[i]);
        const i64 n_rows = rows[i], n_cols = cols[i], n = s != 0.0 ? std::min(n_rows, n_cols) : 0;
        for (i64 a = 0; a < n; a++) {
            const double *row = table[a].data;
            const double own = s * row[a];
            if (own == -INF) return {i, a, a, a};
            for (i64 k = 0; k < n_rows; k++) {
                const double *other = table[k].data;
                const double to = s * other[a], size = std::abs(own) + magnitude(to);
                for (i64 m = 0; m < n_cols; m++) {
                    const double here = s * other[m], there = s * row[m];
                    const double error = size + magnitude(here) + magnitude(there);
                    if (own + here < there + to - noise * error) return {i, a, k, m};
                }
            }
        }
    }
    return {-1, -1, -1, -1};
}

// The kernels that take a labelling, for labels of both kinds.
template <class Label> static void bind_moves(nb::module_ &m) {
    def(m, "shares_of_messages", shares_of_messages<Label>, "net"_a, "messages"_a, "labels"_a, "alpha"_a, "shares"_a,
        "Shares with which the move starts from the reparametrised scores.");
    def(m, "choose_active", choose_active<Label>, "net"_a, "labels"_a, "alpha"_a, "hard"_a, "active"_a,
        "Nodes that may take ``alpha``: it is not theirs yet, not forbidden, and no neighbour that must stay forbids it.");
    def(m, "fill", fill<Label>, "net"_a, "flow"_a, "move"_a, "labels"_a, "alpha"_a,
        "Capacities and excesses of the move to ``alpha``; returns how many variables have positive excess.");
    def(m, "gain", gain<Label>, "net"_a, "flow"_a, "move"_a, "labels"_a, "alpha"_a,
        "What the labelling gains if the nodes of the source tree take ``alpha``, their number, and the rounding error of the gain.");
    def(m, "take", take<Label>, "labels"_a, "active"_a, "alpha"_a, "Make the move that `gain` has measured.");
}

void bind_expansion(nb::module_ &m) {
    m.attr("NO_SHARE") = NO_SHARE;
    bind_record<Move>(m);
    def(m, "link", link, "net"_a, "flow"_a, "slot"_a, "Heads and sisters of all arcs. ``flow.ptr`` is filled in here as well.");
    bind_moves<i32>(m);
    bind_moves<i64>(m);
    def(m, "start_from_sources", start_from_sources, "flow"_a, "As `maxflow.start`, but only sources are active.");
    def(m, "keep", keep, "net"_a, "flow"_a, "move"_a, "alpha"_a, "Remember the flow of the move for the next move to the same label.");
    def(m, "first_conflict", first_conflict, "tables"_a, "number"_a, "sign"_a, "rows"_a, "cols"_a, "noise"_a,
        "The first edge that an expansion move makes not supermodular, the label of the move and the labels of the ends; -1 if there is none.");
}

} // namespace maxsum
