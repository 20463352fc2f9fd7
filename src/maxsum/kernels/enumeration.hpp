// Enumeration of one box of the exact search: labels are given to its nodes one after another, with the losses under the messages of the box as
// bounds. Cheap where the messages almost close the box.
#pragma once

#include "box.hpp"

namespace maxsum {

// Room for an enumeration; all arrays are scratch. M is the number of labels of the largest box.
struct Enumeration {
    Array<i64> offset;      // (N + 1,)
    Array<i32> order;       // (N,)
    Array<i32> rank;        // (N,)
    Array<double> inside;   // (N,)
    Array<double> outside;  // (N,)
    Array<double> mean;     // (E,)
    Array<double, 2> loss;  // (N + 1, M)
    Array<double, 2> least; // (N + 1, N)
    Array<double> total;    // (N + 1,)
    Array<i32> at;          // (N + 1,)
    Array<i32> found;       // (N,)
    Array<i32> best;        // (N,)
    MAXSUM_RECORD(Enumeration, offset, order, rank, inside, outside, mean, loss, least, total, at, found, best)
};

std::tuple<i64, double> enumerate_box(const Net &net, Array<const double, 3> edge_messages, Array<const double, 2> slack, const Box &box,
                                      const Enumeration &room, double wanted, double closed_gap, i64 limit, Array<i32> labels);

} // namespace maxsum

MAXSUM_RECORD_CASTER(Enumeration)
