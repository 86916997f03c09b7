// What stands outside of a tensor's borders. Private to the family.
//
// meshwright.pad_backward(grad_output) -> the gradient of self; attributes "pad" and "mode".
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

inline constexpr const char* kBackward = "meshwright.pad_backward";

enum class Border : std::uint8_t { constant, reflect, replicate, circular };

Result<Border> border_of(const Node& node);

// "pad" lists what is added before and after, from the last dimension backwards; a negative width cuts.
std::vector<std::int64_t> widths_of(const Node& node);

// Before and after dimension d of a tensor of this rank.
std::pair<std::int64_t, std::int64_t> widths_at(const std::vector<std::int64_t>& widths, std::size_t rank, std::size_t d);

// By position of the padded dimension: where its element comes from, or -1. Errors: bad_input, if the border is wider than the
// tensor, or the sizes do not go together.
Result<std::vector<std::int64_t>> sources_of(Border border, std::int64_t size, std::int64_t padded, std::int64_t before);

}  // namespace meshwright
