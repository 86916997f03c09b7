// A layer of experts: tokens, each of which goes through some of the experts, and their sums by the router's weights.
#pragma once

#include "lookups.h"

namespace meshwright::cuda {

enum class Gate : int32_t { silu, gelu, tanh_gelu, relu, clamped };

// A row is a token's copy, of which it has `copies`; `hidden`, `inner`, `outputs`: widths. All lie row by row. Rows of
// experts that are another rank's give zeros.
struct ExpertArguments {
  int64_t rows = 0, copies = 1, hidden = 0, inner = 0, outputs = 0;
  Gate gate = Gate::silu;
  bool in_first = false, interleaved = false;
  double alpha = 1, limit = 0;
  Shard experts;
  View indices, weights, gate_up, down, bias;  // the last one without memory: there is none
  View row, before, gated, product, output;    // by row: what comes in; its 2·inner numbers; what is made of them
  View gradient;                               // of the layer's result, by token
  double* slopes = nullptr;                    // by row: the gradient of `before`
  View result;
};

MESHWRIGHT_DEVICE int64_t expert_of(const ExpertArguments& a, int64_t row) {
  return local_of(a.experts, static_cast<int64_t>(load(a.indices, row)));
}
MESHWRIGHT_DEVICE int64_t gate_at(const ExpertArguments& a, int64_t i) { return a.interleaved ? 2 * i : i; }
MESHWRIGHT_DEVICE int64_t up_at(const ExpertArguments& a, int64_t i) { return a.interleaved ? 2 * i + 1 : a.inner + i; }
MESHWRIGHT_DEVICE int64_t gate_up_at(const ExpertArguments& a, int64_t expert, int64_t j, int64_t h) {
  return a.in_first ? (expert * a.hidden + h) * 2 * a.inner + j : (expert * 2 * a.inner + j) * a.hidden + h;
}
MESHWRIGHT_DEVICE int64_t down_at(const ExpertArguments& a, int64_t expert, int64_t o, int64_t i) {
  return a.in_first ? (expert * a.inner + i) * a.outputs + o : (expert * a.outputs + o) * a.inner + i;
}

MESHWRIGHT_DEVICE double logistic(double x) { return 1 / (1 + exp(-x)); }
MESHWRIGHT_DEVICE double normal_of(double x) { return 0.5 * erfc(-x / 1.4142135623730951); }
MESHWRIGHT_DEVICE double tanh_inner_of(double x) { return tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)); }

MESHWRIGHT_DEVICE double gate_value(const ExpertArguments& a, double x) {
  switch (a.gate) {
    case Gate::silu:
      return x * logistic(x);
    case Gate::gelu:
      return x * normal_of(x);
    case Gate::tanh_gelu:
      return 0.5 * x * (1 + tanh_inner_of(x));
    case Gate::relu:
      return x > 0 ? x : 0;
    case Gate::clamped: {
      const double g = x < a.limit ? x : a.limit;
      return g * logistic(a.alpha * g);
    }
  }
  return 0;
}

MESHWRIGHT_DEVICE double gate_slope(const ExpertArguments& a, double x) {
  switch (a.gate) {
    case Gate::silu:
      return logistic(x) * (1 + x * (1 - logistic(x)));
    case Gate::gelu:
      return normal_of(x) + x * exp(-0.5 * x * x) / 2.5066282746310002;
    case Gate::tanh_gelu: {
      const double t = tanh_inner_of(x);
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
    }
    case Gate::relu:
      return x > 0 ? 1 : 0;
    case Gate::clamped: {
      const double s = logistic(a.alpha * x);
      return x > a.limit ? 0 : s * (1 + a.alpha * x * (1 - s));
    }
  }
  return 0;
}

MESHWRIGHT_DEVICE double up_value(const ExpertArguments& a, double x) {
  if (a.gate != Gate::clamped) return x;
  return (x > a.limit ? a.limit : x < -a.limit ? -a.limit : x) + 1;
}
MESHWRIGHT_DEVICE double up_slope(const ExpertArguments& a, double x) {
  return a.gate == Gate::clamped && fabs(x) > a.limit ? 0 : 1;
}

// One index a number of `before`.
MESHWRIGHT_KERNEL(expert_before, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t row = quotient(index, 2 * a.inner), j = index - row * 2 * a.inner, expert = expert_of(a, row);
  double sum = 0;
  if (expert >= 0) {
    if (a.bias.data != nullptr) sum = load(a.bias, expert * 2 * a.inner + j);
    for (int64_t h = 0; h < a.hidden; ++h)
      sum += load(a.gate_up, gate_up_at(a, expert, j, h)) * load(a.row, row * a.hidden + h);
  }
  store(a.before, index, sum);
}

// One index a number of `gated` and of `product`.
MESHWRIGHT_KERNEL(expert_gate, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t row = quotient(index, a.inner), i = index - row * a.inner, first = row * 2 * a.inner;
  const bool is_here = expert_of(a, row) >= 0;
  const double gated = is_here ? gate_value(a, load(a.before, first + gate_at(a, i))) : 0;
  store(a.gated, index, gated);
  store(a.product, index, is_here ? gated * up_value(a, load(a.before, first + up_at(a, i))) : 0);
}

