// Factors: terms over any number of nodes, by the form of their scores. kernels/records.py tells what the arrays hold.
//
// psi is always a matrix with a row of K numbers for each member of a factor, in the order of its slots; -inf forbids a label. Labels that a node
// does not have (beyond n_states) are forbidden whatever psi says.
#pragma once

#include "assignment.hpp"
#include "poll.hpp"

namespace maxsum {

struct FactorNet {
    Array<const i32> n_states;
    Array<const double, 2> unary;
    Array<const i64> ptr;
    Array<const i32> nodes;
    Array<const i32> kind;
    Array<const i64> start;
    Array<const double> scores;
    Array<const u8, 2> counted;
    Array<const i64> level;
    Array<const i32> width;
    Array<const i32> final_width;
    Array<const i32> step;
    Array<const i64> member_ptr;
    Array<const i32> member;
    MAXSUM_RECORD(FactorNet, n_states, unary, ptr, nodes, kind, start, scores, counted, level, width, final_width, step, member_ptr, member)
};

enum Kind : i32 { TABLE, AGREEMENT, CARDINALITY, AUTOMATON, ALL_DIFFERENT };

// A function of the number of members whose label counts. With the members that have the choice sorted by what counting gains them, the best tuple of
// m of them is the first m.
class Counting {
    friend class Tally;
    struct Gain {
        double gain;
        i32 member;
    };
    std::vector<double> with, without; // best psi over the labels that count and over those that do not
    std::vector<Gain> order;           // members that have both, the largest gain first
    std::vector<double> sum;           // sum[m]: what the first m of them gain
    std::vector<double> inside, outside;
    const double *score = nullptr; // scores[start + number of members that must count]
    double base = 0.0;

  public:
    double top = -INF; // the maximum; -inf where there is none, and then nothing else is set
    i64 chosen = 0;    // it is reached with the first `chosen` members of the order

    double solve(const FactorNet &net, i64 f, const double *psi);
    void marginals(const FactorNet &net, i64 f, const double *psi, double *out);
    // A price of counting with which the factor and its members reach the maximum together, each by itself; nan where there is none.
    double price() const;
    // Which members count in the best tuple.
    void best(i64 n, u8 *counts) const;
};

// Scratch of one thread: it grows to what the largest factor takes.
struct Room {
    std::vector<double> front[2], back[2]; // of tables
    std::vector<i64> behind;               // of tables: number of cells over the members from i on
    std::vector<double> number;
    std::vector<double> layer; // of automata
    std::vector<i64> layer_at;
    Counting counting;
    Assignment assignment;
    Poll poll;
};

// A layer of an automaton: from state s before a slot, label k leads to step[s * n_labels + k], where that is not negative.
struct Layer {
    const i32 *step;
    i64 before, after, n_labels, states;

    // next[t] = max of alpha[s] + psi[k] over what leads to t.
    void forward(const double *alpha, const double *psi, double *next) const;
    // beta[s] = max_k psi[k] + next[step(s, k)].
    void backward(const double *next, const double *psi, double *beta) const;
    // out[k] = max_s alpha[s] + next[step(s, k)].
    void between(const double *alpha, const double *next, double *out) const;
};

Layer layer_of(const FactorNet &net, i64 f, i64 slot);

// out[i, k] = max over tuples with t_i = k of theta_f(t) + sum_j psi_j(t_j); returns the maximum of all.
double max_marginals(const FactorNet &net, i64 f, const double *psi, double *out, Room &room);

// The maximum alone.
double factor_top(const FactorNet &net, i64 f, const double *psi, Room &room);

// out[k] = max over tuples with t_i = k of theta_f(t) + sum_{j != i} psi_j(t_j) of a factor of kind TABLE, for its member i; psi_i is not read.
void table_holds(const FactorNet &net, i64 f, i64 i, const double *psi, double *out, Room &room);

// theta_f(t) of a labelling of all nodes.
double factor_score(const FactorNet &net, i64 f, const i32 *labels);

// Factor of each slot.
std::vector<i32> owners(const FactorNet &net);

// Messages with -inf at labels that are forbidden.
inline void mask(const FactorNet &net, double *messages) {
    const i64 n_labels = net.unary.shape[1];
    for (i64 i = 0; i < net.nodes.size(); i++) {
        const double *unary = net.unary[net.nodes[i]].data;
        double *row = messages + i * n_labels;
        for (i64 k = 0; k < n_labels; k++) row[k] = unary[k] > -INF ? row[k] : -INF;
    }
}

// theta = q_v - sum of the (masked) messages of its slots, -inf where a label is forbidden; returns the maximum.
inline double node_scores(const FactorNet &net, i64 v, const double *messages, double *__restrict theta) {
    const i64 n_labels = net.unary.shape[1];
    const double *__restrict unary = net.unary[v].data;
    for (i64 k = 0; k < n_labels; k++) theta[k] = unary[k];
    for (i64 j = net.member_ptr[v]; j < net.member_ptr[v + 1]; j++) {
        const double *__restrict row = messages + net.member[j] * n_labels;
        for (i64 k = 0; k < n_labels; k++) theta[k] -= row[k];
    }
    for (i64 k = 0; k < n_labels; k++) theta[k] = unary[k] > -INF ? theta[k] : -INF;
    return largest(theta, n_labels);
}

} // namespace maxsum

MAXSUM_RECORD_CASTER(FactorNet)
