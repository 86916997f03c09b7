// What writes products of rows with a matrix of their group's (kernels/grouped.h).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/grouped.h"
#include "op_writer.h"

namespace meshwright::cuda {

// All tensors that it is given lie row by row; of rows the last dimension is a row, whatever comes before it.
class GroupedWriter {
 public:
  explicit GroupedWriter(OpWriter& writer) : writer_(writer) {}

  // Launches what puts the rows in order. `indices`: of each its group, among those of all ranks, of which `groups`
  // says which are these `count`. `may_be_nobodys`: a row whose index is no group's at all is nobody's, else that is a
  // fault. Errors: bad_input for a type that kernels don't compute.
  Status begin(const Seen& indices, const Shard& groups, std::int64_t count, bool may_be_nobodys);

  // result[row] = matrix·row, and the group's row of `bias` where that is not null; of nobody's rows zeros. Matrices
  // are [groups, columns of the result, terms], or the last two exchanged where `is_turned`.
  Status multiply(const Seen& rows, const Seen& matrices, bool is_turned, const Seen* bias, const Seen& result);
  // result[group] = the sum of leftᵀ·right over the group's rows.
  Status sum_products(const Seen& left, const Seen& right, const Seen& result);
  // result[group] = the sum of the group's rows.
  Status sum(const Seen& rows, const Seen& result);

 private:
  Status launch(KernelId kernel, GroupedArguments& arguments, const Seen& result, std::int64_t count,
                std::vector<Range> reads);

  OpWriter& writer_;
  Groups groups_;
  Range lists_;
};

}  // namespace meshwright::cuda
