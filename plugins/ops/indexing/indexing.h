// What picking elements by position computes. Private to the family.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "meshwright/op.h"

namespace meshwright {

// The dimension that operand `operand` of aten.index indexes: "indices.2" → 2.
inline std::size_t indexed_dimension(const Node& node, std::size_t operand) {
  return static_cast<std::size_t>(std::stoul(node.operands[operand].name.substr(sizeof("indices.") - 1)));
}

Result<std::vector<Tensor>> indexing_evaluate(const OpCall& call, std::span<const Tensor* const> operands);

}  // namespace meshwright
