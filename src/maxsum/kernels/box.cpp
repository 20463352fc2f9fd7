#include "box.hpp"

#include "icm.hpp"
#include "local_search.hpp"
#include "message.hpp"

namespace maxsum {

// Write the labels of the box into `label` and their numbers into `size`.
void list_labels(Array<const i32> n_states, Array<const u8, 2> domain, Array<i32, 2> label, Array<i32> size) {
    for (i64 v = 0; v < n_states.size(); v++) {
        const i64 states = n_states[v];
        const u8 *has = domain[v].data;
        i32 *list = label[v].data;
        i64 n = 0;
        for (i64 k = 0; k < states; k++) {
            if (has[k]) list[n++] = i32(k);
        }
        size[v] = i32(n);
    }
}

static void pack(const Net &problem, Array<const u8, 2> domain, Array<const double, 3> edge_messages, const Box &room) {
    const Net net = problem;
    const Box box = room;
    list_labels(net.n_states, domain, box.label, box.size);
    const i64 n_labels = net.unary.shape[1], width = box.table.shape[1];
    i64 at = 0;
    for (i64 e = 0; e < net.edges.size(); e++) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1);
        const double weight = net.edge_weight[e];
        const i64 n_first = box.size[u], n_second = box.size[v], turned = at + n_first;
        box.first(0, e) = at, box.first(1, e) = turned;
        const i32 *one = box.label[u].data, *two = box.label[v].data;
        const double *table = net.tables[net.edge_table[e]].data, *from = edge_messages[0][e].data, *back = edge_messages[1][e].data;
        double *message = box.message[0][e].data, *rows = box.table.data + at * width, *columns = box.table.data + turned * width;
        for (i64 a = 0; a < n_first; a++) {
            const double *row = table + one[a] * n_labels;
            message[a] = from[one[a]];
            double *to = rows + a * width;
            for (i64 b = 0; b < n_second; b++) to[b] = weight * row[two[b]];
        }
        for (i64 b = 0; b < n_second; b++) {
            double *to = columns + b * width;
            for (i64 a = 0; a < n_first; a++) to[a] = rows[a * width + b];
        }
        at = turned + n_second;
        message = box.message[1][e].data;
        for (i64 b = 0; b < n_second; b++) message[b] = back[two[b]];
    }
}

// Write the messages back; those of labels outside the box become 0.
static void unpack(const Net &problem, Array<double, 3> edge_messages, const Box &room) {
    const Net net = problem;
    const Box box = room;
    edge_messages.fill(0.0);
    for (i64 e = 0; e < net.edges.size(); e++) {
        for (i64 side = 0; side < 2; side++) {
            const i64 v = net.edges(e, side), states = box.size[v];
            const i32 *list = box.label[v].data;
            const double *message = box.message[side][e].data;
            double *to = edge_messages[side][e].data;
            for (i64 a = 0; a < states; a++) to[list[a]] = message[a];
        }
    }
}

// One pass as `sweep` of trws; returns the bound.
static double packed_sweep(Array<const double, 2> unary, Array<const i32, 2> edges, Array<const i64> ptr, Array<const i32> adj_edge,
                           Array<const i8> adj_side, const Box &room, Flag is_forward) {
    const Box box = room;
    const bool forward = is_forward;
    double *__restrict theta = box.theta.data, *__restrict own = box.own.data, *__restrict out = box.out.data;
    const i64 n_nodes = box.size.size(), width = box.table.shape[1];
    double bound = 0.0;
    for (i64 step = 0; step < n_nodes; step++) {
        const i64 v = forward ? step : n_nodes - 1 - step, states = box.size[v], begin = ptr[v], end = ptr[v + 1];
        const i32 *list = box.label[v].data;
        const double *scores = unary[v].data;
        for (i64 a = 0; a < states; a++) theta[a] = scores[list[a]];
        i64 n_later = 0;
        for (i64 i = begin; i < end; i++) {
            const i64 e = adj_edge[i], side = adj_side[i];
            n_later += (edges(e, 1 - side) > v) == forward;
            const double *message = box.message[side][e].data;
            for (i64 a = 0; a < states; a++) theta[a] -= message[a];
        }
        const double top = largest(theta, states);
        if (n_later == 0) {
            bound += top;
            continue;
        }
        const double share = 1.0 / double(std::max(n_later, end - begin - n_later));
        bound += (1.0 - double(n_later) * share) * top;
        for (i64 i = begin; i < end; i++) {
            const i64 e = adj_edge[i], side = adj_side[i], w = edges(e, 1 - side);
            if ((w > v) != forward) continue;
            const i64 n_to = box.size[w];
            double *__restrict mine = box.message[side][e].data, *__restrict theirs = box.message[1 - side][e].data;
            for (i64 a = 0; a < states; a++) {
                const double value = mine[a] + share * theta[a];
                own[a] = value;
                mine[a] = value;
            }
            const double *__restrict row = box.table.data + box.first(side, e) * width;
            const double start = own[0];
            for (i64 b = 0; b < n_to; b++) out[b] = start + row[b];
            i64 a = 1;
            for (; a + 4 <= states; a += 4) {
                const double x0 = own[a], x1 = own[a + 1], x2 = own[a + 2], x3 = own[a + 3];
                const double *__restrict row0 = row + a * width, *__restrict row1 = row0 + width, *__restrict row2 = row1 + width,
                                         *__restrict row3 = row2 + width;
                for (i64 b = 0; b < n_to; b++) {
                    const double low = std::max(x0 + row0[b], x1 + row1[b]), high = std::max(x2 + row2[b], x3 + row3[b]);
                    out[b] = std::max(out[b], std::max(low, high));
                }
            }
            for (; a < states; a++) {
                const double x0 = own[a], *__restrict row0 = row + a * width;
                for (i64 b = 0; b < n_to; b++) out[b] = std::max(out[b], x0 + row0[b]);
            }
            const double peak = largest(out, n_to);
            bound += peak;
            for (i64 b = 0; b < n_to; b++) theirs[b] = out[b] > -INF ? peak - out[b] : 0.0;
        }
    }
    return bound;
}

