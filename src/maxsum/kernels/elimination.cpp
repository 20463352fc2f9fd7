// Elimination of nodes one by one: the largest sums of each bag, as a table over its separator, and the labels on the way back.
#include "bag.hpp"
#include "terms.hpp"

namespace maxsum {

// Which terms and which messages a bag holds: those whose first eliminated node is its own. Terms are numbered edges, cliques, factors.
static std::tuple<Owned<i64>, Owned<i64>, Owned<i64>, Owned<i64>> holdings(const TermArrays &given, const Separators &order) {
    const TermArrays terms = given;
    const i64 n = terms.n_states.size(), n_edges = terms.edges.size();
    const i64 n_cliques = terms.clique_ptr.size() - 1, n_factors = terms.factor_ptr.size() - 1, n_terms = n_edges + n_cliques + n_factors;
    std::vector<i32> rank(n);
    for (i64 i = 0; i < n; i++) rank[order.nodes[i]] = i32(i);
    auto first_of = [&](const i32 *nodes, i64 from, i64 to) {
        i64 first = n;
        for (i64 i = from; i < to; i++) first = std::min(first, i64(rank[nodes[i]]));
        return first;
    };
    std::vector<i64> at(n_terms), parent(n);
    auto term_ptr = Owned<i64>::zeros(n + 1), child_ptr = Owned<i64>::zeros(n + 1);
    for (i64 t = 0; t < n_terms; t++) {
        if (t < n_edges) {
            at[t] = first_of(terms.edges.data, 2 * t, 2 * t + 2);
        } else if (t < n_edges + n_cliques) {
            at[t] = first_of(terms.clique_nodes.data, terms.clique_ptr[t - n_edges], terms.clique_ptr[t - n_edges + 1]);
        } else {
            const i64 f = t - n_edges - n_cliques;
            at[t] = first_of(terms.factor_nodes.data, terms.factor_ptr[f], terms.factor_ptr[f + 1]);
        }
        term_ptr[at[t] + 1]++;
    }
    for (i64 i = 0; i < n; i++) {
        parent[i] = first_of(order.members.data, order.ptr[i], order.ptr[i + 1]);
        if (parent[i] < n) child_ptr[parent[i] + 1]++;
    }
    for (i64 i = 0; i < n; i++) {
        term_ptr[i + 1] += term_ptr[i];
        child_ptr[i + 1] += child_ptr[i];
    }
    Owned<i64> term(n_terms), child(child_ptr[n]);
    std::vector<i64> place(term_ptr.begin(), term_ptr.end() - 1), room(child_ptr.begin(), child_ptr.end() - 1);
    for (i64 t = 0; t < n_terms; t++) term[place[at[t]]++] = t;
    for (i64 i = 0; i < n; i++) {
        if (parent[i] < n) child[room[parent[i]]++] = i;
    }
    return {std::move(term_ptr), std::move(term), std::move(child_ptr), std::move(child)};
}

// Fills a bag with what it holds.
class Packer {
    const TermArrays terms;
    const Separators order;
    const Array<const i64> term_ptr, term, child_ptr, child;
    const double *messages;
    std::vector<i32> place; // axis of a node of the bag

    void add(Bag &bag, Strided values, const i32 *nodes, i64 count) const {
        Operand &own = bag.add(values);
        i64 step = 1;
        for (i64 i = count - 1; i >= 0; i--) {
            const i64 axis = place[nodes[i]];
            bag.along(own, axis, step);
            step *= bag.size[axis];
        }
    }

    void add_edge(Bag &bag, i64 e) const {
        Operand &own = bag.add({terms.tables[terms.edge_table[e]].data, terms.edge_centre[e], terms.edge_weight[e]});
        bag.along(own, place[terms.edges(e, 0)], terms.unary.shape[1]);
        bag.along(own, place[terms.edges(e, 1)], 1);
    }

    void add_clique(Bag &bag, i64 c) const {
        u64 axes = 0;
        for (i64 i = terms.clique_ptr[c]; i < terms.clique_ptr[c + 1]; i++) axes |= u64(1) << place[terms.clique_nodes[i]];
        bag.add_reward(terms.clique_weights[c].data, axes);
    }

