// Coordinate descent on a quadratic model of a smooth function with a penalty of absolute values.
//
//     minimise  <g, d> + d' B d / 2 + l1 |w + d|_1 + l2 |w + d|^2 / 2,   B = curvature I - R M R'
//
// R (n, r) are the rows of a compact limited-memory matrix, M (r, r) its core.
#include "poll.hpp"
#include "vectors.hpp"

namespace maxsum {

// A diagonal entry of B below this part of the curvature is rounding; it is raised to it.
constexpr double LEAST = 1e-8;

// Passes over all coordinates until none would change the slope by more than `tolerance` times the largest such change of the first pass. Returns
// the number of passes.
static i64 descend(Array<const double> gradient, Array<const double> weights, double curvature, Array<const double, 2> rows,
                   Array<const double, 2> core, double l1, double l2, double tolerance, i64 most, Array<double> step) {
    const i64 n = gradient.size(), r = core.size();
    std::vector<double> mixed(n * r), diagonal(n), together(r);
    for (i64 i = 0; i < n; i++) {
        const double *row = rows.data + i * r;
        for (i64 a = 0; a < r; a++) mixed[i * r + a] = inner(core.data + a * r, row, r);
        diagonal[i] = std::max(curvature - inner(mixed.data() + i * r, row, r), LEAST * curvature) + l2;
    }
    step.fill(0.0);
    Poll poll(1 << 17);
    double first = 0.0;
    i64 done = 0;
    while (done < most) {
        double largest = 0.0;
        for (i64 i = 0; i < n; i++) {
            const double at = weights[i] + step[i];
            const double slope = gradient[i] + curvature * step[i] - inner(mixed.data() + i * r, together.data(), r) + l2 * at;
            const double target = at - slope / diagonal[i], cut = l1 / diagonal[i];
            const double now = target > cut ? target - cut : target < -cut ? target + cut : 0.0;
            const double change = now - at;
            if (change == 0.0) continue;
            step[i] = now - weights[i];
            const double *row = rows.data + i * r;
            for (i64 a = 0; a < r; a++) together[a] += change * row[a];
            largest = std::max(largest, std::abs(change) * diagonal[i]);
        }
        poll(u64(n * r) + 100);
        done += 1;
        if (done == 1) first = largest;
        if (!(largest > tolerance * first)) break;
    }
    return done;
}

void bind_penalised(nb::module_ &m) {
    def(m, "descend", descend, "gradient"_a, "weights"_a, "curvature"_a, "rows"_a, "core"_a, "l1"_a, "l2"_a, "tolerance"_a, "most"_a, "step"_a,
        "Coordinate descent on ``<g, d> + d' (curvature I - rows core rows') d / 2 + l1 |w + d|_1 + l2 |w + d|^2 / 2`` from 0; the minimiser is "
        "written to ``step``. Returns the number of passes.");
}

} // namespace maxsum
