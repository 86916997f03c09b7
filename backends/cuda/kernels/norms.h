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
};

MESHWRIGHT_ROW_KERNEL(norm_statistics, NormArguments) {
  const int64_t first = index * arguments.extent;
  const double count = static_cast<double>(arguments.extent);
  double mean = 0, square = 0;
  for (int64_t i = lane; i < arguments.extent && !arguments.rms; i += kLanes) mean += load(arguments.input, first + i);
  mean = sum_of_lanes(mean) / count;
  for (int64_t i = lane; i < arguments.extent; i += kLanes) {
    const double number = load(arguments.input, first + i) - mean;
    square += number * number;
  }
  square = sum_of_lanes(square);
  if (lane != 0) return;
  arguments.statistics[2 * index] = mean;
  arguments.statistics[2 * index + 1] = 1 / sqrt(square / count + arguments.epsilon);
}

// Of an element, by its row and its place.
MESHWRIGHT_DEVICE double normalized(const NormArguments& arguments, int64_t row, int64_t index) {
  const double* statistics = arguments.statistics + 2 * row;
  return (load(arguments.input, index) - statistics[0]) * statistics[1];
}

MESHWRIGHT_KERNEL(norm_rows, NormArguments) {
  const int64_t row = quotient(index, arguments.extent), column = index - row * arguments.extent;
  double number = normalized(arguments, row, index);
  if (arguments.has_weight) number *= load(arguments.weight, column);
  if (arguments.has_bias) number += load(arguments.bias, column);
  store(arguments.result, index, number);
}

// With y the normalized input and h = gradient·weight: (h − mean(h) − y·mean(h·y)) / deviation. The root mean square
// lacks mean(h).
MESHWRIGHT_ROW_KERNEL(norm_input_gradient, NormArguments) {
  const int64_t first = index * arguments.extent;
  const double count = static_cast<double>(arguments.extent);
  double sum = 0, product = 0;
  for (int64_t i = lane; i < arguments.extent; i += kLanes) {
    const double h = load(arguments.gradient, first + i) * (arguments.has_weight ? load(arguments.weight, i) : 1);
    sum += h;
    product += h * normalized(arguments, index, first + i);
  }
  sum = sum_of_lanes(sum);
  product = sum_of_lanes(product);
  for (int64_t i = lane; i < arguments.extent; i += kLanes) {
    const double h = load(arguments.gradient, first + i) * (arguments.has_weight ? load(arguments.weight, i) : 1);
    const double made =
        h - (arguments.rms ? 0 : sum / count) - normalized(arguments, index, first + i) * product / count;
    store(arguments.result, first + i, made * arguments.statistics[2 * index + 1]);
  }
}

// Of one element of the weight, or of the bias: sums over rows, a row of these kernels for each column.
MESHWRIGHT_ROW_KERNEL(norm_weight_gradient, NormArguments) {
  double sum = 0;
  for (int64_t row = lane; row < arguments.rows; row += kLanes)
    sum += load(arguments.gradient, row * arguments.extent + index) *
           normalized(arguments, row, row * arguments.extent + index);
  sum = sum_of_lanes(sum);
  if (lane == 0) store(arguments.result, index, sum);
}

MESHWRIGHT_ROW_KERNEL(norm_bias_gradient, NormArguments) {
  double sum = 0;
  for (int64_t row = lane; row < arguments.rows; row += kLanes)
    sum += load(arguments.gradient, row * arguments.extent + index);
  sum = sum_of_lanes(sum);
  if (lane == 0) store(arguments.result, index, sum);
}

}  // namespace meshwright::cuda
