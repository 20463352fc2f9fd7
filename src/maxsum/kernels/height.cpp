#include "height.hpp"

#include "message.hpp"

namespace maxsum {

// Sum over nodes of the best reparametrised score, and of its distance from the labelling (where given).
Terms node_terms(const Net &net, Array<const double, 3> edge_messages, Array<const double, 2> clique_messages, Array<const i32> labels) {
    std::vector<double> theta(net.unary.shape[1]);
    double top_sum = 0.0, gap = 0.0;
    for (i64 v = 0; v < net.n_states.size(); v++) {
        const i64 states = net.n_states[v];
        for (i64 k = 0; k < states; k++) theta[k] = net.unary(v, k);
        for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
            const double *message = &edge_messages(net.adj_side[i], net.adj_edge[i], 0);
            for (i64 k = 0; k < states; k++) theta[k] -= message[k];
        }
        for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
            const double *message = &clique_messages(net.member[i], 0);
            for (i64 k = 0; k < states; k++) theta[k] -= message[k];
        }
        const double top = largest(theta.data(), states);
        top_sum += top;
        if (labels.size()) gap += std::max(top - theta[labels[v]], 0.0);
    }
    return {top_sum, gap};
}

// The same for the edges first .. last - 1.
Terms edge_terms(const Net &net, Array<const double, 3> edge_messages, Array<const i32> labels, i64 first, i64 last) {
    const i64 n_labels = net.unary.shape[1];
    std::vector<double> own(n_labels), out(n_labels);
    double top_sum = 0.0, gap = 0.0;
    for (i64 e = first; e < last; e++) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1), t = net.edge_table[e];
        const i64 n_first = net.n_states[u], n_second = net.n_states[v];
        const double weight = net.edge_weight[e];
        const double *one = edge_messages[0][e].data, *two = edge_messages[1][e].data;
        double top = -INF;
        if (n_labels <= 4) {
            for (i64 k = 0; k < n_first; k++) {
                for (i64 m = 0; m < n_second; m++) {
                    if (net.unary(u, k) > -INF && net.unary(v, m) > -INF) top = std::max(top, (one[k] + weight * net.tables(t, k, m)) + two[m]);
                }
            }
        } else {
            for (i64 k = 0; k < n_first; k++) own[k] = net.unary(u, k) > -INF ? one[k] : -INF;
            push_first(own.data(), net.tables, t, weight, n_first, n_second, out.data());
            for (i64 m = 0; m < n_second; m++) {
                if (net.unary(v, m) > -INF) top = std::max(top, out[m] + two[m]);
            }
        }
        top_sum += top;
        if (labels.size()) {
            const i64 k = labels[u], m = labels[v];
            const double at = (one[k] + weight * net.tables(t, k, m)) + two[m];
            gap += net.unary(u, k) > -INF && net.unary(v, m) > -INF ? std::max(top - at, 0.0) : INF;
        }
    }
    return {top_sum, gap};
}

// The same for the cliques: the larger of the best without the reward and the best with it.
Terms clique_terms(const Net &net, Array<const double, 2> clique_messages, Array<const i32> labels) {
    const i64 n_labels = net.unary.shape[1];
    std::vector<double> together(n_labels);
    double top_sum = 0.0, gap = 0.0;
    for (i64 c = 0; c + 1 < net.clique_ptr.size(); c++) {
        double apart = 0.0, at = 0.0;
        for (i64 k = 0; k < n_labels; k++) together[k] = net.clique_weights(c, k);
        bool agree = true;
        i64 common = -1;
        for (i64 i = net.clique_ptr[c]; i < net.clique_ptr[c + 1]; i++) {
            const i64 v = net.clique_nodes[i];
            double best = -INF;
            for (i64 k = 0; k < n_labels; k++) {
                const double psi = k < net.n_states[v] && net.unary(v, k) > -INF ? clique_messages(i, k) : -INF;
                together[k] += psi;
                best = std::max(best, psi);
            }
            apart += best;
            if (labels.size()) {
                at += clique_messages(i, labels[v]);
                if (common < 0) {
                    common = labels[v];
                } else if (common != labels[v]) {
                    agree = false;
                }
            }
        }
        const double top = std::max(apart, largest(together.data(), n_labels));
        top_sum += top;
        if (labels.size()) gap += std::max(top - (at + (agree ? net.clique_weights(c, common) : 0.0)), 0.0);
    }
    return {top_sum, gap};
}

void bind_height(nb::module_ &m) {
    def(m, "node_terms", node_terms, "net"_a, "edge_messages"_a, "clique_messages"_a, "labels"_a,
        "Sum over nodes of the best reparametrised score, and of its distance from the labelling (where given).");
    def(m, "edge_terms", edge_terms, "net"_a, "edge_messages"_a, "labels"_a, "first"_a, "last"_a, "The same for the edges ``first .. last - 1``.");
    def(m, "clique_terms", clique_terms, "net"_a, "clique_messages"_a, "labels"_a,
        "The same for the cliques: the larger of the best without the reward and the best with it.");
}

} // namespace maxsum
