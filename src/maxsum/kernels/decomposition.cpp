// Kernels of dual decomposition: forests of a graph, and the master problem of the bundle.
//
// A *copy* is a node in one of the trees of the decomposition. The copies of a tree are consecutive, starts[c] .. starts[c + 1], parents first. A
// column is a labelling of a tree; tree c keeps up to J of them, with weights lambda_cj >= 0 that sum to 1. Their mean is x (copies, K), the mean of
// that over the copies of a node x- (N, K).
#include "simplex.hpp"

namespace maxsum {

// Forest of each edge: the first one is a maximal forest of all edges, taken in `order`, the next of those left, ... No tree gets more than `most`
// nodes.
template <class Number> static Owned<i32> split_forests(i64 n_nodes, Array<const i32, 2> edges, Array<const Number> order, i64 most) {
    const i64 n_edges = edges.size();
    auto forest = Owned<i32>::filled({n_edges}, -1);
    std::vector<Number> rest(order.begin(), order.end());
    std::vector<i32> root(n_nodes), size(n_nodes);
    const auto root_of = [&](i64 v) {
        while (root[v] != v) {
            root[v] = root[root[v]];
            v = root[v];
        }
        return v;
    };
    i64 left = n_edges;
    for (i32 current = 0; left; current++) {
        for (i64 v = 0; v < n_nodes; v++) {
            root[v] = i32(v);
            size[v] = 1;
        }
        i64 kept = 0;
        for (i64 i = 0; i < left; i++) {
            const Number e = rest[i];
            const i64 a = root_of(edges(e, 0)), b = root_of(edges(e, 1));
            if (a != b && i64(size[a]) + size[b] <= most) {
                root[a] = i32(b);
                size[b] += size[a];
                forest[e] = current;
            } else {
                rest[kept++] = e;
            }
        }
        left = kept;
    }
    return forest;
}

// linear[c, j]: score of column j of tree c under the node shares.
static void column_scores(Array<const i64> starts, Array<const i64> filled, Array<const i32, 2> columns, Array<const double, 2> constant,
                          Array<const double, 2> shares, Array<double, 2> linear) {
    for (i64 c = 0; c < starts.size() - 1; c++) {
        const i64 first = starts[c], last = starts[c + 1];
        for (i64 j = 0; j < filled[c]; j++) {
            const Array<const i32> column = columns[j];
            double total = constant(c, j);
            for (i64 i = first; i < last; i++) total += shares(i, column[i]);
            linear(c, j) = total;
        }
    }
}

// Give each tree the column `labels` with the edge score value[c], unless it has it; returns how many are new.
//
// A tree without room loses the column that has had no weight for longest or, if all have some, the one with the least, whose weight goes to the
// heaviest.
static i64 add_columns(Array<const i64> starts, Array<const double> copy_weight, Array<const i32> labels, Array<const double> value,
                       Array<i64> filled, Array<i32, 2> columns, Array<double, 2> constant, Array<double, 2> weights, Array<i64, 2> idle,
                       Array<double, 3> gram) {
    const i64 room = columns.size();
    i64 added = 0;
    for (i64 c = 0; c < starts.size() - 1; c++) {
        const i64 first = starts[c], last = starts[c + 1];
        const i32 *given = labels.data;
        bool known = false;
        for (i64 j = 0; j < filled[c] && !known; j++) {
            if (std::equal(given + first, given + last, columns[j].data + first)) {
                idle(c, j) = 0;
                known = true;
            }
        }
        if (known) continue;
        added += 1;
        i64 slot = 0;
        if (filled[c] < room) {
            slot = filled[c];
            filled[c] += 1;
        } else {
            i64 heavy = 0;
            for (i64 j = 1; j < room; j++) {
                if (weights(c, j) < weights(c, slot) || (weights(c, j) == weights(c, slot) && idle(c, j) > idle(c, slot))) slot = j;
                if (weights(c, j) > weights(c, heavy)) heavy = j;
            }
            weights(c, heavy) += weights(c, slot);
        }
        std::copy(given + first, given + last, columns[slot].data + first);
        constant(c, slot) = value[c];
        weights(c, slot) = filled[c] == 1 ? 1.0 : 0.0;
        idle(c, slot) = 0;
        for (i64 j = 0; j < filled[c]; j++) {
            const i32 *column = columns[j].data;
            double both = 0.0;
            for (i64 i = first; i < last; i++) both += column[i] == given[i] ? copy_weight[i] : 0.0;
            gram(c, j, slot) = both;
            gram(c, slot, j) = both;
        }
    }
    return added;
}

// Means x of the columns of each tree, and `mean` of the copies of each node (node_share is 1 / copies).
static void spread_weights(Array<const i64> starts, Array<const i32> copy_node, Array<const double> node_share, Array<const i64> filled,
                           Array<const i32, 2> columns, Array<const double, 2> weights, Array<double, 2> x, Array<double, 2> mean) {
    const i64 n_labels = x.shape[1];
    x.fill(0.0);
    mean.fill(0.0);
    for (i64 c = 0; c < starts.size() - 1; c++) {
        for (i64 j = 0; j < filled[c]; j++) {
            const double weight = weights(c, j);
            if (weight <= 0.0) continue;
            const Array<const i32> column = columns[j];
            for (i64 i = starts[c]; i < starts[c + 1]; i++) x(i, column[i]) += weight;
        }
    }
    for (i64 i = 0; i < copy_node.size(); i++) {
        const double share = node_share[copy_node[i]], *row = x[i].data;
        double *__restrict own = mean[copy_node[i]].data;
        for (i64 k = 0; k < n_labels; k++) own[k] += share * row[k];
    }
}

// Weights that maximise sum lambda a - t / 2 sum |x - x-|^2 over a product of simplices.
//
// Tree after tree, pairs of columns exchange weight (the one with the largest gradient gains from the one with the smallest) until the tree is
// optimal given the others. Returns the value and what it may lack of the maximum.
static std::tuple<double, double> master(Array<const i64> starts, Array<const i32> copy_node, Array<const double> node_share, Array<const i64> filled,
                                         Array<const i32, 2> columns, Array<const double, 2> linear, Array<const double, 3> gram,
                                         Array<double, 2> weights, Array<i64, 2> idle, Array<double, 2> x, Array<double, 2> mean, double step,
                                         double tol, i64 max_sweeps) {
    const i64 n_trees = starts.size() - 1, n_labels = x.shape[1], room = columns.size();
    std::vector<double> gradient(room), change(room), before(n_labels);
    double lack = INF;
    for (i64 sweep = 0; sweep < max_sweeps; sweep++) {
        lack = 0.0;
        for (i64 c = 0; c < n_trees; c++) {
            const i64 first = starts[c], last = starts[c + 1], n = filled[c];
            double *weight = weights[c].data;
            double reached = 0.0, top = -INF;
            for (i64 j = 0; j < n; j++) {
                const i32 *column = columns[j].data;
                double pull = 0.0;
                for (i64 i = first; i < last; i++) pull += x(i, column[i]) - mean(copy_node[i], column[i]);
                gradient[j] = linear(c, j) - step * pull;
                reached += weight[j] * gradient[j];
                top = std::max(top, gradient[j]);
            }
            lack += std::max(top - reached, 0.0);
            const double enough = 0.1 * tol / double(n_trees);
            if (top - reached <= enough) continue;
            const double *products = gram.data + c * room * room;
            if (pairwise_steps(products, room, step, gradient.data(), weight, n, change.data(), 4 * n + 20, enough, 0.0) <= 0.0) continue;
            for (i64 i = first; i < last; i++) {
                double *row = x[i].data;
                for (i64 k = 0; k < n_labels; k++) {
                    before[k] = row[k];
                    row[k] = 0.0;
                }
                for (i64 j = 0; j < n; j++) {
                    if (weight[j] > 0.0) row[columns(j, i)] += weight[j];
                }
                const double share = node_share[copy_node[i]];
                double *own = mean[copy_node[i]].data;
                for (i64 k = 0; k < n_labels; k++) own[k] += share * (row[k] - before[k]);
            }
        }
        if (lack <= tol) break;
    }
    double value = 0.0;
    for (i64 c = 0; c < n_trees; c++) {
        for (i64 j = 0; j < filled[c]; j++) {
            value += weights(c, j) * linear(c, j);
            idle(c, j) = weights(c, j) > 0.0 ? 0 : idle(c, j) + 1;
        }
    }
    return {value, lack};
}

// Pairwise marginals (E, K, K) of the weights; `edges` join copies, tree[e] is where edge e lies.
static void edge_means(Array<const i64> tree, Array<const i32, 2> edges, Array<const i64> filled, Array<const i32, 2> columns,
                       Array<const double, 2> weights, Array<double, 3> out) {
    out.fill(0.0);
    for (i64 e = 0; e < edges.size(); e++) {
        const i64 c = tree[e], u = edges(e, 0), v = edges(e, 1);
        const Array<double, 2> own = out[e];
        for (i64 j = 0; j < filled[c]; j++) {
            if (weights(c, j) > 0.0) own(columns(j, u), columns(j, v)) += weights(c, j);
        }
    }
}

void bind_decomposition(nb::module_ &m) {
    const char *of_forests = "Forest of each edge: the first one is a maximal forest of all edges, taken in ``order``, the next of those left, ...";
    def(m, "split_forests", split_forests<i64>, "n_nodes"_a, "edges"_a, "order"_a, "largest"_a, of_forests);
    def(m, "split_forests", split_forests<i32>, "n_nodes"_a, "edges"_a, "order"_a, "largest"_a, of_forests);
    def(m, "column_scores", column_scores, "starts"_a, "filled"_a, "columns"_a, "constant"_a, "shares"_a, "linear"_a,
        "``linear[c, j]``: score of column ``j`` of tree ``c`` under the node shares.");
    def(m, "add_columns", add_columns, "starts"_a, "copy_weight"_a, "labels"_a, "value"_a, "filled"_a, "columns"_a, "constant"_a, "weights"_a,
        "idle"_a, "gram"_a, "Give each tree the column ``labels`` with the edge score ``value[c]``, unless it has it; returns how many are new.");
    def(m, "spread_weights", spread_weights, "starts"_a, "copy_node"_a, "node_share"_a, "filled"_a, "columns"_a, "weights"_a, "x"_a, "mean"_a,
        "Means ``x`` of the columns of each tree, and ``mean`` of the copies of each node (``node_share`` is 1 / copies).");
    def(m, "master", master, "starts"_a, "copy_node"_a, "node_share"_a, "filled"_a, "columns"_a, "linear"_a, "gram"_a, "weights"_a, "idle"_a, "x"_a,
        "mean"_a, "step"_a, "tol"_a, "max_sweeps"_a,
        "Weights that maximise the bundle's model over a product of simplices. Returns the value and what it may lack of the maximum.");
    def(m, "edge_means", edge_means, "tree"_a, "edges"_a, "filled"_a, "columns"_a, "weights"_a, "out"_a,
        "Pairwise marginals (E, K, K) of the weights; ``edges`` join copies, ``tree[e]`` is where edge ``e`` lies.");
}

} // namespace maxsum
