// Dual ascent over nodes and edges: each is a block with a simplex of its own, and messages make blocks agree.
//
// Block t of nodes has masses nu_t(k) >= 0, block e of edges nu_e(k, l) >= 0, both with the sum c of their example. Steps ascend
//
//     <L, nu> - 1/2 |w|^2 - <phi, d> - rho/2 |d|^2,    w = [Psi(c y) - Psi(nu)]_+,    d_et(k) = nu_t(k) - sum_l nu_e(k, l),
//
// block by block. Weights and m = phi + rho d are all that a block has to know of the others, so these are what is kept.
#include "design.hpp"
#include "poll.hpp"
#include "simplex.hpp"

namespace maxsum {

// The blocks, and what does not change of them: kernels/records.py tells what the arrays hold.
struct Factors {
    Array<double, 2> node, edge;
    Array<double, 3> messages;
    Array<double> plain, value;
    Array<const u8> nonneg;
    Array<const double> node_limit, edge_limit, node_curve;
    double edge_repeat;
    Array<const i32> n_states;
    Array<const i64> ptr;
    Array<const i32> adj_edge;
    Array<const i8> adj_side;
    MAXSUM_RECORD(Factors, node, edge, messages, plain, value, nonneg, node_limit, edge_limit, node_curve, edge_repeat, n_states, ptr, adj_edge,
                  adj_side)
};

} // namespace maxsum

MAXSUM_RECORD_CASTER(Factors)

