// Moves of the local search: many nodes at once, each time the best labelling of a random forest while all others keep theirs.
//
// All scores are finite here: the caller has put a penalty in place of every -inf.
#pragma once

#include "net.hpp"

namespace maxsum {

double total_score(const Net &net, Array<const i32> labels);

} // namespace maxsum
