// Arc consistency: which labels can still be part of a labelling of finite score.
#pragma once

#include "net.hpp"

namespace maxsum {

bool arc_consistency(const Net &net, Array<u8, 2> domain, Array<i32> queue, Array<u8> queued, Flag start_all);

} // namespace maxsum