// One index a number of `output`.
MESHWRIGHT_KERNEL(expert_output, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t row = quotient(index, a.outputs), o = index - row * a.outputs, expert = expert_of(a, row);
  double sum = 0;
  for (int64_t i = 0; i < a.inner && expert >= 0; ++i)
    sum += load(a.down, down_at(a, expert, o, i)) * load(a.product, row * a.inner + i);
  store(a.output, index, sum);
}

// One index an element of the result, a token's.
MESHWRIGHT_KERNEL(expert_sum, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t token = quotient(index, a.outputs), o = index - token * a.outputs;
  double sum = 0;
  for (int64_t row = token * a.copies; row < (token + 1) * a.copies; ++row)
    sum += load(a.weights, row) * load(a.output, row * a.outputs + o);
  store(a.result, index, sum);
}

// One index a row.
MESHWRIGHT_ROW_KERNEL(expert_weight_gradient, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t token = quotient(index, a.copies);
  double sum = 0;
  for (int64_t o = lane; o < a.outputs && expert_of(a, index) >= 0; o += kLanes)
    sum += load(a.gradient, token * a.outputs + o) * load(a.output, index * a.outputs + o);
  sum = sum_of_lanes(sum);
  if (lane == 0) store(a.result, index, sum);
}

// One index a pair of numbers of `slopes`.
MESHWRIGHT_KERNEL(expert_slopes, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t row = quotient(index, a.inner), i = index - row * a.inner, first = row * 2 * a.inner,
                expert = expert_of(a, row), token = quotient(row, a.copies);
  double sum = 0;
  for (int64_t o = 0; o < a.outputs && expert >= 0; ++o)
    sum += load(a.gradient, token * a.outputs + o) * load(a.down, down_at(a, expert, o, i));
  sum *= load(a.weights, row);
  const double gate = load(a.before, first + gate_at(a, i)), up = load(a.before, first + up_at(a, i));
  a.slopes[first + gate_at(a, i)] = expert < 0 ? 0 : sum * up_value(a, up) * gate_slope(a, gate);
  a.slopes[first + up_at(a, i)] = expert < 0 ? 0 : sum * load(a.gated, index) * up_slope(a, up);
}

// One index an element of the tokens.
MESHWRIGHT_KERNEL(expert_input_gradient, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t token = quotient(index, a.hidden), h = index - token * a.hidden;
  double sum = 0;
  for (int64_t row = token * a.copies; row < (token + 1) * a.copies; ++row) {
    const int64_t expert = expert_of(a, row);
    for (int64_t j = 0; j < 2 * a.inner && expert >= 0; ++j)
      sum += a.slopes[row * 2 * a.inner + j] * load(a.gate_up, gate_up_at(a, expert, j, h));
  }
  store(a.result, index, sum);
}

// One index an element of the weight, or of the bias, which takes the rows of its expert.
MESHWRIGHT_ROW_KERNEL(expert_gate_up_gradient, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t outer = quotient(index, a.in_first ? 2 * a.inner : a.hidden),
                last = index - outer * (a.in_first ? 2 * a.inner : a.hidden),
                expert = quotient(outer, a.in_first ? a.hidden : 2 * a.inner),
                middle = outer - expert * (a.in_first ? a.hidden : 2 * a.inner), j = a.in_first ? last : middle,
                h = a.in_first ? middle : last;
  double sum = 0;
  for (int64_t row = lane; row < a.rows; row += kLanes) {
    if (expert_of(a, row) == expert) sum += a.slopes[row * 2 * a.inner + j] * load(a.row, row * a.hidden + h);
  }
  sum = sum_of_lanes(sum);
  if (lane == 0) store(a.result, index, sum);
}

MESHWRIGHT_ROW_KERNEL(expert_bias_gradient, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t expert = quotient(index, 2 * a.inner), j = index - expert * 2 * a.inner;
  double sum = 0;
  for (int64_t row = lane; row < a.rows; row += kLanes) {
    if (expert_of(a, row) == expert) sum += a.slopes[row * 2 * a.inner + j];
  }
  sum = sum_of_lanes(sum);
  if (lane == 0) store(a.result, index, sum);
}

MESHWRIGHT_ROW_KERNEL(expert_down_gradient, ExpertArguments) {
  const ExpertArguments& a = arguments;
  const int64_t outer = quotient(index, a.in_first ? a.outputs : a.inner),
                last = index - outer * (a.in_first ? a.outputs : a.inner),
                expert = quotient(outer, a.in_first ? a.inner : a.outputs),
                middle = outer - expert * (a.in_first ? a.inner : a.outputs), o = a.in_first ? last : middle,
                i = a.in_first ? middle : last;
  double sum = 0;
  for (int64_t row = lane; row < a.rows; row += kLanes) {
    if (expert_of(a, row) != expert) continue;
    sum += load(a.weights, row) * load(a.gradient, quotient(row, a.copies) * a.outputs + o) *
           load(a.product, row * a.inner + i);
  }
  sum = sum_of_lanes(sum);
  if (lane == 0) store(a.result, index, sum);
}

}  // namespace meshwright::cuda
