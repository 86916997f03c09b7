// The formulas of PyTorch's derivatives.yaml; what they use of the forward is what PyTorch saves.
#include <cmath>
#include <numbers>

#include "broadcast.h"
#include "pointwise.h"

namespace meshwright {

namespace {

class Emitter {
 public:
  explicit Emitter(const GradientCall& call)
      : call_(call), op_(call.node.op), gradient_(call.result_gradients[0]), type_(call.type(gradient_)) {}

  Result<std::vector<ValueId>> run() {
    std::vector<ValueId> gradients;
    for (std::size_t i = 0; i < call_.node.operands.size(); ++i) {
      ValueId gradient = kNoId;
      if (call_.wanted[i] && !is_overwritten(i)) {
        gradient = of_operand(i);
        if (gradient == kNoId) return bad_input("its op family states no gradient");
        gradient = sum_to(call_.build, gradient, call_.type(call_.node.operands[i].value));
      }
      gradients.push_back(gradient);
    }
    return gradients;
  }

 private:
  [[nodiscard]] ValueId value(std::size_t operand) const { return call_.node.operands[operand].value; }
  [[nodiscard]] ValueId result() const { return call_.node.results[0]; }

  ValueId binary(const char* op, ValueId a, ValueId b) { return call_.build.emit(op, {{"self", a}, {"other", b}}, {}, type_); }
  ValueId unary(const char* op, ValueId a) { return call_.build.emit(op, {{"self", a}}, {}, type_); }
  ValueId multiply(ValueId a, ValueId b) { return binary("aten.mul.Tensor", a, b); }
  ValueId scale(ValueId a, double number) {
    return number == 1 ? a : call_.build.emit("aten.mul.Tensor", {{"self", a}}, {{"other", number}}, type_);
  }
  ValueId cast(ValueId a, DType dtype) {
    TensorType to = call_.type(a);
    if (to.dtype == dtype) return a;
    to.dtype = dtype;
    return call_.build.emit("aten._to_copy", {{"self", a}}, {{"dtype", std::string(name(dtype))}}, to);
  }
  // A backward op that takes the gradient and one value of the forward.
  ValueId backward(const char* op, const char* name, ValueId saved, Attributes attributes = {}) {
    return call_.build.emit(op, {{"grad_output", gradient_}, {name, saved}}, std::move(attributes), type_);
  }
  // The gradient where `mask` holds, zero elsewhere.
  ValueId masked(ValueId mask) {
    const ValueId zero = call_.build.emit("aten.zeros", {}, {}, TensorType{type_.dtype, {}});
    return call_.build.emit("aten.where.self", {{"condition", mask}, {"self", gradient_}, {"other", zero}}, {}, type_);
  }
  ValueId compare(const char* op, ValueId a, Attributes attributes) {
    return call_.build.emit(op, {{"self", a}}, std::move(attributes), TensorType{DType::boolean, call_.type(a).shape});
  }
  bool is(const char* op) const { return op_ == op; }
  // Whether nothing of the operand but its shape is used.
  bool is_overwritten(std::size_t i) const { return i == 0 && (op_.starts_with("aten.fill.") || is("aten.copy")); }

  ValueId of_operand(std::size_t i) {
    if (is("aten.add.Tensor") || is("aten.add.Scalar")) return i == 0 ? gradient_ : scale(gradient_, alpha());
    if (is("aten.sub.Tensor") || is("aten.sub.Scalar")) return i == 0 ? gradient_ : scale(gradient_, -alpha());
    if (is("aten.mul.Tensor") || is("aten.mul.Scalar")) return of_product(i);
    if (is("aten.div.Tensor") || is("aten.div.Scalar")) return of_quotient(i);
    if (is("aten.rsub.Tensor") || is("aten.rsub.Scalar")) return i == 0 ? scale(gradient_, -alpha()) : gradient_;
    if (is("aten.where.self") || is("aten.where.ScalarOther")) return of_where(i);
    if (is("aten.where.ScalarSelf")) return of_where(i + 1);
    if (is("aten.maximum") || is("aten.max.other")) return of_extremum(i == 0);
    if (is("aten.minimum") || is("aten.min.other")) return of_extremum(i == 1);
    if (is("aten.fill.Tensor")) return gradient_;
    if (is("aten.copy")) return cast(gradient_, call_.type(value(1)).dtype);
    if (is("aten.masked_fill.Tensor") && i == 2) return masked(value(1));
    return i == 0 ? of_unary() : kNoId;
  }

  [[nodiscard]] double alpha() const { return call_.node.number("alpha", 1); }
  [[nodiscard]] double other() const { return call_.node.number("other", 1); }
  [[nodiscard]] bool two() const { return call_.node.operands.size() == 2; }

  ValueId of_product(std::size_t i) { return two() ? multiply(gradient_, value(1 - i)) : scale(gradient_, other()); }

