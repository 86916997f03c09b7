// The search of TAP ("TAP: accelerating large-scale DNN training through tensor automatic parallelisation", §4): what is the same in
// a model is decided once, over sharding patterns of its weights, by what they communicate.
//
//   graph_nodes  §4.2, the graph without its auxiliary ops
//   folding      §4.3, Algorithm 1: shared subgraphs
//   patterns     §3.4, §4.4: split and replica
//   derive       §4.4, Algorithm 2: all plans of the unique blocks
//   routing      §4.5, Algorithm 3: from patterns to a whole plan; §4.6, its communication
#pragma once

#include "meshwright/solver.h"

namespace meshwright::tap {

class Tap final : public IntraSolver {
 public:
  Tap(std::int64_t min_duplicates, std::int64_t max_plans) : min_duplicates_(min_duplicates), max_plans_(max_plans) {}

  [[nodiscard]] bool reads_model() const override { return true; }

 private:
  // Errors: bad_input, always: numbers alone have no names and no weights.
  Result<std::vector<Assignment>> do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                           const SearchLimits& limits) const override;
  // The cheapest of the plans of all sets of tensor axes that fits; where none fits, what strategies hold is given a price, and a
  // higher one. `heuristic`, always.
  Result<std::vector<Assignment>> do_solve_model(const ModelProblem& model, std::span<const std::int64_t> budgets,
                                                 const SearchLimits& limits) const override;

  const std::int64_t min_duplicates_;
  const std::int64_t max_plans_;
};

}  // namespace meshwright::tap
