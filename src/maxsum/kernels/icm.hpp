// Iterated conditional modes: each node in turn takes its best label while its neighbours keep theirs.
#pragma once

#include "net.hpp"

namespace maxsum {

std::tuple<i64, i64> icm_sweeps(const Net &net, Array<i32> labels, i64 max_iter);

} // namespace maxsum
