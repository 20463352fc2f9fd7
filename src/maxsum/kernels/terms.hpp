// The terms of a problem, and an order of elimination, as kernels see them: kernels/records.py tells what the arrays hold.
#pragma once

#include "arrays.hpp"

namespace maxsum {

struct TermArrays {
    Array<const i32> n_states;
    Array<const double, 2> unary;
    Array<const double> unary_top;
    Array<const i32, 2> edges;
    Array<const i32> edge_table;
    Array<const double> edge_weight;
    Array<const double> edge_centre;
    Array<const double, 3> tables;
    Array<const i64> clique_ptr;
    Array<const i32> clique_nodes;
    Array<const double, 2> clique_weights;
    Array<const i64> factor_ptr;
    Array<const i32> factor_nodes;
    Array<const i64> factor_start;
    Array<const double> factor_centre;
    Array<const double> bank;
    MAXSUM_RECORD(TermArrays, n_states, unary, unary_top, edges, edge_table, edge_weight, edge_centre, tables, clique_ptr, clique_nodes,
                  clique_weights, factor_ptr, factor_nodes, factor_start, factor_centre, bank)
};

struct Separators {
    Array<const i32> nodes;
    Array<const i64> ptr;
    Array<const i32> members;
    Array<const i64> table_ptr;
    MAXSUM_RECORD(Separators, nodes, ptr, members, table_ptr)
};

} // namespace maxsum

MAXSUM_RECORD_CASTER(TermArrays)
MAXSUM_RECORD_CASTER(Separators)
