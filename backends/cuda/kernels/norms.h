// Layer norm and root mean square norm over the last dimensions: rows of `extent` elements.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// All lie row by row. `statistics`: of each row its mean and the inverse of its deviation.
struct NormArguments {
  int64_t rows = 0, extent = 0;
  double epsilon = 0;
  bool rms = false, has_weight = false, has_bias = false;
  bool single = false;  // computed in float
  View input, weight, bias, gradient, result;
  double* statistics = nullptr;
  int64_t chunk = 1;  // of sums over rows: so many at a time, each of which gives the result a row
};

template <class Real>
MESHWRIGHT_DEVICE void find_statistics(const NormArguments& a, int64_t index, int lane) {
  const int64_t first = index * a.extent;
  const Real count = static_cast<Real>(a.extent);
  Real mean = 0, square = 0;
  for (int64_t i = lane; i < a.extent && !a.rms; i += kLanes) mean += load<Real>(a.input, first + i);
  mean = sum_of_lanes(mean) / count;
  for (int64_t i = lane; i < a.extent; i += kLanes) {
    const Real number = load<Real>(a.input, first + i) - mean;
    square += number * number;
  }
  square = sum_of_lanes(square);
  if (lane != 0) return;
  a.statistics[2 * index] = mean;
  a.statistics[2 * index + 1] = 1 / sqrt(static_cast<double>(square / count) + a.epsilon);
}

MESHWRIGHT_ROW_KERNEL(norm_statistics, NormArguments) {
  if (arguments.single)
    find_statistics<float>(arguments, index, lane);
  else
    find_statistics<double>(arguments, index, lane);
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
template <class Real>
MESHWRIGHT_DEVICE Real normalized(const NormArguments& a, const RowStatistics<Real>& of, int64_t index) {
  return (load<Real>(a.input, index) - of.mean) * of.deviation;
}

template <class Real>
MESHWRIGHT_DEVICE void normalize_row(const NormArguments& a, int64_t row, int lane) {
  const RowStatistics<Real> statistics = statistics_of<Real>(a, row);
  for (int64_t column = lane; column < a.extent; column += kLanes) {
    Real number = normalized(a, statistics, row * a.extent + column);
    if (a.has_weight) number *= load<Real>(a.weight, column);
    if (a.has_bias) number += load<Real>(a.bias, column);
    store(a.result, row * a.extent + column, number);
  }
}

MESHWRIGHT_ROW_KERNEL(norm_rows, NormArguments) {
  if (arguments.single)
    normalize_row<float>(arguments, index, lane);
  else
    normalize_row<double>(arguments, index, lane);
}

// With y the normalized input and h = gradient·weight: (h − mean(h) − y·mean(h·y)) / deviation. The root mean square
// lacks mean(h).
template <class Real>
MESHWRIGHT_DEVICE void find_input_gradient(const NormArguments& a, int64_t row, int lane) {
  const RowStatistics<Real> statistics = statistics_of<Real>(a, row);
  const int64_t first = row * a.extent;
  const auto weighted = [&](int64_t i) {
    return load<Real>(a.gradient, first + i) * (a.has_weight ? load<Real>(a.weight, i) : Real(1));
  };
  const Real count = static_cast<Real>(a.extent);
  Real sum = 0, product = 0;
  for (int64_t i = lane; i < a.extent; i += kLanes) {
    const Real h = weighted(i);
    sum += h;
    product += h * normalized(a, statistics, first + i);
  }
  sum = a.rms ? 0 : sum_of_lanes(sum) / count;
  product = sum_of_lanes(product) / count;
  for (int64_t i = lane; i < a.extent; i += kLanes) {
    const Real made = weighted(i) - sum - normalized(a, statistics, first + i) * product;
    store(a.result, first + i, made * statistics.deviation);
  }
}

MESHWRIGHT_ROW_KERNEL(norm_input_gradient, NormArguments) {
  if (arguments.single)
    find_input_gradient<float>(arguments, index, lane);
  else
    find_input_gradient<double>(arguments, index, lane);
}

// Of the weight, or of the bias: sums over rows. One index a column of a chunk of them.
template <class Real, bool kOfWeight>
MESHWRIGHT_DEVICE void sum_rows(const NormArguments& a, int64_t index) {
  const int64_t chunk = quotient(index, a.extent), column = index - chunk * a.extent,
                end = (chunk + 1) * a.chunk < a.rows ? (chunk + 1) * a.chunk : a.rows;
  Real sum = 0;
  for (int64_t row = chunk * a.chunk; row < end; ++row) {
    const int64_t at = row * a.extent + column;
    const Real gradient = load<Real>(a.gradient, at);
    sum += kOfWeight ? gradient * normalized(a, statistics_of<Real>(a, row), at) : gradient;
  }
  store(a.result, index, sum);
}

MESHWRIGHT_KERNEL(norm_weight_gradient, NormArguments) {
  if (arguments.single)
    sum_rows<float, true>(arguments, index);
  else
    sum_rows<double, true>(arguments, index);
}

MESHWRIGHT_KERNEL(norm_bias_gradient, NormArguments) {
  if (arguments.single)
    sum_rows<float, false>(arguments, index);
  else
    sum_rows<double, false>(arguments, index);
}

}  // namespace meshwright::cuda
