// Passes of messages over nodes and factors, and the bound that messages give.
//
// With messages phi the score of a labelling is the sum of q_v(y_v) - sum of phi_i(y_v) over the slots i of v, over all nodes, and of theta_f(y_f) +
// sum of phi_i over the slots of f, over all factors. So the sum of the maxima of these terms is a bound, whatever phi is.
//
// A pass visits the nodes in order, as TRW-S does (Kolmogorov 2006; for factors Kolmogorov 2015, with separators of one node). Node v first takes
// what its factors hold for it: phi_i = top - m_i, where m_i(k) is the maximum of the factor over tuples with label k at v, without phi_i, and `top`
// the largest of these. Now theta_v = q_v - sum of phi, and each factor with a member that is still to come takes the share theta_v / max(number of
// such factors, number of factors with a member that has been). Neither step makes the bound worse: after the first the best value of each factor is
// the same for all labels of v, so that its maximum and that of v are reached together.
//
// Factors for which one member costs as much as all are shared out at once where the pass reaches their last member: phi_i + theta_i of all members
// go in, and each member takes the n-th part of its max-marginal (or of a large count, where there is one, a price for all members that count).
// Before, the maxima of factor and members sum to no less than the maximum M of their sum; after, the factor has M and the members 0 at most (up to
// constants between the two). Until then a share of theta_v for such a factor stays at v.
//
// A label that is impossible in a factor, but not forbidden at the node, is kept as bad for the node as it was or as the worst possible label,
// whichever is worse: messages stay finite, and the bound does not rise.
#include "factors.hpp"

namespace maxsum {

namespace {

// Messages have -inf at forbidden labels during a pass, so that factors read them as they lie, and 0 there before and after.
class Masked {
    Array<double, 2> messages;

  public:
    Masked(const FactorNet &net, Array<double, 2> messages) : messages(messages) { mask(net, messages.data); }
    ~Masked() {
        for (double &x : messages) x = x > -INF ? x : 0.0;
    }
    Masked(const Masked &) = delete;
    Masked &operator=(const Masked &) = delete;
};

// How the members of a factor take their parts in a pass.
enum Manner : u8 {
    AFRESH,  // each on its own: tables
    SUMS,    // from sums that follow the messages: agreement
    ALONG,   // automata whose members are visited in the order of their slots,
    AGAINST, // and in the opposite order
    WHOLE    // all at once
};

class Pass {
    const FactorNet net;
    const bool forward;
    const i64 n_labels, n_factors;
    double *const phi; // masked
    const std::vector<i32> owner;
    std::vector<i32> begin, end; // first and last member (node) of each factor in the order of the pass
    std::vector<u8> manner;
    std::vector<double> top;   // of each factor
    std::vector<double> sums;  // SUMS: the best of each member, summed; then for each label the reward and all messages, or -inf
    std::vector<i64> sums_at;  // of each factor
    std::vector<double> layer; // ALONG, AGAINST: messages of layer i + f, before slot i of factor f
    std::vector<i64> layer_at;
    std::vector<double> psi, mu, theta, holds;
    Room room;

    static constexpr i64 PRICED = 16; // members from which a count asks for a price: parts of a few are worth more
    double *row(i64 slot) { return phi + slot * n_labels; }
    double *layer_before(i64 f, i64 slot) { return layer.data() + layer_at[slot + f]; }

    void start(i64 f) {
        const i64 first = net.ptr[f], last = net.ptr[f + 1];
        if (manner[f] == SUMS) {
            double *apart = sums.data() + sums_at[f], *together = apart + 1;
            apart[0] = 0.0;
            for (i64 k = 0; k < n_labels; k++) together[k] = net.scores[net.start[f] + k];
            for (i64 i = first; i < last; i++) {
                apart[0] += largest(row(i), n_labels);
                for (i64 k = 0; k < n_labels; k++) together[k] += row(i)[k];
            }
        } else if (manner[f] == ALONG) {
            const double *score = net.scores.data + net.start[f];
            std::copy(score, score + net.final_width[f], layer_before(f, last));
            for (i64 i = last - 1; i > first; i--) layer_of(net, f, i).backward(layer_before(f, i + 1), row(i), layer_before(f, i));
            std::fill(layer_before(f, first), layer_before(f, first + 1), -INF);
            layer_before(f, first)[0] = 0.0;
        } else if (manner[f] == AGAINST) {
            std::fill(layer_before(f, first), layer_before(f, first + 1), -INF);
            layer_before(f, first)[0] = 0.0;
            for (i64 i = first; i < last - 1; i++) layer_of(net, f, i).forward(layer_before(f, i), row(i), layer_before(f, i + 1));
            const double *score = net.scores.data + net.start[f];
            std::copy(score, score + net.final_width[f], layer_before(f, last));
        }
    }