// Labelling by conditioning in the order of the nodes, as `decode` of trws.
static void packed_decode(const Net &problem, const Box &room, Array<i32> labels) {
    const Net net = problem;
    const Box box = room;
    double *__restrict theta = box.theta.data, *__restrict score = box.own.data;
    for (i64 v = 0; v < box.size.size(); v++) {
        const i64 states = box.size[v];
        const i32 *list = box.label[v].data;
        const double *unary = net.unary[v].data;
        for (i64 a = 0; a < states; a++) theta[a] = unary[list[a]], score[a] = 0.0;
        for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
            const i64 e = net.adj_edge[i], side = net.adj_side[i], w = net.edges(e, 1 - side);
            if (w > v) {
                const double *message = box.message[side][e].data;
                for (i64 a = 0; a < states; a++) theta[a] -= message[a];
            } else {
                const double *row = box.table[box.first(1 - side, e) + box.chosen[w]].data;
                for (i64 a = 0; a < states; a++) score[a] += row[a];
            }
        }
        double best = -INF;
        i64 choice = 0;
        for (i64 a = 0; a < states; a++) {
            const double value = theta[a] + score[a];
            if (value > best) best = value, choice = a;
        }
        box.chosen[v] = i32(choice);
        labels[v] = list[choice];
    }
}

// TRW-S passes on the box, at most max_iter, as long as they promise to close it: two passes have to take away the share `least` of what is above
// `target`. `edge_messages` are improved in place.
//
// `labels` gets a labelling of the box by conditioning, improved by icm_sweeps; its score is returned, and the number of passes.
std::tuple<double, i64> tighten(const Net &net, Array<const u8, 2> domain, Array<double, 3> edge_messages, double height, double target, i64 max_iter,
                                double least, const Box &box, Array<i32> labels) {
    pack(net, domain, edge_messages, box);
    double score = -INF;
    i64 n_passes = 0;
    for (i64 iteration = 0; iteration < max_iter; iteration++) {
        const double bound = packed_sweep(net.unary, net.edges, net.ptr, net.adj_edge, net.adj_side, box, Flag{iteration % 2 == 1});
        n_passes += 1;
        if (iteration == 0) {
            packed_decode(net, box, labels);
            icm_sweeps(net, labels, 10);
            score = total_score(net, labels);
        }
        if (iteration % 2 == 0) continue;
        if (bound <= target || height - bound < least * (bound - target)) break;
        height = bound;
    }
    unpack(net, edge_messages, box);
    return {score, n_passes};
}

// Sum over the edges of the best of table and messages inside the box, whose labels are listed already.
double packed_edge_terms(const Net &problem, Array<const double, 3> edge_messages, const Box &room) {
    const Net net = problem;
    const Box box = room;
    const i64 n_labels = net.unary.shape[1];
    double *__restrict own = box.own.data, *__restrict out = box.out.data;
    double total = 0.0;
    for (i64 e = 0; e < net.edges.size(); e++) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1), t = net.edge_table[e];
        const i64 n_first = box.size[u], n_second = box.size[v], all_first = net.n_states[u], all_second = net.n_states[v];
        const double weight = net.edge_weight[e], *one = edge_messages[0][e].data, *two = edge_messages[1][e].data;
        const i32 *list = box.label[u].data, *other = box.label[v].data;
        double top = -INF;
        if (3 * n_first * n_second < all_first * all_second) {
            for (i64 a = 0; a < n_first; a++) {
                const i64 k = list[a];
                const double *row = net.tables.data + (t * n_labels + k) * n_labels, from = one[k];
                for (i64 b = 0; b < n_second; b++) top = std::max(top, (from + weight * row[other[b]]) + two[other[b]]);
            }
        } else {
            const double *unary = net.unary[u].data;
            for (i64 k = 0; k < all_first; k++) own[k] = unary[k] > -INF ? one[k] : -INF;
            push_first(own, net.tables, t, weight, all_first, all_second, out);
            for (i64 b = 0; b < n_second; b++) top = std::max(top, out[other[b]] + two[other[b]]);
        }
        total += top;
    }
    return total;
}

void bind_box(nb::module_ &m) {
    bind_record<Box>(m);
    def(m, "pack", pack, "net"_a, "domain"_a, "edge_messages"_a, "box"_a, "Labels, tables and messages of the box into ``box``.");
    def(m, "unpack", unpack, "net"_a, "edge_messages"_a, "box"_a, "Write the messages back; those of labels outside the box become 0.");
    def(m, "packed_sweep", packed_sweep, "unary"_a, "edges"_a, "ptr"_a, "adj_edge"_a, "adj_side"_a, "box"_a, "forward"_a,
        "One pass as `trws.sweep`; returns the bound.");
    def(m, "tighten", tighten, "net"_a, "domain"_a, "edge_messages"_a, "height"_a, "target"_a, "max_iter"_a, "least"_a, "box"_a, "labels"_a,
        "TRW-S passes on the box, at most ``max_iter``, as long as they promise to close it: ``(score of a labelling, passes)``.");
}

} // namespace maxsum
