// Sums over all labellings of a forest: log Z = log sum_y exp F(y) with the marginals of nodes and edges.
//
// Leaves to root, then back, component by component, in products of exponentials that are scaled node by node: a message takes K^2 multiplications
// and no exponential. Where numbers leave the safe range (scores that differ by hundreds, -inf) a component is computed anew in logarithms.
#include "mix.hpp"
#include "poll.hpp"

namespace maxsum {

constexpr double FAINT = 1e-150;
constexpr double SMALL = 1e-20; // largest entry below which the products of a node are scaled, long before they underflow

// A forest with scores of edges; components and orders as `tree.forest_order` gives them.
struct Forest {
    Array<const i32> n_states;     // (N,)
    Array<const i32, 2> edges;     // (E, 2)
    Array<const i32> order;        // (N,): nodes, parents first
    Array<const i32> parent_edge;  // (N,)
    Array<const i8> parent_side;   // (N,): side of the node on that edge
    Array<const i64> starts;       // (n_components + 1,)
    Array<const i32> table_of;     // (E,)
    Array<const double, 3> tables; // (T, K, K)
    Array<const double> peaks;     // (T,): largest entry of each table
    Array<const double, 3> bank;   // (T, K, K): exp(tables - peaks)
    Array<const double, 3> turned; // (T, K, K): the bank transposed
    Array<const u8> safe;          // (T,): whether all entries of the bank exceed FAINT
    MAXSUM_RECORD(Forest, n_states, edges, order, parent_edge, parent_side, starts, table_of, tables, peaks, bank, turned, safe)
};

} // namespace maxsum

MAXSUM_RECORD_CASTER(Forest)

