// One box of the exact search: shrink it, tighten its bound, choose where to branch.
#include "box.hpp"
#include "consistency.hpp"
#include "enumeration.hpp"
#include "height.hpp"

#include <stdexcept>

namespace maxsum {

namespace {

// Write the box into `unary`: the scores `base` inside `domain`, -inf outside.
void restrict_to(Array<double, 2> unary, Array<const double, 2> base, Array<const u8, 2> domain) {
    if (unary.shape != base.shape || domain.shape != base.shape) throw std::invalid_argument("unary, base and domain must have the same shape");
    if (unary.data == base.data) throw std::invalid_argument("unary must not be base itself: the scores outside of the box would be lost");
    double *__restrict own = unary.data;
    const double *score = base.data;
    const u8 *inside = domain.data;
    const i64 count = base.count();
    for (i64 i = 0; i < count; i++) own[i] = inside[i] ? score[i] : -INF;
}

// The same problem with other scores of nodes.
Net with_unary(Net net, Array<const double, 2> unary) {
    net.unary = unary;
    return net;
}

// Height of the box; slack[v, k] gets the loss of label k at its node (inf outside the box).
double box_height(const Net &problem, Array<const u8, 2> domain, Array<const double, 3> edge_messages, Array<const double, 2> clique_messages,
                  Array<double, 2> slack, const Box &room) {
    const Net net = problem;
    const Box box = room;
    list_labels(net.n_states, domain, box.label, box.size);
    double total = packed_edge_terms(net, edge_messages, box);
    if (net.clique_ptr.size() > 1) total += std::get<0>(clique_terms(net, clique_messages, Array<const i32>()));
    for (i64 v = 0; v < net.n_states.size(); v++) {
        const i64 states = net.n_states[v], size = box.size[v];
        const i32 *label = box.label[v].data;
        double *__restrict own = slack[v].data;
        const double *unary = net.unary[v].data;
        for (i64 k = 0; k < states; k++) own[k] = unary[k];
        for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
            const double *message = edge_messages[net.adj_side[i]][net.adj_edge[i]].data;
            for (i64 a = 0; a < size; a++) own[label[a]] -= message[label[a]];
        }
        for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
            const double *message = clique_messages[net.member[i]].data;
            for (i64 a = 0; a < size; a++) own[label[a]] -= message[label[a]];
        }
        const double top = largest(own, states);
        total += top;
        for (i64 k = 0; k < states; k++) own[k] = own[k] > -INF ? top - own[k] : INF;
    }
    return total;
}

// Remove from the box what cannot exceed `target`, by arc consistency and by the loss of each label.
//
// `unary` gets the scores of what is left of the box, as restrict_to writes them, and is read in place of those of the net.
// On entry `queued` marks the nodes that have lost labels; `hard` says whether there are hard constraints. Returns the height of what is left, -inf
// if nothing is.
double shrink(const Net &problem, Array<double, 2> unary, Array<const double, 2> base, Array<u8, 2> domain, Array<const double, 3> edge_messages,
              Array<const double, 2> clique_messages, double target, Array<double, 2> slack, Array<i32> queue, Array<u8> queued, Flag hard,
              const Box &box) {
    const Net net = with_unary(problem, unary);
    while (true) {
        if (hard && !arc_consistency(net, domain, queue, queued, Flag{false})) {
            queued.fill(0);
            return -INF;
        }
        restrict_to(unary, base, domain);
        const double total = box_height(net, domain, edge_messages, clique_messages, slack, box);
        if (total <= target) return -INF;
        bool changed = false;
        for (i64 v = 0; v < net.n_states.size(); v++) {
            for (i64 k = 0; k < net.n_states[v]; k++) {
                if (domain(v, k) && total - slack(v, k) <= target) {
                    domain(v, k) = 0;
                    queued[v] = 1;
                    changed = true;
                }
            }
        }
        if (!changed) return total;
    }
}

// Number of labels of v that are left.
i64 labels_left(const Net &net, Array<const u8, 2> domain, i64 v) {
    i64 size = 0;
    for (i64 k = 0; k < net.n_states[v]; k++) size += domain(v, k);
    return size;
}

