// Shared between the files that fold.
#pragma once

#include "fold.h"
#include "shapes.h"

namespace meshwright::onnx {

using Operands = std::vector<const Literal*>;
using Folded = std::optional<Literal>;

// By element, and by place. None: not an op of theirs, or operands that do not fit.
Folded fold_elements(const ModelNode& node, const Operands& operands);
Folded fold_places(const ModelNode& node, const Operands& operands);

// A literal of `type` without elements yet, or none if it would be too large.
Folded blank(DType dtype, Shape shape);

inline void append(Literal& to, const Literal& from, std::size_t element) {
  if (to.is_real())
    to.reals.push_back(from.reals[element]);
  else
    to.integers.push_back(from.integers[element]);
}

std::int64_t integer_attribute(const ModelNode& node, std::string_view name, std::int64_t otherwise);
std::vector<std::int64_t> integers_attribute(const ModelNode& node, std::string_view name);

}  // namespace meshwright::onnx
