// Concave quadratics over a product of simplices and a non-negative orthant, by pairwise steps.
//
//     max_a b'a - 1/2 a'H a,    a >= 0,  sum_{i in j} a_i = c_j  (or <= c_j)
//
// order[ptr[j]:ptr[j + 1]] are the variables of block j; the part after the last block are the non-negative ones. rest[j] is c_j - sum, a variable
// with a zero column; it takes part in block j where `loose` is set.
#include "simplex.hpp"

namespace maxsum {

constexpr double FLAT = 1e-14; // of a diagonal entry: the least curvature of a step, so that rounding of equal columns divides by nothing near 0
constexpr i64 VALUE = 0;       // places of the state: the value of the program,
constexpr i64 GAP = 1;         // its duality gap,
constexpr i64 TOP = 2;         // and the largest gradient
constexpr i64 N_STATE = 3;

namespace {

struct Blocks {
    Array<const double, 2> gram;
    Array<const double> offset;
    Array<double> alpha, grad;
    Array<const i64> order, ptr;
    Array<double> rest;
    bool loose;
    Array<const double> noise;
    std::tuple<double, double> cost;
    std::vector<double> diag;
    std::vector<double> local, weight, change; // of one block

    double gap(i64 first, i64 last, double left) const;
    void measure(double *state) const;
    i64 block_steps(i64 j, double target, i64 max_steps);
    void apply(i64 first, i64 size);
    i64 orthant_steps(i64 first, i64 last);
};

// sum a_i (max g - g_i) over a block, term by term.
double Blocks::gap(i64 first, i64 last, double left) const {
    const i64 *order = this->order.data;
    const double *alpha = this->alpha.data, *grad = this->grad.data;
    double top = loose ? 0.0 : -INF;
    for (i64 p = first; p < last; p++) top = std::max(top, grad[order[p]]);
    double gap = loose ? left * top : 0.0;
    for (i64 p = first; p < last; p++) gap += alpha[order[p]] * (top - grad[order[p]]);
    return gap;
}

// Value and gap into `state`: the blocks, -a_i g_i of the orthant, and the cost of making it feasible.
//
// To lower every gradient of the orthant by t costs at most cost[0] t + cost[1] t^2.
void Blocks::measure(double *state) const {
    const i64 n_blocks = ptr.size() - 2;
    double all = 0.0;
    for (i64 j = 0; j < n_blocks; j++) {
        if (ptr[j + 1] > ptr[j]) all += gap(ptr[j], ptr[j + 1], rest[j]);
    }
    double top = 0.0;
    for (i64 p = ptr[n_blocks]; p < ptr[n_blocks + 1]; p++) {
        const i64 i = order[p];
        all -= alpha[i] * grad[i];
        if (grad[i] > noise[i]) top = std::max(top, grad[i]);
    }
    double twice = 0.0;
    for (i64 i = 0; i < alpha.size(); i++) twice += alpha[i] * (offset[i] + grad[i]);
    state[VALUE] = 0.5 * twice;
    state[TOP] = top;
    state[GAP] = top > 0 ? all + top * (std::get<0>(cost) + top * std::get<1>(cost)) : all;
}

// Pairwise steps inside one block on its own gradient, until its gap is at most `target`; returns their number.
//
// What is left of the block's sum is its last entry there. (Choosing the giver by what it promises to second order, as LIBSVM does, takes as many
// steps on these problems, and more work in each.)
i64 Blocks::block_steps(i64 j, double target, i64 max_steps) {
    const i64 *order = this->order.data + ptr[j];
    const i64 size = ptr[j + 1] - ptr[j], count = loose ? size + 1 : size;
    double *__restrict local = this->local.data(), *__restrict weight = this->weight.data();
    for (i64 p = 0; p < size; p++) {
        local[p] = grad[order[p]];
        weight[p] = alpha[order[p]];
    }
    local[size] = 0.0;
    weight[size] = rest[j];
    i64 steps = 0;
    while (steps < max_steps) {
        const auto [high, low] = ends(local, weight, count);
        double gap = 0.0;
        for (i64 p = 0; p < count; p++) gap += weight[p] * (local[high] - local[p]);
        if (gap <= target || low < 0 || is_flat(local, high, low)) break;
        const i64 i = high < size ? order[high] : -1, k = low < size ? order[low] : -1;
        const double own = (i >= 0 ? diag[i] : 0.0) + (k >= 0 ? diag[k] : 0.0);
        const double bend = i >= 0 && k >= 0 ? std::max(own - 2.0 * gram(i, k), FLAT * own) : own;
        const double length = exchange(weight, high, low, local[high] - local[low], bend);
        steps += 1;
        const double *plus = i >= 0 ? gram[i].data : nullptr, *minus = k >= 0 ? gram[k].data : nullptr;
        if (plus && minus) {
            for (i64 p = 0; p < size; p++) local[p] -= length * (plus[order[p]] - minus[order[p]]);
        } else if (plus) {
            for (i64 p = 0; p < size; p++) local[p] -= length * plus[order[p]];
        } else if (minus) {
            for (i64 p = 0; p < size; p++) local[p] -= length * -minus[order[p]];
        }
    }
    if (loose) rest[j] = weight[size];
    return steps;
}

// Write the new weights of a block and subtract its columns from the gradient, four at a time.
void Blocks::apply(i64 first, i64 size) {
    const i64 n = alpha.size();
    double *__restrict g = grad.data;
    i64 rows[4], count = 0;
    for (i64 p = 0; p < size; p++) {
        const i64 i = order[first + p];
        const double step = weight[p] - alpha[i];
        alpha[i] = weight[p];
        change[p] = step;
        if (step != 0.0) rows[count++] = p;
        if (count == 4) {
            const double *g0 = gram[order[first + rows[0]]].data, *g1 = gram[order[first + rows[1]]].data;
            const double *g2 = gram[order[first + rows[2]]].data, *g3 = gram[order[first + rows[3]]].data;
            const double d0 = change[rows[0]], d1 = change[rows[1]], d2 = change[rows[2]], d3 = change[rows[3]];
            for (i64 k = 0; k < n; k++) g[k] -= (d0 * g0[k] + d1 * g1[k]) + (d2 * g2[k] + d3 * g3[k]);
            count = 0;
        }
    }
    for (i64 q = 0; q < count; q++) {
        const double *row = gram[order[first + rows[q]]].data, d = change[rows[q]];
        for (i64 k = 0; k < n; k++) g[k] -= d * row[k];
    }
}

// One pass of coordinate steps over the non-negative variables.
i64 Blocks::orthant_steps(i64 first, i64 last) {
    const i64 size = last - first, *order = this->order.data + first;
    double *__restrict local = this->local.data(), *__restrict weight = this->weight.data();
    for (i64 p = 0; p < size; p++) {
        local[p] = grad[order[p]];
        weight[p] = alpha[order[p]];
    }
    i64 steps = 0;
    for (i64 p = 0; p < size; p++) {
        const double *row = gram[order[p]].data, h = row[order[p]];
        if (h <= 0.0) {
            weight[p] = 0.0;
            continue;
        }
        const double t = std::max(local[p] / h, -weight[p]);
        if (t != 0.0) {
            steps += 1;
            weight[p] = std::max(weight[p] + t, 0.0);
            for (i64 q = 0; q < size; q++) local[q] -= t * row[order[q]];
        }
    }
    return steps;
}

} // namespace

// Sweeps over the blocks until the gap is at most max(tol * value, floor) or `max_work` numbers were touched.
//
// Blocks that hold little of the gap are passed over until the others have caught up. Returns the number of pair steps.
static i64 ascend(Array<const double, 2> gram, Array<const double> offset, Array<double> alpha, Array<double> grad, Array<const i64> order,
                  Array<const i64> ptr, Array<double> rest, Flag loose, Array<const double> noise, std::tuple<double, double> cost, double tol,
                  double floor, i64 max_work, Array<double> state) {
    const i64 n = alpha.size(), n_blocks = ptr.size() - 2;
    i64 most = 0;
    for (i64 j = 0; j < n_blocks + 1; j++) most = std::max(most, ptr[j + 1] - ptr[j]);
    Blocks blocks{gram, offset, alpha, grad, order, ptr, rest, loose, noise, cost, std::vector<double>(n), {}, {}, {}};
    for (i64 i = 0; i < n; i++) blocks.diag[i] = gram(i, i);
    for (auto *scratch : {&blocks.local, &blocks.weight, &blocks.change}) scratch->resize(most + 1);
    i64 work = 0, steps = 0;
    for (;;) {
        blocks.measure(state.data);
        const double wanted = std::max(tol * std::max(std::abs(state[VALUE]), std::abs(state[VALUE] + state[GAP])), floor);
        if (state[GAP] <= wanted || work >= max_work) break;
        const double share = std::max(0.1 * state[GAP], 0.3 * wanted) / double(std::max<i64>(n_blocks, 1));
        i64 moved = 0;
        const i64 begin = ptr[n_blocks], end = ptr[n_blocks + 1];
        if (end > begin) {
            moved += blocks.orthant_steps(begin, end);
            blocks.apply(begin, end - begin);
            work += moved * (n + end - begin);
        }
        for (i64 j = 0; j < n_blocks; j++) {
            const i64 first = ptr[j], size = ptr[j + 1] - first;
            if (size == 0) continue;
            const double gap = blocks.gap(first, first + size, rest[j]);
            if (gap <= share) continue;
            const double target = std::max(0.1 * gap, 0.5 * share);
            const i64 done = blocks.block_steps(j, target, 20 + 4 * size);
            blocks.apply(first, size);
            moved += done;
            work += done * 3 * size + std::min(size, 2 * done) * n;
        }
        work += 2 * n;
        steps += moved;
        if (moved == 0) break;
    }
    return steps;
}

void bind_simplex_blocks(nb::module_ &m) {
    m.attr("VALUE") = VALUE;
    m.attr("GAP") = GAP;
    m.attr("TOP") = TOP;
    m.attr("N_STATE") = N_STATE;
    def(m, "ascend", ascend, "gram"_a, "offset"_a, "alpha"_a, "grad"_a, "order"_a, "ptr"_a, "rest"_a, "loose"_a, "noise"_a, "cost"_a, "tol"_a,
        "floor"_a, "max_work"_a, "state"_a,
        "Sweeps over the blocks until the gap is at most ``max(tol * value, floor)`` or ``max_work`` numbers were touched.");
}

} // namespace maxsum
