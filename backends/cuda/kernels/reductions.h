// Sums and maxima over some dimensions, a row for each element of the result, and the running sum.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

struct ReduceArguments {
  Sizes kept, reduced;
  int64_t count = 1;   // elements that are reduced to one
  double divisor = 1;  // of a mean
  bool maximum = false;
  bool truncates = false;  // an integer's sum, of whatever it is taken
  View from;               // strides of the kept dimensions
  int64_t reduced_strides[kMaxRank] = {};
  View result;  // lies row by row
};

MESHWRIGHT_ROW_KERNEL(reduce, ReduceArguments) {
  const int64_t first = offset_of(arguments.kept, arguments.from.strides, index);
  double made = arguments.maximum ? -INFINITY : 0;
  for (int64_t i = lane; i < arguments.count; i += kLanes) {
    const double number = load(arguments.from, first + offset_of(arguments.reduced, arguments.reduced_strides, i));
    if (arguments.maximum)
      made = number > made ? number : made;
    else
      made += arguments.truncates ? trunc(number) : number;
  }
  made = arguments.maximum ? maximum_of_lanes(made) : sum_of_lanes(made);
  if (lane == 0) store(arguments.result, index, made / arguments.divisor);
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

}  // namespace meshwright::cuda
