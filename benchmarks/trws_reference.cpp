// One pass of TRW-S over a graph whose nodes all have K labels: the loop of kernels/trws_uniform.py, for the benchmark only.
// The number of labels is a constant of the compiled code, and the inner loop runs over the contiguous label of the receiver.

#include <algorithm>
#include <cstdint>
#include <limits>

namespace {

constexpr double LOWEST = -std::numeric_limits<double>::infinity();

template <int K>
double pass(int64_t n_nodes, int64_t n_edges, const double *__restrict unary, const int32_t *__restrict edges,
            const int32_t *__restrict edge_table, const double *__restrict edge_weight, const double *__restrict tables,
            const double *__restrict turned, const int64_t *__restrict ptr, const int32_t *__restrict adj_edge,
            const int8_t *__restrict adj_side, double *__restrict messages, int forward) {
    alignas(64) double theta[K], own[K], out[K];
    double bound = 0.0;
    for (int64_t step = 0; step < n_nodes; ++step) {
        const int64_t v = forward ? step : n_nodes - 1 - step;
        const int64_t first = ptr[v], last = ptr[v + 1];
        for (int k = 0; k < K; ++k) theta[k] = unary[v * K + k];
        int64_t n_later = 0;
        for (int64_t i = first; i < last; ++i) {
            const int64_t e = adj_edge[i], side = adj_side[i];
            const double *message = messages + (side * n_edges + e) * K;
            for (int k = 0; k < K; ++k) theta[k] -= message[k];
            n_later += (edges[2 * e + 1 - side] > v) == (forward != 0);
        }
        double top = LOWEST;
        for (int k = 0; k < K; ++k) top = std::max(top, theta[k]);
        if (n_later == 0) {
            bound += top;
            continue;
        }
        const double share = 1.0 / static_cast<double>(std::max(n_later, last - first - n_later));
        bound += (1.0 - static_cast<double>(n_later) * share) * top;
        for (int64_t i = first; i < last; ++i) {
            const int64_t e = adj_edge[i], side = adj_side[i];
            if ((edges[2 * e + 1 - side] > v) != (forward != 0)) continue;
            double *mine = messages + (side * n_edges + e) * K;
            double *theirs = messages + ((1 - side) * n_edges + e) * K;
            const double *table = (side == 0 ? tables : turned) + static_cast<int64_t>(edge_table[e]) * K * K;
            const double weight = edge_weight[e];
            for (int k = 0; k < K; ++k) mine[k] = own[k] = mine[k] + share * theta[k];
            for (int l = 0; l < K; ++l) out[l] = LOWEST;
            for (int k = 0; k < K; ++k) {
                const double a = own[k];
                for (int l = 0; l < K; ++l) out[l] = std::max(out[l], a + weight * table[k * K + l]);
            }
            double peak = LOWEST;
            for (int l = 0; l < K; ++l) peak = std::max(peak, out[l]);
            bound += peak;
            for (int l = 0; l < K; ++l) theirs[l] = peak - out[l];
        }
    }
    return bound;
}

}  // namespace

#define PASS(K)                                                                                                              \
    extern "C" double pass_##K(int64_t n_nodes, int64_t n_edges, const double *unary, const int32_t *edges,                  \
                               const int32_t *edge_table, const double *edge_weight, const double *tables,                   \
                               const double *turned, const int64_t *ptr, const int32_t *adj_edge, const int8_t *adj_side,    \
                               double *messages, int forward) {                                                              \
        return pass<K>(n_nodes, n_edges, unary, edges, edge_table, edge_weight, tables, turned, ptr, adj_edge, adj_side,     \
                       messages, forward);                                                                                   \
    }

PASS(3)
PASS(4)
PASS(16)
PASS(64)
