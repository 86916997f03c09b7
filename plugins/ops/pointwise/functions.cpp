// Functions of one number and of several, without and with attributes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "pointwise.h"

namespace meshwright {

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double truth(bool holds) { return holds ? 1 : 0; }

// As in Python: it has the divisor's sign.
double remainder(double x, double divisor) {
  const double rest = std::fmod(x, divisor);
  return rest != 0 && (rest < 0) != (divisor < 0) ? rest + divisor : rest;
}

std::int64_t bits(double x) { return static_cast<std::int64_t>(x); }

const std::map<std::string, Function, std::less<>>& plain_functions() {
  static const std::map<std::string, Function, std::less<>> functions = {
      {"aten.mul", [](const double* x) { return x[0] * x[1]; }},
      {"aten.div", [](const double* x) { return x[0] / x[1]; }},
      {"aten.neg", [](const double* x) { return -x[0]; }},
      {"aten.clone", [](const double* x) { return x[0]; }},
      {"aten._to_copy", [](const double* x) { return x[0]; }},
      {"aten.exp", [](const double* x) { return std::exp(x[0]); }},
      {"aten.exp2", [](const double* x) { return std::exp2(x[0]); }},
      {"aten.expm1", [](const double* x) { return std::expm1(x[0]); }},
      {"aten.log", [](const double* x) { return std::log(x[0]); }},
      {"aten.log2", [](const double* x) { return std::log2(x[0]); }},
      {"aten.log10", [](const double* x) { return std::log10(x[0]); }},
      {"aten.log1p", [](const double* x) { return std::log1p(x[0]); }},
      {"aten.sqrt", [](const double* x) { return std::sqrt(x[0]); }},
      {"aten.rsqrt", [](const double* x) { return 1 / std::sqrt(x[0]); }},
      {"aten.reciprocal", [](const double* x) { return 1 / x[0]; }},
      {"aten.abs", [](const double* x) { return std::abs(x[0]); }},
      {"aten.sign", [](const double* x) { return truth(x[0] > 0) - truth(x[0] < 0); }},
      {"aten.sgn", [](const double* x) { return truth(x[0] > 0) - truth(x[0] < 0); }},
      {"aten.sin", [](const double* x) { return std::sin(x[0]); }},
      {"aten.cos", [](const double* x) { return std::cos(x[0]); }},
      {"aten.tan", [](const double* x) { return std::tan(x[0]); }},
      {"aten.asin", [](const double* x) { return std::asin(x[0]); }},
      {"aten.acos", [](const double* x) { return std::acos(x[0]); }},
      {"aten.atan", [](const double* x) { return std::atan(x[0]); }},
      {"aten.sinh", [](const double* x) { return std::sinh(x[0]); }},
      {"aten.cosh", [](const double* x) { return std::cosh(x[0]); }},
      {"aten.asinh", [](const double* x) { return std::asinh(x[0]); }},
      {"aten.acosh", [](const double* x) { return std::acosh(x[0]); }},
      {"aten.atanh", [](const double* x) { return std::atanh(x[0]); }},
      {"aten.atan2", [](const double* x) { return std::atan2(x[0], x[1]); }},
      {"aten.erf", [](const double* x) { return std::erf(x[0]); }},
      {"aten.erfc", [](const double* x) { return std::erfc(x[0]); }},
      {"aten.tanh", [](const double* x) { return std::tanh(x[0]); }},
      {"aten.sigmoid", [](const double* x) { return sigmoid(x[0]); }},
      {"aten.relu", [](const double* x) { return std::max(x[0], 0.0); }},
      {"aten.silu", [](const double* x) { return x[0] * sigmoid(x[0]); }},
      {"aten.floor", [](const double* x) { return std::floor(x[0]); }},
      {"aten.ceil", [](const double* x) { return std::ceil(x[0]); }},
      {"aten.trunc", [](const double* x) { return std::trunc(x[0]); }},
      {"aten.round", [](const double* x) { return std::nearbyint(x[0]); }},  // halves to even
      {"aten.frac", [](const double* x) { return x[0] - std::trunc(x[0]); }},
      {"aten.isnan", [](const double* x) { return truth(std::isnan(x[0])); }},
      {"aten.isinf", [](const double* x) { return truth(std::isinf(x[0])); }},
      {"aten.isfinite", [](const double* x) { return truth(std::isfinite(x[0])); }},
      {"aten.floor_divide", [](const double* x) { return std::floor(x[0] / x[1]); }},
      {"aten.fmod", [](const double* x) { return std::fmod(x[0], x[1]); }},
      {"aten.remainder", [](const double* x) { return remainder(x[0], x[1]); }},
      {"aten.pow.Tensor_Tensor", [](const double* x) { return std::pow(x[0], x[1]); }},
      {"aten.maximum", [](const double* x) { return std::max(x[0], x[1]); }},
      {"aten.minimum", [](const double* x) { return std::min(x[0], x[1]); }},
      {"aten.min.other", [](const double* x) { return std::min(x[0], x[1]); }},
      {"aten.max.other", [](const double* x) { return std::max(x[0], x[1]); }},
      {"aten.square", [](const double* x) { return x[0] * x[0]; }},
      {"aten.copy", [](const double* x) { return x[1]; }},
      {"aten.where.ScalarOther", [](const double* x) { return x[0] != 0 ? x[1] : x[2]; }},
      {"aten.where.self", [](const double* x) { return x[0] != 0 ? x[1] : x[2]; }},
      {"aten.masked_fill.Tensor", [](const double* x) { return x[1] != 0 ? x[2] : x[0]; }},
      {"aten.lerp.Tensor", [](const double* x) { return x[0] + x[2] * (x[1] - x[0]); }},
      {"aten.eq", [](const double* x) { return truth(x[0] == x[1]); }},
      {"aten.ne", [](const double* x) { return truth(x[0] != x[1]); }},
      {"aten.lt", [](const double* x) { return truth(x[0] < x[1]); }},
      {"aten.le", [](const double* x) { return truth(x[0] <= x[1]); }},
      {"aten.gt", [](const double* x) { return truth(x[0] > x[1]); }},
      {"aten.ge", [](const double* x) { return truth(x[0] >= x[1]); }},
      {"aten.logical_and", [](const double* x) { return truth(x[0] != 0 && x[1] != 0); }},
      {"aten.logical_or", [](const double* x) { return truth(x[0] != 0 || x[1] != 0); }},
      {"aten.logical_xor", [](const double* x) { return truth((x[0] != 0) != (x[1] != 0)); }},
      {"aten.logical_not", [](const double* x) { return truth(x[0] == 0); }},
      {"aten.tanh_backward", [](const double* x) { return x[0] * (1 - x[1] * x[1]); }},
      {"aten.sigmoid_backward", [](const double* x) { return x[0] * x[1] * (1 - x[1]); }},
      {"aten.silu_backward", [](const double* x) {
         const double s = sigmoid(x[1]);
         return x[0] * s * (1 + x[1] * (1 - s));
       }},
  };
  return functions;
}

Function rounded_division(const std::string& mode) {
  if (mode == "floor") return [](const double* x) { return std::floor(x[0] / x[1]); };
  if (mode == "trunc") return [](const double* x) { return std::trunc(x[0] / x[1]); };
  return [](const double* x) { return x[0] / x[1]; };
}

// Bitwise ops on booleans are logical, on integers bit by bit.
Function bitwise(std::string_view op, bool boolean) {
  if (op == "aten.__and__" || op == "aten.bitwise_and") {
    return [](const double* x) { return static_cast<double>(bits(x[0]) & bits(x[1])); };
  }
  if (op == "aten.__or__" || op == "aten.bitwise_or") {
    return [](const double* x) { return static_cast<double>(bits(x[0]) | bits(x[1])); };
  }
  if (op == "aten.__xor__" || op == "aten.bitwise_xor") {
    return [](const double* x) { return static_cast<double>(bits(x[0]) ^ bits(x[1])); };
  }
  if (op != "aten.bitwise_not") return nullptr;
  return [boolean](const double* x) { return boolean ? truth(x[0] == 0) : static_cast<double>(~bits(x[0])); };
}

Function power_of(double exponent) {
  if (exponent == 2) return [](const double* x) { return x[0] * x[0]; };
  if (exponent == 3) return [](const double* x) { return x[0] * x[0] * x[0]; };
  return [exponent](const double* x) { return std::pow(x[0], exponent); };
}

// Bounds are numbers, or tensors of which either may be missing.
Function clamp(const OpCall& call) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto low = call.node.operand_index("min"), high = call.node.operand_index("max");
  return [low, high, least = call.node.number("min", -kInfinity), most = call.node.number("max", kInfinity)](const double* x) {
    return std::min(std::max(x[0], low ? x[*low] : least), high ? x[*high] : most);
  };
}

