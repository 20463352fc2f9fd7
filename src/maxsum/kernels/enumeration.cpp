#include "enumeration.hpp"

namespace maxsum {

// Share that losses to nodes still open have in the choice of the next node; the checker has the same rule.
constexpr double OPEN_SHARE = 0.3;

// Losses of all pairs into box.table, of all labels into the first row of room.loss, and the order of the nodes.
static void fill(const Net &net, Array<const double, 3> edge_messages, Array<const double, 2> slack, const Box &box, const Enumeration &room,
                 double wanted) {
    const i64 n_nodes = box.size.size(), n_labels = net.unary.shape[1], width = box.table.shape[1];
    i64 at = 0;
    room.offset[0] = 0;
    for (i64 v = 0; v < n_nodes; v++) {
        const i64 states = box.size[v];
        room.offset[v + 1] = room.offset[v] + states;
        double *first = room.loss.data + room.offset[v];
        double loss = 0.0;
        for (i64 a = 0; a < states; a++) {
            const double own = slack(v, box.label(v, a));
            first[a] = own;
            loss += std::min(own, wanted);
        }
        room.inside[v] = loss / double(states) + 1e-9 * wanted;
        room.outside[v] = 0.0;
        room.rank[v] = i32(n_nodes);
    }
    for (i64 e = 0; e < net.edges.size(); e++) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1), n_first = box.size[u], n_second = box.size[v], turned = at + n_first;
        const double weight = net.edge_weight[e], *table = net.tables[net.edge_table[e]].data;
        const double *one = edge_messages[0][e].data, *two = edge_messages[1][e].data;
        const i32 *list = box.label[u].data, *other = box.label[v].data;
        double *__restrict rows = box.table.data + at * width, *__restrict columns = box.table.data + turned * width;
        box.first(0, e) = at, box.first(1, e) = turned;
        double top = -INF;
        for (i64 a = 0; a < n_first; a++) {
            const double from = one[list[a]], *row = table + list[a] * n_labels;
            for (i64 b = 0; b < n_second; b++) {
                const i64 m = other[b];
                const double value = (from + weight * row[m]) + two[m];
                rows[a * width + b] = value;
                top = std::max(top, value);
            }
        }
        double loss = 0.0;
        for (i64 a = 0; a < n_first; a++) {
            for (i64 b = 0; b < n_second; b++) {
                const double value = top - rows[a * width + b];
                rows[a * width + b] = value;
                columns[b * width + a] = value;
                loss += std::min(value, wanted);
            }
        }
        room.mean[e] = loss / double(n_first * n_second);
        room.outside[u] += room.mean[e];
        room.outside[v] += room.mean[e];
        at = turned + n_second;
    }
    for (i64 i = 0; i < n_nodes; i++) {
        double best = INF;
        i64 choice = -1;
        for (i64 v = 0; v < n_nodes; v++) {
            if (room.rank[v] == n_nodes) {
                const double value = double(box.size[v]) / (room.inside[v] + OPEN_SHARE * room.outside[v]);
                if (choice < 0 || value < best) best = value, choice = v;
            }
        }
        room.order[i] = i32(choice), room.rank[choice] = i32(i);
        for (i64 j = net.ptr[choice]; j < net.ptr[choice + 1]; j++) {
            const i64 e = net.adj_edge[j], w = net.edges(e, 1 - net.adj_side[j]);
            room.inside[w] += room.mean[e];
            room.outside[w] -= room.mean[e];
        }
    }
}

// Give the node at `depth` its a-th label: losses of the open nodes into the next row. Returns the least loss in all.
static double give(const Net &net, const Box &box, const Enumeration &room, i64 depth, i64 a) {
    const i64 *offset = room.offset.data;
    const double *loss = room.loss[depth].data, *least = room.least[depth].data;
    double *__restrict next = room.loss[depth + 1].data, *__restrict next_least = room.least[depth + 1].data;
    const i64 v = room.order[depth], n_nodes = box.size.size(), width = box.table.shape[1];
    double here = room.total[depth] - least[v] + loss[offset[v] + a];
    for (i64 i = depth + 1; i < n_nodes; i++) {
        const i64 w = room.order[i], last = offset[w + 1];
        next_least[w] = least[w];
        for (i64 b = offset[w]; b < last; b++) next[b] = loss[b];
    }
    for (i64 j = net.ptr[v]; j < net.ptr[v + 1]; j++) {
        const i64 e = net.adj_edge[j], side = net.adj_side[j], w = net.edges(e, 1 - side);
        if (room.rank[w] <= depth) continue;
        const double *row = box.table.data + (box.first(side, e) + a) * width;
        double *own = next + offset[w], low = INF;
        const i64 states = box.size[w];
        for (i64 b = 0; b < states; b++) {
            own[b] += row[b];
            low = std::min(low, own[b]);
        }
        here += low - next_least[w];
        next_least[w] = low;
    }
    room.total[depth + 1] = here;
    return here;
}

// Close all labellings of the box whose loss is at least `wanted`, and look at the others.
//
// The labels of the box are listed in `box`, their losses in `slack`. Returns the number of partial labellings that were opened (more than `limit`:
// it gave up), and the least loss of a labelling below `wanted`, which is then in `labels` (inf: there is none). A labelling that is found lowers
// `wanted` to its loss less `closed_gap`.
std::tuple<i64, double> enumerate_box(const Net &problem, Array<const double, 3> edge_messages, Array<const double, 2> slack, const Box &boxed,
                                      const Enumeration &scratch, double wanted, double closed_gap, i64 limit, Array<i32> labels) {
    const Net net = problem;
    const Box box = boxed;
    const Enumeration room = scratch;
    fill(net, edge_messages, slack, box, room, wanted);
    const i64 n_nodes = box.size.size();
    i64 opened = 0;
    double best = INF, total = 0.0;
    for (i64 v = 0; v < n_nodes; v++) {
        double low = INF;
        for (i64 a = room.offset[v]; a < room.offset[v + 1]; a++) low = std::min(low, room.loss(0, a));
        room.least(0, v) = low;
        total += low;
    }
    if (total >= wanted) return {0, best};
    room.at[0] = 0, room.total[0] = total;
    i64 depth = 0;
    while (depth >= 0) {
        const i64 v = room.order[depth], states = box.size[v];
        const double rest = room.total[depth] - room.least(depth, v), *loss = room.loss[depth].data + room.offset[v];
        i64 a = room.at[depth];
        while (a < states && rest + loss[a] >= wanted) a += 1;
        if (a == states) {
            depth -= 1;
            continue;
        }
        room.at[depth] = i32(a + 1);
        room.found[v] = box.label(v, a);
        if (depth == n_nodes - 1) {
            best = rest + loss[a];
            labels.copy_from(room.found);
            wanted = std::min(wanted, best - closed_gap);
            continue;
        }
        opened += 1;
        if (opened > limit) return {opened, best};
        if (give(net, box, room, depth, a) < wanted) {
            depth += 1;
            room.at[depth] = 0;
        }
    }
    return {opened, best};
}

void bind_enumeration(nb::module_ &m) {
    bind_record<Enumeration>(m);
    def(m, "enumerate_box", enumerate_box, "net"_a, "edge_messages"_a, "slack"_a, "box"_a, "room"_a, "wanted"_a, "closed_gap"_a, "limit"_a,
        "labels"_a, "Close all labellings of the box whose loss is at least ``wanted``, and look at the others: ``(opened, least loss)``.");
}

} // namespace maxsum
