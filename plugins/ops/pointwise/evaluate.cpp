#include "broadcast.h"
#include "pointwise.h"

namespace meshwright {

namespace {

// "aten.eq.Tensor" and "aten.eq.Scalar" are one function.
std::string_view without_overload(std::string_view op) {
  for (const std::string_view overload : {".Tensor", ".Scalar"}) {
    if (op == "aten.masked_fill.Tensor" || op == "aten.lerp.Tensor") return op;  // one more operand
    if (op.ends_with(overload)) return op.substr(0, op.size() - overload.size());
  }
  return op;
}

Function make_function(const OpCall& call) {
  const std::string_view op = without_overload(call.node.op);
  if (Function plain = plain_function(op)) return plain;
  if (Function made = function_with_attributes(call, op)) return made;
  return activation(call, op);
}

// prelu's weight is one number for each element of dimension 1, or one for all.
std::vector<std::int64_t> aligned_shape(const OpCall& call, std::size_t operand) {
  std::vector<std::int64_t> shape = call.operands[operand].shape;
  if (call.node.op == "aten.prelu" && operand == 1 && call.operands[0].rank() > 2) {
    shape.resize(call.operands[0].shape.size() - 1, 1);
  }
  return shape;
}

}  // namespace

Result<std::vector<Tensor>> pointwise_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const Function function = make_function(call);
  if (!function) return bad_input("its op family does not compute it");
  std::vector<BroadcastIndex> index;
  for (std::size_t k = 0; k < operands.size(); ++k) index.emplace_back(aligned_shape(call, k), call.results[0].shape);
  std::vector<double> x(operands.size() + 1, call.node.number("other", 0));
  std::vector<Tensor> results;
  Tensor& result = results.emplace_back(call.results[0]);
  for (std::int64_t i = 0; i < result.elements(); ++i) {
    for (std::size_t k = 0; k < operands.size(); ++k) x[k] = operands[k]->get(index[k](i));
    result.set(i, function(x.data()));
  }
  return results;
}

}  // namespace meshwright