    // Take the message of a slot out of the sums of its factor, and put it in again when it has changed.
    void leave(i64 f, i64 slot) {
        if (manner[f] != SUMS) return;
        double *apart = sums.data() + sums_at[f], *together = apart + 1;
        const double *own = row(slot);
        apart[0] -= largest(own, n_labels);
        for (i64 k = 0; k < n_labels; k++) together[k] -= own[k] > -INF ? own[k] : 0.0;
    }
    void enter(i64 f, i64 slot) {
        if (manner[f] == SUMS) {
            double *apart = sums.data() + sums_at[f], *together = apart + 1;
            apart[0] += largest(row(slot), n_labels);
            for (i64 k = 0; k < n_labels; k++) together[k] += row(slot)[k];
        } else if (manner[f] == ALONG) {
            layer_of(net, f, slot).forward(layer_before(f, slot), row(slot), layer_before(f, slot + 1));
        } else if (manner[f] == AGAINST) {
            layer_of(net, f, slot).backward(layer_before(f, slot + 1), row(slot), layer_before(f, slot));
        }
    }

    // phi of the slot = top - what the factor holds for it.
    void pull(i64 f, i64 slot) {
        double *own = row(slot);
        const i64 states = net.n_states[net.nodes[slot]];
        switch (manner[f]) {
        case AFRESH:
            table_holds(net, f, slot - net.ptr[f], row(net.ptr[f]), holds.data(), room);
            break;
        case SUMS: {
            const double *apart = sums.data() + sums_at[f], *together = apart + 1;
            for (i64 k = 0; k < states; k++) holds[k] = std::max(apart[0], together[k]);
            break;
        }
        default:
            layer_of(net, f, slot).between(layer_before(f, slot), layer_before(f, slot + 1), holds.data());
        }
        double peak = -INF, worst = INF, whole = -INF;
        bool all = true;
        for (i64 k = 0; k < states; k++) {
            const bool has = own[k] > -INF, can = holds[k] > -INF;
            peak = std::max(peak, has ? holds[k] : -INF);
            worst = has && can ? std::min(worst, holds[k]) : worst;
            whole = std::max(whole, has && can ? own[k] + holds[k] : -INF);
            all &= can || !has;
        }
        top[f] = peak;
        if (peak == -INF) return; // no tuple is possible: the bound is -inf, and the message may stay
        if (all) {
            for (i64 k = 0; k < states; k++) own[k] = own[k] > -INF ? peak - holds[k] : -INF;
        } else {
            for (i64 k = 0; k < states; k++) {
                const double value = holds[k] > -INF ? peak - holds[k] : std::max(own[k] - whole + peak, peak - worst);
                own[k] = own[k] > -INF ? value : -INF;
            }
        }
    }

    // One price for all members that count: nodes keep all that they know. In parts of 1 / n they would keep next to nothing of a large factor.
    bool share_price(i64 f) {
        const i64 first = net.ptr[f], n = net.ptr[f + 1] - first;
        if (room.counting.solve(net, f, psi.data()) == -INF) return false;
        const double price = room.counting.price();
        if (std::isnan(price)) return false;
        for (i64 i = first; i < first + n; i++) {
            double *own = row(i);
            for (i64 k = 0; k < n_labels; k++) own[k] = own[k] > -INF ? (net.counted(i, k) ? -price : 0.0) : -INF;
        }
        top[f] = factor_top(net, f, row(first), room);
        room.poll(u64(n));
        return true;
    }