  public:
    Packer(const TermArrays &terms, const Separators &order, Array<const i64> term_ptr, Array<const i64> term, Array<const i64> child_ptr,
           Array<const i64> child, const double *messages)
        : terms(terms), order(order), term_ptr(term_ptr), term(term), child_ptr(child_ptr), child(child), messages(messages),
          place(std::size_t(terms.n_states.size()), -1) {}

    void pack(Bag &bag, i64 i) {
        const i32 v = order.nodes[i];
        bag.clear();
        place[v] = 0;
        bag.add_axis(terms.n_states[v]);
        for (i64 j = order.ptr[i]; j < order.ptr[i + 1]; j++) {
            const i32 w = order.members[j];
            place[w] = i32(bag.width);
            bag.add_axis(terms.n_states[w]);
        }
        add(bag, {terms.unary[v].data, terms.unary_top[v]}, &v, 1);
        const i64 n_edges = terms.edges.size(), n_cliques = terms.clique_ptr.size() - 1;
        for (i64 j = term_ptr[i]; j < term_ptr[i + 1]; j++) {
            const i64 t = term[j], f = t - n_edges - n_cliques;
            if (t < n_edges) {
                add_edge(bag, t);
            } else if (f < 0) {
                add_clique(bag, t - n_edges);
            } else {
                const i64 from = terms.factor_ptr[f];
                add(bag, {terms.bank.data + terms.factor_start[f], terms.factor_centre[f]}, terms.factor_nodes.data + from,
                    terms.factor_ptr[f + 1] - from);
            }
        }
        for (i64 j = child_ptr[i]; j < child_ptr[i + 1]; j++) {
            const i64 from = order.ptr[child[j]];
            add(bag, {messages + order.table_ptr[child[j]]}, order.members.data + from, order.ptr[child[j] + 1] - from);
        }
        bag.close();
    }
};

// Messages of the bags first .. last - 1, each with its maximum at 0. Returns the first bag in which nothing is possible, or -1.
static i64 eliminate(const TermArrays &terms, const Separators &order, Array<const i64> term_ptr, Array<const i64> term, Array<const i64> child_ptr,
                     Array<const i64> child, Array<double> messages, i64 first, i64 last) {
    Packer packer(terms, order, term_ptr, term, child_ptr, child, messages.data);
    Bag bag;
    Poll poll(1 << 16);
    for (i64 i = first; i < last; i++) {
        packer.pack(bag, i);
        const i64 cells = order.table_ptr[i + 1] - order.table_ptr[i];
        double *best = messages.data + order.table_ptr[i];
        bag.maximise(best, poll);
        const double top = largest(best, cells);
        if (top == -INF) return i;
        for (i64 j = 0; j < cells; j++) best[j] -= top;
        poll(u64(cells));
    }
    return -1;
}

// Labels of the nodes, from the last eliminated one to the first.
static void trace_back(const TermArrays &terms, const Separators &order, Array<const i64> term_ptr, Array<const i64> term, Array<const i64> child_ptr,
                       Array<const i64> child, Array<const double> messages, Array<i32> labels) {
    Packer packer(terms, order, term_ptr, term, child_ptr, child, messages.data);
    Bag bag;
    Poll poll;
    Steps label{};
    for (i64 i = order.nodes.size() - 1; i >= 0; i--) {
        packer.pack(bag, i);
        for (i64 axis = 1; axis < bag.width; axis++) label[axis] = labels[order.members[order.ptr[i] + axis - 1]];
        labels[order.nodes[i]] = i32(bag.choose(label));
        poll();
    }
}

void bind_elimination(nb::module_ &m) {
    bind_record<TermArrays>(m);
    bind_record<Separators>(m);
    def(m, "holdings", holdings, "terms"_a, "order"_a,
        "Which terms (edges, cliques, factors) and which messages each bag holds: ``(term_ptr, term, child_ptr, child)``.");
    def(m, "eliminate", eliminate, "terms"_a, "order"_a, "term_ptr"_a, "term"_a, "child_ptr"_a, "child"_a, "messages"_a, "first"_a, "last"_a,
        "Messages of the bags ``first .. last - 1``, each with its maximum at 0. Returns the first bag in which nothing is possible, or -1.");
    def(m, "trace_back", trace_back, "terms"_a, "order"_a, "term_ptr"_a, "term"_a, "child_ptr"_a, "child"_a, "messages"_a, "labels"_a,
        "Labels of the nodes, from the last eliminated one to the first.");
}

} // namespace maxsum
