// Convex belief propagation: the height with every maximum replaced by a soft maximum,
//
//     U_eps(phi) = sum_v c_v eps log sum_k exp(q_v(k) / (c_v eps)) + sum_uv c_uv eps log sum_{k,l} exp(g_uv(k, l) / (c_uv eps))
//
// of the scores q, g reparametrised by phi. It is convex and smooth in the messages. Its derivative by phi_uv(k) is the marginal of the edge's
// softmax at k less the softmax of the node. Over all messages at one node it is minimised in closed form: with m_uv(k) = c_uv eps log sum_l
// exp[(g_uv(k, l) + phi_vu(l)) / (c_uv eps)], all softmaxes at u agree where phi_uv = c_uv S / C - m_uv for S = q_u + sum_v m_uv and C = c_u + sum_v
// c_uv.
//
// Forbidden pairs and excluded labels have probability 0; messages at excluded labels are left alone.
//
// `chain_sweep` smooths the chains of TRW-S instead of the single terms: its passes are those of trws.cpp with soft maxima. The exponentials of the
// tables are computed once a temperature, so a message takes K of them and not K^2.
#include "local_polytope.hpp"
#include "mix.hpp"
#include "net.hpp"

namespace maxsum {

namespace {

constexpr double COLDEST = 1e-290; // temperature below which scores divided by it overflow
constexpr double NOTHING = -40.0;  // exponent below which a term is lost in the rounding of a sum that holds a 1: exp(-40) < 2^-57
constexpr double ZERO = -700.0;    // exponent below which exponentials are next to the smallest numbers, whose computation is slow
constexpr double FAINT = 1e-280;   // sum of products below which these may have lost digits: it is computed anew in logarithms

// exp(x), and 0 where the exact value is next to the smallest numbers (whose computation is slow).
inline double safe_exp(double x) { return x > ZERO ? std::exp(x) : 0.0; }

// Softmax of the reparametrised scores of v into `belief`; returns their soft maximum.
double node_beliefs(const Net &net, Array<const double, 3> messages, i64 v, double heat, double *__restrict belief) {
    const i64 states = net.n_states[v];
    for (i64 k = 0; k < states; k++) belief[k] = net.unary(v, k);
    for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
        const double *message = &messages(net.adj_side[i], net.adj_edge[i], 0);
        for (i64 k = 0; k < states; k++) belief[k] -= message[k];
    }
    double top = -INF, total = 0.0;
    for (i64 k = 0; k < states; k++) top = std::max(top, belief[k]);
    for (i64 k = 0; k < states; k++) {
        belief[k] = safe_exp((belief[k] - top) / heat);
        total += belief[k];
    }
    for (i64 k = 0; k < states; k++) belief[k] /= total;
    return top + heat * std::log(total);
}

// Softmax of the reparametrised table of edge e into `table`, whose rows are as long as those of the scores; returns its soft maximum.
double edge_beliefs(const Net &net, Array<const double, 3> messages, i64 e, double heat, double *__restrict table) {
    const i64 u = net.edges(e, 0), v = net.edges(e, 1), n_first = net.n_states[u], n_second = net.n_states[v], width = net.unary.shape[1];
    const double weight = net.edge_weight[e], *one = &messages(0, e, 0), *two = &messages(1, e, 0);
    const double *here = net.unary[u].data, *there = net.unary[v].data;
    double top = -INF, total = 0.0;
    for (i64 k = 0; k < n_first; k++) {
        const double *scores = &net.tables(net.edge_table[e], k, 0);
        double *row = table + k * width;
        for (i64 m = 0; m < n_second; m++) {
            row[m] = here[k] > -INF && there[m] > -INF ? weight * scores[m] + one[k] + two[m] : -INF;
            top = std::max(top, row[m]);
        }
    }
    for (i64 k = 0; k < n_first; k++) {
        double *row = table + k * width;
        for (i64 m = 0; m < n_second; m++) {
            row[m] = safe_exp((row[m] - top) / heat);
            total += row[m];
        }
    }
    for (i64 k = 0; k < n_first; k++) {
        for (i64 m = 0; m < n_second; m++) table[k * width + m] /= total;
    }
    return top + heat * std::log(total);
}

// Value of the smoothed height; fills its gradient (2, E, K) by the edge messages and the node beliefs (N, K).
double smoothed_height(const Net &net, Array<const double, 3> messages, double epsilon, Array<const double> node_count,
                       Array<const double> edge_count, Array<double, 3> gradient, Array<double, 2> beliefs) {
    const i64 n_labels = net.unary.shape[1];
    std::vector<double> room(n_labels * n_labels);
    double value = 0.0, *__restrict table = room.data();
    beliefs.fill(0.0);
    for (i64 v = 0; v < net.n_states.size(); v++) {
        value += node_beliefs(net, messages, v, std::max(node_count[v] * epsilon, COLDEST), beliefs[v].data);
    }
    for (i64 e = 0; e < net.edges.size(); e++) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1), n_first = net.n_states[u], n_second = net.n_states[v];
        value += edge_beliefs(net, messages, e, std::max(edge_count[e] * epsilon, COLDEST), table);
        double *__restrict one = &gradient(0, e, 0), *__restrict two = &gradient(1, e, 0);
        const double *here = beliefs[u].data, *there = beliefs[v].data;
        for (i64 k = 0; k < n_labels; k++) one[k] = -here[k], two[k] = -there[k];
        for (i64 k = 0; k < n_first; k++) {
            for (i64 m = 0; m < n_second; m++) {
                one[k] += table[k * n_labels + m];
                two[m] += table[k * n_labels + m];
            }
        }
    }
    return value;
}

