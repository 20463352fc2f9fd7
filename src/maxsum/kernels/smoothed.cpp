// LP-M3N with soft maxima: every max_k theta(k) of the dual bound (3) of Franc & Laskov 2011 becomes epsilon log sum_k exp(theta(k) / epsilon), for
// nodes and for edges (Hazan & Urtasun 2010, counting numbers 1).
//
// The gradient is a difference of beliefs: softmaxes of nodes, and of edges with their two marginals. Over the messages at one node the minimum has a
// closed form (see convex_bp.cpp). Tables come as exponentials bank[b] = exp((table - peak[b]) / epsilon), so that a message takes K exponentials and
// K logarithms, not K^2; where those underflow, everything is computed anew from the tables.
#include "local_polytope.hpp"
#include "mix.hpp"

namespace maxsum {

// Scores of all examples at one temperature; labels from n_states on do not exist.
struct Soft {
    Array<const i64> node_ptr;     // (n + 1,): nodes of example j
    Array<const i64> edge_ptr;     // (n + 1,)
    Array<const i32> n_states;     // (N,)
    Array<const i32, 2> edges;     // (E, 2), nodes of the union
    Array<const i64> ptr;          // (N + 1,): the edges at node v are adj_edge[ptr[v]:ptr[v + 1]]
    Array<const i32> adj_edge;     // (2 E,)
    Array<const i8> adj_side;      // (2 E,)
    Array<const i32> truth;        // (N,)
    Array<const double, 2> unary;  // (N, K): loss-augmented scores, finite
    Array<const i32> table_of;     // (E,)
    Array<const double, 3> tables; // (T, K, K), finite
    Array<const double> peaks;     // (T,): largest entry of each table
    Array<const double, 3> bank;   // (T, K, K): exp((tables - peaks) / epsilon)
    Array<const double, 3> turned; // (T, K, K): the bank transposed
    MAXSUM_RECORD(Soft, node_ptr, edge_ptr, n_states, edges, ptr, adj_edge, adj_side, truth, unary, table_of, tables, peaks, bank, turned)
};

} // namespace maxsum

MAXSUM_RECORD_CASTER(Soft)

