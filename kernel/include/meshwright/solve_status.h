// What solvers of every kind say of their answers, and the budget that does not bind.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "meshwright/export.h"

namespace meshwright {

enum class SolveStatus : std::uint8_t {
  optimal,     // lower_bound == cost, proven
  bounded,     // a valid lower bound below the cost
  heuristic,   // no bound that is worth the name; lower_bound is still valid (zero at worst)
  infeasible,  // proven: no choice is allowed within the budget
};

MESHWRIGHT_API std::string_view name(SolveStatus status);

inline constexpr std::int64_t kNoBudget = std::numeric_limits<std::int64_t>::max();

}  // namespace meshwright
