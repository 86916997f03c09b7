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
  // Those of the function, by its comment below; `other` stands in the place behind the operands.
  double number = 0, other = 0;
  Sizes sizes;
  View operand[3];
  View result;
};

MESHWRIGHT_DEVICE double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
MESHWRIGHT_DEVICE double gelu_of(double x) { return 0.5 * x * erfc(-x / 1.4142135623730951); }
MESHWRIGHT_DEVICE double gelu_slope_of(double x) {
  return 0.5 * erfc(-x / 1.4142135623730951) + x * exp(-0.5 * x * x) / 2.5066282746310002;
}
MESHWRIGHT_DEVICE double inner_of_tanh_gelu(double x) { return tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)); }
MESHWRIGHT_DEVICE double tanh_gelu_slope_of(double x) {
  const double t = inner_of_tanh_gelu(x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

// `n`: the function's number.
MESHWRIGHT_DEVICE double value_of(Function function, const double* x, double n) {
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
      return x[0] < 0 ? 0 : x[0];
    case Function::silu:
      return x[0] * sigmoid_of(x[0]);
    case Function::silu_slope:
      return x[0] * sigmoid_of(x[1]) * (1 + x[1] * (1 - sigmoid_of(x[1])));
    case Function::gelu:
      return gelu_of(x[0]);
    case Function::gelu_slope:
      return x[0] * gelu_slope_of(x[1]);
    case Function::tanh_gelu:
      return 0.5 * x[0] * (1 + inner_of_tanh_gelu(x[0]));
    case Function::tanh_gelu_slope:
      return x[0] * tanh_gelu_slope_of(x[1]);
    case Function::above_threshold:
      return x[1] > n ? x[0] : 0;
    case Function::power:
      return pow(x[0], x[1]);
    case Function::power_of_number:
      return pow(x[0], n);
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
      return static_cast<double>(static_cast<int64_t>(x[0]) & static_cast<int64_t>(x[1]));
    case Function::bit_or:
      return static_cast<double>(static_cast<int64_t>(x[0]) | static_cast<int64_t>(x[1]));
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

// The result may be an operand itself: an element is read before it is written.
MESHWRIGHT_KERNEL(pointwise, PointwiseArguments) {
  double x[4];
#if defined(__CUDACC__)
#pragma unroll  // so that the numbers stay in registers
#endif
  for (int i = 0; i < 4; ++i) {
    x[i] = arguments.other;
    if (i < 3 && i < arguments.operands)
      x[i] = load(arguments.operand[i], offset_of(arguments.sizes, arguments.operand[i].strides, index));
  }
  store(arguments.result, offset_of(arguments.sizes, arguments.result.strides, index),
        value_of(arguments.function, x, arguments.number));
}

}  // namespace meshwright::cuda
