// Different labels for all: assignment of members (rows) to labels (columns), each label taken at most once.
#pragma once

#include "poll.hpp"

namespace maxsum {

// A maximal assignment by shortest augmenting paths with potentials (Jonker & Volgenant 1987), and what it costs to force one pair.
//
// With costs -psi and potentials u, v the reduced costs -psi(i, k) - u_i - v_k are not negative, and 0 where i has k; v is 0 at labels that nobody
// has and not positive elsewhere. If i is forced from its own label to k, whoever had k has to move on, and so forth, until somebody takes the label
// that i left, or one that nobody had. So the price is a reduced cost and a shortest path in a graph with a node for each row (its label is wanted)
// and one for all labels that are free; from there an arc of length -v leads to each row, whose label becomes free instead.
class Assignment {
    const double *psi = nullptr;
    i64 n = 0, n_labels = 0;
    std::vector<double> u, v, shortest, distance, to_free;
    std::vector<i32> path, remaining;
    std::vector<u8> row_seen, column_seen;

    double reduced(i64 i, i64 k) const {
        const double cost = -psi[i * n_labels + k] - u[i] - v[k];
        return cost > 0.0 ? cost : 0.0;
    }
    bool insert(i64 row);
    void find_free();

  public:
    std::vector<i32> column_of, row_of; // label of each member, and who has each label (-1: nobody)
    double top = -INF;

    // The maximum over assignments of the n rows of psi, which stays in use; -inf where there is none.
    double solve(const double *psi, i64 n, i64 n_labels, Poll &poll);
    // After `solve`: out[i, k] = the maximum over assignments with k at i.
    void marginals(double *out, Poll &poll);
    // The same for one member.
    void marginals_of(i64 i, double *out);
};

// Remove from the domains (n, K) what is in no assignment; false where there is none, and then the domains are as they were.
bool all_different_support(u8 *domain, i64 n, i64 n_labels);

} // namespace maxsum
