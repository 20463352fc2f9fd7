#include "assignment.hpp"

namespace maxsum {

// Give a row a label along the shortest augmenting path; false where there is none.
bool Assignment::insert(i64 row) {
    std::fill(shortest.begin(), shortest.end(), INF);
    std::fill(row_seen.begin(), row_seen.end(), 0);
    std::fill(column_seen.begin(), column_seen.end(), 0);
    i64 n_remaining = n_labels, sink = -1, i = row;
    for (i64 k = 0; k < n_labels; k++) remaining[k] = i32(k);
    double length = 0.0;
    while (sink < 0) {
        row_seen[i] = 1;
        const double *own = psi + i * n_labels;
        double lowest = INF;
        i64 at = -1;
        for (i64 r = 0; r < n_remaining; r++) {
            const i64 k = remaining[r];
            const double reach = length - own[k] - u[i] - v[k];
            if (reach < shortest[k]) shortest[k] = reach, path[k] = i32(i);
            // Among equals a free label ends the search at once.
            if (shortest[k] < lowest || (shortest[k] == lowest && lowest < INF && row_of[k] < 0)) lowest = shortest[k], at = r;
        }
        if (at < 0) return false;
        length = lowest;
        const i64 k = remaining[at];
        column_seen[k] = 1;
        remaining[at] = remaining[--n_remaining];
        if (row_of[k] < 0) {
            sink = k;
        } else {
            i = row_of[k];
        }
    }
    u[row] += length;
    for (i64 r = 0; r < n; r++) {
        if (row_seen[r] && r != row) u[r] += length - shortest[column_of[r]];
    }
    for (i64 k = 0; k < n_labels; k++) {
        if (column_seen[k]) v[k] -= length - shortest[k];
    }
    for (i64 k = sink, r = -1; r != row;) {
        r = path[k];
        row_of[k] = i32(r);
        const i64 left = column_of[r];
        column_of[r] = i32(k);
        k = left;
    }
    return true;
}

double Assignment::solve(const double *given, i64 n_rows, i64 n_columns, Poll &poll) {
    psi = given, n = n_rows, n_labels = n_columns, top = -INF;
    if (n > n_labels) return top;
    u.assign(n, 0.0), v.assign(n_labels, 0.0);
    column_of.assign(n, -1), row_of.assign(n_labels, -1);
    shortest.resize(n_labels), path.resize(n_labels), remaining.resize(n_labels), column_seen.resize(n_labels), row_seen.resize(n);
    for (i64 i = 0; i < n; i++) {
        poll(u64(n_labels));
        if (!insert(i)) return top;
    }
    double sum = 0.0;
    for (i64 i = 0; i < n; i++) sum += psi[i * n_labels + column_of[i]];
    return top = sum;
}

// Length of the arc from each row to the node of free labels.
void Assignment::find_free() {
    to_free.assign(n + 1, INF);
    if (n == n_labels) return;
    for (i64 i = 0; i < n; i++) {
        for (i64 k = 0; k < n_labels; k++) {
            if (row_of[k] < 0) to_free[i] = std::min(to_free[i], reduced(i, k));
        }
    }
    to_free[n] = 0.0;
}

void Assignment::marginals(double *out, Poll &poll) {
    if (top == -INF) {
        std::fill(out, out + n * n_labels, -INF);
        return;
    }
    const i64 size = n + 1; // node n: the labels that are free
    find_free();
    distance.resize(size * size);
    for (i64 i = 0; i < n; i++) {
        double *own = distance.data() + i * size;
        for (i64 j = 0; j < n; j++) own[j] = i == j ? 0.0 : reduced(i, column_of[j]);
        own[n] = to_free[i];
        distance[n * size + i] = n < n_labels ? -v[column_of[i]] : INF;
    }
    distance[n * size + n] = 0.0;
    for (i64 by = 0; by < size; by++) { // all pairs (Floyd 1962)
        const double *__restrict second = distance.data() + by * size;
        for (i64 i = 0; i < size; i++) {
            const double first = distance[i * size + by];
            if (i == by || first == INF) continue;
            double *__restrict own = distance.data() + i * size;
            for (i64 j = 0; j < size; j++) {
                const double around = first + second[j];
                own[j] = around < own[j] ? around : own[j];
            }
            poll(u64(size) / 8);
        }
    }
    for (i64 i = 0; i < n; i++) {
        for (i64 k = 0; k < n_labels; k++) {
            const i64 from = row_of[k] < 0 ? n : row_of[k];
            const bool can = psi[i * n_labels + k] > -INF;
            out[i * n_labels + k] = from == i ? top : can ? top - (reduced(i, k) + distance[from * size + i]) : -INF;
        }
    }
}

void Assignment::marginals_of(i64 i, double *out) {
    if (top == -INF) {
        std::fill(out, out + n_labels, -INF);
        return;
    }
    // Shortest paths from all nodes to row i (Dijkstra 1959, on a dense graph).
    const i64 size = n + 1;
    find_free();
    distance.assign(size, INF);
    row_seen.assign(size, 0);
    distance[i] = 0.0;
    for (i64 round = 0; round < size; round++) {
        i64 next = -1;
        for (i64 x = 0; x < size; x++) {
            if (!row_seen[x] && distance[x] < INF && (next < 0 || distance[x] < distance[next])) next = x;
        }
        if (next < 0) break;
        row_seen[next] = 1;
        for (i64 x = 0; x < size; x++) {
            if (row_seen[x]) continue;
            double arc = INF;
            if (next == n) {
                arc = to_free[x];
            } else if (x == n) {
                arc = n < n_labels ? -v[column_of[next]] : INF;
            } else {
                arc = reduced(x, column_of[next]);
            }
            distance[x] = std::min(distance[x], distance[next] + arc);
        }
    }
    for (i64 k = 0; k < n_labels; k++) {
        const i64 from = row_of[k] < 0 ? n : row_of[k];
        out[k] = from == i ? top : psi[i * n_labels + k] > -INF ? top - (reduced(i, k) + distance[from]) : -INF;
    }
}

namespace {

// A matching of members and labels, and the components of the graph in which a member points at those that have a label it could take.
class Matching {
    const u8 *domain;
    i64 n, n_labels;
    std::vector<i32> column_of, row_of, from, queue;
    std::vector<i32> number, low, component, stack;
    i32 visited = 0, n_components = 0;

