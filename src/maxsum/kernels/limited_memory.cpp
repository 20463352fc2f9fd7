// Long vectors of limited-memory quasi-Newton methods, in blocks that stay in the cache, and the small program over their tangents.
#include "simplex.hpp"
#include "vectors.hpp"

namespace maxsum {

constexpr i64 BLOCK = 2048; // numbers of each vector at a time: 16 kB, so that a block of some vectors stays in the nearest cache

// out[i, j] = <rows[first[i]], rows[second[j]]> in one pass over all of them.
static void products(Array<const double, 2> rows, Array<const i64> first, Array<const i64> second, Array<double, 2> out) {
    const i64 n = rows.shape[1];
    out.fill(0.0);
    for (i64 start = 0; start < n; start += BLOCK) {
        const i64 size = std::min(n - start, BLOCK);
        for (i64 i = 0; i < first.size(); i++) {
            const double *row = rows.data + first[i] * n + start;
            for (i64 j = 0; j < second.size(); j++) out(i, j) += inner(row, rows.data + second[j] * n + start, size);
        }
    }
}

// out = sum_i shares[i] * rows[which[i]] in one pass.
static void combination(Array<const double, 2> rows, Array<const i64> which, Array<const double> shares, Array<double> out) {
    const i64 n = rows.shape[1];
    for (i64 start = 0; start < n; start += BLOCK) {
        const i64 size = std::min(n - start, BLOCK);
        double *__restrict sum = out.data + start;
        std::fill_n(sum, size, 0.0);
        for (i64 i = 0; i < which.size(); i++) {
            const double share = shares[i], *row = rows.data + which[i] * n + start;
            if (share == 0.0) continue;
            for (i64 k = 0; k < size; k++) sum[k] += share * row[k];
        }
    }
}

// Maximise <a, alpha> - alpha' Q alpha / 2 over shares >= 0 with sum 1, in place, by pairwise steps, until no step can gain more than about `enough`.
static void best_shares(Array<const double> offsets, Array<const double, 2> square, Array<double> alpha, double enough, i64 n_steps) {
    const i64 n = offsets.size();
    std::vector<double> slope(n), change(n);
    for (i64 t = 0; t < n; t++) {
        double value = offsets[t];
        for (i64 s = 0; s < n; s++) value -= square(t, s) * alpha[s];
        slope[t] = value;
    }
    pairwise_steps(square.data, n, 1.0, slope.data(), alpha.data, n, change.data(), n_steps, enough, 0.0);
}

void bind_limited_memory(nb::module_ &m) {
    def(m, "products", products, "rows"_a, "first"_a, "second"_a, "out"_a,
        "``out[i, j] = <rows[first[i]], rows[second[j]]>`` in one pass over all of them.");
    def(m, "combination", combination, "rows"_a, "which"_a, "shares"_a, "out"_a, "``out = sum_i shares[i] * rows[which[i]]`` in one pass.");
    def(m, "best_shares", best_shares, "offsets"_a, "square"_a, "alpha"_a, "enough"_a, "n_steps"_a,
        "Maximise <a, alpha> - alpha' Q alpha / 2 over shares >= 0 with sum 1, in place, by pairwise steps.");
}

} // namespace maxsum
