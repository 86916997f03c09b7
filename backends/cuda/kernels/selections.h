// The largest or smallest of lines, their positions, and their order.
#pragma once

#include "blocks.h"

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

// A number and its position in its line: in float where float holds all numbers of the line, else in double.
template <class Real>
struct LineItem {
  Real number;
  int32_t position;
};

constexpr int32_t kLastPosition = 0x7fffffff;  // no line that items are made of is as long

template <class Real>
MESHWRIGHT_DEVICE bool is_larger(Real a, Real b) {
  return a > b || (a != a && b == b);
}

// The order of a line. No two of its items are equal in it, so that there is one order, whoever sorts.
template <class Real>
struct ComesBefore {
  bool smallest = false;  // the smallest first
  MESHWRIGHT_DEVICE bool operator()(const LineItem<Real>& a, const LineItem<Real>& b) const {
    if (is_larger(a.number, b.number)) return !smallest;
    if (is_larger(b.number, a.number)) return smallest;
    return a.position < b.position;
  }
  // Comes last, behind all items of lines.
  [[nodiscard]] MESHWRIGHT_DEVICE LineItem<Real> last() const {
    return {static_cast<Real>(smallest ? NAN : -INFINITY), kLastPosition};
  }
};

// As select_extreme, of long lines: a block has a line.
MESHWRIGHT_BLOCK_KERNEL(select_extreme_of_long, SelectArguments) {
  const SelectArguments& a = arguments;
  const int64_t first = offset_of(a.lines, a.from.strides, index);
  const ComesBefore<double> comes_before;
  LineItem<double> best = comes_before.last();
  for (int64_t i = thread; i < a.count; i += kThreads) {
    const double number = element_of(a, first, i);
    const LineItem<double> item{a.smallest ? -number : number, static_cast<int32_t>(i)};
    if (comes_before(item, best)) best = item;
  }
  best = chosen_of_block(best, [=](const LineItem<double>& one, const LineItem<double>& other) {
    return comes_before(other, one) ? other : one;
  });
  if (thread == 0) store_selected(a, index, 0, best.position, element_of(a, first, best.position));
}

// One index an element: its place is how many come before it.
MESHWRIGHT_ROW_KERNEL(select_order, SelectArguments) {
  const SelectArguments& a = arguments;
  const int64_t line = quotient(index, a.count), position = index - line * a.count,
                first = offset_of(a.lines, a.from.strides, line);
  const LineItem<double> own{element_of(a, first, position), static_cast<int32_t>(position)};
  const ComesBefore<double> comes_before{a.smallest};
  double before = 0;
  for (int64_t i = lane; i < a.count; i += kLanes) {
    if (comes_before({element_of(a, first, i), static_cast<int32_t>(i)}, own)) before += 1;
  }
  const auto place = static_cast<int64_t>(sum_of_lanes(before));
  if (lane == 0 && place < a.kept) store_selected(a, line, place, position, own.number);
}

constexpr int kSortTile = 1024;  // elements of a line that a block sorts

// Long lines are sorted tile by tile, and then runs of so many tiles are merged two by two, until a line is one run. Of
// each run the first `kept` items alone matter.
struct OrderArguments {
  SelectArguments select;
  int64_t tiles = 1;           // of a line
  int64_t width = 0;           // places for the items of a tile, in scratch
  int64_t run = 1;             // tiles of each run that is merged with its neighbour
  const void* from = nullptr;  // runs in scratch
  void* to = nullptr;          // likewise; null: these are the last ones, and go to the results
};

// How many items a run of a line has.
MESHWRIGHT_DEVICE int64_t items_of_run(const OrderArguments& a, int64_t run, int64_t tiles) {
  const int64_t elements = tiles * kSortTile, rest = a.select.count - run * elements,
                most = elements < a.select.kept ? elements : a.select.kept;
  return rest < most ? rest : most;
}

// `place`: in the run that begins at this tile.
template <class Real>
MESHWRIGHT_DEVICE void store_item(const OrderArguments& a, int64_t line, int64_t tile, int64_t place,
                                  const LineItem<Real>& item) {
  if (a.to != nullptr)
    static_cast<LineItem<Real>*>(a.to)[(line * a.tiles + tile) * a.width + place] = item;
  else
    store_selected(a.select, line, place, item.position, static_cast<double>(item.number));
}

template <class Real>
MESHWRIGHT_DEVICE void sort_tile(const OrderArguments& a, int64_t index, int thread) {
  constexpr int kOwn = kSortTile / kThreads;  // items of a thread
  const int64_t line = quotient(index, a.tiles), tile = index - line * a.tiles, begin = tile * kSortTile,
                first = offset_of(a.select.lines, a.select.from.strides, line), items = items_of_run(a, tile, 1);
  const ComesBefore<Real> comes_before{a.select.smallest};
  LineItem<Real> own[kOwn];
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kOwn; ++i) {
    const int64_t position = begin + i * kThreads + thread;
    own[i] = comes_before.last();
    if (position < a.select.count)
      own[i] = {static_cast<Real>(element_of(a.select, first, position)), static_cast<int32_t>(position)};
  }
  sort_block(own, comes_before);
  MESHWRIGHT_UNROLL
  for (int i = 0; i < kOwn; ++i) {
    const int64_t place = static_cast<int64_t>(thread) * kOwn + i;
    if (place < items) store_item(a, line, tile, place, own[i]);
  }
}

// One index a tile.
MESHWRIGHT_BLOCK_KERNEL(sort_tiles, OrderArguments) {
  if (is_single(arguments.select.from.element))
    sort_tile<float>(arguments, index, thread);
  else
    sort_tile<double>(arguments, index, thread);
}

// An item's place among both runs: its own, and how many items of the other run come before it.
template <class Real>
MESHWRIGHT_DEVICE void merge_item(const OrderArguments& a, int64_t index) {
  const int64_t places = a.tiles * a.width, line = quotient(index, places), at = index - line * places,
                run = quotient(at, a.run * a.width), place = at - run * a.run * a.width;
  if (place >= items_of_run(a, run, a.run)) return;
  const auto* items = static_cast<const LineItem<Real>*>(a.from) + line * places;
  const LineItem<Real> own = items[at];
  const int64_t other = run % 2 == 0 ? run + 1 : run - 1, first = other * a.run * a.width;
  const ComesBefore<Real> comes_before{a.select.smallest};
  int64_t low = 0, high = items_of_run(a, other, a.run);  // 0 or less where the last run has no neighbour
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (comes_before(items[first + middle], own))
      low = middle + 1;
    else
      high = middle;
  }
  if (place + low < a.select.kept) store_item(a, line, (run - run % 2) * a.run, place + low, own);
}

// One index a place of a line.
MESHWRIGHT_KERNEL(merge_runs, OrderArguments) {
  if (is_single(arguments.select.from.element))
    merge_item<float>(arguments, index);
  else
    merge_item<double>(arguments, index);
}

}  // namespace meshwright::cuda
