// Maximum flow in a network whose terminal arcs are node excesses: a few sweeps of pushes, then two search trees.
//
// The trees are those of Boykov and Kolmogorov (2004): one grows from the nodes with positive excess (sources), one from those with negative excess
// (sinks). Where they meet, flow is pushed; nodes cut off from their root look for a new parent.
#include "maxflow.hpp"

namespace maxsum {

constexpr i64 LAST_TIME = (i64(1) << 31) - 2; // time stamps that 32 bits can hold, with one to spare: then all are set back
constexpr double QUANTA = 20.0;   // the largest excess has 2^20 parts that shares are multiples of: sums of them stay exact up to 2^33 terms
constexpr i64 FAR = i64(1) << 31; // distance of what has no way to a root

// Every node shares its excess among the arcs to later nodes (earlier ones if BACKWARD).
template <bool BACKWARD> static void sweep_to(const Flow &flow) {
    const Array<i64> ptr = flow.ptr;
    const Array<Arc> arcs = arcs_of(flow);
    const Array<double> excess = flow.excess;
    const i64 n = excess.size();
    double top = 0.0;
    for (i64 v = 0; v < n; v++) top = std::max(top, std::abs(excess[v]));
    if (top < 1e-290) return;
    const int power = int(QUANTA - std::floor(std::log2(top)));
    const double scale = std::ldexp(1.0, power), inverse = std::ldexp(1.0, -power); // to multiply by either is exact
    for (i64 k = 0; k < n; k++) {
        const i64 v = BACKWARD ? n - 1 - k : k;
        double t = excess[v];
        const i64 first = ptr[v], last = ptr[v + 1];
        i64 later = 0;
        for (i64 a = first; a < last; a++) later += arcs[a].head > v;
        i64 mine = BACKWARD ? last - first - later : later;
        if (mine == 0) continue;
        const i64 count = std::max(later, last - first - later);
        const double share = std::trunc(t / double(count) * scale) * inverse;
        const bool balanced = 2 * later == last - first;
        for (i64 a = first; a < last; a++) {
            const i64 w = arcs[a].head;
            if ((w < v) != BACKWARD) continue;
            mine -= 1;
            const double wanted = mine == 0 && balanced ? t : share;
            const i64 s = arcs[a].sister;
            const double there = arcs[a].cap, back = arcs[s].cap;
            const double pushed = std::max(std::min(wanted, there), -back);
            arcs[a].cap = there - pushed;
            arcs[s].cap = back + pushed;
            excess[w] += pushed;
            t -= pushed;
        }
        excess[v] = t;
    }
}

// This is a pass of sequential tree-reweighted messages in terms of flow. Shares are multiples of a power of two, so that sums of whole numbers stay
// exact and ties stay ties.
static void sweep(const Flow &flow, Flag backward) {
    if (backward) {
        sweep_to<true>(flow);
    } else {
        sweep_to<false>(flow);
    }
}

// Trees of roots only: every node with excess, all of them active.
static void start(const Flow &flow) {
    const Array<double> excess = flow.excess;
    const Array<Node> nodes = nodes_of(flow);
    const Array<i32> queue = flow.queue;
    const Array<u8> queued = flow.queued;
    const i64 n = excess.size();
    i64 size = 0;
    for (i64 v = 0; v < n; v++) {
        const i32 side = i32(excess[v] > 0.0) - i32(excess[v] < 0.0);
        nodes[v] = ROOTS[1 + side];
        nodes[v].parent = i32(v);
        queued[v] = side != 0;
        queue[size] = i32(v);
        size += side != 0;
    }
    flow.state[0] = 0;
    flow.state[1] = size;
    flow.state[2] = 0;
}

namespace {

// The search: the arrays of a flow, and the numbers of its state while it runs.
struct Search {
    const Array<i64> ptr;
    const Array<Arc> arcs;
    const Array<double> excess;
    const Array<Node> nodes;
    const Array<i32> queue;
    const Array<u8> queued;
    const Array<i32> orphans;
    i64 head, size; // of the queue

    explicit Search(const Flow &flow)
        : ptr(flow.ptr), arcs(arcs_of(flow)), excess(flow.excess), nodes(nodes_of(flow)), queue(flow.queue), queued(flow.queued),
          orphans(flow.orphans), head(flow.state[0]), size(flow.state[1]) {}

