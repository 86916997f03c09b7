// Products of rows with a matrix of their group's: the rows of a layer of experts, which choose one each. Rows are put
// in order by group, a tile of the order belongs to one group, and a block has a tile of the result.
#pragma once

#include "lookups.h"
#include "tiles.h"

namespace meshwright::cuda {

// Tiles that these rows fill at most, in so many groups and nobody's.
MESHWRIGHT_DEVICE int64_t most_tiles(int64_t rows, int64_t groups) { return rows / kTile + groups + 1; }

// Rows that no group here has are a group behind all others. The lists lie in scratch.
struct Groups {
  int64_t rows = 0, count = 0;  // `count`: groups that are here
  int64_t tiles = 0;            // as many as there can be
  View indices;                 // by row, of all groups of all ranks
  Shard shard;                  // of the groups
  int64_t* sizes = nullptr;     // rows of each group
  int64_t* begins = nullptr;    // of each group its first place in the order, a tile's
  int64_t* of_tiles = nullptr;  // of each tile its group; -1: it is empty
  int64_t* order = nullptr;     // of each place the row; -1: it is empty
};

MESHWRIGHT_DEVICE int64_t group_of(const Groups& groups, int64_t row) {
  const int64_t local = local_of(groups.shard, load<int64_t>(groups.indices, row));
  return local < 0 ? groups.count : local;
}

struct GroupArguments {
  Groups groups;
  int32_t* fault = nullptr;  // of an index that is no group's anywhere; null: nobody's rows may have one
};

// One index a group, nobody's too.
MESHWRIGHT_BLOCK_KERNEL(group_sizes, GroupArguments) {
  const Groups& groups = arguments.groups;
  int64_t size = 0;
  for (int64_t row = thread; row < groups.rows; row += kThreads) {
    if (group_of(groups, row) != index) continue;
    ++size;
    if (index == groups.count && arguments.fault != nullptr &&
        is_outside(groups.shard, load<int64_t>(groups.indices, row)))
      *arguments.fault = 1;
  }
  size = sum_of_block(size);
  if (thread == 0) groups.sizes[index] = size;
}

MESHWRIGHT_DEVICE int64_t tiles_of(int64_t size) { return (size + kTile - 1) / kTile; }

// Likewise: its rows, in their order.
MESHWRIGHT_BLOCK_KERNEL(group_order, GroupArguments) {
  const Groups& groups = arguments.groups;
  int64_t before = 0;
  for (int64_t group = thread; group < index; group += kThreads) before += tiles_of(groups.sizes[group]);
  const int64_t first = kept_by_block(sum_of_block(before)), end = first + tiles_of(groups.sizes[index]);
  if (thread == 0) groups.begins[index] = first * kTile;
  for (int64_t tile = first + thread; tile < end; tile += kThreads) groups.of_tiles[tile] = index;
  if (index == groups.count) {
    for (int64_t tile = end + thread; tile < groups.tiles; tile += kThreads) groups.of_tiles[tile] = -1;
  }
  int64_t next = first * kTile;
  for (int64_t some = 0; some < groups.rows; some += kThreads) {
    const int64_t row = some + thread;
    const bool is_here = row < groups.rows && group_of(groups, row) == index;
    int64_t all = 0;
    const int64_t place = next + sum_before_in_block<int64_t>(is_here ? 1 : 0, all);
    if (is_here) groups.order[place] = row;
    next += all;
  }
  for (int64_t place = next + thread; place < end * kTile; place += kThreads) groups.order[place] = -1;
}

MESHWRIGHT_DEVICE void move_by(TileFactor& factor, int64_t elements) {
  factor.data = static_cast<const unsigned char*>(factor.data) + elements * bytes_of(factor.element);
}

// Of grouped_product: `left` has the rows, `right` the columns of the first group's matrix; the result is rows·columns.
// Of grouped_gradient terms are rows: `left` and `right` have the rows and columns of a group's matrix of the result.
struct GroupedArguments {
  Groups groups;
  TileWay way = TileWay::plain;
  TileFactor left, right;
  int64_t group_stride = 0;  // of `right`
  View bias, result;         // a row of `bias` for each group; without memory: there is none
};

// One index a tile of the result. Nobody's rows get zeros.
template <bool kTurned>
MESHWRIGHT_DEVICE void multiply_grouped(const GroupedArguments& a, int64_t index, int thread, unsigned char* memory) {
  const int64_t columns = a.right.places, tiles_aside = tiles_of(columns), tile = quotient(index, tiles_aside),
                first = (index - tile * tiles_aside) * kTile, group = a.groups.of_tiles[tile];
  if (group < 0) return;
  const int64_t* const rows = a.groups.order + tile * kTile;
  TileFactor left = a.left, right = a.right;
  left.place_list = rows;
  left.places = kTile;
  right.first = first;
  move_by(right, group == a.groups.count ? 0 : group * a.group_stride);
  if (group == a.groups.count) left.terms = right.terms = 0;
  add_up_tile<false, kTurned>(a.way, left, right, memory, thread, [&](int r, int c, auto sum) {
    const int64_t row = rows[r], column = first + c;
    if (row < 0 || column >= columns) return;
    const bool adds = a.bias.data != nullptr && group < a.groups.count;
    store(a.result, row * columns + column, adds ? sum + load<decltype(sum)>(a.bias, group * columns + column) : sum);
  });
}

MESHWRIGHT_BLOCK_KERNEL(grouped_product, GroupedArguments) {
  alignas(kTileAlignment) MESHWRIGHT_SHARED unsigned char memory[kTileMemory];
  multiply_grouped<false>(arguments, index, thread, memory);
}

// The places of `right` lie side by side.
MESHWRIGHT_BLOCK_KERNEL(grouped_product_turned, GroupedArguments) {
  alignas(kTileAlignment) MESHWRIGHT_SHARED unsigned char memory[kTileMemory];
  multiply_grouped<true>(arguments, index, thread, memory);
}

// One index a tile of a group's matrix.
MESHWRIGHT_BLOCK_KERNEL(grouped_gradient, GroupedArguments) {
  alignas(kTileAlignment) MESHWRIGHT_SHARED unsigned char memory[kTileMemory];
  const GroupedArguments& a = arguments;
  const int64_t rows = a.left.places, columns = a.right.places, aside = tiles_of(columns),
                below = quotient(index, aside), group = quotient(below, tiles_of(rows));
  TileFactor left = a.left, right = a.right;
  left.first = (below - group * tiles_of(rows)) * kTile;
  right.first = (index - below * aside) * kTile;
  left.terms = right.terms = a.groups.sizes[group];
  left.term_list = right.term_list = a.groups.order + a.groups.begins[group];
  add_up_tile<true, true>(a.way, left, right, memory, thread, [&](int r, int c, auto sum) {
    const int64_t row = left.first + r, column = right.first + c;
    if (row < rows && column < columns) store(a.result, (group * rows + row) * columns + column, sum);
  });
}

// One index a column of a group: the sum of its rows, which are those of `left`.
MESHWRIGHT_KERNEL(grouped_sum, GroupedArguments) {
  const GroupedArguments& a = arguments;
  const int64_t columns = a.left.places, group = quotient(index, columns), column = index - group * columns;
  const int64_t* const rows = a.groups.order + a.groups.begins[group];
  double sum = 0;
  for (int64_t i = 0; i < a.groups.sizes[group]; ++i)
    sum += load(a.left.data, a.left.element, rows[i] * columns + column);
  store(a.result, index, sum);
}

}  // namespace meshwright::cuda