    // Breadth first from a member without a label; false where it cannot get one.
    bool insert(i64 row) {
        std::fill(from.begin(), from.end(), -1);
        i64 head = 0, tail = 0;
        queue[tail++] = i32(row);
        while (head < tail) {
            const i64 i = queue[head++];
            for (i64 k = 0; k < n_labels; k++) {
                if (!domain[i * n_labels + k] || from[k] >= 0) continue;
                from[k] = i32(i);
                if (row_of[k] >= 0) {
                    queue[tail++] = row_of[k];
                    continue;
                }
                for (i64 at = k; at >= 0;) {
                    const i64 r = from[at], left = column_of[r];
                    row_of[at] = i32(r), column_of[r] = i32(at);
                    at = r == row ? -1 : left;
                }
                return true;
            }
        }
        return false;
    }

    // Node that label k of node x leads to (n: the labels that are free, from where every member is reached), or -1.
    i64 target(i64 x, i64 k) const {
        if (x == n) return row_of[k];
        return !domain[x * n_labels + k] ? -1 : row_of[k] >= 0 ? row_of[k] : n;
    }

    // Strongly connected components (Tarjan 1972) without recursion.
    void find_components(i64 root) {
        std::vector<i32> open{i32(root)};
        std::vector<i64> at{0};
        number[root] = low[root] = visited++;
        stack.push_back(i32(root));
        while (!open.empty()) {
            const i64 x = open.back();
            if (at.back() < n_labels) {
                const i64 y = target(x, at.back()++);
                if (y < 0) continue;
                if (number[y] < 0) {
                    number[y] = low[y] = visited++;
                    stack.push_back(i32(y)), open.push_back(i32(y)), at.push_back(0);
                } else if (component[y] < 0) {
                    low[x] = std::min(low[x], number[y]);
                }
                continue;
            }
            if (low[x] == number[x]) {
                for (i64 y = -1; y != x; stack.pop_back()) component[y = stack.back()] = n_components;
                n_components += 1;
            }
            open.pop_back(), at.pop_back();
            if (!open.empty()) low[open.back()] = std::min(low[open.back()], low[x]);
        }
    }

  public:
    Matching(const u8 *domain, i64 n, i64 n_labels)
        : domain(domain), n(n), n_labels(n_labels), column_of(n, -1), row_of(n_labels, -1), from(n_labels), queue(n + 1), number(n + 1, -1),
          low(n + 1, 0), component(n + 1, -1) {}

    bool solve() {
        for (i64 i = 0; i < n; i++) {
            if (!insert(i)) return false;
        }
        for (i64 x = 0; x <= n; x++) {
            if (number[x] < 0) find_components(x);
        }
        return true;
    }
    bool supports(i64 i, i64 k) const { return row_of[k] < 0 || component[row_of[k]] == component[i]; }
};

} // namespace

// A label is in an assignment if the matching gives it, if nobody has it, or if who has it can go on until somebody takes what is left (Regin 1994).
bool all_different_support(u8 *domain, i64 n, i64 n_labels) {
    if (n > n_labels) return false;
    Matching matching(domain, n, n_labels);
    if (!matching.solve()) return false;
    for (i64 i = 0; i < n; i++) {
        for (i64 k = 0; k < n_labels; k++) domain[i * n_labels + k] = domain[i * n_labels + k] && matching.supports(i, k);
    }
    return true;
}

// The best assignment of the rows of `scores` to different columns into `chosen`; returns its sum, -inf where there is none.
static double assign(Array<const double, 2> scores, Array<i32> chosen) {
    Assignment assignment;
    Poll poll;
    const double top = assignment.solve(scores.data, scores.shape[0], scores.shape[1], poll);
    if (top > -INF) std::copy(assignment.column_of.begin(), assignment.column_of.end(), chosen.begin());
    return top;
}

static Flag support(Array<u8, 2> domain) { return {all_different_support(domain.data, domain.shape[0], domain.shape[1])}; }

void bind_assignment(nb::module_ &m) {
    def(m, "assign", assign, "scores"_a, "chosen"_a,
        "The best assignment of the rows of ``scores`` to different columns into ``chosen`` (int32); returns its sum, ``-inf`` where there is none.");
    def(m, "all_different_support", support, "domain"_a,
        "Remove from the domains (uint8, one row a member) what is in no choice of different labels for all (Regin 1994); False where there is none, "
        "and then the domains are as they were.");
}

} // namespace maxsum
