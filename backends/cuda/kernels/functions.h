// Functions of one element of each operand, and of two numbers.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

enum class Function : int32_t {
  identity,
  constant,
  add,
  subtract,
  multiply,
  divide,
  negate,
  exponential,
  logarithm,
  square_root,
  inverse_square_root,
  reciprocal,
  absolute,
  tanh,
  tanh_slope,
  sigmoid,
  sigmoid_slope,
  relu,
  silu,
  silu_slope,
  gelu,
  gelu_slope,
  tanh_gelu,
  tanh_gelu_slope,
  above_threshold,
  power,
  power_of_number,
  maximum,
  minimum,
  choose,
  choose_number,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  bit_and,
  bit_or,
  logical_not,
  mask_number,
  sine,
  cosine,
  mask,
  square,
  exponential_of_two,
  exponential_less_one,
  logarithm_of_two,
  logarithm_of_ten,
  logarithm_of_one_more,
  sign,
  tangent,
  arcsine,
  arccosine,
  arctangent,
  arctangent_of_two,
  sinh,
  cosh,
  arsinh,
  arcosh,
  artanh,
  error_function,
  error_complement,
  floor,
  ceiling,
  truncate,
  round,
  fraction,
  is_nan,
  is_infinite,
  is_finite,
  sign_bit,
  floor_divide,
  truncate_divide,
  fmod,
  remainder,
  fmax,
  fmin,
  hypotenuse,
  log_add_exp,
  x_log_y,
  logical_and,
  logical_or,
  logical_xor,
  bit_xor,
  bit_not,
  interpolate,
  interpolate_by_number,
  subtract_from,
  add_product,
  add_quotient,
  power_of_base,
  clamp,
  clamp_slope,
  clamp_between,
  threshold,
  logit,
  replace_nan,
  round_to,
  elu,
  elu_slope,
  leaky_relu,
  leaky_relu_slope,
  prelu,
  softplus,
  softplus_slope,
  log_sigmoid,
  mish,
  mish_slope,
  hard_sigmoid,
  hard_sigmoid_slope,
  hard_swish,
  hard_swish_slope,
  squared_distance,
  distance,
  smooth_distance,
  huber_distance,
  binary_loss,
  logit_loss,
  margin_loss,
  divergence,
  divergence_of_logarithms,
};

template <class Real>
MESHWRIGHT_DEVICE Real sigmoid_of(Real x) {
  return 1 / (1 + exp(-x));
}
template <class Real>
MESHWRIGHT_DEVICE Real gelu_of(Real x) {
  return Real(0.5) * x * erfc(-x / Real(1.4142135623730951));
}
template <class Real>
MESHWRIGHT_DEVICE Real gelu_slope_of(Real x) {
  return Real(0.5) * erfc(-x / Real(1.4142135623730951)) + x * exp(Real(-0.5) * x * x) / Real(2.5066282746310002);
}
template <class Real>
MESHWRIGHT_DEVICE Real inner_of_tanh_gelu(Real x) {
  return tanh(Real(0.7978845608028654) * (x + Real(0.044715) * x * x * x));
}
template <class Real>
MESHWRIGHT_DEVICE Real tanh_gelu_slope_of(Real x) {
  const Real t = inner_of_tanh_gelu(x);
  return Real(0.5) * (1 + t) +
         Real(0.5) * x * (1 - t * t) * Real(0.7978845608028654) * (1 + Real(3 * 0.044715) * x * x);
}
// A GPU's pow takes a hundred instructions, and models square and cube.
template <class Real>
MESHWRIGHT_DEVICE Real power_of(Real x, Real n) {
  return n == 2 ? x * x : n == 3 ? x * x * x : pow(x, n);
}

