// A random induced subgraph of small width, and the best labelling of it while all other nodes keep theirs.
//
// Nodes are decided one after another, next to those that are in. A node that comes in joins the components of its neighbours: their tables, each
// over the members that still have an undecided neighbour (the front), are added to its own scores, and members leave the front by a maximum as soon
// as the last neighbour is decided. A node that would make a table too large stays out. So what is in has a tree decomposition with bags of at most
// so many cells, found on the way, and the labels come back from the maxima in reverse.
#pragma once

#include "local_search.hpp"
#include "poll.hpp"

namespace maxsum {

class Subgraph {
    enum Fate : u8 { OPEN, INSIDE, OUTSIDE };

    // The tables of one connected part: over the labels of its front, the last node of it fastest.
    struct Part {
        std::vector<i32> front;
        i64 cells = 1;
        std::vector<double> table;
    };
    // A node came in (and joined these parts), or left the front of a part.
    struct Step {
        i32 node;
        i32 part;
        i64 first; // joined parts, or the rest of the front, from here in `lists`
        i64 count;
        i64 argument; // where its best labels begin in `best`; -1 for a node that came in
    };

    const Net net;
    i64 most_cells;
    std::vector<u8> fate;
    std::vector<i32> left, closing, part_of; // left: open neighbours
    std::vector<i32> place, stamp;           // place in its bucket, -1: in none; when it was found
    std::vector<std::vector<i32>> buckets;   // open neighbours, by how many of the front they would close
    i32 n_found = 0;
    std::vector<i32> members, lists;
    std::vector<Part> parts;
    std::vector<Step> steps;
    std::vector<std::uint16_t> best;
    std::vector<double> theta, memory;
    std::vector<i32> chosen; // label of each member
    std::vector<i64> row;    // of each member in theta
    std::vector<double> terms;

    i32 other(i64 i) const { return net.edges(net.adj_edge[i], 1 - net.adj_side[i]); }

    void unlist(i32 v) {
        if (place[v] < 0) return;
        std::vector<i32> &own = buckets[closing[v]];
        place[own.back()] = place[v];
        own[place[v]] = own.back();
        own.pop_back();
        place[v] = -1;
    }
    void enlist(i32 v) {
        if (closing[v] >= i64(buckets.size())) buckets.resize(std::size_t(closing[v]) + 1);
        place[v] = i32(buckets[closing[v]].size());
        buckets[closing[v]].push_back(v);
    }
    // An open neighbour that closes most, of these the one that was found last: what grows so is long and winding, and few nodes stay out.
    i32 pick() const {
        for (i64 b = i64(buckets.size()) - 1; b >= 0; b--) {
            if (buckets[b].empty()) continue;
            i32 top = buckets[b][0];
            for (i32 v : buckets[b]) top = stamp[v] > stamp[top] ? v : top;
            return top;
        }
        return -1;
    }

    void leave(i32 u) {
        Part &own = parts[part_of[u]];
        own.front.erase(std::find(own.front.begin(), own.front.end(), u));
        own.cells /= net.n_states[u];
        steps.push_back({u, part_of[u], i64(lists.size()), i64(own.front.size()), 0});
        lists.insert(lists.end(), own.front.begin(), own.front.end());
    }

    // Tell the neighbours of v that it is decided; members of fronts whose last open neighbour it was leave.
    void settle(i32 v) {
        for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
            const i32 u = other(i);
            left[u]--;
            if (fate[u] != INSIDE) continue;
            if (left[u] == 0) leave(u);
            if (left[u] == 1) close_next(u);
        }
    }
    // The last open neighbour of u will let it leave.
    void close_next(i32 u) {
        for (i64 j = net.ptr[u]; j < net.ptr[u + 1]; j++) {
            const i32 w = other(j);
            if (fate[w] != OPEN) continue;
            unlist(w);
            closing[w]++;
            enlist(w);
        }
    }

