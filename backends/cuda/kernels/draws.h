// Numbers that are drawn, by the global index of each element, as RandomStream (random_stream.h) draws them.
#pragma once

#include "dropout.h"

namespace meshwright::cuda {

enum class Draw : int32_t { uniform, integer, bernoulli, bernoulli_of_each, exponential, normal };

// All lie row by row. `low`, `high`: of what is uniform, and of integers; a probability, a rate, mean and deviation
// stand in `low`, and in `high`.
struct DrawArguments {
  Draw kind = Draw::uniform;
  uint64_t key = 0;
  double low = 0, high = 1;
  Shard elements;
  View probabilities, result;
};

// Box and Muller 1958.
MESHWRIGHT_DEVICE double normal_at(uint64_t key, int64_t element) {
  return sqrt(-2 * log1p(-uniform_of(key, 2 * element))) * cos(6.283185307179586 * uniform_of(key, 2 * element + 1));
}

MESHWRIGHT_KERNEL(draw, DrawArguments) {
  const DrawArguments& a = arguments;
  const int64_t element = global_of(a.elements, index);
  double made = 0;
  switch (a.kind) {
    case Draw::uniform:
      made = a.low + uniform_of(a.key, element) * (a.high - a.low);
      break;
    case Draw::integer:
      made = floor(a.low + uniform_of(a.key, element) * (a.high - a.low));
      break;
    case Draw::bernoulli:
      made = uniform_of(a.key, element) < a.low ? 1 : 0;
      break;
    case Draw::bernoulli_of_each:
      made = uniform_of(a.key, element) < load(a.probabilities, index) ? 1 : 0;
      break;
    case Draw::exponential:
      made = -log1p(-uniform_of(a.key, element)) / a.low;
      break;
    case Draw::normal:
      made = a.low + a.high * normal_at(a.key, element);
      break;
  }
  store(a.result, index, made);
}

}  // namespace meshwright::cuda