template <class Real>
MESHWRIGHT_DEVICE Real truth(bool holds) {
  return holds ? Real(1) : Real(0);
}
template <class Real>
MESHWRIGHT_DEVICE Real clamped(Real x, Real low, Real high) {
  const Real raised = x < low ? low : x;
  return high < raised ? high : raised;
}
// log(1 + exp(x)).
template <class Real>
MESHWRIGHT_DEVICE Real softplus_of(Real x) {
  return (x > 0 ? x : Real(0)) + log1p(exp(-fabs(x)));
}
template <class Real>
MESHWRIGHT_DEVICE Real mish_slope_of(Real x) {
  const Real t = tanh(softplus_of(x));
  return t + x * sigmoid_of(x) * (1 - t * t);
}
// As in Python: it has the divisor's sign.
template <class Real>
MESHWRIGHT_DEVICE Real remainder_of(Real x, Real by) {
  const Real rest = fmod(x, by);
  return rest != 0 && (rest < 0) != (by < 0) ? rest + by : rest;
}
template <class Real>
MESHWRIGHT_DEVICE Real distance_of(Real a, Real b) {
  return fabs(a - b);
}
template <class Real>
MESHWRIGHT_DEVICE Real smooth_distance_of(Real distance, Real beta) {
  return distance < beta ? Real(0.5) * distance * distance / beta : distance - Real(0.5) * beta;
}
template <class Real>
MESHWRIGHT_DEVICE Real huber_distance_of(Real distance, Real delta) {
  return distance <= delta ? Real(0.5) * distance * distance : delta * (distance - Real(0.5) * delta);
}
// Logarithms are at least -100, as in PyTorch.
template <class Real>
MESHWRIGHT_DEVICE Real binary_loss_of(Real x, Real target) {
  const Real of_zero = log1p(-x), of_one = ::log(x);
  return (target - 1) * (of_zero < -100 ? Real(-100) : of_zero) - target * (of_one < -100 ? Real(-100) : of_one);
}

