// Softmax and its logarithm along one dimension.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// Lines of `extent` elements at a stride. Of the gradient `output` is what the forward made.
struct SoftmaxArguments {
  Sizes lines;
  int64_t extent = 0;
  bool logarithm = false;
  int64_t input_stride = 0, output_stride = 0, result_stride = 0;
  View input, output, result;  // strides of the lines
};

MESHWRIGHT_ROW_KERNEL(softmax, SoftmaxArguments) {
  const SoftmaxArguments& a = arguments;
  const int64_t from = offset_of(a.lines, a.input.strides, index), to = offset_of(a.lines, a.result.strides, index);
  double largest = -INFINITY, sum = 0;
  for (int64_t i = lane; i < a.extent; i += kLanes) {
    const double number = load(a.input, from + i * a.input_stride);
    largest = number > largest ? number : largest;
  }
  largest = maximum_of_lanes(largest);
  for (int64_t i = lane; i < a.extent; i += kLanes) sum += exp(load(a.input, from + i * a.input_stride) - largest);
  sum = sum_of_lanes(sum);
  for (int64_t i = lane; i < a.extent; i += kLanes) {
    const double number = load(a.input, from + i * a.input_stride) - largest;
    store(a.result, to + i * a.result_stride, a.logarithm ? number - ::log(sum) : exp(number) / sum);
  }
}

// gradient·y − y·Σ gradient·y, and of the logarithm gradient − exp(y)·Σ gradient.
MESHWRIGHT_ROW_KERNEL(softmax_gradient, SoftmaxArguments) {
  const SoftmaxArguments& a = arguments;
  const int64_t from = offset_of(a.lines, a.input.strides, index), made = offset_of(a.lines, a.output.strides, index),
                to = offset_of(a.lines, a.result.strides, index);
  double sum = 0;
  for (int64_t i = lane; i < a.extent; i += kLanes)
    sum += load(a.input, from + i * a.input_stride) * (a.logarithm ? 1 : load(a.output, made + i * a.output_stride));
  sum = sum_of_lanes(sum);
  for (int64_t i = lane; i < a.extent; i += kLanes) {
    const double gradient = load(a.input, from + i * a.input_stride), y = load(a.output, made + i * a.output_stride);
    store(a.result, to + i * a.result_stride, a.logarithm ? gradient - exp(y) * sum : (gradient - sum) * y);
  }
}

}  // namespace meshwright::cuda
