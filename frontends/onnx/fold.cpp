#include "fold.h"

#include <stdexcept>

#include "fold_ops.h"
#include "onnx_types.h"

namespace meshwright::onnx {

Folded blank(DType dtype, Shape shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) return std::nullopt;
  }
  if (elements > kLargestLiteral) return std::nullopt;
  Literal literal;
  literal.type = {dtype, std::move(shape)};
  return literal;
}

std::int64_t integer_attribute(const ModelNode& node, std::string_view name, std::int64_t otherwise) {
  const auto found = node.attributes.find(name);
  const auto* value = found == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return value ? *value : otherwise;
}

std::vector<std::int64_t> integers_attribute(const ModelNode& node, std::string_view name) {
  const auto found = node.attributes.find(name);
  const auto* value = found == node.attributes.end() ? nullptr : std::get_if<std::vector<std::int64_t>>(&found->second);
  return value ? *value : std::vector<std::int64_t>{};
}

std::optional<std::vector<Literal>> fold(const ModelNode& node, const std::vector<const Literal*>& operands) {
  if (!node.domain.empty() || node.outputs.size() != 1 || operands.empty() || operands[0] == nullptr)
    return std::nullopt;
  Folded result;
  try {
    result = fold_elements(node, operands);
    if (!result) result = fold_places(node, operands);
  } catch (const std::out_of_range&) {  // a list of axes, starts or ends that is too short
    return std::nullopt;
  }
  if (!result) return std::nullopt;
  std::vector<Literal> results;
  results.push_back(std::move(*result));
  return results;
}

}  // namespace meshwright::onnx
