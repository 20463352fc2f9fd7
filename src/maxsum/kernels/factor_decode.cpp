// Labelling by conditioning: each node takes its best label given the labels of those before, and the messages of those to come.
//
// The score of label k at v is q_v(k) - sum of phi + for each factor of v the maximum, over tuples with k at v and with the labels of the members
// that have one, of theta_f(t) + phi of the others. A factor that no tuple is left for has no say any more.
#include "tally.hpp"

namespace maxsum {

namespace {

class Conditioning {
    const FactorNet net;
    const bool forward;
    const i64 n_labels, n_factors;
    std::vector<double> phi; // masked; a slot whose node has its label has 0 there and -inf elsewhere
    const std::vector<i32> owner;
    std::vector<u8> started;
    std::vector<double> sums; // agreement: as in `factor_passes.cpp`, of the members without a label
    std::vector<i32> common;  // agreement: the label of all that have one, FREE if none has, MIXED if they differ, DEAD if a member has no label to
                              // take; automata: the state so far
    std::vector<i64> at, layer_at; // where the sums or the layers of a factor begin; of layer i + f
    std::vector<double> layer;     // automata whose members come in the order of their slots, or opposite to it: what the slots to come are worth
    std::vector<u8> ordered;       // automata: 1 in the order of the slots
    std::vector<Tally> tally;      // of large counting factors, by number
    std::vector<i64> tally_at;
    std::vector<double> holds, all;
    Room room;

    enum { FREE = -1, MIXED = -2, DEAD = -3 };
    // Counting factors of more members are sorted once for all of their members.
    static constexpr i64 LARGE = 256;

    double *row(i64 slot) { return phi.data() + slot * n_labels; }
    bool is_large(i64 f) const { return net.kind[f] == CARDINALITY && net.ptr[f + 1] - net.ptr[f] > LARGE; }

    void start(i64 f) {
        started[f] = 1;
        const i64 first = net.ptr[f], last = net.ptr[f + 1];
        if (net.kind[f] == AGREEMENT) {
            double *apart = sums.data() + at[f], *together = apart + 1;
            apart[0] = 0.0;
            for (i64 k = 0; k < n_labels; k++) together[k] = net.scores[net.start[f] + k];
            for (i64 i = first; i < last; i++) {
                const double best = largest(row(i), n_labels);
                if (best == -INF) common[f] = DEAD;
                apart[0] += best;
                for (i64 k = 0; k < n_labels; k++) together[k] += row(i)[k];
            }
        } else if (net.kind[f] == AUTOMATON && ordered[f]) {
            common[f] = 0;
            const double *score = net.scores.data + net.start[f];
            std::copy(score, score + net.final_width[f], layer.data() + layer_at[last + f]);
            for (i64 i = last - 1; i >= first; i--) {
                layer_of(net, f, i).backward(layer.data() + layer_at[i + 1 + f], row(i), layer.data() + layer_at[i + f]);
            }
        } else if (is_large(f)) {
            tally[tally_at[f]].start(net, f, row(first), room);
        }
    }

    // What the factor is worth for each label of a slot, message included.
    void ask(i64 f, i64 slot, double *out) {
        const i64 first = net.ptr[f], n = net.ptr[f + 1] - first, i = slot - first, states = net.n_states[net.nodes[slot]];
        const double *own = row(slot);
        std::fill(out, out + n_labels, -INF);
        switch (net.kind[f]) {
        case TABLE:
            table_holds(net, f, i, row(first), out, room);
            for (i64 k = 0; k < n_labels; k++) out[k] += own[k];
            return;
        case AGREEMENT: {
            if (common[f] == DEAD) return;
            double *apart = sums.data() + at[f], *together = apart + 1;
            apart[0] -= largest(own, n_labels);
            for (i64 k = 0; k < n_labels; k++) {
                together[k] -= own[k] > -INF ? own[k] : 0.0;
                const bool can = common[f] == FREE || common[f] == k;
                out[k] = own[k] + std::max(apart[0], can ? together[k] : -INF);
            }
            return;
        }
        case AUTOMATON:
            if (!ordered[f]) break;
            if (common[f] < 0) return;
            for (i64 k = 0; k < states; k++) {
                const i64 to = net.step[net.level[slot] + common[f] * n_labels + k];
                out[k] = to < 0 ? -INF : own[k] + layer[layer_at[slot + 1 + f] + to];
            }
            return;
        case ALL_DIFFERENT:
            if (n > n_labels) return;
            room.assignment.solve(row(first), n, n_labels, room.poll);
            room.assignment.marginals_of(i, out);
            return;
        default:
            if (!is_large(f)) break;
            tally[tally_at[f]].ask(net, f, slot, row(first), out, room);
            return;
        }
        if (i64(all.size()) < n * n_labels) all.resize(n * n_labels);
        max_marginals(net, f, row(first), all.data(), room);
        std::copy(all.begin() + i * n_labels, all.begin() + (i + 1) * n_labels, out);
    }

