// Spectral projected gradient with conjugate directions for a convex quadratic over a product of simplices.
//
// All vectors are (N, K) arrays, one simplex a row; only the first n_states[v] entries of row v are ever touched. A label is forbidden by a linear
// cost of FORBIDDEN, so large that its entry stays at zero and so small that nothing overflows.
//
// Most rows soon rest at a corner that the gradient does not leave. Bits in `live` (N,) say what of a row is not zero: PULLED (pull), BACKED (back),
// STEPPED (step); CORNER marks those at rest. `low` (N,) holds the smallest entries of the gradient. Rows of zeros are neither read nor written.
#include "block_rows.hpp"
#include "poll.hpp"
#include "simplex.hpp"

namespace maxsum {

namespace {

constexpr double FORBIDDEN = 1e300;
constexpr i64 VALUE = 0;           // place in the state: the energy
constexpr i64 GAP = 1;             // place in the state: the Frank-Wolfe gap
constexpr i64 SIZE = 2;            // place in the state: size of the terms, for rounding
constexpr i64 ALPHA = 3;           // place in the state: the next spectral step
constexpr i64 N_ITER = 4;          // place in the state: steps so far
constexpr i64 N_PRODUCTS = 5;      // place in the state: products with the matrix
constexpr i64 STATUS = 6;          // place in the state: one of the four below
constexpr i64 CURVATURE = 7;       // place in the state: the negative curvature that was met
constexpr i64 LAST = 8;            // place in the state: the spectral step before
constexpr i64 NORM = 9;            // place in the state: a lower bound on the norm of the matrix
constexpr i64 ALLOWED = 10;        // place in the state: gap that is small enough whatever the value
constexpr i64 N_STATE = 11;        // numbers of the state
constexpr double RUNNING = 0.0;    // status: goes on
constexpr double CONVERGED = 1.0;  // status: the gap is small enough
constexpr double STALLED = 2.0;    // status: rounding lets no step be taken
constexpr double INDEFINITE = 3.0; // status: a direction of negative curvature was met
constexpr u8 PULLED = 1;           // bit of a row: its projected gradient is not zero
constexpr u8 BACKED = 2;           // bit of a row: the gradient before was not zero
constexpr u8 STEPPED = 4;          // bit of a row: its step is not zero
constexpr u8 CORNER = 8;           // bit of a row: it rests at a corner
constexpr u8 ALL = PULLED | BACKED | STEPPED | CORNER;
constexpr double LONGER = 1.1; // factor on the spectral step, so that the minimiser lies within the step most of the time
constexpr double WORTH = 0.1;  // a conjugate step is taken where it falls at least this share as steeply as the plain one
constexpr i64 REFRESH = 50;

// The bits of a row with `bit` set or cleared.
u8 with_bit(u8 live, u8 bit, bool set) { return u8((live & (ALL ^ bit)) | (set ? bit : 0)); }

// `multiply` for an x whose rows are zero where `live` lacks STEPPED.
Pair multiply_live(const BlockRows &rows, Array<const double, 2> x, Array<double, 2> out, i64 first, i64 last, Array<const u8> live_rows) {
    const i32 *n_states = rows.n_states.data, *col = rows.col.data, *block = rows.block.data;
    const i64 *ptr = rows.ptr.data, width = rows.bank.shape[2], cells = rows.bank.shape[1] * width, n_labels = x.shape[1];
    const double *weight = rows.weight.data, *bank = rows.bank.data;
    const u8 *live = live_rows.data;
    double inner = 0.0, square = 0.0;
    for (i64 v = first; v < last; v++) {
        const i64 states = n_states[v];
        const bool stepped = live[v] & STEPPED;
        bool touched = stepped;
        const double *own = x.data + v * n_labels, *diagonal = rows.diagonal.data + v * rows.diagonal.shape[1];
        double *__restrict to = out.data + v * n_labels;
        if (stepped) {
            for (i64 k = 0; k < states; k++) to[k] = diagonal[k] * own[k];
        } else {
            for (i64 k = 0; k < states; k++) to[k] = 0.0;
        }
        for (i64 j = ptr[v]; j < ptr[v + 1]; j++) {
            const i64 u = col[j];
            if (live[u] & STEPPED) {
                add_block(bank + block[j] * cells, width, weight[j], x.data + u * n_labels, n_states[u], to, states);
                touched = true;
            }
        }
        if (touched) {
            double s0 = 0.0, s1 = 0.0;
            for (i64 k = 0; k < states - 1; k += 2) {
                s0 += to[k] * to[k];
                s1 += to[k + 1] * to[k + 1];
            }
            if (states % 2) s0 += to[states - 1] * to[states - 1];
            square += s0 + s1;
        }
        if (stepped) {
            for (i64 k = 0; k < states; k++) inner += own[k] * to[k];
        }
    }
    return {inner, square};
}

// <x, y> and <y, y>: what `multiply` returns, for a product that was made elsewhere.
Pair products(Array<const double, 2> x, Array<const double, 2> y, Array<const i32> n_states, i64 first, i64 last) {
    double inner = 0.0, square = 0.0;
    for (i64 v = first; v < last; v++) {
        const double *a = x[v].data, *b = y[v].data;
        for (i64 k = 0; k < n_states[v]; k++) {
            inner += a[k] * b[k];
            square += b[k] * b[k];
        }
    }
    return {inner, square};
}

struct Move {
    double slope, square;
};

// step = P(z) - mu of one row; returns <grad, step> and <step, step>.
//
// A step sums to 0 in every row, so the smallest entry of the gradient, `low`, may be taken from all of them: close to the optimum nothing is lost to
// cancellation.
inline Move move(const double *mu, const double *grad, double low, double *step, i64 n, const double *z, double *work) {
    double slope = 0.0, square = 0.0;
    const double tau = threshold(z, n, work);
    for (i64 k = 0; k < n; k++) {
        const double own = std::max(z[k] - tau, 0.0) - mu[k];
        step[k] = own;
        if (own != 0.0) {
            slope += own * (grad[k] - low);
            square += own * own;
        }
    }
    return {slope, square};
}

// pull = P(mu - alpha grad) - mu; returns <grad, pull> and <pull, pull>.
Pair direction(Array<const double, 2> mu, Array<const double, 2> grad, Array<const i32> n_states, i64 first, i64 last, double alpha,
               Array<double, 2> pull, Array<const double> low, Array<u8> live, Array<double> z_room, Array<double> work) {
    double slope = 0.0, square = 0.0, *__restrict z = z_room.data;
    for (i64 v = first; v < last; v++) {
        const i64 n = n_states[v];
        double *to = pull[v].data;
        if (live[v] & CORNER) {
            if (live[v] & PULLED) {
                for (i64 k = 0; k < n; k++) to[k] = 0.0;
                live[v] ^= PULLED;
            }
            continue;
        }
        const double *point = mu[v].data, *gradient = grad[v].data, least = low[v];
        for (i64 k = 0; k < n; k++) z[k] = point[k] - alpha * (gradient[k] - least);
        const Move own = move(point, gradient, least, to, n, z, work.data);
        slope += own.slope;
        square += own.square;
        live[v] |= PULLED;
    }
    return {slope, square};
}

// mu += length * step, grad += length * turn; value, Frank-Wolfe gap and their scale go to `state`.
//
// The gap sum_v sum_k mu_v(k) (grad_v(k) - min_l grad_v(l)) is summed from terms that are not negative. Rows are rescaled to the sum 1, which they
// lose to rounding only.
void advance(Array<double, 2> mu, Array<double, 2> grad, Array<const double, 2> step, Array<const double, 2> turn, Array<const double, 2> theta,
             Array<const i32> n_states, i64 first, i64 last, double length, Array<double> low, Array<u8> live, Array<double> state) {
    double value = 0.0, gap = 0.0, size = 0.0;
    for (i64 v = first; v < last; v++) {
        const i64 n = n_states[v];
        double *__restrict point = mu[v].data, *__restrict gradient = grad[v].data;
        const double *linear = theta[v].data;
        u8 bits = live[v];
        if (length != 0.0) {
            const double *__restrict turned = turn[v].data;
            for (i64 k = 0; k < n; k++) gradient[k] += length * turned[k];
            if (bits & STEPPED) {
                const double *__restrict stepped = step[v].data;
                double total = 0.0;
                for (i64 k = 0; k < n; k++) {
                    point[k] = std::max(point[k] + length * stepped[k], 0.0);
                    total += point[k];
                }
                for (i64 k = 0; k < n; k++) point[k] /= total;
            }
        }
        const double least_gradient = least(gradient, n);
        low[v] = least_gradient;
        bits &= ALL ^ CORNER;
        size += std::abs(least_gradient);
        for (i64 k = 0; k < n; k++) {
            const double share = point[k];
            if (share > 0.0) {
                if (share == 1.0 && gradient[k] == least_gradient) bits |= CORNER;
                gap += share * (gradient[k] - least_gradient);
                value += share * (gradient[k] + linear[k]);
                size += share * (std::abs(gradient[k]) + std::abs(linear[k]));
            }
        }
        live[v] = bits;
    }
    state[VALUE] = 0.5 * value, state[GAP] = gap, state[SIZE] = size;
}

// A first step length that is free of scale: the largest spread of the gradient in a row moves one unit.
double first_step(Array<const double, 2> grad, Array<const i32> n_states, i64 first, i64 last) {
    double spread = 0.0;
    for (i64 v = first; v < last; v++) {
        double low = FORBIDDEN, high = -FORBIDDEN;
        const double *gradient = grad[v].data;
        for (i64 k = 0; k < n_states[v]; k++) {
            if (gradient[k] < 0.5 * FORBIDDEN) {
                low = std::min(low, gradient[k]);
                high = std::max(high, gradient[k]);
            }
        }
        spread = std::max(spread, high - low);
    }
    return spread > 0.0 ? 1.0 / spread : 1.0;
}

// Whether the gap is at most `tol` of the value, at most what is allowed, or nothing but rounding.
bool is_done(Array<const double> state, double tol) {
    const double value = state[VALUE], gap = state[GAP];
    return gap <= std::max(tol * std::max(std::abs(value), std::abs(value - gap)), state[ALLOWED]) || gap <= 8 * 2.220446049250313e-16 * state[SIZE];
}

// Length of the step and the next spectral step, both without a further product.
//
// Along the step the energy is E + lambda s + lambda^2 c / 2; the length is its minimiser, at most 1. The next spectral step is a little above the
// longer one of Barzilai and Borwein, <step, step> / <step, Theta step>, so that the minimiser lies within the step most of the time.
double search(double slope, double square, double curvature, Array<double> state) {
    const double alpha = state[ALPHA], longest = 1e10 * alpha;
    state[LAST] = alpha;
    state[ALPHA] = curvature > 1e-300 ? std::min(std::max(LONGER * square / curvature, 1e-10 * alpha), longest) : 10.0 * alpha;
    return curvature > 0.0 ? std::min(1.0, -slope / curvature) : 1.0;
}

// Turn the step of the projected gradient, `pull`, by the last `step`, which it replaces; returns slope and square.
//
// With G = -pull / alpha, the projected gradient (`back` holds the one before and gets the new one), it is
//
//     P(mu + alpha d) - mu,     d = -G + max(0, <G, G - G_> / |G_|^2) d_.
//
// Where nothing is projected, these are the conjugate gradients of Polak and Ribiere. If it hardly leads down, `pull` itself is taken.
Pair conjugate(Array<const double, 2> mu, Array<const double, 2> grad, Array<const double, 2> pull, Array<double, 2> back, Array<double, 2> step,
               Array<const i32> n_states, i64 first, i64 last, double slope, double square, Array<const double> state, Array<const double> low,
               Array<u8> live, Array<double> z_room, Array<double> work) {
    const double alpha = state[ALPHA], before = state[LAST];
    double inner = 0.0, norm = 0.0, *__restrict z = z_room.data;
    for (i64 v = first; v < last; v++) {
        if (live[v] & (PULLED | BACKED)) {
            const double *pulled = pull[v].data;
            double *__restrict kept = back[v].data;
            for (i64 k = 0, n = n_states[v]; k < n; k++) {
                const double fresh = -pulled[k] / alpha, old = kept[k];
                inner += fresh * (fresh - old);
                norm += old * old;
                kept[k] = fresh;
            }
            live[v] = with_bit(live[v], BACKED, live[v] & PULLED);
        }
    }
    if (before > 0.0 && inner > 0.0 && norm > 0.0 && inner < 1e3 * norm) {
        const double turn = inner / norm * alpha / before;
        double new_slope = 0.0, new_square = 0.0;
        for (i64 v = first; v < last; v++) {
            if (live[v] & (PULLED | STEPPED)) {
                const i64 n = n_states[v];
                const double *point = mu[v].data, *pulled = pull[v].data;
                double *stepped = step[v].data;
                for (i64 k = 0; k < n; k++) z[k] = point[k] + (pulled[k] + turn * stepped[k]);
                const Move own = move(point, grad[v].data, low[v], stepped, n, z, work.data);
                new_slope += own.slope;
                new_square += own.square;
                live[v] = with_bit(live[v], STEPPED, own.square > 0.0);
            }
        }
        if (new_slope < WORTH * slope) return {new_slope, new_square};
    }
    for (i64 v = first; v < last; v++) {
        if (live[v] & (PULLED | STEPPED)) {
            const double *pulled = pull[v].data;
            double *__restrict stepped = step[v].data;
            for (i64 k = 0, n = n_states[v]; k < n; k++) stepped[k] = pulled[k];
            live[v] = with_bit(live[v], STEPPED, live[v] & PULLED);
        }
    }
    return {slope, square};
}

// Whether a step, its product and their inner product show a negative curvature that is not rounding.
//
// A step in the null space has a product of nothing but rounding, so the curvature is also compared with the largest ratio of a product to its vector
// that was seen.
bool is_indefinite(double square, double curvature, double turn_square, Array<double> state) {
    if (square > 0.0) state[NORM] = std::max(state[NORM], std::sqrt(turn_square / square));
    if (curvature < -1e-7 * std::sqrt(square * turn_square) && curvature < -1e-12 * state[NORM] * square) {
        state[STATUS] = INDEFINITE, state[CURVATURE] = curvature / square;
        return true;
    }
    return false;
}

// Fill `state` from a gradient that was just computed.
void begin(Array<double, 2> mu, Array<double, 2> grad, Array<const double, 2> theta, Array<const i32> n_states, i64 first, i64 last,
           Array<double> low, Array<u8> live, Array<double> state) {
    advance(mu, grad, mu, mu, theta, n_states, first, last, 0.0, low, live, state);
    double square = 0.0, turn_square = 0.0;
    for (i64 v = first; v < last; v++) {
        const double *point = mu[v].data, *gradient = grad[v].data, *linear = theta[v].data;
        for (i64 k = 0; k < n_states[v]; k++) {
            if (linear[k] < 0.5 * FORBIDDEN) {
                const double turn = gradient[k] - linear[k];
                turn_square += turn * turn;
                square += point[k] * point[k];
            }
        }
    }
    if (square > 0.0) state[NORM] = std::max(state[NORM], std::sqrt(turn_square / square));
    if (state[N_ITER] == 0.0) state[ALPHA] = first_step(grad, n_states, first, last);
}

// grad = theta + Theta mu.
void gradient(const BlockRows &rows, Array<const double, 2> theta, Array<const double, 2> mu, Array<double, 2> grad, i64 first, i64 last) {
    multiply(rows, mu, grad, first, last);
    for (i64 v = first; v < last; v++) {
        const double *linear = theta[v].data;
        double *__restrict to = grad[v].data;
        for (i64 k = 0, n = rows.n_states[v]; k < n; k++) to[k] += linear[k];
    }
}

// Up to n_steps iterations on each of the parts part .. n_parts - 1 that still runs; returns how many still do.
//
// Part i is the nodes starts[i] .. starts[i + 1] - 1, which no block joins to others; each part has its own step lengths and states[i]. The gradient
// is carried from product to product, and computed anew from time to time and before the end is declared.
i64 descend(const BlockRows &rows, Array<const double, 2> theta, Array<double, 2> mu, Array<double, 2> grad, Array<double, 2> pull,
            Array<double, 2> back, Array<double, 2> step, Array<double, 2> turn, Array<double> low, Array<u8> live, Array<const i64> starts, i64 part,
            i64 n_parts, double tol, i64 n_steps, i64 max_iter, Array<double, 2> states) {
    Owned<double> z(mu.shape[1]), work(mu.shape[1]);
    i64 running = 0;
    Poll poll(1 << 13); // nodes
    for (i64 i = part; i < n_parts; i++) {
        const Array<double> state = states[i];
        const i64 first = starts[i], last = starts[i + 1];
        bool fresh = false;
        const auto renew = [&] {
            gradient(rows, theta, mu, grad, first, last);
            state[N_PRODUCTS] += 1.0;
            begin(mu, grad, theta, rows.n_states, first, last, low, live, state);
            fresh = true;
        };
        if (state[STATUS] == RUNNING && state[N_PRODUCTS] == 0.0) renew();
        i64 taken = 0;
        while (state[STATUS] == RUNNING) {
            const bool done = is_done(state, tol);
            bool stuck = false;
            double slope = 0.0, square = 0.0;
            if (!done) {
                if (taken == n_steps || state[N_ITER] >= double(max_iter)) break;
                std::tie(slope, square) = direction(mu, grad, rows.n_states, first, last, state[ALPHA], pull, low, live, z, work);
                stuck = !(slope < 0.0);
            }
            if ((done || stuck || i64(state[N_ITER]) % REFRESH == REFRESH - 1) && !fresh) {
                renew();
                continue;
            }
            if (done || stuck) {
                state[STATUS] = done ? CONVERGED : STALLED;
                break;
            }
            std::tie(slope, square) = conjugate(mu, grad, pull, back, step, rows.n_states, first, last, slope, square, state, low, live, z, work);
            const auto [curvature, turn_square] = multiply_live(rows, step, turn, first, last, live);
            state[N_PRODUCTS] += 1.0;
            if (is_indefinite(square, curvature, turn_square, state)) break;
            const double length = search(slope, square, curvature, state);
            advance(mu, grad, step, turn, theta, rows.n_states, first, last, length, low, live, state);
            state[N_ITER] += 1.0;
            fresh = false;
            taken += 1;
            poll(u64(last - first) + 10);
        }
        if (state[STATUS] == RUNNING) running += 1;
    }
    return running;
}

} // namespace

void bind_qp(nb::module_ &m) {
    bind_record<BlockRows>(m);
    m.attr("FORBIDDEN") = FORBIDDEN;
    m.attr("VALUE") = VALUE;
    m.attr("GAP") = GAP;
    m.attr("SIZE") = SIZE;
    m.attr("ALPHA") = ALPHA;
    m.attr("N_ITER") = N_ITER;
    m.attr("N_PRODUCTS") = N_PRODUCTS;
    m.attr("STATUS") = STATUS;
    m.attr("CURVATURE") = CURVATURE;
    m.attr("LAST") = LAST;
    m.attr("NORM") = NORM;
    m.attr("ALLOWED") = ALLOWED;
    m.attr("N_STATE") = N_STATE;
    m.attr("RUNNING") = RUNNING;
    m.attr("CONVERGED") = CONVERGED;
    m.attr("STALLED") = STALLED;
    m.attr("INDEFINITE") = INDEFINITE;
    m.attr("PULLED") = int(PULLED);
    m.attr("BACKED") = int(BACKED);
    m.attr("STEPPED") = int(STEPPED);
    m.attr("CORNER") = int(CORNER);
    m.attr("ALL") = int(ALL);
    m.attr("REFRESH") = REFRESH;
    def(m, "multiply", multiply, "rows"_a, "x"_a, "out"_a, "first"_a, "last"_a,
        "``out = Theta x`` for the nodes ``first .. last - 1``; returns ``<x, out>`` and ``<out, out>`` over them.");
    def(m, "multiply_live", multiply_live, "rows"_a, "x"_a, "out"_a, "first"_a, "last"_a, "live"_a,
        "`multiply` for an ``x`` whose rows are zero where ``live`` lacks `STEPPED`.");
    def(m, "products", products, "x"_a, "y"_a, "n_states"_a, "first"_a, "last"_a,
        "``<x, y>`` and ``<y, y>``: what `multiply` returns, for a product that was made elsewhere.");
    def(m, "direction", direction, "mu"_a, "grad"_a, "n_states"_a, "first"_a, "last"_a, "alpha"_a, "pull"_a, "low"_a, "live"_a, "z"_a, "work"_a,
        "``pull = P(mu - alpha grad) - mu``; returns ``<grad, pull>`` and ``<pull, pull>``.");
    def(m, "advance", advance, "mu"_a, "grad"_a, "step"_a, "turn"_a, "theta"_a, "n_states"_a, "first"_a, "last"_a, "length"_a, "low"_a, "live"_a,
        "state"_a, "``mu += length * step``, ``grad += length * turn``; value, Frank-Wolfe gap and their scale go to ``state``.");
    def(m, "is_done", is_done, "state"_a, "tol"_a,
        "Whether the gap is at most ``tol`` of the value, at most what is allowed, or nothing but rounding.");
    def(m, "search", search, "slope"_a, "square"_a, "curvature"_a, "state"_a,
        "Length of the step and the next spectral step, both without a further product.");
    def(m, "conjugate", conjugate, "mu"_a, "grad"_a, "pull"_a, "back"_a, "step"_a, "n_states"_a, "first"_a, "last"_a, "slope"_a, "square"_a,
        "state"_a, "low"_a, "live"_a, "z"_a, "work"_a,
        "Turn the step of the projected gradient, ``pull``, by the last ``step``, which it replaces; returns slope and square.");
    def(m, "is_indefinite", is_indefinite, "square"_a, "curvature"_a, "turn_square"_a, "state"_a,
        "Whether a step, its product and their inner product show a negative curvature that is not rounding.");
    def(m, "begin", begin, "mu"_a, "grad"_a, "theta"_a, "n_states"_a, "first"_a, "last"_a, "low"_a, "live"_a, "state"_a,
        "Fill ``state`` from a gradient that was just computed.");
    def(m, "descend", descend, "rows"_a, "theta"_a, "mu"_a, "grad"_a, "pull"_a, "back"_a, "step"_a, "turn"_a, "low"_a, "live"_a, "starts"_a, "part"_a,
        "n_parts"_a, "tol"_a, "n_steps"_a, "max_iter"_a, "states"_a,
        "Up to ``n_steps`` iterations on each of the parts ``part .. n_parts - 1`` that still runs; returns how many still do.");
}

} // namespace maxsum
