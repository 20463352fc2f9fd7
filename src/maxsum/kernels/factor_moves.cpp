// Score of a labelling, and moves of single nodes (ICM).
//
// A node moves to the label with the least violation of what it takes part in and, among those, the highest sum of finite scores; only if that is
// strictly better than what it has, and to the lowest such label. Violation: 1 for a forbidden label, tuple or word; the number of members too many
// at their labels for different labels; the distance to the nearest possible number for counts. So moves from anywhere lead towards labellings that
// are allowed.
#include "factors.hpp"

namespace maxsum {

namespace {

class Moves {
    const FactorNet net;
    const i64 n_labels, n_factors;
    i32 *const labels;
    const std::vector<i32> owner;
    std::vector<i64> at;       // where the counts of a factor begin: by label for agreement and different labels, one number for counting
    std::vector<i32> count;    //
    std::vector<i64> layer_at; // of layer i + f, before slot i of automaton f
    std::vector<double> final; // what each state of the layer leads to under the present labels
    std::vector<i32> state;    // state before each slot
    std::vector<i32> distance; // counting: from each number to the nearest possible one; as long as the scores of the factor
    std::vector<i64> distance_at;
    std::vector<double> value, bad;

    // Layers 0 .. slot of an automaton anew, from the last one backwards until nothing changes.
    void final_before(i64 f, i64 slot) {
        for (i64 i = slot; i >= net.ptr[f]; i--) {
            const i32 *to = net.step.data + net.level[i] + labels[net.nodes[i]];
            double *own = final.data() + layer_at[i + f];
            const double *next = final.data() + layer_at[i + 1 + f];
            bool changed = false;
            for (i64 s = 0; s < net.width[i]; s++) {
                const i32 target = to[s * n_labels];
                const double found = target < 0 ? -INF : next[target];
                changed |= found != own[s];
                own[s] = found;
            }
            if (!changed) return;
        }
    }
    void states_after(i64 f, i64 slot) {
        for (i64 i = slot; i + 1 < net.ptr[f + 1]; i++) {
            const i32 next = state[i] < 0 ? -1 : net.step[net.level[i] + state[i] * n_labels + labels[net.nodes[i]]];
            if (state[i + 1] == next) return;
            state[i + 1] = next;
        }
    }

    void prepare() {
        i64 n_count = 0, n_layer = 0, n_distance = 0;
        for (i64 f = 0; f < n_factors; f++) {
            const i64 kind = net.kind[f], first = net.ptr[f], last = net.ptr[f + 1];
            at[f] = n_count, distance_at[f] = n_distance;
            n_count += kind == CARDINALITY ? 1 : kind == AGREEMENT || kind == ALL_DIFFERENT ? n_labels : 0;
            n_distance += kind == CARDINALITY ? last - first + 1 : 0;
            for (i64 i = first; i < last; i++) layer_at[i + f] = n_layer, n_layer += kind == AUTOMATON ? net.width[i] : 0;
            layer_at[last + f] = n_layer, n_layer += kind == AUTOMATON ? net.final_width[f] : 0;
        }
        count.assign(n_count, 0), distance.assign(n_distance, 0);
        final.assign(n_layer, INF); // no score: every layer changes the first time
        state.assign(net.nodes.size(), -2);
        for (i64 f = 0; f < n_factors; f++) {
            const i64 kind = net.kind[f], first = net.ptr[f], last = net.ptr[f + 1];
            const double *score = net.scores.data + net.start[f];
            if (kind == CARDINALITY) {
                const i64 n = last - first;
                i32 *own = distance.data() + distance_at[f];
                for (i64 i = first; i < last; i++) count[at[f]] += net.counted(i, labels[net.nodes[i]]) != 0;
                for (i64 c = 0; c <= n; c++) own[c] = score[c] > -INF ? 0 : c > 0 ? own[c - 1] + 1 : i32(n) + 1;
                for (i64 c = n - 1; c >= 0; c--) own[c] = std::min(own[c], own[c + 1] + 1);
            } else if (kind == AGREEMENT || kind == ALL_DIFFERENT) {
                for (i64 i = first; i < last; i++) count[at[f] + labels[net.nodes[i]]] += 1;
            } else if (kind == AUTOMATON) {
                std::copy(score, score + net.final_width[f], final.data() + layer_at[last + f]);
                if (first == last) continue;
                final_before(f, last - 1);
                state[first] = 0;
                states_after(f, first);
            }
        }
    }

    void add(i64 k, double score) {
        value[k] += score > -INF ? score : 0.0;
        bad[k] += score > -INF ? 0.0 : 1.0;
    }

