// Planes of regions: vectors and losses of their labellings, and dual ascent on the multipliers of all of them.
#include "design.hpp"
#include "poll.hpp"
#include "regions.hpp"
#include "simplex.hpp"

namespace maxsum {

constexpr i64 ALL = 8;          // every so many passes visit all regions, not the active ones alone
constexpr double LITTLE = 1e-2; // of what the steps of a visit gained so far: a step that gains less is the last of it

// The label that all members of a clique have, or -1.
static i64 common(Array<const i32> members, const i32 *labels) {
    const i32 k = labels[members[0]];
    for (i32 v : members) {
        if (labels[v] != k) return -1;
    }
    return k;
}

namespace {

// A vector that entries are added to; `touched`, if it has room, lists where.
struct Sum {
    double *out;
    Array<i32> touched;
    i64 n = 0;

    void put(i32 p, double amount) {
        if (p < 0) return;
        out[p] += amount;
        if (touched.size()) touched[n++] = p;
    }
    // Add the features of an item with its true label (or pair) t and subtract those with k.
    void add(Array<const i64> ptr, Array<const i32> column, Array<const double> value, i64 item, Array<const i64> step, i64 k, i64 t,
             const i32 *index, i64 width) {
        i64 row = item * step[0] + t * step[1];
        for (i64 i = ptr[row]; i < ptr[row + 1]; i++) put(index[column[i] * width + t], value[i]);
        row = item * step[0] + k * step[1];
        for (i64 i = ptr[row]; i < ptr[row + 1]; i++) put(index[column[i] * width + k], -value[i]);
    }
};

// Edges and cliques of each node.
struct Links {
    Array<const i64> ptr;
    Array<const i32> adj_edge;
    Array<const i64> member_ptr;
    Array<const i32> member_clique;
};

} // namespace

// Add the vector of the nodes `nodes` with `labels` less that with the labels `before`, both of all nodes; returns the difference of losses.
static double add_difference(const Design &design, const Links &links, Array<const i64> nodes, const i32 *labels, const i32 *before, Sum &sum) {
    const i64 n_labels = design.loss.shape[1];
    double loss = 0.0;
    for (i64 i = 0; i < nodes.size(); i++) {
        const i64 v = nodes[i], k = labels[v], t = before[v];
        if (k == t) continue;
        loss += design.loss(v, k) - design.loss(v, t);
        sum.add(design.x_ptr, design.x_col, design.x_val, v, design.node_step, k, t, design.node_index.data, design.node_index.shape[1]);
        for (i64 q = links.ptr[v]; q < links.ptr[v + 1]; q++) {
            const i64 e = links.adj_edge[q], u = design.edges(e, 0), w = design.edges(e, 1), other = u == v ? w : u;
            if (other < v && labels[other] != before[other]) continue;
            const i64 pair = labels[u] * n_labels + labels[w], old = before[u] * n_labels + before[w];
            sum.add(design.f_ptr, design.f_col, design.f_val, e, design.edge_step, pair, old, design.edge_index.data, n_labels * n_labels);
        }
        for (i64 q = links.member_ptr[v]; q < links.member_ptr[v + 1]; q++) {
            const i64 c = links.member_clique[q];
            i64 lead = design.member_ptr[c];
            while (labels[design.member[lead]] == before[design.member[lead]]) lead++;
            if (design.member[lead] != v) continue;
            const Array<const i32> members = design.member.part(design.member_ptr[c], design.member_ptr[c + 1]);
            const i64 now = common(members, labels), then = common(members, before);
            for (i64 j = design.h_ptr[c]; j < design.h_ptr[c + 1]; j++) {
                if (then >= 0) sum.put(design.clique_index(design.h_col[j], then), design.h_val[j]);
                if (now >= 0) sum.put(design.clique_index(design.h_col[j], now), -design.h_val[j]);
            }
        }
    }
    return loss;
}

template <class T> static Owned<T> owned(const std::vector<T> &all) {
    Owned<T> made(i64(all.size()));
    std::copy(all.begin(), all.end(), made.data);
    return made;
}

// z and loss of each labelling of each region, less those of the region's first labelling, as (ptr, column, value) of their entries; `dense` is zero
// between uses.
static std::tuple<Owned<i64>, Owned<i32>, Owned<double>> sparse_vectors(const Design &design, const Regions &regions, Array<const i64> ptr,
                                                                        Array<const i32> adj_edge, Array<const i64> member_ptr,
                                                                        Array<const i32> member_clique, Array<double> dense, Array<i32> touched,
                                                                        Array<double> offset) {
    const Links links{ptr, adj_edge, member_ptr, member_clique};
    auto z_ptr = Owned<i64>::zeros(regions.alpha.size() + 1);
    std::vector<i32> column;
    std::vector<double> value;
    column.reserve(regions.label.size() + 64);
    value.reserve(regions.label.size() + 64);
    std::vector<i32> labels(regions.base.begin(), regions.base.end()), before = labels;
    for (i64 r = 0; r < regions.size(); r++) {
        const Array<const i64> nodes = regions.node.part(regions.node_ptr[r], regions.node_ptr[r + 1]);
        const i64 size = nodes.size(), first = regions.atom_ptr[r];
        const i32 *rows = regions.label.data + regions.label_ptr[r];
        for (i64 i = 0; i < size; i++) before[nodes[i]] = rows[i];
        for (i64 a = 0; a < regions.n_atoms(r); a++) {
            for (i64 i = 0; i < size; i++) labels[nodes[i]] = rows[a * size + i];
            Sum sum{dense.data, touched};
            offset[first + a] = add_difference(design, links, nodes, labels.data(), before.data(), sum);
            for (i64 i = 0; i < sum.n; i++) {
                const i32 p = touched[i];
                if (dense[p] != 0.0) {
                    column.push_back(p);
                    value.push_back(dense[p]);
                    dense[p] = 0.0;
                }
            }
            z_ptr[first + a + 1] = i64(column.size());
        }
    }
    return {std::move(z_ptr), owned(column), owned(value)};
}

// Add sum_j c_j z_j of the labelling where every region has its first one; returns sum_j c_j b_j.
static double base_plane(const Design &design, const Regions &regions, Array<const double> c, Array<i32> index, Array<double> value,
                         Array<double> u) {
    std::vector<i32> labels(regions.base.begin(), regions.base.end());
    for (i64 r = 0; r < regions.size(); r++) {
        const i64 first = regions.node_ptr[r], size = regions.n_nodes(r), row = regions.label_ptr[r];
        for (i64 i = 0; i < size; i++) labels[regions.node[first + i]] = regions.label[row + i];
    }
    double total = 0.0;
    for (i64 j = 0; j < design.node_ptr.size() - 1; j++) {
        const Difference found = difference(design, j, labels.data() + design.node_ptr[j], index.data, value.data);
        const double weight = c[j];
        total += weight * found.loss;
        for (i64 i = 0; i < found.n; i++) u[index[i]] += weight * value[i];
    }
    return total;
}

namespace {

// The model that passes work on: planes, multipliers, and the vectors that these make.
struct Planes {
    Array<const i64> z_ptr;
    Array<const i32> column;
    Array<const double> value, offset;
    Array<double> alpha;
    Array<const i64> atom_ptr;
    Array<const double> c;
    Array<double> u, w;
    Array<const u8> nonneg;
    double heaviness;
    Array<const double> centre; // may be u itself

