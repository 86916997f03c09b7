// What the plugin does where elimination alone does not get there: wide_search, which is finished by elimination when
// enough strategies are excluded.
#pragma once

#include "meter.h"
#include "meshwright/solver.h"

namespace meshwright::elimination {

struct WideOptions {
  double max_table_entries = 0;
  bool two_threads = false;
  bool memo = true;  // passes.h
};

// Spends at most `share` of the work that the meter has left. `start`: a choice that is known; may be empty.
Assignment solve_wide(const StrategySpace& space, std::int64_t budget, const WideOptions& wide, const std::vector<std::uint32_t>& start,
                      Meter& meter, double share);

}  // namespace meshwright::elimination