// out[k] = heat log sum_l exp((g(k, l) + message(l)) / heat) for the labels k at end `side` of an edge; `own` and `others` are the scores of the
// nodes there and at the other end.
void soft_push(const double *table, i64 width, double weight, i64 side, const double *message, const double *own, const double *others, i64 n_own,
               i64 n_other, double heat, double *__restrict row, double *__restrict out) {
    const double cold = 1.0 / heat;
    const i64 by_own = side == 0 ? width : 1, by_other = side == 0 ? 1 : width;
    for (i64 k = 0; k < n_own; k++) {
        if (own[k] == -INF) {
            out[k] = -INF;
            continue;
        }
        const double *scores = table + k * by_own;
        double top = -INF, total = 0.0;
        for (i64 m = 0; m < n_other; m++) {
            row[m] = others[m] > -INF ? weight * scores[m * by_other] + message[m] : -INF;
            top = std::max(top, row[m]);
        }
        for (i64 m = 0; m < n_other; m++) {
            const double x = (row[m] - top) * cold;
            if (x > NOTHING) total += std::exp(x);
        }
        out[k] = top + heat * std::log(total);
    }
}

// Minimise the smoothed height over the messages of each node in turn, in place.
void star_sweep(const Net &net, Array<double, 3> messages, double epsilon, Array<const double> node_count, Array<const double> edge_count,
                Flag forward) {
    const i64 n_nodes = net.unary.shape[0], n_labels = net.unary.shape[1], width = net.tables.shape[2];
    i64 degree = 0;
    for (i64 v = 0; v < n_nodes; v++) degree = std::max(degree, net.ptr[v + 1] - net.ptr[v]);
    std::vector<double> room((degree + 2) * n_labels);
    double *inward = room.data(), *__restrict total = inward + degree * n_labels, *row = total + n_labels;
    for (i64 step = 0; step < n_nodes; step++) {
        const i64 v = forward ? step : n_nodes - 1 - step, states = net.n_states[v], start = net.ptr[v], stop = net.ptr[v + 1];
        const double *own = net.unary[v].data;
        for (i64 k = 0; k < states; k++) total[k] = own[k];
        double count = node_count[v];
        for (i64 i = start; i < stop; i++) {
            const i64 e = net.adj_edge[i], side = net.adj_side[i], w = net.edges(e, 1 - side);
            double *__restrict in = inward + (i - start) * n_labels, top = -INF;
            soft_push(net.tables[net.edge_table[e]].data, width, net.edge_weight[e], side, &messages(1 - side, e, 0), own, net.unary[w].data, states,
                      net.n_states[w], std::max(edge_count[e] * epsilon, COLDEST), row, in);
            count += edge_count[e];
            for (i64 k = 0; k < states; k++) top = std::max(top, in[k]);
            for (i64 k = 0; k < states; k++) {
                in[k] -= top;
                total[k] += in[k];
            }
        }
        double top = -INF;
        for (i64 k = 0; k < states; k++) top = std::max(top, total[k]);
        for (i64 i = start; i < stop; i++) {
            const i64 e = net.adj_edge[i];
            const double share = edge_count[e] / count, *in = inward + (i - start) * n_labels;
            double *__restrict out = &messages(net.adj_side[i], e, 0);
            for (i64 k = 0; k < states; k++) {
                if (own[k] > -INF) out[k] = share * (total[k] - top) - in[k];
            }
        }
    }
}

