// Derivatives of functions of one number (PyTorch's derivatives.yaml).
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>

#include "pointwise.h"

namespace meshwright {

namespace {

// From the gradient, the operand and the result.
using Derivative = std::function<Term(Term g, Term x, Term y)>;

const std::map<std::string, Derivative, std::less<>>& derivatives() {
  const static std::map<std::string, Derivative, std::less<>> made = {
      {"aten.neg", [](Term g, Term, Term) { return -g; }},
      {"aten.clone", [](Term g, Term, Term) { return g; }},
      {"aten.frac", [](Term g, Term, Term) { return g; }},
      {"aten._to_copy", [](Term g, Term x, Term) { return cast(g, x.type().dtype); }},
      {"aten.square", [](Term g, Term x, Term) { return g * (x * 2); }},
      {"aten.exp", [](Term g, Term, Term y) { return g * y; }},
      {"aten.exp2", [](Term g, Term, Term y) { return g * y * std::numbers::ln2; }},
      {"aten.expm1", [](Term g, Term, Term y) { return g * (y + 1); }},
      {"aten.log", [](Term g, Term x, Term) { return g / x; }},
      {"aten.log2", [](Term g, Term x, Term) { return g / (x * std::numbers::ln2); }},
      {"aten.log10", [](Term g, Term x, Term) { return g / (x * std::numbers::ln10); }},
      {"aten.log1p", [](Term g, Term x, Term) { return g / (x + 1); }},
      {"aten.sqrt", [](Term g, Term, Term y) { return g / (y * 2); }},
      {"aten.rsqrt", [](Term g, Term, Term y) { return g * pow(y, 3) * -0.5; }},
      {"aten.reciprocal", [](Term g, Term, Term y) { return g * (y * y) * -1; }},
      {"aten.abs", [](Term g, Term x, Term) { return g * sign(x); }},
      {"aten.sin", [](Term g, Term x, Term) { return g * x.then("aten.cos"); }},
      {"aten.cos", [](Term g, Term x, Term) { return g * x.then("aten.sin") * -1; }},
      {"aten.tan", [](Term g, Term, Term y) { return g * (y * y + 1); }},
      {"aten.asin", [](Term g, Term x, Term) { return g * rsqrt(1 - x * x); }},
      {"aten.acos", [](Term g, Term x, Term) { return g * -rsqrt(1 - x * x); }},
      {"aten.atan", [](Term g, Term x, Term) { return g / (x * x + 1); }},
      {"aten.sinh", [](Term g, Term x, Term) { return g * x.then("aten.cosh"); }},
      {"aten.cosh", [](Term g, Term x, Term) { return g * x.then("aten.sinh"); }},
      {"aten.asinh", [](Term g, Term x, Term) { return g * rsqrt(x * x + 1); }},
      {"aten.acosh", [](Term g, Term x, Term) { return g * rsqrt(x * x - 1); }},
      {"aten.atanh", [](Term g, Term x, Term) { return g / (1 - x * x); }},
      {"aten.erf", [](Term g, Term x, Term) { return g * exp(x * x * -1) * (2 / std::sqrt(std::numbers::pi)); }},
      {"aten.erfc", [](Term g, Term x, Term) { return g * exp(x * x * -1) * (-2 / std::sqrt(std::numbers::pi)); }},
  };
  return made;
}

// Functions that are constant wherever they have a slope.
constexpr std::array kSteps = {"aten.sign", "aten.sgn", "aten.floor", "aten.ceil", "aten.round", "aten.round.decimals", "aten.trunc"};

}  // namespace

std::optional<Term> elementary_gradient(const Formula& f, std::size_t i) {
  const Node& node = f.node();
  const Term g = f.gradient(), x = f.operand(i);
  if (std::ranges::find(kSteps, node.op) != kSteps.end()) return zeros(x.build(), x.type());
  if (node.op == "aten.pow.Tensor_Scalar") {
    const double exponent = node.number("exponent", 1);
    return exponent == 0 ? g * 0 : g * (pow(x, exponent - 1) * exponent);
  }
  if (node.op == "aten.pow.Scalar") return g * (f.result() * std::log(node.number("self", 1)));
  if (node.op == "aten.nan_to_num") return masked(x.then("aten.isfinite", {}, {DType::boolean, x.type().shape}), g);
  const auto known = derivatives().find(node.op);
  if (known == derivatives().end() || i != 0) return std::nullopt;
  return known->second(g, x, f.result());
}

}  // namespace meshwright
