// Functions of one element of each operand, which broadcast.
#include <algorithm>
#include <iterator>
#include <optional>

#include "chains.h"
#include "kernels/pointwise.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

struct Chosen {
  Function function = Function::identity;
  double number = 0;
};

struct PlainFunction {
  std::string_view op;
  Function function;
};

constexpr PlainFunction kPlain[] = {
    {"aten.mul", Function::multiply},
    {"aten.div", Function::divide},
    {"aten.neg", Function::negate},
    {"aten.clone", Function::identity},
    {"aten.alias", Function::identity},
    {"aten._to_copy", Function::identity},
    {"aten.exp", Function::exponential},
    {"aten.log", Function::logarithm},
    {"aten.sqrt", Function::square_root},
    {"aten.rsqrt", Function::inverse_square_root},
    {"aten.reciprocal", Function::reciprocal},
    {"aten.abs", Function::absolute},
    {"aten.tanh", Function::tanh},
    {"aten.tanh_backward", Function::tanh_slope},
    {"aten.sigmoid", Function::sigmoid},
    {"aten.sigmoid_backward", Function::sigmoid_slope},
    {"aten.relu", Function::relu},
    {"aten.silu", Function::silu},
    {"aten.silu_backward", Function::silu_slope},
    {"aten.pow.Tensor_Tensor", Function::power},
    {"aten.maximum", Function::maximum},
    {"aten.minimum", Function::minimum},
    {"aten.min.other", Function::minimum},
    {"aten.max.other", Function::maximum},
    {"aten.sin", Function::sine},
    {"aten.cos", Function::cosine},
    {"aten.where.self", Function::choose},
    {"aten.where.ScalarOther", Function::choose},
    {"aten.eq", Function::equal},
    {"aten.ne", Function::not_equal},
    {"aten.lt", Function::less},
    {"aten.le", Function::less_equal},
    {"aten.gt", Function::greater},
    {"aten.ge", Function::greater_equal},
    {"aten.__and__", Function::bit_and},
    {"aten.bitwise_and", Function::bit_and},
    {"aten.__or__", Function::bit_or},
    {"aten.bitwise_or", Function::bit_or},
    {"aten.logical_not", Function::logical_not},
};

// "aten.eq.Tensor" and "aten.eq.Scalar" are one function.
std::string_view without_overload(std::string_view op) {
  for (const std::string_view overload : {".Tensor", ".Scalar"}) {
    if (op.ends_with(overload)) return op.substr(0, op.size() - overload.size());
  }
  return op;
}

// Nothing, if it is none of these.
std::optional<Chosen> function_of(const Node& node) {
  const std::string_view op = without_overload(node.op);
  for (const PlainFunction& plain : kPlain) {
    if (plain.op == op) return Chosen{plain.function, 0};
  }
  const bool tanh = node.text("approximate", "none") == "tanh";
  if (op == "aten.add") return Chosen{Function::add, node.number("alpha", 1)};
  if (op == "aten.sub") return Chosen{Function::subtract, node.number("alpha", 1)};
  if (op == "aten.gelu") return Chosen{tanh ? Function::tanh_gelu : Function::gelu, 0};
  if (op == "aten.gelu_backward") return Chosen{tanh ? Function::tanh_gelu_slope : Function::gelu_slope, 0};
  if (op == "aten.threshold_backward") return Chosen{Function::above_threshold, node.number("threshold", 0)};
  if (node.op == "aten.pow.Tensor_Scalar") return Chosen{Function::power_of_number, node.number("exponent", 1)};
  if (node.op == "aten.where.ScalarSelf" || node.op == "aten.where.Scalar")
    return Chosen{Function::choose_number, node.number("self", 0)};
  if (node.op == "aten.masked_fill.Scalar") return Chosen{Function::mask_number, node.number("value", 0)};
  return std::nullopt;
}