    void share_out(i64 f) {
        const i64 first = net.ptr[f], n = net.ptr[f + 1] - first;
        for (i64 i = 0; i < n; i++) {
            double *to = psi.data() + i * n_labels;
            node_scores(net, net.nodes[first + i], phi, to);
            const double *own = row(first + i);
            for (i64 k = 0; k < n_labels; k++) to[k] += own[k];
        }
        if (net.kind[f] == CARDINALITY && n >= PRICED && share_price(f)) return;
        const double peak = max_marginals(net, f, psi.data(), mu.data(), room);
        top[f] = peak;
        if (peak == -INF) return;
        const double part = 1.0 / double(n);
        for (i64 i = 0; i < n; i++) {
            const double *from = psi.data() + i * n_labels, *most = mu.data() + i * n_labels;
            double *own = row(first + i), worst = peak;
            for (i64 k = 0; k < n_labels; k++) worst = most[k] > -INF ? std::min(worst, most[k]) : worst;
            double least = INF; // a constant goes back to the node, so that messages do not drift
            for (i64 k = 0; k < n_labels; k++) {
                own[k] = from[k] + part * (peak - (most[k] > -INF ? most[k] : worst));
                least = own[k] > -INF ? std::min(least, own[k]) : least;
            }
            for (i64 k = 0; k < n_labels; k++) own[k] -= least;
            top[f] -= least;
        }
        room.poll(u64(n));
    }

    Manner manner_of(i64 f) const {
        if (net.kind[f] == TABLE) return AFRESH;
        if (net.kind[f] == AGREEMENT) return SUMS;
        if (net.kind[f] != AUTOMATON) return WHOLE;
        bool up = true, down = true;
        for (i64 i = net.ptr[f] + 1; i < net.ptr[f + 1]; i++) {
            up &= net.nodes[i - 1] < net.nodes[i];
            down &= net.nodes[i - 1] > net.nodes[i];
        }
        return up ? (forward ? ALONG : AGAINST) : down ? (forward ? AGAINST : ALONG) : WHOLE;
    }

    void prepare() {
        i64 n_sums = 0, n_layer = 0, most = 0;
        sums_at.resize(n_factors), layer_at.resize(net.nodes.size() + n_factors + 1);
        for (i64 f = 0; f < n_factors; f++) {
            const i64 first = net.ptr[f], last = net.ptr[f + 1];
            manner[f] = manner_of(f);
            const auto [low, high] = std::minmax_element(net.nodes.data + first, net.nodes.data + last);
            if (first < last) begin[f] = forward ? *low : *high, end[f] = forward ? *high : *low;
            sums_at[f] = n_sums;
            if (manner[f] == SUMS) n_sums += 1 + n_labels;
            const bool layered = manner[f] == ALONG || manner[f] == AGAINST;
            for (i64 i = first; i < last; i++) layer_at[i + f] = n_layer, n_layer += layered ? net.width[i] : 0;
            layer_at[last + f] = n_layer, n_layer += layered ? net.final_width[f] : 0;
            if (manner[f] == WHOLE) most = std::max(most, last - first);
            if (first == last) top[f] = factor_top(net, f, nullptr, room);
        }
        sums.resize(n_sums), layer.resize(n_layer);
        psi.resize(most * n_labels), mu.resize(most * n_labels);
    }

  public:
    Pass(const FactorNet &net, bool forward, double *phi)
        : net(net), forward(forward), n_labels(net.unary.shape[1]), n_factors(net.kind.size()), phi(phi), owner(owners(net)), begin(n_factors, -1),
          end(n_factors, -1), manner(n_factors), top(n_factors, 0.0), theta(n_labels), holds(n_labels, -INF) {
        prepare();
    }

