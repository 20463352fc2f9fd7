// A few neighbouring numbers at a time, in one register of the processor: for loops that the compiler does not vectorise by itself, such as maxima.
//
// What is done to a lane is what a plain loop does to the number, in the same order: the results are the same bits for any number of lanes.
#pragma once

#include <cstring>

#include "arrays.hpp"

namespace maxsum {

#if !defined(__GNUC__)
constexpr int LANES = 1;
#elif defined(__AVX__)
constexpr int LANES = 4;
#else
constexpr int LANES = 2;
#endif

template <int W> struct Register {
#if defined(__GNUC__)
    typedef double Type __attribute__((vector_size(W * sizeof(double))));
#endif
};

template <> struct Register<1> {
    using Type = double;
};

template <int W> struct Lanes {
    using Type = typename Register<W>::Type;
    Type value;

    static Lanes all(double x) {
        Lanes made;
        if constexpr (W == 1) {
            made.value = x;
        } else {
            made.value = x - Type{};
        }
        return made;
    }
    static Lanes load(const double *from) {
        Lanes made;
        std::memcpy(&made.value, from, sizeof(Type));
        return made;
    }
    void store(double *to) const { std::memcpy(to, &value, sizeof(Type)); }
    // The largest of all lanes.
    double largest() const {
        if constexpr (W == 1) {
            return value;
        } else {
            double best = value[0];
            if constexpr (W == 2) {
                best = std::max(best, value[1]);
            } else {
                for (int i = 1; i < W; i++) best = std::max(best, value[i]);
            }
            return best;
        }
    }

    // The sum of all lanes, from the first to the last.
    double sum() const {
        if constexpr (W == 1) {
            return value;
        } else {
            double all = 0.0;
            for (int i = 0; i < W; i++) all += value[i];
            return all;
        }
    }

    friend Lanes operator+(Lanes a, Lanes b) { return {a.value + b.value}; }
    friend Lanes operator-(Lanes a, Lanes b) { return {a.value - b.value}; }
    friend Lanes operator*(Lanes a, Lanes b) { return {a.value * b.value}; }
    friend Lanes max(Lanes a, Lanes b) { return {a.value < b.value ? b.value : a.value}; }
};

// Scratch for rows of n numbers, each from the beginning of a cache line on: what crosses two of them is slow to read back.
class Rows {
  public:
    Rows(i64 rows, i64 n) : stride((n + 7) / 8 * 8), memory(std::make_unique_for_overwrite<double[]>(std::size_t(rows * stride + 8))) {
        first = memory.get() + (64 - reinterpret_cast<std::uintptr_t>(memory.get()) % 64) % 64 / sizeof(double);
    }
    double *operator[](i64 row) const { return first + row * stride; }

  private:
    i64 stride;
    std::unique_ptr<double[]> memory;
    double *first;
};

// The largest of a[i] + b[i], i < n; -inf if there is none.
inline double largest_sum(const double *a, const double *b, i64 n) {
    using L = Lanes<LANES>;
    L low = L::all(-INF), high = L::all(-INF);
    i64 i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        low = max(low, L::load(a + i) + L::load(b + i));
        high = max(high, L::load(a + i + LANES) + L::load(b + i + LANES));
    }
    double best = max(low, high).largest();
    for (; i < n; i++) best = std::max(best, a[i] + b[i]);
    return best;
}

} // namespace maxsum
