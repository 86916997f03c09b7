// Group norm: of an input n c x*, statistics of each example's groups of channels over these and x*.
#pragma once

#include "blocks.h"

namespace meshwright::cuda {

// All lie row by row: a group of an example is a row of `extent` elements.
struct GroupNormArguments {
  int64_t groups = 0, extent = 0;  // of all examples together
  int64_t batch = 0, channels = 0, space = 0;
  double epsilon = 0;
  bool of_weight = false;  // the gradient by channel: of the weight, or of the bias
  View mean, deviation;    // by group; the latter inverted
  View input, weight, bias, gradient, result;
};

MESHWRIGHT_DEVICE int64_t channel_of(const GroupNormArguments& a, int64_t index) {
  const int64_t plane = quotient(index, a.space);
  return plane - quotient(plane, a.channels) * a.channels;
}

MESHWRIGHT_DEVICE double normalized(const GroupNormArguments& a, int64_t group, int64_t index) {
  return (load(a.input, index) - load(a.mean, group)) * load(a.deviation, group);
}

MESHWRIGHT_BLOCK_KERNEL(group_norm_statistics, GroupNormArguments) {
  const int64_t first = index * arguments.extent;
  const double count = static_cast<double>(arguments.extent);
  double mean = 0, square = 0;
  for (int64_t i = thread; i < arguments.extent; i += kThreads) mean += load(arguments.input, first + i);
  mean = kept_by_block(sum_of_block(mean)) / count;
  for (int64_t i = thread; i < arguments.extent; i += kThreads) {
    const double number = load(arguments.input, first + i) - mean;
    square += number * number;
  }
  square = sum_of_block(square);
  if (thread != 0) return;
  store(arguments.mean, index, mean);
  store(arguments.deviation, index, 1 / sqrt(square / count + arguments.epsilon));
}

MESHWRIGHT_KERNEL(group_norm_apply, GroupNormArguments) {
  double number = normalized(arguments, quotient(index, arguments.extent), index);
  if (arguments.weight.data != nullptr) number *= load(arguments.weight, channel_of(arguments, index));
  if (arguments.bias.data != nullptr) number += load(arguments.bias, channel_of(arguments, index));
  store(arguments.result, index, number);
}

MESHWRIGHT_DEVICE double weighted(const GroupNormArguments& a, int64_t index) {
  return load(a.gradient, index) * (a.weight.data != nullptr ? load(a.weight, channel_of(a, index)) : 1);
}

// With y the normalized input and h = gradient·weight: (h − mean(h) − y·mean(h·y)) / deviation.
MESHWRIGHT_BLOCK_KERNEL(group_norm_input_gradient, GroupNormArguments) {
  const int64_t first = index * arguments.extent;
  const double count = static_cast<double>(arguments.extent);
  double sum = 0, product = 0;
  for (int64_t i = first + thread; i < first + arguments.extent; i += kThreads) {
    const double h = weighted(arguments, i);
    sum += h;
    product += h * normalized(arguments, index, i);
  }
  sum = kept_by_block(sum_of_block(sum)) / count;
  product = kept_by_block(sum_of_block(product)) / count;
  for (int64_t i = first + thread; i < first + arguments.extent; i += kThreads)
    store(
        arguments.result, i,
        (weighted(arguments, i) - sum - normalized(arguments, index, i) * product) * load(arguments.deviation, index));
}

// One index a channel.
MESHWRIGHT_BLOCK_KERNEL(group_norm_channel_gradient, GroupNormArguments) {
  double sum = 0;
  for (int64_t i = thread; i < arguments.batch * arguments.space; i += kThreads) {
    const int64_t example = quotient(i, arguments.space),
                  at = (example * arguments.channels + index) * arguments.space + i - example * arguments.space;
    sum += load(arguments.gradient, at) *
           (arguments.of_weight ? normalized(arguments, quotient(at, arguments.extent), at) : 1);
  }
  sum = sum_of_block(sum);
  if (thread == 0) store(arguments.result, index, sum);
}

}  // namespace meshwright::cuda
