#include "planes.hpp"

namespace maxsum {

// (b, b - <w, z>) of a labelling of example j.
static std::pair<double, double> plane_value(const Design &design, i64 j, const i32 *labels, const double *w, const Scratch &scratch) {
    const i32 *index = scratch.index.data;
    const double *value = scratch.value.data;
    const auto [n, loss] = difference(design, j, labels, scratch.index.data, scratch.value.data);
    double product = 0.0;
    for (i64 i = 0; i < n; i++) product += w[index[i]] * value[i];
    return {loss, loss - product};
}

// plane_value of one labelling for each of `examples`; those of the i-th are labels[ptr[i]:ptr[i + 1]].
static void values(const Design &design, Array<const i64> examples, Array<const i64> ptr, Array<const i32> labels, Array<const double> w,
                   const Scratch &scratch, Array<double> out) {
    for (i64 i = 0; i < examples.size(); i++) out[i] = plane_value(design, examples[i], labels.data + ptr[i], w.data, scratch).second;
}

// Products of the vector in slot i of example j with those of the slots before, and itself.
static void multiply_vectors(const Planes &planes, i64 j, i64 i) {
    const i64 first = planes.slot_ptr[j], capacity = planes.slot_ptr[j + 1] - first, n = planes.vector.shape[1];
    const double *rows = planes.vector.data + first * n, *row = rows + i * n;
    double *gram = planes.gram.data + planes.gram_ptr[j];
    i64 other = 0;
    for (; other + 3 <= i; other += 4) { // four sums at a time, which do not wait for each other
        const double *a = rows + other * n, *b = a + n, *c = b + n, *d = c + n;
        double to_a = 0.0, to_b = 0.0, to_c = 0.0, to_d = 0.0;
        for (i64 p = 0; p < n; p++) {
            to_a += a[p] * row[p];
            to_b += b[p] * row[p];
            to_c += c[p] * row[p];
            to_d += d[p] * row[p];
        }
        const double found[4] = {to_a, to_b, to_c, to_d};
        for (i64 k = 0; k < 4; k++) {
            gram[i * capacity + other + k] = found[k];
            gram[(other + k) * capacity + i] = found[k];
        }
    }
    for (; other <= i; other++) {
        const double product = dot(rows + other * n, row, n);
        gram[i * capacity + other] = product;
        gram[other * capacity + i] = product;
    }
}

// Scores of N labels of node v: as many sums, which do not wait for each other.
template <int N> static void label_scores(const Design &design, i64 v, const double *w, const i64 *labels, double *out) {
    const i64 n_labels = design.node_index.shape[1], end = design.x_ptr[v + 1];
    const i32 *x_col = design.x_col.data, *node_base = design.node_base.data, *node_index = design.node_index.data;
    const double *x_val = design.x_val.data;
    i64 k[N];
    double total[N] = {};
    for (int a = 0; a < N; a++) k[a] = labels[a];
    for (i64 q = design.x_ptr[v]; q < end; q++) {
        const i64 f = x_col[q], base = node_base[f];
        const double x = x_val[q];
        if (base >= 0) {
            for (int a = 0; a < N; a++) total[a] += x * w[base + k[a]];
        } else {
            const i32 *index = node_index + f * n_labels;
            for (int a = 0; a < N; a++) {
                if (index[k[a]] >= 0) total[a] += x * w[index[k[a]]];
            }
        }
    }
    for (int a = 0; a < N; a++) out[k[a]] = total[a];
}

i64 needed_scores(const Design &design, const Planes &planes, i64 j, i64 used, const double *w, const Scratch &scratch) {
    const i64 first = design.node_ptr[j], last = design.node_ptr[j + 1], n_nodes = last - first;
    const i64 n_labels = design.node_index.shape[1], width = scratch.scores.shape[1];
    const i64 step = design.node_step[0], part = design.node_step[1];
    const i32 *pool = planes.pool.data + planes.pool_ptr[j], *truth = design.truth.data, *x_col = design.x_col.data;
    const i64 *x_ptr = design.x_ptr.data;
    const double *x_val = design.x_val.data;
    u8 *wanted = scratch.wanted.data, *active = scratch.active.data;
    i64 *chosen = scratch.chosen.data;
    i64 work = 0;
    for (i64 v = first; v < last; v++) {
        const i64 t = truth[v];
        const i32 *at = pool + (v - first);
        i64 n = 0;
        for (i64 i = 1; i < used; i++) {
            const i64 k = at[i * n_nodes];
            if (k != t && !wanted[k]) {
                wanted[k] = 1;
                chosen[n++] = k;
            }
        }
        active[v - first] = n > 0;
        if (n == 0) continue;
        chosen[n++] = t;
        for (i64 i = 0; i < n; i++) wanted[chosen[i]] = 0;
        const i64 size = x_ptr[(v + 1) * step] - x_ptr[v * step];
        double *out = scratch.scores.data + (v - first) * width;
        if (4 * n > n_labels && !part) {
            node_score(design, v, w, out);
            work += size * n_labels;
            continue;
        }
        work += 3 * size * n;
        if (part) {
            for (i64 i = 0; i < n; i++) {
                const i64 k = chosen[i], r = v * step + k, end = x_ptr[r + 1];
                double total = 0.0;
                for (i64 q = x_ptr[r]; q < end; q++) total += x_val[q] * w[x_col[q]];
                out[k] = total;
            }
            continue;
        }
        i64 i = 0;
        for (; i + 3 < n; i += 4) label_scores<4>(design, v, w, chosen + i, out);
        if (n - i == 3) label_scores<3>(design, v, w, chosen + i, out);
        if (n - i == 2) label_scores<2>(design, v, w, chosen + i, out);
        if (n - i == 1) label_scores<1>(design, v, w, chosen + i, out);
    }
    return work;
}

void products(const Design &design, const Planes &planes, i64 j, i64 used, const double *w, const Scratch &scratch) {
    const i64 first = design.node_ptr[j], n_nodes = design.node_ptr[j + 1] - first;
    const i64 n_labels = design.node_index.shape[1], width = scratch.scores.shape[1];
    const i64 step = design.edge_step[0], part = design.edge_step[1], first_edge = design.edge_ptr[j], last_edge = design.edge_ptr[j + 1];
    const i32 *pool = planes.pool.data + planes.pool_ptr[j], *truth = design.truth.data + first, *edges = design.edges.data;
    const i32 *f_col = design.f_col.data, *edge_index = design.edge_index.data;
    const i64 *f_ptr = design.f_ptr.data, table = design.edge_index.shape[1] * design.edge_index.shape[2], row = design.edge_index.shape[2];
    const double *f_val = design.f_val.data;
    const u8 *active = scratch.active.data;
    double *__restrict out = scratch.gradient.data;
    for (i64 i = 0; i < used; i++) out[i] = 0.0;
    for (i64 v = 0; v < n_nodes; v++) {
        if (!active[v]) continue;
        const i64 t = truth[v];
        const double *scores = scratch.scores.data + v * width, own = scores[t];
        const i32 *at = pool + v;
        for (i64 i = 1; i < used; i++) {
            const i64 k = at[i * n_nodes];
            if (k != t) out[i] += own - scores[k];
        }
    }
    for (i64 e = first_edge; e < last_edge; e++) {
        const i64 u = edges[2 * e] - first, v = edges[2 * e + 1] - first;
        if (!(active[u] || active[v])) continue;
        const i64 s = truth[u], t = truth[v];
        double own = 0.0;
        i64 r = e * step + (s * n_labels + t) * part;
        for (i64 q = f_ptr[r], end = f_ptr[r + 1]; q < end; q++) {
            const i64 p = edge_index[f_col[q] * table + s * row + t];
            if (p >= 0) own += f_val[q] * w[p];
        }
        for (i64 i = 1; i < used; i++) {
            const i64 k = pool[i * n_nodes + u], m = pool[i * n_nodes + v];
            if (k == s && m == t) continue;
            double total = out[i] + own;
            r = e * step + (k * n_labels + m) * part;
            for (i64 q = f_ptr[r], end = f_ptr[r + 1]; q < end; q++) {
                const i64 p = edge_index[f_col[q] * table + k * row + m];
                if (p >= 0) total -= f_val[q] * w[p];
            }
            out[i] = total;
        }
    }
}

// Store a labelling of example j: its slot, or -1 if it is there already, or -2 if there is no room.
static i64 insert(const Design &design, const Planes &planes, i64 j, const i32 *labels, const Scratch &scratch) {
    const i64 n_nodes = design.node_ptr[j + 1] - design.node_ptr[j];
    const i64 first = planes.slot_ptr[j], used = planes.used[j], capacity = planes.slot_ptr[j + 1] - first;
    i32 *pool = planes.pool.data + planes.pool_ptr[j];
    for (i64 i = 0; i < used; i++) {
        if (std::equal(labels, labels + n_nodes, pool + i * n_nodes)) return -1;
    }
    if (used == capacity) return -2;
    std::copy(labels, labels + n_nodes, pool + used * n_nodes);
    const i32 *index = scratch.index.data;
    const double *value = scratch.value.data;
    double *dense = scratch.dense.data;
    const auto [n, loss] = difference(design, j, labels, scratch.index.data, scratch.value.data);
    for (i64 i = 0; i < n; i++) dense[index[i]] += value[i];
    planes.alpha[first + used] = 0.0;
    planes.offset[first + used] = loss;
    planes.age[first + used] = 0;
    planes.used[j] = used + 1;
    if (planes.vector.size() > 0) {
        const i64 n_weights = planes.vector.shape[1];
        std::copy(dense, dense + n_weights, planes.vector.data + (first + used) * n_weights);
        std::fill(dense, dense + n_weights, 0.0);
        multiply_vectors(planes, j, used);
        return used;
    }
    double norm = 0.0;
    for (i64 i = 0; i < n; i++) norm += dense[index[i]] * value[i];
    double *gram = planes.gram.data + planes.gram_ptr[j];
    gram[used * capacity + used] = norm;
    needed_scores(design, planes, j, used, dense, scratch);
    products(design, planes, j, used, dense, scratch);
    for (i64 other = 0; other < used; other++) {
        gram[used * capacity + other] = scratch.gradient[other];
        gram[other * capacity + used] = scratch.gradient[other];
    }
    for (i64 i = 0; i < n; i++) dense[index[i]] = 0.0;
    return used;
}

// Store a plane by its vector, its labels marked: its slot, or -2 if there is no room.
static i64 insert_vector(const Planes &planes, i64 j, i64 n_nodes, Array<const double> vector, double offset, i64 mark) {
    const i64 first = planes.slot_ptr[j], used = planes.used[j];
    if (used == planes.slot_ptr[j + 1] - first) return -2;
    i32 *labels = planes.pool.data + planes.pool_ptr[j] + used * n_nodes;
    for (i64 v = 0; v < n_nodes; v++) labels[v] = v == 0 ? i32(mark) : 0;
    planes.alpha[first + used] = 0.0;
    planes.offset[first + used] = offset;
    planes.age[first + used] = 0;
    planes.used[j] = used + 1;
    std::copy(vector.begin(), vector.end(), planes.vector.data + (first + used) * planes.vector.shape[1]);
    multiply_vectors(planes, j, used);
    return used;
}

// Vectors of all planes that are labellings, the first of each example left out, as (ptr, column, value) of their entries; repeated columns are
// added up, and scratch.dense is zero between uses.
static std::tuple<Owned<i64>, Owned<i32>, Owned<double>> entries(const Design &design, const Planes &planes, const Scratch &scratch) {
    i64 n_rows = 0;
    for (i64 j = 0; j < planes.used.size(); j++) n_rows += planes.used[j] - 1;
    auto ptr = Owned<i64>::zeros(n_rows + 1);
    std::vector<i32> columns;
    std::vector<double> numbers;
    const i32 *index = scratch.index.data;
    const double *entry = scratch.value.data;
    double *dense = scratch.dense.data;
    i64 row = 0;
    for (i64 j = 0; j < planes.used.size(); j++) {
        const i64 n_nodes = design.node_ptr[j + 1] - design.node_ptr[j];
        for (i64 i = 1; i < planes.used[j]; i++) {
            const i32 *labels = planes.pool.data + planes.pool_ptr[j] + i * n_nodes;
            const i64 n = difference(design, j, labels, scratch.index.data, scratch.value.data).n;
            for (i64 q = 0; q < n; q++) dense[index[q]] += entry[q];
            for (i64 q = 0; q < n; q++) {
                const i32 p = index[q];
                if (dense[p] != 0.0) {
                    columns.push_back(p);
                    numbers.push_back(dense[p]);
                    dense[p] = 0.0;
                }
            }
            row += 1;
            ptr[row] = i64(columns.size());
        }
    }
    Owned<i32> column(i64(columns.size()));
    Owned<double> value(i64(numbers.size()));
    std::copy(columns.begin(), columns.end(), column.data);
    std::copy(numbers.begin(), numbers.end(), value.data);
    return {std::move(ptr), std::move(column), std::move(value)};
}

// Forget the planes of example j that had no weight in `oldest` visits; slot 0 stays. Returns how many.
static i64 drop(const Design &design, const Planes &planes, i64 j, i64 oldest) {
    const i64 n_nodes = design.node_ptr[j + 1] - design.node_ptr[j], n_weights = planes.vector.shape[1];
    const i64 first = planes.slot_ptr[j], used = planes.used[j], capacity = planes.slot_ptr[j + 1] - first;
    i32 *pool = planes.pool.data + planes.pool_ptr[j];
    double *gram = planes.gram.data + planes.gram_ptr[j], *alpha = planes.alpha.data + first, *offset = planes.offset.data + first;
    double *vectors = planes.vector.data + first * n_weights;
    i64 *age = planes.age.data + first, kept = 1;
    for (i64 i = 1; i < used; i++) {
        if (alpha[i] == 0.0 && age[i] >= oldest) continue;
        if (kept != i) {
            alpha[kept] = alpha[i];
            offset[kept] = offset[i];
            age[kept] = age[i];
            std::copy(pool + i * n_nodes, pool + (i + 1) * n_nodes, pool + kept * n_nodes);
            std::copy(vectors + i * n_weights, vectors + (i + 1) * n_weights, vectors + kept * n_weights);
            std::copy(gram + i * capacity, gram + i * capacity + used, gram + kept * capacity);
            for (i64 other = 0; other < used; other++) gram[other * capacity + kept] = gram[other * capacity + i];
        }
        kept += 1;
    }
    planes.used[j] = kept;
    return used - kept;
}

// drop the planes of every example j that had no weight in oldest[j] visits.
static void drop_all(const Design &design, const Planes &planes, Array<const i64> oldest) {
    for (i64 j = 0; j < oldest.size(); j++) drop(design, planes, j, oldest[j]);
}

// insert one labelling for each of `examples`; full[i] is set where there was no room.
static void insert_all(const Design &design, const Planes &planes, Array<const i64> examples, Array<const i64> ptr, Array<const i32> labels,
                       i64 oldest, const Scratch &scratch, Array<bool> full) {
    for (i64 i = 0; i < examples.size(); i++) {
        const i64 j = examples[i];
        drop(design, planes, j, oldest);
        full[i] = insert(design, planes, j, labels.data + ptr[i], scratch) == -2;
    }
}

// Move all planes to arrays with more room.
static void copy_planes(Array<const i64> sizes, const Planes &from, Array<const i64> old_capacity, const Planes &to, Array<const i64> new_capacity) {
    const i64 n_weights = from.vector.shape[1];
    for (i64 j = 0; j < sizes.size(); j++) {
        const i64 used = from.used[j];
        to.used[j] = used;
        for (i64 i = 0; i < used; i++) {
            const i64 a = from.slot_ptr[j] + i, b = to.slot_ptr[j] + i;
            to.alpha[b] = from.alpha[a];
            to.offset[b] = from.offset[a];
            to.age[b] = from.age[a];
            std::copy_n(from.vector.data + a * n_weights, n_weights, to.vector.data + b * to.vector.shape[1]);
            std::copy_n(from.gram.data + from.gram_ptr[j] + i * old_capacity[j], used, to.gram.data + to.gram_ptr[j] + i * new_capacity[j]);
        }
        std::copy_n(from.pool.data + from.pool_ptr[j], used * sizes[j], to.pool.data + to.pool_ptr[j]);
    }
}

// Most entries that `difference` can write for any labelling of any example.
static i64 largest_difference(const Design &design) {
    const i64 n_labels = design.loss.shape[1];
    // the longest of the rows that parts of one node or edge have
    const auto longest = [](Array<const i64> ptr, i64 row, i64 part, i64 n_parts) {
        i64 most = 0;
        for (i64 k = 0; k < (part ? n_parts : 1); k++) most = std::max(most, ptr[row + k * part + 1] - ptr[row + k * part]);
        return most;
    };
    i64 largest = 0;
    for (i64 j = 0; j < design.node_ptr.size() - 1; j++) {
        i64 count = 0;
        for (i64 v = design.node_ptr[j]; v < design.node_ptr[j + 1]; v++) {
            count += 2 * longest(design.x_ptr, v * design.node_step[0], design.node_step[1], n_labels);
        }
        for (i64 e = design.edge_ptr[j]; e < design.edge_ptr[j + 1]; e++) {
            count += 2 * longest(design.f_ptr, e * design.edge_step[0], design.edge_step[1], n_labels * n_labels);
        }
        if (design.clique_ptr.size()) {
            for (i64 c = design.clique_ptr[j]; c < design.clique_ptr[j + 1]; c++) count += 2 * (design.h_ptr[c + 1] - design.h_ptr[c]);
        }
        largest = std::max(largest, count);
    }
    return largest;
}

void bind_planes(nb::module_ &m) {
    bind_record<Planes>(m);
    bind_record<Weights>(m);
    bind_record<Scratch>(m);
    def(m, "values", values, "design"_a, "examples"_a, "ptr"_a, "labels"_a, "w"_a, "scratch"_a, "out"_a,
        "b - <w, z> of one labelling for each of ``examples``; those of the i-th are ``labels[ptr[i]:ptr[i + 1]]``.");
    def(m, "insert_all", insert_all, "design"_a, "planes"_a, "examples"_a, "ptr"_a, "labels"_a, "oldest"_a, "scratch"_a, "full"_a,
        "Store one labelling for each of ``examples``; ``full[i]`` is set where there was no room.");
    def(m, "insert_vector", insert_vector, "planes"_a, "j"_a, "n_nodes"_a, "vector"_a, "offset"_a, "mark"_a,
        "Store a plane by its vector, its labels marked: its slot, or -2 if there is no room.");
    def(m, "entries", entries, "design"_a, "planes"_a, "scratch"_a,
        "Vectors of all planes that are labellings, the first of each example left out, as (ptr, column, value) of their entries.");
    def(m, "drop", drop, "design"_a, "planes"_a, "j"_a, "oldest"_a,
        "Forget the planes of example ``j`` that had no weight in ``oldest`` visits; slot 0 stays. Returns how many.");
    def(m, "drop_all", drop_all, "design"_a, "planes"_a, "oldest"_a,
        "`drop` the planes of every example ``j`` that had no weight in ``oldest[j]`` visits.");
    def(m, "copy_planes", copy_planes, "sizes"_a, "old"_a, "old_capacity"_a, "new"_a, "new_capacity"_a, "Move all planes to arrays with more room.");
    def(m, "largest_difference", largest_difference, "design"_a, "Most entries that `difference` can write for any labelling of any example.");
}

} // namespace maxsum
