// Augmenting DAG (Koval and Schlesinger 1976; Werner 2007): descent of the height through failed arc consistency.
//
// With the messages phi, a label whose score lies more than epsilon below the best of its node, and a pair of labels that lies more than epsilon
// below the best of its edge, are *slack*. Arc consistency deletes slack labels first, then every label that has, at some edge, no pair left that is
// neither slack nor deleted at its other end; the edge is the *cause* of the deletion. Where a node loses all its labels, the deletions in reverse
// order give a direction: every label of that node asks for 1 unit. A label that is asked for R units takes them from its cause (delta phi_v(k) = R);
// each pair of that row that is not slack asks the label at its other end, deleted earlier, for as much (delta phi_w(l) = -max R over the labels that
// ask through this edge). In the end slack pairs and slack labels pay. All of R are whole numbers, so the direction is exact; the step is the largest
// at which no slack falls below 0, and the height falls by exactly the step.
#include "lanes.hpp"
#include "net.hpp"

namespace maxsum {

constexpr i64 BUDGET = 0, CONSISTENT = 1, ROUNDED = 2;

// Scratch and state of the descent.
struct Dag {
    Array<double, 2> theta;     // (N, K): reparametrised node scores
    Array<double> node_top;     // (N,)
    Array<double> edge_top;     // (E,)
    Array<i32, 2> order;        // (N, K): position of a deletion in `queue`, -1 for labels that are left
    Array<i32, 2> cause;        // (N, K): the edge that deleted a label, -1 for slack labels
    Array<i64> queue;           // (N * K,): deleted labels as v * K + k, in order
    Array<i32> left;            // (N,): number of labels that are left
    Array<i32, 3> support;      // (2, E, K): the partner that was found last
    Array<double, 2> asked;     // (N, K): units asked for
    Array<double, 3> direction; // (2, E, K)
    Array<double, 3> saved;     // (2, E, K): messages before the step
    Array<i32> touched;         // (E,): edges of the direction
    Array<u8> marked;           // (N + E,): nodes and edges of the direction
    MAXSUM_RECORD(Dag, theta, node_top, edge_top, order, cause, queue, left, support, asked, direction, saved, touched, marked)
};

} // namespace maxsum

MAXSUM_RECORD_CASTER(Dag)

namespace maxsum {

namespace {

using Messages = Array<double, 3>;

// One end of an edge: the reparametrised scores of label k there with m at the other end.
struct End {
    const double *table, *mine, *theirs;
    i64 step, jump; // of the table for the next label here, and at the other end
    double weight;

