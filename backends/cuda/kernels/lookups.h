// Rows of tables and elements of tensors that indices name.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// Which of the global positions along an atom or several this rank holds: as ShardIndex (shard.h) says.
struct Shard {
  static constexpr int kMaxAtoms = 4;
  int32_t count = 0;
  int64_t atoms[kMaxAtoms] = {}, extents[kMaxAtoms] = {}, starts[kMaxAtoms] = {};
};

// -1: it is padding.
MESHWRIGHT_DEVICE int64_t global_of(const Shard& shard, int64_t local) {
  int64_t position = 0, stride = 1;
  for (int i = shard.count; i-- > 0;) {
    const int64_t rest = i == 0 ? 0 : quotient(local, shard.extents[i]),
                  at = shard.starts[i] + local - rest * shard.extents[i];
    if (at >= shard.atoms[i]) return -1;
    position += at * stride;
    stride *= shard.atoms[i];
    local = rest;
  }
  return position;
}

// How many of the first `extent` positions are there, where those are that come first; -1: each is to be asked for.
MESHWRIGHT_DEVICE int64_t first_ones(const Shard& shard, int64_t extent) {
  if (shard.count == 0) return extent;
  if (shard.count > 1) return -1;
  const int64_t left = shard.atoms[0] - shard.starts[0];
  return left < 0 ? 0 : left < extent ? left : extent;
}

// -1: another rank holds it, or nobody.
MESHWRIGHT_DEVICE int64_t local_of(const Shard& shard, int64_t global) {
  if (global < 0) return -1;
  int64_t position = 0, stride = 1;
  for (int i = shard.count; i-- > 0;) {
    const int64_t rest = quotient(global, shard.atoms[i]), at = global - rest * shard.atoms[i] - shard.starts[i];
    if (at < 0 || at >= shard.extents[i]) return -1;
    position += at * stride;
    stride *= shard.extents[i];
    global = rest;
  }
  return global == 0 ? position : -1;
}

// Whether it is no global position.
MESHWRIGHT_DEVICE bool is_outside(const Shard& shard, int64_t global) {
  int64_t size = 1;
  for (int i = 0; i < shard.count; ++i) size *= shard.atoms[i];
  return global < 0 || global >= size;
}

// All lie row by row. An index outside of the table gives zeros, and a fault, unless that is null.
struct LookupArguments {
  int64_t positions = 0, columns = 0;
  int64_t padding = -1;  // an index whose row has no gradient
  View table, indices, rows;
  Shard shard;
  int64_t* starts = nullptr;  // of the backward, by position
  int32_t* fault = nullptr;
};

MESHWRIGHT_KERNEL(look_up, LookupArguments) {
  const int64_t position = quotient(index, arguments.columns), column = index - position * arguments.columns,
                named = static_cast<int64_t>(load(arguments.indices, position)), row = local_of(arguments.shard, named);
  if (arguments.fault != nullptr && column == 0 && is_outside(arguments.shard, named)) *arguments.fault = 1;
  store(arguments.rows, index, row < 0 ? 0 : load(arguments.table, row * arguments.columns + column));
}

// One index a position: where the row that it names begins in the table. -1: there is none here, or it has no gradient.
MESHWRIGHT_KERNEL(look_up_starts, LookupArguments) {
  const int64_t named = load<int64_t>(arguments.indices, index),
                row = named == arguments.padding ? -1 : local_of(arguments.shard, named);
  arguments.starts[index] = row < 0 ? -1 : row * arguments.columns;
}

// One index a class of a position: 1 where the position names it. `columns`: the classes that are here.
MESHWRIGHT_KERNEL(mark_label, LookupArguments) {
  const int64_t position = quotient(index, arguments.columns), column = index - position * arguments.columns,
                named = load<int64_t>(arguments.indices, position);
  if (arguments.fault != nullptr && column == 0 && is_outside(arguments.shard, named)) *arguments.fault = 1;
  store(arguments.rows, index, local_of(arguments.shard, named) == column ? 1 : 0);
}

// Elements of a table, each dimension of which is walked with one of the result, or named by an index.
struct PickArguments {
  static constexpr int kMaxIndices = 3;
  Sizes sizes;  // of the result
  int32_t table_rank = 0;
  int32_t index_of[kMaxRank] = {};      // by dimension of the table; -1: none
  int32_t dimension_of[kMaxRank] = {};  // of the result, where no index names it
  int64_t extents[kMaxRank] = {};       // of the table
  View table;
  View indices[kMaxIndices];  // strides over the result's dimensions
  View result;                // lies row by row
  int32_t* fault = nullptr;   // as of LookupArguments
};

MESHWRIGHT_KERNEL(pick, PickArguments) {
  int64_t position[kMaxRank] = {};
  int64_t rest = index;
  for (int d = arguments.sizes.rank; d-- > 0;) {
    const int64_t outer = quotient(rest, arguments.sizes.of[d]);
    position[d] = rest - outer * arguments.sizes.of[d];
    rest = outer;
  }
  int64_t source = 0;
  bool inside = true;
  for (int d = 0; d < arguments.table_rank; ++d) {
    int64_t at = 0;
    if (arguments.index_of[d] >= 0) {
      const View& named = arguments.indices[arguments.index_of[d]];
      at = static_cast<int64_t>(load(named, offset_of(arguments.sizes, named.strides, index)));
      if (at < 0) at += arguments.extents[d];  // from the end
      inside = inside && at >= 0 && at < arguments.extents[d];
    } else {
      at = position[arguments.dimension_of[d]];
    }
    source += at * arguments.table.strides[d];
  }
  if (!inside && arguments.fault != nullptr) *arguments.fault = 1;
  store(arguments.result, index, inside ? load(arguments.table, source) : 0);
}

}  // namespace meshwright::cuda
