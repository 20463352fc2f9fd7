// A flow network whose terminal arcs are node excesses, and the state of the search for its maximum flow.
#pragma once

#include "arrays.hpp"

namespace maxsum {

// Arcs come in sister pairs, the arcs of a node are neighbours. A cut pays for each arc from its source side to its sink side, and the excess of each
// node on the wrong side. Capacities may be infinite; excesses are finite. kernels/records.py tells what the arrays hold.
struct Flow {
    Array<i64> ptr;
    Array<i32> arc;
    Array<double> cap;
    Array<double> excess;
    Array<i32> node;
    Array<i32> queue;
    Array<u8> queued;
    Array<i32> orphans;
    Array<i64> state;
    MAXSUM_RECORD(Flow, ptr, arc, cap, excess, node, queue, queued, orphans, state)
};

// `arc` and `cap` share their memory, 16 bytes an arc; kernels see it as these alone.
struct Arc {
    double cap; // residual capacity
    i32 head, sister;
};

// Four numbers of `node`: each visit costs one line of the cache.
struct Node {
    i32 arc;    // to the parent; arcs have numbers from 0
    i32 parent; // the node at the other end of it
    i32 time;   // stamp
    i32 dist;   // > 0 source tree, < 0 sink tree, 0 free
};
static_assert(sizeof(Arc) == 16 && sizeof(Node) == 16);

constexpr i32 ROOT = -2;   // instead of an arc to the parent: of a node with excess,
constexpr i32 NONE = -1;   // of a node in neither tree,
constexpr i32 ORPHAN = -3; // of a node that has lost its parent

// A sink, a node without excess, and a source before the search; copied whole, which is one write.
constexpr Node ROOTS[] = {{ROOT, 0, 0, -1}, {NONE, 0, 0, 0}, {ROOT, 0, 0, 1}};

inline Array<Arc> arcs_of(const Flow &flow) { return {reinterpret_cast<Arc *>(flow.cap.data), {flow.cap.size() / 2}}; }
inline Array<Node> nodes_of(const Flow &flow) { return {reinterpret_cast<Node *>(flow.node.data), {flow.node.size() / 4}}; }

} // namespace maxsum

MAXSUM_RECORD_CASTER(Flow)
