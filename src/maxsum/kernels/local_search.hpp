// Moves of the local search: many nodes at once, each time the best labelling of a random forest while all others keep theirs.
//
// All scores are finite here: the caller has put a penalty in place of every -inf.
#pragma once

#include "net.hpp"

namespace maxsum {

double total_score(const Net &net, Array<const i32> labels);

// Next number of xorshift64* (64 bits, the upper ones good).
inline u64 random(u64 &state) {
    u64 x = state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    state = x;
    return x * u64(2685821657736338717);
}

// A random number in 0 .. n - 1.
inline i64 below(i64 n, u64 &state) { return i64(double(random(state) >> 11) * 0x1p-53 * double(n)); }

// Add `temperature` times a random entry of `gumbel` (4096 numbers) to each score.
inline void noise(i64 states, double temperature, const double *gumbel, u64 &state, double *theta) {
    u64 bits = 0;
    i64 left = 0;
    for (i64 k = 0; k < states; k++) {
        if (left == 0) bits = random(state) >> 4, left = 5;
        theta[k] += temperature * gumbel[bits & 4095];
        bits >>= 12;
        left -= 1;
    }
}

constexpr i64 ANY = -1, NONE = -2;

// The label that all other members of clique c have: ANY if there are none, NONE if they differ.
inline i64 common_label(const Net &net, i64 c, i64 v, Array<const i32> labels) {
    i64 common = ANY;
    for (i64 j = net.clique_ptr[c]; j < net.clique_ptr[c + 1]; j++) {
        const i64 w = net.clique_nodes[j];
        if (w == v) continue;
        if (common >= 0 && labels[w] != common) return NONE;
        common = labels[w];
    }
    return common;
}

} // namespace maxsum