// Score of a point of the local polytope: a lower bound on the value of its linear program.
//
// The node beliefs are kept, and those of each edge are moved to them by `settle_table`. Where this puts weight on a forbidden pair the answer is
// -inf.
double relaxed_value(const Net &net, Array<const double, 3> messages, double epsilon, Array<const double> edge_count,
                     Array<const double, 2> beliefs) {
    const i64 n_labels = net.unary.shape[1];
    std::vector<double> room((n_labels + 3) * n_labels);
    double *lack = room.data(), *lacking = lack + n_labels, *scale = lacking + n_labels, *table = scale + n_labels, value = 0.0;
    for (i64 v = 0; v < net.n_states.size(); v++) {
        for (i64 k = 0; k < net.n_states[v]; k++) {
            if (beliefs(v, k) > 0.0) value += beliefs(v, k) * net.unary(v, k);
        }
    }
    for (i64 e = 0; e < net.edges.size(); e++) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1), n_first = net.n_states[u], n_second = net.n_states[v];
        const double weight = net.edge_weight[e];
        edge_beliefs(net, messages, e, std::max(edge_count[e] * epsilon, COLDEST), table);
        settle_table(beliefs[u].data, beliefs[v].data, n_first, n_second, table, n_labels, lack, lacking, scale);
        for (i64 k = 0; k < n_first; k++) {
            const double *scores = &net.tables(net.edge_table[e], k, 0), *row = table + k * n_labels;
            for (i64 m = 0; m < n_second; m++) {
                if (row[m] > 0.0) value += row[m] * (weight * scores[m]);
            }
        }
    }
    return value;
}

// heat log sum_k exp((own(k) + g(k, label)) / heat), also where the exponentials of the scores underflow.
double soft_score(const double *table, i64 width, double weight, i64 side, const double *own, i64 n, i64 label, double heat) {
    const i64 by_own = side == 0 ? width : 1;
    const double *scores = table + label * (side == 0 ? 1 : width);
    double top = -INF, total = 0.0;
    for (i64 k = 0; k < n; k++) top = std::max(top, own[k] + weight * scores[k * by_own]);
    for (i64 k = 0; k < n; k++) total += safe_exp((own[k] + weight * scores[k * by_own] - top) / heat);
    return top + heat * std::log(total);
}

// What a pass over the chains reads and writes.
struct Chains {
    Array<const double, 2> unary;
    Array<const i32, 2> edges;
    Array<const i32> edge_table;
    Array<const double> edge_weight;
    Array<const double, 3> tables;
    Array<const i64> ptr;
    Array<const i32> adj_edge;
    Array<const i8> adj_side;
    Array<const i32> bank_of;
    Array<const double, 3> bank, turned;
    Array<const double> peaks;
    Array<double, 3> messages;
    Array<double, 2> visited;
};

