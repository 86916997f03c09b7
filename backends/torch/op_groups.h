// Of a block's statements those that run again for its backward: ops of Plan::recomputed, and what converts operands of it (recompute.h), by when they do.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "statements.h"

namespace meshwright::torch {

// Ops that run again together, with what brings them their operands and what takes their results to whom that is saved for. What
// is not kept of it is made again from `inputs`, which are.
struct OpGroup {
  std::vector<std::size_t> statements;           // ascending
  std::vector<ProgramValueId> inputs, results;   // results: those that others read
};

std::vector<OpGroup> op_groups(std::span<const Statement> statements, const Forward& forward);

// What statements read and do not make, in order.
std::vector<ProgramValueId> read_from_outside(const std::vector<const Statement*>& statements);

}  // namespace meshwright::torch
