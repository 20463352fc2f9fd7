// The arithmetic of a bag of an elimination: sums of tables over some of its axes, and their maxima over the first one.
//
// A table is told by its numbers and its steps along the axes of the bag. Which tables a bag holds is not known here: the elimination and the
// evaluation of its proof find that out by themselves, each in its own way, so that a mistake of one is not repeated by the other.
#pragma once

#include "arrays.hpp"
#include "poll.hpp"

namespace maxsum {

constexpr i64 MOST_AXES = 64; // of a bag; orders are no wider than 60

// Entries (x - centre) * weight of a table.
struct Strided {
    const double *data;
    double centre = 0.0;
    double weight = 1.0;

    double at(i64 i) const { return (data[i] - centre) * weight; }
    Strided from(i64 i) const { return {data + i, centre, weight}; }
};

struct Operand {
    Strided values;
    i64 cells;                         // that it has, without repetition
    u64 axes;                          // on which it depends, as bits
    std::array<i64, MOST_AXES> step{}; // along each axis of the bag, 0 where it does not depend on it
};

using Steps = std::array<i64, MOST_AXES>;

// out[j] = a[j * a_step] + b(j * b_step) for j < n; steps are 0 or 1 as a rule.
inline void add_row(double *__restrict out, i64 n, const double *a, i64 a_step, const Strided &b, i64 b_step) {
    const double centre = b.centre, weight = b.weight;
    const double *x = b.data;
    if (b_step == 0) {
        const double own = b.at(0);
        if (a_step == 1) {
            for (i64 j = 0; j < n; j++) out[j] = a[j] + own;
        } else {
            for (i64 j = 0; j < n; j++) out[j] = a[j * a_step] + own;
        }
    } else if (a_step == 0 && b_step == 1) {
        const double own = a[0];
        for (i64 j = 0; j < n; j++) out[j] = own + (x[j] - centre) * weight;
    } else if (a_step == 1 && b_step == 1) {
        for (i64 j = 0; j < n; j++) out[j] = a[j] + (x[j] - centre) * weight;
    } else {
        for (i64 j = 0; j < n; j++) out[j] = a[j * a_step] + (x[j * b_step] - centre) * weight;
    }
}

constexpr i64 TILE = 16; // columns whose maxima are held in registers

// best[j] = max over r < rows of a[r, j] + b(r, j), for N columns; A and B are the steps of the columns, -1 for those of the call.
template <int N, int A, int B, bool PLAIN>
inline void best_columns(double *__restrict best, i64 rows, const double *a, i64 a_row, i64 a_step, const Strided &b, i64 b_row, i64 b_step) {
    const double centre = b.centre, weight = b.weight;
    const double *x = b.data;
    double top[N];
    for (int j = 0; j < N; j++) top[j] = -INF;
    for (i64 r = 0; r < rows; r++, a += a_row, x += b_row) {
        for (int j = 0; j < N; j++) {
            const double one = A == 0 ? a[0] : A == 1 ? a[j] : a[j * a_step];
            const double two = B == 0 ? x[0] : B == 1 ? x[j] : x[j * b_step];
            const double value = one + (PLAIN ? two - centre : (two - centre) * weight);
            top[j] = top[j] > value ? top[j] : value;
        }
    }
    for (int j = 0; j < N; j++) best[j] = top[j];
}

template <int N, int A, int B, bool PLAIN>
inline void best_columns_of(i64 n, double *best, i64 rows, const double *a, i64 a_row, i64 a_step, const Strided &b, i64 b_row, i64 b_step) {
    if (n == N) {
        best_columns<N, A, B, PLAIN>(best, rows, a, a_row, a_step, b, b_row, b_step);
    } else if constexpr (N > 1) {
        best_columns_of<N - 1, A, B, PLAIN>(n, best, rows, a, a_row, a_step, b, b_row, b_step);
    }
}

// The same for any number of columns.
template <int A, int B, bool PLAIN>
void best_tiles(double *best, i64 n, i64 rows, const double *a, i64 a_row, i64 a_step, const Strided &b, i64 b_row, i64 b_step) {
    i64 j = 0;
    for (; j + TILE <= n; j += TILE)
        best_columns<TILE, A, B, PLAIN>(best + j, rows, a + j * a_step, a_row, a_step, b.from(j * b_step), b_row, b_step);
    if (j < n) best_columns_of<TILE - 1, A, B, PLAIN>(n - j, best + j, rows, a + j * a_step, a_row, a_step, b.from(j * b_step), b_row, b_step);
}

inline void best_rows(double *best, i64 n, i64 rows, const double *a, i64 a_row, i64 a_step, const Strided &b, i64 b_row, i64 b_step) {
    const bool plain = b.weight == 1.0;
    if (a_step == 0 && b_step == 1) {
        if (plain) {
            best_tiles<0, 1, true>(best, n, rows, a, a_row, a_step, b, b_row, b_step);
        } else {
            best_tiles<0, 1, false>(best, n, rows, a, a_row, a_step, b, b_row, b_step);
        }
    } else if (a_step == 1 && b_step == 1) {
        if (plain) {
            best_tiles<1, 1, true>(best, n, rows, a, a_row, a_step, b, b_row, b_step);
        } else {
            best_tiles<1, 1, false>(best, n, rows, a, a_row, a_step, b, b_row, b_step);
        }
    } else if (a_step == 1 && b_step == 0) {
        best_tiles<1, 0, false>(best, n, rows, a, a_row, a_step, b, b_row, b_step);
    } else {
        best_tiles<-1, -1, false>(best, n, rows, a, a_row, a_step, b, b_row, b_step);
    }
}

// A bag: axis 0 is the eliminated node, the others its separator. Tables are added up by their sizes, so that small ones come first; then rewards,
// which are paid where all axes of a set have the same label.
class Bag {
    struct Reward {
        const double *weights;
        u64 axes;
    };

