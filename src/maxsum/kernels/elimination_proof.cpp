// What separator tables prove about a labelling, with all that rounding could hide: the sum over bags of their maximum less their value at the
// labelling.
//
// It reads an order, separators and tables that may come from anywhere, and finds by itself what each bag holds. The formulas of the rounding are
// those of core/certificates/base.py, where numpy does the same.
#include "bag.hpp"
#include "lanes.hpp"
#include "terms.hpp"

namespace maxsum {

// Terms of a problem and separator tables, by the bag that holds them: lists that go on from `next`. Numbers are those of nodes, edges, cliques,
// factors, then tables.
class Inbox {
    std::vector<i64> head, next;

  public:
    Inbox(i64 n_bags, i64 n_items) : head(std::size_t(n_bags), -1), next(std::size_t(n_items), -1) {}
    void put(i64 bag, i64 item) {
        next[item] = head[bag];
        head[bag] = item;
    }
    i64 first(i64 bag) const { return head[bag]; }
    i64 after(i64 item) const { return next[item]; }
};

// Largest of best[j] - own[j] + share * |own[j]|, and of all |own[j]|, which is inf if a number is none; own[j] = -inf counts as 0, and as inf in the
// second where best[j] is possible.
static std::pair<double, double> excess(const double *best, const double *own, i64 n, double share) {
    using L = Lanes<LANES>;
    L top = L::all(-INF), high = L::all(-INF), low = L::all(-INF), none = L::all(0.0), odd = L::all(0.0);
    i64 j = 0;
    for (; j + LANES <= n; j += LANES) {
        const L m = L::load(own + j), size = max(m, none - m);
        top = max(top, L::load(best + j) - m + L::all(share) * size);
        high = max(high, m);
        low = max(low, none - m);
        odd = odd + (m - m); // 0 but for infinite numbers, and what is none
    }
    double all = top.largest(), most = std::max(high.largest(), low.largest());
    bool plain = odd.sum() == 0.0;
    for (; j < n; j++) {
        const double size = std::abs(own[j]), value = best[j] - own[j] + share * size;
        all = all < value ? value : all;
        most = most < size ? size : most;
        plain = plain && std::isfinite(own[j]);
    }
    if (plain) return {all, most};
    // again one by one, where something is infinite
    all = -INF, most = 0.0;
    for (j = 0; j < n; j++) {
        const bool gone = own[j] == -INF;
        const double m = gone ? 0.0 : own[j], value = best[j] - m + share * std::abs(m);
        if (!gone && !std::isfinite(own[j])) return {INF, INF};
        if (gone && best[j] > -INF) return {INF, INF};
        all = all < value ? value : all;
        most = most < std::abs(m) ? std::abs(m) : most;
    }
    return {all, most};
}

// (gap, rounding, value of the labelling, status): 0 if all is said; else numpy has to look, as a separator or table is no good (1), a bag lacks a
// node of its terms (2), or something is infinite (3).
static std::tuple<double, double, double, i64> evaluate(const TermArrays &given, const Separators &proof, Array<const double> tables,
                                                        Array<const i32> labels, double unit, double largest_number) {
    const TermArrays terms = given;
    const i64 n = terms.n_states.size(), n_edges = terms.edges.size(), n_cliques = terms.clique_ptr.size() - 1,
              n_factors = terms.factor_ptr.size() - 1;
    const i64 edge_0 = n, clique_0 = edge_0 + n_edges, factor_0 = clique_0 + n_cliques, table_0 = factor_0 + n_factors;
    const std::tuple<double, double, double, i64> bad{0.0, 0.0, 0.0, 1}, lacking{0.0, 0.0, 0.0, 2}, infinite{0.0, 0.0, 0.0, 3};

    // phase 1: the order lists every node once, separators come later, tables have their sizes
    std::vector<i64> rank(std::size_t(n), -1);
    if (proof.nodes.size() != n || proof.ptr.size() != n + 1 || proof.table_ptr.size() != n + 1 || proof.ptr[0] != 0 || proof.table_ptr[0] != 0)
        return bad;
    if (proof.ptr[n] != proof.members.size() || proof.table_ptr[n] != tables.size()) return bad;
    for (i64 i = 0; i < n; i++) {
        const i64 v = proof.nodes[i];
        if (v < 0 || v >= n || rank[v] >= 0) return bad;
        rank[v] = i;
    }
    for (i64 i = 0; i < n; i++) {
        if (proof.ptr[i + 1] < proof.ptr[i] || proof.ptr[i + 1] > proof.ptr[n] || proof.ptr[i + 1] - proof.ptr[i] >= MOST_AXES - 1) return bad;
        i64 cells = 1;
        for (i64 j = proof.ptr[i]; j < proof.ptr[i + 1]; j++) {
            const i64 w = proof.members[j];
            if (w < 0 || w >= n || rank[w] <= i || cells > tables.size()) return bad;
            cells *= terms.n_states[w];
        }
        if (proof.table_ptr[i + 1] - proof.table_ptr[i] != cells) return bad;
    }

    // phase 2: who holds what
    Inbox inbox(n, table_0 + n);
    auto send = [&](i64 item, const i32 *nodes, i64 count) {
        i64 first = n;
        for (i64 j = 0; j < count; j++) first = std::min(first, rank[nodes[j]]);
        if (first < n) inbox.put(first, item);
    };
    for (i64 i = 0; i < n; i++) send(table_0 + i, proof.members.data + proof.ptr[i], proof.ptr[i + 1] - proof.ptr[i]);
    for (i64 f = 0; f < n_factors; f++)
        send(factor_0 + f, terms.factor_nodes.data + terms.factor_ptr[f], terms.factor_ptr[f + 1] - terms.factor_ptr[f]);
    for (i64 c = 0; c < n_cliques; c++)
        send(clique_0 + c, terms.clique_nodes.data + terms.clique_ptr[c], terms.clique_ptr[c + 1] - terms.clique_ptr[c]);
    for (i64 e = 0; e < n_edges; e++) send(edge_0 + e, terms.edges.data + 2 * e, 2);
    for (i64 i = 0; i < n; i++) inbox.put(i, proof.nodes[i]);

    // phase 3: bag by bag
    std::vector<double> above(std::size_t(n), 0.0), best; // largest entry of each table above 0
    std::vector<i64> axis_of(std::size_t(n), -1);
    Steps label{};
    Bag bag;
    Poll poll(1 << 16);
    double gap = 0.0, error = 0.0, total = 0.0;
    for (i64 i = 0; i < n; i++) {
        bag.clear();
        bag.add_axis(terms.n_states[proof.nodes[i]]);
        for (i64 j = proof.ptr[i]; j < proof.ptr[i + 1]; j++) bag.add_axis(terms.n_states[proof.members[j]]);
        auto enter = [&](bool in) {
            axis_of[proof.nodes[i]] = in ? 0 : -1;
            for (i64 j = proof.ptr[i]; j < proof.ptr[i + 1]; j++) {
                const i64 w = proof.members[j];
                if (in && axis_of[w] >= 0) return false; // twice in one separator
                axis_of[w] = in ? 1 + j - proof.ptr[i] : -1;
            }
            return true;
        };
        if (!enter(true)) return bad;
        bool whole = true;
        auto add = [&](Strided values, const i32 *nodes, i64 count) {
            Operand &own = bag.add(values);
            for (i64 j = count - 1, step = 1; j >= 0; step *= terms.n_states[nodes[j--]]) {
                whole = whole && axis_of[nodes[j]] >= 0;
                if (whole) bag.along(own, axis_of[nodes[j]], step);
            }
        };
        double raised = 0.0;
        for (i64 item = inbox.first(i); item >= 0; item = inbox.after(item)) {
            if (item < edge_0) {
                const i32 v = i32(item);
                add({terms.unary[v].data, terms.unary_top[v]}, &v, 1);
            } else if (item < clique_0) {
                const i64 e = item - edge_0, first = axis_of[terms.edges(e, 0)], second = axis_of[terms.edges(e, 1)];
                whole = whole && first >= 0 && second >= 0;
                if (!whole) break;
                Operand &own = bag.add({terms.tables[terms.edge_table[e]].data, terms.edge_centre[e], terms.edge_weight[e]});
                bag.along(own, first, terms.tables.shape[2]);
                bag.along(own, second, 1);
            } else if (item < factor_0) {
                const i64 c = item - clique_0;
                u64 axes = 0;
                i64 least = terms.clique_weights.shape[1];
                for (i64 j = terms.clique_ptr[c]; j < terms.clique_ptr[c + 1]; j++) {
                    const i64 w = terms.clique_nodes[j];
                    whole = whole && axis_of[w] >= 0;
                    if (whole) axes |= u64(1) << axis_of[w];
                    least = std::min(least, i64(terms.n_states[w]));
                }
                bag.add_reward(terms.clique_weights[c].data, axes);
                raised += std::max(0.0, largest(terms.clique_weights[c].data, least));
            } else if (item < table_0) {
                const i64 f = item - factor_0, from = terms.factor_ptr[f];
                add({terms.bank.data + terms.factor_start[f], terms.factor_centre[f]}, terms.factor_nodes.data + from,
                    terms.factor_ptr[f + 1] - from);
            } else {
                const i64 sent = item - table_0, from = proof.ptr[sent];
                add({tables.data + proof.table_ptr[sent]}, proof.members.data + from, proof.ptr[sent + 1] - from);
                raised += above[sent];
            }
        }
        if (!whole) return lacking;
        bag.close();
        const double share = unit * double(bag.count() + 6);
        const i64 cells = proof.table_ptr[i + 1] - proof.table_ptr[i];
        if (i64(best.size()) < cells) best = std::vector<double>(std::size_t(cells));
        bag.maximise(best.data(), poll);

        // the own table is taken away, if it goes anywhere; it may be -inf only where its bag is
        const bool sends = proof.ptr[i + 1] > proof.ptr[i];
        const double *own = tables.data + proof.table_ptr[i];
        double top = -INF, most = 0.0;
        if (sends) {
            std::tie(top, most) = excess(best.data(), own, cells, share);
            if (!(most <= largest_number)) return infinite; // also where the table has what is no number, or -inf in the wrong place
            above[i] = std::max(0.0, largest(own, cells));
        } else {
            top = best[0];
        }
        if (!std::isfinite(top)) return infinite;
        top += share * (2.0 * std::abs(top) + 2.0 * raised);

        i64 at = 0;
        for (i64 axis = 0; axis < bag.width; axis++) {
            label[axis] = labels[axis == 0 ? proof.nodes[i] : proof.members[proof.ptr[i] + axis - 1]];
            if (axis) at = at * bag.size[axis] + label[axis];
        }
        const double message = sends ? own[at] : 0.0, value = bag.at(label) - message;
        const double off = share * (2.0 * std::abs(value) + std::abs(message) + 2.0 * raised);
        if (!std::isfinite(value)) return infinite;
        gap += top - (value - off);
        error += 2.0 * off;
        total += value;
        enter(false);
        poll(u64(cells));
    }
    return {gap, error, total, 0};
}

void bind_elimination_proof(nb::module_ &m) {
    def(m, "evaluate", evaluate, "terms"_a, "proof"_a, "tables"_a, "labels"_a, "unit"_a, "largest_number"_a,
        "What separator tables prove about a labelling: ``(gap, rounding, value, status)``, the gap with all that rounding could hide, the sum of "
        "the bags "
        "at the labelling, and 0 if that is all; otherwise numpy has to look.");
}

} // namespace maxsum
