// Second-order Viterbi by hand, for the benchmark only: ternary tables on nodes (i, i + 1, i + 2), K labels, one table for all (step 0) or one each.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

// M_i(b, c) = max_a q_i(a) + M_{i-1}(a, b) + h_i(a, b, c) for nodes i + 1 and i + 2; `back` keeps the best a. Returns the best score.
extern "C" double second_order_viterbi(int64_t n, int64_t K, const double *unary, const double *tables, int64_t step, int32_t *labels) {
    const double lowest = -std::numeric_limits<double>::infinity();
    std::vector<double> old(K * K, 0.0), now(K * K);
    std::vector<uint8_t> back(static_cast<std::size_t>((n - 2) * K * K));
    for (int64_t i = 0; i + 2 < n; ++i) {
        const double *q = unary + i * K, *table = tables + i * step;
        uint8_t *from = back.data() + i * K * K;
        for (int64_t b = 0; b < K; ++b) {
            double *row = now.data() + b * K;
            uint8_t *where = from + b * K;
            for (int64_t c = 0; c < K; ++c) row[c] = lowest, where[c] = 0;
            for (int64_t a = 0; a < K; ++a) {
                const double before = q[a] + old[a * K + b];
                const double *h = table + (a * K + b) * K;
                for (int64_t c = 0; c < K; ++c) {
                    const double value = before + h[c];
                    if (value > row[c]) row[c] = value, where[c] = static_cast<uint8_t>(a);
                }
            }
        }
        std::swap(old, now);
    }
    double best = lowest;
    for (int64_t b = 0; b < K; ++b) {
        for (int64_t c = 0; c < K; ++c) {
            const double value = old[b * K + c] + unary[(n - 2) * K + b] + unary[(n - 1) * K + c];
            if (value > best) best = value, labels[n - 2] = static_cast<int32_t>(b), labels[n - 1] = static_cast<int32_t>(c);
        }
    }
    for (int64_t i = n - 3; i >= 0; --i) labels[i] = back[(i * K + labels[i + 1]) * K + labels[i + 2]];
    return best;
}

// The same without pointers back: messages are kept, and the best label is looked for again on the way back.
extern "C" double second_order_viterbi_kept(int64_t n, int64_t K, const double *unary, const double *tables, int64_t step, int32_t *labels) {
    const double lowest = -std::numeric_limits<double>::infinity();
    std::vector<double> kept(static_cast<std::size_t>((n - 1) * K * K), 0.0);
    for (int64_t i = 0; i + 2 < n; ++i) {
        const double *q = unary + i * K, *table = tables + i * step, *__restrict old = kept.data() + i * K * K;
        double *__restrict now = kept.data() + (i + 1) * K * K;
        for (int64_t b = 0; b < K; ++b) {
            double *__restrict row = now + b * K;
            for (int64_t c = 0; c < K; ++c) row[c] = lowest;
            for (int64_t a = 0; a < K; ++a) {
                const double before = q[a] + old[a * K + b];
                const double *__restrict h = table + (a * K + b) * K;
                for (int64_t c = 0; c < K; ++c) row[c] = std::max(row[c], before + h[c]);
            }
        }
    }
    const double *old = kept.data() + (n - 2) * K * K;
    double best = lowest;
    for (int64_t b = 0; b < K; ++b) {
        for (int64_t c = 0; c < K; ++c) {
            const double value = old[b * K + c] + unary[(n - 2) * K + b] + unary[(n - 1) * K + c];
            if (value > best) best = value, labels[n - 2] = static_cast<int32_t>(b), labels[n - 1] = static_cast<int32_t>(c);
        }
    }
    for (int64_t i = n - 3; i >= 0; --i) {
        const int64_t b = labels[i + 1], c = labels[i + 2];
        const double *q = unary + i * K, *table = tables + i * step, *message = kept.data() + i * K * K;
        double top = lowest;
        for (int64_t a = 0; a < K; ++a) {
            const double value = q[a] + message[a * K + b] + table[(a * K + b) * K + c];
            if (value > top) top = value, labels[i] = static_cast<int32_t>(a);
        }
    }
    return best;
}
