// The arrays of a problem as kernels see them: kernels/records.py tells what they hold.
#pragma once

#include "arrays.hpp"

namespace maxsum {

struct Net {
    Array<const i32> n_states;
    Array<const double, 2> unary;
    Array<const i32, 2> edges;
    Array<const i32> edge_table;
    Array<const double> edge_weight;
    Array<const double, 3> tables;
    Array<const i64> ptr;
    Array<const i32> adj_edge;
    Array<const i8> adj_side;
    Array<const i64> clique_ptr;
    Array<const i32> clique_nodes;
    Array<const double, 2> clique_weights;
    Array<const i64> member_ptr;
    Array<const i32> member;
    Array<const i32> member_clique;
    Array<const double, 3> turned;
    MAXSUM_RECORD(Net, n_states, unary, edges, edge_table, edge_weight, tables, ptr, adj_edge, adj_side, clique_ptr, clique_nodes, clique_weights,
                  member_ptr, member, member_clique, turned)
};

} // namespace maxsum

MAXSUM_RECORD_CASTER(Net)
