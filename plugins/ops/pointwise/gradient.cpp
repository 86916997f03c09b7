// The formulas of PyTorch's derivatives.yaml; what they use of the forward is what PyTorch saves.
#include <string_view>

#include "pointwise.h"

namespace meshwright {

namespace {

Term of_product(const Formula& f, std::size_t i) {
  return f.node().operands.size() == 2 ? f.gradient() * f.operand(1 - i) : f.gradient() * f.node().number("other", 1);
}

Term of_quotient(const Formula& f, std::size_t i) {
  const Term g = f.gradient();
  if (f.node().operands.size() < 2) return g * (1 / f.node().number("other", 1));
  if (i == 0) return g / f.operand(1);
  // From the operands, as PyTorch does, so that the quotient need not be kept.
  const Term quotient = f.operand(0) / f.operand(1);
  return g * (quotient / f.operand(1)) * -1;
}

// Of self and other, where they follow the condition.
Term of_where(const Formula& f, bool where_it_holds) {
  const Term condition = f.operand(0);
  return masked(where_it_holds ? condition : negation(condition), f.gradient());
}

// Where both are equal, PyTorch halves the gradient.
Term of_extremum(const Formula& f, bool larger_wins) {
  const Term wins = masked(compare(larger_wins ? "gt" : "lt", f.operand(0), f.operand(1)), f.gradient());
  const Term tied = masked(compare("eq", f.operand(0), f.operand(1)), f.gradient());
  return wins + tied * 0.5;
}

Term of_clamp(const Formula& f) {
  const Term x = f.operand(0);
  std::optional<Term> inside;
  const auto also = [&](const char* how, const char* bound) {
    if (!f.node().attributes.contains(bound)) return;
    const Term here = compare(how, x, f.node().number(bound, 0));
    inside = inside ? both(*inside, here) : here;
  };
  also("ge", "min");
  also("le", "max");
  return inside ? masked(*inside, f.gradient()) : f.gradient();
}

// A bound's gradient is where it is what was taken; of two bounds that cross, the upper one is.
Term of_clamp_by_tensors(const Formula& f, std::string_view operand) {
  const Term g = f.gradient(), x = f.operand(0);
  if (operand == "min") {
    const Term below = compare("lt", x, f.operand("min"));
    return masked(f.has("max") ? both(compare("lt", f.operand("min"), f.operand("max")), below) : below, g);
  }
  if (operand == "max") {
    const Term above = compare("gt", x, f.operand("max"));
    return masked(f.has("min") ? either(above, compare("gt", f.operand("min"), f.operand("max"))) : above, g);
  }
  std::optional<Term> inside;
  if (f.has("min")) inside = compare("ge", x, f.operand("min"));
  if (f.has("max")) {
    const Term below = compare("le", x, f.operand("max"));
    inside = inside ? both(*inside, below) : below;
  }
  return inside ? masked(*inside, g) : g;
}

// x^p: p·x^(p-1), and x^p·log x, each zero where the power is constant.
Term of_power(const Formula& f, std::size_t i) {
  const Term g = f.gradient(), x = f.operand(0), p = f.operand(1);
  if (i == 0) {
    const Term slope = p * Term(x.build(), x.build().emit("aten.pow.Tensor_Tensor", {{"self", x.id()}, {"exponent", (p - 1).id()}}, {}, g.type()));
    return g * masked(compare("ne", p, 0), slope);
  }
  const Term flat = both(compare("eq", x, 0), compare("ge", p, 0));
  return g * masked(negation(flat), f.result() * log(x));
}

// The quotient of a remainder is constant wherever it has a slope: of `floor` for the one that has the divisor's sign.
Term of_remainder(const Formula& f, std::size_t i, const char* rounding) {
  if (i == 0) return f.gradient();
  const Term a = f.operand(0), b = f.operand(1);
  const Term quotient = {a.build(), a.build().emit("aten.div.Tensor_mode", {{"self", a.id()}, {"other", b.id()}},
                                                   {{"rounding_mode", std::string(rounding)}}, f.gradient().type())};
  return -f.gradient() * quotient;
}

Term of_atan2(const Formula& f, std::size_t i) {
  const Term y = f.operand(0), x = f.operand(1);
  const Term square = y * y + x * x;
  return f.gradient() * ((i == 0 ? x : -y) / square);
}

Term of_addcdiv(const Formula& f, std::size_t i) {
  const Term g = f.gradient(), x = f.operand(1), y = f.operand(2);
  const double value = f.node().number("value", 1);
  return i == 1 ? g * value / y : g * -value * (x / (y * y));
}

Term of_lerp(const Formula& f, std::size_t i) {
  const Term g = f.gradient();
  if (f.node().op == "aten.lerp.Scalar") {
    const double weight = f.node().number("weight", 0);
    return g * (i == 0 ? 1 - weight : weight);
  }
  if (i == 2) return g * (f.operand(1) - f.operand(0));
  return i == 0 ? g * (1 - f.operand(2)) : g * f.operand(2);
}

// prelu's weight stands along dimension 1.
Term of_prelu(const Formula& f, std::size_t i) {
  const Term g = f.gradient(), x = f.operand(0);
  Term weight = f.operand(1);
  if (f.node().op == "aten.prelu" && x.type().rank() > 2) {
    std::vector<std::int64_t> shape = weight.type().shape;
    shape.resize(x.type().shape.size() - 1, 1);
    weight = view(weight, shape);
  }
  const Term positive = compare("gt", x, 0);
  if (i == 0) return where(positive, g, weight * g);
  const Term of_weight = sum_to(masked(negation(positive), x * g), weight.type());
  return view(of_weight, f.operand(1).type().shape);
}

}  // namespace

std::optional<Term> joint_gradient(const Formula& f, std::size_t i) {
  const Node& node = f.node();
  const std::string& op = node.op;
  const Term g = f.gradient();
  const double alpha = node.number("alpha", 1), value = node.number("value", 1);
  if (is_one_of(op, {"aten.add.Tensor", "aten.add.Scalar"})) return i == 0 ? g : g * alpha;
  if (is_one_of(op, {"aten.sub.Tensor", "aten.sub.Scalar"})) return i == 0 ? g : g * -alpha;
  if (is_one_of(op, {"aten.rsub.Tensor", "aten.rsub.Scalar"})) return i == 0 ? g * -alpha : g;
  if (is_one_of(op, {"aten.mul.Tensor", "aten.mul.Scalar"})) return of_product(f, i);
  if (is_one_of(op, {"aten.div.Tensor", "aten.div.Scalar"})) return of_quotient(f, i);
  if (is_one_of(op, {"aten.div.Tensor_mode", "aten.div.Scalar_mode"})) {
    return node.text("rounding_mode", "").empty() ? of_quotient(f, i) : zeros(g.build(), f.operand(i).type());
  }
  if (op.starts_with("aten.floor_divide")) return zeros(g.build(), f.operand(i).type());
  if (is_one_of(op, {"aten.where.self", "aten.where.ScalarOther"})) return of_where(f, i == 1);
  if (op == "aten.where.ScalarSelf") return of_where(f, false);
  if (is_one_of(op, {"aten.maximum", "aten.max.other"})) return of_extremum(f, i == 0);
  if (is_one_of(op, {"aten.minimum", "aten.min.other"})) return of_extremum(f, i == 1);
  if (is_one_of(op, {"aten.clamp", "aten.clamp_min", "aten.clamp_max"})) return of_clamp(f);
  if (is_one_of(op, {"aten.clamp.Tensor", "aten.clamp_min.Tensor", "aten.clamp_max.Tensor"})) {
    return of_clamp_by_tensors(f, node.operands[i].name);
  }
  if (op == "aten.fill.Tensor") return g;
  if (op == "aten.copy") return cast(g, f.operand(1).type().dtype);
  if (op.starts_with("aten.masked_fill.")) {
    if (i == 2) return masked(f.operand(1), g);
    return Term(g.build(), g.build().emit("aten.masked_fill.Scalar", {{"self", g.id()}, {"mask", f.operand(1).id()}},
                                          {{"value", std::int64_t{0}}}, g.type()));
  }
  if (op == "aten.pow.Tensor_Tensor") return of_power(f, i);
  if (op.starts_with("aten.fmod.")) return of_remainder(f, i, "trunc");
  if (op.starts_with("aten.remainder.")) return of_remainder(f, i, "floor");
  if (op == "aten.atan2") return of_atan2(f, i);
  if (op == "aten.hypot") return g * (f.operand(i) / f.result());
  if (op == "aten.logaddexp") return g * sigmoid(f.operand(i) - f.operand(1 - i));
  if (op == "aten.xlogy.Tensor") {
    const Term x = f.operand(0), y = f.operand(1);
    return i == 1 ? g * x / y : g * masked(negation(both(compare("eq", x, 0), compare("le", y, 0))), log(y));
  }
  if (op == "aten.fmax") return masked(i == 0 ? compare("ge", f.operand(0), f.operand(1)) : compare("gt", f.operand(1), f.operand(0)), g);
  if (op == "aten.fmin") return masked(i == 0 ? compare("le", f.operand(0), f.operand(1)) : compare("lt", f.operand(1), f.operand(0)), g);
  if (op == "aten.addcmul") return i == 0 ? g : g * value * f.operand(3 - i);
  if (op == "aten.addcdiv") return i == 0 ? g : of_addcdiv(f, i);
  if (op.starts_with("aten.lerp.")) return of_lerp(f, i);
  if (is_one_of(op, {"aten.prelu", "aten._prelu_kernel"})) return of_prelu(f, i);
  return std::nullopt;
}

Result<std::vector<ValueId>> pointwise_gradient(const GradientCall& call) {
  const Formula f(call);
  std::vector<ValueId> gradients;
  for (std::size_t i = 0; i < call.node.operands.size(); ++i) {
    // Of what is overwritten nothing but the shape is used, of the other of type_as nothing but the dtype.
    const bool overwritten = i == 0 && (call.node.op.starts_with("aten.fill.") || call.node.op == "aten.copy");
    if (!call.wanted[i] || overwritten || (i == 1 && call.node.op == "aten.type_as")) {
      gradients.push_back(kNoId);
      continue;
    }
    std::optional<Term> gradient = joint_gradient(f, i);
    if (!gradient) gradient = elementary_gradient(f, i);
    if (!gradient) gradient = activation_gradient(f);
    if (!gradient) return bad_input("its op family states no gradient");
    const TensorType& type = call.type(call.node.operands[i].value);  // its dtype is its own, where it was promoted
    gradients.push_back(cast(sum_to(*gradient, type), type.dtype).id());
  }
  return gradients;
}

}  // namespace meshwright