    std::vector<Operand> operands;
    std::vector<i32> by_size;
    std::vector<Reward> rewards;
    std::vector<double> sums[2];
    i64 used = 0;

  public:
    i64 width = 0; // axes
    Steps size{};

    void clear() {
        width = used = 0;
        by_size.clear();
        rewards.clear();
    }
    void add_axis(i64 n) { size[width++] = n; }
    i64 cells(i64 first = 0) const {
        i64 all = 1;
        for (i64 axis = first; axis < width; axis++) all *= size[axis];
        return all;
    }
    i64 count() const { return i64(by_size.size() + rewards.size()); }

    // A table that is still to be told its axes, each once.
    Operand &add(Strided values) {
        if (used == i64(operands.size())) operands.emplace_back();
        Operand &own = operands[used++];
        own.values = values;
        own.cells = 1;
        own.axes = 0;
        std::fill(own.step.begin(), own.step.begin() + width, 0);
        return own;
    }
    void along(Operand &own, i64 axis, i64 step) const {
        own.axes |= u64(1) << axis;
        own.step[axis] = step;
        own.cells *= size[axis];
    }
    void add_reward(const double *weights, u64 axes) { rewards.push_back({weights, axes}); }

    // To be called when everything is added, before the next two.
    void close() {
        for (i64 i = 0; i < used; i++) {
            by_size.push_back(i32(i));
            for (i64 j = i; j > 0 && operands[by_size[j]].cells < operands[by_size[j - 1]].cells; j--) std::swap(by_size[j], by_size[j - 1]);
        }
    }

    // Largest sum over the labels of axis 0, for each labelling of the others.
    void maximise(double *best, Poll &poll) {
        Operand sum = nothing();
        const i64 n = used;
        for (i64 i = 0; i + 1 < n; i++) sum = grown(sum, operands[by_size[i]], sums[i % 2], sum.axes | operands[by_size[i]].axes, poll);
        if (rewards.empty()) {
            best_of(sum, operands[by_size[n - 1]], best, poll);
            return;
        }
        sum = grown(sum, operands[by_size[n - 1]], sums[(n - 1) % 2], (u64(1) << width) - 1, poll);
        for (const Reward &own : rewards) pay(own, sums[(n - 1) % 2].data(), sum.step);
        best_of(sum, nothing(), best, poll);
    }

    // The sum at one labelling of all axes, added up in the same order.
    double at(const Steps &label) const {
        double value = 0.0;
        for (i32 i : by_size) {
            const Operand &own = operands[i];
            i64 place = 0;
            for (i64 axis = 0; axis < width; axis++) place += label[axis] * own.step[axis];
            value += own.values.at(place);
        }
        for (const Reward &own : rewards) value += paid(own, label);
        return value;
    }

    // The first best label of axis 0, where the others have theirs.
    i64 choose(Steps label) {
        std::vector<double> &values = sums[0];
        values.assign(std::size_t(size[0]), 0.0);
        for (i32 i : by_size) {
            const Operand &own = operands[i];
            i64 place = 0;
            for (i64 axis = 1; axis < width; axis++) place += label[axis] * own.step[axis];
            for (i64 k = 0; k < size[0]; k++) values[k] += own.values.at(place + k * own.step[0]);
        }
        i64 chosen = 0;
        double top = -INF;
        for (i64 k = 0; k < size[0]; k++) {
            label[0] = k;
            double value = values[k];
            for (const Reward &own : rewards) value += paid(own, label);
            if (value > top) top = value, chosen = k;
        }
        return chosen;
    }