// `n`, `m`: the function's numbers.
template <class Real>
MESHWRIGHT_DEVICE Real value_of(Function function, const Real* x, Real n, Real m = 0) {
  switch (function) {
    case Function::identity:
      return x[0];
    case Function::constant:
      return n;
    case Function::add:
      return x[0] + n * x[1];
    case Function::subtract:
      return x[0] - n * x[1];
    case Function::multiply:
      return x[0] * x[1];
    case Function::divide:
      return x[0] / x[1];
    case Function::negate:
      return -x[0];
    case Function::exponential:
      return exp(x[0]);
    case Function::logarithm:
      return ::log(x[0]);
    case Function::square_root:
      return sqrt(x[0]);
    case Function::inverse_square_root:
      return 1 / sqrt(x[0]);
    case Function::reciprocal:
      return 1 / x[0];
    case Function::absolute:
      return fabs(x[0]);
    case Function::tanh:
      return ::tanh(x[0]);
    case Function::tanh_slope:
      return x[0] * (1 - x[1] * x[1]);
    case Function::sigmoid:
      return sigmoid_of(x[0]);
    case Function::sigmoid_slope:
      return x[0] * x[1] * (1 - x[1]);
    case Function::relu:
      return x[0] < 0 ? Real(0) : x[0];
    case Function::silu:
      return x[0] * sigmoid_of(x[0]);
    case Function::silu_slope:
      return x[0] * sigmoid_of(x[1]) * (1 + x[1] * (1 - sigmoid_of(x[1])));
    case Function::gelu:
      return gelu_of(x[0]);
    case Function::gelu_slope:
      return x[0] * gelu_slope_of(x[1]);
    case Function::tanh_gelu:
      return Real(0.5) * x[0] * (1 + inner_of_tanh_gelu(x[0]));
    case Function::tanh_gelu_slope:
      return x[0] * tanh_gelu_slope_of(x[1]);
    case Function::above_threshold:
      return x[1] > n ? x[0] : Real(0);
    case Function::power:
      return pow(x[0], x[1]);
    case Function::power_of_number:
      return power_of(x[0], n);
    case Function::maximum:
      return x[0] < x[1] ? x[1] : x[0];
    case Function::minimum:
      return x[1] < x[0] ? x[1] : x[0];
    case Function::choose:
      return x[0] != 0 ? x[1] : x[2];
    case Function::choose_number:
      return x[0] != 0 ? n : x[1];
    case Function::equal:
      return x[0] == x[1] ? 1 : 0;
    case Function::not_equal:
      return x[0] != x[1] ? 1 : 0;
    case Function::less:
      return x[0] < x[1] ? 1 : 0;
    case Function::less_equal:
      return x[0] <= x[1] ? 1 : 0;
    case Function::greater:
      return x[0] > x[1] ? 1 : 0;
    case Function::greater_equal:
      return x[0] >= x[1] ? 1 : 0;
    case Function::bit_and:
      return static_cast<Real>(static_cast<int64_t>(x[0]) & static_cast<int64_t>(x[1]));
    case Function::bit_or:
      return static_cast<Real>(static_cast<int64_t>(x[0]) | static_cast<int64_t>(x[1]));
    case Function::logical_not:
      return x[0] == 0 ? 1 : 0;
    case Function::sine:
      return sin(x[0]);
    case Function::cosine:
      return cos(x[0]);
    case Function::mask_number:
      return x[1] != 0 ? n : x[0];
    case Function::mask:
      return x[1] != 0 ? x[2] : x[0];
    case Function::square:
      return x[0] * x[0];
    case Function::exponential_of_two:
      return exp2(x[0]);
    case Function::exponential_less_one:
      return expm1(x[0]);
    case Function::logarithm_of_two:
      return log2(x[0]);
    case Function::logarithm_of_ten:
      return log10(x[0]);
    case Function::logarithm_of_one_more:
      return log1p(x[0]);
    case Function::sign:
      return truth<Real>(x[0] > 0) - truth<Real>(x[0] < 0);
    case Function::tangent:
      return tan(x[0]);
    case Function::arcsine:
      return asin(x[0]);
    case Function::arccosine:
      return acos(x[0]);
    case Function::arctangent:
      return atan(x[0]);
    case Function::arctangent_of_two:
      return atan2(x[0], x[1]);
    case Function::sinh:
      return ::sinh(x[0]);
    case Function::cosh:
      return ::cosh(x[0]);
    case Function::arsinh:
      return asinh(x[0]);
    case Function::arcosh:
      return acosh(x[0]);
    case Function::artanh:
      return atanh(x[0]);
    case Function::error_function:
      return erf(x[0]);
    case Function::error_complement:
      return erfc(x[0]);
    case Function::floor:
      return ::floor(x[0]);
    case Function::ceiling:
      return ceil(x[0]);
    case Function::truncate:
      return trunc(x[0]);
    case Function::round:
      return nearbyint(x[0]);
    case Function::fraction:
      return x[0] - trunc(x[0]);
    case Function::is_nan:
      return truth<Real>(x[0] != x[0]);
    case Function::is_infinite:
      return truth<Real>(fabs(x[0]) == INFINITY);
    case Function::is_finite:
      return truth<Real>(fabs(x[0]) < INFINITY);
    case Function::sign_bit:
      return truth<Real>(copysign(Real(1), x[0]) < 0);
    case Function::floor_divide:
      return ::floor(x[0] / x[1]);
    case Function::truncate_divide:
      return trunc(x[0] / x[1]);
    case Function::fmod:
      return ::fmod(x[0], x[1]);
    case Function::remainder:
      return remainder_of(x[0], x[1]);
    case Function::fmax:
      return ::fmax(x[0], x[1]);
    case Function::fmin:
      return ::fmin(x[0], x[1]);
    case Function::hypotenuse:
      return hypot(x[0], x[1]);
    case Function::log_add_exp:
      return (x[0] < x[1] ? x[1] : x[0]) + log1p(exp(-fabs(x[0] - x[1])));
    case Function::x_log_y:
      return x[0] == 0 && x[1] == x[1] ? Real(0) : x[0] * ::log(x[1]);
    case Function::logical_and:
      return truth<Real>(x[0] != 0 && x[1] != 0);
    case Function::logical_or:
      return truth<Real>(x[0] != 0 || x[1] != 0);
    case Function::logical_xor:
      return truth<Real>((x[0] != 0) != (x[1] != 0));
    case Function::bit_xor:
      return static_cast<Real>(static_cast<int64_t>(x[0]) ^ static_cast<int64_t>(x[1]));
    case Function::bit_not:
      return static_cast<Real>(~static_cast<int64_t>(x[0]));
    case Function::interpolate:
      return x[0] + x[2] * (x[1] - x[0]);
    case Function::interpolate_by_number:
      return x[0] + n * (x[1] - x[0]);
    case Function::subtract_from:
      return x[1] - n * x[0];
    case Function::add_product:
      return x[0] + n * x[1] * x[2];
    case Function::add_quotient:
      return x[0] + n * x[1] / x[2];
    case Function::power_of_base:
      return pow(n, x[0]);
    case Function::clamp:
      return clamped(x[0], n, m);
    case Function::clamp_slope:
      return x[1] > n && x[1] < m ? x[0] : Real(0);
    case Function::clamp_between:
      return clamped(x[0], x[1], x[2]);
    case Function::threshold:
      return x[0] > n ? x[0] : m;
    case Function::logit: {  // of probabilities that are at least n from both ends
      const Real p = n > 0 ? clamped(x[0], n, 1 - n) : x[0];
      return ::log(p / (1 - p));
    }
    case Function::replace_nan:
      return x[0] != x[0] ? n : x[0] == INFINITY ? m : x[0] == -INFINITY ? x[1] : x[0];
    case Function::round_to:
      return nearbyint(x[0] * n) / n;
    case Function::elu:
      return x[0] > 0 ? x[1] * x[0] : n * expm1(m * x[0]);
    case Function::elu_slope:
      return x[0] * (x[1] > 0 ? x[2] : n * m * exp(m * x[1]));
    case Function::leaky_relu:
      return x[0] > 0 ? x[0] : n * x[0];
    case Function::leaky_relu_slope:
      return x[1] > 0 ? x[0] : n * x[0];
    case Function::prelu:
      return x[0] > 0 ? x[0] : x[1] * x[0];
    case Function::softplus:
      return n * x[0] > m ? x[0] : softplus_of(n * x[0]) / n;
    case Function::softplus_slope:
      return n * x[1] > m ? x[0] : x[0] * sigmoid_of(n * x[1]);
    case Function::log_sigmoid:
      return -softplus_of(-x[0]);
    case Function::mish:
      return x[0] * ::tanh(softplus_of(x[0]));
    case Function::mish_slope:
      return x[0] * mish_slope_of(x[1]);
    case Function::hard_sigmoid:
      return clamped(x[0] + 3, Real(0), Real(6)) / 6;
    case Function::hard_sigmoid_slope:
      return x[1] > -3 && x[1] < 3 ? x[0] / 6 : Real(0);
    case Function::hard_swish:
      return x[0] * clamped(x[0] + 3, Real(0), Real(6)) / 6;
    case Function::hard_swish_slope:
      return x[1] <= -3 ? Real(0) : x[1] < 3 ? x[0] * (x[1] / 3 + Real(0.5)) : x[0];
    case Function::squared_distance:
      return (x[0] - x[1]) * (x[0] - x[1]);
    case Function::distance:
      return distance_of(x[0], x[1]);
    case Function::smooth_distance:
      return smooth_distance_of(distance_of(x[0], x[1]), n);
    case Function::huber_distance:
      return huber_distance_of(distance_of(x[0], x[1]), n);
    case Function::binary_loss:
      return binary_loss_of(x[0], x[1]);
    case Function::logit_loss:
      return (1 - x[1]) * x[0] + (1 + (x[2] - 1) * x[1]) * softplus_of(-x[0]);
    case Function::margin_loss:
      return softplus_of(-x[1] * x[0]);
    case Function::divergence:
      return (x[1] == 0 ? Real(0) : x[1] * ::log(x[1])) - x[1] * x[0];
    case Function::divergence_of_logarithms:
      return exp(x[1]) * (x[1] - x[0]);
  }
  return 0;
}

}  // namespace meshwright::cuda
