// Perceptron steps: on the inequalities of strictly trivial equivalents, of labellings, and of supermodular tables.
#include "design.hpp"

namespace maxsum {

// An inequality (9) counts as violated up to so much of a step: a sum of four weights of a million steps has a rounding error of 1e-9 steps, so that
// what is above holds by more than rounding; it is far below a step, so that the number of updates does not change.
constexpr double STRICT = 1e-6;

namespace {

// Features of nodes or of edges, by rows, and the weight of each feature at each column (labels of a node, pairs of labels of an edge).
struct Features {
    const i64 *ptr;
    const i32 *col;
    const double *val;
    const i32 *index;
    i64 n_columns;

    // Score of feature row r at column c, added to `total`.
    double dot(i64 r, i64 c, const double *w, double total = 0.0) const {
        for (i64 i = ptr[r], end = ptr[r + 1]; i < end; i++) {
            const i64 p = index[col[i] * n_columns + c];
            if (p >= 0) total += val[i] * w[p];
        }
        return total;
    }

    // The adjoint of dot: `sign` times the features added to their weights.
    void add(i64 r, i64 c, double sign, double *w) const {
        for (i64 i = ptr[r], end = ptr[r + 1]; i < end; i++) {
            const i64 p = index[col[i] * n_columns + c];
            if (p >= 0) w[p] += sign * val[i];
        }
    }
};

Features node_features(const Design &design) {
    return {design.x_ptr.data, design.x_col.data, design.x_val.data, design.node_index.data, design.node_index.shape[1]};
}

Features edge_features(const Design &design) {
    return {design.f_ptr.data, design.f_col.data, design.f_val.data, design.edge_index.data, design.edge_index.shape[1] * design.edge_index.shape[2]};
}

} // namespace

// Add `change` (n_nodes, n_labels), multiples of the features of each node, to the weights, and make it 0.
static void bring(const Features &nodes, double *change, i64 n_nodes, i64 n_labels, double *w) {
    for (i64 v = 0; v < n_nodes; v++) {
        for (i64 k = 0; k < n_labels; k++) {
            double &amount = change[v * n_labels + k];
            if (amount != 0.0) {
                nodes.add(v, k, amount, w);
                amount = 0.0;
            }
        }
    }
}

// Scores (n_labels, n_nodes) of all nodes whose every feature has a weight for each label; `row` is work space.
static void all_scores(const Features &nodes, const double *w, i64 n_nodes, i64 n_labels, double *__restrict row, double *scores) {
    for (i64 v = 0; v < n_nodes; v++) {
        std::fill_n(row, n_labels, 0.0);
        for (i64 i = nodes.ptr[v]; i < nodes.ptr[v + 1]; i++) {
            const i32 *index = nodes.index + nodes.col[i] * nodes.n_columns;
            const double x = nodes.val[i];
            for (i64 k = 0; k < n_labels; k++) row[k] += x * w[index[k]];
        }
        for (i64 k = 0; k < n_labels; k++) scores[k * n_nodes + v] = row[k];
    }
}

// Algorithm 3 of Franc and Savchynskyy 2008: sweeps over all inequalities (20) of some examples, until one makes no update.
//
// Of each example the nodes come first (Steps 2 and 3), then the edges (Steps 4 and 5); each violated inequality is met by one update, and the next
// one sees it.
//
// ptr, adj_edge, adj_side: edges at each node of the union. n_states (N,).
// shared: tables are read from `bank` if 1 or 2: each edge has a single feature, and no weight is in the tables of two; 2 if no weight is twice in
// one table either.
// gram (N, N) or (0, 0): products of the features of all nodes, or nothing. With them the scores of all nodes are kept, and the weights of node
// features follow at the end. Each feature and label must have a weight of its own, and `total` be empty; sweeps end only if one without updates
// starts from scores of the weights themselves.
// w (P + 2 E K,): weights of the model, then potentials. phi (E, 2, K): the potentials in w, the same memory: phi_tt'(k) is phi[e, 0, k] for the edge
// e = (t, t'), and phi[e, 1, k] the other way.
// sums (N, K), bank (F, K * K): work space: the potentials at each node added up, and the tables.
// total (P + 2 E K,) or (0,): the weights after each sweep are added to it.
//
// Returns (sweeps, updates, updates of the last sweep).
static std::tuple<i64, i64, i64> trivial_sweeps(const Design &design, Array<const i64> ptr, Array<const i32> adj_edge, Array<const i8> adj_side,
                                                Array<const i32> n_states, Array<const i64> examples, i64 max_sweeps, i64 shared,
                                                Array<const double, 2> gram, Array<double> weights, Array<double, 3> potentials,
                                                Array<double, 2> sums, Array<double, 2> bank, Array<double> total) {
    const Features nodes = node_features(design), pairs = edge_features(design);
    const i64 size = design.edge_index.shape[1], n_pairs = size * size, n_gram = gram.size();
    const i64 node_step = design.node_step[0], node_part = design.node_step[1], edge_step = design.edge_step[0], edge_part = design.edge_step[1];
    const i64 *node_ptr = design.node_ptr.data, *edge_ptr = design.edge_ptr.data;
    const i32 *truth = design.truth.data, *edges = design.edges.data, *states = n_states.data;
    double *w = weights.data, *phi = potentials.data;
    const i64 n_phi = potentials.shape[2];
    const bool kept = n_gram > 0;
    std::vector<double> scores(size * n_gram), change(n_gram * size), part(size);
    bool changed = true, unsure = false;
    sums.fill(0.0);
    for (i64 v = 0; v < ptr.size() - 1; v++) {
        for (i64 i = ptr[v]; i < ptr[v + 1]; i++) {
            const double *own = phi + (2 * i64(adj_edge[i]) + adj_side[i]) * n_phi;
            for (i64 k = 0; k < size; k++) sums(v, k) += own[k];
        }
    }
    for (i64 f = 0; f < bank.size(); f++) {
        for (i64 i = 0; i < n_pairs; i++) {
            const i64 p = pairs.index[f * n_pairs + i];
            bank(f, i) = p >= 0 ? w[p] : 0.0;
        }
    }
    i64 updates = 0, last = 1, sweeps = 0;
    while (sweeps < max_sweeps && last > 0) {
        if (kept && changed) {
            bring(nodes, change.data(), n_gram, size, w);
            all_scores(nodes, w, n_gram, size, part.data(), scores.data());
        }
        changed = false;
        sweeps += 1;
        last = 0;
        for (i64 j : examples) {
            for (i64 v = node_ptr[j]; v < node_ptr[j + 1]; v++) {
                const i64 t = truth[v], r = v * node_step + t * node_part, n = states[v];
                double *sum = sums.data + v * sums.shape[1];
                double own = kept ? scores[t * n_gram + v] - sum[t] : nodes.dot(r, t, w, -sum[t]);
                for (i64 k = 0; k < n; k++) {
                    if (k == t) continue;
                    const i64 s = v * node_step + k * node_part;
                    const double other = kept ? scores[k * n_gram + v] - sum[k] : nodes.dot(s, k, w, -sum[k]);
                    if (own > other) continue;
                    last += 1;
                    if (kept) {
                        change[v * size + t] += 1.0;
                        change[v * size + k] -= 1.0;
                        const double *product = gram.data + v * n_gram;
                        double *__restrict plus = scores.data() + t * n_gram, *__restrict minus = scores.data() + k * n_gram;
                        for (i64 u = 0; u < n_gram; u++) {
                            plus[u] += product[u];
                            minus[u] -= product[u];
                        }
                    } else {
                        nodes.add(r, t, 1.0, w);
                        nodes.add(s, k, -1.0, w);
                    }
                    for (i64 i = ptr[v]; i < ptr[v + 1]; i++) {
                        double *edge = phi + (2 * i64(adj_edge[i]) + adj_side[i]) * n_phi;
                        edge[t] -= 1.0;
                        edge[k] += 1.0;
                    }
                    sum[t] -= double(ptr[v + 1] - ptr[v]);
                    sum[k] += double(ptr[v + 1] - ptr[v]);
                    own = kept ? scores[t * n_gram + v] - sum[t] : nodes.dot(r, t, w) - sum[t];
                }
            }
            for (i64 e = edge_ptr[j]; e < edge_ptr[j + 1]; e++) {
                const i64 u = edges[2 * e], v = edges[2 * e + 1], s = truth[u], t = truth[v], n_u = states[u], n_v = states[v];
                const i64 at = s * size + t, r = e * edge_step + at * edge_part;
                double *to_u = phi + 2 * e * n_phi, *to_v = to_u + n_phi; // phi[e, 0], phi[e, 1]
                const i64 f = shared ? pairs.col[pairs.ptr[e]] : 0;
                const double weight = shared ? pairs.val[pairs.ptr[e]] : 0.0;
                const i32 *index = pairs.index + f * n_pairs;
                double *table = bank.data + f * n_pairs;
                double own = (shared ? weight * table[at] : pairs.dot(r, at, w)) + to_v[t] + to_u[s];
                for (i64 k = 0; k < n_u; k++) {
                    if (shared) {
                        const double *row = table + k * size;
                        double a = -INF, b = -INF; // two maxima, which do not wait for each other
                        i64 m = 0;
                        for (; m + 1 < n_v; m += 2) {
                            a = std::max(a, weight * row[m] + to_v[m]);
                            b = std::max(b, weight * row[m + 1] + to_v[m + 1]);
                        }
                        if (m < n_v) a = std::max(a, weight * row[m] + to_v[m]);
                        if (std::max(a, b) + to_u[k] < own) continue;
                    }
                    for (i64 m = 0; m < n_v; m++) {
                        if (k == s && m == t) continue;
                        const i64 to = k * size + m, row = e * edge_step + to * edge_part;
                        const double other = (shared ? weight * table[to] : pairs.dot(row, to, w)) + to_v[m] + to_u[k];
                        if (own > other) continue;
                        last += 1;
                        to_u[s] += 1.0;
                        to_u[k] -= 1.0;
                        to_v[t] += 1.0;
                        to_v[m] -= 1.0;
                        sums(u, s) += 1.0;
                        sums(u, k) -= 1.0;
                        sums(v, t) += 1.0;
                        sums(v, m) -= 1.0;
                        if (shared) {
                            const i64 p = index[at], q = index[to];
                            if (p >= 0) w[p] += weight;
                            if (q >= 0) w[q] -= weight;
                            if (shared == 1) {
                                for (i64 i = 0; i < n_pairs; i++) {
                                    if (index[i] >= 0) table[i] = w[index[i]];
                                }
                            } else {
                                table[at] = p >= 0 ? w[p] : 0.0;
                                table[to] = q >= 0 ? w[q] : 0.0;
                            }
                            own = weight * table[at] + to_v[t] + to_u[s];
                        } else {
                            pairs.add(r, at, 1.0, w);
                            pairs.add(row, to, -1.0, w);
                            own = pairs.dot(r, at, w) + to_v[t] + to_u[s];
                        }
                    }
                }
            }
        }
        updates += last;
        for (i64 i = 0; i < total.size(); i++) total[i] += w[i];
        unsure = unsure || last > 0;
        if (kept && unsure && last == 0) {
            changed = true;
            unsure = false;
            last = 1;
        }
    }
    if (kept) bring(nodes, change.data(), n_gram, size, w);
    return {sweeps, updates, last};
}

// Exhaustive search over the inequalities <z, w> > 0 of (20) for some examples.
//
// Writes for each example the smallest <z, w> (1e308 if it has no inequality), where it is (node, label, -1) or (edge, label, label) in numbers of
// the example, and how many are <= 0.
static void trivial_check(const Design &design, Array<const i64> ptr, Array<const i32> adj_edge, Array<const i8> adj_side, Array<const i32> n_states,
                          Array<const i64> examples, Array<const double> weights, Array<const double, 3> potentials, Array<double> row,
                          Array<double> least, Array<i64, 2> keys, Array<i64> violated) {
    const Features nodes = node_features(design), pairs = edge_features(design);
    const i64 size = design.edge_index.shape[1], n_phi = potentials.shape[2];
    const i64 node_step = design.node_step[0], node_part = design.node_step[1], edge_step = design.edge_step[0], edge_part = design.edge_step[1];
    const double *w = weights.data, *phi = potentials.data;
    double *own_row = row.data;
    for (i64 i = 0; i < examples.size(); i++) {
        const i64 j = examples[i], first = design.node_ptr[j], last = design.node_ptr[j + 1];
        const i64 first_edge = design.edge_ptr[j], last_edge = design.edge_ptr[j + 1];
        double found = 1e308;
        i64 a = -1, b = -1, c = -1, wrong = 0;
        const auto see = [&](double product, i64 where, i64 k, i64 m) {
            wrong += product <= 0;
            if (product < found) found = product, a = where, b = k, c = m;
        };
        for (i64 v = first; v < last; v++) {
            const i64 t = design.truth[v], n = n_states[v];
            for (i64 k = 0; k < n; k++) own_row[k] = nodes.dot(v * node_step + k * node_part, k, w);
            for (i64 q = ptr[v]; q < ptr[v + 1]; q++) {
                const double *edge = phi + (2 * i64(adj_edge[q]) + adj_side[q]) * n_phi;
                for (i64 k = 0; k < n; k++) own_row[k] -= edge[k];
            }
            for (i64 k = 0; k < n; k++) {
                if (k != t) see(own_row[t] - own_row[k], v - first, k, -1);
            }
        }
        for (i64 e = first_edge; e < last_edge; e++) {
            const i64 u = design.edges(e, 0), v = design.edges(e, 1), s = design.truth[u], t = design.truth[v], at = s * size + t;
            const i64 n_u = n_states[u], n_v = n_states[v];
            const double *to_u = phi + 2 * e * n_phi, *to_v = to_u + n_phi;
            const double own = pairs.dot(e * edge_step + at * edge_part, at, w) + to_v[t] + to_u[s];
            for (i64 k = 0; k < n_u; k++) {
                for (i64 m = 0; m < n_v; m++) {
                    if (k == s && m == t) continue;
                    const i64 to = k * size + m;
                    see(own - (pairs.dot(e * edge_step + to * edge_part, to, w) + to_v[m] + to_u[k]), e - first_edge, k, m);
                }
            }
        }
        least[i] = found;
        violated[i] = wrong;
        keys(i, 0) = a, keys(i, 1) = b, keys(i, 2) = c;
    }
}

// Steps 2 and 3 of Algorithm 2 of Franc and Savchynskyy (2008) until every table is strictly supermodular, by more than STRICT of a step; negative
// weights of `nonneg` become 0.
//
// `drift` collects `count` times each change. Returns the number of updates.
static i64 enter_cone(Array<const u8> nonneg, Array<const i64, 2> quads, double step, double count, Array<double> w, Array<double> drift) {
    i64 updates = 0;
    for (i64 p = 0; p < nonneg.size(); p++) {
        if (nonneg[p] && w[p] < 0) {
            drift[p] -= count * w[p];
            w[p] = 0.0;
            updates += 1;
        }
    }
    const i64 n = quads.size();
    for (bool again = true; again;) {
        again = false;
        for (i64 i = 0; i < n; i++) {
            const i64 *quad = quads.data + 4 * i;
            if (!(w[quad[0]] + w[quad[1]] - w[quad[2]] - w[quad[3]] <= STRICT * step)) continue;
            again = true;
            updates += 1;
            for (i64 c = 0; c < 4; c++) {
                const double change = c < 2 ? step : -step;
                w[quad[c]] += change;
                drift[quad[c]] += count * change;
            }
        }
    }
    return updates;
}

// How many nodes of an example that begins at node `first` a labelling has wrong.
static i64 wrong_nodes(const Design &design, i64 first, const i32 *labels, i64 n) {
    i64 wrong = 0;
    for (i64 v = 0; v < n; v++) wrong += labels[v] != design.truth.data[first + v];
    return wrong;
}

// Step 3 of Algorithm 1: w := w + z for each example whose labelling still has <w, z> <= `margin` times the number of wrong nodes; the cone holds
// again after each.
//
// `drift` collects each change times the number of examples seen before it (`count` at the start), so that the average of the weights over all
// examples seen is w - drift / count. Returns (updates, updates of the cone).
static std::tuple<i64, i64> margin_pass(const Design &design, Array<const i64> examples, Array<const i64> key_ptr, Array<const i32> labels,
                                        double margin, Array<const u8> nonneg, Array<const i64, 2> quads, double step, i64 count, Array<i32> index,
                                        Array<double> value, Array<double> w, Array<double> drift) {
    i64 updates = 0, fixes = 0;
    for (i64 i = 0; i < examples.size(); i++) {
        const i64 j = examples[i];
        const i32 *own = labels.data + key_ptr[i];
        const i64 wrong = wrong_nodes(design, design.node_ptr[j], own, key_ptr[i + 1] - key_ptr[i]);
        if (!wrong) continue;
        const i64 n = difference(design, j, own, index.data, value.data).n;
        double product = 0.0;
        for (i64 c = 0; c < n; c++) product += value[c] * w[index[c]];
        if (!(product <= margin * double(wrong))) continue;
        updates += 1;
        for (i64 c = 0; c < n; c++) {
            w[index[c]] += value[c];
            drift[index[c]] += double(count + i) * value[c];
        }
        fixes += enter_cone(nonneg, quads, step, double(count + i), w, drift);
    }
    return {updates, fixes};
}

// For a labelling of each example: <w, z> and the number of wrong nodes.
static void products(const Design &design, Array<const i64> examples, Array<const i64> key_ptr, Array<const i32> labels, Array<i32> index,
                     Array<double> value, Array<const double> w, Array<double> product, Array<i64> wrong) {
    for (i64 i = 0; i < examples.size(); i++) {
        const i64 j = examples[i];
        const i32 *own = labels.data + key_ptr[i];
        wrong[i] = wrong_nodes(design, design.node_ptr[j], own, key_ptr[i + 1] - key_ptr[i]);
        const i64 n = difference(design, j, own, index.data, value.data).n;
        double sum = 0.0;
        for (i64 c = 0; c < n; c++) sum += value[c] * w[index[c]];
        product[i] = sum;
    }
}

void bind_perceptron(nb::module_ &m) {
    def(m, "trivial_sweeps", trivial_sweeps, "design"_a, "ptr"_a, "adj_edge"_a, "adj_side"_a, "n_states"_a, "examples"_a, "max_sweeps"_a, "shared"_a,
        "gram"_a, "w"_a, "phi"_a, "sums"_a, "bank"_a, "total"_a,
        "Algorithm 3 of Franc and Savchynskyy 2008: sweeps over all inequalities (20) of some examples, until one makes no update: (sweeps, updates, "
        "updates of the last sweep).");
    def(m, "trivial_check", trivial_check, "design"_a, "ptr"_a, "adj_edge"_a, "adj_side"_a, "n_states"_a, "examples"_a, "w"_a, "phi"_a, "row"_a,
        "least"_a, "keys"_a, "violated"_a, "Exhaustive search over the inequalities <z, w> > 0 of (20) for some examples.");
    def(m, "enter_cone", enter_cone, "nonneg"_a, "quads"_a, "step"_a, "count"_a, "w"_a, "drift"_a,
        "Steps 2 and 3 of Algorithm 2 of Franc and Savchynskyy (2008) until every table is strictly supermodular; returns the number of updates.");
    def(m, "margin_pass", margin_pass, "design"_a, "examples"_a, "key_ptr"_a, "labels"_a, "margin"_a, "nonneg"_a, "quads"_a, "step"_a, "count"_a,
        "index"_a, "value"_a, "w"_a, "drift"_a, "Step 3 of Algorithm 1 of Franc and Savchynskyy (2008); returns (updates, updates of the cone).");
    def(m, "products", products, "design"_a, "examples"_a, "key_ptr"_a, "labels"_a, "index"_a, "value"_a, "w"_a, "product"_a, "wrong"_a,
        "For a labelling of each example: <w, z> and the number of wrong nodes.");
}

} // namespace maxsum
