// Sequential tree-reweighted message passing (TRW-S, Kolmogorov 2006), on the messages of the certificate.
//
// A forward pass visits the nodes in order. At node v, with theta_v = q_v - sum of phi over its terms and gamma_v = 1 / max(n_forward, n_backward),
// each edge to a later node w takes a share, phi_v <- phi_v + gamma_v theta_v, and passes on what it can: phi_w(l) <- -max_k [g(k, l) + phi_v(k)],
// shifted to a minimum of 0. After the pass the height of the reparametrised problem is the bound of TRW-S, so the messages need no conversion. A
// backward pass is the same in the opposite order. Cliques are visited likewise; a node first takes back what its clique holds for it.
#include "lanes.hpp"
#include "message.hpp"
#include "net.hpp"
#include "poll.hpp"

namespace maxsum {

// Give clique member i all that its clique holds for it: its message becomes minus its max-marginal.
static void pull_clique(const Net &net, i64 i, Array<double, 2> clique_messages, double *together) {
    const i64 n_labels = net.unary.shape[1], c = net.member_clique[i];
    double apart = 0.0;
    for (i64 k = 0; k < n_labels; k++) together[k] = net.clique_weights(c, k);
    for (i64 j = net.clique_ptr[c]; j < net.clique_ptr[c + 1]; j++) {
        if (j == i) continue;
        const i64 w = net.clique_nodes[j], states = net.n_states[w];
        const double *unary = net.unary[w].data, *message = clique_messages[j].data;
        double best = -INF;
        for (i64 k = 0; k < states; k++) {
            const bool has = unary[k] > -INF;
            together[k] = has ? together[k] + message[k] : -INF;
            best = std::max(best, has ? message[k] : -INF);
        }
        for (i64 k = states; k < n_labels; k++) together[k] = -INF;
        apart += best;
    }
    const i64 v = net.clique_nodes[i];
    const double *unary = net.unary[v].data;
    double *message = clique_messages[i].data;
    for (i64 k = 0; k < net.n_states[v]; k++) message[k] = unary[k] > -INF ? -std::max(apart, together[k]) : 0.0;
}

// Whether the clique of member i has a node that is still to come in this pass, and one that has been.
struct Ahead {
    bool later, earlier;
};

static Ahead ahead(const Net &net, i64 i, bool forward) {
    const i64 c = net.member_clique[i], v = net.clique_nodes[i];
    bool later = false, earlier = false;
    for (i64 j = net.clique_ptr[c]; j < net.clique_ptr[c + 1]; j++) {
        later |= net.clique_nodes[j] > v;
        earlier |= net.clique_nodes[j] < v;
    }
    return forward ? Ahead{later, earlier} : Ahead{earlier, later};
}

// Add to `score` what the clique of member i is worth when members visited before have their labels.
static void condition_clique(const Net &net, i64 i, bool forward, Array<const double, 2> clique_messages, Array<const i32> labels, double *score,
                             double *together) {
    const i64 n_labels = net.unary.shape[1], c = net.member_clique[i], v = net.clique_nodes[i];
    for (i64 k = 0; k < n_labels; k++) together[k] = net.clique_weights(c, k);
    double apart = 0.0;
    for (i64 j = net.clique_ptr[c]; j < net.clique_ptr[c + 1]; j++) {
        const i64 w = net.clique_nodes[j];
        if (j == i) continue;
        const i64 states = net.n_states[w], own = labels[w];
        const double *unary = net.unary[w].data, *message = clique_messages[j].data;
        if ((w > v) != forward) {
            for (i64 k = 0; k < n_labels; k++) together[k] = own == k ? together[k] : -INF;
            continue;
        }
        double best = -INF;
        for (i64 k = 0; k < n_labels; k++) {
            if (k < states && unary[k] > -INF) {
                together[k] += message[k];
                best = std::max(best, message[k]);
            } else {
                together[k] = -INF;
            }
        }
        apart += best > -INF ? best : 0.0;
    }
    const double *message = clique_messages[i].data;
    for (i64 k = 0; k < net.n_states[v]; k++) {
        if (score[k] > -INF) score[k] += message[k] + std::max(apart, together[k]);
    }
}

// Labelling by conditioning, in the order of the next pass: each node takes its best label given the labels of its neighbours visited before and the
// messages of those to come.
static void decode(const Net &problem, Flag next_forward, Array<const double, 3> edge_messages, Array<const double, 2> clique_messages,
                   Array<i32> labels) {
    const Net net = problem;
    const bool forward = next_forward;
    const i64 n_nodes = net.unary.shape[0], n_labels = net.unary.shape[1];
    const Rows scratch(3, n_labels);
    double *__restrict theta = scratch[0], *__restrict score = scratch[1], *together = scratch[2];
    Poll poll;
    for (i64 step = 0; step < n_nodes; step++) {
        poll();
        const i64 v = forward ? step : n_nodes - 1 - step, states = net.n_states[v];
        const i64 first = net.ptr[v], last = net.ptr[v + 1], first_member = net.member_ptr[v], last_member = net.member_ptr[v + 1];
        const double *unary = net.unary[v].data;
        for (i64 k = 0; k < states; k++) theta[k] = unary[k];
        for (i64 i = first; i < last; i++) {
            const double *message = edge_messages[net.adj_side[i]][net.adj_edge[i]].data;
            for (i64 k = 0; k < states; k++) theta[k] -= message[k];
        }
        for (i64 i = first_member; i < last_member; i++) {
            const double *message = clique_messages[net.member[i]].data;
            for (i64 k = 0; k < states; k++) theta[k] -= message[k];
        }
        for (i64 k = 0; k < states; k++) score[k] = theta[k];
        for (i64 i = first; i < last; i++) {
            const i64 e = net.adj_edge[i], side = net.adj_side[i], w = net.edges(e, 1 - side);
            if ((w > v) == forward) continue;
            const double weight = net.edge_weight[e];
            const i64 y = labels[w];
            const double *message = edge_messages[side][e].data, *table = net.tables[net.edge_table[e]].data;
            if (side == 1) {
                const double *row = table + y * n_labels;
                for (i64 k = 0; k < states; k++) score[k] += message[k] + weight * row[k];
            } else {
                for (i64 k = 0; k < states; k++) score[k] += message[k] + weight * table[k * n_labels + y];
            }
        }
        for (i64 i = first_member; i < last_member; i++) condition_clique(net, net.member[i], forward, clique_messages, labels, score, together);
        double best = -INF, alone = -INF;
        i64 label = -1, fallback = 0;
        for (i64 k = 0; k < states; k++) {
            if (score[k] > best) best = score[k], label = k;
            if (theta[k] > alone) alone = theta[k], fallback = k;
        }
        labels[v] = i32(label >= 0 ? label : fallback);
    }
}

// One pass; returns the bound of nodes and edges (cliques apart).
static double sweep(const Net &problem, Flag is_forward, Array<double, 3> edge_messages, Array<double, 2> clique_messages) {
    const Net net = problem;
    const bool forward = is_forward;
    const i64 n_nodes = net.unary.shape[0], n_labels = net.unary.shape[1];
    const Rows scratch(3, n_labels);
    double *__restrict theta = scratch[0], *__restrict out = scratch[1], *__restrict own = scratch[2];
    double bound = 0.0;
    Poll poll;
    for (i64 step = 0; step < n_nodes; step++) {
        poll();
        const i64 v = forward ? step : n_nodes - 1 - step, states = net.n_states[v];
        const i64 first = net.ptr[v], last = net.ptr[v + 1], first_member = net.member_ptr[v], last_member = net.member_ptr[v + 1];
        for (i64 i = first_member; i < last_member; i++) pull_clique(net, net.member[i], clique_messages, out);
        const double *unary = net.unary[v].data;
        for (i64 k = 0; k < states; k++) theta[k] = unary[k];
        i64 n_later = 0, n_earlier = 0;
        for (i64 i = first; i < last; i++) {
            const i64 e = net.adj_edge[i], side = net.adj_side[i];
            const double *message = edge_messages[side][e].data;
            for (i64 k = 0; k < states; k++) theta[k] -= message[k];
            const bool later = (net.edges(e, 1 - side) > v) == forward;
            n_later += later, n_earlier += !later;
        }
        for (i64 i = first_member; i < last_member; i++) {
            const double *message = clique_messages[net.member[i]].data;
            for (i64 k = 0; k < states; k++) theta[k] -= message[k];
            const Ahead found = ahead(net, net.member[i], forward);
            n_later += found.later, n_earlier += found.earlier;
        }
        const double top = largest(theta, states);
        if (n_later == 0) {
            bound += top;
            continue;
        }
        const double share = 1.0 / double(std::max(n_later, n_earlier));
        bound += (1.0 - double(n_later) * share) * top;
        for (i64 i = first; i < last; i++) {
            const i64 e = net.adj_edge[i], side = net.adj_side[i], w = net.edges(e, 1 - side);
            if ((w > v) != forward) continue;
            double *message = edge_messages[side][e].data, *theirs = edge_messages[1 - side][e].data;
            for (i64 k = 0; k < states; k++) {
                const double value = message[k] + share * theta[k];
                own[k] = value;
                message[k] = value > -INF ? value : 0.0;
            }
            const i64 n_to = net.n_states[w];
            push(net.tables, net.turned, net.edge_table[e], net.edge_weight[e], side, own, states, n_to, out);
            const double *other = net.unary[w].data;
            for (i64 k = 0; k < n_to; k++) out[k] = other[k] > -INF ? out[k] : -INF;
            const double peak = largest(out, n_to);
            bound += peak;
            for (i64 k = 0; k < n_to; k++) theirs[k] = out[k] > -INF ? peak - out[k] : 0.0;
        }
        for (i64 i = first_member; i < last_member; i++) {
            if (!ahead(net, net.member[i], forward).later) continue;
            double *message = clique_messages[net.member[i]].data;
            for (i64 k = 0; k < states; k++) {
                if (theta[k] > -INF) message[k] += share * theta[k];
            }
        }
    }
    return bound;
}

void bind_trws(nb::module_ &m) {
    def(m, "decode", decode, "net"_a, "forward"_a, "edge_messages"_a, "clique_messages"_a, "labels"_a,
        "Labelling by conditioning, in the order of the next pass: each node takes its best label given the labels of its neighbours visited before "
        "and the messages of those to come.");
    def(m, "sweep", sweep, "net"_a, "forward"_a, "edge_messages"_a, "clique_messages"_a,
        "One pass; returns the bound of nodes and edges (cliques apart).");
}

} // namespace maxsum
