// The mask of attention, broadcast to its scores.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "seen.h"

namespace meshwright::cuda {

// Lets kernels read the mask. `shape`: of scores, a row for each index of a kernel; `strides`: the mask's over them.
// Errors: bad_input, for what kernels don't see.
Status give_mask(AttentionArguments& arguments, const Seen& mask, std::vector<std::int64_t> shape,
                 std::vector<std::int64_t> strides);

}  // namespace meshwright::cuda
