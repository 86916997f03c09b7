// Makes a StrategySpace smaller without losing its best choice, whatever the budget; every solver gets the reduced
// space, and its answer is lifted back. What is done (SEARCH.md, "reduction before any of it"):
//
//   forbidden      strategies with a forbidden cost go, and parallel edges are added up
//   consistency    a strategy with an edge but no allowed partner across it goes (arc consistency, Mackworth 1977)
//   dominance      r goes if q costs no more whatever the neighbours choose, and holds no more in any memory term
//                  (Goldstein 1994); identical strategies are a special case
//   folding        a node of which each strategy of a neighbour allows only one moves into that neighbour (a functional
//                  edge); a node with one strategy moves into its neighbours' costs; a node without memory terms and with
//                  one neighbour or none is minimized out
//
// A space whose allowed costs add up to kForbidden or more is left as it is. Deterministic. The reduced space is valid
// by itself and refers to nothing; it may have no nodes at all.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/solver.h"
#include "meshwright/strategy_space.h"

namespace meshwright {

struct ReduceOptions {
  bool consistency = true;
  bool dominance = true;
  bool folding = true;
  // Comparing all strategies of an edge takes rows² × columns steps; where that would exceed the limit, in all, it is
  // left out. Counted, so that the result is the same on any machine.
  std::int64_t dominance_work_limit = 20'000'000;
};

class MESHWRIGHT_API Reduction {
 public:
  StrategySpace space;
  bool infeasible = false;  // no choice is allowed, even without a budget; `space` is then meaningless
  TickSum constant = 0;     // what the reduced space's costs lack of the original's

  // A choice of the original space from one of the reduced space, at the same cost (less `constant`) and no more memory
  // at any time.
  [[nodiscard]] std::vector<std::uint32_t> lift(const std::vector<std::uint32_t>& choice) const;

  // The same for a solver's whole answer: cost, peak and lower bound are the original's.
  [[nodiscard]] Assignment lift(const StrategySpace& original, Assignment answer) const;

  // For each node that is left: its number, and those of its strategies, in the original space.
  struct Kept {
    std::uint32_t node = 0;
    std::vector<std::uint32_t> strategies;
  };
  std::vector<Kept> kept;

  // A node that was minimized out. Its best strategy is strategies[s] if `neighbour` chose s (both as numbered in the original
  // space), or strategies[0] if it had no neighbour (`alone`).
  struct Folded {
    std::uint32_t node = 0;
    std::uint32_t neighbour = 0;
    bool alone = false;
    std::vector<std::uint32_t> strategies;
  };
  std::vector<Folded> folded;  // in the order in which they went
};

// `space` is valid.
MESHWRIGHT_API Reduction reduce(const StrategySpace& space, const ReduceOptions& options = {});

}  // namespace meshwright
