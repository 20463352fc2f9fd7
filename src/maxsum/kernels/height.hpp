// Gap of a labelling under messages, term by term: the fast twin of `core.certificates.dual`, which shares no code with it.
//
// Rounding may make a maximum fall short of a value it was taken over by an ulp, so each term is cut at 0.
#pragma once

#include "net.hpp"

namespace maxsum {

using Terms = std::tuple<double, double>;

Terms node_terms(const Net &net, Array<const double, 3> edge_messages, Array<const double, 2> clique_messages, Array<const i32> labels);
Terms edge_terms(const Net &net, Array<const double, 3> edge_messages, Array<const i32> labels, i64 first, i64 last);
Terms clique_terms(const Net &net, Array<const double, 2> clique_messages, Array<const i32> labels);

} // namespace maxsum
