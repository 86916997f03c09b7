// Computes ops whose operands are all known: the arithmetic on shapes that exporters leave between a Shape and a
// Reshape, and the small tables of positions and masks.
#pragma once

#include <optional>
#include <vector>

#include "literal.h"
#include "model.h"

namespace meshwright::onnx {

inline constexpr std::int64_t kLargestLiteral = 1 << 20;  // elements; what is larger is computed by the model itself

// The results, or none: an op that is not folded, operands that do not fit (the translation then says so), or a result
// that is too large. An absent operand is null.
std::optional<std::vector<Literal>> fold(const ModelNode& node, const std::vector<const Literal*>& operands);

}  // namespace meshwright::onnx