// The number of labels is a constant of the compiled code where it is small; 0 is any.
template <int CONSTANT> double sweep(const Chains &chains, double epsilon, bool forward) {
    const auto [unary, edges, edge_table, edge_weight, tables, ptr, adj_edge, adj_side, bank_of, bank, turned, peaks, messages, visited] = chains;
    const i64 n_nodes = unary.shape[0], K = CONSTANT > 0 ? CONSTANT : unary.shape[1], cells = K * K;
    double small[CONSTANT > 0 ? 4 * CONSTANT : 1];
    std::vector<double> large(CONSTANT > 0 ? 0 : 4 * K);
    double *theta = CONSTANT > 0 ? small : large.data(), *own = theta + K, *weights = own + K, *out = weights + K;
    const double cold = 1.0 / epsilon;
    double bound = 0.0;
    for (i64 step = 0; step < n_nodes; step++) {
        const i64 v = forward ? step : n_nodes - 1 - step, first = ptr[v], last = ptr[v + 1];
        const double *scores = unary.data + v * K;
        for (i64 k = 0; k < K; k++) theta[k] = scores[k];
        i64 n_later = 0;
        for (i64 i = first; i < last; i++) {
            const i64 e = adj_edge[i], side = adj_side[i];
            const double *message = &messages(side, e, 0);
            for (i64 k = 0; k < K; k++) theta[k] -= message[k];
            if ((edges(e, 1 - side) > v) == forward) n_later += 1;
        }
        const double share = 1.0 / double(std::max<i64>(std::max(n_later, last - first - n_later), 1));
        double top = -INF, *kept = visited.data + v * K;
        for (i64 k = 0; k < K; k++) {
            theta[k] *= share;
            kept[k] = theta[k];
            top = std::max(top, theta[k]);
        }
        if (double(n_later) * share < 1.0) {
            double total = 0.0;
            for (i64 k = 0; k < K; k++) total += safe_exp((theta[k] - top) * cold);
            bound += (1.0 / share - double(n_later)) * (top + epsilon * std::log(total));
        }
        for (i64 i = first; i < last; i++) {
            const i64 e = adj_edge[i], side = adj_side[i], w = edges(e, 1 - side), b = bank_of[e];
            if ((w > v) != forward) continue;
            double *from = &messages(side, e, 0), *to = &messages(1 - side, e, 0), high = -INF;
            const double *others = unary.data + w * K, *factors = bank.data + b * cells;
            for (i64 k = 0; k < K; k++) {
                own[k] = from[k] + theta[k];
                high = std::max(high, own[k]);
            }
            for (i64 k = 0; k < K; k++) {
                from[k] = own[k] > -INF ? own[k] : 0.0;
                weights[k] = safe_exp((own[k] - high) * cold);
            }
            if (side == 0) {
                mix(weights, K, factors, K, K, out);
            } else if (turned.size()) {
                mix(weights, K, turned.data + b * cells, K, K, out);
            } else {
                i64 k = 0;
                for (; k + 4 <= K; k += 4) {
                    const double *one = factors + k * K, *two = one + K, *three = two + K, *four = three + K;
                    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
                    for (i64 m = 0; m < K; m++) {
                        s0 += weights[m] * one[m];
                        s1 += weights[m] * two[m];
                        s2 += weights[m] * three[m];
                        s3 += weights[m] * four[m];
                    }
                    out[k] = s0, out[k + 1] = s1, out[k + 2] = s2, out[k + 3] = s3;
                }
                for (; k < K; k++) {
                    double sum = 0.0;
                    for (i64 m = 0; m < K; m++) sum += weights[m] * factors[k * K + m];
                    out[k] = sum;
                }
            }
            double total = 0.0, least = INF;
            for (i64 m = 0; m < K; m++) {
                if (others[m] > -INF) {
                    total += out[m];
                    least = std::min(least, out[m]);
                }
            }
            if (least > FAINT) {
                bound += high + peaks[b] + epsilon * std::log(total);
                for (i64 m = 0; m < K; m++) to[m] = others[m] > -INF ? epsilon * std::log(total / out[m]) : 0.0;
                continue;
            }
            top = -INF;
            for (i64 m = 0; m < K; m++) {
                if (others[m] > -INF) {
                    out[m] = soft_score(tables[edge_table[e]].data, tables.shape[2], edge_weight[e], side, own, K, m, epsilon);
                    top = std::max(top, out[m]);
                }
            }
            total = 0.0;
            for (i64 m = 0; m < K; m++) {
                if (others[m] > -INF) total += safe_exp((out[m] - top) * cold);
            }
            top += epsilon * std::log(total);
            bound += top;
            for (i64 m = 0; m < K; m++) to[m] = others[m] > -INF ? top - out[m] : 0.0;
        }
    }
    return bound;
}

