// Activations, their slopes and their gradients: each has a backward op of its own in PyTorch, which keeps the operand.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "pointwise.h"

namespace meshwright {

namespace {

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

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double slope_of_softplus(double x) { return 1 / (1 + std::exp(-x)); }

// Exponential below zero. selu and celu are elu with other numbers.
struct Elu {
  double alpha = 1, scale = 1, input_scale = 1;

  explicit Elu(const Node& node) : alpha(node.number("alpha", 1)), scale(node.number("scale", 1)), input_scale(node.number("input_scale", 1)) {
    if (node.op == "aten.selu") alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
    if (node.op == "aten.celu") input_scale = 1 / alpha;
  }
  [[nodiscard]] double at(double x) const { return x > 0 ? scale * x : scale * alpha * std::expm1(input_scale * x); }
  [[nodiscard]] double slope(double x) const { return x > 0 ? scale : scale * alpha * input_scale * std::exp(input_scale * x); }
};

struct Bounds {
  double low = -1, high = 1;
  explicit Bounds(const Node& node) : low(node.number("min_val", -1)), high(node.number("max_val", 1)) {
    if (node.op == "aten.relu6") low = 0, high = 6;
  }
};

}  // namespace

Function activation(const OpCall& call, std::string_view op) {
  const Node& node = call.node;
  const bool tanh = node.text("approximate", "none") == "tanh";
  if (op == "aten.gelu") return [tanh](const double* x) { return gelu(x[0], tanh); };
  if (op == "aten.gelu_backward") return [tanh](const double* x) { return x[0] * gelu_slope(x[1], tanh); };
  if (op == "aten.elu" || op == "aten.selu" || op == "aten.celu") return [elu = Elu(node)](const double* x) { return elu.at(x[0]); };
  if (op == "aten.elu_backward") return [elu = Elu(node)](const double* x) { return x[0] * elu.slope(x[1]); };
  const Bounds bounds(node);
  if (op == "aten.hardtanh" || op == "aten.relu6") return [bounds](const double* x) { return std::clamp(x[0], bounds.low, bounds.high); };
  if (op == "aten.hardtanh_backward") return [bounds](const double* x) { return x[1] > bounds.low && x[1] < bounds.high ? x[0] : 0; };
  const double slope = node.number("negative_slope", 0.01);
  if (op == "aten.leaky_relu") return [slope](const double* x) { return x[0] > 0 ? x[0] : slope * x[0]; };
  if (op == "aten.leaky_relu_backward") return [slope](const double* x) { return x[1] > 0 ? x[0] : slope * x[0]; };
  if (op == "aten.prelu" || op == "aten._prelu_kernel") return [](const double* x) { return x[0] > 0 ? x[0] : x[1] * x[0]; };
  const double beta = node.number("beta", 1), threshold = node.number("threshold", 20);
  if (op == "aten.softplus") {
    return [=](const double* x) { return beta * x[0] > threshold ? x[0] : softplus(beta * x[0]) / beta; };
  }
  if (op == "aten.softplus_backward") {
    return [=](const double* x) { return beta * x[1] > threshold ? x[0] : x[0] * slope_of_softplus(beta * x[1]); };
  }
  if (op == "aten.log_sigmoid") return [](const double* x) { return -softplus(-x[0]); };
  if (op == "aten.mish") return [](const double* x) { return x[0] * std::tanh(softplus(x[0])); };
  if (op == "aten.mish_backward") {
    return [](const double* x) {
      const double t = std::tanh(softplus(x[1]));
      return x[0] * (t + x[1] * slope_of_softplus(x[1]) * (1 - t * t));
    };
  }
  const auto hard = [](double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; };
  if (op == "aten.hardsigmoid") return [hard](const double* x) { return hard(x[0]); };
  if (op == "aten.hardsigmoid_backward") return [](const double* x) { return x[1] > -3 && x[1] < 3 ? x[0] / 6 : 0; };
  if (op == "aten.hardswish") return [hard](const double* x) { return x[0] * hard(x[0]); };
  if (op == "aten.hardswish_backward") {
    return [](const double* x) { return x[1] <= -3 ? 0 : x[1] < 3 ? x[0] * (x[1] / 3 + 0.5) : x[0]; };
  }
  return nullptr;
}

std::optional<Term> activation_gradient(const Formula& f) {
  const Node& node = f.node();
  const std::string& op = node.op;
  const Term x = f.operand(0);
  if (op == "aten.tanh") return f.backward("aten.tanh_backward", "output", f.result());
  if (op == "aten.sigmoid") return f.backward("aten.sigmoid_backward", "output", f.result());
  if (op == "aten.relu") return f.backward("aten.threshold_backward", "self", f.result(), {{"threshold", std::int64_t{0}}});
  if (op == "aten.gelu") return f.backward("aten.gelu_backward", "self", x, {{"approximate", node.text("approximate", "none")}});
  for (const char* plain : {"aten.silu", "aten.mish", "aten.hardswish", "aten.hardsigmoid"}) {
    if (op == plain) return f.backward((op + "_backward").c_str(), "self", x);
  }
  if (op == "aten.elu" || op == "aten.selu" || op == "aten.celu") {
    const Elu elu(node);
    return f.backward("aten.elu_backward", "self_or_result", x,
                      {{"alpha", elu.alpha}, {"scale", elu.scale}, {"input_scale", elu.input_scale}, {"is_result", false}});
  }
  if (op == "aten.hardtanh" || op == "aten.relu6") {
    const Bounds bounds(node);
    return f.backward("aten.hardtanh_backward", "self", x, {{"min_val", bounds.low}, {"max_val", bounds.high}});
  }
  if (op == "aten.leaky_relu") {
    return f.backward("aten.leaky_relu_backward", "self", x, {{"negative_slope", node.number("negative_slope", 0.01)}, {"self_is_result", false}});
  }
  if (op == "aten.softplus") {
    return f.backward("aten.softplus_backward", "self", x, {{"beta", node.number("beta", 1)}, {"threshold", node.number("threshold", 20)}});
  }
  if (op == "aten.log_sigmoid") return f.gradient() * sigmoid(-x);
  return std::nullopt;
}

}  // namespace meshwright
