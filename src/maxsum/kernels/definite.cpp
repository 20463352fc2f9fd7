// Projection of many small symmetric matrices onto those whose eigenvalues are at least a floor.
#include "eigen.hpp"

namespace maxsum {

// Whether matrix - floor, of n rows, has a Cholesky factor, which is left in the lower half of `work`.
static bool is_definite(const double *matrix, i64 n, double floor, double *work) {
    for (i64 j = 0; j < n; j++) {
        double *own = work + j * n;
        double pivot = matrix[j * n + j] - floor;
        for (i64 k = 0; k < j; k++) pivot -= own[k] * own[k];
        if (!(pivot > 0.0)) return false;
        const double root = std::sqrt(pivot);
        own[j] = root;
        i64 i = j + 1;
        for (; i + 3 < n; i += 4) { // four rows at a time, which do not wait for each other
            double *a = work + i * n, *b = a + n, *c = b + n, *d = c + n;
            const double *from = matrix + i * n + j;
            double to_a = from[0], to_b = from[n], to_c = from[2 * n], to_d = from[3 * n];
            for (i64 k = 0; k < j; k++) {
                to_a -= a[k] * own[k];
                to_b -= b[k] * own[k];
                to_c -= c[k] * own[k];
                to_d -= d[k] * own[k];
            }
            a[j] = to_a / root, b[j] = to_b / root, c[j] = to_c / root, d[j] = to_d / root;
        }
        for (; i < n; i++) {
            double *row = work + i * n, value = matrix[i * n + j];
            for (i64 k = 0; k < j; k++) value -= row[k] * own[k];
            row[j] = value / root;
        }
    }
    return true;
}

// Project matrices in place; that of starts[t] is stored by rows from its diagonal on, off it times sqrt(2).
//
// What is below the floor is lifted to it, W + sum_k max(floor - lambda_k, 0) v_k v_k', or the matrix is made anew from what is above, whichever
// takes fewer terms.
static void clip_eigenvalues(Array<double> weights, Array<const i64> starts, i64 size, double floor) {
    std::vector<double> own(size * size), spare_rows(size * size), values(size), spare(size);
    double *matrix = own.data(), *work = spare_rows.data();
    const double root = std::sqrt(0.5);
    for (i64 t = 0; t < starts.size(); t++) {
        double *packed = weights.data + starts[t];
        i64 at = 0;
        for (i64 i = 0; i < size; i++) {
            for (i64 j = i; j < size; j++) {
                const double value = packed[at++] * (i == j ? 1.0 : root);
                matrix[i * size + j] = value;
                matrix[j * size + i] = value;
            }
        }
        if (is_definite(matrix, size, floor, work)) continue;
        std::copy_n(matrix, size * size, work);
        symmetric_eigen(work, size, values.data(), spare.data());
        i64 n_low = 0;
        for (i64 k = 0; k < size; k++) n_low += values[k] < floor;
        if (n_low == 0) continue;
        const bool lift = 2 * n_low <= size;
        if (!lift) {
            for (i64 i = 0; i < size; i++) {
                for (i64 j = 0; j < size; j++) matrix[i * size + j] = i == j ? floor : 0.0;
            }
        }
        for (i64 k = 0; k < size; k++) {
            const double gain = lift ? floor - values[k] : values[k] - floor;
            if (!(gain > 0.0)) continue;
            const double *vector = work + k * size;
            for (i64 i = 0; i < size; i++) {
                const double share = gain * vector[i];
                double *__restrict row = matrix + i * size;
                for (i64 j = i; j < size; j++) row[j] += share * vector[j];
            }
        }
        at = 0;
        for (i64 i = 0; i < size; i++) {
            for (i64 j = i; j < size; j++) packed[at++] = matrix[i * size + j] / (i == j ? 1.0 : root);
        }
    }
}

void bind_definite(nb::module_ &m) {
    def(m, "clip_eigenvalues", clip_eigenvalues, "weights"_a, "starts"_a, "size"_a, "floor"_a,
        "Project matrices in place; that of ``starts[t]`` is stored by rows from its diagonal on, off it times sqrt(2).");
}

} // namespace maxsum
