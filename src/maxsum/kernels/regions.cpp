#include "regions.hpp"

#include "design.hpp"

namespace maxsum {

constexpr u64 START = 1469598103934665603u; // the hash FNV-1a (Fowler, Noll & Vo): its first value,
constexpr u64 FACTOR = 1099511628211u;      // and the prime that it multiplies with

static i64 root_of(i64 *parent, i64 v) {
    while (parent[v] != v) {
        parent[v] = parent[parent[v]];
        v = parent[v];
    }
    return v;
}

static void join(i64 *parent, i64 u, i64 v) {
    const i64 a = root_of(parent, u), b = root_of(parent, v);
    if (a < b) {
        parent[b] = a;
    } else if (b < a) {
        parent[a] = b;
    }
}

// Mark nodes with several labels among those to keep and the new one; write the label of the others to `base`.
static std::vector<u8> undecided(const Regions &old, Array<const i32> labels, i64 memory, Array<i32> base) {
    std::vector<u8> active(base.size(), 0);
    for (i64 v = 0; v < base.size(); v++) {
        const i64 r = old.region[v];
        i32 own = old.base[v];
        if (r >= 0) {
            const i64 size = old.n_nodes(r), first = old.atom_ptr[r], count = old.n_atoms(r);
            const i64 place = old.label_ptr[r] + old.place[v];
            bool known = false;
            for (i64 a = 0; a < count; a++) {
                if (old.alpha[first + a] > 0 || old.age[first + a] < memory) {
                    const i32 k = old.label[place + a * size];
                    if (!known) {
                        own = k;
                        known = true;
                    } else if (k != own) {
                        active[v] = 1;
                    }
                }
            }
        }
        base[v] = own;
        if (labels[v] != own) active[v] = 1;
    }
    return active;
}

namespace {

struct Components {
    Owned<i64> region, place, ptr, node;
};

} // namespace

// Regions of linked active nodes.
static Components components(const Design &design, const std::vector<u8> &active) {
    const i64 n_nodes = i64(active.size());
    std::vector<i64> parent(n_nodes);
    for (i64 v = 0; v < n_nodes; v++) parent[v] = v;
    for (i64 e = 0; e < design.edges.size(); e++) {
        const i64 u = design.edges(e, 0), v = design.edges(e, 1);
        if (active[u] && active[v]) join(parent.data(), u, v);
    }
    for (i64 c = 0; c < design.member_ptr.size() - 1; c++) {
        i64 last = -1;
        for (i64 i = design.member_ptr[c]; i < design.member_ptr[c + 1]; i++) {
            const i64 v = design.member[i];
            if (active[v]) {
                if (last >= 0) join(parent.data(), last, v);
                last = v;
            }
        }
    }
    Components made{Owned<i64>::filled({n_nodes}, -1), Owned<i64>::zeros(n_nodes), {}, {}};
    const Array<i64> region = made.region, place = made.place;
    i64 count = 0;
    for (i64 v = 0; v < n_nodes; v++) {
        if (active[v]) {
            const i64 root = root_of(parent.data(), v);
            region[v] = root == v ? count++ : region[root];
        }
    }
    made.ptr = Owned<i64>::zeros(count + 1);
    const Array<i64> ptr = made.ptr;
    for (i64 v = 0; v < n_nodes; v++) {
        if (region[v] >= 0) place[v] = ptr[region[v] + 1]++;
    }
    for (i64 r = 0; r < count; r++) ptr[r + 1] += ptr[r];
    made.node = Owned<i64>(ptr[count]);
    for (i64 v = 0; v < n_nodes; v++) {
        if (region[v] >= 0) made.node[ptr[region[v]] + place[v]] = v;
    }
    return made;
}

// The next labelling of region r with weight, or -1.
static i64 next_atom(const Regions &old, i64 a, i64 r) {
    for (i64 b = a + 1; b < old.atom_ptr[r + 1]; b++) {
        if (old.alpha[b] > 0) return b;
    }
    return -1;
}

// Which of n_atoms labellings in `label` equals the one behind them, or -1; its mark is written.
static i64 same(const i32 *label, i64 n_atoms, i64 size, std::vector<u64> &marks) {
    const i32 *made = label + n_atoms * size;
    u64 mark = START;
    for (i64 i = 0; i < size; i++) mark = (mark ^ u64(i64(made[i]) + 1)) * FACTOR;
    marks[n_atoms] = mark;
    for (i64 a = 0; a < n_atoms; a++) {
        if (marks[a] == mark && std::equal(made, made + size, label + a * size)) return a;
    }
    return -1;
}

template <class T> static Owned<T> front(const Owned<T> &all, i64 n) {
    Owned<T> part(n);
    std::copy(all.data, all.data + n, part.data);
    return part;
}

using NewRegions =
    std::tuple<Owned<i32>, Owned<i64>, Owned<i64>, Owned<i64>, Owned<i64>, Owned<i64>, Owned<i64>, Owned<i32>, Owned<double>, Owned<i64>>;

// Regions with a new labelling of all nodes; the fields of `Regions`.
//
// Marginals of all terms stay what they were: a region that falls apart keeps the marginals of its parts, and regions that grow together are coupled
// by their cumulated multipliers. Labellings that had no weight `memory` times are dropped.
static NewRegions extend(const Design &design, const Regions &old, Array<const i32> labels, i64 memory) {
    Owned<i32> base(old.base.size());
    Components made = components(design, undecided(old, labels, memory, base));
    const Array<const i64> node_ptr = made.ptr, node = made.node;
    const i64 n_regions = node_ptr.size() - 1, n_old = old.size();
    std::vector<i64> seen(n_old, -1);
    i64 room = 0, room_labels = 0, most = 0;
    for (i64 r = 0; r < n_regions; r++) {
        i64 count = 2;
        for (i64 i = node_ptr[r]; i < node_ptr[r + 1]; i++) {
            const i64 o = old.region[node[i]];
            if (o >= 0 && seen[o] != r) {
                seen[o] = r;
                count += old.n_atoms(o);
            }
        }
        room += count;
        room_labels += count * (node_ptr[r + 1] - node_ptr[r]);
        most = std::max(most, count);
    }
    auto atom_ptr = Owned<i64>::zeros(n_regions + 1), label_ptr = Owned<i64>::zeros(n_regions + 1);
    Owned<i32> label(room_labels);
    auto alpha = Owned<double>::zeros(room);
    auto age = Owned<i64>::zeros(room);
    std::vector<u64> marks(most);
    std::vector<i64> parts(n_old), at(n_old);
    std::vector<double> level(n_old);
    std::fill(seen.begin(), seen.end(), -1);
    i64 atoms = 0, used = 0;
    for (i64 r = 0; r < n_regions; r++) {
        const i64 first = node_ptr[r], size = node_ptr[r + 1] - first;
        i64 n_parts = 0, n_atoms = 0;
        for (i64 i = first; i < first + size; i++) {
            const i64 o = old.region[node[i]];
            if (o >= 0 && seen[o] != r) {
                seen[o] = r;
                parts[n_parts++] = o;
                at[o] = next_atom(old, old.atom_ptr[o] - 1, o);
                level[o] = old.alpha[at[o]];
            }
        }
        i32 *const own = label.data + used; // the labellings of this region
        double start = 0.0;
        for (;;) {
            double stop = INF;
            bool last = true;
            for (i64 i = 0; i < n_parts; i++) {
                const i64 o = parts[i];
                if (next_atom(old, at[o], o) >= 0) {
                    stop = std::min(stop, level[o]);
                    last = false;
                }
            }
            if (last) stop = 1.0;
            for (i64 i = 0; i < size; i++) {
                const i64 v = node[first + i], o = old.region[v];
                own[n_atoms * size + i] = o < 0 ? base[v] : old.label[old.label_ptr[o] + (at[o] - old.atom_ptr[o]) * old.n_nodes(o) + old.place[v]];
            }
            if (stop > start) {
                const i64 known = same(own, n_atoms, size, marks);
                if (known >= 0) {
                    alpha[atoms + known] += stop - start;
                } else {
                    alpha[atoms + n_atoms] = stop - start;
                    n_atoms += 1;
                }
                start = stop;
            }
            if (last) break;
            for (i64 i = 0; i < n_parts; i++) {
                const i64 o = parts[i], following = next_atom(old, at[o], o);
                if (level[o] <= stop && following >= 0) {
                    at[o] = following;
                    level[o] += old.alpha[following];
                }
            }
        }
        for (i64 q = 0; q < n_parts; q++) {
            const i64 o = parts[q];
            for (i64 a = old.atom_ptr[o]; a < old.atom_ptr[o + 1]; a++) {
                if (old.alpha[a] > 0 || old.age[a] >= memory) continue;
                const i64 row = old.label_ptr[o] + (a - old.atom_ptr[o]) * old.n_nodes(o);
                for (i64 i = 0; i < size; i++) {
                    const i64 v = node[first + i];
                    own[n_atoms * size + i] = old.region[v] == o ? old.label[row + old.place[v]] : own[i];
                }
                if (same(own, n_atoms, size, marks) < 0) {
                    alpha[atoms + n_atoms] = 0.0;
                    age[atoms + n_atoms] = old.age[a] + 1;
                    n_atoms += 1;
                }
            }
        }
        for (i64 i = 0; i < size; i++) own[n_atoms * size + i] = labels[node[first + i]];
        if (same(own, n_atoms, size, marks) < 0) {
            alpha[atoms + n_atoms] = 0.0;
            age[atoms + n_atoms] = 0;
            n_atoms += 1;
        }
        double total = 0.0;
        for (i64 a = 0; a < n_atoms; a++) total += alpha[atoms + a];
        for (i64 a = 0; a < n_atoms; a++) alpha[atoms + a] /= total;
        atoms += n_atoms;
        used += n_atoms * size;
        atom_ptr[r + 1] = atoms;
        label_ptr[r + 1] = used;
    }
    return {std::move(base),     std::move(made.region), std::move(made.place), std::move(made.ptr), std::move(made.node),
            std::move(atom_ptr), std::move(label_ptr),   front(label, used),    front(alpha, atoms), front(age, atoms)};
}

// Marginals of the nodes of regions, a row a node as in `regions.node`, and of edges inside one region.
static void marginals(const Regions &regions, Array<double, 2> node, Array<const i32, 2> edges, Array<double, 3> edge) {
    for (i64 r = 0; r < regions.size(); r++) {
        const i64 size = regions.n_nodes(r), first = regions.node_ptr[r], count = regions.n_atoms(r);
        for (i64 a = 0; a < count; a++) {
            const double weight = regions.alpha[regions.atom_ptr[r] + a];
            const i32 *own = regions.label.data + regions.label_ptr[r] + a * size;
            for (i64 i = 0; i < size; i++) node(first + i, own[i]) += weight;
        }
    }
    for (i64 e = 0; e < edges.size(); e++) {
        const i64 u = edges(e, 0), v = edges(e, 1), r = regions.region[u];
        const i64 size = regions.n_nodes(r), count = regions.n_atoms(r);
        const i64 place_u = regions.place[u], place_v = regions.place[v];
        for (i64 a = 0; a < count; a++) {
            const i32 *own = regions.label.data + regions.label_ptr[r] + a * size;
            edge(e, own[place_u], own[place_v]) += regions.alpha[regions.atom_ptr[r] + a];
        }
    }
}

void bind_regions(nb::module_ &m) {
    bind_record<Regions>(m);
    def(m, "extend", extend, "design"_a, "old"_a, "labels"_a, "memory"_a, "Regions with a new labelling of all nodes; the fields of `Regions`.");
    def(m, "marginals", marginals, "regions"_a, "node"_a, "edges"_a, "edge"_a,
        "Marginals of the nodes of regions, a row a node as in ``regions.node``, and of edges inside one region.");
}

} // namespace maxsum
