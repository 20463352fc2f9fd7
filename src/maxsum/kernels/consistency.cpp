#include "consistency.hpp"

namespace maxsum {

// Remove from `domain` (N x K) every label without a partner, in place; false if a node is left empty.
//
// `queue` and `queued` (N) are scratch. If `start_all` is false, `queued` marks the nodes whose domain has shrunk since the last call.
bool arc_consistency(const Net &problem, Array<u8, 2> domain, Array<i32> queue, Array<u8> queued, Flag start_all) {
    const Net net = problem;
    const i64 n_nodes = net.n_states.size(), n_labels = net.unary.shape[1];
    i64 head = 0, size = 0;
    const auto after = [n_nodes](i64 at) { return at >= n_nodes ? at - n_nodes : at; };
    for (i64 v = 0; v < n_nodes; v++) {
        if (start_all || queued[v]) {
            queue[after(head + size)] = i32(v);
            queued[v] = 1;
            size += 1;
        }
    }
    while (size > 0) {
        const i64 v = queue[head];
        head = after(head + 1);
        size -= 1;
        queued[v] = 0;
        const u8 *mine = domain[v].data;
        const i64 states = net.n_states[v];
        for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
            const i64 e = net.adj_edge[i], side = net.adj_side[i], w = net.edges(e, 1 - side), n_other = net.n_states[w];
            const double *table = net.tables[net.edge_table[e]].data;
            u8 *theirs = domain[w].data;
            const i64 step = side == 0 ? n_labels : 1, jump = side == 0 ? 1 : n_labels;
            bool shrunk = false;
            i64 left = 0;
            for (i64 m = 0; m < n_other; m++) {
                if (!theirs[m]) continue;
                const double *from = table + m * jump;
                bool found = false;
                for (i64 k = 0; k < states; k++) {
                    if (mine[k] && from[k * step] > -INF) {
                        found = true;
                        break;
                    }
                }
                if (found) {
                    left += 1;
                } else {
                    theirs[m] = 0;
                    shrunk = true;
                }
            }
            if (left == 0) return false;
            if (shrunk && !queued[w]) {
                queue[after(head + size)] = i32(w);
                queued[w] = 1;
                size += 1;
            }
        }
    }
    return true;
}

void bind_consistency(nb::module_ &m) {
    def(m, "arc_consistency", arc_consistency, "net"_a, "domain"_a, "queue"_a, "queued"_a, "start_all"_a,
        "Remove from ``domain`` (uint8, N x K) every label without a partner, in place; False if a node is left empty.");
}

} // namespace maxsum
