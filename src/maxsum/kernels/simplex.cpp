#include "simplex.hpp"

namespace maxsum {

// Entries up to which sorting by insertion is used: faster than a general sort, and without allocation.
constexpr i64 SORTED = 32;

// Entries at most max(z) - 1 are never above tau and are left out. The rest is sorted if it is short, and partitioned around pivots (expected linear
// time) if it is long.
double threshold(const double *z, i64 n, double *work) {
    const double top = largest(z, n);
    i64 count = 0;
    for (i64 k = 0; k < n; k++) {
        const double gain = z[k] - top;
        if (gain > -1.0) work[count++] = gain;
    }
    if (count <= SORTED) {
        for (i64 i = 1; i < count; i++) {
            const double value = work[i];
            i64 j = i - 1;
            for (; j >= 0 && work[j] < value; j--) work[j + 1] = work[j];
            work[j + 1] = value;
        }
        double total = 0.0, tau = 0.0;
        for (i64 i = 0; i < count; i++) {
            total += work[i];
            const double level = (total - 1.0) / double(i + 1);
            if (work[i] <= level) break;
            tau = level;
        }
        return top + tau;
    }
    i64 low = 0, high = count, n_above = 0;
    double above = 0.0;
    while (low < high) {
        const double a = work[low], b = work[(low + high) / 2], c = work[high - 1];
        const double pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));
        // work[low:i] > pivot, work[i:j] == pivot, work[j:high] < pivot
        i64 i = low, j = low, end = high;
        double total = 0.0;
        while (j < end) {
            const double value = work[j];
            if (value > pivot) {
                total += value;
                work[j++] = work[i];
                work[i++] = value;
            } else if (value < pivot) {
                work[j] = work[--end];
                work[end] = value;
            } else {
                j++;
            }
        }
        total += pivot * double(j - i);
        const i64 n_equal = j - low;
        if (above + total - double(n_above + n_equal) * pivot < 1.0) {
            above += total;
            n_above += n_equal;
            low = j;
        } else {
            high = i;
        }
    }
    return top + (above - 1.0) / double(n_above);
}

// Nearest point of the simplex, row by row.
static void project(Array<const double, 2> points, Array<const i32> n_states, Array<double, 2> out) {
    std::vector<double> work(points.shape[1]);
    for (i64 v = 0; v < n_states.size(); v++) {
        const i64 n = n_states[v];
        const double *z = points[v].data;
        const double tau = threshold(z, n, work.data());
        for (i64 k = 0; k < n; k++) out(v, k) = std::max(z[k] - tau, 0.0);
    }
}

static std::tuple<i64, i64> bound_ends(Array<const double> gradient, Array<const double> alpha, i64 first, i64 n) {
    const Ends found = ends(gradient.data, alpha.data + first, n);
    return {found.high, found.low};
}

static double bound_exchange(Array<double> alpha, i64 high, i64 low, double slope, double curve) {
    return exchange(alpha.data, high, low, slope, curve);
}

void bind_simplex(nb::module_ &m) {
    def(m, "project", project, "points"_a, "n_states"_a, "out"_a, "Nearest point of the simplex, row by row.");
    def(m, "ends", bound_ends, "gradient"_a, "alpha"_a, "first"_a, "n"_a,
        "Of ``n`` entries, with weights ``alpha[first:]``: the one with the largest gradient, and that with the smallest among those with weight.");
    def(m, "exchange", bound_exchange, "alpha"_a, "high"_a, "low"_a, "slope"_a, "curve"_a,
        "Move the best amount from ``alpha[low]`` to ``alpha[high]``; returns the amount.");
}

} // namespace maxsum