    void visit(i64 v, bool settled) {
        const i64 first = net.member_ptr[v], last = net.member_ptr[v + 1];
        i64 n_later = 0, n_earlier = 0;
        for (i64 j = first; j < last; j++) {
            const i64 slot = net.member[j], f = owner[slot];
            n_later += end[f] != v, n_earlier += begin[f] != v;
            if (manner[f] == WHOLE) continue;
            if (begin[f] == v) start(f);
            leave(f, slot);
            if (!settled || begin[f] != v || end[f] == v) pull(f, slot), room.poll();
        }
        for (i64 j = first; j < last; j++) {
            const i64 f = owner[net.member[j]];
            if (manner[f] == WHOLE && end[f] == v) share_out(f);
        }
        if (n_later > 0) {
            const double share = 1.0 / double(std::max(n_later, n_earlier));
            node_scores(net, v, phi, theta.data());
            for (i64 j = first; j < last; j++) {
                const i64 slot = net.member[j], f = owner[slot];
                if (manner[f] == WHOLE || end[f] == v) continue;
                double *own = row(slot);
                for (i64 k = 0; k < n_labels; k++) own[k] += share * theta[k];
            }
        }
        for (i64 j = first; j < last; j++) enter(owner[net.member[j]], net.member[j]);
    }

    double bound() {
        double sum = 0.0;
        for (i64 v = 0; v < net.n_states.size(); v++) sum += node_scores(net, v, phi, theta.data());
        for (double own : top) sum += own;
        return sum;
    }
};

bool has_labels(const FactorNet &net) {
    for (i64 v = 0; v < net.n_states.size(); v++) {
        if (largest(net.unary[v].data, net.unary.shape[1]) == -INF) return false;
    }
    return true;
}

} // namespace

// One pass; returns the bound of the messages after it.
static double sweep(const FactorNet &net, Flag forward, Array<double, 2> messages, Flag settled) {
    if (!has_labels(net)) return -INF;
    const Masked masked(net, messages);
    Pass pass(net, forward, messages.data);
    const i64 n_nodes = net.n_states.size();
    Poll poll;
    for (i64 step = 0; step < n_nodes; step++) {
        poll();
        pass.visit(forward ? step : n_nodes - 1 - step, settled);
    }
    return pass.bound();
}

// Sums of the maxima over nodes and over factors, and of their distances from a labelling (where given).
static std::tuple<double, double, double, double> terms(const FactorNet &problem, Array<const double, 2> messages, Array<const i32> labels) {
    const FactorNet net = problem;
    const i64 n_labels = net.unary.shape[1];
    std::vector<double> phi(messages.begin(), messages.end()), theta(n_labels);
    mask(net, phi.data());
    Room room;
    double node_top = 0.0, node_gap = 0.0, sum = 0.0, gap = 0.0;
    for (i64 v = 0; v < net.n_states.size(); v++) {
        const double top = node_scores(net, v, phi.data(), theta.data());
        node_top += top;
        if (labels.size()) node_gap += theta[labels[v]] > -INF ? std::max(top - theta[labels[v]], 0.0) : INF;
        room.poll();
    }
    for (i64 f = 0; f < net.kind.size(); f++) {
        const double top = factor_top(net, f, phi.data() + net.ptr[f] * n_labels, room);
        sum += top;
        room.poll(1 + u64(net.ptr[f + 1] - net.ptr[f]));
        if (!labels.size()) continue;
        double at = factor_score(net, f, labels.data);
        for (i64 i = net.ptr[f]; i < net.ptr[f + 1]; i++) at += phi[i * n_labels + labels[net.nodes[i]]];
        gap += at > -INF ? std::max(top - at, 0.0) : INF;
    }
    return {node_top, node_gap, sum, gap};
}

void bind_factor_passes(nb::module_ &m) {
    def(m, "sweep", sweep, "net"_a, "forward"_a, "messages"_a, "settled"_a = Flag{false},
        "One pass over the nodes in order (``forward``) or in reverse; returns the bound of the messages after it, which is never worse than before. "
        "``settled``: the last change of these messages was a pass in the other direction, so that first members need not ask their factors again.");
    def(m, "terms", terms, "net"_a, "messages"_a, "labels"_a,
        "Sums of the maxima over nodes and over factors, and of their distances from the labelling (where ``labels`` is not empty): "
        "``(node_top, node_gap, factor_top, factor_gap)``; a distance is ``inf`` where the labelling uses what is forbidden.");
}

} // namespace maxsum