namespace maxsum {

// Scores of the labels of a node less its messages, without the loss; returns that of the truth before messages.
static double node_scores(const Design &design, const Factors &factors, const double *w, Array<const double, 3> messages, i64 v,
                          double *__restrict score) {
    const i64 n_labels = factors.node.shape[1];
    for (i64 k = 0; k < n_labels; k++) score[k] = 0.0;
    const i64 end = design.x_ptr[v + 1];
    for (i64 i = design.x_ptr[v]; i < end; i++) {
        const i64 f = design.x_col[i], base = design.node_base[f];
        const double x = design.x_val[i];
        if (base >= 0) {
            const double *row = w + base;
            for (i64 k = 0; k < n_labels; k++) score[k] += x * row[k];
        } else {
            const i32 *index = design.node_index[f].data;
            for (i64 k = 0; k < n_labels; k++) {
                if (index[k] >= 0) score[k] += x * w[index[k]];
            }
        }
    }
    const double truth = score[design.truth[v]];
    for (i64 q = factors.ptr[v]; q < factors.ptr[v + 1]; q++) {
        const double *own = &messages(factors.adj_side[q], factors.adj_edge[q], 0);
        for (i64 k = 0; k < n_labels; k++) score[k] -= own[k];
    }
    return truth;
}

// Scores of the pairs of an edge, with its messages; returns that of the truth before messages.
static double edge_scores(const Design &design, const double *w, Array<const double, 3> messages, i64 e, double *__restrict score) {
    const i64 n_labels = messages.shape[2], n_pairs = n_labels * n_labels;
    for (i64 pair = 0; pair < n_pairs; pair++) score[pair] = 0.0;
    const i64 end = design.f_ptr[e + 1];
    for (i64 i = design.f_ptr[e]; i < end; i++) {
        const i32 *index = design.edge_index[design.f_col[i]].data;
        const double x = design.f_val[i];
        for (i64 pair = 0; pair < n_pairs; pair++) {
            if (index[pair] >= 0) score[pair] += x * w[index[pair]];
        }
    }
    const double truth = score[design.truth[design.edges(e, 0)] * n_labels + design.truth[design.edges(e, 1)]];
    const double *first = &messages(0, e, 0), *second = &messages(1, e, 0);
    for (i64 k = 0; k < n_labels; k++) {
        for (i64 m = 0; m < n_labels; m++) score[k * n_labels + m] += first[k] + second[m];
    }
    return truth;
}

// Change a weight; returns by how much it changes after the cut-off.
static double add(const Factors &factors, i64 p, double amount) {
    const double before = factors.value[p], plain = factors.plain[p] + amount;
    const double after = factors.nonneg[p] ? std::max(plain, 0.0) : plain;
    factors.plain[p] = plain;
    factors.value[p] = after;
    return after - before;
}

// The best masses of a node, all else fixed: a projection, as its labels meet different weights. Returns its gap before.
static double visit_node(const Design &design, const Factors &factors, double rho, i64 v, double *score, double *change, double *work) {
    const i64 n = factors.n_states[v];
    const double limit = factors.node_limit[v];
    double *mass = factors.node[v].data;
    node_scores(design, factors, factors.value.data, factors.messages, v, score);
    double top = -INF, mean = 0.0;
    for (i64 k = 0; k < n; k++) {
        score[k] += design.loss(v, k);
        top = std::max(top, score[k]);
        mean += score[k] * mass[k];
    }
    const double curve = factors.node_curve[v] + rho * double(factors.ptr[v + 1] - factors.ptr[v]);
    if (curve > 0.0) {
        for (i64 k = 0; k < n; k++) change[k] = (mass[k] + score[k] / curve) / limit;
        const double tau = threshold(change, n, work);
        for (i64 k = 0; k < n; k++) change[k] = limit * std::max(change[k] - tau, 0.0) - mass[k];
    } else { // neither features nor edges: any label with the largest loss
        i64 best = 0;
        for (i64 k = 0; k < n; k++) best = score[k] > score[best] ? k : best;
        for (i64 k = 0; k < n; k++) change[k] = (k == best ? limit : 0.0) - mass[k];
    }
    for (i64 k = 0; k < n; k++) {
        if (change[k] == 0.0) continue;
        mass[k] = std::max(mass[k] + change[k], 0.0);
        const i64 end = design.x_ptr[v + 1];
        for (i64 i = design.x_ptr[v]; i < end; i++) {
            const i64 p = design.node_index(design.x_col[i], k);
            if (p >= 0) add(factors, p, -design.x_val[i] * change[k]);
        }
        for (i64 q = factors.ptr[v]; q < factors.ptr[v + 1]; q++) factors.messages(factors.adj_side[q], factors.adj_edge[q], k) += rho * change[k];
    }
    return limit * top - mean;
}

// The scores of all pairs that meet weight p, which has changed.
static void follow(const i32 *index, i32 p, double turn, i64 n_pairs, double *__restrict score) {
    for (i64 pair = 0; pair < n_pairs; pair++) score[pair] = index[pair] == p ? score[pair] + turn : score[pair];
}

// Pairwise steps on the masses of an edge; returns its gap before.
static double visit_edge(const Design &design, const Factors &factors, double rho, i64 e, i64 n_steps, double *score) {
    const i64 n_labels = factors.messages.shape[2], n_pairs = factors.edge.shape[1];
    const i64 first = factors.n_states[design.edges(e, 0)], second = factors.n_states[design.edges(e, 1)];
    double *mass = factors.edge[e].data, *to_first = &factors.messages(0, e, 0), *to_second = &factors.messages(1, e, 0);
    const i64 begin = design.f_ptr[e], end = design.f_ptr[e + 1];
    edge_scores(design, factors.value.data, factors.messages, e, score);
    if (first < n_labels || second < n_labels) {
        for (i64 k = 0; k < n_labels; k++) {
            for (i64 m = 0; m < n_labels; m++) {
                if (k >= first || m >= second) score[k * n_labels + m] = -INF;
            }
        }
    }
    double gap = 0.0;
    for (i64 step = 0; step < n_steps; step++) {
        const auto [high, low] = ends(score, mass, n_pairs);
        if (step == 0) {
            for (i64 pair = 0; pair < n_pairs; pair++) {
                if (mass[pair] > 0.0) gap += mass[pair] * (score[high] - score[pair]);
            }
        }
        if (low < 0 || is_flat(score, high, low)) break;
        const i64 k = high / n_labels, m = high % n_labels, s = low / n_labels, t = low % n_labels;
        double curve = 2.0 * rho * double((k != s) + (m != t));
        for (i64 i = begin; i < end; i++) {
            const i32 *index = design.edge_index[design.f_col[i]].data;
            if (index[high] != index[low]) curve += 2.0 * factors.edge_repeat * (design.f_val[i] * design.f_val[i]);
        }
        const double size = exchange(mass, high, low, score[high] - score[low], curve);
        // Weights and messages follow, and the scores of all pairs that they belong to.
        for (i64 i = begin; i < end; i++) {
            const i32 *index = design.edge_index[design.f_col[i]].data;
            const double x = design.f_val[i];
            const i32 to = index[high], back = index[low];
            if (to == back) continue;
            if (to >= 0) follow(index, to, x * add(factors, to, -x * size), n_pairs, score);
            if (back >= 0) follow(index, back, x * add(factors, back, x * size), n_pairs, score);
        }
        const double turn = rho * size;
        if (k != s) {
            to_first[k] -= turn;
            to_first[s] += turn;
            for (i64 other = 0; other < n_labels; other++) {
                score[k * n_labels + other] -= turn;
                score[s * n_labels + other] += turn;
            }
        }
        if (m != t) {
            to_second[m] -= turn;
            to_second[t] += turn;
            for (i64 other = 0; other < n_labels; other++) {
                score[other * n_labels + m] -= turn;
                score[other * n_labels + t] += turn;
            }
        }
    }
    return gap;
}

// Visit the blocks `order` (nodes, then edges after the number of nodes) so many times; returns the sum of the gaps that they had in the last pass.
static double factor_passes(const Design &design, const Factors &factors, double rho, Array<const i64> order, i64 n_passes, i64 n_steps) {
    const i64 n_nodes = factors.node.shape[0], n_labels = factors.node.shape[1];
    std::vector<double> score(n_labels), change(n_labels), work(n_labels), pairs(n_labels * n_labels);
    double gap = 0.0;
    Poll poll;
    for (i64 pass = 0; pass < n_passes; pass++) {
        gap = 0.0;
        for (i64 i : order) {
            poll();
            if (i < n_nodes) {
                gap += visit_node(design, factors, rho, i, score.data(), change.data(), work.data());
            } else {
                gap += visit_edge(design, factors, rho, i - n_nodes, n_steps, pairs.data());
            }
        }
    }
    return gap;
}

// The step of the multipliers, m <- m + rho d.
static void agree(const Design &design, const Factors &factors, double rho) {
    const i64 n_labels = factors.messages.shape[2];
    for (i64 e = 0; e < design.edges.size(); e++) {
        const double *table = factors.edge[e].data;
        const double *first = factors.node[design.edges(e, 0)].data, *second = factors.node[design.edges(e, 1)].data;
        for (i64 k = 0; k < n_labels; k++) {
            double row = 0.0, column = 0.0;
            for (i64 m = 0; m < n_labels; m++) {
                row += table[k * n_labels + m];
                column += table[m * n_labels + k];
            }
            factors.messages(0, e, k) += rho * (first[k] - row);
            factors.messages(1, e, k) += rho * (second[k] - column);
        }
    }
}

// The slack of each example that messages prove for weights: sum_t max_k + sum_e max_kl less the score of the truth.
static void message_bounds(const Design &design, const Factors &factors, Array<const double> w, Array<const double, 3> messages,
                           Array<double> slack) {
    const i64 n_labels = factors.node.shape[1];
    std::vector<double> score(n_labels), pairs(n_labels * n_labels);
    for (i64 j = 0; j < slack.size(); j++) {
        double total = 0.0;
        for (i64 v = design.node_ptr[j]; v < design.node_ptr[j + 1]; v++) {
            const double truth = node_scores(design, factors, w.data, messages, v, score.data());
            double top = -INF;
            for (i64 k = 0; k < factors.n_states[v]; k++) top = std::max(top, score[k] + design.loss(v, k));
            total += top - truth;
        }
        for (i64 e = design.edge_ptr[j]; e < design.edge_ptr[j + 1]; e++) {
            const double truth = edge_scores(design, w.data, messages, e, pairs.data());
            const i64 first = factors.n_states[design.edges(e, 0)], second = factors.n_states[design.edges(e, 1)];
            double top = -INF;
            for (i64 k = 0; k < first; k++) top = std::max(top, largest(&pairs[k * n_labels], second));
            total += top - truth;
        }
        slack[j] = total;
    }
}

void bind_factor_ascent(nb::module_ &m) {
    bind_record<Factors>(m);
    def(m, "factor_passes", factor_passes, "design"_a, "factors"_a, "rho"_a, "order"_a, "n_passes"_a, "n_steps"_a,
        "Visit the blocks ``order`` (nodes, then edges after the number of nodes) so many times; returns the sum of their gaps in the last pass.");
    def(m, "agree", agree, "design"_a, "factors"_a, "rho"_a, "The step of the multipliers, m <- m + rho d.");
    def(m, "message_bounds", message_bounds, "design"_a, "factors"_a, "w"_a, "messages"_a, "slack"_a,
        "The slack of each example that messages prove for weights: sum_t max_k + sum_e max_kl less the score of the truth.");
}

} // namespace maxsum
