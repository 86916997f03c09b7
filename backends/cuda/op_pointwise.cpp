// Functions of one element of each operand, which broadcast.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include "chains.h"
#include "kernels/pointwise.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

struct Chosen {
  Function function = Function::identity;
  double number = 0, second = 0;
  std::optional<double> other = {};  // nothing: the node's
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
    {"aten.logical_and", Function::logical_and},
    {"aten.logical_or", Function::logical_or},
    {"aten.logical_xor", Function::logical_xor},
    {"aten.__xor__", Function::bit_xor},
    {"aten.bitwise_xor", Function::bit_xor},
    {"aten.type_as", Function::identity},
    {"aten.square", Function::square},
    {"aten.exp2", Function::exponential_of_two},
    {"aten.expm1", Function::exponential_less_one},
    {"aten.log2", Function::logarithm_of_two},
    {"aten.log10", Function::logarithm_of_ten},
    {"aten.log1p", Function::logarithm_of_one_more},
    {"aten.sign", Function::sign},
    {"aten.sgn", Function::sign},
    {"aten.tan", Function::tangent},
    {"aten.asin", Function::arcsine},
    {"aten.acos", Function::arccosine},
    {"aten.atan", Function::arctangent},
    {"aten.atan2", Function::arctangent_of_two},
    {"aten.sinh", Function::sinh},
    {"aten.cosh", Function::cosh},
    {"aten.asinh", Function::arsinh},
    {"aten.acosh", Function::arcosh},
    {"aten.atanh", Function::artanh},
    {"aten.erf", Function::error_function},
    {"aten.erfc", Function::error_complement},
    {"aten.floor", Function::floor},
    {"aten.ceil", Function::ceiling},
    {"aten.trunc", Function::truncate},
    {"aten.round", Function::round},
    {"aten.frac", Function::fraction},
    {"aten.isnan", Function::is_nan},
    {"aten.isinf", Function::is_infinite},
    {"aten.isfinite", Function::is_finite},
    {"aten.signbit", Function::sign_bit},
    {"aten.floor_divide", Function::floor_divide},
    {"aten.fmod", Function::fmod},
    {"aten.remainder", Function::remainder},
    {"aten.fmax", Function::fmax},
    {"aten.fmin", Function::fmin},
    {"aten.hypot", Function::hypotenuse},
    {"aten.logaddexp", Function::log_add_exp},
    {"aten.xlogy", Function::x_log_y},
    {"aten.masked_fill.Tensor", Function::mask},
    {"aten.lerp.Tensor", Function::interpolate},
    {"aten._prelu_kernel", Function::prelu},
    {"aten.log_sigmoid", Function::log_sigmoid},
    {"aten.mish", Function::mish},
    {"aten.mish_backward", Function::mish_slope},
    {"aten.hardsigmoid", Function::hard_sigmoid},
    {"aten.hardsigmoid_backward", Function::hard_sigmoid_slope},
    {"aten.hardswish", Function::hard_swish},
    {"aten.hardswish_backward", Function::hard_swish_slope},
};

// "aten.eq.Tensor" and "aten.eq.Scalar" are one function.
std::string_view without_overload(std::string_view op) {
  for (const std::string_view overload : {".Tensor", ".Scalar"}) {
    if (op == "aten.masked_fill.Tensor" || op == "aten.lerp.Tensor") return op;  // one more operand
    if (op.ends_with(overload)) return op.substr(0, op.size() - overload.size());
  }
  return op;
}

// Exponential below zero. selu and celu are elu with other numbers (plugins/ops/pointwise/activations.cpp).
Chosen elu(const Node& node) {
  double alpha = node.number("alpha", 1), scale = node.number("scale", 1), input_scale = node.number("input_scale", 1);
  if (node.op == "aten.selu") alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
  if (node.op == "aten.celu") input_scale = 1 / alpha;
  return {node.op == "aten.elu_backward" ? Function::elu_slope : Function::elu, scale * alpha, input_scale, scale};
}

// Bounds are numbers, or tensors of which one may be missing.
Chosen clamp(const Node& node) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool low = node.operand_index("min").has_value(), high = node.operand_index("max").has_value();
  if (low && high) return {Function::clamp_between};
  if (low && !node.attributes.contains("max")) return {Function::maximum};
  if (high && !node.attributes.contains("min")) return {Function::minimum};
  return {Function::clamp, node.number("min", -kInfinity), node.number("max", kInfinity)};
}

