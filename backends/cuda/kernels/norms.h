// Layer norm and root mean square norm over the last dimensions: rows of `extent` elements.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// All lie row by row. `statistics`: of each row its mean and the inverse of its deviation.
struct NormArguments {
  int64_t rows = 0, extent = 0;
  double epsilon = 0;
  bool rms = false, has_weight = false, has_bias = false;
  View input, weight, bias, gradient, result;
  double* statistics = nullptr;
  float *means = nullptr, *deviations = nullptr;  // the same apart, where a library wants them
  int64_t chunk = 1;  // of sums over rows: so many at a time, each of which gives the result a row
};

template <class Type>
MESHWRIGHT_DEVICE void find_statistics(Type, const NormArguments& a, int64_t index, int lane) {
  using Real = typename Type::Real;
  const int64_t first = index * a.extent;
  const Real count = static_cast<Real>(a.extent);
  Real mean = 0, square = 0;
  MESHWRIGHT_UNROLL_SOME
  for (int64_t i = lane; i < (a.rms ? 0 : a.extent); i += kLanes) mean += Type::load(a.input, first + i);
  mean = sum_of_lanes(mean) / count;
  MESHWRIGHT_UNROLL_SOME
  for (int64_t i = lane; i < a.extent; i += kLanes) {
    const Real number = Type::load(a.input, first + i) - mean;
    square += number * number;
  }
  square = sum_of_lanes(square);
  if (lane != 0) return;
  const double deviation = 1 / sqrt(static_cast<double>(square / count) + a.epsilon);
  a.statistics[2 * index] = mean;
  a.statistics[2 * index + 1] = deviation;
  if (a.means == nullptr) return;
  a.means[index] = static_cast<float>(mean);
  a.deviations[index] = static_cast<float>(deviation);
}

MESHWRIGHT_ROW_KERNEL(norm_statistics, NormArguments) {
  by_type([&](auto type) { find_statistics(type, arguments, index, lane); }, arguments.input);
}

// What an element is normalized with.
template <class Real>
struct RowStatistics {
  Real mean, deviation;  // the latter inverted
};
template <class Real>
MESHWRIGHT_DEVICE RowStatistics<Real> statistics_of(const NormArguments& a, int64_t row) {
  return {static_cast<Real>(a.statistics[2 * row]), static_cast<Real>(a.statistics[2 * row + 1])};
}
template <class Type, class Real>
MESHWRIGHT_DEVICE Real normalized(Type, const NormArguments& a, const RowStatistics<Real>& of, int64_t index) {
  return (Type::load(a.input, index) - of.mean) * of.deviation;
}

// Of what is as the input is where there is none.
MESHWRIGHT_DEVICE const View& weight_of(const NormArguments& a) { return a.has_weight ? a.weight : a.input; }
MESHWRIGHT_DEVICE const View& bias_of(const NormArguments& a) { return a.has_bias ? a.bias : a.input; }

template <class Type>
MESHWRIGHT_DEVICE void normalize_row(Type type, const NormArguments& a, int64_t row, int lane) {
  using Real = typename Type::Real;
  const RowStatistics<Real> statistics = statistics_of<Real>(a, row);
  MESHWRIGHT_UNROLL_SOME
  for (int64_t column = lane; column < a.extent; column += kLanes) {
    Real number = normalized(type, a, statistics, row * a.extent + column);
    if (a.has_weight) number *= Type::load(a.weight, column);
    if (a.has_bias) number += Type::load(a.bias, column);
    Type::store(a.result, row * a.extent + column, number);
  }
}

MESHWRIGHT_ROW_KERNEL(norm_rows, NormArguments) {
  by_type([&](auto type) { normalize_row(type, arguments, index, lane); }, arguments.input, weight_of(arguments),
          bias_of(arguments), arguments.result);
}

// With y the normalized input and h = gradient·weight: (h − mean(h) − y·mean(h·y)) / deviation. The root mean square
// lacks mean(h).
template <class Type>
MESHWRIGHT_DEVICE void find_input_gradient(Type type, const NormArguments& a, int64_t row, int lane) {
  using Real = typename Type::Real;
  const RowStatistics<Real> statistics = statistics_of<Real>(a, row);
  const int64_t first = row * a.extent;
  const auto weighted = [&](int64_t i) {
    return Type::load(a.gradient, first + i) * (a.has_weight ? Type::load(a.weight, i) : Real(1));
  };
  const Real count = static_cast<Real>(a.extent);
  Real sum = 0, product = 0;
  MESHWRIGHT_UNROLL_SOME
  for (int64_t i = lane; i < a.extent; i += kLanes) {
    const Real h = weighted(i);
    sum += h;
    product += h * normalized(type, a, statistics, first + i);
  }
  sum = a.rms ? 0 : sum_of_lanes(sum) / count;
  product = sum_of_lanes(product) / count;
  MESHWRIGHT_UNROLL_SOME
  for (int64_t i = lane; i < a.extent; i += kLanes) {
    const Real made = weighted(i) - sum - normalized(type, a, statistics, first + i) * product;
    Type::store(a.result, first + i, made * statistics.deviation);
  }
}

MESHWRIGHT_ROW_KERNEL(norm_input_gradient, NormArguments) {
  by_type([&](auto type) { find_input_gradient(type, arguments, index, lane); }, arguments.input, weight_of(arguments),
          arguments.gradient, arguments.result);
}

// Of the weight, or of the bias: sums over rows. One index a column of a chunk of them.
template <bool kOfWeight, class Type>
MESHWRIGHT_DEVICE void sum_rows(Type type, const NormArguments& a, int64_t index) {
  using Real = typename Type::Real;
  const int64_t chunk = quotient(index, a.extent), column = index - chunk * a.extent,
                end = (chunk + 1) * a.chunk < a.rows ? (chunk + 1) * a.chunk : a.rows;
  Real sum = 0;
  MESHWRIGHT_UNROLL_SOME
  for (int64_t row = chunk * a.chunk; row < end; ++row) {
    const int64_t at = row * a.extent + column;
    const Real gradient = Type::load(a.gradient, at);
    if constexpr (kOfWeight)
      sum += gradient * normalized(type, a, statistics_of<Real>(a, row), at);
    else
      sum += gradient;
  }
  store(a.result, index, sum);
}

MESHWRIGHT_KERNEL(norm_weight_gradient, NormArguments) {
  by_type([&](auto type) { sum_rows<true>(type, arguments, index); }, arguments.gradient, arguments.input);
}

MESHWRIGHT_KERNEL(norm_bias_gradient, NormArguments) {
  by_type([&](auto type) { sum_rows<false>(type, arguments, index); }, arguments.gradient);
}

}  // namespace meshwright::cuda