Status write_function(OpWriter& writer, const Chosen& chosen, const std::vector<const Seen*>& operands,
                      const Seen& result) {
  PointwiseArguments arguments;
  std::vector<std::vector<std::int64_t>> strides{result.strides};
  for (const Seen* operand : operands) strides.push_back(broadcast_strides(*operand, result.type.shape));
  const Walk walk = walk_over(result.type.shape, strides);
  const Result<Sizes> sizes = sizes_for(walk.sizes);
  if (!sizes) return sizes.error();
  arguments.function = chosen.function;
  arguments.number = chosen.number;
  arguments.other = writer.call.node.number("other", 0);
  arguments.operands = static_cast<std::int32_t>(operands.size());
  arguments.sizes = *sizes;
  std::vector<Range> reads;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Result<View> view = view_for(*operands[i], walk.strides[i + 1]);
    if (!view) return view.error();
    arguments.operand[i] = *view;
    reads.push_back(operands[i]->range());
  }
  const Result<View> view = view_for(result, walk.strides[0]);
  if (!view) return view.error();
  arguments.result = *view;
  const auto is_small = [](const View& each) { return is_single(each.element) || each.element == Element::boolean; };
  arguments.single = is_small(*view) && std::all_of(arguments.operand, arguments.operand + operands.size(), is_small);
  if (result.type.elements() == 0) return Done{};
  if (std::optional<Launch> chain = chain_of(arguments, result.type.elements())) {
    writer.add(std::move(*chain));
    return Done{};
  }
  writer.launch(KernelId::pointwise, arguments, result.type.elements(), std::move(reads), {result.range()});
  return Done{};
}

Status write_pointwise(OpWriter& writer) {
  const std::optional<Chosen> chosen = function_of(writer.call.node);
  if (!chosen || writer.operands.size() > 3)
    return bad_input("cuda has no kernel for such a call of " + writer.call.node.op);
  std::vector<const Seen*> operands;
  for (const Seen& operand : writer.operands) operands.push_back(&operand);
  return write_function(writer, *chosen, operands, writer.results[0]);
}

// The second operand, as it is broadcast to the first.
Status write_copy(OpWriter& writer) {
  return write_function(writer, {Function::identity, 0}, {&writer.operands[1]}, writer.results[0]);
}

template <int kNumber>
Status write_constant(OpWriter& writer) {
  return write_function(writer, {Function::constant, kNumber}, {}, writer.results[0]);
}

Status write_fill(OpWriter& writer) {
  return write_function(writer, {Function::constant, writer.call.node.number("value", 0)}, {}, writer.results[0]);
}

Status write_full(OpWriter& writer) {
  return write_function(writer, {Function::constant, writer.call.node.number("fill_value", 0)}, {}, writer.results[0]);
}

// Those that function_of chooses by an attribute.
constexpr std::string_view kWithAttributes[] = {"aten.add",
                                                "aten.sub",
                                                "aten.gelu",
                                                "aten.gelu_backward",
                                                "aten.threshold_backward",
                                                "aten.pow.Tensor_Scalar",
                                                "aten.where",
                                                "aten.where.ScalarSelf",
                                                "aten.masked_fill"};

}  // namespace

WriteOp pointwise_op(std::string_view op) {
  if (op == "aten.new_ones" || op == "aten.ones_like") return write_constant<1>;
  if (op == "aten.new_zeros" || op == "aten.zeros_like") return write_constant<0>;
  if (op == "aten.copy") return write_copy;
  if (op == "aten.fill.Scalar") return write_fill;
  if (op == "aten.full_like" || op == "aten.new_full") return write_full;
  const std::string_view plain = without_overload(op);
  const bool known = std::ranges::find(kPlain, plain, &PlainFunction::op) != std::end(kPlain) ||
                     std::ranges::find(kWithAttributes, plain) != std::end(kWithAttributes);
  return known ? write_pointwise : nullptr;
}

Status combine(OpWriter& writer, Function function, const Seen& a, const Seen& b, const Seen& result) {
  return write_function(writer, {function, 1}, {&a, &b}, result);
}

Status fill_with(OpWriter& writer, double number, const Seen& result) {
  return write_function(writer, {Function::constant, number}, {}, result);
}

Status combine_into(OpWriter& writer, Function function, const Seen& addend, const Seen& sum) {
  return write_function(writer, {function, 1}, {&sum, &addend}, sum);
}

}  // namespace meshwright::cuda