// Remove every label whose choice would empty a domain by arc consistency, until none is left.
//
// The removed (node, label) pairs are listed in `found`, in order. Returns their number, and false if the box is empty.
std::tuple<i64, bool> probe(const Net &net, Array<u8, 2> domain, Array<u8, 2> trial, Array<i32> queue, Array<u8> queued, Array<i32, 2> found) {
    const i64 n_nodes = net.n_states.size();
    i64 n_found = 0, quiet = 0, v = 0;
    while (quiet < n_nodes) {
        const i64 tried = labels_left(net, domain, v) > 1 ? net.n_states[v] : 0;
        bool changed = false;
        for (i64 k = 0; k < tried; k++) {
            if (!domain(v, k)) continue;
            trial.copy_from(domain);
            trial[v].fill(0);
            trial(v, k) = 1;
            queued.fill(0);
            queued[v] = 1;
            if (arc_consistency(net, trial, queue, queued, Flag{false})) continue;
            found(n_found, 0) = i32(v);
            found(n_found, 1) = i32(k);
            n_found += 1;
            domain(v, k) = 0;
            queued.fill(0);
            queued[v] = 1;
            changed = true;
            if (!arc_consistency(net, domain, queue, queued, Flag{false})) return {n_found, false};
        }
        quiet = changed ? 0 : quiet + 1;
        v = (v + 1) % n_nodes;
    }
    return {n_found, true};
}

// Node and label to branch on, -1 if all are decided.
//
// The node has few labels that lose much on average (with hard constraints alone: few labels and many edges); of `many` labels, where a branching
// leaves some of them, it has the largest sum of squared losses. The label is its best.
std::tuple<i64, i64> choose(const Net &net, Array<const u8, 2> domain, Array<const double, 2> slack, Flag many) {
    i64 best_node = -1;
    double best_value = INF;
    for (i64 v = 0; v < net.n_states.size(); v++) {
        i64 size = 0;
        double loss = 0.0, squares = 0.0;
        for (i64 k = 0; k < net.n_states[v]; k++) {
            if (domain(v, k)) size += 1, loss += slack(v, k), squares += slack(v, k) * slack(v, k);
        }
        if (size < 2) continue;
        const double few = double(size) / (loss / double(size) + 1e-9 * (1.0 + double(net.ptr[v + 1]) - double(net.ptr[v])));
        const double value = many && squares > 0.0 ? -squares : few;
        if (value < best_value) best_node = v, best_value = value;
    }
    if (best_node < 0) return {-1, -1};
    i64 label = -1;
    double least = INF;
    for (i64 k = 0; k < net.n_states[best_node]; k++) {
        if (domain(best_node, k) && slack(best_node, k) < least) least = slack(best_node, k), label = k;
    }
    return {best_node, label};
}

// Label that halves the labels of v that are left (as many below it as from it on), and their number.
std::tuple<i64, i64> middle(const Net &net, Array<const u8, 2> domain, i64 v) {
    const i64 size = labels_left(net, domain, v);
    i64 below = 0;
    for (i64 k = 0; k < net.n_states[v]; k++) {
        if (2 * below >= size) return {k, size};
        below += domain(v, k);
    }
    return {net.n_states[v] - 1, size};
}

using Limits = std::tuple<double, double, i64, double, i64, Flag>;
using Scratch = std::tuple<Array<double, 2>, Array<i32>, Array<u8>, Flag, Box>;
using Visited = std::tuple<i64, i64, double, double, i64, i64, i64, i64, double>;

// Sum over all messages of their largest entry in size: what rounding can hide is a share of it.
double message_sizes(Array<const double, 3> edge_messages) {
    const i64 count = edge_messages.shape[0] * edge_messages.shape[1], states = edge_messages.shape[2];
    double total = 0.0;
    for (i64 i = 0; i < count; i++) {
        const double *message = edge_messages.data + i * states;
        double most = 0.0;
        for (i64 k = 0; k < states; k++) most = std::max(most, std::abs(message[k]));
        total += most;
    }
    return total;
}

