// Energies and second moments of points in products of simplices, for learning quadratic forms.
#include "block_rows.hpp"

namespace maxsum {

// out[i] = <theta, mu> + <mu, Theta mu> / 2 of the parts first .. last - 1.
static void energies(const BlockRows &rows, Array<const double, 2> theta, Array<const double, 2> mu, Array<double, 2> work, Array<const i64> starts,
                     i64 first, i64 last, Array<double> out) {
    for (i64 i = first; i < last; i++) {
        const double square = std::get<0>(multiply(rows, mu, work, starts[i], starts[i + 1]));
        double linear = 0.0;
        for (i64 v = starts[i]; v < starts[i + 1]; v++) {
            const double *point = mu[v].data, *cost = theta[v].data;
            for (i64 k = 0, n = rows.n_states[v]; k < n; k++) {
                if (point[k] != 0.0) linear += cost[k] * point[k];
            }
        }
        out[i] = linear + 0.5 * square;
    }
}

// out[p] += sum_e c_e f_ep z_e z'_e' / 2 over the edges first .. last - 1.
//
// z_e = (x_u, x_v) and z'_e = (y_u, y_v) stack the rows of both ends, the second end from row K on; entries of zero cost nothing.
static void pair_moments(Array<const double, 2> x, Array<const double, 2> y, Array<const i32, 2> edges, Array<const i32> n_states,
                         Array<const i64> indptr, Array<const i64> indices, Array<const double> values, Array<const double> weight, i64 first,
                         i64 last, Array<double, 3> out) {
    const i64 n_labels = x.shape[1], width = out.shape[2], cells = out.shape[1] * width;
    std::vector<i64> places(4 * n_labels);
    std::vector<double> sizes(4 * n_labels);
    i64 *place = places.data(), *other = place + 2 * n_labels;
    double *size = sizes.data(), *amount = size + 2 * n_labels;
    for (i64 e = first; e < last; e++) {
        i64 count = 0, n_other = 0;
        for (i64 end = 0; end < 2; end++) {
            const i64 v = edges(e, end);
            const double *one = x[v].data, *two = y[v].data;
            for (i64 k = 0, n = n_states[v]; k < n; k++) {
                if (one[k] != 0.0) {
                    place[count] = end * n_labels + k;
                    size[count] = one[k];
                    count += 1;
                }
                if (two[k] != 0.0) {
                    other[n_other] = end * n_labels + k;
                    amount[n_other] = two[k];
                    n_other += 1;
                }
            }
        }
        const bool dense = n_other > 0 && other[n_other - 1] - other[0] == n_other - 1;
        for (i64 j = indptr[e]; j < indptr[e + 1]; j++) {
            const double factor = 0.5 * weight[e] * values[j];
            double *table = out.data + indices[j] * cells;
            for (i64 a = 0; a < count; a++) {
                const double share = factor * size[a];
                double *__restrict row = table + place[a] * width;
                if (dense) {
                    row += other[0];
                    for (i64 b = 0; b < n_other; b++) row[b] += share * amount[b];
                } else {
                    for (i64 b = 0; b < n_other; b++) row[other[b]] += share * amount[b];
                }
            }
        }
    }
}

void bind_moments(nb::module_ &m) {
    def(m, "energies", energies, "rows"_a, "theta"_a, "mu"_a, "work"_a, "starts"_a, "first"_a, "last"_a, "out"_a,
        "``out[i]``: the energy of the parts ``first .. last - 1``.");
    def(m, "pair_moments", pair_moments, "x"_a, "y"_a, "edges"_a, "n_states"_a, "indptr"_a, "indices"_a, "values"_a, "weight"_a, "first"_a, "last"_a,
        "out"_a, "Add half the second moments of the edges ``first .. last - 1``, each times its weight and its features, to ``out``.");
}

} // namespace maxsum
