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

    friend Lanes operator+(Lanes a, Lanes b) { return {a.value + b.value}; }
    friend Lanes operator-(Lanes a, Lanes b) { return {a.value - b.value}; }
    friend Lanes operator*(Lanes a, Lanes b) { return {a.value * b.value}; }
    friend Lanes max(Lanes a, Lanes b) { return {a.value < b.value ? b.value : a.value}; }
};

} // namespace maxsum
