// Numbers that are put into a table, or added to it, where indices say.
#pragma once

#include "kernel.h"

namespace meshwright::cuda {

// A table, some of whose dimensions are named by indices. What is put has a place for each position of the indices and
// each place along the other dimensions.
struct PutArguments {
  static constexpr int kMaxIndices = 3;
  Sizes table;
  int32_t index_of[kMaxRank] = {};  // by dimension of the table: the index that names it; -1: none
  int64_t touched[kMaxRank] = {};   // by dimension that no index names: places beyond stay as they are
  bool adds = false;
  double alpha = 1;
  Sizes positions;
  int64_t count = 0;                                                   // of positions
  View indices[kMaxIndices];                                           // strides of the positions
  int64_t index_strides[kMaxRank] = {}, value_strides[kMaxRank] = {};  // by dimension that no index names
  View values;                                                         // strides of the positions
  View self;                                                           // strides of the table
  View result;                                                         // lies row by row
  int32_t* fault = nullptr;                                            // as of LookupArguments
};

// One index an element of the table, which looks at all positions: of those that name it it adds up what is put, or
// takes the last.
MESHWRIGHT_ROW_KERNEL(put, PutArguments) {
  const PutArguments& a = arguments;
  int64_t at[kMaxRank] = {};
  int64_t rest = index, index_first = 0, value_first = 0;
  bool touched = true, checks = a.fault != nullptr;
  for (int d = a.table.rank; d-- > 0;) {
    const int64_t outer = quotient(rest, a.table.of[d]);
    at[d] = rest - outer * a.table.of[d];
    rest = outer;
    if (a.index_of[d] >= 0) {
      checks = checks && at[d] == 0;  // one element of all that these indices may name
      continue;
    }
    touched = touched && at[d] < a.touched[d];
    index_first += at[d] * a.index_strides[d];
    value_first += at[d] * a.value_strides[d];
  }
  double sum = 0, last = -1;
  for (int64_t p = lane; p < a.count && touched; p += kLanes) {
    bool is_here = true;
    for (int d = 0; d < a.table.rank && (is_here || checks); ++d) {
      if (a.index_of[d] < 0) continue;
      const View& named = a.indices[a.index_of[d]];
      auto position = static_cast<int64_t>(load(named, index_first + offset_of(a.positions, named.strides, p)));
      if (position < 0) position += a.table.of[d];
      is_here = is_here && position == at[d];
      if (checks && (position < 0 || position >= a.table.of[d])) *a.fault = 1;
    }
    if (!is_here) continue;
    last = static_cast<double>(p);
    if (a.adds) sum += load(a.values, value_first + offset_of(a.positions, a.values.strides, p));
  }
  sum = sum_of_lanes(sum);
  last = maximum_of_lanes(last);
  if (lane != 0) return;
  const double self = load(a.self, offset_of(a.table, a.self.strides, index));
  const bool overwritten = last >= 0 && !a.adds;
  store(a.result, index,
        overwritten ? load(a.values, value_first + offset_of(a.positions, a.values.strides, static_cast<int64_t>(last)))
                    : self + a.alpha * sum);
}

}  // namespace meshwright::cuda
