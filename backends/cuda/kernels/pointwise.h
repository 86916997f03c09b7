// Functions of one element of each operand.
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
};

struct PointwiseArguments {
  Function function = Function::identity;
  int32_t operands = 0;
  bool single = false;  // computed in float: nothing here is more precise, or a large integer
  // Those of the function, by its comment below; `other` stands in the place behind the operands.
  double number = 0, other = 0;
  Sizes sizes;
  View operand[3];
  View result;
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

// `n`: the function's number.
template <class Real>
MESHWRIGHT_DEVICE Real value_of(Function function, const Real* x, Real n) {
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
  }
  return 0;
}

template <class Real>
MESHWRIGHT_DEVICE void compute(const PointwiseArguments& arguments, int64_t index) {
  Real x[4];
#if defined(__CUDACC__)
#pragma unroll  // so that the numbers stay in registers
#endif
  for (int i = 0; i < 4; ++i) {
    x[i] = static_cast<Real>(arguments.other);
    if (i < 3 && i < arguments.operands)
      x[i] = load<Real>(arguments.operand[i], offset_of(arguments.sizes, arguments.operand[i].strides, index));
  }
  store(arguments.result, offset_of(arguments.sizes, arguments.result.strides, index),
        value_of(arguments.function, x, static_cast<Real>(arguments.number)));
}

// The result may be an operand itself: an element is read before it is written.
MESHWRIGHT_KERNEL(pointwise, PointwiseArguments) {
  if (arguments.single)
    compute<float>(arguments, index);
  else
    compute<double>(arguments, index);
}

}  // namespace meshwright::cuda