// Of activations. Nothing, if it is none of these.
std::optional<Chosen> activation_of(const Node& node, std::string_view op) {
  if (op == "aten.elu" || op == "aten.selu" || op == "aten.celu" || op == "aten.elu_backward") return elu(node);
  if (op == "aten.relu6") return Chosen{Function::clamp, 0, 6};
  if (op == "aten.hardtanh") return Chosen{Function::clamp, node.number("min_val", -1), node.number("max_val", 1)};
  if (op == "aten.hardtanh_backward")
    return Chosen{Function::clamp_slope, node.number("min_val", -1), node.number("max_val", 1)};
  if (op == "aten.leaky_relu") return Chosen{Function::leaky_relu, node.number("negative_slope", 0.01)};
  if (op == "aten.leaky_relu_backward") return Chosen{Function::leaky_relu_slope, node.number("negative_slope", 0.01)};
  if (op == "aten.softplus") return Chosen{Function::softplus, node.number("beta", 1), node.number("threshold", 20)};
  if (op == "aten.softplus_backward")
    return Chosen{Function::softplus_slope, node.number("beta", 1), node.number("threshold", 20)};
  return std::nullopt;
}

// Nothing, if it is none of these.
std::optional<Chosen> function_of(const OpCall& call) {
  const Node& node = call.node;
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
  if (op == "aten.rsub") return Chosen{Function::subtract_from, node.number("alpha", 1)};
  if (op == "aten.addcmul") return Chosen{Function::add_product, node.number("value", 1)};
  if (op == "aten.addcdiv") return Chosen{Function::add_quotient, node.number("value", 1)};
  if (op == "aten.lerp") return Chosen{Function::interpolate_by_number, node.number("weight", 0)};
  if (op == "aten.div.Tensor_mode" || op == "aten.div.Scalar_mode") {
    const std::string mode = node.text("rounding_mode", "");
    return Chosen{mode == "floor"   ? Function::floor_divide
                  : mode == "trunc" ? Function::truncate_divide
                                    : Function::divide};
  }
  if (node.op == "aten.pow.Scalar") return Chosen{Function::power_of_base, node.number("self", 1)};
  if (op == "aten.clamp" || op == "aten.clamp_min" || op == "aten.clamp_max") return clamp(node);
  if (op == "aten.threshold") return Chosen{Function::threshold, node.number("threshold", 0), node.number("value", 0)};
  if (op == "aten.logit") return Chosen{Function::logit, node.number("eps", 0)};
  if (op == "aten.nan_to_num") {
    const double largest = call.results[0].dtype == DType::float64 ? std::numeric_limits<double>::max()
                                                                   : std::numeric_limits<float>::max();
    return Chosen{Function::replace_nan, node.number("nan", 0), node.number("posinf", largest),
                  node.number("neginf", -largest)};
  }
  if (op == "aten.round.decimals")
    return Chosen{Function::round_to, std::pow(10.0, static_cast<double>(node.integer("decimals", 0)))};
  if (op == "aten.bitwise_not")
    return Chosen{call.operands[0].dtype == DType::boolean ? Function::logical_not : Function::bit_not};
  return activation_of(node, op);
}

// Where a quotient that is rounded otherwise gives another whole number.
bool steps(Function function) {
  return function == Function::floor_divide || function == Function::truncate_divide || function == Function::fmod ||
         function == Function::remainder || function == Function::round_to;
}

// In the order of the first tensor's elements.
Walk walk_in_order(std::span<const std::int64_t> sizes, const std::vector<std::vector<std::int64_t>>& strides) {
  const std::vector<std::size_t> order = order_of(strides[0]);
  const auto in_order = [&](std::span<const std::int64_t> numbers) {
    std::vector<std::int64_t> made;
    for (const std::size_t d : order) made.push_back(numbers[d]);
    return made;
  };
  std::vector<std::vector<std::int64_t>> all;
  for (const std::vector<std::int64_t>& each : strides) all.push_back(in_order(each));
  return walk_over(in_order(sizes), all);
}

