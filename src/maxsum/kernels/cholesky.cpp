// Cholesky factors of dense matrices of a few hundred rows, on one thread: BLAS threads that wait for busy cores cost far more.
#include "arrays.hpp"

namespace maxsum {

constexpr i64 BLOCK = 32; // columns of a panel: 8 to 64 took the same time on 600 rows, 128 twice as long, as it leaves the cache

// Overwrite the lower triangle with L, L L' == matrix; False where the matrix is not positive definite.
static bool cholesky(Array<double, 2> matrix) {
    const i64 n = matrix.size();
    std::vector<double> memory(BLOCK * n);
    double *panel = memory.data();
    for (i64 start = 0; start < n; start += BLOCK) {
        const i64 stop = std::min(start + BLOCK, n), width = stop - start;
        for (i64 j = start; j < stop; j++) {
            const double *own = &matrix(j, 0);
            double pivot = own[j];
            for (i64 p = start; p < j; p++) pivot -= own[p] * own[p];
            if (!(pivot > 0.0)) return false;
            pivot = std::sqrt(pivot);
            matrix(j, j) = pivot;
            i64 i = j + 1;
            for (; i + 3 < n; i += 4) { // four rows at a time, which do not wait for each other
                double *a = matrix.data + i * n, *b = a + n, *c = b + n, *d = c + n;
                double to_a = a[j], to_b = b[j], to_c = c[j], to_d = d[j];
                for (i64 p = start; p < j; p++) {
                    to_a -= a[p] * own[p];
                    to_b -= b[p] * own[p];
                    to_c -= c[p] * own[p];
                    to_d -= d[p] * own[p];
                }
                a[j] = to_a / pivot, b[j] = to_b / pivot, c[j] = to_c / pivot, d[j] = to_d / pivot;
            }
            for (; i < n; i++) {
                double *row = matrix.data + i * n, value = row[j];
                for (i64 p = start; p < j; p++) value -= row[p] * own[p];
                row[j] = value / pivot;
            }
        }
        for (i64 p = 0; p < BLOCK; p++) {
            for (i64 i = stop; i < n; i++) panel[p * n + i] = p < width ? matrix.data[i * n + start + p] : 0.0;
        }
        for (i64 i = stop; i < n; i++) {
            double *__restrict row = matrix.data + i * n;
            for (i64 p = 0; p < width; p += 4) {
                const double *one = panel + p * n, *two = one + n, *three = two + n, *four = three + n;
                const double a = one[i], b = two[i], c = three[i], d = four[i];
                for (i64 k = stop; k <= i; k++) row[k] -= a * one[k] + b * two[k] + c * three[k] + d * four[k];
            }
        }
    }
    return true;
}

// Solve L L' x == right, with L in the lower triangle of `factor`.
static Owned<double> substitute(Array<const double, 2> factor, Array<const double> right) {
    const i64 n = right.size();
    Owned<double> made(n);
    made.copy_from(right);
    double *__restrict x = made.data;
    for (i64 i = 0; i < n; i++) {
        const double *row = &factor(i, 0);
        double value = x[i];
        for (i64 p = 0; p < i; p++) value -= row[p] * x[p];
        x[i] = value / row[i];
    }
    for (i64 i = n - 1; i >= 0; i--) {
        const double *row = &factor(i, 0), value = x[i] / row[i];
        x[i] = value;
        for (i64 p = 0; p < i; p++) x[p] -= row[p] * value;
    }
    return made;
}

void bind_cholesky(nb::module_ &m) {
    def(m, "cholesky", cholesky, "matrix"_a,
        "Overwrite the lower triangle with ``L``, ``L @ L.T == matrix``; False where the matrix is not positive definite.");
    def(m, "substitute", substitute, "factor"_a, "right"_a, "Solve ``L @ L.T @ x == right``, with ``L`` in the lower triangle of ``factor``.");
}

} // namespace maxsum
