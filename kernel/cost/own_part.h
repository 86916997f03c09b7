// What of a rank's own values (TensorRule::own) it has to do with.
// Private to the kernel.
#pragma once

#include "meshwright/call_price.h"
#include "meshwright/rule.h"

namespace meshwright {

// Where rows go to experts that lie apart, and rows do not travel, a rank's own have room for all rows, and it reads and writes those of
// its own experts: of the busiest rank, imbalance / shards of them. Takes that part of the bytes of what is own, in `share.shards`' order of factors.
MESHWRIGHT_API void take_own_part(const Rule& rule, CallShare& share);

}  // namespace meshwright
