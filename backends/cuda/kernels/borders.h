// Borders that repeat what is inside, along one dimension (plugins/ops/pad).
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

enum class Border : int32_t { reflect, replicate, circular };

// Lines of `size` elements that become `padded` ones: outer × line × inner, row by row. `before`: how many stand in
// front; a negative width takes some away. `transposed`: the result has what is inside, which gets what repeats it.
struct BorderArguments {
  Border border = Border::reflect;
  bool transposed = false;
  int64_t size = 0, padded = 0, before = 0, inner = 1;
  View from, result;
};

// What stands at this position of the padded line. Outside of the line where a border is wider than what it repeats.
MESHWRIGHT_DEVICE int64_t border_source(const BorderArguments& a, int64_t position) {
  const int64_t first = a.before < 0 ? -a.before : 0, end = a.padded - a.before, last = end < a.size ? end : a.size;
  const int64_t source = position - a.before;
  if (source >= first && source < last) return source;
  if (a.border == Border::circular) return source < first ? source + last - first : source - (last - first);
  if (a.border == Border::replicate) return source < 0 ? 0 : source < a.size ? source : a.size - 1;
  return source < 0 ? -source : source < a.size ? source : 2 * (a.size - 1) - source;
}

// One index an element of the result.
MESHWRIGHT_KERNEL(repeat_border, BorderArguments) {
  const BorderArguments& a = arguments;
  const int64_t length = a.transposed ? a.size : a.padded, other = a.transposed ? a.padded : a.size,
                line = quotient(index, a.inner), column = index - line * a.inner, outer = quotient(line, length),
                own = line - outer * length, from = outer * other * a.inner + column;
  if (!a.transposed) {
    store(a.result, index, load(a.from, from + border_source(a, own) * a.inner));
    return;
  }
  double sum = 0;
  const int64_t front = a.before > 0 ? a.before : 0,
                behind = a.size + a.before < a.padded ? a.size + a.before : a.padded;
  const auto add = [&](int64_t position) {
    if (border_source(a, position) == own) sum += load(a.from, from + position * a.inner);
  };
  for (int64_t position = 0; position < front; ++position) add(position);
  const int64_t direct = own + a.before;
  if (direct >= front && direct < behind) add(direct);
  for (int64_t position = behind > front ? behind : front; position < a.padded; ++position) add(position);
  store(a.result, index, sum);
}

}  // namespace meshwright::cuda
