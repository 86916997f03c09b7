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

Tensor permuted(const Tensor& operand, const TensorType& type, const std::vector<std::int64_t>& order) {
  Tensor result(type);
  const std::vector<std::int64_t> from = strides_of(operand.shape()), to = strides_of(type.shape);
  for (std::int64_t i = 0; i < result.elements(); ++i) {
    std::int64_t rest = i, source = 0;
    for (std::size_t d = 0; d < order.size(); ++d) {
      source += rest / to[d] * from[static_cast<std::size_t>(order[d])];
      rest %= to[d];
    }
    result.set(i, operand.get(source));
  }
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
  Tensor& result = results.emplace_back(type);
  const BroadcastIndex index(call.node.op == "aten.expand" ? operand.shape() : type.shape, type.shape);
  for (std::int64_t i = 0; i < result.elements(); ++i) result.set(i, operand.get(index(i)));
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