Status write_function(OpWriter& writer, const Chosen& chosen, const std::vector<const Seen*>& operands,
                      const Seen& result) {
  PointwiseArguments arguments;
  std::vector<std::vector<std::int64_t>> strides{result.strides};
  for (const Seen* operand : operands) strides.push_back(broadcast_strides(*operand, result.type.shape));
  const Walk walk = walk_in_order(result.type.shape, strides);
  const Result<Sizes> sizes = sizes_for(walk.sizes);
  if (!sizes) return sizes.error();
  arguments.function = chosen.function;
  arguments.number = chosen.number;
  arguments.second = chosen.second;
  arguments.other = chosen.other.value_or(writer.call.node.number("other", 0));
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
  arguments.single = !steps(chosen.function) && is_small(*view) &&
                     std::all_of(arguments.operand, arguments.operand + operands.size(), is_small);
  if (result.type.elements() == 0) return Done{};
  if (std::optional<Launch> chain = chain_of(arguments, result.type.elements())) {
    writer.add(std::move(*chain));
    return Done{};
  }
  writer.launch(KernelId::pointwise, arguments, result.type.elements(), std::move(reads), {result.range()});
  return Done{};
}

Status write_pointwise(OpWriter& writer) {
  const std::optional<Chosen> chosen = function_of(writer.call);
  if (!chosen || writer.operands.size() > 3)
    return bad_input("cuda has no kernel for such a call of " + writer.call.node.op);
  std::vector<const Seen*> operands;
  for (const Seen& operand : writer.operands) operands.push_back(&operand);
  if (writer.call.node.op == "aten.type_as") operands.resize(1);
  // As the first operand of its shape does, unless a copy is asked for, which is to make rows of it.
  Seen& result = writer.results[0];
  const auto has_shape = [&](const Seen* operand) { return operand->type.shape == result.type.shape; };
  const auto model = std::ranges::find_if(operands, has_shape);
  if (model != operands.end() && writer.call.node.op != "aten.clone") result.lie_in_order_of(**model);
  return write_function(writer, *chosen, operands, result);
}

// The second operand, as it is broadcast to the first.
Status write_copy(OpWriter& writer) {
  return write_function(writer, {Function::identity, 0}, {&writer.operands[1]}, writer.results[0]);
}

// The weight is one number for each element of dimension 1, or one for all.
Status write_prelu(OpWriter& writer) {
  Seen weight = writer.operands[1];
  const std::size_t rank = writer.operands[0].type.shape.size();
  while (rank > 2 && weight.type.shape.size() + 1 < rank) {
    weight.type.shape.push_back(1);
    weight.strides.push_back(1);
  }
  return write_function(writer, {Function::prelu}, {&writer.operands[0], &weight}, writer.results[0]);
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
                                                "aten.masked_fill",
                                                "aten.rsub",
                                                "aten.addcmul",
                                                "aten.addcdiv",
                                                "aten.lerp",
                                                "aten.div.Tensor_mode",
                                                "aten.div.Scalar_mode",
                                                "aten.pow",
                                                "aten.clamp",
                                                "aten.clamp_min",
                                                "aten.clamp_max",
                                                "aten.threshold",
                                                "aten.logit",
                                                "aten.nan_to_num",
                                                "aten.round.decimals",
                                                "aten.bitwise_not",
                                                "aten.elu",
                                                "aten.selu",
                                                "aten.celu",
                                                "aten.elu_backward",
                                                "aten.relu6",
                                                "aten.hardtanh",
                                                "aten.hardtanh_backward",
                                                "aten.leaky_relu",
                                                "aten.leaky_relu_backward",
                                                "aten.softplus",
                                                "aten.softplus_backward"};

}  // namespace

WriteOp pointwise_op(std::string_view op) {
  if (op == "aten.new_ones" || op == "aten.ones_like") return write_constant<1>;
  // What an empty tensor holds nobody says; here zeros, as of the family.
  if (op == "aten.new_zeros" || op == "aten.zeros_like" || op == "aten.zero" || op == "aten.new_empty" ||
      op == "aten.empty_like")
    return write_constant<0>;
  if (op == "aten.copy" || op == "aten.fill.Tensor") return write_copy;
  if (op == "aten.prelu") return write_prelu;
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

Status apply(OpWriter& writer, Function function, double number, const std::vector<const Seen*>& operands,
             const Seen& result) {
  return write_function(writer, {function, number, 0, 1}, operands, result);
}

Status fill_with(OpWriter& writer, double number, const Seen& result) {
  return write_function(writer, {Function::constant, number}, {}, result);
}

Status combine_into(OpWriter& writer, Function function, const Seen& addend, const Seen& sum) {
  return write_function(writer, {function, 1}, {&sum, &addend}, sum);
}

}  // namespace meshwright::cuda
