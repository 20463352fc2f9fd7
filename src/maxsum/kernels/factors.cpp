#include "factors.hpp"

namespace maxsum {

namespace {

double *room_of(std::vector<double> &memory, i64 size) {
    if (i64(memory.size()) < size) memory.resize(size);
    return memory.data();
}

i64 states_of(const FactorNet &net, i64 slot) { return net.n_states[net.nodes[slot]]; }

// out[o, r] = max_a psi[a] + cells[o, a, r]: one axis of a table is maximised over. Four rows at a time, as in `message.hpp`.
void fold(const double *__restrict cells, const double *__restrict psi, i64 outer, i64 size, i64 inner, double *__restrict out) {
    if (inner == 1) {
        i64 o = 0;
        for (; o + 4 <= outer; o += 4, cells += 4 * size) {
            const double *first = cells, *second = first + size, *third = second + size, *fourth = third + size;
            double a = -INF, b = -INF, c = -INF, d = -INF;
            for (i64 m = 0; m < size; m++) {
                const double x = psi[m];
                a = std::max(a, x + first[m]);
                b = std::max(b, x + second[m]);
                c = std::max(c, x + third[m]);
                d = std::max(d, x + fourth[m]);
            }
            out[o] = a, out[o + 1] = b, out[o + 2] = c, out[o + 3] = d;
        }
        for (; o < outer; o++, cells += size) {
            double best = -INF;
            for (i64 m = 0; m < size; m++) best = std::max(best, psi[m] + cells[m]);
            out[o] = best;
        }
        return;
    }
    for (i64 o = 0; o < outer; o++, cells += size * inner, out += inner) {
        i64 a = 0;
        if (size >= 2) {
            const double x = psi[0], y = psi[1];
            const double *second = cells + inner;
            for (i64 r = 0; r < inner; r++) out[r] = std::max(x + cells[r], y + second[r]);
            a = 2;
        } else {
            for (i64 r = 0; r < inner; r++) out[r] = -INF;
        }
        for (; a + 4 <= size; a += 4) {
            const double p = psi[a], q = psi[a + 1], s = psi[a + 2], t = psi[a + 3];
            if (std::max(std::max(p, q), std::max(s, t)) == -INF) continue;
            const double *first = cells + a * inner, *second = first + inner, *third = second + inner, *fourth = third + inner;
            for (i64 r = 0; r < inner; r++) {
                const double low = std::max(p + first[r], q + second[r]), high = std::max(s + third[r], t + fourth[r]);
                out[r] = std::max(out[r], std::max(low, high));
            }
        }
        for (; a < size; a++) {
            const double p = psi[a];
            const double *row = cells + a * inner;
            for (i64 r = 0; r < inner; r++) out[r] = std::max(out[r], p + row[r]);
        }
    }
}

// room.behind[i]: number of cells of a table over the members i .. n - 1. Products, as divisions would take longer than small tables.
void count_cells(const FactorNet &net, i64 f, Room &room) {
    const i64 first = net.ptr[f], n = net.ptr[f + 1] - first;
    if (i64(room.behind.size()) < n + 1) room.behind.resize(n + 1);
    room.behind[n] = 1;
    for (i64 i = n - 1; i >= 0; i--) room.behind[i] = room.behind[i + 1] * states_of(net, first + i);
}

// Fold member i of a table over the members i .. n - 1, into room.front.
const double *fold_first(const FactorNet &net, i64 f, i64 i, const double *psi, const double *cells, Room &room) {
    double *to = room_of(room.front[i % 2], room.behind[i + 1]);
    fold(cells, psi + i * net.unary.shape[1], 1, states_of(net, net.ptr[f] + i), room.behind[i + 1], to);
    return to;
}

// What a table over the members i .. n - 1 is worth for each label of member i: all other axes are folded.
void fold_rest(const FactorNet &net, i64 f, i64 i, const double *psi, const double *cells, double *out, Room &room) {
    const i64 first = net.ptr[f], n = net.ptr[f + 1] - first, n_labels = net.unary.shape[1], own = states_of(net, first + i);
    if (i + 1 == n) std::copy(cells, cells + own, out);
    for (i64 j = i + 1; j < n; j++) {
        double *to = j + 1 == n ? out : room_of(room.back[j % 2], own * room.behind[j + 1]);
        fold(cells, psi + j * n_labels, own, states_of(net, first + j), room.behind[j + 1], to);
        cells = to;
    }
}

double table_marginals(const FactorNet &net, i64 f, const double *psi, double *out, Room &room) {
    const i64 first = net.ptr[f], n = net.ptr[f + 1] - first, n_labels = net.unary.shape[1];
    const double *cells = net.scores.data + net.start[f];
    if (n == 0) return cells[0];
    count_cells(net, f, room);
    double top = -INF;
    for (i64 i = 0; i < n; i++) {
        const i64 states = states_of(net, first + i);
        const double *own_psi = psi + i * n_labels;
        double *own = out + i * n_labels;
        fold_rest(net, f, i, psi, cells, own, room);
        for (i64 k = 0; k < states; k++) own[k] += own_psi[k];
        std::fill(own + states, own + n_labels, -INF);
        if (i == 0) top = largest(own, states);
        if (i + 1 < n) cells = fold_first(net, f, i, psi, cells, room);
    }
    return top;
}

double table_top(const FactorNet &net, i64 f, const double *psi, Room &room) {
    const double *cells = net.scores.data + net.start[f];
    count_cells(net, f, room);
    for (i64 i = 0; i < net.ptr[f + 1] - net.ptr[f]; i++) cells = fold_first(net, f, i, psi, cells, room);
    return cells[0];
}

// The larger of the best without the reward and the best with it: that is the maximum, since rewards are not negative.
double agreement_top(const FactorNet &net, i64 f, const double *psi, Room &room) {
    const i64 first = net.ptr[f], n = net.ptr[f + 1] - first, n_labels = net.unary.shape[1];
    if (n == 0) return 0.0;
    double *together = room_of(room.number, n_labels), apart = 0.0;
    for (i64 k = 0; k < n_labels; k++) together[k] = net.scores[net.start[f] + k];
    for (i64 i = 0; i < n; i++) {
        const i64 states = states_of(net, first + i);
        const double *own = psi + i * n_labels;
        for (i64 k = 0; k < states; k++) together[k] += own[k];
        std::fill(together + states, together + n_labels, -INF);
        apart += largest(own, states);
    }
    return std::max(apart, largest(together, n_labels));
}

double agreement_marginals(const FactorNet &net, i64 f, const double *psi, double *out, Room &room) {
    const i64 first = net.ptr[f], n = net.ptr[f + 1] - first, n_labels = net.unary.shape[1];
    if (n == 0) return 0.0;
    // Sums over the members behind, then those over the members before are added on the way: no sum is made by subtraction.
    double *apart = room_of(room.number, n + 1 + n_labels), *together = apart + n + 1, before = 0.0, top = -INF;
    apart[n] = 0.0;
    for (i64 k = 0; k < n_labels; k++) together[k] = 0.0;
    for (i64 i = n - 1; i >= 0; i--) {
        const i64 states = states_of(net, first + i);
        const double *own = psi + i * n_labels;
        apart[i] = apart[i + 1] + largest(own, states);
        std::copy(together, together + n_labels, out + i * n_labels);
        for (i64 k = 0; k < states; k++) together[k] += own[k];
        std::fill(together + states, together + n_labels, -INF);
    }
    for (i64 k = 0; k < n_labels; k++) together[k] = net.scores[net.start[f] + k];
    for (i64 i = 0; i < n; i++) {
        const i64 states = states_of(net, first + i);
        const double *own = psi + i * n_labels, others = before + apart[i + 1];
        double *to = out + i * n_labels;
        for (i64 k = 0; k < states; k++) {
            to[k] = own[k] + std::max(others, together[k] + to[k]);
            together[k] += own[k];
        }
        std::fill(to + states, to + n_labels, -INF);
        std::fill(together + states, together + n_labels, -INF);
        before += largest(own, states);
        if (i == 0) top = largest(to, states);
    }
    return top;
}

// Messages of the slots of an automaton forwards; room.layer_at[i] is where those before slot i are kept, i = n after the last.
double automaton_top(const FactorNet &net, i64 f, const double *psi, Room &room) {
    const i64 first = net.ptr[f], n = net.ptr[f + 1] - first, n_labels = net.unary.shape[1];
    room.layer_at.resize(n + 2);
    i64 size = 0;
    for (i64 i = 0; i < n; i++) room.layer_at[i] = size, size += net.width[first + i];
    room.layer_at[n] = size, size += net.final_width[f];
    double *layers = room_of(room.layer, size);
    std::fill(layers, layers + room.layer_at[n > 0 ? 1 : 0], -INF);
    layers[0] = 0.0;
    for (i64 i = 0; i < n; i++) {
        layer_of(net, f, first + i).forward(layers + room.layer_at[i], psi + i * n_labels, layers + room.layer_at[i + 1]);
    }
    double top = -INF;
    const double *last = layers + room.layer_at[n], *score = net.scores.data + net.start[f];
    for (i64 s = 0; s < (n > 0 ? net.final_width[f] : 1); s++) top = std::max(top, last[s] + score[s]);
    return top;
}

double automaton_marginals(const FactorNet &net, i64 f, const double *psi, double *out, Room &room) {
    const i64 first = net.ptr[f], n = net.ptr[f + 1] - first, n_labels = net.unary.shape[1];
    const double top = automaton_top(net, f, psi, room);
    i64 widest = net.final_width[f];
    for (i64 i = 0; i < n; i++) widest = std::max<i64>(widest, net.width[first + i]);
    double *next = room_of(room.number, 2 * widest), *beta = next + widest;
    std::copy(net.scores.data + net.start[f], net.scores.data + net.start[f] + net.final_width[f], next);
    for (i64 i = n - 1; i >= 0; i--) {
        const Layer layer = layer_of(net, f, first + i);
        const double *own = psi + i * n_labels;
        double *to = out + i * n_labels;
        layer.between(room.layer.data() + room.layer_at[i], next, to);
        for (i64 k = 0; k < layer.states; k++) to[k] += own[k];
        std::fill(to + layer.states, to + n_labels, -INF);
        layer.backward(next, own, beta);
        std::swap(next, beta);
    }
    return top;
}

} // namespace

Layer layer_of(const FactorNet &net, i64 f, i64 slot) {
    const bool is_last = slot + 1 == net.ptr[f + 1];
    return {net.step.data + net.level[slot], net.width[slot], is_last ? net.final_width[f] : net.width[slot + 1], net.unary.shape[1],
            states_of(net, slot)};
}

void Layer::forward(const double *alpha, const double *psi, double *next) const {
    std::fill(next, next + after, -INF);
    for (i64 s = 0; s < before; s++) {
        if (alpha[s] == -INF) continue;
        const i32 *to = step + s * n_labels;
        for (i64 k = 0; k < states; k++) {
            if (to[k] >= 0) next[to[k]] = std::max(next[to[k]], alpha[s] + psi[k]);
        }
    }
}

void Layer::backward(const double *next, const double *psi, double *beta) const {
    for (i64 s = 0; s < before; s++) {
        const i32 *to = step + s * n_labels;
        double best = -INF;
        for (i64 k = 0; k < states; k++) {
            if (to[k] >= 0) best = std::max(best, psi[k] + next[to[k]]);
        }
        beta[s] = best;
    }
}

void Layer::between(const double *alpha, const double *next, double *out) const {
    std::fill(out, out + states, -INF);
    for (i64 s = 0; s < before; s++) {
        if (alpha[s] == -INF) continue;
        const i32 *to = step + s * n_labels;
        for (i64 k = 0; k < states; k++) {
            if (to[k] >= 0) out[k] = std::max(out[k], alpha[s] + next[to[k]]);
        }
    }
}

void table_holds(const FactorNet &net, i64 f, i64 i, const double *psi, double *out, Room &room) {
    const double *cells = net.scores.data + net.start[f];
    count_cells(net, f, room);
    for (i64 j = 0; j < i; j++) cells = fold_first(net, f, j, psi, cells, room);
    fold_rest(net, f, i, psi, cells, out, room);
}

double max_marginals(const FactorNet &net, i64 f, const double *psi, double *out, Room &room) {
    const i64 n = net.ptr[f + 1] - net.ptr[f], n_labels = net.unary.shape[1];
    switch (net.kind[f]) {
    case TABLE:
        return table_marginals(net, f, psi, out, room);
    case AGREEMENT:
        return agreement_marginals(net, f, psi, out, room);
    case CARDINALITY:
        room.counting.solve(net, f, psi);
        room.counting.marginals(net, f, psi, out);
        return room.counting.top;
    case AUTOMATON:
        return automaton_marginals(net, f, psi, out, room);
    default:
        room.assignment.solve(psi, n, n_labels, room.poll);
        if (n > n_labels) {
            std::fill(out, out + n * n_labels, -INF);
        } else {
            room.assignment.marginals(out, room.poll);
        }
        return room.assignment.top;
    }
}

double factor_top(const FactorNet &net, i64 f, const double *psi, Room &room) {
    switch (net.kind[f]) {
    case TABLE:
        return table_top(net, f, psi, room);
    case AGREEMENT:
        return agreement_top(net, f, psi, room);
    case CARDINALITY:
        return room.counting.solve(net, f, psi);
    case AUTOMATON:
        return automaton_top(net, f, psi, room);
    default:
        return room.assignment.solve(psi, net.ptr[f + 1] - net.ptr[f], net.unary.shape[1], room.poll);
    }
}

double factor_score(const FactorNet &net, i64 f, const i32 *labels) {
    const i64 first = net.ptr[f], last = net.ptr[f + 1], n_labels = net.unary.shape[1];
    const double *score = net.scores.data + net.start[f];
    i64 at = 0;
    switch (net.kind[f]) {
    case TABLE:
        for (i64 i = first; i < last; i++) at = at * states_of(net, i) + labels[net.nodes[i]];
        return score[at];
    case AGREEMENT:
        for (i64 i = first + 1; i < last; i++) {
            if (labels[net.nodes[i]] != labels[net.nodes[first]]) return 0.0;
        }
        return first < last ? score[labels[net.nodes[first]]] : 0.0;
    case CARDINALITY:
        for (i64 i = first; i < last; i++) at += net.counted(i, labels[net.nodes[i]]) ? 1 : 0;
        return score[at];
    case AUTOMATON:
        for (i64 i = first; i < last; i++) {
            at = net.step[net.level[i] + at * n_labels + labels[net.nodes[i]]];
            if (at < 0) return -INF;
        }
        return score[at];
    default:
        break;
    }
    if (last - first > n_labels) return -INF;
    std::vector<u8> taken(n_labels, 0);
    for (i64 i = first; i < last; i++) {
        if (taken[labels[net.nodes[i]]]++) return -INF;
    }
    return 0.0;
}

std::vector<i32> owners(const FactorNet &net) {
    std::vector<i32> owner(net.nodes.size());
    for (i64 f = 0; f < net.kind.size(); f++) std::fill(owner.begin() + net.ptr[f], owner.begin() + net.ptr[f + 1], i32(f));
    return owner;
}

// Labels beyond those that a member has are forbidden, whatever psi says.
static std::vector<double> own_psi(const FactorNet &net, i64 f, Array<const double, 2> psi) {
    std::vector<double> own(psi.begin(), psi.end());
    const i64 n_labels = net.unary.shape[1];
    for (i64 i = 0; i < psi.size(); i++)
        std::fill(own.begin() + i * n_labels + states_of(net, net.ptr[f] + i), own.begin() + (i + 1) * n_labels, -INF);
    return own;
}

static double all_marginals(const FactorNet &net, i64 factor, Array<const double, 2> psi, Array<double, 2> out) {
    Room room;
    return max_marginals(net, factor, own_psi(net, factor, psi).data(), out.data, room);
}

static double one_marginal(const FactorNet &net, i64 factor, i64 slot, Array<const double, 2> psi, Array<double> out) {
    Room room;
    const i64 i = slot - net.ptr[factor], n_labels = net.unary.shape[1];
    const std::vector<double> own = own_psi(net, factor, psi);
    if (net.kind[factor] == TABLE) {
        out.fill(-INF);
        table_holds(net, factor, i, own.data(), out.data, room);
        for (i64 k = 0; k < n_labels; k++) out[k] += own[i * n_labels + k];
    } else if (net.kind[factor] == ALL_DIFFERENT && psi.size() <= n_labels) {
        room.assignment.solve(own.data(), psi.size(), n_labels, room.poll);
        room.assignment.marginals_of(i, out.data);
    } else {
        Owned<double, 2> all(psi.size(), n_labels);
        max_marginals(net, factor, own.data(), all.data, room);
        out.copy_from(Array<double>(all[i]));
    }
    return largest(out.data, n_labels);
}

void bind_factors(nb::module_ &m) {
    bind_record<FactorNet>(m);
    def(m, "max_marginals", all_marginals, "net"_a, "factor"_a, "psi"_a, "out"_a,
        "``out[i, k]`` = maximum over tuples with label k at member i of the score of the factor plus the ``psi`` of all members, that of i "
        "included; "
        "``-inf`` where there is no such tuple. Returns the maximum of all.");
    def(m, "max_marginal", one_marginal, "net"_a, "factor"_a, "slot"_a, "psi"_a, "out"_a, "The same for one member, by its slot.");
}

} // namespace maxsum
