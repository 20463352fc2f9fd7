// Regions: the parts of a graph where stored labellings disagree, each with labellings and multipliers of its own.
//
// Two nodes are linked by an edge or a clique. Where no node of one region is linked to a node of another, scores and features of a labelling are
// sums over regions, so every region may mix its labellings independently of the others.
#pragma once

#include "arrays.hpp"

namespace maxsum {

// Labellings of regions; that of node v outside of all is base[v]. kernels/records.py tells what the arrays hold.
struct Regions {
    Array<const i32> base;
    Array<const i64> region;
    Array<const i64> place;
    Array<const i64> node_ptr;
    Array<const i64> node;
    Array<const i64> atom_ptr;
    Array<const i64> label_ptr;
    Array<const i32> label;
    Array<const double> alpha;
    Array<const i64> age;
    MAXSUM_RECORD(Regions, base, region, place, node_ptr, node, atom_ptr, label_ptr, label, alpha, age)

    i64 size() const { return node_ptr.size() - 1; }
    i64 n_nodes(i64 r) const { return node_ptr[r + 1] - node_ptr[r]; }
    i64 n_atoms(i64 r) const { return atom_ptr[r + 1] - atom_ptr[r]; }
};

} // namespace maxsum

MAXSUM_RECORD_CASTER(Regions)
