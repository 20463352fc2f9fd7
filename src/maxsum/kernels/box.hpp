// TRW-S on one box of the exact search: its labels and tables packed, so that a pass costs what is left of the problem.
//
// Node v has the labels label[v, :size[v]]; the rows of the table of edge e, weight included, are those of `table` from first[0, e] on, and
// transposed from first[1, e] on. There are no cliques here.
#pragma once

#include "net.hpp"

namespace maxsum {

// Room for a packed box; all arrays are scratch.
struct Box {
    Array<i32, 2> label;      // (N, K)
    Array<i32> size;          // (N,)
    Array<i64, 2> first;      // (2, E)
    Array<double, 2> table;   // (R, K), room for all tables, twice
    Array<double, 3> message; // (2, E, K)
    Array<double> theta;      // (K,)
    Array<double> own;        // (K,)
    Array<double> out;        // (K,)
    Array<i32> chosen;        // (N,)
    MAXSUM_RECORD(Box, label, size, first, table, message, theta, own, out, chosen)
};

void list_labels(Array<const i32> n_states, Array<const u8, 2> domain, Array<i32, 2> label, Array<i32> size);
std::tuple<double, i64> tighten(const Net &net, Array<const u8, 2> domain, Array<double, 3> edge_messages, double height, double target, i64 max_iter,
                                double least, const Box &box, Array<i32> labels);
double packed_edge_terms(const Net &net, Array<const double, 3> edge_messages, const Box &box);

} // namespace maxsum

MAXSUM_RECORD_CASTER(Box)