    End(const Net &net, const Messages &messages, i64 e, i64 side)
        : table(net.tables.data + net.edge_table[e] * net.tables.shape[1] * net.tables.shape[2]), mine(messages[side][e].data),
          theirs(messages[1 - side][e].data), step(side == 0 ? net.tables.shape[2] : 1), jump(side == 0 ? 1 : net.tables.shape[2]),
          weight(net.edge_weight[e]) {}
    double pair(i64 k, i64 m) const { return weight * table[k * step + m * jump] + mine[k] + theirs[m]; }
};

// Best reparametrised pair of an edge among the labels that are not excluded.
double edge_top(const Net &net, const Messages &messages, i64 e, const Dag &dag, const Rows &room) {
    const i64 u = net.edges(e, 0), v = net.edges(e, 1), n_first = net.n_states[u], n_second = net.n_states[v], n_labels = net.unary.shape[1];
    const double *one = messages[0][e].data, *two = messages[1][e].data, *table = net.tables[net.edge_table[e]].data, weight = net.edge_weight[e];
    const double *first = dag.theta[u].data, *second = dag.theta[v].data;
    double *__restrict theirs = room[0], *__restrict best = room[1];
    for (i64 m = 0; m < n_second; m++) theirs[m] = second[m] > -INF ? two[m] : -INF, best[m] = -INF;
    for (i64 k = 0; k < n_first; k++) {
        if (!(first[k] > -INF)) continue;
        const double *row = table + k * n_labels, from = one[k];
        for (i64 m = 0; m < n_second; m++) best[m] = std::max(best[m], weight * row[m] + from + theirs[m]);
    }
    return largest(best, n_second);
}

// Reparametrised scores of node v into theta[v]; returns the best.
double node_top(const Net &net, const Messages &messages, i64 v, const Dag &dag) {
    const i64 states = net.n_states[v];
    double *__restrict theta = dag.theta[v].data;
    const double *unary = net.unary[v].data;
    for (i64 k = 0; k < states; k++) theta[k] = unary[k];
    for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
        const double *message = messages[net.adj_side[i]][net.adj_edge[i]].data;
        for (i64 k = 0; k < states; k++) theta[k] -= message[k];
    }
    return largest(theta, states);
}

// Scores and maxima of all nodes and edges; returns the height.
double refresh(const Net &problem, Messages messages, const Dag &scratch) {
    const Net net = problem;
    const Dag dag = scratch;
    const Rows room(2, net.unary.shape[1]);
    double total = 0.0;
    for (i64 v = 0; v < net.n_states.size(); v++) {
        const double top = node_top(net, messages, v, dag);
        dag.node_top[v] = top;
        total += top;
    }
    for (i64 e = 0; e < net.edges.size(); e++) {
        const double top = edge_top(net, messages, e, dag, room);
        dag.edge_top[e] = top;
        total += top;
    }
    return total;
}

// Whether label k at an end has a partner at the other end, with the n_other labels `order`, that is left, with a pair of at least `least`.
bool supported(const End &end, i64 k, i64 n_other, double least, const i32 *order, i32 &support) {
    const i64 last = support;
    if (order[last] < 0 && end.pair(k, last) >= least) return true;
    for (i64 m = 0; m < n_other; m++) {
        if (order[m] < 0 && end.pair(k, m) >= least) {
            support = i32(m);
            return true;
        }
    }
    return false;
}

// Arc consistency at threshold epsilon; returns the first node without labels (-1 if none) and the number of deletions.
std::tuple<i64, i64> propagate(const Net &problem, Messages messages, double epsilon, const Dag &scratch) {
    const Net net = problem;
    const Dag dag = scratch;
    const i64 n_nodes = net.unary.shape[0], n_labels = net.unary.shape[1];
    i64 size = 0;
    for (i64 v = 0; v < n_nodes; v++) {
        i32 left = 0;
        const double least = dag.node_top[v] - epsilon, *theta = dag.theta[v].data;
        i32 *order = dag.order[v].data, *cause = dag.cause[v].data;
        for (i64 k = 0; k < net.n_states[v]; k++) {
            cause[k] = -1;
            if (theta[k] >= least) {
                order[k] = -1;
                left += 1;
            } else {
                order[k] = i32(size);
                dag.queue[size] = v * n_labels + k;
                size += 1;
            }
        }
        dag.left[v] = left;
    }
    i64 head = size;
    // Deletes label k of node v because of edge e; whether that was its last.
    const auto erase = [&](i64 v, i64 k, i64 e) {
        dag.order(v, k) = i32(size), dag.cause(v, k) = i32(e);
        dag.queue[size] = v * n_labels + k;
        size += 1;
        dag.left[v] -= 1;
        return dag.left[v] == 0;
    };
    for (i64 e = 0; e < net.edges.size(); e++) {
        const double least = dag.edge_top[e] - epsilon;
        for (i64 side = 0; side < 2; side++) {
            const i64 v = net.edges(e, side), w = net.edges(e, 1 - side), n_other = net.n_states[w], states = net.n_states[v];
            const End end(net, messages, e, side);
            const i32 *order = dag.order[v].data, *theirs = dag.order[w].data;
            i32 *support = dag.support[side][e].data;
            for (i64 k = 0; k < states; k++) {
                if (order[k] < 0 && !supported(end, k, n_other, least, theirs, support[k]) && erase(v, k, e)) return {v, size};
            }
        }
    }
    while (head < size) {
        const i64 w = dag.queue[head] / n_labels, m = dag.queue[head] % n_labels, n_other = net.n_states[w];
        const i32 *theirs = dag.order[w].data;
        head += 1;
        for (i64 i = net.ptr[w]; i < net.ptr[w + 1]; i++) {
            const i64 e = net.adj_edge[i], side = 1 - net.adj_side[i], v = net.edges(e, side), states = net.n_states[v];
            const double least = dag.edge_top[e] - epsilon;
            const End end(net, messages, e, side);
            const i32 *order = dag.order[v].data;
            i32 *support = dag.support[side][e].data;
            for (i64 k = 0; k < states; k++) {
                if (order[k] >= 0 || end.pair(k, m) < least) continue;
                if (!supported(end, k, n_other, least, theirs, support[k]) && erase(v, k, e)) return {v, size};
            }
        }
    }
    return {-1, size};
}

// The direction that lowers `node` by 1, from the `size` deletions; returns its number of edges.
i64 direct(const Net &problem, Messages messages, double epsilon, const Dag &scratch, i64 node, i64 size) {
    const Net net = problem;
    const Dag dag = scratch;
    const i64 n_nodes = net.unary.shape[0], n_labels = net.unary.shape[1];
    i64 n_touched = 0;
    for (i64 k = 0; k < net.n_states[node]; k++) dag.asked(node, k) = 1.0;
    for (i64 i = size - 1; i >= 0; i--) {
        const i64 v = dag.queue[i] / n_labels, k = dag.queue[i] % n_labels, e = dag.cause(v, k);
        const double units = dag.asked(v, k);
        if (units == 0.0 || e < 0) continue;
        const i64 side = net.edges(e, 0) == v ? 0 : 1, w = net.edges(e, 1 - side), n_other = net.n_states[w];
        const double least = dag.edge_top[e] - epsilon;
        if (!dag.marked[n_nodes + e]) {
            dag.marked[n_nodes + e] = 1;
            dag.touched[n_touched] = i32(e);
            n_touched += 1;
        }
        dag.direction(side, e, k) += units;
        const End end(net, messages, e, side);
        const double *theta = dag.theta[w].data;
        double *back = dag.direction[1 - side][e].data, *asked = dag.asked[w].data;
        for (i64 m = 0; m < n_other; m++) {
            if (theta[m] == -INF || end.pair(k, m) < least) continue;
            const double given = -back[m];
            if (units > given) {
                asked[m] += units - given;
                back[m] = -units;
            }
        }
    }
    return n_touched;
}

// Largest step along the direction at which no slack of the edges and nodes that it changes falls below 0.
double length(const Net &net, const Messages &messages, const Dag &dag, i64 node, i64 n_touched) {
    const i64 n_nodes = net.n_states.size();
    double step = INF;
    for (i64 i = 0; i < n_touched; i++) {
        const i64 e = dag.touched[i], u = net.edges(e, 0), v = net.edges(e, 1), n_first = net.n_states[u], n_second = net.n_states[v];
        const double top = dag.edge_top[e], *first = dag.theta[u].data, *second = dag.theta[v].data;
        const double *one = dag.direction[0][e].data, *two = dag.direction[1][e].data;
        const End end(net, messages, e, 0);
        for (i64 k = 0; k < n_first; k++) {
            if (first[k] == -INF) continue;
            for (i64 m = 0; m < n_second; m++) {
                const double rise = one[k] + two[m];
                if (rise > 0.0 && second[m] > -INF) step = std::min(step, (top - end.pair(k, m)) / rise);
            }
        }
    }
    for (i64 i = -1; i < 2 * n_touched; i++) {
        const i64 v = i < 0 ? node : net.edges(dag.touched[i / 2], i % 2);
        if (dag.marked[v]) continue;
        dag.marked[v] = 1;
        const i64 begin = net.ptr[v], end = net.ptr[v + 1];
        for (i64 k = 0; k < net.n_states[v]; k++) {
            if (dag.theta(v, k) == -INF) continue;
            double rise = v == node ? 1.0 : 0.0;
            for (i64 j = begin; j < end; j++) rise -= dag.direction(net.adj_side[j], net.adj_edge[j], k);
            if (rise > 0.0) step = std::min(step, (dag.node_top[v] - dag.theta(v, k)) / rise);
        }
    }
    for (i64 i = 0; i < n_touched; i++) dag.marked[n_nodes + dag.touched[i]] = 0;
    return step;
}

// Recompute the nodes and edges of the direction; returns by how much their maxima have risen in all.
double local(const Net &net, const Messages &messages, const Dag &dag, i64 node, i64 n_touched, const Rows &room) {
    double change = 0.0;
    for (i64 i = -1; i < 2 * n_touched; i++) {
        const i64 v = i < 0 ? node : net.edges(dag.touched[i / 2], i % 2);
        if (!dag.marked[v]) continue;
        dag.marked[v] = 0;
        const double top = node_top(net, messages, v, dag);
        change += top - dag.node_top[v];
        dag.node_top[v] = top;
    }
    for (i64 i = 0; i < n_touched; i++) {
        const i64 e = dag.touched[i];
        const double top = edge_top(net, messages, e, dag, room);
        change += top - dag.edge_top[e];
        dag.edge_top[e] = top;
    }
    return change;
}

// Step along the direction; returns the step and the change of the height, (step, 0) if rounding ate the gain.
std::tuple<double, double> advance(const Net &problem, Messages messages, const Dag &scratch, i64 node, i64 size, i64 n_touched) {
    const Net net = problem;
    const Dag dag = scratch;
    const i64 n_labels = net.unary.shape[1];
    const Rows room(2, n_labels);
    const double step = length(net, messages, dag, node, n_touched);
    const bool usable = step < INF;
    for (i64 i = 0; i < n_touched; i++) {
        const i64 e = dag.touched[i];
        for (i64 side = 0; side < 2; side++) {
            double *__restrict message = messages[side][e].data, *__restrict saved = dag.saved[side][e].data;
            double *__restrict direction = dag.direction[side][e].data;
            for (i64 k = 0; k < n_labels; k++) {
                saved[k] = message[k];
                if (usable) message[k] += step * direction[k];
                direction[k] = 0.0;
            }
        }
    }
    const double change = local(net, messages, dag, node, n_touched, room);
    for (i64 i = 0; i < size; i++) dag.asked.data[dag.queue[i]] = 0.0;
    if (usable && change <= -0.5 * step && change < 0.0) return {step, change};
    for (i64 i = 0; i < n_touched; i++) {
        const i64 e = dag.touched[i];
        for (i64 side = 0; side < 2; side++) messages[side][e].copy_from(dag.saved[side][e]);
        dag.marked[net.edges(e, 0)] = 1;
        dag.marked[net.edges(e, 1)] = 1;
    }
    local(net, messages, dag, node, n_touched, room);
    return {step, 0.0};
}

// Up to max_steps steps at one threshold, after `refresh`; returns (steps, change of the height, status).
//
// The status is CONSISTENT where arc consistency holds, ROUNDED where the step is lost in rounding, else BUDGET.
std::tuple<i64, double, i64> descend(const Net &net, Messages messages, double epsilon, i64 max_steps, const Dag &dag) {
    double total = 0.0;
    for (i64 done = 0; done < max_steps; done++) {
        const auto [node, size] = propagate(net, messages, epsilon, dag);
        if (node < 0) return {done, total, CONSISTENT};
        const i64 n_touched = direct(net, messages, epsilon, dag, node, size);
        const double change = std::get<1>(advance(net, messages, dag, node, size, n_touched));
        if (change == 0.0) return {done, total, ROUNDED};
        total += change;
    }
    return {max_steps, total, BUDGET};
}

// After `propagate`: masks of the labels that are left, and of the pairs of them within epsilon of their edge's best.
void maximal_pairs(const Net &problem, Messages messages, double epsilon, const Dag &scratch, Array<bool, 2> nodes, Array<bool, 3> pairs) {
    const Net net = problem;
    const Dag dag = scratch;
    for (i64 v = 0; v < net.n_states.size(); v++) {
        for (i64 k = 0; k < net.n_states[v]; k++) nodes(v, k) = dag.order(v, k) < 0;
    }
    for (i64 e = 0; e < net.edges.size(); e++) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1);
        const double least = dag.edge_top[e] - epsilon;
        const End end(net, messages, e, 0);
        for (i64 k = 0; k < net.n_states[u]; k++) {
            for (i64 m = 0; m < net.n_states[v]; m++) {
                if (nodes(u, k) && nodes(v, m)) pairs(e, k, m) = end.pair(k, m) >= least;
            }
        }
    }
}

} // namespace

