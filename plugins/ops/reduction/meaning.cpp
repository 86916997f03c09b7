#include <cmath>

#include "broadcast.h"
#include "dimensions.h"
#include "reduction.h"
#include "term.h"

namespace meshwright {

std::vector<bool> reduced_dimensions(const Node& node, std::int64_t rank) {
  return named_or_all_dimensions(list_of(node, "dim"), rank);
}

namespace {

bool is_mean(const Node& node) { return node.op.starts_with("aten.mean"); }

// The operand's shape with 1 where it is summed over.
std::vector<std::int64_t> kept_shape(const Node& node, const TensorType& operand) {
  return shape_with_ones(operand.shape, reduced_dimensions(node, operand.rank()));
}

}  // namespace

Result<std::vector<Tensor>> reduction_evaluate(const OpCall& call, const Tensor& operand) {
  const BroadcastIndex index(kept_shape(call.node, operand.type()), operand.shape());
  std::vector<double> sums(static_cast<std::size_t>(call.results[0].elements()), 0);
  const bool truncates = !is_floating(call.results[0].dtype);  // "dtype" converts before the sum
  const std::int64_t columns = operand.shape().empty() ? 1 : operand.shape().back();
  const bool one_sum = operand.shape().empty() || reduced_dimensions(call.node, operand.type().rank()).back();  // of a row
  for (std::int64_t first = 0; first < operand.elements(); first += columns) {
    double* sum = &sums[static_cast<std::size_t>(index(first))];
    for (std::int64_t i = first; i < first + columns; ++i) {
      const double number = operand.get(i);
      sum[one_sum ? 0 : i - first] += truncates ? std::trunc(number) : number;
    }
  }
  const double count = is_mean(call.node) ? static_cast<double>(operand.elements()) / static_cast<double>(sums.size()) : 1;
  std::vector<Tensor> results;
  Tensor& result = results.emplace_back(call.result(0));
  for (std::int64_t i = 0; i < result.elements(); ++i) result.set(i, sums[static_cast<std::size_t>(i)] / count);
  return results;
}

Result<std::vector<ValueId>> reduction_gradient(const GradientCall& call) {
  if (!call.wanted[0]) return std::vector<ValueId>{kNoId};
  const TensorType& type = call.type(call.node.operands[0].value);
  // A sum in another dtype: its gradient comes in that one.
  ValueId gradient = cast({call.build, call.result_gradients[0]}, type.dtype).id();
  const TensorType kept{type.dtype, kept_shape(call.node, type)};
  if (call.type(gradient) != kept) gradient = call.build.emit("aten.view", {{"self", gradient}}, {{"size", kept.shape}}, kept);
  if (is_mean(call.node)) {
    const double count = static_cast<double>(type.elements()) / static_cast<double>(kept.elements());
    gradient = call.build.emit("aten.div.Tensor", {{"self", gradient}}, {{"other", count}}, kept);
  }
  if (kept == type) return std::vector<ValueId>{gradient};
  return std::vector<ValueId>{call.build.emit("aten.expand", {{"self", gradient}}, {{"size", type.shape}}, type)};
}

}  // namespace meshwright
