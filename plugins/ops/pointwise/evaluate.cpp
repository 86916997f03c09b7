#include <algorithm>
#include <array>

#include "broadcast.h"
#include "numbers.h"
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

// Reads an operand as it is broadcast to the result.
class Reader {
 public:
  Reader(const Tensor& operand, const std::vector<std::int64_t>& aligned, const std::vector<std::int64_t>& result)
      : operand_(operand),
        index_(aligned, result),
        in_order_(operand.type().dtype == DType::float32 && aligned == result),
        is_one_(operand.elements() == 1) {}

  // The elements for the result's from `first` on.
  void read(std::int64_t first, std::span<double> elements) const {
    if (in_order_) {
      std::ranges::copy(operand_.as<float>().subspan(to_size(first), elements.size()), elements.begin());
    } else if (is_one_) {
      std::ranges::fill(elements, operand_.get(0));
    } else {
      for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = operand_.get(index_(first + static_cast<std::int64_t>(i)));
    }
  }

 private:
  const Tensor& operand_;
  BroadcastIndex index_;
  bool in_order_, is_one_;
};

}  // namespace

Result<std::vector<Tensor>> pointwise_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const Function function = make_function(call);
  if (!function || operands.size() >= Block::kOperands) return bad_input("its op family does not compute it");
  std::vector<Reader> readers;
  const std::size_t read = call.node.op == "aten.type_as" ? 1 : operands.size();
  for (std::size_t k = 0; k < read; ++k) readers.emplace_back(*operands[k], aligned_shape(call, k), call.results[0].shape);
  Block block;
  block.x[operands.size()].fill(call.node.number("other", 0));
  std::array<double, Block::kElements> made{};
  std::vector<Tensor> results;
  Tensor& result = results.emplace_back(call.result(0));
  for (std::int64_t first = 0; first < result.elements(); first += Block::kElements) {
    const std::size_t count = std::min(Block::kElements, to_size(result.elements() - first));
    for (std::size_t k = 0; k < read; ++k) readers[k].read(first, std::span(block.x[k]).first(count));
    function(block, count, made.data());
    write(std::span(made).first(count), first, result);
  }
  return results;
}

}  // namespace meshwright
