// Labels that hard constraints leave: generalised arc consistency.
#include "factors.hpp"

namespace maxsum {

namespace {

// Remove from the domains of the members of a factor what no tuple with a finite score has; false where there is no such tuple.
class Supports {
    const FactorNet net;
    const i64 n_labels;
    std::vector<double> psi, out;
    Room room;

  public:
    explicit Supports(const FactorNet &net) : net(net), n_labels(net.unary.shape[1]) {}

    bool operator()(i64 f, u8 *domain) {
        const i64 first = net.ptr[f], n = net.ptr[f + 1] - first;
        room.poll(1 + u64(n));
        for (i64 i = 0; i < n; i++) {
            for (i64 k = net.n_states[net.nodes[first + i]]; k < n_labels; k++) domain[i * n_labels + k] = 0;
        }
        if (net.kind[f] == ALL_DIFFERENT) return all_different_support(domain, n, n_labels);
        // Max-marginals of 0 and -inf are finite where there is a tuple, and that is not a matter of rounding.
        if (i64(psi.size()) < n * n_labels) psi.resize(n * n_labels), out.resize(n * n_labels);
        for (i64 at = 0; at < n * n_labels; at++) psi[at] = domain[at] ? 0.0 : -INF;
        if (max_marginals(net, f, psi.data(), out.data(), room) == -INF) return false;
        for (i64 at = 0; at < n * n_labels; at++) domain[at] = out[at] > -INF;
        return true;
    }
};

} // namespace

static Flag support(const FactorNet &net, i64 factor, Array<u8, 2> domain) { return {Supports(net)(factor, domain.data)}; }

static Flag consistency(const FactorNet &problem, Array<u8, 2> domain) {
    const FactorNet net = problem;
    const i64 n_nodes = net.n_states.size(), n_labels = net.unary.shape[1], n_factors = net.kind.size();
    for (i64 v = 0; v < n_nodes; v++) {
        bool any = false;
        for (i64 k = 0; k < n_labels; k++) {
            domain(v, k) = domain(v, k) && k < net.n_states[v] && net.unary(v, k) > -INF;
            any |= domain(v, k) != 0;
        }
        if (!any) return {false};
    }
    const std::vector<i32> owner = owners(net);
    std::vector<i32> queue(n_factors);
    std::vector<u8> queued(n_factors, 1), own;
    for (i64 f = 0; f < n_factors; f++) queue[f] = i32(f);
    Supports supports(net);
    i64 head = 0, size = n_factors;
    while (size > 0) {
        const i64 f = queue[head], first = net.ptr[f], n = net.ptr[f + 1] - first;
        head = head + 1 == n_factors ? 0 : head + 1, size -= 1;
        queued[f] = 0;
        own.resize(n * n_labels);
        for (i64 i = 0; i < n; i++) std::copy_n(domain[net.nodes[first + i]].data, n_labels, own.data() + i * n_labels);
        if (!supports(f, own.data())) return {false};
        for (i64 i = 0; i < n; i++) {
            const i64 v = net.nodes[first + i];
            if (std::equal(own.data() + i * n_labels, own.data() + (i + 1) * n_labels, domain[v].data)) continue;
            std::copy_n(own.data() + i * n_labels, n_labels, domain[v].data);
            for (i64 j = net.member_ptr[v]; j < net.member_ptr[v + 1]; j++) {
                const i64 other = owner[net.member[j]];
                if (other == f || queued[other]) continue; // one revision leaves nothing to remove by the same factor
                queued[other] = 1;
                queue[(head + size) % n_factors] = i32(other), size += 1;
            }
        }
    }
    return {true};
}

void bind_factor_support(nb::module_ &m) {
    def(m, "support", support, "net"_a, "factor"_a, "domain"_a,
        "Remove from the domains of the members (uint8, one row a member) what no tuple of the factor with a finite score has; False where there is "
        "none.");
    def(m, "consistency", consistency, "net"_a, "domain"_a,
        "Remove from the domains of all nodes (uint8) what is forbidden by their scores or has no support in one of their factors, until nothing "
        "changes (generalised arc consistency); False where a domain becomes empty.");
}

} // namespace maxsum
