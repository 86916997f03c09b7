// Convolutions of up to three dimensions of space: output[n, o, y] = Σ input[n, i, x]·weight[o, i, k] over all x =
// y·stride − padding + k·dilation inside of the input. The gradient of each operand has the same terms, with the
// result's gradient in its place.
#pragma once

#include "space.h"

namespace meshwright::cuda {

// All lie row by row. Each kernel writes the tensor that it is named for, to which `bias` is added by channel.
struct ConvolutionArguments {
  int64_t batch = 0, inputs = 0, outputs = 0;   // examples, channels
  int64_t group_inputs = 0, group_outputs = 0;  // channels of one group
  int64_t x[kSpace] = {}, y[kSpace] = {}, k[kSpace] = {};
  int64_t stride[kSpace] = {}, padding[kSpace] = {}, dilation[kSpace] = {};
  bool has_bias = false;
  View input, weight, output, bias;
};

MESHWRIGHT_KERNEL(convolution_output, ConvolutionArguments) {
  const ConvolutionArguments& a = arguments;
  const int64_t y_volume = volume_of(a.y), x_volume = volume_of(a.x), k_volume = volume_of(a.k);
  const int64_t plane = quotient(index, y_volume), example = quotient(plane, a.outputs),
                channel = plane - example * a.outputs;
  int64_t first[kSpace];
  place_of(index - plane * y_volume, a.y, first);
  for (int d = 0; d < kSpace; ++d) first[d] = first[d] * a.stride[d] - a.padding[d];
  int64_t input = (example * a.inputs + quotient(channel, a.group_outputs) * a.group_inputs) * x_volume,
          weight = channel * a.group_inputs * k_volume;
  double sum = 0;
  for (int64_t i = 0; i < a.group_inputs; ++i, input += x_volume, weight += k_volume) {
    int64_t k = weight;
    for (int64_t k0 = 0; k0 < a.k[0]; ++k0) {
      const int64_t x0 = first[0] + k0 * a.dilation[0];
      for (int64_t k1 = 0; k1 < a.k[1]; ++k1) {
        const int64_t x1 = first[1] + k1 * a.dilation[1];
        const bool is_inside = x0 >= 0 && x0 < a.x[0] && x1 >= 0 && x1 < a.x[1];
        const int64_t line = input + (x0 * a.x[1] + x1) * a.x[2];
        for (int64_t k2 = 0; k2 < a.k[2]; ++k2, ++k) {
          const int64_t x2 = first[2] + k2 * a.dilation[2];
          if (is_inside && x2 >= 0 && x2 < a.x[2]) sum += load(a.input, line + x2) * load(a.weight, k);
        }
      }
    }
  }
  if (a.has_bias) sum += load(a.bias, channel);
  store(a.output, index, sum);
}

// The output position that takes this from `k`: -1 if there is none.
MESHWRIGHT_DEVICE int64_t taker_of(const ConvolutionArguments& a, int d, int64_t x, int64_t k) {
  return place_at(x + a.padding[d] - k * a.dilation[d], a.stride[d], a.y[d]);
}

MESHWRIGHT_KERNEL(convolution_input, ConvolutionArguments) {
  const ConvolutionArguments& a = arguments;
  const int64_t y_volume = volume_of(a.y), x_volume = volume_of(a.x), k_volume = volume_of(a.k);
  const int64_t plane = quotient(index, x_volume), example = quotient(plane, a.inputs),
                channel = plane - example * a.inputs, group = quotient(channel, a.group_inputs);
  int64_t x[kSpace];
  place_of(index - plane * x_volume, a.x, x);
  const int64_t output = (example * a.outputs + group * a.group_outputs) * y_volume,
                weight = (group * a.group_outputs * a.group_inputs + channel - group * a.group_inputs) * k_volume;
  double sum = 0;
  int64_t k = weight;
  for (int64_t k0 = 0; k0 < a.k[0]; ++k0) {
    const int64_t y0 = taker_of(a, 0, x[0], k0);
    for (int64_t k1 = 0; k1 < a.k[1]; ++k1) {
      const int64_t y1 = taker_of(a, 1, x[1], k1);
      for (int64_t k2 = 0; k2 < a.k[2]; ++k2, ++k) {
        const int64_t y2 = taker_of(a, 2, x[2], k2);
        if (y0 < 0 || y1 < 0 || y2 < 0) continue;
        const int64_t y = output + (y0 * a.y[1] + y1) * a.y[2] + y2;
        for (int64_t o = 0; o < a.group_outputs; ++o)
          sum += load(a.output, y + o * y_volume) * load(a.weight, k + o * a.group_inputs * k_volume);
      }
    }
  }
  if (a.has_bias) sum += load(a.bias, channel);
  store(a.input, index, sum);
}

// One index an element of the weight, whose row is all examples and positions of the output.
MESHWRIGHT_ROW_KERNEL(convolution_weight, ConvolutionArguments) {
  const ConvolutionArguments& a = arguments;
  const int64_t y_volume = volume_of(a.y), x_volume = volume_of(a.x), k_volume = volume_of(a.k);
  const int64_t pair = quotient(index, k_volume), channel = quotient(pair, a.group_inputs),
                own = pair - channel * a.group_inputs,
                input_channel = quotient(channel, a.group_outputs) * a.group_inputs + own;
  int64_t k[kSpace];
  place_of(index - pair * k_volume, a.k, k);
  double sum = 0;
  for (int64_t i = lane; i < a.batch * y_volume; i += kLanes) {
    const int64_t example = quotient(i, y_volume), position = i - example * y_volume;
    int64_t y[kSpace];
    place_of(position, a.y, y);
    int64_t x = 0;
    bool is_inside = true;
    for (int d = 0; d < kSpace; ++d) {
      const int64_t at = y[d] * a.stride[d] - a.padding[d] + k[d] * a.dilation[d];
      is_inside = is_inside && at >= 0 && at < a.x[d];
      x = x * a.x[d] + at;
    }
    if (is_inside)
      sum += load(a.output, (example * a.outputs + channel) * y_volume + position) *
             load(a.input, (example * a.inputs + input_channel) * x_volume + x);
  }
  sum = sum_of_lanes(sum);
  if (lane == 0) store(a.weight, index, sum);
}

}  // namespace meshwright::cuda