  private:
    static constexpr double ZERO = 0.0;

    // A sum of nothing.
    static Operand nothing() { return {{&ZERO}, 1, 0, {}}; }

    double paid(const Reward &own, const Steps &label) const {
        i64 common = -1;
        for (i64 axis = 0; axis < width; axis++) {
            if (!(own.axes >> axis & 1)) continue;
            if (common >= 0 && label[axis] != common) return 0.0;
            common = label[axis];
        }
        return own.weights[common];
    }

    // Add a reward to a full table with these steps: only to entries where it is paid.
    void pay(const Reward &own, double *full, const Steps &step) const {
        Steps extent, others;
        i64 n = 0, least = std::numeric_limits<i64>::max(), together = 0;
        for (i64 axis = 0; axis < width; axis++) {
            if (own.axes >> axis & 1) {
                least = std::min(least, size[axis]);
                together += step[axis];
            } else {
                extent[n] = size[axis];
                others[n++] = step[axis];
            }
        }
        for (i64 k = 0; k < least; k++) {
            const double weight = own.weights[k];
            walk(n, extent, others, others, [&](i64 at, i64) { full[k * together + at] += weight; });
        }
    }

    // a + b as a table over `axes` in `memory`; `a` is a sum, with centre 0 and weight 1.
    Operand grown(const Operand &a, const Operand &b, std::vector<double> &memory, u64 axes, Poll &poll) const {
        Operand made{{}, 1, axes, {}};
        for (i64 axis = width - 1; axis >= 0; axis--) {
            if (axes >> axis & 1) {
                made.step[axis] = made.cells;
                made.cells *= size[axis];
            }
        }
        if (i64(memory.size()) < made.cells) memory = std::vector<double>(std::size_t(made.cells));
        made.values = {memory.data()};
        Steps extent, a_step, b_step;
        const i64 n = fused(0, a, b, axes, extent, a_step, b_step);
        const i64 row = extent[n - 1];
        double *out = memory.data();
        walk(n - 1, extent, a_step, b_step, [&](i64 a_at, i64 b_at) {
            add_row(out, row, a.values.data + a_at, a_step[n - 1], b.values.from(b_at), b_step[n - 1]);
            out += row;
            poll(u64(row));
        });
        return made;
    }

    void best_of(const Operand &a, const Operand &b, double *best, Poll &poll) const {
        Steps extent, a_step, b_step;
        const i64 n = fused(1, a, b, (u64(1) << width) - 1, extent, a_step, b_step);
        const i64 row = extent[n - 1];
        walk(n - 1, extent, a_step, b_step, [&](i64 a_at, i64 b_at) {
            best_rows(best, row, size[0], a.values.data + a_at, a.step[0], a_step[n - 1], b.values.from(b_at), b.step[0], b_step[n - 1]);
            best += row;
            poll(u64(row * size[0]));
        });
    }

    // Axes from `first` on, neighbours that both operands pass in one stride taken together; at least one.
    i64 fused(i64 first, const Operand &a, const Operand &b, u64 axes, Steps &extent, Steps &a_step, Steps &b_step) const {
        i64 n = 0;
        for (i64 axis = first; axis < width; axis++) {
            if (!(axes >> axis & 1)) continue;
            if (n && a_step[n - 1] == a.step[axis] * size[axis] && b_step[n - 1] == b.step[axis] * size[axis]) {
                n--;
                extent[n] *= size[axis];
            } else {
                extent[n] = size[axis];
            }
            a_step[n] = a.step[axis];
            b_step[n] = b.step[axis];
            n++;
        }
        if (!n) extent[n] = 1, a_step[n] = 0, b_step[n] = 0, n++;
        return n;
    }

    // Call `visit` with the offsets of both operands, for all labels of the first n fused axes.
    template <class Visit> static void walk(i64 n, const Steps &extent, const Steps &a_step, const Steps &b_step, Visit &&visit) {
        Steps label;
        std::fill(label.begin(), label.begin() + n, 0);
        i64 a_at = 0, b_at = 0;
        while (true) {
            visit(a_at, b_at);
            i64 axis = n - 1;
            for (; axis >= 0; axis--) {
                a_at += a_step[axis];
                b_at += b_step[axis];
                if (++label[axis] < extent[axis]) break;
                a_at -= extent[axis] * a_step[axis];
                b_at -= extent[axis] * b_step[axis];
                label[axis] = 0;
            }
            if (axis < 0) return;
        }
    }
};

} // namespace maxsum
