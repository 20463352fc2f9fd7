// A function of a count whose members get their labels one after another: what it is worth for each label of the next, in O(log n).
#pragma once

#include "factors.hpp"

namespace maxsum {

// Members that have the choice lie in the order of what counting gains them, in a Fenwick tree of numbers and of gains; those that have their label
// are taken out, and those of them that count are added to the count so far. With c of these and S(m) the sum of the m largest gains that are left,
//
//     value(c) = max_m score[c + m] + S(m).
//
// The differences of S fall, and where those of the score do, the maximum is where their sum changes its sign: one descent in the tree. Any score
// does on the widest range around the best count of all in which its differences fall; other counts are left out. If that leaves nothing, the range
// is looked for again (at most `CHANCES` times, each a sort).
class Tally {
    static constexpr i64 CHANCES = 64;
    std::vector<double> gain, sum; // by rank; Fenwick sums from index 1
    std::vector<i32> rank;         // of each member, -1 where it has no choice
    std::vector<u8> counts;        // of each member without a choice: it has to count
    std::vector<i64> number;
    std::vector<u8> here; // by rank: whether the member has no label yet
    const double *score = nullptr;
    i64 low = 0, high = -1, count = 0, chances = CHANCES;

    double gain_step(i64 c) const { return c <= low ? INF : c > high ? -INF : score[c] - score[c - 1]; }

    void put(i64 r, i64 sign) {
        for (i64 p = r + 1; p < i64(number.size()); p += p & -p) number[p] += sign, sum[p] += double(sign) * gain[r];
    }

    double value(i64 c) const {
        const i64 n = i64(number.size()) - 1;
        i64 at = 0, m = 0, step = 1;
        double total = 0.0;
        while (2 * step <= n) step *= 2;
        for (; step > 0; step /= 2) {
            const i64 next = at + step;
            if (next > n) continue;
            const i64 more = m + number[next] - here[next - 1] + 1; // how many it would be with the last of these
            if (gain_step(c + more) + gain[next - 1] < 0.0) continue;
            at = next, m += number[next], total += sum[next];
        }
        return c + m >= low && c + m <= high ? score[c + m] + total : -INF;
    }

    void find_range(i64 best, i64 n) {
        low = high = best;
        auto falls = [&](i64 c) { // whether the differences at c fall, up to rounding
            const double room = 1e-13 * (std::abs(score[c - 1]) + std::abs(score[c]) + std::abs(score[c + 1]));
            return score[c + 1] - score[c] <= score[c] - score[c - 1] + room;
        };
        while (high < n && score[high + 1] > -INF && (high == low || falls(high))) high++;
        while (low > 0 && score[low - 1] > -INF && (low == high || falls(low))) low--;
    }

    void build(const FactorNet &net, i64 f, const double *psi, Room &room) {
        const i64 n = net.ptr[f + 1] - net.ptr[f];
        Counting &known = room.counting;
        low = 0, high = -1;
        if (known.solve(net, f, psi) == -INF) return;
        score = net.scores.data + net.start[f];
        count = known.score - score;
        find_range(count + known.chosen, n);
        const i64 n_free = i64(known.order.size());
        rank.assign(n, -1), counts.assign(n, 0), gain.resize(n_free), here.assign(n_free, 1);
        number.assign(n_free + 1, 0), sum.assign(n_free + 1, 0.0);
        for (i64 r = 0; r < n_free; r++) rank[known.order[r].member] = i32(r), gain[r] = known.order[r].gain;
        for (i64 i = 0; i < n; i++) counts[i] = known.without[i] == -INF;
        for (i64 p = 1; p <= n_free; p++) {
            number[p] += 1, sum[p] += gain[p - 1];
            if (const i64 up = p + (p & -p); up <= n_free) number[up] += number[p], sum[up] += sum[p];
        }
    }

    void take_out(i64 i) {
        if (rank[i] >= 0) {
            here[rank[i]] = 0;
            put(rank[i], -1);
        } else {
            count -= counts[i];
        }
    }

  public:
    void start(const FactorNet &net, i64 f, const double *psi, Room &room) { build(net, f, psi, room); }

    // What each label of a member is worth, up to a constant, and the member is taken out; `psi` forbids all but their label to those told before.
    void ask(const FactorNet &net, i64 f, i64 slot, const double *psi, double *out, Room &room) {
        const i64 i = slot - net.ptr[f], n_labels = net.unary.shape[1];
        std::fill(out, out + n_labels, -INF);
        if (high < low) return;
        take_out(i);
        if (worth(net, slot, psi + i * n_labels, out) > -INF || chances-- <= 0) return;
        build(net, f, psi, room);
        if (high < low) return;
        take_out(i);
        worth(net, slot, psi + i * n_labels, out);
    }

    double worth(const FactorNet &net, i64 slot, const double *own, double *out) const {
        const double no = value(count), yes = value(count + 1);
        double best = -INF;
        for (i64 k = 0; k < net.n_states[net.nodes[slot]]; k++) {
            out[k] = own[k] + (net.counted(slot, k) ? yes : no);
            best = std::max(best, out[k]);
        }
        return best;
    }

    // The label of the member that was asked last.
    void tell(bool counted) { count += counted; }
};

} // namespace maxsum