    i64 size() const { return atom_ptr.size() - 1; }
};

// Inner products of the vectors of each region, row by row as they are asked for, and work space.
struct Products {
    std::vector<i64> ptr; // (R + 1,): those of region r start here
    std::unique_ptr<double[]> value;
    std::vector<u8> known;             // (atoms,): whether the row of an atom is there
    double *dense;                     // (P,), zero between uses
    std::vector<double> score, change; // (most atoms of a region,)

    // Room for the products of all regions.
    Products(Array<const i64> atom_ptr, double *dense) : ptr(atom_ptr.size(), 0), dense(dense) {
        const i64 n_regions = atom_ptr.size() - 1;
        i64 most = 1;
        for (i64 r = 0; r < n_regions; r++) {
            const i64 count = atom_ptr[r + 1] - atom_ptr[r];
            ptr[r + 1] = ptr[r] + count * count;
            most = std::max(most, count);
        }
        value = std::make_unique_for_overwrite<double[]>(std::size_t(ptr[n_regions]));
        known.assign(atom_ptr[n_regions], 0);
        score.resize(most);
        change.resize(most);
    }

    // Products of atom a of region r with all of them.
    const double *row(const Planes &planes, i64 r, i64 first, i64 count, i64 a) {
        double *own = value.get() + ptr[r] + a * count;
        if (!known[first + a]) {
            known[first + a] = 1;
            const i64 begin = planes.z_ptr[first + a], end = planes.z_ptr[first + a + 1];
            const i32 *column = planes.column.data;
            const double *entry = planes.value.data;
            for (i64 i = begin; i < end; i++) dense[column[i]] = entry[i];
            for (i64 b = 0; b < count; b++) {
                double total = 0.0;
                for (i64 i = planes.z_ptr[first + b]; i < planes.z_ptr[first + b + 1]; i++) total += entry[i] * dense[column[i]];
                own[b] = total;
            }
            for (i64 i = begin; i < end; i++) dense[column[i]] = 0.0;
        }
        return own;
    }
};

struct Pass {
    double gain;
    i64 work;
};

} // namespace

// One pass over the regions whose last known gap is more than `least`.
//
// Returns the gain of the dual, exact without a cone and a lower bound with one, and the entries touched.
static Pass pass(const Planes &planes, i64 n_steps, Products &products, Array<double> gaps, double least) {
    const double heaviness = planes.heaviness, scale = 1.0 / (1.0 + heaviness);
    const Array<const i64> z_ptr = planes.z_ptr, atom_ptr = planes.atom_ptr;
    const i32 *column = planes.column.data;
    const double *value = planes.value.data, *centre = planes.centre.data;
    double *u = planes.u.data, *w = planes.w.data, *score = products.score.data(), *change = products.change.data();
    Pass done{0.0, 0};
    Poll poll;
    for (i64 r = 0; r < planes.size(); r++) {
        if (gaps[r] <= least) continue;
        poll();
        const i64 first = atom_ptr[r], count = atom_ptr[r + 1] - first;
        const double c = planes.c[r];
        double *alpha = planes.alpha.data + first;
        double own_gain = 0.0, mean = 0.0;
        for (i64 a = 0; a < count; a++) {
            double product = 0.0;
            const i64 end = z_ptr[first + a + 1];
            for (i64 i = z_ptr[first + a]; i < end; i++) product += value[i] * w[column[i]];
            score[a] = planes.offset[first + a] - product;
            change[a] = 0.0;
            mean += alpha[a] * score[a];
        }
        done.work += z_ptr[first + count] - z_ptr[first] + count;
        for (i64 step = 0; step < n_steps; step++) {
            const auto [high, low] = ends(score, alpha, count);
            if (step == 0) gaps[r] = c * (score[high] - mean);
            if (low < 0 || is_flat(score, high, low)) break;
            const double slope = score[high] - score[low];
            const double *to = products.row(planes, r, first, count, high), *back = products.row(planes, r, first, count, low);
            const double norm = to[high] + back[low] - to[low] - back[high];
            const double moved = c * exchange(alpha, high, low, slope, c * norm * scale);
            change[high] += moved;
            change[low] -= moved;
            const double factor = moved * scale;
            for (i64 a = 0; a < count; a++) score[a] -= factor * (to[a] - back[a]);
            const double gained = moved * (slope - 0.5 * moved * norm * scale);
            own_gain += gained;
            if (gained < LITTLE * own_gain) break;
        }
        done.gain += own_gain;
        for (i64 a = 0; a < count; a++) {
            if (change[a] == 0.0) continue;
            const double by = change[a];
            const i64 end = z_ptr[first + a + 1];
            for (i64 i = z_ptr[first + a]; i < end; i++) {
                const i64 p = column[i];
                u[p] += by * value[i];
                const double own = (u[p] + heaviness * centre[p]) * scale;
                w[p] = planes.nonneg[p] && own < 0 ? 0.0 : own;
            }
        }
    }
    return done;
}

// Pairwise steps in every region, in passes over them, on the dual of F_model(w) + tau / 2 |w - w^|^2.
//
// u is sum c alpha z, and w = [u + tau w^]_+ / (1 + tau) is returned, with `heaviness` tau. Stops when the gap of a pass over all regions is at most
// `enough`; most passes leave out regions whose own gap is small.
static Owned<double> sparse_ascend(Array<const i64> z_ptr, Array<const i32> column, Array<const double> value, Array<const double> offset,
                                   Array<double> alpha, Array<const i64> atom_ptr, Array<const double> c, Array<double> u, Array<const u8> nonneg,
                                   double heaviness, Array<const double> centre, i64 n_passes, i64 n_steps, double enough) {
    Owned<double> w(u.size());
    const double scale = 1.0 / (1.0 + heaviness);
    for (i64 p = 0; p < u.size(); p++) {
        const double own = (u[p] + heaviness * centre[p]) * scale;
        w[p] = nonneg[p] && own < 0 ? 0.0 : own;
    }
    const Planes planes{z_ptr, column, value, offset, alpha, atom_ptr, c, u, w, nonneg, heaviness, centre};
    const i64 n_regions = planes.size();
    std::vector<double> dense(u.size(), 0.0);
    Products products(atom_ptr, dense.data());
    const auto gaps = Owned<double>::filled({n_regions}, INF);
    const double share = 0.5 * enough / double(std::max<i64>(1, n_regions));
    bool every = true;
    for (i64 turn = 0; turn < n_passes; turn++) {
        pass(planes, n_steps, products, gaps, every ? -1.0 : share);
        double gap = 0.0;
        for (double own : gaps) gap += own;
        if (gap > enough) {
            every = turn % ALL == 0;
        } else if (every) {
            break;
        } else {
            every = true;
        }
    }
    return w;
}

// Passes without a proximal term while they pay: while their gain for their work is no less than gain / work so far, and more than `least`. Most
// leave out regions whose own gap is small. Returns gain and work in all.
static std::tuple<double, double> region_passes(Array<const i64> z_ptr, Array<const i32> column, Array<const double> value,
                                                Array<const double> offset, Array<double> alpha, Array<const i64> atom_ptr, Array<const double> c,
                                                Array<double> plain, Array<double> w, Array<const u8> nonneg, i64 n_passes, i64 n_steps, double least,
                                                double gain, double work, Array<double> dense, Array<double> gaps) {
    const Planes planes{z_ptr, column, value, offset, alpha, atom_ptr, c, plain, w, nonneg, 0.0, plain};
    Products products(atom_ptr, dense.data);
    double share = 0.0;
    for (i64 done = 0; done < n_passes; done++) {
        const Pass made = pass(planes, n_steps, products, gaps, done % ALL ? share : -1.0);
        const bool pays = made.gain * work >= gain * double(made.work) && made.gain > least;
        gain += made.gain;
        work += double(made.work);
        if (!pays) break;
        double total = 0.0;
        for (double own : gaps) total += own;
        share = 0.5 * (total / double(gaps.size()));
    }
    return {gain, work};
}

void bind_region_planes(nb::module_ &m) {
    def(m, "sparse_vectors", sparse_vectors, "design"_a, "regions"_a, "ptr"_a, "adj_edge"_a, "member_ptr"_a, "member_clique"_a, "dense"_a,
        "touched"_a, "offset"_a,
        "z and loss of each labelling of each region, less those of the region's first labelling, as (ptr, column, value) of their entries.");
    def(m, "base_plane", base_plane, "design"_a, "regions"_a, "c"_a, "index"_a, "value"_a, "u"_a,
        "Add sum_j c_j z_j of the labelling where every region has its first one; returns sum_j c_j b_j.");
    def(m, "sparse_ascend", sparse_ascend, "z_ptr"_a, "column"_a, "value"_a, "offset"_a, "alpha"_a, "atom_ptr"_a, "c"_a, "u"_a, "nonneg"_a,
        "heaviness"_a, "centre"_a, "n_passes"_a, "n_steps"_a, "enough"_a,
        "Pairwise steps in every region, in passes over them; returns the weights.");
    def(m, "region_passes", region_passes, "z_ptr"_a, "column"_a, "value"_a, "offset"_a, "alpha"_a, "atom_ptr"_a, "c"_a, "plain"_a, "w"_a, "nonneg"_a,
        "n_passes"_a, "n_steps"_a, "least"_a, "gain"_a, "work"_a, "dense"_a, "gaps"_a,
        "Passes without a proximal term while they pay. Returns gain and work in all.");
}

} // namespace maxsum