    void enqueue(i64 q) {
        const i64 n = queue.size(), end = head + size;
        queued[q] = 1;
        queue[end >= n ? end - n : end] = i32(q);
        size += 1;
    }
    template <int SIDE> i64 grow(i64 p);
    i64 augment(i64 met);
    template <int SIDE> i64 parent_of(i64 p, i32 now, i64 &best) const;
    template <int SIDE> void release(i64 p, i64 first, i64 &count);
    i64 adopt(i64 count, i32 now);
};

// Let the tree of SIDE take the free neighbours of its node p, and those that are nearer to the root through p; returns an arc where the trees meet,
// or -1.
template <int SIDE> i64 Search::grow(i64 p) {
    const Node own = nodes[p];
    const i64 first = ptr[p], last = ptr[p + 1];
    for (i64 a = first; a < last; a++) {
        const Arc arc = arcs[a];
        const i32 s = arc.sister;
        if ((SIDE > 0 ? arc.cap : arcs[s].cap) <= 0.0) continue;
        Node &other = nodes[arc.head];
        const i32 there = other.dist * SIDE;
        if (there < 0) return SIDE > 0 ? a : s;
        if (there == 0) {
            if (!queued[arc.head]) enqueue(arc.head);
        } else if (other.time > own.time || there <= own.dist * SIDE + 1) {
            continue;
        }
        other = {s, i32(p), own.time, own.dist + SIDE};
    }
    return -1;
}

// Push what the path through arc `met`, from the source tree to the sink tree, can take; returns the number of orphans.
//
// Orphans stand at the end of the buffer, those of the sink tree first, in each tree those nearest to the root first.
i64 Search::augment(i64 met) {
    const Array<Arc> arcs = this->arcs;
    const Array<Node> nodes = this->nodes;
    const i64 sister = arcs[met].sister;
    const i64 first = arcs[sister].head, last = arcs[met].head;
    double room = arcs[met].cap;
    i64 x = first;
    for (; nodes[x].arc != ROOT; x = nodes[x].parent) room = std::min(room, arcs[arcs[nodes[x].arc].sister].cap);
    room = std::min(room, excess[x]);
    for (x = last; nodes[x].arc != ROOT; x = nodes[x].parent) room = std::min(room, arcs[nodes[x].arc].cap);
    room = std::min(room, -excess[x]);
    arcs[met].cap -= room;
    arcs[sister].cap += room;
    const i64 n = orphans.size();
    i64 count = 0;
    for (int side = 0; side < 2; side++) {
        x = side == 0 ? first : last;
        while (nodes[x].arc != ROOT) {
            i64 a = nodes[x].arc, s = arcs[a].sister;
            const i64 above = nodes[x].parent;
            if (side == 0) std::swap(a, s);
            const double left = arcs[a].cap - room;
            arcs[a].cap = left;
            arcs[s].cap += room;
            if (left <= 0.0) {
                nodes[x].arc = ORPHAN;
                count += 1;
                orphans[n - count] = i32(x);
            }
            x = above;
        }
        excess[x] += side == 1 ? room : -room;
        if (excess[x] == 0.0) {
            nodes[x].arc = ORPHAN;
            count += 1;
            orphans[n - count] = i32(x);
        }
    }
    return count;
}

// Give orphan p the parent nearest to a root: its arc to it, or -1, in `best`. Returns the work done.
template <int SIDE> i64 Search::parent_of(i64 p, i32 now, i64 &best) const {
    const Array<Arc> arcs = this->arcs;
    const Array<Node> nodes = this->nodes;
    const i64 first = ptr[p], last = ptr[p + 1];
    i64 best_dist = FAR, work = 0;
    best = -1;
    for (i64 a = first; a < last; a++) {
        const Arc arc = arcs[a];
        const i64 q = arc.head;
        if (nodes[q].dist * SIDE <= 0 || (SIDE > 0 ? arcs[arc.sister].cap : arc.cap) <= 0.0) continue;
        i64 dist = 0, x = q;
        for (;;) {
            Node &here = nodes[x];
            work += 1;
            if (here.time == now) {
                dist += std::abs(here.dist);
                break;
            }
            dist += 1;
            if (here.arc < 0) {
                if (here.arc == ORPHAN) {
                    dist = FAR;
                } else {
                    here.time = now;
                    here.dist = SIDE;
                }
                break;
            }
            x = here.parent;
        }
        if (dist == FAR) continue;
        if (dist < best_dist) {
            best = a;
            best_dist = dist;
        }
        for (x = q; nodes[x].time != now; x = nodes[x].parent) {
            nodes[x].time = now;
            nodes[x].dist = i32(dist * SIDE);
            dist -= 1;
        }
    }
    if (best >= 0) nodes[p] = {i32(best), arcs[best].head, now, i32((best_dist + 1) * SIDE)};
    return work;
}

// Free the orphan p: its children are orphans, neighbours that could reach it are active.
template <int SIDE> void Search::release(i64 p, i64 first, i64 &count) {
    const i64 n = orphans.size(), begin = ptr[p], last = ptr[p + 1];
    for (i64 a = begin; a < last; a++) {
        const Arc arc = arcs[a];
        const i64 q = arc.head;
        Node &other = nodes[q];
        if (other.dist * SIDE <= 0) continue;
        if (!queued[q] && (SIDE > 0 ? arcs[arc.sister].cap : arc.cap) > 0.0) enqueue(q);
        if (other.arc >= 0 && other.parent == p) {
            other.arc = ORPHAN;
            const i64 end = first + count;
            orphans[end >= n ? end - n : end] = i32(q);
            count += 1;
        }
    }
    nodes[p].arc = NONE;
    nodes[p].dist = 0;
}

// Give each orphan the parent nearest to a root, or free it and make its children orphans; returns the work done.
//
// Nodes whose way to a root is known since this augmentation carry its time stamp.
i64 Search::adopt(i64 count, i32 now) {
    const i64 n = orphans.size();
    i64 first = n - count, work = 0;
    while (count > 0) {
        const i64 p = orphans[first];
        first = first + 1 < n ? first + 1 : 0;
        count -= 1;
        i64 best;
        if (nodes[p].dist > 0) {
            work += parent_of<1>(p, now, best);
            if (best < 0) release<1>(p, first, count);
        } else {
            work += parent_of<-1>(p, now, best);
            if (best < 0) release<-1>(p, first, count);
        }
    }
    return work;
}

} // namespace

// Work on the flow for about `budget` node visits; true if it is maximal. Then the nodes of the source tree (distance > 0) are the smallest source
// side of a minimum cut.
static bool advance(const Flow &flow, i64 budget) {
    Search search(flow);
    const i64 n = flow.excess.size();
    i64 work = 0, time = flow.state[2], augmentations = flow.state[3];
    while (search.size > 0 && work < budget) {
        const i64 p = search.queue[search.head];
        const i32 dist = search.nodes[p].dist;
        work += 1;
        const i64 met = dist > 0 ? search.grow<1>(p) : dist < 0 ? search.grow<-1>(p) : -1;
        if (met < 0) {
            search.queued[p] = 0;
            search.head = search.head + 1 < n ? search.head + 1 : 0;
            search.size -= 1;
            continue;
        }
        time += 1;
        augmentations += 1;
        if (time >= LAST_TIME) {
            start(flow);
            search.head = 0;
            search.size = flow.state[1];
            time = 0;
        } else {
            work += search.adopt(search.augment(met), i32(time));
        }
    }
    flow.state[0] = search.head;
    flow.state[1] = search.size;
    flow.state[2] = time;
    flow.state[3] = augmentations;
    return search.size == 0;
}

void bind_maxflow(nb::module_ &m) {
    bind_record<Flow>(m);
    def(m, "sweep", sweep, "flow"_a, "backward"_a, "Every node shares its excess among the arcs to later nodes (earlier ones if ``backward``).");
    def(m, "start", start, "flow"_a, "Trees of roots only: every node with excess, all of them active.");
    def(m, "advance", advance, "flow"_a, "budget"_a, "Work on the flow for about ``budget`` node visits; True if it is maximal.");
}

} // namespace maxsum