    // Add what the factor of a slot is worth for each label of its node.
    void ask(i64 f, i64 slot, i64 states) {
        const i64 first = net.ptr[f], last = net.ptr[f + 1], own = labels[net.nodes[slot]];
        const double *score = net.scores.data + net.start[f];
        switch (net.kind[f]) {
        case TABLE: {
            i64 where = 0, stride = 1;
            for (i64 i = first; i < last; i++) {
                const i64 n = net.n_states[net.nodes[i]];
                where = where * n + (i == slot ? 0 : labels[net.nodes[i]]);
                stride = i > slot ? stride * n : 1;
            }
            for (i64 k = 0; k < states; k++) add(k, score[where + k * stride]);
            break;
        }
        case AGREEMENT: {
            const i32 *has = count.data() + at[f];
            for (i64 k = 0; k < states; k++) value[k] += has[k] - (k == own) == last - first - 1 ? score[k] : 0.0;
            break;
        }
        case CARDINALITY: {
            const i64 others = count[at[f]] - (net.counted(slot, own) != 0);
            for (i64 k = 0; k < states; k++) {
                const i64 c = others + (net.counted(slot, k) != 0);
                value[k] += score[c] > -INF ? score[c] : 0.0;
                bad[k] += distance[distance_at[f] + c];
            }
            break;
        }
        case AUTOMATON:
            for (i64 k = 0; k < states; k++) {
                const i32 to = state[slot] < 0 ? -1 : net.step[net.level[slot] + state[slot] * n_labels + k];
                add(k, to < 0 ? -INF : final[layer_at[slot + 1 + f] + to]);
            }
            break;
        default:
            for (i64 k = 0; k < states; k++) bad[k] += count[at[f] + k] - (k == own) > 0;
        }
    }

    void tell(i64 f, i64 slot, i64 from, i64 to) {
        switch (net.kind[f]) {
        case CARDINALITY:
            count[at[f]] += (net.counted(slot, to) != 0) - (net.counted(slot, from) != 0);
            break;
        case AGREEMENT:
        case ALL_DIFFERENT:
            count[at[f] + from] -= 1, count[at[f] + to] += 1;
            break;
        case AUTOMATON:
            final_before(f, slot);
            states_after(f, slot);
            break;
        default:
            break;
        }
    }

  public:
    Moves(const FactorNet &net, Array<i32> labels)
        : net(net), n_labels(net.unary.shape[1]), n_factors(net.kind.size()), labels(labels.data), owner(owners(net)), at(n_factors),
          layer_at(net.nodes.size() + n_factors), distance_at(n_factors), value(n_labels), bad(n_labels) {
        prepare();
    }

    bool move(i64 v) {
        const i64 states = net.n_states[v], own = labels[v];
        std::fill(value.begin(), value.end(), 0.0);
        std::fill(bad.begin(), bad.end(), 0.0);
        for (i64 k = 0; k < states; k++) add(k, net.unary(v, k));
        for (i64 j = net.member_ptr[v]; j < net.member_ptr[v + 1]; j++) ask(owner[net.member[j]], net.member[j], states);
        i64 best = own;
        for (i64 k = 0; k < states; k++) {
            if (bad[k] < bad[best] || (bad[k] == bad[best] && value[k] > value[best])) best = k;
        }
        if (best == own) return false;
        labels[v] = i32(best);
        for (i64 j = net.member_ptr[v]; j < net.member_ptr[v + 1]; j++) tell(owner[net.member[j]], net.member[j], own, best);
        return true;
    }
};

} // namespace

// Score of a labelling: unary and factors.
static double value(const FactorNet &net, Array<const i32> labels) {
    double sum = 0.0;
    Poll poll;
    for (i64 v = 0; v < net.n_states.size(); v++) sum += net.unary(v, labels[v]);
    for (i64 f = 0; f < net.kind.size(); f++) {
        sum += factor_score(net, f, labels.data);
        poll();
    }
    return sum;
}

static i64 icm(const FactorNet &net, Array<i32> labels, i64 max_rounds) {
    Moves moves(net, labels);
    Poll poll;
    i64 rounds = 0;
    for (bool moved = true; moved && rounds < max_rounds; rounds++) {
        moved = false;
        for (i64 v = 0; v < net.n_states.size(); v++) {
            moved |= moves.move(v);
            poll();
        }
    }
    return rounds;
}

void bind_factor_moves(nb::module_ &m) {
    def(m, "value", value, "net"_a, "labels"_a, "Score of a labelling: unary and factors; ``-inf`` where it uses what is forbidden.");
    def(m, "icm", icm, "net"_a, "labels"_a, "max_rounds"_a,
        "Improve ``labels`` (int32, in place) by moves of single nodes in node order until nothing changes; returns the number of rounds. Violations "
        "of "
        "hard constraints are reduced first.");
}

} // namespace maxsum
