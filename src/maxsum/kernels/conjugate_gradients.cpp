// Conjugate gradients for many independent block systems at once.
#include "block_rows.hpp"
#include "poll.hpp"

namespace maxsum {

// <r, r / D> and <r, r> over the nodes first .. last - 1.
static Pair scaled_residual(Array<const double, 2> r, Array<const double, 2> inverse, const i32 *n_states, i64 first, i64 last) {
    double inner = 0.0, square = 0.0;
    for (i64 v = first; v < last; v++) {
        const double *left = r[v].data, *scale = inverse[v].data;
        for (i64 k = 0, n = n_states[v]; k < n; k++) {
            inner += left[k] * left[k] * scale[k];
            square += left[k] * left[k];
        }
    }
    return {inner, square};
}

// Solve Theta x = b on each of the parts part .. n_parts - 1, from the x that is given.
//
// `inverse` are the inverses of the diagonal (the preconditioner); r, p and q are work space. A part is done when its residual is at most `tol` times
// b; residual[i] is what is left, relative. Returns the largest number of iterations.
static i64 solve_parts(const BlockRows &rows, Array<const double, 2> b, Array<double, 2> x, Array<double, 2> r, Array<double, 2> p,
                       Array<double, 2> q, Array<const double, 2> inverse, Array<const i64> starts, i64 part, i64 n_parts, double tol, i64 max_iter,
                       Array<double> residual) {
    const i32 *n_states = rows.n_states.data;
    i64 most = 0;
    Poll poll(1 << 13); // nodes
    for (i64 i = part; i < n_parts; i++) {
        const i64 first = starts[i], last = starts[i + 1];
        multiply(rows, x, q, first, last);
        double size = 0.0;
        for (i64 v = first; v < last; v++) {
            const double *right = b[v].data, *turned = q[v].data, *scale = inverse[v].data;
            double *left = r[v].data, *step = p[v].data;
            for (i64 k = 0, n = n_states[v]; k < n; k++) {
                left[k] = right[k] - turned[k];
                step[k] = left[k] * scale[k];
                size += right[k] * right[k];
            }
        }
        auto [inner, square] = scaled_residual(r, inverse, n_states, first, last);
        i64 steps = 0;
        while (square > tol * tol * size && steps < max_iter) {
            poll(u64(last - first) + 10);
            const double curvature = std::get<0>(multiply(rows, p, q, first, last));
            if (!(curvature > 0.0)) break;
            const double length = inner / curvature;
            for (i64 v = first; v < last; v++) {
                const double *__restrict step = p[v].data, *__restrict turned = q[v].data;
                double *__restrict point = x[v].data, *__restrict left = r[v].data;
                for (i64 k = 0, n = n_states[v]; k < n; k++) {
                    point[k] += length * step[k];
                    left[k] -= length * turned[k];
                }
            }
            const double before = inner;
            std::tie(inner, square) = scaled_residual(r, inverse, n_states, first, last);
            const double turn = inner / before;
            for (i64 v = first; v < last; v++) {
                const double *__restrict left = r[v].data, *__restrict scale = inverse[v].data;
                double *__restrict step = p[v].data;
                for (i64 k = 0, n = n_states[v]; k < n; k++) step[k] = left[k] * scale[k] + turn * step[k];
            }
            steps += 1;
        }
        residual[i] = size > 0.0 ? std::sqrt(square / size) : 0.0;
        most = std::max(most, steps);
    }
    return most;
}

// The diagonal of the matrix.
static void block_diagonal(const BlockRows &rows, Array<double, 2> out) {
    for (i64 v = 0; v < rows.n_states.size(); v++) {
        const i64 n = rows.n_states[v];
        const double *diagonal = rows.diagonal[v].data;
        double *to = out[v].data;
        for (i64 k = 0; k < n; k++) to[k] = diagonal[k];
        for (i64 j = rows.ptr[v]; j < rows.ptr[v + 1]; j++) {
            if (rows.col[j] != v) continue;
            for (i64 k = 0; k < n; k++) to[k] += rows.weight[j] * rows.bank(rows.block[j], k, k);
        }
    }
}

void bind_conjugate_gradients(nb::module_ &m) {
    def(m, "solve_parts", solve_parts, "rows"_a, "b"_a, "x"_a, "r"_a, "p"_a, "q"_a, "inverse"_a, "starts"_a, "part"_a, "n_parts"_a, "tol"_a,
        "max_iter"_a, "residual"_a, "Solve ``Theta x = b`` on each of the parts ``part .. n_parts - 1``, from the ``x`` that is given.");
    def(m, "block_diagonal", block_diagonal, "rows"_a, "out"_a, "The diagonal of the matrix.");
}

} // namespace maxsum