namespace maxsum {

struct Product {
    bool quick;
    double log_z;
};

// `log_sums` of component c in scaled products; not quick where they might lose digits, with `edge` untouched.
static Product products(const Forest &forest, Array<const double, 2> unary, i64 c, const double *amount, const i32 *slot, Array<double, 2> node,
                        Array<double, 2> up, Array<double, 3> edge, double *ratio, double *back) {
    const i32 *n_states = forest.n_states.data, *edges = forest.edges.data, *order = forest.order.data, *parent_edge = forest.parent_edge.data,
              *table_of = forest.table_of.data;
    const i8 *parent_side = forest.parent_side.data;
    const double *bank = forest.bank.data, *turned = forest.turned.data, *peaks = forest.peaks.data;
    const i64 first = forest.starts[c], last = forest.starts[c + 1];
    const i64 width = unary.shape[1], step = forest.bank.shape[2], cells = forest.bank.shape[1] * step;
    double log_z = 0.0;
    for (i64 i = first; i < last; i++) {
        const i64 v = order[i], own = n_states[v];
        const double *scores = unary.data + v * width;
        double top = -INF, low = INF;
        for (i64 k = 0; k < own; k++) {
            top = std::max(top, scores[k]);
            low = std::min(low, scores[k]);
        }
        if (!(low > -INF) || !(low - top > -345.0) || (parent_edge[v] >= 0 && !forest.safe[table_of[parent_edge[v]]])) return {false, 0.0};
        double *here = node.data + v * width;
        for (i64 k = 0; k < own; k++) here[k] = std::exp(scores[k] - top);
        log_z += top;
    }
    for (i64 i = last - 1; i >= first; i--) {
        const i64 v = order[i], e = parent_edge[v], own = n_states[v];
        double *here = node.data + v * width;
        double total = 0.0, low = INF;
        for (i64 k = 0; k < own; k++) {
            total += here[k];
            low = std::min(low, here[k]);
        }
        if (!(low > FAINT * total)) return {false, 0.0};
        log_z += std::log(total);
        const double scale = 1.0 / total;
        for (i64 k = 0; k < own; k++) here[k] *= scale;
        if (e < 0) continue;
        const i64 side = parent_side[v], t = table_of[e], p = edges[2 * e + 1 - side], n_to = n_states[p];
        double high = 0.0, *__restrict message = up.data + v * width, *__restrict above = node.data + p * width;
        log_z += peaks[t];
        mix(here, own, (side == 0 ? bank : turned) + t * cells, step, n_to, message);
        for (i64 m = 0; m < n_to; m++) {
            above[m] *= message[m];
            high = std::max(high, above[m]);
        }
        if (high < SMALL) {
            if (!(high > 0.0)) return {false, 0.0};
            log_z += std::log(high);
            const double factor = 1.0 / high;
            for (i64 m = 0; m < n_to; m++) above[m] *= factor;
        }
    }
    for (i64 i = first + 1; i < last; i++) {
        const i64 v = order[i], e = parent_edge[v], side = parent_side[v], own = n_states[v];
        const i64 t = table_of[e], p = edges[2 * e + 1 - side], s = slot[e], n_to = n_states[p];
        const double weight = amount[e], *above = node.data + p * width, *message = up.data + v * width, *table = bank + t * cells;
        double *here = node.data + v * width, *pairs = edge.data + s * edge.shape[1] * edge.shape[2];
        for (i64 m = 0; m < n_to; m++) ratio[m] = above[m] / message[m];
        mix(ratio, n_to, (side == 0 ? turned : bank) + t * cells, step, own, back);
        const double *outer = side == 0 ? here : ratio, *inner = side == 0 ? ratio : here;
        const i64 n_outer = side == 0 ? own : n_to, n_inner = side == 0 ? n_to : own;
        for (i64 k = 0; k < n_outer; k++) {
            const double share = weight * outer[k], *__restrict row = table + k * step;
            double *__restrict out = pairs + k * edge.shape[2];
            for (i64 m = 0; m < n_inner; m++) out[m] += share * inner[m] * row[m];
        }
        for (i64 k = 0; k < own; k++) here[k] *= back[k];
    }
    return {true, log_z};
}

// `log_sums` of component c in logarithms, also with scores -inf.
static double logarithms(const Forest &forest, Array<const double, 2> unary, i64 c, const double *amount, const i32 *slot, Array<double, 2> node,
                         Array<double, 2> up, Array<double, 3> edge) {
    const i64 first = forest.starts[c], last = forest.starts[c + 1], width = forest.tables.shape[2];
    const i32 *n_states = forest.n_states.data, *order = forest.order.data;
    for (i64 i = first; i < last; i++) {
        const i64 v = order[i];
        for (i64 k = 0; k < n_states[v]; k++) node(v, k) = unary(v, k);
    }
    for (i64 i = last - 1; i > first; i--) {
        const i64 v = order[i], e = forest.parent_edge[v], side = forest.parent_side[v], own = n_states[v], p = forest.edges(e, 1 - side);
        const i64 by_own = side == 0 ? width : 1, by_other = side == 0 ? 1 : width;
        const double *table = forest.tables[forest.table_of[e]].data, *here = node[v].data;
        for (i64 m = 0; m < n_states[p]; m++) {
            double top = -INF, total = 0.0;
            for (i64 k = 0; k < own; k++) top = std::max(top, here[k] + table[k * by_own + m * by_other]);
            if (top > -INF) {
                for (i64 k = 0; k < own; k++) total += std::exp(here[k] + table[k * by_own + m * by_other] - top);
                top += std::log(total);
            }
            up(v, m) = top;
            node(p, m) += top;
        }
    }
    const i64 root = order[first];
    double log_z = -INF, total = 0.0;
    for (i64 k = 0; k < n_states[root]; k++) log_z = std::max(log_z, node(root, k));
    if (log_z > -INF) {
        for (i64 k = 0; k < n_states[root]; k++) total += std::exp(node(root, k) - log_z);
        log_z += std::log(total);
    }
    for (i64 k = 0; k < n_states[root]; k++) node(root, k) = node(root, k) > -INF ? std::exp(node(root, k) - log_z) : 0.0;
    for (i64 i = first + 1; i < last; i++) {
        const i64 v = order[i], e = forest.parent_edge[v], side = forest.parent_side[v], own = n_states[v];
        const i64 p = forest.edges(e, 1 - side), s = slot[e];
        const i64 by_own = side == 0 ? width : 1, by_other = side == 0 ? 1 : width;
        const double weight = amount[e], *table = forest.tables[forest.table_of[e]].data;
        for (i64 k = 0; k < own; k++) {
            double sum = 0.0;
            for (i64 m = 0; m < n_states[p]; m++) {
                const double joint = node(v, k) + table[k * by_own + m * by_other];
                if (node(p, m) > 0.0 && joint > -INF) {
                    const double share = node(p, m) * std::exp(joint - up(v, m));
                    sum += share;
                    (side == 0 ? edge(s, k, m) : edge(s, m, k)) += weight * share;
                }
            }
            node(v, k) = sum;
        }
    }
    return log_z;
}

// log Z of the components first .. last - 1 into `log_z`, and their marginals.
//
// `node` (N, K) gets the marginals of nodes, 0 for labels that do not exist; amount[e] times the marginals of edge e is added to edge[slot[e]], so
// that edges which share a table can share a sum. `up` (N, K) is work space. A component without any labelling has -inf and marginals 0.
static void log_sums(const Forest &forest, Array<const double, 2> unary, Array<const double> amount, Array<const i32> slot, i64 first, i64 last,
                     Array<double, 2> node, Array<double, 2> up, Array<double, 3> edge, Array<double> log_z) {
    const i64 n_labels = unary.shape[1];
    std::vector<double> ratio(n_labels), back(n_labels);
    Poll poll; // nodes
    for (i64 c = first; c < last; c++) {
        poll(u64(forest.starts[c + 1] - forest.starts[c]));
        for (i64 i = forest.starts[c]; i < forest.starts[c + 1]; i++) {
            const i64 v = forest.order[i];
            for (i64 k = forest.n_states[v]; k < n_labels; k++) node(v, k) = 0.0;
        }
        const Product found = products(forest, unary, c, amount.data, slot.data, node, up, edge, ratio.data(), back.data());
        log_z[c] = found.quick ? found.log_z : logarithms(forest, unary, c, amount.data, slot.data, node, up, edge);
    }
}

// Edges in as few classes as a greedy choice finds, such that in each class no node has two edges to lower or two to higher nodes: a class is a set
// of monotone chains. `later` is work space (2, n_nodes, at least 2 * degree / 64 + 2) of zeros.
static Owned<i32> chain_colours(i64, Array<const i32, 2> edges, Array<i64, 3> later) {
    Owned<i32> colours(edges.size());
    for (i64 e = 0; e < edges.size(); e++) {
        const i64 low = std::min(edges(e, 0), edges(e, 1)), high = std::max(edges(e, 0), edges(e, 1));
        for (i64 word = 0; word < later.shape[2]; word++) {
            const i64 used = later(0, low, word) | later(1, high, word);
            i64 bit = 0;
            while (bit < 63 && ((used >> bit) & 1)) bit += 1;
            if (bit < 63) {
                later(0, low, word) |= i64(1) << bit;
                later(1, high, word) |= i64(1) << bit;
                colours[e] = i32(63 * word + bit);
                break;
            }
        }
    }
    return colours;
}

// n_states, edges, ptr, adj_edge, adj_side
using Neighbours = std::tuple<Array<const i32>, Array<const i32, 2>, Array<const i64>, Array<const i32>, Array<const i8>>;

// Tree-reweighted messages through the nodes first .. last - 1 in turn, to higher nodes (`forward`) or to lower ones:
//
//     M_uv(l) = rho log sum_k exp(Theta_u(k) + (theta_uv(k, l) - M_vu(k)) / rho),     Theta_u = theta_u + sum_w M_wu,
//
// shifted to a maximum of 0; messages[s, e] is the one into the node at side s of edge e.
static void reweighted_sweep(const Neighbours &net, Array<const double, 2> unary, Array<const double, 3> tables, Array<const i32> table_of,
                             Array<const double> rho, Array<double, 3> messages, i64 first, i64 last, Flag forward) {
    const auto [n_states, edges, ptr, adj_edge, adj_side] = net;
    const i64 n_labels = unary.shape[1], width = tables.shape[2];
    std::vector<double> scratch(3 * n_labels);
    double *total = scratch.data(), *rest = total + n_labels, *row = rest + n_labels;
    for (i64 step = 0; step < last - first; step++) {
        const i64 v = forward ? first + step : last - 1 - step, own = n_states[v];
        for (i64 k = 0; k < own; k++) total[k] = unary(v, k);
        for (i64 i = ptr[v]; i < ptr[v + 1]; i++) {
            const double *message = &messages(adj_side[i], adj_edge[i], 0);
            for (i64 k = 0; k < own; k++) total[k] += message[k];
        }
        for (i64 i = ptr[v]; i < ptr[v + 1]; i++) {
            const i64 e = adj_edge[i], side = adj_side[i], w = edges(e, 1 - side);
            if ((w > v) != forward) continue;
            const i64 n_to = n_states[w], by_own = side == 0 ? width : 1, by_other = side == 0 ? 1 : width;
            const double scale = rho[e], cold = 1.0 / scale, *table = tables[table_of[e]].data, *message = &messages(side, e, 0);
            double *out = &messages(1 - side, e, 0), high = -INF;
            for (i64 k = 0; k < own; k++) rest[k] = total[k] - cold * message[k];
            for (i64 m = 0; m < n_to; m++) {
                double top = -INF, mass = 0.0;
                const double *column = table + m * by_other;
                for (i64 k = 0; k < own; k++) {
                    row[k] = rest[k] + cold * column[k * by_own];
                    top = std::max(top, row[k]);
                }
                for (i64 k = 0; k < own; k++) mass += std::exp(row[k] - top);
                out[m] = scale * (top + std::log(mass));
                high = std::max(high, out[m]);
            }
            for (i64 m = 0; m < n_to; m++) out[m] -= high;
        }
    }
}

void bind_log_sum(nb::module_ &m) {
    bind_record<Forest>(m);
    m.attr("FAINT") = FAINT;
    def(m, "log_sums", log_sums, "forest"_a, "unary"_a, "amount"_a, "slot"_a, "first"_a, "last"_a, "node"_a, "up"_a, "edge"_a, "log_z"_a,
        "Logarithms of the sums over labellings of the components ``first .. last - 1`` into ``log_z``, and their marginals.");
    def(m, "chain_colours", chain_colours, "n_nodes"_a, "edges"_a, "later"_a,
        "Edges in as few classes as a greedy choice finds, such that in each class no node has two edges to lower or two to higher nodes.");
    def(m, "reweighted_sweep", reweighted_sweep, "net"_a, "unary"_a, "tables"_a, "table_of"_a, "rho"_a, "messages"_a, "first"_a, "last"_a,
        "forward"_a, "Tree-reweighted messages through the nodes ``first .. last - 1`` in turn, to higher nodes (``forward``) or to lower ones.");
}

} // namespace maxsum
