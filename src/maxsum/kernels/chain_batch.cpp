// Many chains that share one table: sums over all labellings with marginals, and best labellings with a bracket; what layers of networks ask for.
//
// Chain b has the scores unary[b, 0 .. lengths[b] - 1]; rows after its length are never read. Every chain is summed in the same order whatever else
// is in the batch, and writes its own part of the results, so threads may take ranges of chains. Scores and entries of the table may be -inf.
#include "mix.hpp"
#include "poll.hpp"

namespace maxsum {

// Exponentials of finite scores that differ by at most SPREAD stay above 1e-44, and entries of a scaled row that are not 0 above FAINTEST: so no
// product of a row, the table and a node's scores underflows, and what is 0 is forbidden.
constexpr double SPREAD = 100.0;
constexpr double FAINTEST = 1e-150;

// The table of all edges, its exponentials, and these turned round.
struct SharedTable {
    Array<const double, 2> table;
    double peak = 0.0;
    bool is_safe = true; // whether products may be used at all
    std::vector<double> bank, turned;

    explicit SharedTable(Array<const double, 2> given) : table(given) {
        const i64 n = given.shape[0];
        double low = INF;
        peak = -INF;
        for (i64 i = 0; i < n * n; i++) {
            peak = std::max(peak, given.data[i]);
            if (given.data[i] > -INF) low = std::min(low, given.data[i]);
        }
        if (!(peak > -INF)) peak = 0.0;
        is_safe = low == INF || peak - low <= SPREAD;
        bank.resize(n * n);
        turned.resize(n * n);
        for (i64 k = 0; k < n; k++) {
            for (i64 m = 0; m < n; m++) turned[m * n + k] = bank[k * n + m] = std::exp(given.data[k * n + m] - peak);
        }
    }
};

// Divide a row by its sum; false where a positive entry is too small beside it, or all are 0.
static bool scale(double *row, i64 n, double *total) {
    double sum = 0.0, low = INF;
    for (i64 k = 0; k < n; k++) {
        sum += row[k];
        low = row[k] > 0.0 && row[k] < low ? row[k] : low;
    }
    *total = sum;
    if (!(sum > 0.0) || !(low > FAINTEST * sum)) return false;
    const double factor = 1.0 / sum;
    for (i64 k = 0; k < n; k++) row[k] *= factor;
    return true;
}

struct Sum {
    bool quick;
    double log_z;
};

// Sum of one chain in scaled products, K^2 multiplications an edge and no exponential. `node` (length, K) is the place of the rows a_t and then of
// the marginals, `scores` (length, K) scratch, `pairs` (K, K) gets the sums of a_t(k) r_t+1(m), to be multiplied by the bank.
static Sum chain_products(const SharedTable &shared, const double *unary, i64 length, double *node, double *scores, double *pairs, double *work) {
    const i64 n = shared.table.shape[0];
    double log_z = double(length - 1) * shared.peak, total;
    for (i64 t = 0; t < length; t++) {
        const double *row = unary + t * n;
        double top = -INF, low = INF;
        for (i64 k = 0; k < n; k++) {
            top = std::max(top, row[k]);
            low = row[k] > -INF && row[k] < low ? row[k] : low;
        }
        if (!(top > -INF) || top - low > SPREAD) return {false, 0.0};
        for (i64 k = 0; k < n; k++) scores[t * n + k] = std::exp(row[k] - top);
        log_z += top;
    }
    // Forwards: a_t(m) = s_t(m) sum_k a_t-1(k) G(k, m), scaled to a sum of 1.
    for (i64 t = 0; t < length; t++) {
        double *here = node + t * n;
        const double *own = scores + t * n;
        if (t == 0) {
            for (i64 k = 0; k < n; k++) here[k] = own[k];
        } else {
            mix(here - n, n, shared.bank.data(), n, n, here);
            for (i64 k = 0; k < n; k++) here[k] *= own[k];
        }
        if (!scale(here, n, &total)) return {false, 0.0};
        log_z += std::log(total);
    }
    // Backwards: b_t(k) = sum_m G(k, m) r_t+1(m) with r_t = s_t b_t; marginals are a_t b_t, and pairs a_t(k) G(k, m) r_t+1(m), each scaled to a sum
    // of 1.
    double *next = work, *back = work + n;
    for (i64 i = 0; i < n * n; i++) pairs[i] = 0.0;
    for (i64 k = 0; k < n; k++) next[k] = scores[(length - 1) * n + k];
    for (i64 t = length - 2; t >= 0; t--) {
        double *here = node + t * n;
        mix(next, n, shared.turned.data(), n, n, back);
        if (!scale(back, n, &total)) return {false, 0.0};
        double product = 0.0;
        for (i64 k = 0; k < n; k++) product += here[k] * back[k];
        if (!(product > FAINTEST)) return {false, 0.0};
        const double factor = 1.0 / product, shift = factor / total;
        for (i64 k = 0; k < n; k++) {
            const double share = here[k] * shift;
            double *__restrict out = pairs + k * n;
            for (i64 m = 0; m < n; m++) out[m] += share * next[m];
        }
        for (i64 k = 0; k < n; k++) {
            here[k] *= back[k] * factor;
            next[k] = scores[t * n + k] * back[k];
        }
    }
    for (i64 i = 0; i < n * n; i++) pairs[i] *= shared.bank[i];
    return {true, log_z};
}

// The same in logarithms, for scores of any size; `node` is the place of the forward sums and then of the marginals.
static double chain_logarithms(const SharedTable &shared, const double *unary, i64 length, double *node, double *pairs, double *work) {
    const i64 n = shared.table.shape[0];
    const double *table = shared.table.data;
    double *later = work, *own = work + n;
    const auto log_sum = [&](auto term) {
        double top = -INF, total = 0.0;
        for (i64 k = 0; k < n; k++) top = std::max(top, term(k));
        if (!(top > -INF)) return -INF;
        for (i64 k = 0; k < n; k++) total += std::exp(term(k) - top);
        return top + std::log(total);
    };
    for (i64 i = 0; i < n * n; i++) pairs[i] = 0.0;
    for (i64 t = 0; t < length; t++) {
        for (i64 m = 0; m < n; m++) {
            const double before = t == 0 ? 0.0 : log_sum([&](i64 k) { return node[(t - 1) * n + k] + table[k * n + m]; });
            node[t * n + m] = before + unary[t * n + m];
        }
    }
    const double *last = node + (length - 1) * n;
    const double log_z = log_sum([&](i64 k) { return last[k]; });
    if (!(log_z > -INF)) {
        std::fill(node, node + length * n, 0.0);
        return log_z;
    }
    for (i64 k = 0; k < n; k++) later[k] = 0.0; // log of the sum over all that follows
    for (i64 t = length - 1; t >= 0; t--) {
        double *here = node + t * n;
        if (t < length - 1) {
            const double *scores = unary + (t + 1) * n;
            for (i64 k = 0; k < n; k++) {
                for (i64 m = 0; m < n; m++) {
                    const double joint = here[k] + table[k * n + m] + scores[m] + later[m] - log_z;
                    if (joint > -INF) pairs[k * n + m] += std::exp(joint);
                }
                own[k] = log_sum([&](i64 m) { return table[k * n + m] + scores[m] + later[m]; });
            }
            for (i64 k = 0; k < n; k++) later[k] = own[k];
        }
        for (i64 k = 0; k < n; k++) here[k] = std::exp(here[k] + later[k] - log_z);
    }
    return log_z;
}

// log Z of the chains first .. last - 1, the marginals of their nodes, and sums of the marginals of their edges, (K, K) a chain.
//
// Rows of `node` after the length of a chain are set to 0. A chain without any labelling has -inf and marginals 0, one of length 0 has 0.
static void log_sums(Array<const double, 3> unary, Array<const i64> lengths, Array<const double, 2> table, i64 first, i64 last, Array<double> log_z,
                     Array<double, 3> node, Array<double, 3> edge) {
    const i64 steps = unary.shape[1], n = unary.shape[2];
    const SharedTable shared(table);
    std::vector<double> scores(std::max<i64>(steps * n, 1)), work(2 * n);
    Poll poll(1);
    for (i64 b = first; b < last; b++) {
        poll();
        const double *own = unary[b].data;
        double *rows = node[b].data, *pairs = edge[b].data;
        const i64 length = lengths[b];
        std::fill(rows + length * n, rows + steps * n, 0.0);
        if (length == 0) {
            std::fill(pairs, pairs + n * n, 0.0);
            log_z[b] = 0.0;
            continue;
        }
        Sum found{false, 0.0};
        if (shared.is_safe) found = chain_products(shared, own, length, rows, scores.data(), pairs, work.data());
        log_z[b] = found.quick ? found.log_z : chain_logarithms(shared, own, length, rows, pairs, work.data());
    }
}

// Best labellings of the chains first .. last - 1 (Viterbi), with the score and the bound of each.
//
// `score` is that of the labelling, added up term by term; `bound` is the maximum that the forward pass found, with all that rounding can hide in it
// and in the score: no labelling is better. Ties go to the lowest label, from the last node on. A chain without any labelling has the score and the
// bound -inf. Labels after the length are `fill`.
static void best_chains(Array<const double, 3> unary, Array<const i64> lengths, Array<const double, 2> table, i64 first, i64 last, i64 fill,
                        Array<i64, 2> labels, Array<double> score, Array<double> bound) {
    const i64 steps = unary.shape[1], n = unary.shape[2];
    constexpr double EPS = std::numeric_limits<double>::epsilon();
    std::vector<double> memory(std::max<i64>(steps * n, 1)), work(n);
    const double *g = table.data;
    Poll poll(1);
    for (i64 b = first; b < last; b++) {
        poll();
        const double *own = unary[b].data;
        i64 *found = labels[b].data;
        const i64 length = lengths[b];
        for (i64 t = length; t < steps; t++) found[t] = fill;
        score[b] = bound[b] = 0.0;
        if (length == 0) continue;
        double *forward = memory.data(), size = 0.0;
        for (i64 k = 0; k < n; k++) forward[k] = own[k];
        for (i64 t = 1; t < length; t++) {
            const double *before = forward + (t - 1) * n, *row = own + t * n;
            double *__restrict here = forward + t * n;
            for (i64 m = 0; m < n; m++) here[m] = -INF;
            i64 k = 0;
            for (; k + 4 <= n; k += 4) {
                const double a = before[k], c = before[k + 1], d = before[k + 2], e = before[k + 3];
                const double *one = g + k * n, *two = one + n, *three = two + n, *four = three + n;
                for (i64 m = 0; m < n; m++) {
                    const double low = std::max(a + one[m], c + two[m]), high = std::max(d + three[m], e + four[m]);
                    here[m] = std::max(here[m], std::max(low, high));
                }
            }
            for (; k < n; k++) {
                const double a = before[k];
                for (i64 m = 0; m < n; m++) here[m] = std::max(here[m], a + g[k * n + m]);
            }
            for (i64 m = 0; m < n; m++) here[m] += row[m];
        }
        for (i64 i = 0; i < length * n; i++) size = std::max(size, forward[i] > -INF ? std::abs(forward[i]) : 0.0);
        const auto best = [&](const double *values) {
            i64 label = 0;
            for (i64 k = 1; k < n; k++) label = values[k] > values[label] ? k : label;
            return label;
        };
        found[length - 1] = best(forward + (length - 1) * n);
        const double top = forward[(length - 1) * n + found[length - 1]];
        if (!(top > -INF)) {
            score[b] = bound[b] = -INF;
            std::fill(found, found + length, fill);
            continue;
        }
        double total = own[(length - 1) * n + found[length - 1]];
        for (i64 t = length - 2; t >= 0; t--) {
            for (i64 k = 0; k < n; k++) work[k] = forward[t * n + k] + g[k * n + found[t + 1]];
            found[t] = best(work.data());
            total += own[t * n + found[t]] + g[found[t] * n + found[t + 1]];
        }
        score[b] = total;
        bound[b] = std::max(total, top + 4.0 * double(length + 1) * EPS * size);
    }
}

// Scores of given labellings of the chains first .. last - 1; where `node` and `edge` are not empty, `amount[b]` times their indicators is added
// there.
static void score_chains(Array<const double, 3> unary, Array<const i64> lengths, Array<const double, 2> table, Array<const i64, 2> labels, i64 first,
                         i64 last, Array<const double> amount, Array<double> score, Array<double, 3> node, Array<double, 3> edge) {
    const i64 n = unary.shape[2];
    const bool adds = node.count() > 0;
    for (i64 b = first; b < last; b++) {
        double total = 0.0;
        for (i64 t = 0; t < lengths[b]; t++) {
            const i64 y = labels(b, t);
            total += unary(b, t, y);
            if (adds) node(b, t, y) += amount[b];
            if (t > 0) {
                const i64 x = labels(b, t - 1);
                total += table.data[x * n + y];
                if (adds) edge(b, x, y) += amount[b];
            }
        }
        score[b] = total;
    }
}

void bind_chain_batch(nb::module_ &m) {
    def(m, "log_sums", log_sums, "unary"_a, "lengths"_a, "table"_a, "first"_a, "last"_a, "log_z"_a, "node"_a, "edge"_a,
        "Logarithms of the sums over labellings of the chains ``first .. last - 1``, the marginals of nodes, and sums of those of edges.");
    def(m, "best_chains", best_chains, "unary"_a, "lengths"_a, "table"_a, "first"_a, "last"_a, "fill"_a, "labels"_a, "score"_a, "bound"_a,
        "Best labellings of the chains ``first .. last - 1``, their scores, and bounds that no labelling exceeds.");
    def(m, "score_chains", score_chains, "unary"_a, "lengths"_a, "table"_a, "labels"_a, "first"_a, "last"_a, "amount"_a, "score"_a, "node"_a,
        "edge"_a,
        "Scores of given labellings of the chains ``first .. last - 1``; ``amount`` times their indicators is added to ``node`` and ``edge``.");
}

} // namespace maxsum
