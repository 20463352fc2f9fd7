#include "eigen.hpp"

namespace maxsum {

constexpr double EPS = 2.220446049250313e-16; // spacing of floats at 1: what is smaller beside its neighbours counts as 0

static void tridiagonal(double *u, i64 n, double *__restrict d, double *__restrict e) {
    for (i64 j = 0; j < n; j++) d[j] = u[j * n + n - 1];
    for (i64 i = n - 1; i > 0; i--) {
        double scale = 0.0, h = 0.0;
        for (i64 k = 0; k < i; k++) scale += std::abs(d[k]);
        if (scale == 0.0) {
            e[i] = d[i - 1];
            for (i64 j = 0; j < i; j++) {
                d[j] = u[j * n + i - 1];
                u[j * n + i] = 0.0;
                u[i * n + j] = 0.0;
            }
        } else {
            for (i64 k = 0; k < i; k++) {
                d[k] /= scale;
                h += d[k] * d[k];
            }
            double f = d[i - 1], g = f > 0.0 ? -std::sqrt(h) : std::sqrt(h);
            e[i] = scale * g;
            h -= f * g;
            d[i - 1] = f - g;
            for (i64 j = 0; j < i; j++) e[j] = 0.0;
            for (i64 j = 0; j < i; j++) {
                const double *row = u + j * n;
                f = d[j];
                u[i * n + j] = f;
                g = e[j] + row[j] * f;
                for (i64 k = j + 1; k < i; k++) {
                    g += row[k] * d[k];
                    e[k] += row[k] * f;
                }
                e[j] = g;
            }
            f = 0.0;
            for (i64 j = 0; j < i; j++) {
                e[j] /= h;
                f += e[j] * d[j];
            }
            const double half = f / (h + h);
            for (i64 j = 0; j < i; j++) e[j] -= half * d[j];
            for (i64 j = 0; j < i; j++) {
                double *__restrict row = u + j * n;
                f = d[j];
                g = e[j];
                for (i64 k = j; k < i; k++) row[k] -= f * e[k] + g * d[k];
                d[j] = row[i - 1];
                row[i] = 0.0;
            }
        }
        d[i] = h;
    }
    for (i64 i = 0; i < n - 1; i++) {
        double *next = u + (i + 1) * n;
        u[i * n + n - 1] = u[i * n + i];
        u[i * n + i] = 1.0;
        const double h = d[i + 1];
        if (h != 0.0) {
            for (i64 k = 0; k <= i; k++) d[k] = next[k] / h;
            i64 j = 0;
            for (; j + 3 <= i; j += 4) { // four rows at a time, whose sums do not wait for each other
                double *row[4] = {u + j * n, u + (j + 1) * n, u + (j + 2) * n, u + (j + 3) * n};
                double g[4] = {};
                for (i64 k = 0; k <= i; k++) {
                    for (i64 q = 0; q < 4; q++) g[q] += next[k] * row[q][k];
                }
                for (i64 q = 0; q < 4; q++) {
                    double *__restrict own = row[q];
                    for (i64 k = 0; k <= i; k++) own[k] -= g[q] * d[k];
                }
            }
            for (; j <= i; j++) {
                double *__restrict own = u + j * n, g = 0.0;
                for (i64 k = 0; k <= i; k++) g += next[k] * own[k];
                for (i64 k = 0; k <= i; k++) own[k] -= g * d[k];
            }
        }
        for (i64 k = 0; k <= i; k++) next[k] = 0.0;
    }
    for (i64 j = 0; j < n; j++) {
        d[j] = u[j * n + n - 1];
        u[j * n + n - 1] = 0.0;
    }
    u[n * n - 1] = 1.0;
    e[0] = 0.0;
}

void symmetric_eigen(double *u, i64 n, double *d, double *e) {
    double top = 0.0;
    for (i64 i = 0; i < n * n; i++) top = std::max(top, std::abs(u[i]));
    if (top == 0.0) {
        for (i64 i = 0; i < n; i++) {
            d[i] = 0.0;
            u[i * n + i] = 1.0;
        }
        return;
    }
    for (i64 i = 0; i < n * n; i++) u[i] /= top;
    tridiagonal(u, n, d, e);
    for (i64 i = 1; i < n; i++) e[i - 1] = e[i];
    e[n - 1] = 0.0;
    double shift = 0.0, size = 0.0;
    for (i64 low = 0; low < n; low++) {
        size = std::max(size, std::abs(d[low]) + std::abs(e[low]));
        i64 m = low;
        while (std::abs(e[m]) > EPS * size) m += 1;
        while (m > low) {
            double g = d[low], p = (d[low + 1] - g) / (2.0 * e[low]);
            double r = std::abs(p) < 1e150 ? std::sqrt(p * p + 1.0) : std::abs(p);
            if (p < 0.0) r = -r;
            d[low] = e[low] / (p + r);
            d[low + 1] = e[low] * (p + r);
            const double next_d = d[low + 1];
            double h = g - d[low];
            for (i64 i = low + 2; i < n; i++) d[i] -= h;
            shift += h;
            p = d[m];
            double c = 1.0, c2 = 1.0, c3 = 1.0, s = 0.0, s2 = 0.0;
            const double next_e = e[low + 1];
            for (i64 i = m - 1; i >= low; i--) {
                c3 = c2;
                c2 = c;
                s2 = s;
                g = c * e[i];
                h = c * p;
                r = std::sqrt(p * p + e[i] * e[i]);
                e[i + 1] = s * r;
                s = r > 0.0 ? e[i] / r : 0.0;
                c = r > 0.0 ? p / r : 1.0;
                p = c * d[i] - s * g;
                d[i + 1] = h + s * (c * g + s * d[i]);
                double *__restrict own = u + i * n, *__restrict next = u + (i + 1) * n;
                for (i64 k = 0; k < n; k++) {
                    const double a = own[k], b = next[k];
                    next[k] = s * a + c * b;
                    own[k] = c * a - s * b;
                }
            }
            p = next_d != 0.0 ? -s * s2 * c3 * next_e * e[low] / next_d : 0.0;
            e[low] = s * p;
            d[low] = c * p;
            if (std::abs(e[low]) <= EPS * size) break;
        }
        d[low] += shift;
        e[low] = 0.0;
    }
    for (i64 i = 0; i < n; i++) d[i] *= top;
}

// Pseudo-inverse of a symmetric matrix, which is destroyed; eigenvalues of at most `tol` of the largest count as 0.
static void inverse_of(Array<double, 2> matrix, double tol, Array<double, 2> out) {
    const i64 n = matrix.size();
    std::vector<double> d(n), e(n);
    symmetric_eigen(matrix.data, n, d.data(), e.data());
    double top = 0.0;
    for (i64 k = 0; k < n; k++) top = std::max(top, std::abs(d[k]));
    out.fill(0.0);
    for (i64 k = 0; k < n; k++) {
        if (!(std::abs(d[k]) > tol * top)) continue;
        const double *row = matrix.data + k * n;
        for (i64 i = 0; i < n; i++) {
            const double share = row[i] / d[k];
            double *__restrict sum = out.data + i * n;
            for (i64 j = 0; j < n; j++) sum[j] += share * row[j];
        }
    }
}

void bind_eigen(nb::module_ &m) {
    def(m, "inverse_of", inverse_of, "matrix"_a, "tol"_a, "out"_a,
        "Pseudo-inverse of a symmetric matrix, which is destroyed; eigenvalues of at most ``tol`` of the largest count as 0.");
}

} // namespace maxsum
