// The pass of `trws` for the usual case: all nodes have all labels, nothing is forbidden, there are no cliques.
//
// For a few numbers of labels they are a constant of the compiled code, so that its loops are unrolled and short rows live in registers. A constant
// plus a larger diagonal (Potts, associative) takes O(K) a message, tables of the distance of labels (`distance`) take O(K) as well, general ones
// O(K^2) over the contiguous label of the receiver.
//
// A row of K numbers is held in blocks of W lanes; the last block begins at K - W, so it may hold some numbers of the one before it again. Every
// operation is done to each number by itself, or is a maximum, so this changes no result.
#include "distance.hpp"
#include "lanes.hpp"
#include "poll.hpp"

namespace maxsum {

namespace {

constexpr i64 TURNED = 32;
constexpr i64 ALL = GENERAL | ASSOCIATIVE | BAND | LINEAR | QUADRATIC;

struct Grid {
    Array<const double> unary;
    Array<const i32> edges;
    Array<const i32> edge_table;
    Array<const double> edge_weight;
    Array<const double> bank;
    Array<const i8> kind;
    Array<const i64> width;
    Array<const double> slope;
    Array<const i64> ptr;
    Array<const i32> adj_edge;
    Array<const i8> adj_side;
};

struct Range {
    i64 first_row, last_row, first_column, last_column, n_columns;
};

// Numbers on the stack where there are so many as the code says, else on the heap.
template <class T, int N> struct Room {
    alignas(64) T data[N];
    explicit Room(i64) {}
};

template <class T> struct Room<T, 0> {
    static_assert(sizeof(T) % sizeof(double) == 0 && alignof(T) <= 64);
    Rows memory;
    T *data;
    explicit Room(i64 n) : memory(1, n * i64(sizeof(T) / sizeof(double))), data(reinterpret_cast<T *>(memory[0])) {}
};

// The largest number of rows of blocks of a general message that are worked on at a time: their maxima stay in registers.
constexpr int GROUP = 8;

// Some cells of a table times the weight of the edge; no product where that is 1.
template <bool UNIT, class L> inline L scaled(L weight, const double *at) {
    if constexpr (UNIT) {
        return L::load(at);
    } else {
        return weight * L::load(at);
    }
}

// Message through G blocks of the receiver's labels, which begin at place(0) ..: for each the maximum over the sender's labels k of
// own[k] + weight * table[k, label].
template <int G, bool UNIT, class L, class P> inline void group(const double *own, const double *table, P place, i64 n_labels, L weight, L *out) {
    L best[G];
    for (int i = 0; i < G; i++) best[i] = L::all(-INF);
    const double *row = table;
    i64 k = 0;
    for (; k + 2 <= n_labels; k += 2, row += 2 * n_labels) {
        const L a = L::all(own[k]), b = L::all(own[k + 1]);
        for (int i = 0; i < G; i++) {
            const double *at = row + place(i);
            best[i] = max(best[i], max(a + scaled<UNIT>(weight, at), b + scaled<UNIT>(weight, at + n_labels)));
        }
    }
    if (k < n_labels) {
        const L a = L::all(own[k]);
        for (int i = 0; i < G; i++) best[i] = max(best[i], a + scaled<UNIT>(weight, row + place(i)));
    }
    for (int i = 0; i < G; i++) out[i] = best[i];
}

// The same for all labels, in groups of blocks.
template <int BLOCKS, bool UNIT, class L, class P>
inline void general(const double *own, const double *table, P place, i64 n_labels, i64 n_blocks, L weight, L *out) {
    if constexpr (BLOCKS > 0 && BLOCKS <= GROUP) {
        group<BLOCKS, UNIT>(own, table, place, n_labels, weight, out);
    } else if constexpr (BLOCKS * sizeof(L) >= 512) { // the table fills the fastest memory: two rows at a time (their number is even)
        for (i64 i = 0; i < n_blocks; i++) out[i] = L::all(-INF);
        for (i64 k = 0; k < n_labels; k += 2) {
            const L a = L::all(own[k]), b = L::all(own[k + 1]);
            for (i64 i = 0; i < n_blocks; i++) {
                const double *at = table + k * n_labels + place(i);
                out[i] = max(out[i], max(a + scaled<UNIT>(weight, at), b + scaled<UNIT>(weight, at + n_labels)));
            }
        }
    } else {
        constexpr int G = BLOCKS > 0 && BLOCKS % 8 == 0 ? 8 : BLOCKS > 0 && BLOCKS % 6 == 0 ? 6 : 4;
        const auto some = [&]<int SIZE>(i64 from) {
            group<SIZE, UNIT>(own, table, [&](i64 i) { return place(from + i); }, n_labels, weight, out + from);
        };
        i64 from = 0;
        for (; from + G <= n_blocks; from += G) some.template operator()<G>(from);
        if constexpr (BLOCKS == 0 || BLOCKS % G != 0) { // then G is 4
            if (n_blocks - from == 3) some.template operator()<3>(from);
            if (n_blocks - from == 2) some.template operator()<2>(from);
            if (n_blocks - from == 1) some.template operator()<1>(from);
        }
    }
}

template <int K, i64 FORMS> double pass(const Grid &grid, i64 n_labels, double *__restrict messages, bool forward, bool turned, const Range &range) {
    constexpr int W = K == 1 ? 1 : K > 0 && K < 4 ? std::min(LANES, 2) : LANES;
    constexpr int BLOCKS = (K + W - 1) / W;
    using L = Lanes<W>;
    const i64 n = K > 0 ? K : n_labels, n_blocks = K > 0 ? BLOCKS : (n_labels + W - 1) / W, cells = n * n;
    const i64 n_edges = grid.edge_table.size(), n_tables = grid.kind.size();
    const double *__restrict unary = grid.unary.data, *__restrict edge_weight = grid.edge_weight.data, *__restrict bank = grid.bank.data;
    const i32 *__restrict edges = grid.edges.data, *__restrict edge_table = grid.edge_table.data, *__restrict adj_edge = grid.adj_edge.data;
    const i8 *__restrict adj_side = grid.adj_side.data, *__restrict kind = grid.kind.data;
    const i64 *__restrict ptr = grid.ptr.data;
    Room<L, BLOCKS> theta_room(n_blocks), own_room(n_blocks), out_room(n_blocks), diagonal_room(n_blocks);
    L *__restrict theta = theta_room.data, *__restrict own = own_room.data, *__restrict out = out_room.data,
                  *__restrict diagonal = diagonal_room.data;
    Room<double, K> flat_room(n), work_room(n), turn_room(n);
    double *__restrict flat = flat_room.data;
    Room<double, 3 * K> wide_room(3 * n);
    double *wide = wide_room.data;
    Room<i64, K> hull_room(n);
    for (i64 k = 0; k < 3 * n; k++) wide[k] = -INF;
    for (i64 i = 0; i < n_blocks; i++) diagonal[i] = L::all(0.0);
    i64 diagonal_of = -1;
    const auto place = [n](i64 i) { return K > 0 && K % W == 0 ? i * W : std::min(i * W, n - W); };
    const auto top_of = [n_blocks](const L *row) {
        L best = row[0];
        for (i64 i = 1; i < n_blocks; i++) best = max(best, row[i]);
        return best.largest();
    };

    double bound = 0.0;
    Poll poll;
    for (i64 r = 0; r < range.last_row - range.first_row; r++) {
        const i64 row = forward ? range.first_row + r : range.last_row - 1 - r;
        for (i64 c = 0; c < range.last_column - range.first_column; c++) {
            poll();
            const i64 v = row * range.n_columns + (forward ? range.first_column + c : range.last_column - 1 - c);
            const i64 first = ptr[v], last = ptr[v + 1];
            for (i64 i = 0; i < n_blocks; i++) theta[i] = L::load(unary + v * n + place(i));
            i64 n_later = 0;
            for (i64 j = first; j < last; j++) {
                const i64 e = adj_edge[j], side = adj_side[j];
                const double *mine = messages + (side * n_edges + e) * n;
                for (i64 i = 0; i < n_blocks; i++) theta[i] = theta[i] - L::load(mine + place(i));
                n_later += (edges[2 * e + 1 - side] > v) == forward;
            }
            const double top = top_of(theta);
            if (n_later == 0) {
                bound += top;
                continue;
            }
            const double share = 1.0 / double(std::max(n_later, last - first - n_later));
            bound += (1.0 - double(n_later) * share) * top;
            for (i64 j = first; j < last; j++) {
                const i64 e = adj_edge[j], side = adj_side[j];
                if ((edges[2 * e + 1 - side] > v) != forward) continue;
                const i64 t = edge_table[e];
                const double weight = edge_weight[e];
                double *mine = messages + (side * n_edges + e) * n, *theirs = messages + ((1 - side) * n_edges + e) * n;
                const double *table = bank + t * cells;
                const L part = L::all(share), times = L::all(weight);
                for (i64 i = 0; i < n_blocks; i++) own[i] = L::load(mine + place(i)) + part * theta[i];
                for (i64 i = 0; i < n_blocks; i++) own[i].store(mine + place(i));
                const i64 form = FORMS == GENERAL ? GENERAL : weight >= 0 ? kind[t] : GENERAL;
                if ((FORMS & GENERAL) && form == GENERAL) {
                    for (i64 i = 0; i < n_blocks; i++) own[i].store(flat + place(i));
                    if (side == 1 && !turned) {
                        double *back = turn_room.data;
                        for (i64 k = 0; k < n; k++) {
                            L best = own[0] + times * L::load(table + k * n);
                            for (i64 i = 1; i < n_blocks; i++) best = max(best, own[i] + times * L::load(table + k * n + place(i)));
                            back[k] = best.largest();
                        }
                        for (i64 i = 0; i < n_blocks; i++) out[i] = L::load(back + place(i));
                    } else {
                        table = bank + (side * n_tables + t) * cells;
                        if (weight == 1.0) {
                            general<BLOCKS, true>(flat, table, place, n, n_blocks, times, out);
                        } else {
                            general<BLOCKS, false>(flat, table, place, n, n_blocks, times, out);
                        }
                    }
                } else {
                    const double high = top_of(own);
                    if (FORMS == ASSOCIATIVE || form == ASSOCIATIVE) {
                        if (t != diagonal_of) {
                            for (i64 k = 0; k < n; k++) flat[k] = table[k * (n + 1)];
                            for (i64 i = 0; i < n_blocks; i++) diagonal[i] = L::load(flat + place(i));
                            diagonal_of = t;
                        }
                        const L apart = L::all(high + weight * table[1]);
                        for (i64 i = 0; i < n_blocks; i++) out[i] = max(apart, own[i] + times * diagonal[i]);
                    } else {
                        const double apart = high + weight * table[n - 1], same = weight * table[0];
                        if (form == BAND) {
                            const L floor = L::all(apart), here = L::all(same);
                            for (i64 i = 0; i < n_blocks; i++) own[i].store(wide + n + place(i));
                            for (i64 i = 0; i < n_blocks; i++) out[i] = max(floor, own[i] + here);
                            for (i64 d = 1; d < grid.width[t]; d++) {
                                const L gain = L::all(weight * table[d]);
                                for (i64 i = 0; i < n_blocks; i++) {
                                    const double *at = wide + n + place(i);
                                    out[i] = max(out[i], max(L::load(at + d), L::load(at - d)) + gain);
                                }
                            }
                        } else {
                            const double step = weight * grid.slope[t];
                            double *back = turn_room.data;
                            for (i64 i = 0; i < n_blocks; i++) own[i].store(flat + place(i));
                            if (form == LINEAR) {
                                linear(flat, n, step, same, apart, back, work_room.data);
                            } else {
                                quadratic(flat, n, step, same, apart, back, work_room.data, hull_room.data);
                            }
                            for (i64 i = 0; i < n_blocks; i++) out[i] = L::load(back + place(i));
                        }
                    }
                }
                const double peak = top_of(out);
                bound += peak;
                const L all = L::all(peak);
                for (i64 i = 0; i < n_blocks; i++) (all - out[i]).store(theirs + place(i));
            }
        }
    }
    return bound;
}

// The numbers of labels that are constants of the code.
constexpr int UNROLLED[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64};

template <int K> double pass_of(i64 forms, const Grid &grid, i64 n_labels, double *messages, bool forward, const Range &range) {
    const bool turned = (forms & TURNED) != 0;
    switch (forms & ~TURNED) {
    case GENERAL:
        return pass<K, GENERAL>(grid, n_labels, messages, forward, turned, range);
    case ASSOCIATIVE:
        return pass<K, ASSOCIATIVE>(grid, n_labels, messages, forward, turned, range);
    default:
        return pass<K, ALL>(grid, n_labels, messages, forward, turned, range);
    }
}

template <std::size_t... I>
double dispatch(std::index_sequence<I...>, i64 forms, const Grid &grid, i64 n_labels, double *messages, bool forward, const Range &range) {
    double bound = 0.0;
    const bool found = ((n_labels == UNROLLED[I] && (bound = pass_of<UNROLLED[I]>(forms, grid, n_labels, messages, forward, range), true)) || ...);
    if (found) return bound;
    return n_labels < LANES ? pass_of<1>(forms, grid, n_labels, messages, forward, range)
                            : pass_of<0>(forms, grid, n_labels, messages, forward, range);
}

// One pass over the nodes of the rows first_row .. last_row - 1 and columns first_column .. last_column - 1 of a grid; returns its part of the bound.
// `forms` is the sum of the kinds of the tables, and of TURNED where the bank holds them transposed as well.
double uniform_sweep(Array<const double> unary, Array<const i32> edges, Array<const i32> edge_table, Array<const double> edge_weight,
                     Array<const double> bank, Array<const i8> kind, Array<const i64> width, Array<const double> slope, Array<const i64> ptr,
                     Array<const i32> adj_edge, Array<const i8> adj_side, i64 n_labels, i64 forms, Array<double> messages, Flag forward,
                     i64 first_row, i64 last_row, i64 first_column, i64 last_column, i64 n_columns) {
    const Grid grid{unary, edges, edge_table, edge_weight, bank, kind, width, slope, ptr, adj_edge, adj_side};
    const Range range{first_row, last_row, first_column, last_column, n_columns};
    return dispatch(std::make_index_sequence<std::size(UNROLLED)>{}, forms, grid, n_labels, messages.data, forward, range);
}

} // namespace

void bind_trws_uniform(nb::module_ &m) {
    nb::list unrolled;
    for (int n : UNROLLED) unrolled.append(n);
    m.attr("UNROLLED") = nb::tuple(unrolled);
    m.attr("TURNED") = TURNED;
    def(m, "uniform_sweep", uniform_sweep, "unary"_a, "edges"_a, "edge_table"_a, "edge_weight"_a, "bank"_a, "kind"_a, "width"_a, "slope"_a, "ptr"_a,
        "adj_edge"_a, "adj_side"_a, "n_labels"_a, "forms"_a, "messages"_a, "forward"_a, "first_row"_a, "last_row"_a, "first_column"_a,
        "last_column"_a, "n_columns"_a,
        "One pass over the nodes of some rows and columns of a grid (all: one row of all nodes); returns its part of the bound.");
}

} // namespace maxsum
