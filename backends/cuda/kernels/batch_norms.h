// Batch norm: of an input n c x*, statistics of each channel over n and x*, and what they normalize.
#pragma once

#include "blocks.h"

namespace meshwright::cuda {

// All lie row by row; but for `input`, `gradient` and a result of their shape they hold a number for each channel.
// Views without memory are not there.
struct BatchNormArguments {
  int64_t batch = 0, channels = 0, space = 0;
  double count = 0;  // elements of a channel, on all ranks together
  double epsilon = 0;
  double share = 0;  // of the batch's statistics in the running ones
  View input, gradient, weight, bias;
  View mean, variance, deviation;  // the latter inverted
  View sum, product;               // of gradients, and of those times the normalized input
  View running_mean, running_variance;
  View result, new_mean, new_deviation, new_running_mean, new_running_variance;
};

MESHWRIGHT_DEVICE int64_t element_of(const BatchNormArguments& arguments, int64_t channel, int64_t i) {
  const int64_t example = quotient(i, arguments.space);
  return (example * arguments.channels + channel) * arguments.space + i - example * arguments.space;
}

MESHWRIGHT_DEVICE int64_t channel_of(const BatchNormArguments& arguments, int64_t index) {
  const int64_t plane = quotient(index, arguments.space);
  return plane - quotient(plane, arguments.channels) * arguments.channels;
}

MESHWRIGHT_DEVICE double of_channel(const View& view, int64_t channel, double otherwise) {
  return view.data != nullptr ? load(view, channel) : otherwise;
}

// One index a channel.
MESHWRIGHT_BLOCK_KERNEL(batch_norm_mean, BatchNormArguments) {
  double sum = 0;
  for (int64_t i = thread; i < arguments.batch * arguments.space; i += kThreads)
    sum += load(arguments.input, element_of(arguments, index, i));
  sum = sum_of_block(sum);
  if (thread == 0) store(arguments.result, index, sum / arguments.count);
}

MESHWRIGHT_BLOCK_KERNEL(batch_norm_variance, BatchNormArguments) {
  const double mean = load(arguments.mean, index);
  double sum = 0;
  for (int64_t i = thread; i < arguments.batch * arguments.space; i += kThreads) {
    const double difference = load(arguments.input, element_of(arguments, index, i)) - mean;
    sum += difference * difference;
  }
  sum = sum_of_block(sum);
  if (thread == 0) store(arguments.result, index, sum / arguments.count);
}

// What a training's forward gives besides. The running variance is the unbiased one.
MESHWRIGHT_KERNEL(batch_norm_saved, BatchNormArguments) {
  const double mean = load(arguments.mean, index), variance = load(arguments.variance, index), share = arguments.share;
  if (arguments.new_mean.data != nullptr) {
    store(arguments.new_mean, index, mean);
    store(arguments.new_deviation, index, 1 / sqrt(variance + arguments.epsilon));
  }
  if (arguments.new_running_mean.data == nullptr) return;
  store(arguments.new_running_mean, index, (1 - share) * load(arguments.running_mean, index) + share * mean);
  store(arguments.new_running_variance, index,
        (1 - share) * load(arguments.running_variance, index) +
            (share > 0 ? share * variance * arguments.count / (arguments.count - 1) : 0));
}

// One index an element.
MESHWRIGHT_KERNEL(batch_norm_apply, BatchNormArguments) {
  const int64_t channel = channel_of(arguments, index);
  const double deviation = 1 / sqrt(load(arguments.variance, channel) + arguments.epsilon);
  store(arguments.result, index,
        (load(arguments.input, index) - load(arguments.mean, channel)) * deviation *
                of_channel(arguments.weight, channel, 1) +
            of_channel(arguments.bias, channel, 0));
}

// One index a channel.
MESHWRIGHT_BLOCK_KERNEL(batch_norm_gradient_sums, BatchNormArguments) {
  const double mean = load(arguments.mean, index), deviation = load(arguments.deviation, index);
  double sum = 0, product = 0;
  for (int64_t i = thread; i < arguments.batch * arguments.space; i += kThreads) {
    const int64_t at = element_of(arguments, index, i);
    const double gradient = load(arguments.gradient, at);
    sum += gradient;
    product += gradient * (load(arguments.input, at) - mean) * deviation;
  }
  sum = sum_of_block(sum);
  product = sum_of_block(product);
  if (thread != 0) return;
  store(arguments.sum, index, sum);
  store(arguments.product, index, product);
}

// With y the normalized input: weight·(gradient − Σ gradient/count − y·Σ(gradient·y)/count) / deviation.
MESHWRIGHT_KERNEL(batch_norm_input_gradient, BatchNormArguments) {
  const int64_t channel = channel_of(arguments, index);
  const double deviation = load(arguments.deviation, channel);
  double made = load(arguments.gradient, index);
  if (arguments.sum.data != nullptr)
    made -= (load(arguments.sum, channel) + (load(arguments.input, index) - load(arguments.mean, channel)) * deviation *
                                                load(arguments.product, channel)) /
            arguments.count;
  store(arguments.result, index, made * deviation * of_channel(arguments.weight, channel, 1));
}

}  // namespace meshwright::cuda