namespace maxsum {

namespace {

constexpr double ZERO = -700.0;
constexpr double FAINT = 1e-250; // sum of products below which these may have lost digits: it is computed anew from the tables

// exp(x), and 0 where the exact value is next to the smallest numbers (whose computation is slow).
inline double safe_exp(double x) { return x > ZERO ? std::exp(x) : 0.0; }

// out[k] = heat log sum_l exp((g(k, l) + message(l)) / heat), also where the exponentials of the tables underflow.
void slow_push(const double *table, i64 width, i64 side, const double *message, i64 n_own, i64 n_other, double heat, double *out) {
    const i64 by_own = side == 0 ? width : 1, by_other = side == 0 ? 1 : width;
    for (i64 k = 0; k < n_own; k++) {
        const double *row = table + k * by_own;
        double top = -INF, total = 0.0;
        for (i64 m = 0; m < n_other; m++) top = std::max(top, row[m * by_other] + message[m]);
        for (i64 m = 0; m < n_other; m++) total += safe_exp((row[m * by_other] + message[m] - top) / heat);
        out[k] = top + heat * std::log(total);
    }
}

// Minimise the smoothed bound of example j over the messages of each node in turn, in place.
void sweep(const Soft &soft, Array<double, 3> messages, double heat, i64 j, Flag forward) {
    const i32 *n_states = soft.n_states.data, *edges = soft.edges.data, *adj_edge = soft.adj_edge.data, *table_of = soft.table_of.data;
    const i64 *ptr = soft.ptr.data;
    const i8 *adj_side = soft.adj_side.data;
    const double *bank = soft.bank.data, *turned = soft.turned.data, *tables = soft.tables.data;
    const i64 first = soft.node_ptr[j], last = soft.node_ptr[j + 1], n_labels = soft.unary.shape[1];
    const i64 width = soft.bank.shape[2], cells = soft.bank.shape[1] * width, n_edges = messages.shape[1], step_of = messages.shape[2];
    i64 degree = 0;
    for (i64 v = first; v < last; v++) degree = std::max(degree, ptr[v + 1] - ptr[v]);
    std::vector<double> room((degree + 2) * n_labels);
    double *inward = room.data(), *__restrict total = inward + degree * n_labels, *__restrict share = total + n_labels;
    const double cold = 1.0 / heat;
    for (i64 step = 0; step < last - first; step++) {
        const i64 v = forward ? first + step : last - 1 - step, own = n_states[v], start = ptr[v], stop = ptr[v + 1];
        if (start == stop) continue;
        const double *scores = soft.unary.data + v * n_labels;
        for (i64 k = 0; k < own; k++) total[k] = scores[k];
        for (i64 i = start; i < stop; i++) {
            const i64 e = adj_edge[i], side = adj_side[i], t = table_of[e], other = n_states[edges[2 * e + 1 - side]];
            const double *message = messages.data + ((1 - side) * n_edges + e) * step_of;
            double *__restrict row = inward + (i - start) * n_labels, top = -INF;
            for (i64 m = 0; m < other; m++) top = std::max(top, message[m]);
            for (i64 m = 0; m < other; m++) share[m] = safe_exp((message[m] - top) * cold);
            mix(share, other, (side == 0 ? turned : bank) + t * cells, width, own, row);
            double least = INF, most = -INF;
            for (i64 k = 0; k < own; k++) least = std::min(least, row[k]);
            if (least > FAINT) {
                for (i64 k = 0; k < own; k++) row[k] = heat * std::log(row[k]);
            } else {
                slow_push(tables + t * cells, width, side, message, own, other, heat, row);
            }
            for (i64 k = 0; k < own; k++) most = std::max(most, row[k]);
            for (i64 k = 0; k < own; k++) {
                row[k] -= most;
                total[k] += row[k];
            }
        }
        double top = -INF;
        for (i64 k = 0; k < own; k++) top = std::max(top, total[k]);
        const double part = 1.0 / (1.0 + double(stop - start));
        for (i64 i = start; i < stop; i++) {
            double *__restrict row = inward + (i - start) * n_labels, mean = 0.0;
            double *__restrict out = messages.data + (adj_side[i] * n_edges + adj_edge[i]) * step_of;
            for (i64 k = 0; k < own; k++) {
                row[k] = part * (total[k] - top) - row[k];
                mean += row[k];
            }
            mean /= double(own);
            for (i64 k = 0; k < own; k++) out[k] = row[k] - mean;
        }
    }
}

struct Slacks {
    double value, hard;
};

// Softmaxes of the nodes of example j into `beliefs`; returns the sum of (soft maximum less score of the truth), and of (maximum less score of the
// truth).
Slacks node_beliefs(const Soft &soft, Array<const double, 3> messages, double heat, i64 j, Array<double, 2> beliefs) {
    const i64 n_labels = beliefs.shape[1], n_edges = messages.shape[1], step = messages.shape[2];
    const double cold = 1.0 / heat;
    double value = 0.0, hard = 0.0;
    for (i64 v = soft.node_ptr[j]; v < soft.node_ptr[j + 1]; v++) {
        const i64 own = soft.n_states[v];
        const double *scores = soft.unary[v].data;
        double *__restrict belief = beliefs[v].data;
        for (i64 k = 0; k < own; k++) belief[k] = scores[k];
        for (i64 i = soft.ptr[v], end = soft.ptr[v + 1]; i < end; i++) {
            const double *__restrict message = messages.data + (soft.adj_side[i] * n_edges + soft.adj_edge[i]) * step;
            for (i64 k = 0; k < own; k++) belief[k] -= message[k];
        }
        double top = -INF, total = 0.0;
        for (i64 k = 0; k < own; k++) top = std::max(top, belief[k]);
        const double right = top - belief[soft.truth[v]];
        for (i64 k = 0; k < own; k++) {
            belief[k] = safe_exp((belief[k] - top) * cold);
            total += belief[k];
        }
        for (i64 k = 0; k < own; k++) belief[k] /= total;
        for (i64 k = own; k < n_labels; k++) belief[k] = 0.0;
        value += right + heat * std::log(total);
        hard += right;
    }
    return {value, hard};
}

// Softmax of the reparametrised table of an edge with the messages one and two into `table`, all rows `width` apart; returns its soft maximum.
double edge_beliefs(const double *scores, const double *bank, i64 width, double peak, const double *one, const double *two, i64 n_first, i64 n_second,
                    double heat, double *__restrict left, double *__restrict right, double *__restrict table) {
    const double cold = 1.0 / heat;
    double high = -INF, low = -INF, total = 0.0;
    for (i64 k = 0; k < n_first; k++) high = std::max(high, one[k]);
    for (i64 m = 0; m < n_second; m++) low = std::max(low, two[m]);
    for (i64 k = 0; k < n_first; k++) left[k] = safe_exp((one[k] - high) * cold);
    for (i64 m = 0; m < n_second; m++) right[m] = safe_exp((two[m] - low) * cold);
    for (i64 k = 0; k < n_first; k++) {
        const double share = left[k], *factors = bank + k * width;
        double *row = table + k * width;
        for (i64 m = 0; m < n_second; m++) row[m] = share * right[m] * factors[m];
        for (i64 m = 0; m < n_second; m++) total += row[m];
    }
    double top = high + low + peak;
    if (!(total > FAINT)) {
        top = -INF, total = 0.0;
        for (i64 k = 0; k < n_first; k++) {
            for (i64 m = 0; m < n_second; m++) {
                table[k * width + m] = scores[k * width + m] + one[k] + two[m];
                top = std::max(top, table[k * width + m]);
            }
        }
        for (i64 k = 0; k < n_first; k++) {
            for (i64 m = 0; m < n_second; m++) {
                table[k * width + m] = safe_exp((table[k * width + m] - top) * cold);
                total += table[k * width + m];
            }
        }
    }
    for (i64 k = 0; k < n_first; k++) {
        for (i64 m = 0; m < n_second; m++) table[k * width + m] /= total;
    }
    return top + heat * std::log(total);
}

struct Measured {
    double value, error, hard;
};

// Smoothed slack of example j, the most by which better messages could lower it, and the slack without smoothing.
//
// Node beliefs are kept and the beliefs P_e of each edge moved to tables P'_e with their marginals; this point of the local polytope proves that the
// smoothed slack is at most epsilon sum_e KL(P'_e | P_e) above its minimum. `marginals` (E, K, K) is filled with the P'_e. `room` has K (K + 3)
// numbers.
Measured measure(const Soft &soft, Array<const double, 3> messages, double heat, i64 j, Array<double, 2> beliefs, Array<double, 3> marginals,
                 double *room) {
    auto [value, hard] = node_beliefs(soft, messages, heat, j, beliefs);
    const i64 n_labels = soft.unary.shape[1], width = n_labels;
    double *left = room, *right = left + n_labels, *scale = right + n_labels, *table = scale + n_labels, error = 0.0;
    for (i64 e = soft.edge_ptr[j]; e < soft.edge_ptr[j + 1]; e++) {
        const i64 u = soft.edges(e, 0), v = soft.edges(e, 1), t = soft.table_of[e], n_first = soft.n_states[u], n_second = soft.n_states[v];
        const double *scores = soft.tables[t].data, *one = &messages(0, e, 0), *two = &messages(1, e, 0);
        const double height = edge_beliefs(scores, soft.bank[t].data, width, soft.peaks[t], one, two, n_first, n_second, heat, left, right, table);
        const i64 s = soft.truth[u], r = soft.truth[v];
        const double at_truth = scores[s * width + r] + one[s] + two[r];
        value += height - at_truth;
        settle_table(beliefs[u].data, beliefs[v].data, n_first, n_second, table, width, left, right, scale);
        double top = -INF;
        for (i64 k = 0; k < n_first; k++) {
            for (i64 m = 0; m < n_second; m++) {
                const double score = scores[k * width + m] + one[k] + two[m], mass = table[k * width + m];
                top = std::max(top, score);
                if (mass > 0.0) error += mass * (heat * std::log(mass) - (score - height));
            }
        }
        hard += top - at_truth;
        double *kept = marginals[e].data;
        for (i64 k = 0; k < n_labels; k++) {
            for (i64 m = 0; m < n_labels; m++) kept[k * n_labels + m] = k < n_first && m < n_second ? table[k * width + m] : 0.0;
        }
    }
    return {value, std::max(error, 0.0), hard};
}

// Work space for momentum, (2, 2, E, K): where the last leap started and where it ended.
struct Before {
    double *start, *end;
    i64 side; // entries of one side

