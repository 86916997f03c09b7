#include <algorithm>
#include <cstring>
#include <numeric>

#include "broadcast.h"
#include "view.h"

namespace meshwright {

bool is_permutation(std::string_view op) {
  return op == "aten.transpose.int" || op == "aten.t" || op == "aten.permute";
}

Result<std::vector<std::int64_t>> permutation_of(const Node& node, std::int64_t rank) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  const auto position = [&](std::int64_t dimension) { return static_cast<std::size_t>(dimension < 0 ? dimension + rank : dimension); };
  if (node.op == "aten.permute") {
    const std::vector<std::int64_t> dims = node.integers("dims");
    if (dims.size() != order.size()) return bad_input("dims must name every dimension");
    for (std::size_t i = 0; i < dims.size(); ++i) order[i] = static_cast<std::int64_t>(position(dims[i]));
  } else if (rank >= 2) {
    std::swap(order[position(node.integer("dim0", 0))], order[position(node.integer("dim1", 1))]);
  }
  return order;
}

namespace {

// Fills `result` from `operand`, in which a step along each dimension of the result is `strides` elements.
void gather_strided(const Tensor& operand, const std::vector<std::int64_t>& strides, Tensor& result) {
  const auto element = static_cast<std::size_t>(size_bytes(result.type().dtype));
  const std::vector<std::int64_t>& shape = result.shape();
  std::vector<std::int64_t> index(shape.size(), 0);
  const std::byte* from = operand.bytes().data();
  std::byte* to = result.bytes().data();
  const std::int64_t inner = shape.empty() ? 1 : shape.back(), step = shape.empty() ? 0 : strides.back();
  for (std::int64_t row = 0, source = 0; row < result.elements() / std::max<std::int64_t>(inner, 1); ++row) {
    for (std::int64_t i = 0; i < inner; ++i, to += element) {
      std::memcpy(to, from + static_cast<std::size_t>(source + i * step) * element, element);
    }
    // The next row: count up the dimensions before the last.
    for (std::size_t d = shape.size() < 2 ? 0 : shape.size() - 1; d-- > 0;) {
      source += strides[d];
      if (++index[d] < shape[d]) break;
      source -= shape[d] * strides[d];
      index[d] = 0;
    }
  }
}

Tensor permuted(const Tensor& operand, const TensorType& type, const std::vector<std::int64_t>& order) {
  Tensor result(type);
  const std::vector<std::int64_t> from = strides_of(operand.shape());
  std::vector<std::int64_t> strides;
  for (const std::int64_t dimension : order) strides.push_back(from[static_cast<std::size_t>(dimension)]);
  gather_strided(operand, strides, result);
  return result;
}

Tensor expanded(const Tensor& operand, const TensorType& type) {
  Tensor result(type);
  const std::vector<std::int64_t> from = strides_of(operand.shape());
  const std::size_t missing = type.shape.size() - operand.shape().size();
  std::vector<std::int64_t> strides(type.shape.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) strides[missing + i] = operand.shape()[i] == 1 ? 0 : from[i];
  gather_strided(operand, strides, result);
  return result;
}

}  // namespace

Result<std::vector<Tensor>> view_evaluate(const OpCall& call, const Tensor& operand) {
  std::vector<Tensor> results;
  const TensorType& type = call.results[0];
  if (is_permutation(call.node.op)) {
    Result<std::vector<std::int64_t>> order = permutation_of(call.node, operand.type().rank());
    if (!order) return order.error();
    results.push_back(permuted(operand, type, *order));
    return results;
  }
  if (call.node.op == "aten.expand") {
    results.push_back(expanded(operand, type));
    return results;
  }
  std::ranges::copy(operand.bytes(), results.emplace_back(type).bytes().begin());
  return results;
}

Result<std::vector<ValueId>> view_gradient(const GradientCall& call) {
  const Node& node = call.node;
  const ValueId gradient = call.result_gradients[0];
  const TensorType& type = call.type(node.operands[0].value);
  if (!call.wanted[0] || node.op == "aten.detach") return std::vector<ValueId>{kNoId};
  if (node.op == "aten.alias") return std::vector<ValueId>{gradient};
  if (node.op == "aten.expand") return std::vector<ValueId>{sum_to(call.build, gradient, type)};
  if (is_permutation(node.op)) {
    Result<std::vector<std::int64_t>> order = permutation_of(node, type.rank());
    if (!order) return order.error();
    std::vector<std::int64_t> inverse(order->size());
    for (std::size_t i = 0; i < inverse.size(); ++i) inverse[static_cast<std::size_t>((*order)[i])] = static_cast<std::int64_t>(i);
    return std::vector<ValueId>{call.build.emit("aten.permute", {{"self", gradient}}, {{"dims", inverse}}, type)};
  }
  return std::vector<ValueId>{call.build.emit("aten.view", {{"self", gradient}}, {{"size", type.shape}}, type)};
}

}  // namespace meshwright