// What NaN and the infinities become: zero, and the dtype's largest numbers unless the call gives others.
Function nan_to_num(const OpCall& call) {
  const double largest = call.results[0].dtype == DType::float32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  return [of_nan = call.node.number("nan", 0), of_positive = call.node.number("posinf", largest),
          of_negative = call.node.number("neginf", -largest)](const double* x) {
    return std::isnan(x[0]) ? of_nan : std::isinf(x[0]) ? (x[0] > 0 ? of_positive : of_negative) : x[0];
  };
}

}  // namespace

Function plain_function(std::string_view op) {
  const auto known = plain_functions().find(op);
  return known == plain_functions().end() ? nullptr : known->second;
}

Function function_with_attributes(const OpCall& call, std::string_view op) {
  const Node& node = call.node;
  const double alpha = node.number("alpha", 1), value = node.number("value", 1);
  if (op == "aten.add") return [alpha](const double* x) { return x[0] + alpha * x[1]; };
  if (op == "aten.sub") return [alpha](const double* x) { return x[0] - alpha * x[1]; };
  if (op == "aten.rsub") return [alpha](const double* x) { return x[1] - alpha * x[0]; };
  if (op == "aten.addcmul") return [value](const double* x) { return x[0] + value * x[1] * x[2]; };
  if (op == "aten.addcdiv") return [value](const double* x) { return x[0] + value * x[1] / x[2]; };
  if (op == "aten.lerp") return [weight = node.number("weight", 0)](const double* x) { return x[0] + weight * (x[1] - x[0]); };
  if (op == "aten.div.Tensor_mode" || op == "aten.div.Scalar_mode") return rounded_division(node.text("rounding_mode", ""));
  if (op == "aten.where.ScalarSelf" || node.op == "aten.where.Scalar") {
    return [self = node.number("self", 0)](const double* x) { return x[0] != 0 ? self : x[1]; };
  }
  if (node.op == "aten.fill.Tensor" || node.op == "aten.fill.Scalar") {
    if (call.operands.size() == 2) return [](const double* x) { return x[1]; };
    return [fill = node.number("value", 0)](const double*) { return fill; };
  }
  if (node.op == "aten.pow.Scalar") return [self = node.number("self", 1)](const double* x) { return std::pow(self, x[0]); };
  if (op == "aten.pow.Tensor_Scalar") return power_of(node.number("exponent", 1));
  if (op == "aten.masked_fill") {
    return [fill = node.number("value", 0)](const double* x) { return x[1] != 0 ? fill : x[0]; };
  }
  if (op == "aten.clamp" || op == "aten.clamp_min" || op == "aten.clamp_max") return clamp(call);
  if (op == "aten.threshold_backward") {
    return [threshold = node.number("threshold", 0)](const double* x) { return x[1] > threshold ? x[0] : 0; };
  }
  if (op == "aten.nan_to_num") return nan_to_num(call);
  if (op == "aten.round.decimals") {
    return [unit = std::pow(10.0, static_cast<double>(node.integer("decimals", 0)))](const double* x) {
      return std::nearbyint(x[0] * unit) / unit;
    };
  }
  return bitwise(op, call.operands[0].dtype == DType::boolean);
}

}  // namespace meshwright
