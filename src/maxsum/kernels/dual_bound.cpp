// Kernels of the dual bound inside learning: trees on copies of nodes, their best labellings, and what those mean as planes.
//
// A *copy* is a node in one of the trees. The copies of tree c are starts[c] .. starts[c + 1] - 1, parents first. Labels are int8 where there are
// fewer than 128, int32 elsewhere.
#include "design.hpp"

namespace maxsum {

// Trees that cover a graph; every edge is in one of them, and the shares of a node's copies sum to 1.
struct Copies {
    Array<const i64> starts;      // (n_trees + 1,)
    Array<const i64> tree_ptr;    // (n_examples + 1,): trees of each example
    Array<const i32> owner;       // (n_copies,): node of the union
    Array<const double> share;    // (n_copies,): part of the node's scores and loss
    Array<const i32> n_states;    // (n_copies,)
    Array<const i32, 2> edges;    // (E, 2): copies at both ends, in the order of the union's edges
    Array<const i32> parent_edge; // (n_copies,): -1 for roots
    Array<const i8> parent_side;  // (n_copies,): side of the copy on that edge
    Array<const i64> row_ptr;     // (n_examples + 1,): messages of each example
    Array<const i32> free;        // (M,): copy that message r is added to
    Array<const i32> last;        // (M,): copy that message r is subtracted from
    MAXSUM_RECORD(Copies, starts, tree_ptr, owner, share, n_states, edges, parent_edge, parent_side, row_ptr, free, last)
};

} // namespace maxsum

MAXSUM_RECORD_CASTER(Copies)

