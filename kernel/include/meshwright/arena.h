// Where each buffer of a finished program lies in a rank's memory: one block, alike on all ranks, given out once for all steps.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/program.h"

namespace meshwright {

// Of the values of a step: parameters, inputs, and all that is computed; not of the optimizer's state.
struct Arena {
  static constexpr std::int64_t kNone = -1;
  static constexpr std::int64_t kAlignment = 64;  // bytes, of each offset

  std::int64_t bytes = 0;
  // By Program::place of a value: the offset of its storage in bytes, which a value that shares or takes over another one's storage
  // has too; kNone: there is no such value in a step.
  std::vector<std::int64_t> offsets;
};

// Buffers that are there at the same time lie apart. A parameter lies after the step where it lay before, if its new value is made when
// the old one is gone; otherwise elsewhere, and whoever runs the program copies it back. Largest buffers first, each as low as
// there is room all the time that it is there (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020:
// greedy by size for offset calculation). `program`: finished.
MESHWRIGHT_API Arena make_arena(const Program& program);

// What makes an arena wrong: two buffers that are there at the same time and overlap, or one that does not lie inside of it.
// Errors: bad_input that names both, and where.
MESHWRIGHT_API Status check_arena(const Program& program, const Arena& arena);

}  // namespace meshwright
