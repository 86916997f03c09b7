// In which order the communication stream gets what it does. Private to the kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/program.h"

namespace meshwright {

// The first gradients of a backward go together when they have so many bytes, so that something travels early; the prelude of
// emitted programs has the same number (backends/torch/prelude/reductions.py, FIRST_BYTES).
inline constexpr std::int64_t kFirstBucketBytes = std::int64_t{1} << 20;

// A collective that makes a part of a parameter's gradient, beside the computing.
bool reduces_gradient(const Instruction& instruction);

// What runs, with each reduction of a parameter's gradient where it is sent: gradients smaller than a bucket wait for others that
// go the same way until they fill one (Program::bucket_bytes), or until the backward ends, or something needs what the reduction makes or reads.
// Larger ones are sent at once. The rest keeps its order. Returns places in `all`.
std::vector<std::size_t> in_buckets(const Program& program, const std::vector<Occurrence>& all);

}  // namespace meshwright