// One pass of TRW-S with soft maxima.
//
// bank[bank_of[e]] are the exponentials of the scores of edge e less their largest peaks[bank_of[e]]; `turned` is the bank transposed, or empty.
// `visited` gets, for each node, its share of the reparametrised scores when it is visited: its beliefs are their softmax. Returns the smoothed
// bound.
double chain_sweep(Array<const double, 2> unary, Array<const i32, 2> edges, Array<const i32> edge_table, Array<const double> edge_weight,
                   Array<const double, 3> tables, Array<const i64> ptr, Array<const i32> adj_edge, Array<const i8> adj_side, Array<const i32> bank_of,
                   Array<const double, 3> bank, Array<const double, 3> turned, Array<const double> peaks, Array<double, 3> messages,
                   Array<double, 2> visited, double epsilon, Flag forward) {
    const Chains chains{unary, edges, edge_table, edge_weight, tables, ptr, adj_edge, adj_side, bank_of, bank, turned, peaks, messages, visited};
    switch (unary.shape[1]) {
    case 2:
        return sweep<2>(chains, epsilon, forward);
    case 3:
        return sweep<3>(chains, epsilon, forward);
    case 4:
        return sweep<4>(chains, epsilon, forward);
    case 5:
        return sweep<5>(chains, epsilon, forward);
    case 6:
        return sweep<6>(chains, epsilon, forward);
    case 8:
        return sweep<8>(chains, epsilon, forward);
    default:
        return sweep<0>(chains, epsilon, forward);
    }
}

// After a pass: node beliefs, and messages `joined` for which the softmax of an edge's table is its belief. Returns the largest change of a node
// belief since `beliefs` was filled last.
double chain_beliefs(Array<const double, 2> unary, Array<const i32, 2> edges, Array<const double, 3> messages, Array<const double, 2> visited,
                     double epsilon, Flag forward, Array<double, 3> joined, Array<double, 2> beliefs) {
    const i64 n_nodes = unary.shape[0], n_labels = unary.shape[1];
    std::vector<double> room(n_labels);
    double change = 0.0, *__restrict fresh = room.data();
    for (i64 v = 0; v < n_nodes; v++) {
        const double *scores = visited[v].data;
        double top = -INF, total = 0.0, *belief = beliefs[v].data;
        for (i64 k = 0; k < n_labels; k++) top = std::max(top, scores[k]);
        for (i64 k = 0; k < n_labels; k++) {
            fresh[k] = safe_exp((scores[k] - top) / epsilon);
            total += fresh[k];
        }
        for (i64 k = 0; k < n_labels; k++) {
            const double now = fresh[k] / total;
            change = std::max(change, std::abs(now - belief[k]));
            belief[k] = now;
        }
    }
    for (i64 e = 0; e < edges.size(); e++) {
        const i64 last = (edges(e, 1) > edges(e, 0)) == forward ? 1 : 0, v = edges(e, last);
        const double *scores = unary[v].data, *shares = visited[v].data;
        const double *first_message = &messages(1 - last, e, 0), *last_message = &messages(last, e, 0);
        double *__restrict to_first = &joined(1 - last, e, 0), *__restrict to_last = &joined(last, e, 0);
        for (i64 k = 0; k < n_labels; k++) {
            to_first[k] = first_message[k];
            to_last[k] = scores[k] > -INF ? last_message[k] + shares[k] : 0.0;
        }
    }
    return change;
}

} // namespace

void bind_convex_bp(nb::module_ &m) {
    def(m, "smoothed_height", smoothed_height, "net"_a, "messages"_a, "epsilon"_a, "node_count"_a, "edge_count"_a, "gradient"_a, "beliefs"_a,
        "Value of the smoothed height; fills its gradient (2, E, K) by the edge messages and the node beliefs (N, K).");
    def(m, "star_sweep", star_sweep, "net"_a, "messages"_a, "epsilon"_a, "node_count"_a, "edge_count"_a, "forward"_a,
        "Minimise the smoothed height over the messages of each node in turn, in place.");
    def(m, "relaxed_value", relaxed_value, "net"_a, "messages"_a, "epsilon"_a, "edge_count"_a, "beliefs"_a,
        "Score of a point of the local polytope: a lower bound on the value of its linear program.");
    def(m, "chain_sweep", chain_sweep, "unary"_a, "edges"_a, "edge_table"_a, "edge_weight"_a, "tables"_a, "ptr"_a, "adj_edge"_a, "adj_side"_a,
        "bank_of"_a, "bank"_a, "turned"_a, "peaks"_a, "messages"_a, "visited"_a, "epsilon"_a, "forward"_a,
        "One pass of TRW-S with soft maxima; returns the smoothed bound.");
    def(m, "chain_beliefs", chain_beliefs, "unary"_a, "edges"_a, "messages"_a, "visited"_a, "epsilon"_a, "forward"_a, "joined"_a, "beliefs"_a,
        "After a pass: node beliefs, and messages ``joined`` for which the softmax of an edge's table is its belief; returns the change of beliefs.");
}

} // namespace maxsum
