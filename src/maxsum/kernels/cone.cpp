// The cone of supermodular tables: multipliers of the projection, and a repair of the last few ulps.
#include "arrays.hpp"

namespace maxsum {

// Rounds of block pivoting without fewer faults before one row at a time is exchanged, which is sure to end; 3 is usual.
constexpr i64 PATIENCE = 3;
constexpr double TINY = 4.9e-324; // the smallest number above 0

namespace {

// Work space for n rows.
struct Work {
    std::vector<i64> free;
    std::vector<double> chol, x, rest, slack, mu;
    std::vector<u8> is_free;
    Work(i64 n, i64 width) : free(n), chol(n * width), x(n), rest(n), slack(n), mu(n), is_free(n) {}
};

} // namespace

// mu[free] = -G[free, free]^-1 target[free] by a banded Cholesky factor, refined once.
static void solve_free(Array<const double, 2> band, const double *target, i64 m, Work &work) {
    const i64 width = band.shape[1];
    const i64 *free = work.free.data();
    double *chol = work.chol.data(), *x = work.x.data(), *rest = work.rest.data();
    for (i64 i = 0; i < m; i++) {
        double *own = chol + i * width;
        std::fill_n(own, width, 0.0);
        const i64 first = std::max<i64>(0, i - width + 1);
        for (i64 j = first; j <= i; j++) {
            const double *other = chol + j * width;
            const i64 apart = free[i] - free[j];
            double total = apart < width ? band(free[i], apart) : 0.0;
            for (i64 k = first; k < j; k++) total -= own[i - k] * other[j - k];
            own[i - j] = j < i ? total / other[0] : std::sqrt(std::max(total, 1e-300));
        }
    }
    std::fill_n(x, m, 0.0);
    for (int turn = 0; turn < 2; turn++) {
        for (i64 i = 0; i < m; i++) {
            double total = -target[free[i]];
            if (turn) {
                const i64 end = std::min(m, i + width);
                for (i64 j = std::max<i64>(0, i - width + 1); j < end; j++) {
                    const i64 apart = std::abs(free[i] - free[j]);
                    if (apart < width) total -= band(std::max(free[i], free[j]), apart) * x[j];
                }
            }
            rest[i] = total;
        }
        for (i64 i = 0; i < m; i++) {
            double total = rest[i];
            for (i64 j = std::max<i64>(0, i - width + 1); j < i; j++) total -= chol[i * width + i - j] * rest[j];
            rest[i] = total / chol[i * width];
        }
        for (i64 i = m - 1; i >= 0; i--) {
            double total = rest[i];
            const i64 end = std::min(m, i + width);
            for (i64 j = i + 1; j < end; j++) total -= chol[j * width + j - i] * rest[j];
            rest[i] = total / chol[i * width];
            x[i] += rest[i];
        }
    }
    std::fill(work.mu.begin(), work.mu.end(), 0.0);
    for (i64 i = 0; i < m; i++) work.mu[free[i]] = x[i];
}

// Multipliers of the projection onto D w >= 0, one table a row, by block principal pivoting (Judice and Pires 1994).
//
// Solves s = D u + G mu >= 0, mu >= 0, s' mu = 0 with G = D D', given by its lower diagonals: band[i, d] = G[i, i - d]. The support of `multipliers`
// is the start. Returns how many tables took `max_rounds`.
static i64 project_duals(Array<const double, 2> band, Array<const double, 2> targets, Array<double, 2> multipliers, i64 max_rounds) {
    const i64 n_rows = band.shape[0], width = band.shape[1];
    Work work(n_rows, width);
    double *mu = work.mu.data(), *slack = work.slack.data();
    u8 *is_free = work.is_free.data();
    i64 failed = 0;
    for (i64 t = 0; t < targets.size(); t++) {
        const double *target = targets.data + t * targets.shape[1];
        double *multiplier = multipliers.data + t * multipliers.shape[1];
        double scale = 0.0;
        bool any_start = false;
        for (i64 i = 0; i < n_rows; i++) {
            scale = std::max(scale, std::abs(target[i]));
            any_start |= multiplier[i] > 0;
        }
        for (i64 i = 0; i < n_rows; i++) is_free[i] = any_start ? multiplier[i] > 0 : target[i] < 0;
        i64 fewest = n_rows + 1, patience = PATIENCE;
        bool done = false;
        for (i64 round = 0; round < max_rounds; round++) {
            i64 m = 0;
            for (i64 i = 0; i < n_rows; i++) {
                if (is_free[i]) work.free[m++] = i;
            }
            solve_free(band, target, m, work);
            double top = 0.0;
            for (i64 i = 0; i < n_rows; i++) top = std::max(top, std::abs(mu[i]));
            i64 wrong = 0, last = -1;
            for (i64 i = 0; i < n_rows; i++) {
                double total = target[i];
                const i64 end = std::min(n_rows, i + width);
                for (i64 j = std::max<i64>(0, i - width + 1); j <= i; j++) total += band(i, i - j) * mu[j];
                for (i64 j = i + 1; j < end; j++) total += band(j, j - i) * mu[j];
                slack[i] = total;
                if (is_free[i] ? mu[i] < -1e-15 * top : total < -4e-15 * (scale + 16.0 * top)) {
                    wrong += 1;
                    last = i;
                }
            }
            if (wrong == 0) {
                done = true;
                break;
            }
            bool whole = true;
            if (wrong < fewest) {
                fewest = wrong;
                patience = PATIENCE;
            } else if (patience > 0) {
                patience -= 1;
            } else {
                whole = false;
            }
            for (i64 i = 0; i < n_rows; i++) {
                if (whole || i == last) is_free[i] = is_free[i] ? !(mu[i] < -1e-15 * top) : slack[i] < -4e-15 * (scale + 16.0 * top);
            }
        }
        for (i64 i = 0; i < n_rows; i++) multiplier[i] = std::max(mu[i], 0.0);
        failed += !done;
    }
    return failed;
}

// a + d - b - c >= 0 in every order in which it is evaluated anywhere.
static bool holds(double a, double d, double b, double c) {
    const double both = a + d;
    return both >= b + c && (both - b) - c >= 0 && (both - c) - b >= 0;
}

// Raise the last corner of each quadruple (a, d, b, c) that does not hold; later quadruples see the change.
static void raise_corners(Array<double> weights, Array<const i64, 2> quads) {
    for (i64 r = 0; r < quads.size(); r++) {
        const i64 *quad = quads.data + 4 * r;
        const double a = weights[quad[0]], b = weights[quad[2]], c = weights[quad[3]];
        double d = weights[quad[1]];
        if (holds(a, d, b, c)) continue;
        d = std::max(d, (b + c) - a);
        double step = std::max(2.3e-16 * std::max(std::max(std::abs(a), std::abs(b)), std::max(std::abs(c), std::abs(d))), TINY);
        while (!holds(a, d, b, c)) {
            d += step;
            step *= 2;
        }
        weights[quad[1]] = d;
    }
}

void bind_cone(nb::module_ &m) {
    def(m, "project_duals", project_duals, "band"_a, "targets"_a, "multipliers"_a, "max_rounds"_a,
        "Multipliers of the projection onto ``D w >= 0``, one table a row, by block principal pivoting (Judice and Pires 1994).");
    def(m, "raise_corners", raise_corners, "weights"_a, "quads"_a,
        "Raise the last corner of each quadruple ``(a, d, b, c)`` that does not hold; later quadruples see the change.");
}

} // namespace maxsum
