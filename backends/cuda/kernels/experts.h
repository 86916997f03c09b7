// A layer of experts, but for its products (grouped.h): tokens, each of which goes through some of the experts, and
// their sums by the router's weights.
#pragma once

#include "functions.h"
#include "kernel.h"

namespace meshwright::cuda {

enum class Gate : int32_t { silu, gelu, tanh_gelu, relu, clamped };

// A row is a token's copy, of which it has `copies`; `inner`, `outputs`: widths. All lie row by row. What is saved of
// rows that are another rank's is zeros.
struct ExpertArguments {
  int64_t copies = 1, inner = 0, outputs = 0;
  Gate gate = Gate::silu;
  bool interleaved = false;
  double alpha = 1, limit = 0;
  View weights;                         // by row; without memory: each is 1
  View before, gated, product, output;  // by row: its 2·inner numbers; what is made of them; what comes out
  View gradient;                        // of the layer's result, by token
  View sums;                            // by row: the gradient of `product`
  View result;
};

MESHWRIGHT_DEVICE int64_t gate_at(const ExpertArguments& a, int64_t row, int64_t i) {
  return row * 2 * a.inner + (a.interleaved ? 2 * i : i);
}
MESHWRIGHT_DEVICE int64_t up_at(const ExpertArguments& a, int64_t row, int64_t i) {
  return row * 2 * a.inner + (a.interleaved ? 2 * i + 1 : a.inner + i);
}

template <class Real>
MESHWRIGHT_DEVICE Real gate_value(const ExpertArguments& a, Real x) {
  switch (a.gate) {
    case Gate::silu:
      return x * sigmoid_of(x);
    case Gate::gelu:
      return gelu_of(x);
    case Gate::tanh_gelu:
      return Real(0.5) * x * (1 + inner_of_tanh_gelu(x));
    case Gate::relu:
      return x > 0 ? x : Real(0);
    case Gate::clamped: {
      const Real limit = Real(a.limit), g = limit < x ? limit : x;
      return g * sigmoid_of(Real(a.alpha) * g);
    }
  }
  return 0;
}

template <class Real>
MESHWRIGHT_DEVICE Real gate_slope(const ExpertArguments& a, Real x) {
  switch (a.gate) {
    case Gate::silu:
      return sigmoid_of(x) * (1 + x * (1 - sigmoid_of(x)));
    case Gate::gelu:
      return gelu_slope_of(x);
    case Gate::tanh_gelu:
      return tanh_gelu_slope_of(x);
    case Gate::relu:
      return x > 0 ? Real(1) : Real(0);
    case Gate::clamped: {
      const Real alpha = Real(a.alpha), s = sigmoid_of(alpha * x);
      return x > Real(a.limit) ? Real(0) : s * (1 + alpha * x * (1 - s));
    }
  }
  return 0;
}

template <class Real>
MESHWRIGHT_DEVICE Real up_value(const ExpertArguments& a, Real x) {
  return a.gate != Gate::clamped ? x : clamped(x, Real(-a.limit), Real(a.limit)) + 1;
}
template <class Real>
MESHWRIGHT_DEVICE Real up_slope(const ExpertArguments& a, Real x) {
  return a.gate == Gate::clamped && fabs(x) > Real(a.limit) ? Real(0) : Real(1);
}

// One index a number of `gated` and of `product`. Of nobody's row both are zero.
template <class Type>
MESHWRIGHT_DEVICE void gate_row(const ExpertArguments& a, int64_t index) {
  using Real = typename Type::Real;
  const int64_t row = quotient(index, a.inner), i = index - row * a.inner;
  const Real gated = gate_value(a, Type::load(a.before, gate_at(a, row, i)));
  Type::store(a.gated, index, gated);
  Type::store(a.product, index, gated * up_value(a, Type::load(a.before, up_at(a, row, i))));
}
MESHWRIGHT_KERNEL(expert_gate, ExpertArguments) {
  by_type([&](auto type) { gate_row<decltype(type)>(arguments, index); }, arguments.before, arguments.gated,
          arguments.product);
}

// One index an element of the result, a token's: the sum of its rows of `output`.
template <class Type>
MESHWRIGHT_DEVICE void sum_copies(const ExpertArguments& a, int64_t index) {
  using Real = typename Type::Real;
  const int64_t token = quotient(index, a.outputs), column = index - token * a.outputs;
  Real sum = 0;
  for (int64_t row = token * a.copies; row < (token + 1) * a.copies; ++row) {
    const Real weight = a.weights.data != nullptr ? load<Real>(a.weights, row) : Real(1);
    sum += weight * Type::load(a.output, row * a.outputs + column);
  }
  store(a.result, index, sum);
}
MESHWRIGHT_KERNEL(expert_sum, ExpertArguments) {
  by_type([&](auto type) { sum_copies<decltype(type)>(arguments, index); }, arguments.output);
}

// One index an element of the result: a row's gradient, times its weight.
MESHWRIGHT_KERNEL(expert_weigh, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t row = quotient(index, a.outputs), column = index - row * a.outputs;
  by_type(
      [&](auto type) {
        using Type = decltype(type);
        const auto weight = load<typename Type::Real>(a.weights, row);
        Type::store(a.result, index, weight * Type::load(a.gradient, quotient(row, a.copies) * a.outputs + column));
      },
      a.gradient, a.result);
}

// One index a row: the gradient of its weight.
MESHWRIGHT_ROW_KERNEL(expert_weight_gradient, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t token = quotient(index, a.copies);
  by_type(
      [&](auto type) {
        using Type = decltype(type);
        typename Type::Real sum = 0;
        for (int64_t o = lane; o < a.outputs; o += kLanes)
          sum += Type::load(a.gradient, token * a.outputs + o) * Type::load(a.output, index * a.outputs + o);
        sum = sum_of_lanes(sum);
        if (lane == 0) store(a.result, index, sum);
      },
      a.gradient, a.output);
}

// One index a pair of numbers of the result, the gradient of `before`.
MESHWRIGHT_KERNEL(expert_slopes, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t row = quotient(index, a.inner), i = index - row * a.inner;
  by_type(
      [&](auto type) {
        using Type = decltype(type);
        using Real = typename Type::Real;
        const Real gate = Type::load(a.before, gate_at(a, row, i)), up = Type::load(a.before, up_at(a, row, i)),
                   sum = load<Real>(a.sums, index);
        store(a.result, gate_at(a, row, i), sum * up_value(a, up) * gate_slope(a, gate));
        store(a.result, up_at(a, row, i), sum * Type::load(a.gated, index) * up_slope(a, up));
      },
      a.before, a.gated);
}

}  // namespace meshwright::cuda
