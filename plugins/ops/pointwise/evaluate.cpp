#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>

#include "broadcast.h"
#include "pointwise.h"

namespace meshwright {

namespace {

// x[0], x[1], ... are the operands' elements; a number in place of the second tensor stands behind them.
using Function = std::function<double(const double* x)>;

double gelu(double x, bool tanh) {
  if (!tanh) return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double gelu_slope(double x, bool tanh) {
  if (!tanh) {
    return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
  }
  const double k = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(k * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const std::map<std::string, Function, std::less<>>& plain_functions() {
  static const std::map<std::string, Function, std::less<>> functions = {
      {"aten.mul", [](const double* x) { return x[0] * x[1]; }},
      {"aten.div", [](const double* x) { return x[0] / x[1]; }},
      {"aten.neg", [](const double* x) { return -x[0]; }},
      {"aten.clone", [](const double* x) { return x[0]; }},
      {"aten._to_copy", [](const double* x) { return x[0]; }},
      {"aten.exp", [](const double* x) { return std::exp(x[0]); }},
      {"aten.log", [](const double* x) { return std::log(x[0]); }},
      {"aten.sqrt", [](const double* x) { return std::sqrt(x[0]); }},
      {"aten.rsqrt", [](const double* x) { return 1 / std::sqrt(x[0]); }},
      {"aten.reciprocal", [](const double* x) { return 1 / x[0]; }},
      {"aten.abs", [](const double* x) { return std::abs(x[0]); }},
      {"aten.sign", [](const double* x) { return static_cast<double>((x[0] > 0) - (x[0] < 0)); }},
      {"aten.sin", [](const double* x) { return std::sin(x[0]); }},
      {"aten.cos", [](const double* x) { return std::cos(x[0]); }},
      {"aten.erf", [](const double* x) { return std::erf(x[0]); }},
      {"aten.tanh", [](const double* x) { return std::tanh(x[0]); }},
      {"aten.sigmoid", [](const double* x) { return sigmoid(x[0]); }},
      {"aten.relu", [](const double* x) { return std::max(x[0], 0.0); }},
      {"aten.silu", [](const double* x) { return x[0] * sigmoid(x[0]); }},
      {"aten.maximum", [](const double* x) { return std::max(x[0], x[1]); }},
      {"aten.minimum", [](const double* x) { return std::min(x[0], x[1]); }},
      {"aten.min.other", [](const double* x) { return std::min(x[0], x[1]); }},
      {"aten.max.other", [](const double* x) { return std::max(x[0], x[1]); }},
      {"aten.square", [](const double* x) { return x[0] * x[0]; }},
      {"aten.copy", [](const double* x) { return x[1]; }},
      {"aten.where.ScalarOther", [](const double* x) { return x[0] != 0 ? x[1] : x[2]; }},
      {"aten.where.self", [](const double* x) { return x[0] != 0 ? x[1] : x[2]; }},
      {"aten.eq", [](const double* x) { return static_cast<double>(x[0] == x[1]); }},
      {"aten.ne", [](const double* x) { return static_cast<double>(x[0] != x[1]); }},
      {"aten.lt", [](const double* x) { return static_cast<double>(x[0] < x[1]); }},
      {"aten.le", [](const double* x) { return static_cast<double>(x[0] <= x[1]); }},
      {"aten.gt", [](const double* x) { return static_cast<double>(x[0] > x[1]); }},
      {"aten.ge", [](const double* x) { return static_cast<double>(x[0] >= x[1]); }},
      {"aten.logical_and", [](const double* x) { return static_cast<double>(x[0] != 0 && x[1] != 0); }},
      {"aten.logical_or", [](const double* x) { return static_cast<double>(x[0] != 0 || x[1] != 0); }},
      {"aten.logical_xor", [](const double* x) { return static_cast<double>((x[0] != 0) != (x[1] != 0)); }},
      {"aten.logical_not", [](const double* x) { return static_cast<double>(x[0] == 0); }},
      {"aten.tanh_backward", [](const double* x) { return x[0] * (1 - x[1] * x[1]); }},
      {"aten.sigmoid_backward", [](const double* x) { return x[0] * x[1] * (1 - x[1]); }},
      {"aten.silu_backward", [](const double* x) {
         const double s = sigmoid(x[1]);
         return x[0] * s * (1 + x[1] * (1 - s));
       }},
  };
  return functions;
}

// "aten.eq.Tensor" and "aten.eq.Scalar" are one function.
std::string_view without_overload(std::string_view op) {
  for (const std::string_view overload : {".Tensor", ".Scalar"}) {
    if (op.ends_with(overload)) return op.substr(0, op.size() - overload.size());
  }
  return op;
}

// Ops whose function depends on attributes, or on whether the operands are booleans.
Function make_function(const OpCall& call) {
  const Node& node = call.node;
  const std::string_view op = without_overload(node.op);
  const auto known = plain_functions().find(op);
  if (known != plain_functions().end()) return known->second;
  const double alpha = node.number("alpha", 1);
  if (op == "aten.add") return [alpha](const double* x) { return x[0] + alpha * x[1]; };
  if (op == "aten.sub") return [alpha](const double* x) { return x[0] - alpha * x[1]; };
  if (op == "aten.rsub") return [alpha](const double* x) { return x[1] - alpha * x[0]; };
  if (op == "aten.where.ScalarSelf" || node.op == "aten.where.Scalar") {
    return [self = node.number("self", 0)](const double* x) { return x[0] != 0 ? self : x[1]; };
  }
  if (node.op == "aten.fill.Tensor" || node.op == "aten.fill.Scalar") {
    if (call.operands.size() == 2) return [](const double* x) { return x[1]; };
    return [value = node.number("value", 0)](const double*) { return value; };
  }
  if (op == "aten.pow.Tensor_Scalar") {
    const double exponent = node.number("exponent", 1);
    if (exponent == 2) return [](const double* x) { return x[0] * x[0]; };
    if (exponent == 3) return [](const double* x) { return x[0] * x[0] * x[0]; };
    return [exponent](const double* x) { return std::pow(x[0], exponent); };
  }
  if (node.op == "aten.masked_fill.Tensor") return [](const double* x) { return x[1] != 0 ? x[2] : x[0]; };
  if (op == "aten.masked_fill") {
    return [value = node.number("value", 0)](const double* x) { return x[1] != 0 ? value : x[0]; };
  }
  if (op == "aten.clamp" || op == "aten.clamp_min" || op == "aten.clamp_max") {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return [low = node.number("min", -kInfinity), high = node.number("max", kInfinity)](const double* x) {
      return std::min(std::max(x[0], low), high);
    };
  }
  if (op == "aten.threshold_backward") {
    return [threshold = node.number("threshold", 0)](const double* x) { return x[1] > threshold ? x[0] : 0; };
  }
  const bool tanh = node.text("approximate", "none") == "tanh";
  if (op == "aten.gelu") return [tanh](const double* x) { return gelu(x[0], tanh); };
  if (op == "aten.gelu_backward") return [tanh](const double* x) { return x[0] * gelu_slope(x[1], tanh); };
  // Bitwise ops on booleans are logical, on integers bit by bit.
  const bool boolean = call.operands[0].dtype == DType::boolean;
  const auto bits = [](double x) { return static_cast<std::int64_t>(x); };
  if (op == "aten.__and__" || op == "aten.bitwise_and") {
    return [bits](const double* x) { return static_cast<double>(bits(x[0]) & bits(x[1])); };
  }
  if (op == "aten.__or__" || op == "aten.bitwise_or") {
    return [bits](const double* x) { return static_cast<double>(bits(x[0]) | bits(x[1])); };
  }
  if (op == "aten.__xor__" || op == "aten.bitwise_xor") {
    return [bits](const double* x) { return static_cast<double>(bits(x[0]) ^ bits(x[1])); };
  }
  if (op == "aten.bitwise_not") {
    return [bits, boolean](const double* x) { return boolean ? static_cast<double>(x[0] == 0) : static_cast<double>(~bits(x[0])); };
  }
  return nullptr;
}

}  // namespace

Result<std::vector<Tensor>> pointwise_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const Function function = make_function(call);
  if (!function) return bad_input("its op family does not compute it");
  std::vector<BroadcastIndex> index;
  for (const Tensor* operand : operands) index.emplace_back(operand->shape(), call.results[0].shape);
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
