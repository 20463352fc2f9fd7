#include "vectors.hpp"

namespace maxsum {

static double bound_inner(Array<const double> x, Array<const double> y) { return inner(x.data, y.data, x.size()); }

// out = rows @ x.
static void times(Array<const double, 2> rows, Array<const double> x, Array<double> out) {
    const i64 n = rows.shape[1];
    for (i64 i = 0; i < rows.size(); i++) out[i] = inner(rows.data + i * n, x.data, n);
}

// out = shares @ rows.
static void combine(Array<const double, 2> rows, Array<const double> shares, Array<double> out) {
    const i64 n = out.size();
    double *__restrict sum = out.data;
    out.fill(0.0);
    for (i64 i = 0; i < rows.size(); i++) {
        const double share = shares[i], *row = rows.data + i * rows.shape[1];
        if (share == 0.0) continue;
        for (i64 j = 0; j < n; j++) sum[j] += share * row[j];
    }
}

void bind_vectors(nb::module_ &m) {
    def(m, "inner", bound_inner, "x"_a, "y"_a, "``<x, y>`` in four sums.");
    def(m, "times", times, "rows"_a, "x"_a, "out"_a, "``out = rows @ x``.");
    def(m, "combine", combine, "rows"_a, "shares"_a, "out"_a, "``out = shares @ rows``.");
}

} // namespace maxsum
