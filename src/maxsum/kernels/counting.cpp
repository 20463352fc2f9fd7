// A factor that is a function of the number of members whose label counts.
#include "factors.hpp"

namespace maxsum {

double Counting::solve(const FactorNet &net, i64 f, const double *psi) {
    const i64 first = net.ptr[f], n = net.ptr[f + 1] - first, n_labels = net.unary.shape[1];
    with.resize(n), without.resize(n), order.clear();
    score = net.scores.data + net.start[f];
    base = 0.0, top = -INF, chosen = 0;
    for (i64 i = 0; i < n; i++) {
        const u8 *counts = net.counted[first + i].data;
        const double *own = psi + i * n_labels;
        const i64 states = net.n_states[net.nodes[first + i]];
        double yes = -INF, no = -INF;
        for (i64 k = 0; k < states; k++) {
            yes = std::max(yes, counts[k] ? own[k] : -INF);
            no = std::max(no, counts[k] ? -INF : own[k]);
        }
        with[i] = yes, without[i] = no;
        if (yes == -INF && no == -INF) return top;
        base += no > -INF ? no : yes;
        score += no > -INF ? 0 : 1;
        if (yes > -INF && no > -INF) order.push_back({yes - no, i32(i)});
    }
    std::sort(order.begin(), order.end(), [](const Gain &a, const Gain &b) { return a.gain > b.gain || (a.gain == b.gain && a.member < b.member); });
    const i64 n_free = i64(order.size());
    sum.resize(n_free + 1);
    sum[0] = 0.0;
    for (i64 m = 0; m < n_free; m++) sum[m + 1] = sum[m] + order[m].gain;
    for (i64 m = 0; m <= n_free; m++) {
        if (base + (score[m] + sum[m]) > top) top = base + (score[m] + sum[m]), chosen = m;
    }
    return top;
}

// The member of rank r is among the first m for m > r. If it has to count, the best m are the first m where it is among them, else the first m - 1
// and itself; if it must not, the first m where it is not among them, else the first m + 1 without it.
void Counting::marginals(const FactorNet &net, i64 f, const double *psi, double *out) {
    const i64 first = net.ptr[f], n = net.ptr[f + 1] - first, n_labels = net.unary.shape[1], n_free = i64(order.size());
    if (top == -INF) {
        std::fill(out, out + n * n_labels, -INF);
        return;
    }
    // Values of the best tuples in which a member counts and does not, without `base`; members that have no choice always have the best one.
    inside.assign(n, top - base), outside.assign(n, top - base);
    double plain = -INF, other = -INF;
    for (i64 r = 0; r < n_free; r++) {
        const auto [gain, i] = order[r];
        plain = std::max(plain, score[r] + sum[r]);
        if (r > 0) other = std::max(other, score[r] + sum[r - 1]);
        outside[i] = plain, inside[i] = other + gain;
    }
    plain = -INF, other = -INF;
    for (i64 r = n_free - 1; r >= 0; r--) {
        const auto [gain, i] = order[r];
        plain = std::max(plain, score[r + 1] + sum[r + 1]);
        inside[i] = std::max(inside[i], plain), outside[i] = std::max(outside[i], other - gain);
        if (r > 0) other = std::max(other, score[r] + sum[r + 1]);
    }
    for (i64 i = 0; i < n; i++) {
        const u8 *counts = net.counted[first + i].data;
        const double *own = psi + i * n_labels;
        double *to = out + i * n_labels;
        const i64 states = net.n_states[net.nodes[first + i]];
        for (i64 k = 0; k < states; k++) {
            const double best = counts[k] ? with[i] : without[i];
            to[k] = own[k] > -INF ? base + (counts[k] ? inside[i] : outside[i]) + (own[k] - best) : -INF;
        }
        std::fill(to + states, to + n_labels, -INF);
    }
}

// With price t for each member that counts, members have max(without, with + t) and the factor max_c score(c) - t c. These sum to the maximum if t
// lies between the gains of the last member that counts and the next one (negated), and is a slope of the score at the best count.
double Counting::price() const {
    const i64 n_free = i64(order.size());
    double low = -INF, high = INF;
    for (i64 m = 0; m < chosen; m++) high = std::min(high, (score[chosen] - score[m]) / double(chosen - m));
    for (i64 m = chosen + 1; m <= n_free; m++) low = std::max(low, (score[m] - score[chosen]) / double(m - chosen));
    if (chosen > 0) low = std::max(low, -order[chosen - 1].gain);
    if (chosen < n_free) high = std::min(high, -order[chosen].gain);
    if (!(low <= high)) return NAN;
    return low > -INF && high < INF ? 0.5 * (low + high) : std::clamp(0.0, low, high);
}

void Counting::best(i64 n, u8 *counts) const {
    for (i64 i = 0; i < n; i++) counts[i] = without[i] == -INF;
    for (i64 m = 0; m < chosen; m++) counts[order[m].member] = 1;
}

// Which members count in the best tuple of a factor (kind 2) into `counts`; returns its value.
static double best(const FactorNet &net, i64 factor, Array<const double, 2> psi, Array<u8> counts) {
    Counting counting;
    const double top = counting.solve(net, factor, psi.data);
    if (top > -INF) counting.best(psi.size(), counts.data);
    return top;
}

void bind_counting(nb::module_ &m) {
    def(m, "best", best, "net"_a, "factor"_a, "psi"_a, "counts"_a,
        "Which members count in the best tuple of a factor of kind CARDINALITY, into ``counts`` (uint8); returns its value, ``-inf`` where there is "
        "none.");
}

} // namespace maxsum