    explicit Before(Array<double, 4> room) : start(room.data), end(room.data + room.count() / 2), side(room.shape[2] * room.shape[3]) {}
};

// Go on by `speed` times the last step of the entries first .. last - 1 of both sides; `before` gets where it started.
void leap(double *__restrict messages, const Before &before, i64 first, i64 last, double speed) {
    double *__restrict start = before.start, *__restrict end = before.end;
    for (i64 side = 0; side < 2; side++) {
        for (i64 i = side * before.side + first; i < side * before.side + last; i++) {
            const double now = messages[i];
            messages[i] = now + speed * (now - start[i]);
            start[i] = now;
            end[i] = messages[i];
        }
    }
}

// Whether the sweeps went against the direction of the leap.
bool turns_back(const double *messages, const Before &before, i64 first, i64 last) {
    double inner = 0.0;
    for (i64 side = 0; side < 2; side++) {
        for (i64 i = side * before.side + first; i < side * before.side + last; i++) {
            inner += (before.end[i] - messages[i]) * (messages[i] - before.start[i]);
        }
    }
    return inner > 0.0;
}

// Improve the messages of each of the examples first .. last - 1 until c * error is at most `allowed`.
//
// A round is a sweep forwards and one backwards, with momentum that starts anew where it leads astray. `before` (2, 2, E, K) is work space. out[:, j]
// gets smoothed slack, error, slack without smoothing, and the rounds done; node beliefs and edge marginals are those of the last messages.
void relax(const Soft &soft, Array<double, 3> messages, double heat, Array<const double> c, Array<const double> allowed, i64 n_rounds, i64 first,
           i64 last, Array<double, 4> before_room, Array<double, 2> beliefs, Array<double, 3> marginals, Array<double, 2> out) {
    const Before before(before_room);
    const i64 n_labels = messages.shape[2];
    std::vector<double> room(n_labels * (n_labels + 3));
    for (i64 j = first; j < last; j++) {
        const i64 start = soft.edge_ptr[j] * n_labels, stop = soft.edge_ptr[j + 1] * n_labels;
        i64 done = 0, pause = 1;
        double pace = 0.0;
        Measured found;
        while (true) {
            found = measure(soft, messages, heat, j, beliefs, marginals, room.data());
            if (!(c[j] * found.error > allowed[j]) || done >= n_rounds) break;
            for (i64 left = std::min(pause, n_rounds - done); left > 0; left--) {
                const double faster = 0.5 + std::sqrt(0.25 + pace * pace);
                leap(messages.data, before, start, stop, std::max(pace - 1.0, 0.0) / faster);
                pace = faster;
                sweep(soft, messages, heat, j, Flag{true});
                sweep(soft, messages, heat, j, Flag{false});
                done += 1;
                if (turns_back(messages.data, before, start, stop)) pace = 0.0;
            }
            pause = std::max<i64>(1, done / 3);
        }
        out(0, j) = found.value, out(1, j) = found.error, out(2, j) = found.hard, out(3, j) = double(done);
    }
}

// Derivative (2, E, K) of the smoothed slacks of the examples first .. last - 1, times c, by their messages. Softmaxes of nodes and edges are filled
// in; they give the derivative by the weights. Returns the sum of c times the slacks.
double message_gradient(const Soft &soft, Array<const double, 3> messages, double heat, Array<const double> c, i64 first, i64 last,
                        Array<double, 2> beliefs, Array<double, 3> marginals, Array<double, 3> gradient) {
    const i64 n_labels = soft.unary.shape[1];
    std::vector<double> room(n_labels * (n_labels + 2));
    double *left = room.data(), *right = left + n_labels, *__restrict table = right + n_labels, total = 0.0;
    for (i64 j = first; j < last; j++) {
        const double factor = c[j];
        double value = node_beliefs(soft, messages, heat, j, beliefs).value;
        for (i64 e = soft.edge_ptr[j]; e < soft.edge_ptr[j + 1]; e++) {
            const i64 u = soft.edges(e, 0), v = soft.edges(e, 1), t = soft.table_of[e], n_first = soft.n_states[u], n_second = soft.n_states[v];
            const i64 s = soft.truth[u], r = soft.truth[v];
            const double *scores = soft.tables[t].data, *one = &messages(0, e, 0), *two = &messages(1, e, 0);
            value += edge_beliefs(scores, soft.bank[t].data, n_labels, soft.peaks[t], one, two, n_first, n_second, heat, left, right, table);
            value -= scores[s * n_labels + r] + one[s] + two[r];
            double *__restrict to_first = &gradient(0, e, 0), *__restrict to_second = &gradient(1, e, 0), *__restrict kept = marginals[e].data;
            const double *here = beliefs[u].data, *there = beliefs[v].data;
            for (i64 k = 0; k < n_labels; k++) {
                to_first[k] = -factor * here[k];
                to_second[k] = -factor * there[k];
                for (i64 m = 0; m < n_labels; m++) kept[k * n_labels + m] = k < n_first && m < n_second ? table[k * n_labels + m] : 0.0;
            }
            for (i64 k = 0; k < n_first; k++) {
                for (i64 m = 0; m < n_second; m++) {
                    const double part = factor * table[k * n_labels + m];
                    to_first[k] += part;
                    to_second[m] += part;
                }
            }
        }
        total += factor * value;
    }
    return total;
}

} // namespace

void bind_smoothed(nb::module_ &m) {
    bind_record<Soft>(m);
    m.attr("ZERO") = ZERO;
    def(m, "sweep", sweep, "soft"_a, "messages"_a, "heat"_a, "j"_a, "forward"_a,
        "Minimise the smoothed bound of example ``j`` over the messages of each node in turn, in place.");
    def(m, "relax", relax, "soft"_a, "messages"_a, "heat"_a, "c"_a, "allowed"_a, "n_rounds"_a, "first"_a, "last"_a, "before"_a, "beliefs"_a,
        "marginals"_a, "out"_a, "Improve the messages of each of the examples ``first .. last - 1`` until ``c * error`` is at most ``allowed``.");
    def(m, "message_gradient", message_gradient, "soft"_a, "messages"_a, "heat"_a, "c"_a, "first"_a, "last"_a, "beliefs"_a, "marginals"_a,
        "gradient"_a, "Derivative (2, E, K) of the smoothed slacks of the examples ``first .. last - 1``, times ``c``, by their messages.");
}

} // namespace maxsum