    bool is_clear_of_cliques(i32 v) const {
        for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
            const i64 c = net.member_clique[net.member[i]];
            for (i64 m = net.clique_ptr[c]; m < net.clique_ptr[c + 1]; m++) {
                if (fate[net.clique_nodes[m]] == INSIDE) return false;
            }
        }
        return true;
    }

    // Decide v: in, if the table that it makes is not too large.
    void decide(i32 v) {
        unlist(v);
        i64 cells = net.n_states[v];
        std::vector<i32> joined;
        bool fits = cells > 1 && is_clear_of_cliques(v);
        for (i64 i = net.ptr[v]; fits && i < net.ptr[v + 1]; i++) {
            const i32 u = other(i);
            if (fate[u] != INSIDE || std::find(joined.begin(), joined.end(), part_of[u]) != joined.end()) continue;
            joined.push_back(part_of[u]);
            cells *= parts[part_of[u]].cells;
            fits = cells <= most_cells;
        }
        // what stays in the front leaves room for one more node, or this was a last one
        fits = fits && (cells * net.n_states[v] <= most_cells || closing[v] > 0);
        if (!fits) {
            fate[v] = OUTSIDE;
            settle(v);
            return;
        }
        fate[v] = INSIDE;
        members.push_back(v);
        const i32 own = i32(parts.size());
        parts.emplace_back();
        Part &part = parts.back();
        part.cells = cells;
        part.front.push_back(v);
        for (i32 p : joined) {
            for (i32 u : parts[p].front) part_of[u] = own, part.front.push_back(u);
        }
        part_of[v] = own;
        steps.push_back({v, own, i64(lists.size()), i64(joined.size()), -1});
        lists.insert(lists.end(), joined.begin(), joined.end());
        for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
            const i32 u = other(i);
            if (fate[u] == OPEN && place[u] < 0) enlist(u), stamp[u] = n_found++;
        }
        made += double(cells);
        settle(v);
        if (left[v] == 0) leave(v);
        if (left[v] == 1) close_next(v);
    }

    double between(i64 e, i64 first, i64 second) const { return net.edge_weight[e] * net.tables(net.edge_table[e], first, second); }

    // Scores of the labels of v, with the terms that join it to nodes which keep their labels.
    void own_scores(i32 v, Array<i32> labels, double temperature, const double *gumbel, u64 &number) {
        const i64 n = net.n_states[v];
        row[v] = i64(theta.size());
        theta.resize(theta.size() + std::size_t(n));
        double *own = theta.data() + row[v];
        for (i64 k = 0; k < n; k++) own[k] = net.unary(v, k);
        if (temperature > 0.0) noise(n, temperature, gumbel, number, own);
        for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
            const i64 e = net.adj_edge[i], y = labels[other(i)];
            if (fate[other(i)] == INSIDE) continue;
            if (net.adj_side[i] == 0) {
                for (i64 k = 0; k < n; k++) own[k] += between(e, k, y);
            } else {
                for (i64 k = 0; k < n; k++) own[k] += between(e, y, k);
            }
        }
        for (i64 i = net.member_ptr[v]; i < net.member_ptr[v + 1]; i++) {
            const i64 c = net.member_clique[net.member[i]];
            const i64 common = common_label(net, c, v, labels);
            for (i64 k = 0; k < n; k++) {
                if (common == ANY || common == k) own[k] += net.clique_weights(c, k);
            }
        }
    }

    // The table of the part that a node makes of those that it joins: sums of theirs, its own scores, and the edges to their fronts.
    void enter(const Step &step) {
        const i64 n = net.n_states[step.node];
        Part &part = parts[step.part];
        part.front.assign(1, step.node);
        memory.assign(1, 0.0);
        std::vector<double> &table = part.table;
        for (i64 j = step.first; j < step.first + step.count; j++) {
            Part &joined = parts[lists[j]];
            part.front.insert(part.front.end(), joined.front.begin(), joined.front.end());
            if (memory.size() == 1 && memory[0] == 0.0) {
                memory.swap(joined.table);
                continue;
            }
            table.resize(memory.size() * joined.table.size());
            double *out = table.data();
            for (double a : memory) {
                for (double b : joined.table) *out++ = a + b;
            }
            memory.swap(table);
        }
        const i64 rest = i64(memory.size());
        table.resize(std::size_t(n * rest));
        for (i64 k = 0; k < n; k++) {
            const double own = theta[row[step.node] + k];
            double *__restrict out = table.data() + k * rest;
            const double *__restrict base = memory.data();
            for (i64 a = 0; a < rest; a++) out[a] = base[a] + own;
        }
        for (i64 i = net.ptr[step.node]; i < net.ptr[step.node + 1]; i++) {
            const i32 u = other(i);
            if (fate[u] != INSIDE) continue;
            i64 inner = 1, p = i64(part.front.size()) - 1;
            for (; p > 0 && part.front[p] != u; p--) inner *= net.n_states[part.front[p]];
            if (p > 0) add_edge(u, i, n, rest, inner, table.data());
        }
    }
    void add_edge(i32 u, i64 i, i64 n, i64 rest, i64 inner, double *table) {
        const i64 e = net.adj_edge[i], m = net.n_states[u], outer = rest / (m * inner);
        const bool first = net.adj_side[i] == 0;
        terms.resize(std::size_t(m));
        for (i64 k = 0; k < n; k++) {
            for (i64 j = 0; j < m; j++) terms[j] = first ? between(e, k, j) : between(e, j, k);
            double *__restrict out = table + k * rest;
            const double *__restrict term = terms.data();
            if (inner == 1 && m == 2) {
                const double a = term[0], b = term[1];
                for (i64 o = 0; o < outer; o++) out[2 * o] += a, out[2 * o + 1] += b;
                continue;
            }
            for (i64 o = 0; o < outer; o++) {
                for (i64 j = 0; j < m; j++, out += inner) {
                    const double own = term[j];
                    for (i64 a = 0; a < inner; a++) out[a] += own;
                }
            }
        }
    }

    // A node leaves the front of its part, by the maximum over its labels; returns the value of a part that is left without a front.
    double step_out(Step &step) {
        Part &part = parts[step.part];
        const i64 m = net.n_states[step.node];
        i64 inner = 1;
        for (i64 p = i64(part.front.size()) - 1; part.front[p] != step.node; p--) inner *= net.n_states[part.front[p]];
        part.front.erase(std::find(part.front.begin(), part.front.end(), step.node));
        const i64 outer = i64(part.table.size()) / (m * inner);
        step.argument = i64(best.size());
        best.resize(best.size() + std::size_t(outer * inner), 0);
        memory.resize(std::size_t(outer * inner));
        std::uint16_t *__restrict label = best.data() + step.argument;
        double *__restrict out = memory.data();
        const double *__restrict in = part.table.data();
        for (i64 o = 0; o < outer; o++, label += inner, out += inner, in += m * inner) {
            for (i64 a = 0; a < inner; a++) out[a] = in[a];
            for (i64 j = 1; j < m; j++) {
                const double *__restrict value = in + j * inner;
                for (i64 a = 0; a < inner; a++) {
                    label[a] = value[a] > out[a] ? std::uint16_t(j) : label[a];
                    out[a] = value[a] > out[a] ? value[a] : out[a];
                }
            }
        }
        part.table.swap(memory);
        return step.count ? 0.0 : part.table[0];
    }

  public:
    double made = 0.0; // cells of all tables of this move

    Subgraph(const Net &net, i64 most_cells)
        : net(net), most_cells(most_cells), fate(net.n_states.size(), OPEN), left(net.n_states.size(), -1), closing(net.n_states.size(), 0),
          part_of(net.n_states.size(), -1), place(net.n_states.size(), -1), stamp(net.n_states.size(), 0) {
        for (i64 v = 0; v < i64(left.size()); v++) left[v] = i32(net.ptr[v + 1] - net.ptr[v]);
    }

    const std::vector<i32> &inside() const { return members; }

    // Choose a subgraph to which, when it ends, no node could be added in this order.
    void grow(u64 &number) {
        const i64 n = net.n_states.size();
        i64 root = below(n, number);
        for (i64 seen = 0; seen < n; seen++, root = root + 1 == n ? 0 : root + 1) {
            for (i32 v = fate[root] == OPEN ? i32(root) : pick(); v >= 0; v = pick()) decide(v);
        }
        for (i64 p = 0; p < i64(parts.size()); p++) {
            while (!parts[p].front.empty() && part_of[parts[p].front.back()] == p) leave(parts[p].front.back());
        }
    }

    // Give it its best labelling, its own scores being perturbed by noise; returns how much better that is than what it had, noise included.
    double solve(Array<i32> labels, double temperature, const double *gumbel, u64 &number, Poll &poll) {
        const i64 n_members = i64(members.size());
        chosen.resize(fate.size()), row.resize(fate.size());
        theta.clear(), best.clear();
        double before = 0.0;
        for (i32 v : members) own_scores(v, labels, temperature, gumbel, number);
        for (i32 v : members) {
            before += theta[row[v] + labels[v]];
            for (i64 i = net.ptr[v]; i < net.ptr[v + 1]; i++) {
                if (net.adj_side[i] == 0 && fate[other(i)] == INSIDE) before += between(net.adj_edge[i], labels[v], labels[other(i)]);
            }
        }
        double after = 0.0;
        for (Step &step : steps) {
            if (step.argument < 0) {
                enter(step);
            } else {
                after += step_out(step);
            }
            poll(u64(parts[step.part].table.size()));
        }
        for (i64 s = i64(steps.size()) - 1; s >= 0; s--) {
            const Step &step = steps[s];
            if (step.argument < 0) continue;
            i64 at = 0;
            for (i64 j = step.first; j < step.first + step.count; j++) at = at * net.n_states[lists[j]] + chosen[lists[j]];
            chosen[step.node] = best[step.argument + at];
        }
        if (temperature > 0.0 || after > before) {
            for (i64 j = 0; j < n_members; j++) labels[members[j]] = chosen[members[j]];
        }
        return after - before;
    }
};

} // namespace maxsum
