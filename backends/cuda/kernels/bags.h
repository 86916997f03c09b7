// Bags of rows that are looked up in a table: their sums, means or maxima (plugins/ops/embedding_bag).
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

enum class BagMode : int32_t { sum, mean, maximum };

// A bag has the indices from its offset to the next bag's, the last bag those up to the end. All lie row by row. An
// index outside of the table, or before the first bag, does not count, and is a fault; so is an offset that is less
// than the one before it.
struct BagArguments {
  BagMode mode = BagMode::sum;
  int64_t indices_count = 0, bags = 0, rows = 0, columns = 0;
  int64_t padding = -1;                      // an index that does not count
  View table, indices, offsets, weights;     // weights: of each index; without memory there are none
  View result, winners;                      // bags × columns; of a maximum the rows where it was found
  View bag_numbers;                          // by index
  int64_t* counts = nullptr;                 // by bag: of the indices that count
  int64_t *starts = nullptr, *of = nullptr;  // of the backward, by index: where its row begins, and its bag
  double* shares = nullptr;                  // what the bag's gradient is multiplied with
  int32_t* fault = nullptr;
};

MESHWRIGHT_DEVICE bool is_in_table(const BagArguments& a, int64_t row) { return row >= 0 && row < a.rows; }

struct BagRange {
  int64_t begin = 0, end = 0;
  bool is_wrong = false;  // as the offsets say it
};
MESHWRIGHT_DEVICE BagRange range_of_bag(const BagArguments& a, int64_t bag) {
  BagRange range;
  const auto begin = load<int64_t>(a.offsets, bag);
  const int64_t end = bag + 1 < a.bags ? load<int64_t>(a.offsets, bag + 1) : a.indices_count;
  range.is_wrong = (bag + 1 < a.bags && begin > end) || (bag == 0 && begin > 0 && a.indices_count > 0);
  range.begin = begin > 0 ? begin : 0;
  range.end = end < a.indices_count ? end : a.indices_count;
  return range;
}

// -1: the index stands before the first bag.
MESHWRIGHT_DEVICE int64_t bag_at(const BagArguments& a, int64_t index) {
  int64_t first = 0, behind = a.bags;  // the first bag that begins behind it
  while (first < behind) {
    const int64_t middle = (first + behind) / 2;
    if (load<int64_t>(a.offsets, middle) <= index)
      first = middle + 1;
    else
      behind = middle;
  }
  return first - 1;
}

// One index a bag.
MESHWRIGHT_ROW_KERNEL(bag_counts, BagArguments) {
  const BagArguments& a = arguments;
  const BagRange range = range_of_bag(a, index);
  int64_t count = 0;
  bool is_wrong = range.is_wrong;
  for (int64_t i = range.begin + lane; i < range.end; i += kLanes) {
    const auto row = load<int64_t>(a.indices, i);
    is_wrong = is_wrong || !is_in_table(a, row);
    count += is_in_table(a, row) && row != a.padding ? 1 : 0;
  }
  if (is_wrong && a.fault != nullptr) *a.fault = 1;
  count = sum_of_lanes(count);
  if (lane == 0) a.counts[index] = count;
}

template <class Type>
MESHWRIGHT_DEVICE void reduce_bag(Type, const BagArguments& a, int64_t index) {
  using Real = typename Type::Real;
  const int64_t bag = quotient(index, a.columns), column = index - bag * a.columns;
  const BagRange range = range_of_bag(a, bag);
  Real made = 0;
  int64_t winner = -1;
  for (int64_t i = range.begin; i < range.end; ++i) {
    const auto row = load<int64_t>(a.indices, i);
    if (!is_in_table(a, row) || row == a.padding) continue;
    const Real number = Type::load(a.table, row * a.columns + column);
    if (a.mode != BagMode::maximum) {
      made += a.weights.data != nullptr ? load<Real>(a.weights, i) * number : number;
    } else if (winner < 0 || number > made) {
      made = number;
      winner = row;
    }
  }
  if (a.mode == BagMode::mean && a.counts[bag] > 0) made /= static_cast<Real>(a.counts[bag]);
  Type::store(a.result, index, made);
  if (a.winners.data != nullptr) store(a.winners, index, winner < 0 ? 0 : winner);
}

// One index a bag and a column.
MESHWRIGHT_KERNEL(bag_reduce, BagArguments) {
  by_type([&](auto type) { reduce_bag(type, arguments, index); }, arguments.table, arguments.result);
}

MESHWRIGHT_KERNEL(bag_number, BagArguments) { store(arguments.bag_numbers, index, bag_at(arguments, index)); }

// One index an index of a bag: what its row of the table gets of the bag's gradient.
MESHWRIGHT_KERNEL(bag_share, BagArguments) {
  const BagArguments& a = arguments;
  const int64_t bag = bag_at(a, index), row = load<int64_t>(a.indices, index);
  const bool counts = bag >= 0 && is_in_table(a, row) && row != a.padding;
  double share = a.weights.data != nullptr ? load(a.weights, index) : 1;
  if (a.mode == BagMode::mean && counts) share /= static_cast<double>(a.counts[bag]);
  a.starts[index] = counts ? row * a.columns : -1;
  a.of[index] = counts ? bag : 0;
  a.shares[index] = share;
}

// One index a bag and a column: which element of the table the maximum is.
MESHWRIGHT_KERNEL(bag_winner, BagArguments) {
  const BagArguments& a = arguments;
  const int64_t bag = quotient(index, a.columns), row = load<int64_t>(a.winners, index);
  if (!is_in_table(a, row) && a.fault != nullptr) *a.fault = 1;
  a.starts[index] = is_in_table(a, row) && a.counts[bag] > 0 ? row * a.columns + index - bag * a.columns : -1;
}

}  // namespace meshwright::cuda
