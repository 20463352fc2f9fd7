// Cycles of edges as clusters: each takes part of the tables of its edges, and the best closed walk through what it holds bounds them together.
//
// A cycle visits the edges at places ptr[c] .. ptr[c + 1] - 1 in turn; the edge at place i goes from its end turned[i] to the other one. What a cycle
// holds of the edge at place i is held[i] (K, K), in the edge's own orientation, and the table of that edge in the net, tables[edge_table], is what
// it has left. With T_i = what the cycle holds, the best closed walk is the largest diagonal entry of the max-plus product T_1 T_2 ... T_n, and the
// max-marginal of one edge is its own table plus the product of the others: 3 (n - 2) products of K x K tables for all of them.
#include "lanes.hpp"
#include "net.hpp"
#include "poll.hpp"

#include <numeric>
#include <stdexcept>

namespace maxsum {

namespace {

struct Cycles {
    Array<const i64> ptr;
    Array<const i32> edge;
    Array<const i8> turned;
};

// out(a, c) = max_b left(a, b) + right(b, c); tables are K x K, K = `Fixed` where that is not 0.
template <int Fixed> void product(const double *left, const double *right, double *__restrict out, i64 n) {
    const i64 size = Fixed ? Fixed : n;
    for (i64 a = 0; a < size; a++) {
        double *__restrict row = out + a * size;
        const double *own = left + a * size;
        for (i64 c = 0; c < size; c++) row[c] = own[0] + right[c];
        for (i64 b = 1; b < size; b++) {
            const double x = own[b], *other = right + b * size;
            for (i64 c = 0; c < size; c++) {
                const double value = x + other[c];
                row[c] = row[c] < value ? value : row[c];
            }
        }
    }
}

// The tables of one cycle, along the way round, and products of them.
template <int Fixed> class Walk {
    const Net &net;
    const i64 size, square;
    std::vector<double> memory;
    double *table, *after, *before, *around, *best;

  public:
    Walk(const Net &net, i64 longest)
        : net(net), size(Fixed ? Fixed : net.unary.shape[1]), square(size * size), memory(std::size_t((2 * longest + 5) * square)),
          table(memory.data()), after(table + longest * square), before(after + (longest + 1) * square), around(before + 2 * square),
          best(around + square) {}

    // What the edge at a place has left with its messages, and what the cycle holds of it (nothing: null).
    void load(i64 at, i64 e, bool turned, const Array<const double, 3> &messages, const double *held) {
        const i64 u = net.edges(e, 0), v = net.edges(e, 1);
        const double weight = net.edge_weight[e], *own = net.tables[net.edge_table[e]].data;
        const double *first = messages[0][e].data, *second = messages[1][e].data, *unary = net.unary[u].data, *other = net.unary[v].data;
        double *__restrict to = table + at * square;
        for (i64 a = 0; a < size; a++) {
            for (i64 b = 0; b < size; b++) {
                double value = weight * own[a * size + b] + first[a] + second[b] + (held ? held[a * size + b] : 0.0);
                if (unary[a] == -INF || other[b] == -INF) value = -INF;
                to[turned ? b * size + a : a * size + b] = value;
            }
        }
    }
    void load_held(i64 at, i64 e, bool turned, const double *held) {
        const double *unary = net.unary[net.edges(e, 0)].data, *other = net.unary[net.edges(e, 1)].data;
        double *__restrict to = table + at * square;
        for (i64 a = 0; a < size; a++) {
            for (i64 b = 0; b < size; b++) {
                const double value = unary[a] == -INF || other[b] == -INF ? -INF : held[a * size + b];
                to[turned ? b * size + a : a * size + b] = value;
            }
        }
    }
    double top(i64 at) const {
        double best_pair = -INF;
        for (i64 i = at * square; i < (at + 1) * square; i++) best_pair = std::max(best_pair, table[i]);
        return best_pair;
    }

    // The best closed walk.
    double closed(i64 n) {
        double *one = before, *two = before + square;
        std::copy(table, table + square, one);
        for (i64 i = 1; i + 1 < n; i++) {
            product<Fixed>(one, table + i * square, two, size);
            std::swap(one, two);
        }
        double best_walk = -INF;
        const double *last = table + (n - 1) * square;
        for (i64 a = 0; a < size; a++) {
            for (i64 b = 0; b < size; b++) best_walk = std::max(best_walk, one[a * size + b] + last[b * size + a]);
        }
        return best_walk;
    }

    // Products of the tables from each place to the end, for `share`.
    void suffixes(i64 n) {
        std::copy(table + (n - 1) * square, table + n * square, after + (n - 1) * square);
        for (i64 i = n - 2; i > 0; i--) product<Fixed>(table + i * square, after + (i + 1) * square, after + i * square, size);
    }

    // The max-marginal of the edge at a place, times `share`, is taken from its table, and returned along the way round.
    const double *take(i64 at, i64 n, double share) {
        double *own = table + at * square;
        const double *rest = around; // rest(b, a): the best way from the end of the edge back to its beginning
        if (at == 0) {
            rest = after + square;
        } else if (at == n - 1) {
            rest = before;
        } else {
            product<Fixed>(after + (at + 1) * square, before, around, size);
        }
        for (i64 a = 0; a < size; a++) {
            for (i64 b = 0; b < size; b++) {
                const double left = own[a * size + b], marginal = left + rest[b * size + a];
                // a pair that no closed walk has stays as it is, with the edge: no message may be infinite
                best[a * size + b] = marginal > -INF ? share * marginal : left > -INF ? left : 0.0;
                own[a * size + b] = left > -INF ? left - best[a * size + b] : -INF;
            }
        }
        if (at + 1 < n) {
            if (at == 0) {
                std::copy(own, own + square, before);
            } else {
                product<Fixed>(before, own, before + square, size);
                std::copy(before + square, before + 2 * square, before);
            }
        }
        return best;
    }
    // What is left of the edge at a place, in the edge's own orientation.
    double left(i64 at, bool turned, i64 a, i64 b) const { return table[at * square + (turned ? b * size + a : a * size + b)]; }
    static double given(const double *best, bool turned, i64 a, i64 b, i64 size) { return best[turned ? b * size + a : a * size + b]; }
};

i64 longest_of(const Cycles &cycles) {
    i64 longest = 3;
    for (i64 c = 0; c + 1 < cycles.ptr.size(); c++) longest = std::max(longest, cycles.ptr[c + 1] - cycles.ptr[c]);
    return longest;
}

template <int Fixed> void gains(const Net &net, const Array<const double, 3> &messages, const Cycles &cycles, Array<double> out) {
    Walk<Fixed> walk(net, longest_of(cycles));
    Poll poll;
    for (i64 c = 0; c < out.size(); c++) {
        const i64 first = cycles.ptr[c], n = cycles.ptr[c + 1] - first;
        poll(u64(n));
        double apart = 0.0;
        for (i64 i = 0; i < n; i++) {
            walk.load(i, cycles.edge[first + i], cycles.turned[first + i], messages, nullptr);
            apart += walk.top(i);
        }
        out[c] = apart - walk.closed(n);
    }
}

template <int Fixed> double tops(const Net &net, const Cycles &cycles, const Array<const double, 3> &held) {
    Walk<Fixed> walk(net, longest_of(cycles));
    double total = 0.0;
    for (i64 c = 0; c + 1 < cycles.ptr.size(); c++) {
        const i64 first = cycles.ptr[c], n = cycles.ptr[c + 1] - first;
        for (i64 i = 0; i < n; i++) walk.load_held(i, cycles.edge[first + i], cycles.turned[first + i], held[first + i].data);
        total += walk.closed(n);
    }
    return total;
}

// One round: every cycle takes all that its edges have, and gives each of them its max-marginal, the first a share of 1 / n, the last the whole rest.
template <int Fixed>
void round(const Net &net, const Array<const double, 3> &messages, const Cycles &cycles, Array<double, 3> held, Array<double, 3> own,
           Array<const i32> place, bool forward) {
    Walk<Fixed> walk(net, longest_of(cycles));
    Poll poll;
    const i64 size = net.unary.shape[1], n_cycles = cycles.ptr.size() - 1;
    for (i64 step = 0; step < n_cycles; step++) {
        const i64 c = forward ? step : n_cycles - 1 - step, first = cycles.ptr[c], n = cycles.ptr[c + 1] - first;
        poll(u64(n));
        for (i64 i = 0; i < n; i++) {
            const i64 at = forward ? first + i : first + n - 1 - i;
            walk.load(i, cycles.edge[at], bool(cycles.turned[at]) != !forward, messages, held[at].data);
        }
        walk.suffixes(n);
        for (i64 i = 0; i < n; i++) {
            const i64 at = forward ? first + i : first + n - 1 - i, e = cycles.edge[at];
            const bool turned = bool(cycles.turned[at]) != !forward;
            const double *best = walk.take(i, n, 1.0 / double(n - i));
            const double *one = messages[0][e].data, *two = messages[1][e].data;
            double *__restrict mine = held[at].data, *__restrict table = own[place[e]].data;
            for (i64 a = 0; a < size; a++) {
                for (i64 b = 0; b < size; b++) {
                    if (!(table[a * size + b] > -INF)) continue;
                    const double now = walk.left(i, turned, a, b);
                    if (!(now > -INF)) continue;
                    const double before = table[a * size + b] + mine[a * size + b];
                    table[a * size + b] = Walk<Fixed>::given(best, turned, a, b, size) - one[a] - two[b];
                    mine[a * size + b] = before - table[a * size + b];
                }
            }
        }
    }
}

void check(const Net &net, const Cycles &cycles) {
    if (cycles.ptr.size() < 1 || cycles.edge.size() != cycles.turned.size() || cycles.ptr[cycles.ptr.size() - 1] > cycles.edge.size())
        throw std::invalid_argument("ptr, edge and turned do not describe cycles");
    for (i32 e : cycles.edge) {
        if (e < 0 || e >= net.edges.size()) throw std::invalid_argument("a cycle names an edge that does not exist");
    }
}

// Calls f with the number of labels as a constant where it is small.
template <class F> decltype(auto) by_size(i64 size, F &&f) {
    switch (size) {
    case 2:
        return f(std::integral_constant<int, 2>());
    case 3:
        return f(std::integral_constant<int, 3>());
    case 4:
        return f(std::integral_constant<int, 4>());
    case 5:
        return f(std::integral_constant<int, 5>());
    case 6:
        return f(std::integral_constant<int, 6>());
    case 8:
        return f(std::integral_constant<int, 8>());
    case 16:
        return f(std::integral_constant<int, 16>());
    default:
        return f(std::integral_constant<int, 0>());
    }
}

Owned<double> cycle_gains(const Net &net, Array<const double, 3> messages, Array<const i64> ptr, Array<const i32> edge, Array<const i8> turned) {
    const Cycles cycles{ptr, edge, turned};
    check(net, cycles);
    Owned<double> out(ptr.size() - 1);
    by_size(net.unary.shape[1], [&](auto fixed) { gains<decltype(fixed)::value>(net, messages, cycles, out); });
    return out;
}

double cycle_tops(const Net &net, Array<const i64> ptr, Array<const i32> edge, Array<const i8> turned, Array<const double, 3> held) {
    const Cycles cycles{ptr, edge, turned};
    check(net, cycles);
    return by_size(net.unary.shape[1], [&](auto fixed) { return tops<decltype(fixed)::value>(net, cycles, held); });
}

void cycle_round(const Net &net, Array<const double, 3> messages, Array<const i64> ptr, Array<const i32> edge, Array<const i8> turned,
                 Array<double, 3> held, Array<double, 3> own, Array<const i32> place, Flag forward) {
    const Cycles cycles{ptr, edge, turned};
    check(net, cycles);
    by_size(net.unary.shape[1], [&](auto fixed) { round<decltype(fixed)::value>(net, messages, cycles, held, own, place, forward); });
}

} // namespace

void bind_cycles(nb::module_ &m) {
    def(m, "gains", cycle_gains, "net"_a, "messages"_a, "ptr"_a, "edge"_a, "turned"_a,
        "By how much the bound falls if each of the cycles were a cluster by itself.");
    def(m, "tops", cycle_tops, "net"_a, "ptr"_a, "edge"_a, "turned"_a, "held"_a, "Sum of the best closed walks through what the cycles hold.");
    def(m, "round", cycle_round, "net"_a, "messages"_a, "ptr"_a, "edge"_a, "turned"_a, "held"_a, "own"_a, "place"_a, "forward"_a,
        "Every cycle in turn takes what its edges have and gives each its max-marginal. ``own`` are the tables ``place[e]`` of its edges.");
}

} // namespace maxsum
