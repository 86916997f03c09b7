// Numbers that are put into a table, or added to it, where indices say.
#pragma once

#include "runs.h"

namespace meshwright::cuda {

// Indices name positions along some of the table's dimensions, the same ones at all places along the others: where each
// position's row begins in the table, or the element that is its own. What then is put there, runs.h says.
struct PutStartArguments {
  static constexpr int kMaxIndices = 3;
  Sizes positions;
  int32_t count = 0;                                             // of indices
  View indices[kMaxIndices];                                     // strides of the positions
  int64_t extents[kMaxIndices] = {}, strides[kMaxIndices] = {};  // of the table, along what the index names
  int64_t own_strides[kMaxRank] = {};                            // of the table, along the positions' dimensions
  bool from_end = true;                                          // an index below 0 counts from there
  int64_t* starts = nullptr;                                     // -1: an index is outside
  int32_t* fault = nullptr;                                      // as of LookupArguments
};

// One index a position.
MESHWRIGHT_KERNEL(put_starts, PutStartArguments) {
  const PutStartArguments& a = arguments;
  int64_t start = offset_of(a.positions, a.own_strides, index);
  bool inside = true;
  for (int i = 0; i < a.count; ++i) {
    auto at = load<int64_t>(a.indices[i], offset_of(a.positions, a.indices[i].strides, index));
    if (at < 0 && a.from_end) at += a.extents[i];
    inside = inside && at >= 0 && at < a.extents[i];
    start += at * a.strides[i];
  }
  if (!inside && a.fault != nullptr) *a.fault = 1;
  a.starts[index] = inside ? start : -1;
}

// One index names positions along a dimension, others at each place along the other dimensions.
struct PutArguments {
  Sizes table;
  int32_t dim = 0;                 // that the index names
  int64_t count = 0;               // of positions along it
  int64_t touched[kMaxRank] = {};  // by dimension: places beyond stay as they are
  Put put = Put::overwrite;
  bool includes_self = true, from_end = true;
  View index, values, self;  // strides of the table's dimensions; along `dim`, of the positions
  View result;               // lies row by row
  int32_t* fault = nullptr;  // as of LookupArguments
};

// One index an element of the table, which looks at its line of positions: it puts together what those put that name
// it.
MESHWRIGHT_KERNEL(put, PutArguments) {
  const PutArguments& a = arguments;
  int64_t rest = index, own = 0, named_first = 0, value_first = 0, self_at = 0;
  bool touched = true;
  for (int d = a.table.rank; d-- > 0;) {
    const int64_t outer = quotient(rest, a.table.of[d]), at = rest - outer * a.table.of[d];
    rest = outer;
    self_at += at * a.self.strides[d];
    if (d == a.dim) {
      own = at;
      continue;
    }
    touched = touched && at < a.touched[d];
    named_first += at * a.index.strides[d];
    value_first += at * a.values.strides[d];
  }
  const int64_t extent = a.table.of[a.dim];
  const bool checks = a.fault != nullptr && own == 0;  // one element of all that this line may name
  double held = load(a.self, self_at), count = a.includes_self ? 1 : 0;
  for (int64_t p = 0; p < a.count && touched; ++p) {
    auto at = load<int64_t>(a.index, named_first + p * a.index.strides[a.dim]);
    if (at < 0 && a.from_end) at += extent;
    if (checks && (at < 0 || at >= extent)) *a.fault = 1;
    if (at != own) continue;
    const double added = load(a.values, value_first + p * a.values.strides[a.dim]);
    held = count == 0 ? added : put_together(a.put, held, added);
    ++count;
  }
  if (a.put == Put::mean && count > 0) held /= count;
  store(a.result, index, held);
}

}  // namespace meshwright::cuda
