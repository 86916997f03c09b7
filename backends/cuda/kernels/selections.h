// The largest or smallest of lines, their positions, and their order.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// Lines of `count` elements, over `along`. `values` and `positions` have a number for each line, or `count` of a sorted
// one; views without memory are not wanted. NaN is larger than any number, and of equal ones the first comes first.
struct SelectArguments {
  Sizes lines, along;
  int64_t count = 0;
  int64_t kept = 0;       // of an order: how many from its beginning
  bool smallest = false;  // of an order: the smallest first
  bool logical = false;   // of whether numbers are not zero
  View from;              // strides of the lines
  int64_t along_strides[kMaxRank] = {};
  View values, positions;  // strides of the lines
  int64_t value_stride = 0, position_stride = 0;
};

MESHWRIGHT_DEVICE double element_of(const SelectArguments& a, int64_t first, int64_t i) {
  const double number = load(a.from, first + offset_of(a.along, a.along_strides, i));
  return !a.logical ? number : number != 0 ? 1 : 0;
}

// Of positions: the least one of all lanes, which is at most `none`.
MESHWRIGHT_DEVICE int64_t least_of_lanes(int64_t own) {
  return -static_cast<int64_t>(maximum_of_lanes(-static_cast<double>(own)));
}

MESHWRIGHT_DEVICE void store_selected(const SelectArguments& a, int64_t line, int64_t place, int64_t position,
                                      double number) {
  if (a.values.data != nullptr)
    store(a.values, offset_of(a.lines, a.values.strides, line) + place * a.value_stride, number);
  if (a.positions.data != nullptr)
    store(a.positions, offset_of(a.lines, a.positions.strides, line) + place * a.position_stride,
          static_cast<double>(position));
}

// One index a line: its first NaN, or else the first of the largest or smallest.
MESHWRIGHT_ROW_KERNEL(select_extreme, SelectArguments) {
  const SelectArguments& a = arguments;
  const int64_t first = offset_of(a.lines, a.from.strides, index);
  int64_t nan = a.count, found = a.count;
  double best = -INFINITY;
  for (int64_t i = lane; i < a.count; i += kLanes) {
    const double number = element_of(a, first, i), rank = a.smallest ? -number : number;
    if (rank != rank && nan == a.count) nan = i;
    if (rank > best || (rank == best && found == a.count)) {
      best = rank;
      found = i;
    }
  }
  nan = least_of_lanes(nan);
  const double highest = maximum_of_lanes(best);
  found = least_of_lanes(best == highest ? found : a.count);
  if (nan < a.count) found = nan;
  if (lane == 0) store_selected(a, index, 0, found, element_of(a, first, found));
}

// One index an element: its place is how many come before it.
MESHWRIGHT_ROW_KERNEL(select_order, SelectArguments) {
  const SelectArguments& a = arguments;
  const int64_t line = quotient(index, a.count), own = index - line * a.count,
                first = offset_of(a.lines, a.from.strides, line);
  const double number = element_of(a, first, own);
  double before = 0;
  for (int64_t i = lane; i < a.count; i += kLanes) {
    const double other = element_of(a, first, i);
    const bool is_larger = other > number || (other != other && number == number),
               is_smaller = number > other || (number != number && other == other);
    if ((a.smallest ? is_smaller : is_larger) || (!is_larger && !is_smaller && i < own)) before += 1;
  }
  const auto place = static_cast<int64_t>(sum_of_lanes(before));
  if (lane == 0 && place < a.kept) store_selected(a, line, place, own, number);
}

}  // namespace meshwright::cuda
