// Sums and maxima over some dimensions, a row for each element of the result, and the running sum.
#pragma once

#include "blocks.h"

namespace meshwright::cuda {

struct ReduceArguments {
  Sizes kept, reduced;
  int64_t count = 1;   // elements that are reduced to one
  double divisor = 1;  // of a mean
  bool maximum = false;
  bool truncates = false;  // an integer's sum, of whatever it is taken
  View from;               // strides of the kept dimensions
  int64_t reduced_strides[kMaxRank] = {};
  View result;                    // lies row by row
  int64_t chunks = 1, chunk = 0;  // of a long row: how many there are, and how many elements each has
};

// Each `step`-th element from `begin` on, of a row whose elements stand at one stride.
template <class Type>
MESHWRIGHT_DEVICE double reduce_strided(Type, const ReduceArguments& a, int64_t first, int64_t begin, int64_t end,
                                        int64_t step) {
  const auto at = [&](int64_t i) { return static_cast<double>(Type::load(a.from, first + i * a.reduced_strides[0])); };
  if (a.maximum) {
    double maximum = -INFINITY;
    MESHWRIGHT_UNROLL_SOME
    for (int64_t i = begin; i < end; i += step) {
      const double number = at(i);
      maximum = number > maximum ? number : maximum;
    }
    return maximum;
  }
  double sum = 0;
  MESHWRIGHT_UNROLL_SOME
  for (int64_t i = begin; i < end; i += step) sum += at(i);
  return sum;
}

// The same of any row.
MESHWRIGHT_DEVICE double reduce_any(const ReduceArguments& a, int64_t first, int64_t begin, int64_t end, int64_t step) {
  double made = a.maximum ? -INFINITY : 0;
  for (int64_t i = begin; i < end; i += step) {
    const double number = load(a.from, first + offset_of(a.reduced, a.reduced_strides, i));
    if (a.maximum)
      made = number > made ? number : made;
    else
      made += a.truncates ? trunc(number) : number;
  }
  return made;
}

// What a thread has of a row.
MESHWRIGHT_DEVICE double reduce_share(const ReduceArguments& a, int64_t row, int64_t begin, int64_t end, int64_t step) {
  const int64_t first = offset_of(a.kept, a.from.strides, row);
  const bool is_strided = a.reduced.rank <= 1 && !a.truncates;
  if (is_strided && a.from.element == Element::float32)
    return reduce_strided(Typed<Element::float32, float>(), a, first, begin, end, step);
  if (is_strided && a.from.element == Element::bfloat16)
    return reduce_strided(Typed<Element::bfloat16, float>(), a, first, begin, end, step);
  return reduce_any(a, first, begin, end, step);
}

// One index a row.
MESHWRIGHT_ROW_KERNEL(reduce, ReduceArguments) {
  const double own = reduce_share(arguments, index, lane, arguments.count, kLanes),
               made = arguments.maximum ? maximum_of_lanes(own) : sum_of_lanes(own);
  if (lane == 0) store(arguments.result, index, made / arguments.divisor);
}

// Of long rows: one index a chunk of a row. What chunks give is reduced behind this.
MESHWRIGHT_BLOCK_KERNEL(reduce_chunks, ReduceArguments) {
  const int64_t row = quotient(index, arguments.chunks), begin = (index - row * arguments.chunks) * arguments.chunk,
                next = begin + arguments.chunk, end = next < arguments.count ? next : arguments.count;
  const double own = reduce_share(arguments, row, begin + thread, end, kThreads),
               made = arguments.maximum ? maximum_of_block(own) : sum_of_block(own);
  if (thread == 0) store(arguments.result, index, made / arguments.divisor);
}

// Sums over rows, of which so many at a time give one of the result: threads that follow each other read columns that
// do. The sums of chunks are a tensor of chunks × columns, which lies row by row, and are reduced behind this.
struct ColumnSumArguments {
  static constexpr int64_t kChunk = 64;  // rows
  int64_t rows = 0, columns = 0, row_stride = 0;
  View from, sums;
};

template <class Type>
MESHWRIGHT_DEVICE void sum_columns(Type, const ColumnSumArguments& a, int64_t index) {
  const int64_t chunk = quotient(index, a.columns), column = index - chunk * a.columns,
                last = (chunk + 1) * ColumnSumArguments::kChunk, end = last < a.rows ? last : a.rows;
  typename Type::Real sum = 0;
  MESHWRIGHT_UNROLL_SOME
  for (int64_t row = chunk * ColumnSumArguments::kChunk; row < end; ++row)
    sum += Type::load(a.from, row * a.row_stride + column);
  store(a.sums, index, sum);
}

// One index a column of a chunk.
MESHWRIGHT_KERNEL(column_sums, ColumnSumArguments) {
  by_type([&](auto type) { sum_columns(type, arguments, index); }, arguments.from);
}

// Lines of `extent` elements at a stride, each of which becomes its running sum.
struct RunningSumArguments {
  Sizes lines;
  bool truncates = false;  // as of ReduceArguments
  int64_t extent = 0, stride = 0, result_stride = 0;
  View from, result;  // strides of the lines
};

MESHWRIGHT_KERNEL(running_sum, RunningSumArguments) {
  const int64_t from = offset_of(arguments.lines, arguments.from.strides, index),
                to = offset_of(arguments.lines, arguments.result.strides, index);
  double sum = 0;
  for (int64_t i = 0; i < arguments.extent; ++i) {
    const double number = load(arguments.from, from + i * arguments.stride);
    sum += arguments.truncates ? trunc(number) : number;
    store(arguments.result, to + i * arguments.result_stride, sum);
  }
}

constexpr int kScanTile = 2048;  // elements of a line that a block sums at a time

template <class Type>
MESHWRIGHT_DEVICE void sum_line(Type, const RunningSumArguments& a, int64_t line, int thread) {
  constexpr int kOwn = kScanTile / kThreads;  // elements of a thread, which follow each other
  const int64_t from = offset_of(a.lines, a.from.strides, line), to = offset_of(a.lines, a.result.strides, line);
  double carried = 0;
  for (int64_t tile = 0; tile < a.extent; tile += kScanTile) {
    const int64_t begin = tile + static_cast<int64_t>(thread) * kOwn;
    double sums[kOwn], sum = 0, total = 0;
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int64_t at = begin + i;
      const auto number = at < a.extent ? static_cast<double>(Type::load(a.from, from + at * a.stride)) : 0;
      sum += a.truncates ? trunc(number) : number;
      sums[i] = sum;
    }
    const double before = carried + sum_before_in_block(sum, total);
    MESHWRIGHT_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      if (begin + i < a.extent)
        Type::store(a.result, to + (begin + i) * a.result_stride, static_cast<typename Type::Real>(before + sums[i]));
    }
    carried += total;
  }
}

// The same of long lines: one index a line.
MESHWRIGHT_BLOCK_KERNEL(running_sum_of_long, RunningSumArguments) {
  by_type([&](auto type) { sum_line(type, arguments, index, thread); }, arguments.from, arguments.result);
}

}  // namespace meshwright::cuda
