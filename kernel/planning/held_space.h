// The search problem of a few variables of a space, while all others are held at what was chosen for them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "meshwright/result.h"
#include "meshwright/strategy_space.h"

namespace meshwright {

struct HeldSpace {
  StrategySpace space;               // valid by itself. Costs between held variables are left out, memory of all of them counts
  std::vector<std::uint32_t> nodes;  // of its first nodes, their numbers in the original space; a last one may stand for what is held
};

// `choice` has an allowed strategy for each held node of `space`, and at least one node is free.
HeldSpace hold(const StrategySpace& space, const std::vector<std::uint32_t>& choice, const std::vector<bool>& is_free);

// The best choice of one strategy for each node of a space, within a budget; empty if there is none.
using SolveSpace = std::function<Result<std::vector<std::uint32_t>>(StrategySpace space, std::int64_t budget)>;

// `choice` with the free nodes as they are best. Where no budget binds, parts of the held space that nothing joins are solved one
// by one, and equal ones once. Empty if nothing is allowed. Errors: those of `solve`.
Result<std::vector<std::uint32_t>> best_around(const StrategySpace& space, const std::vector<std::uint32_t>& choice, const HeldSpace& held,
                                               std::int64_t budget, const SolveSpace& solve);

}  // namespace meshwright