  ValueId of_quotient(std::size_t i) {
    if (!two()) return scale(gradient_, 1 / other());
    if (i == 0) return binary("aten.div.Tensor", gradient_, value(1));
    // From the operands, as PyTorch does, so that the quotient need not be kept.
    const ValueId quotient = binary("aten.div.Tensor", value(0), value(1));
    return scale(multiply(gradient_, binary("aten.div.Tensor", quotient, value(1))), -1);
  }

  ValueId of_where(std::size_t i) {
    if (i == 1) return masked(value(0));
    const TensorType mask{DType::boolean, call_.type(value(0)).shape};
    return masked(call_.build.emit("aten.logical_not", {{"self", value(0)}}, {}, mask));
  }

  // Where both are equal, PyTorch halves the gradient.
  ValueId of_extremum(bool larger_wins) {
    const char* wins = larger_wins ? "aten.gt.Tensor" : "aten.lt.Tensor";
    const TensorType mask{DType::boolean, type_.shape};
    const auto compare_both = [&](const char* op) {
      return call_.build.emit(op, {{"self", value(0)}, {"other", value(1)}}, {}, mask);
    };
    return binary("aten.add.Tensor", masked(compare_both(wins)), scale(masked(compare_both("aten.eq.Tensor")), 0.5));
  }

  ValueId of_unary() {
    const ValueId x = value(0);
    if (is("aten.neg")) return unary("aten.neg", gradient_);
    if (is("aten.clone")) return gradient_;
    if (is("aten._to_copy")) return cast(gradient_, call_.type(x).dtype);
    if (is("aten.square")) return multiply(gradient_, scale(x, 2));
    if (is("aten.exp")) return multiply(gradient_, result());
    if (is("aten.log")) return binary("aten.div.Tensor", gradient_, x);
    if (is("aten.sqrt")) return binary("aten.div.Tensor", gradient_, scale(result(), 2));
    if (is("aten.rsqrt")) return scale(multiply(gradient_, power(result(), 3)), -0.5);
    if (is("aten.reciprocal")) return scale(multiply(gradient_, multiply(result(), result())), -1);
    if (is("aten.abs")) return multiply(gradient_, unary("aten.sign", x));
    if (is("aten.sin")) return multiply(gradient_, unary("aten.cos", x));
    if (is("aten.cos")) return scale(multiply(gradient_, unary("aten.sin", x)), -1);
    if (is("aten.erf")) {
      return scale(multiply(gradient_, unary("aten.exp", scale(multiply(x, x), -1))), 2 / std::sqrt(std::numbers::pi));
    }
    if (is("aten.tanh")) return backward("aten.tanh_backward", "output", result());
    if (is("aten.sigmoid")) return backward("aten.sigmoid_backward", "output", result());
    if (is("aten.relu")) return backward("aten.threshold_backward", "self", result(), {{"threshold", std::int64_t{0}}});
    if (is("aten.gelu")) {
      return backward("aten.gelu_backward", "self", x, {{"approximate", call_.node.text("approximate", "none")}});
    }
    if (is("aten.silu")) return backward("aten.silu_backward", "self", x);
    if (is("aten.pow.Tensor_Scalar")) {
      const double exponent = call_.node.number("exponent", 1);
      return exponent == 0 ? scale(gradient_, 0) : multiply(gradient_, scale(power(x, exponent - 1), exponent));
    }
    if (is("aten.masked_fill.Scalar") || is("aten.masked_fill.Tensor")) {
      return call_.build.emit("aten.masked_fill.Scalar", {{"self", gradient_}, {"mask", value(1)}}, {{"value", std::int64_t{0}}}, type_);
    }
    if (is("aten.clamp") || is("aten.clamp_min") || is("aten.clamp_max")) return of_clamp(x);
    return kNoId;
  }

  ValueId of_clamp(ValueId x) {
    ValueId mask = kNoId;
    const auto also = [&](const char* op, const char* bound) {
      if (!call_.node.attributes.contains(bound)) return;
      const ValueId inside = compare(op, x, {{"other", call_.node.number(bound, 0)}});
      mask = mask == kNoId ? inside
                           : call_.build.emit("aten.logical_and", {{"self", mask}, {"other", inside}}, {}, call_.type(inside));
    };
    also("aten.ge.Scalar", "min");
    also("aten.le.Scalar", "max");
    return mask == kNoId ? gradient_ : masked(mask);
  }

  ValueId power(ValueId a, double exponent) {
    return call_.build.emit("aten.pow.Tensor_Scalar", {{"self", a}}, {{"exponent", exponent}}, type_);
  }

  const GradientCall& call_;
  const std::string& op_;
  const ValueId gradient_;
  const TensorType type_;
};

}  // namespace

Result<std::vector<ValueId>> pointwise_gradient(const GradientCall& call) { return Emitter(call).run(); }

}  // namespace meshwright