    void tell(i64 f, i64 slot, i64 label) {
        std::fill(row(slot), row(slot) + n_labels, -INF);
        row(slot)[label] = 0.0;
        if (net.kind[f] == AGREEMENT) {
            if (common[f] != DEAD) common[f] = common[f] == FREE || common[f] == label ? i32(label) : i32(MIXED);
        } else if (net.kind[f] == AUTOMATON && ordered[f] && common[f] >= 0) {
            common[f] = net.step[net.level[slot] + common[f] * n_labels + label];
        } else if (is_large(f)) {
            tally[tally_at[f]].tell(net.counted(slot, label) != 0);
        }
    }

    void prepare() {
        i64 n_sums = 0, n_layer = 0, n_large = 0;
        for (i64 f = 0; f < n_factors; f++) {
            const i64 first = net.ptr[f], last = net.ptr[f + 1];
            at[f] = n_sums, tally_at[f] = n_large;
            if (net.kind[f] == AGREEMENT) n_sums += 1 + n_labels;
            n_large += is_large(f);
            if (net.kind[f] == AUTOMATON) {
                ordered[f] = 1;
                for (i64 i = first + 1; i < last; i++) ordered[f] &= (net.nodes[i - 1] < net.nodes[i]) == forward;
            }
            for (i64 i = first; i < last; i++) layer_at[i + f] = n_layer, n_layer += ordered[f] ? net.width[i] : 0;
            layer_at[last + f] = n_layer, n_layer += ordered[f] ? net.final_width[f] : 0;
        }
        sums.resize(n_sums), layer.resize(n_layer), tally.resize(n_large);
    }

  public:
    Conditioning(const FactorNet &net, bool forward, Array<const double, 2> messages)
        : net(net), forward(forward), n_labels(net.unary.shape[1]), n_factors(net.kind.size()), phi(messages.begin(), messages.end()),
          owner(owners(net)), started(n_factors, 0), common(n_factors, FREE), at(n_factors), layer_at(net.nodes.size() + n_factors),
          ordered(n_factors, 0), tally_at(n_factors), holds(n_labels) {
        mask(net, phi.data());
        prepare();
    }

    i64 visit(i64 v, double *theta, double *score) {
        const i64 first = net.member_ptr[v], last = net.member_ptr[v + 1];
        node_scores(net, v, phi.data(), theta);
        std::copy(theta, theta + n_labels, score);
        for (i64 j = first; j < last; j++) {
            const i64 slot = net.member[j], f = owner[slot];
            if (!started[f]) start(f);
            ask(f, slot, holds.data());
            room.poll();
            if (largest(holds.data(), n_labels) == -INF) continue;
            for (i64 k = 0; k < n_labels; k++) score[k] += holds[k];
        }
        const double best = largest(score, n_labels);
        const double *by = best > -INF ? score : theta;
        const i64 label = std::max_element(by, by + n_labels) - by;
        for (i64 j = first; j < last; j++) tell(owner[net.member[j]], net.member[j], label);
        return label;
    }
};

} // namespace

static void decode(const FactorNet &net, Flag forward, Array<const double, 2> messages, Array<i32> labels) {
    Conditioning conditioning(net, forward, messages);
    const i64 n_nodes = net.n_states.size(), n_labels = net.unary.shape[1];
    std::vector<double> theta(n_labels), score(n_labels);
    Poll poll;
    for (i64 step = 0; step < n_nodes; step++) {
        poll();
        const i64 v = forward ? step : n_nodes - 1 - step;
        labels[v] = i32(conditioning.visit(v, theta.data(), score.data()));
    }
}

void bind_factor_decode(nb::module_ &m) {
    def(m, "decode", decode, "net"_a, "forward"_a, "messages"_a, "labels"_a,
        "Labelling by conditioning, in node order (``forward``) or in reverse: each node takes its best label (the lowest of equal ones) given the "
        "labels "
        "of the members visited before and the messages of those to come. Where everything is impossible, the node's own part decides.");
}

} // namespace maxsum
