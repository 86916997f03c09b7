// Ops that treat every element alike, and those that keep the shape of one operand.
#include "infer.h"

namespace meshwright::aten {

namespace {

// All results have the shape to which the operands broadcast.
Result<Shapes> together(const Call& call) {
  Shape shape;
  for (std::size_t i = 0; i < call.operands(); ++i) {
    Result<Shape> wider = broadcast(shape, call.operand(i).shape);
    if (!wider) return wider.error();
    shape = std::move(*wider);
  }
  return Shapes(call.results(), shape);
}

// Into the first operand's shape.
Result<Shapes> into_first(const Call& call) {
  Result<Shapes> made = together(call);
  if (!made) return made;
  if (!made->empty() && (*made)[0] != call.operand(0).shape) {
    return bad_input("its other operands do not fit into " + text(call.operand(0).shape));
  }
  return made;
}

Result<Shapes> as_first(const Call& call) { return Shapes(call.results(), call.operand(0).shape); }

Result<Shapes> along_dim(const Call& call) {
  const Result<std::size_t> dim = dimension(call.integer("dim", -1), call.operand(0).shape.size());
  if (!dim) return dim.error();
  return as_first(call);
}

Result<Shapes> along_dims(const Call& call) {
  const Result<std::vector<std::size_t>> dims = dimensions(call.list("dims"), call.operand(0).shape.size());
  if (!dims) return dims.error();
  return as_first(call);
}

// A roll without dimensions is one of the flat tensor.
Result<Shapes> roll(const Call& call) {
  const Shape dims = call.list("dims"), shifts = call.list("shifts");
  if (shifts.size() != std::max<std::size_t>(dims.size(), 1)) return bad_input("shifts and dims must be as many");
  return along_dims(call);
}

Result<Shapes> matrices(const Call& call) {
  if (call.operand(0).rank() < 2) return bad_input("its tensor must have two dimensions at least");
  return as_first(call);
}

// One number for each channel, or one alone.
Result<Shapes> prelu(const Call& call) {
  const Shape& self = call.shape("self");
  const std::int64_t weights = elements(call.shape("weight")), channels = self.size() > 1 ? self[1] : 1;
  if (call.type("weight").rank() > 1 || (weights != 1 && weights != channels))
    return bad_input("its weight must have 1 or " + std::to_string(channels) + " elements");
  return as_first(call);
}

}  // namespace

Table pointwise_table() {
  return {
      {"__and__.Scalar __and__.Tensor __or__.Scalar __or__.Tensor __xor__.Scalar __xor__.Tensor abs absolute acos "
       "acosh "
       "add.Scalar add.Tensor addcdiv addcmul asin asinh atan atan2 atanh bitwise_and.Scalar bitwise_and.Tensor "
       "bitwise_not "
       "bitwise_or.Scalar bitwise_or.Tensor bitwise_xor.Scalar bitwise_xor.Tensor ceil celu clamp clamp.Tensor "
       "clamp_max "
       "clamp_max.Tensor clamp_min clamp_min.Tensor clip clone cos cosh div.Scalar div.Scalar_mode div.Tensor "
       "div.Tensor_mode "
       "divide.Scalar divide.Tensor elu elu_backward eq.Scalar eq.Tensor erf erfc exp exp2 expm1 floor floor_divide "
       "floor_divide.Scalar fmax fmin fmod.Scalar fmod.Tensor frac ge.Scalar ge.Tensor gelu gelu_backward "
       "greater.Scalar "
       "greater.Tensor greater_equal.Scalar greater_equal.Tensor gt.Scalar gt.Tensor hardsigmoid hardsigmoid_backward "
       "hardswish "
       "hardswish_backward hardtanh hardtanh_backward hypot isfinite isinf isnan le.Scalar le.Tensor leaky_relu "
       "leaky_relu_backward lerp.Scalar lerp.Tensor less.Scalar less.Tensor less_equal.Scalar less_equal.Tensor log "
       "log10 log1p "
       "log2 log_sigmoid logaddexp logical_and logical_not logical_or logical_xor logit lt.Scalar lt.Tensor "
       "masked_fill.Scalar "
       "masked_fill.Tensor max.other maximum min.other minimum mish mish_backward mul.Scalar mul.Tensor "
       "multiply.Scalar "
       "multiply.Tensor nan_to_num ne.Scalar ne.Tensor neg negative not_equal.Scalar not_equal.Tensor pow.Scalar "
       "pow.Tensor_Scalar pow.Tensor_Tensor reciprocal relu relu6 remainder.Scalar remainder.Tensor round "
       "round.decimals rsqrt "
       "rsub.Scalar rsub.Tensor selu sgn sigmoid sigmoid_backward sign signbit silu silu_backward sin sinh softplus "
       "softplus_backward sqrt square sub.Scalar sub.Tensor subtract.Scalar subtract.Tensor tan tanh tanh_backward "
       "threshold "
       "threshold_backward true_divide.Scalar true_divide.Tensor trunc where.Scalar where.ScalarOther where.ScalarSelf "
       "where.self "
       "xlogy.Tensor _prelu_kernel broadcast_tensors",
       together},
      {"copy fill.Tensor", into_first},
      {"_to_copy fill.Scalar dropout native_dropout alias detach bernoulli bernoulli.p exponential normal_functional "
       "uniform zero "
       "empty_like full_like ones_like rand_like randn_like zeros_like type_as",
       as_first},
      {"_log_softmax _log_softmax_backward_data _softmax _softmax_backward_data softmax.int log_softmax.int cumsum "
       "sort "
       "sort.stable argsort argsort.stable",
       along_dim},
      {"flip", along_dims},
      {"roll", roll},
      {"tril triu", matrices},
      {"prelu", prelu},
  };
}

}  // namespace meshwright::aten