namespace maxsum {

// Scores of the copies of the examples first .. last - 1: a share of their node's, and the messages.
static void share_scores(const Copies &copies, Array<const double, 2> scores, Array<const double, 2> phi, i64 first, i64 last,
                         Array<double, 2> theta) {
    const i64 n_labels = scores.shape[1], begin = copies.starts[copies.tree_ptr[first]], end = copies.starts[copies.tree_ptr[last]];
    const i32 *owner = copies.owner.data, *free = copies.free.data, *low = copies.last.data;
    for (i64 i = begin; i < end; i++) {
        const double share = copies.share[i], *__restrict from = scores[owner[i]].data;
        double *__restrict to = theta[i].data;
        for (i64 k = 0; k < n_labels; k++) to[k] = share * from[k];
    }
    for (i64 r = copies.row_ptr[first]; r < copies.row_ptr[last]; r++) {
        const double *__restrict message = phi[r].data;
        double *a = theta[free[r]].data, *b = theta[low[r]].data;
        for (i64 k = 0; k < n_labels; k++) a[k] += message[k];
        for (i64 k = 0; k < n_labels; k++) b[k] -= message[k];
    }
}

// What `best` reads and writes; arrays are flat.
template <class L> struct Trees {
    const i64 *starts;
    const i32 *n_states, *edges, *parent_edge;
    const i8 *parent_side;
    const i32 *edge_table;
    const double *edge_weight, *tables, *turned;
    double *theta;
    L *labels;
    double *value;
};

// out[m] = max_k theta[k] + weight * rows[k * K + m], four rows at a time.
template <int CONSTANT>
inline void tree_message(const double *theta, i64 n, double weight, const double *rows, i64 n_labels, double *__restrict out) {
    const i64 K = CONSTANT > 0 ? CONSTANT : n_labels;
    i64 k = 0;
    for (i64 m = 0; m < K; m++) out[m] = -INF;
    for (; k + 4 <= n; k += 4) {
        const double a = theta[k], b = theta[k + 1], c = theta[k + 2], d = theta[k + 3];
        const double *first = rows + k * K, *second = first + K, *third = second + K, *fourth = third + K;
        for (i64 m = 0; m < K; m++) {
            const double low = std::max(a + weight * first[m], b + weight * second[m]);
            const double high = std::max(c + weight * third[m], d + weight * fourth[m]);
            out[m] = std::max(out[m], std::max(low, high));
        }
    }
    for (; k < n; k++) {
        const double a = theta[k], *row = rows + k * K;
        for (i64 m = 0; m < K; m++) out[m] = std::max(out[m], a + weight * row[m]);
    }
}

// The number of labels is a constant of the compiled code where it is one of a list; 0 is any. (Loops of 9 to 16 steps are left out: gcc unrolls them
// before it vectorises, and then vectorises nothing.)
template <int CONSTANT, class L> static void best(const Trees<L> trees, i64 n_labels, i64 first, i64 last) {
    const i64 K = CONSTANT > 0 ? CONSTANT : n_labels;
    const auto [starts, n_states, edges, parent_edge, parent_side, edge_table, edge_weight, tables, turned, theta, labels, value] = trees;
    double small[CONSTANT > 0 ? CONSTANT : 1];
    std::vector<double> large(CONSTANT > 0 ? 0 : K);
    double *out = CONSTANT > 0 ? small : large.data();
    for (i64 c = first; c < last; c++) {
        const i64 root = starts[c], end = starts[c + 1];
        for (i64 i = end - 1; i > root; i--) {
            const i64 e = parent_edge[i], side = parent_side[i];
            double *above = theta + i64(edges[2 * e + 1 - side]) * K;
            const double *rows = (side == 0 ? tables : turned) + i64(edge_table[e]) * K * K;
            tree_message<CONSTANT>(theta + i * K, n_states[i], edge_weight[e], rows, n_labels, out);
            for (i64 m = 0; m < K; m++) above[m] += out[m];
        }
        const double *own = theta + root * K;
        double top = -INF;
        i64 label = 0;
        for (i64 k = 0; k < n_states[root]; k++) {
            if (own[k] > top) top = own[k], label = k;
        }
        value[c] = top;
        labels[root] = L(label);
        for (i64 i = root + 1; i < end; i++) {
            const i64 e = parent_edge[i], side = parent_side[i], n = n_states[i];
            const i64 other = labels[edges[2 * e + 1 - side]];
            const double weight = edge_weight[e], *row = (side == 0 ? turned : tables) + (i64(edge_table[e]) * K + other) * K;
            own = theta + i * K;
            top = -INF, label = 0;
            for (i64 k = 0; k < n; k++) {
                const double x = own[k] + weight * row[k];
                label = x > top ? k : label;
                top = x > top ? x : top;
            }
            labels[i] = L(label);
        }
    }
}

// Best labellings of the trees first .. last - 1 and their scores, by dynamic programming; arrays are flat. `theta` holds the scores of the copies
// and is overwritten.
template <class L>
static void best_labellings(Array<const i64> starts, Array<const i32> n_states, Array<const i32> edges, Array<const i32> parent_edge,
                            Array<const i8> parent_side, Array<const i32> edge_table, Array<const double> edge_weight, Array<const double> tables,
                            Array<const double> turned, i64 n_labels, i64 first, i64 last, Array<double> theta, Array<L> labels,
                            Array<double> value) {
    const Trees<L> trees{starts.data,      n_states.data, edges.data,  parent_edge.data, parent_side.data, edge_table.data,
                         edge_weight.data, tables.data,   turned.data, theta.data,       labels.data,      value.data};
    switch (n_labels) {
    case 2:
        return best<2>(trees, n_labels, first, last);
    case 3:
        return best<3>(trees, n_labels, first, last);
    case 4:
        return best<4>(trees, n_labels, first, last);
    case 5:
        return best<5>(trees, n_labels, first, last);
    case 6:
        return best<6>(trees, n_labels, first, last);
    case 7:
        return best<7>(trees, n_labels, first, last);
    case 8:
        return best<8>(trees, n_labels, first, last);
    case 20:
        return best<20>(trees, n_labels, first, last);
    case 24:
        return best<24>(trees, n_labels, first, last);
    case 32:
        return best<32>(trees, n_labels, first, last);
    default:
        return best<0>(trees, n_labels, first, last);
    }
}

// Score of the true labelling of each of the examples first .. last - 1; its loss is 0.
static void truth_scores(const Design &design, Array<const double, 2> scores, Array<const i32> edge_table, Array<const double> edge_weight,
                         Array<const double, 3> tables, i64 first, i64 last, Array<double> out) {
    const i32 *truth = design.truth.data;
    for (i64 j = first; j < last; j++) {
        double total = 0.0;
        for (i64 v = design.node_ptr[j]; v < design.node_ptr[j + 1]; v++) total += scores(v, truth[v]);
        for (i64 e = design.edge_ptr[j]; e < design.edge_ptr[j + 1]; e++) {
            total += edge_weight[e] * tables(edge_table[e], truth[design.edges(e, 0)], truth[design.edges(e, 1)]);
        }
        out[j] = total;
    }
}

// Add z = Psi(y_j) - Psi(labels) to `dense`, every copy with its share; returns the loss, shared alike.
template <class L> static double shared_difference(const Design &design, const Copies &copies, i64 j, Array<const L> labels, Array<double> dense) {
    const i64 n_labels = design.loss.shape[1];
    double loss = 0.0;
    const auto add_node = [&](i64 v, i64 k, double share) {
        const i64 r = v * design.node_step[0] + k * design.node_step[1];
        for (i64 q = design.x_ptr[r]; q < design.x_ptr[r + 1]; q++) {
            const i64 p = design.node_index(design.x_col[q], k);
            if (p >= 0) dense[p] += share * design.x_val[q];
        }
    };
    const auto add_edge = [&](i64 e, i64 k, i64 m, double sign) {
        const i64 r = e * design.edge_step[0] + (k * n_labels + m) * design.edge_step[1];
        for (i64 q = design.f_ptr[r]; q < design.f_ptr[r + 1]; q++) {
            const i64 p = design.edge_index(design.f_col[q], k, m);
            if (p >= 0) dense[p] += sign * design.f_val[q];
        }
    };
    for (i64 i = copies.starts[copies.tree_ptr[j]]; i < copies.starts[copies.tree_ptr[j + 1]]; i++) {
        const i64 v = copies.owner[i], k = labels[i], t = design.truth[v];
        const double share = copies.share[i];
        if (k == t || share == 0.0) continue;
        loss += share * design.loss(v, k);
        add_node(v, t, share);
        add_node(v, k, -share);
    }
    for (i64 e = design.edge_ptr[j]; e < design.edge_ptr[j + 1]; e++) {
        const i64 k = labels[copies.edges(e, 0)], m = labels[copies.edges(e, 1)];
        const i64 s = design.truth[design.edges(e, 0)], t = design.truth[design.edges(e, 1)];
        if (k == s && m == t) continue;
        add_edge(e, s, t, 1.0);
        add_edge(e, k, m, -1.0);
    }
    return loss;
}

// The part of a subgradient in the messages of example j: +1 at (row, plus), -1 at (row, minus). Returns how many rows there are: those whose two
// copies have different labels.
template <class L> static i64 disagreements(const Copies &copies, i64 j, Array<const L> labels, Array<i32> row, Array<L> plus, Array<L> minus) {
    i64 n = 0;
    for (i64 r = copies.row_ptr[j], end = copies.row_ptr[j + 1]; r < end; r++) {
        const L a = labels[copies.free[r]], b = labels[copies.last[r]];
        if (a != b) {
            row[n] = i32(r), plus[n] = a, minus[n] = b;
            n += 1;
        }
    }
    return n;
}

// Add `weight` times a labelling of the trees of example j to its tables; a node is the mean of its copies.
template <class L>
static void add_labelling(const Copies &copies, const Design &design, double weight, i64 j, Array<const L> labels, Array<double, 2> node,
                          Array<double, 3> edge) {
    for (i64 i = copies.starts[copies.tree_ptr[j]], end = copies.starts[copies.tree_ptr[j + 1]]; i < end; i++) {
        node(copies.owner[i], labels[i]) += weight;
    }
    for (i64 e = design.edge_ptr[j], end = design.edge_ptr[j + 1]; e < end; e++) {
        edge(e, labels[copies.edges(e, 0)], labels[copies.edges(e, 1)]) += weight;
    }
}

// <phi, s_i> of the stored subgradients of one block (of all if it is -1), 0 for the others; row r of a subgradient counts weight[r] times.
template <class L>
static void message_products(Array<const i32> row, Array<const L> plus, Array<const L> minus, Array<const i64> ptr, Array<const i64> blocks,
                             i64 block, Array<const double, 2> phi, Array<const double> weight, Array<double> out) {
    for (i64 i = 0; i + 1 < ptr.size(); i++) {
        double total = 0.0;
        if (block < 0 || blocks[i] == block) {
            for (i64 q = ptr[i]; q < ptr[i + 1]; q++) {
                const i64 r = row[q];
                total += weight[r] * (phi(r, plus[q]) - phi(r, minus[q]));
            }
        }
        out[i] = total;
    }
}

// Add sum_i alpha_i s_i to `out`.
template <class L>
static void combine_messages(Array<const i32> row, Array<const L> plus, Array<const L> minus, Array<const i64> ptr, Array<const double> alpha,
                             Array<const double> weight, Array<double, 2> out) {
    for (i64 i = 0; i + 1 < ptr.size(); i++) {
        if (alpha[i] == 0.0) continue;
        for (i64 q = ptr[i]; q < ptr[i + 1]; q++) {
            const i64 r = row[q];
            out(r, plus[q]) += alpha[i] * weight[r];
            out(r, minus[q]) -= alpha[i] * weight[r];
        }
    }
}

// The fields of the record Planes: slot_ptr, used, alpha, offset, age, pool_ptr, pool, gram_ptr, gram, vector.
using StoredPlanes = std::tuple<Array<const i64>, Array<const i64>, Array<const double>, Array<const double>, Array<const i64>, Array<const i64>,
                                Array<const i32>, Array<const i64>, Array<const double>, Array<const double, 2>>;

// Add the mixture of labellings that each tree has to the tables; a node is the mean of its copies.
static void add_tree_labellings(const Copies &copies, const StoredPlanes &planes, Array<const double> c, Array<double, 2> node,
                                Array<double, 3> edge) {
    const auto &[slot_ptr, used, alpha, offset, age, pool_ptr, pool, gram_ptr, gram, vector] = planes;
    for (i64 t = 0; t < used.size(); t++) {
        const i64 first = copies.starts[t], size = copies.starts[t + 1] - first;
        for (i64 i = 0; i < used[t]; i++) {
            const double share = c[t] > 0.0 ? alpha[slot_ptr[t] + i] / c[t] : 0.0;
            if (!(share > 0.0)) continue;
            const i32 *labels = pool.data + pool_ptr[t] + i * size;
            for (i64 q = 0; q < size; q++) {
                const i64 k = labels[q], e = copies.parent_edge[first + q];
                node(copies.owner[first + q], k) += share;
                if (e < 0) continue;
                const i64 side = copies.parent_side[first + q], m = labels[copies.edges(e, 1 - side) - first];
                (side == 0 ? edge(e, k, m) : edge(e, m, k)) += share;
            }
        }
    }
}

template <class L> static void bind_labelled(nb::module_ &m) {
    def(m, "best_labellings", best_labellings<L>, "starts"_a, "n_states"_a, "edges"_a, "parent_edge"_a, "parent_side"_a, "edge_table"_a,
        "edge_weight"_a, "tables"_a, "turned"_a, "n_labels"_a, "first"_a, "last"_a, "theta"_a, "labels"_a, "value"_a,
        "Best labellings of the trees ``first .. last - 1`` and their scores, by dynamic programming; arrays are flat.");
    def(m, "shared_difference", shared_difference<L>, "design"_a, "copies"_a, "j"_a, "labels"_a, "dense"_a,
        "Add the difference of features of the truth and of ``labels`` to ``dense``, every copy with its share; returns the loss, shared alike.");
    def(m, "disagreements", disagreements<L>, "copies"_a, "j"_a, "labels"_a, "row"_a, "plus"_a, "minus"_a,
        "The part of a subgradient in the messages of example ``j``: +1 at (``row``, ``plus``), -1 at (``row``, ``minus``); returns their number.");
    def(m, "add_labelling", add_labelling<L>, "copies"_a, "design"_a, "weight"_a, "j"_a, "labels"_a, "node"_a, "edge"_a,
        "Add ``weight`` times a labelling of the trees of example ``j`` to its tables; a node is the mean of its copies.");
    def(m, "message_products", message_products<L>, "row"_a, "plus"_a, "minus"_a, "ptr"_a, "blocks"_a, "block"_a, "phi"_a, "weight"_a, "out"_a,
        "Products of messages and the stored subgradients of one block (of all if it is -1), 0 for the others.");
    def(m, "combine_messages", combine_messages<L>, "row"_a, "plus"_a, "minus"_a, "ptr"_a, "alpha"_a, "weight"_a, "out"_a,
        "Add the stored subgradients, each ``alpha[i]`` times, to ``out``.");
}

void bind_dual_bound(nb::module_ &m) {
    bind_record<Copies>(m);
    bind_labelled<i8>(m);
    bind_labelled<i32>(m);
    def(m, "share_scores", share_scores, "copies"_a, "scores"_a, "phi"_a, "first"_a, "last"_a, "theta"_a,
        "Scores of the copies of the examples ``first .. last - 1``: a share of their node's, and the messages.");
    def(m, "truth_scores", truth_scores, "design"_a, "scores"_a, "edge_table"_a, "edge_weight"_a, "tables"_a, "first"_a, "last"_a, "out"_a,
        "Score of the true labelling of each of the examples ``first .. last - 1``; its loss is 0.");
    def(m, "add_tree_labellings", add_tree_labellings, "copies"_a, "planes"_a, "c"_a, "node"_a, "edge"_a,
        "Add the mixture of labellings that each tree has to the tables; a node is the mean of its copies.");
}

} // namespace maxsum