// shrink, tighten, shrink, enumerate_box and choose in one: (passes, opened, height, score, node, label, middle, size, sizes).
//
// `limits` are the target, its distance from the best score, max_iter and least of tighten, the work that an enumeration may take, in passes (0:
// none), and whether there are many labels. `labels` with `score` (-inf: none) is a labelling met on the way; `size` is the number of labels of
// `node`. `opened` is what an enumeration that closed the box has opened (0: it did not, or there was none; then height > -inf says that the box is
// open). `sizes` are the message_sizes after the passes, 0 if there were none.
Visited visit(const Net &problem, Array<double, 2> unary, Array<const double, 2> base, Array<u8, 2> domain, Array<double, 3> edge_messages,
              Array<const double, 2> clique_messages, const Limits &limits, const Scratch &scratch, const Enumeration &room, Array<i32> labels) {
    const Net net = with_unary(problem, unary);
    auto [target, closed_gap, max_iter, least, work, many] = limits;
    const auto &[slack, queue, queued, hard, box] = scratch;
    double height = shrink(net, unary, base, domain, edge_messages, clique_messages, target, slack, queue, queued, hard, box);
    if (height == -INF) return {0, 0, -INF, -INF, -1, -1, -1, 0, 0.0};
    auto [score, n_passes] = tighten(net, domain, edge_messages, height, target, max_iter, least, box, labels);
    const double sizes = message_sizes(edge_messages);
    if (score > -INF) target = std::max(target, score + closed_gap);
    height = shrink(net, unary, base, domain, edge_messages, clique_messages, target, slack, queue, queued, hard, box);
    if (height == -INF) return {n_passes, 0, height, score, -1, -1, -1, 0, sizes};
    i64 n_labels = 0, pairs = 0;
    for (i32 size : box.size) n_labels += size;
    for (i64 e = 0; e < net.edges.size(); e++) pairs += i64(box.size[net.edges(e, 0)]) * box.size[net.edges(e, 1)];
    if (work > 0 && n_labels <= room.loss.shape[1]) {
        const i64 limit = 64 + floor_div(work * pairs, n_labels);
        const auto [opened, loss] = enumerate_box(net, edge_messages, slack, box, room, height - target, closed_gap, limit, room.best);
        if (height - loss > score) {
            score = height - loss;
            labels.copy_from(room.best);
        }
        if (opened <= limit) return {n_passes, opened + 1, -INF, score, -1, -1, -1, 0, sizes};
    }
    const auto [node, label] = choose(net, domain, slack, many);
    i64 at = -1, size = 0;
    if (node >= 0) std::tie(at, size) = middle(net, domain, node);
    return {n_passes, 0, height, score, node, label, at, size, sizes};
}

} // namespace

void bind_search(nb::module_ &m) {
    def(m, "restrict", restrict_to, "unary"_a, "base"_a, "domain"_a,
        "Write the box into ``unary``: the scores ``base`` inside ``domain``, ``-inf`` outside.");
    def(m, "shrink", shrink, "net"_a, "unary"_a, "base"_a, "domain"_a, "edge_messages"_a, "clique_messages"_a, "target"_a, "slack"_a, "queue"_a,
        "queued"_a, "hard"_a, "box"_a,
        "Remove from the box what cannot exceed ``target``, and write what is left into ``unary``, which is read in place of ``net.unary``; returns "
        "its "
        "height, ``-inf`` if nothing is left.");
    def(m, "probe", probe, "net"_a, "domain"_a, "trial"_a, "queue"_a, "queued"_a, "found"_a,
        "Remove every label whose choice would empty a domain by arc consistency: ``(number removed, whether the box is not empty)``.");
    def(m, "choose", choose, "net"_a, "domain"_a, "slack"_a, "many"_a, "Node and label to branch on, -1 if all are decided.");
    def(m, "middle", middle, "net"_a, "domain"_a, "v"_a, "Label that halves the labels of ``v`` that are left, and their number.");
    def(m, "visit", visit, "net"_a, "unary"_a, "base"_a, "domain"_a, "edge_messages"_a, "clique_messages"_a, "limits"_a, "scratch"_a, "room"_a,
        "labels"_a, "Shrink, tighten, shrink, enumerate and choose in one: ``(passes, opened, height, score, node, label, middle, size, sizes)``.");
}

} // namespace maxsum