void bind_augmenting_dag(nb::module_ &m) {
    bind_record<Dag>(m);
    m.attr("BUDGET") = BUDGET;
    m.attr("CONSISTENT") = CONSISTENT;
    m.attr("ROUNDED") = ROUNDED;
    def(m, "refresh", refresh, "net"_a, "messages"_a, "dag"_a, "Scores and maxima of all nodes and edges; returns the height.");
    def(m, "propagate", propagate, "net"_a, "messages"_a, "epsilon"_a, "dag"_a,
        "Arc consistency at threshold ``epsilon``; returns the first node without labels (-1 if none) and the number of deletions.");
    def(m, "direct", direct, "net"_a, "messages"_a, "epsilon"_a, "dag"_a, "node"_a, "size"_a,
        "The direction that lowers ``node`` by 1, from the ``size`` deletions; returns its number of edges.");
    def(m, "advance", advance, "net"_a, "messages"_a, "dag"_a, "node"_a, "size"_a, "n_touched"_a,
        "Step along the direction; returns the step and the change of the height, ``(step, 0)`` if rounding ate the gain.");
    def(m, "descend", descend, "net"_a, "messages"_a, "epsilon"_a, "max_steps"_a, "dag"_a,
        "Up to ``max_steps`` steps at one threshold, after `refresh`; returns ``(steps, change of the height, status)``.");
    def(m, "maximal_pairs", maximal_pairs, "net"_a, "messages"_a, "epsilon"_a, "dag"_a, "nodes"_a, "pairs"_a,
        "After `propagate`: masks of the labels that are left, and of the pairs of them within ``epsilon`` of their edge's best.");
}

} // namespace maxsum
