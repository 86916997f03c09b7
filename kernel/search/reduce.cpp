#include "meshwright/reduce.h"

#include <algorithm>
#include <numeric>

#include "reduce_work.h"

namespace meshwright {

namespace {

constexpr int kMostRounds = 4;  // each one works on what the one before left; more than two rarely find anything

// Whether sums of allowed costs can pass for forbidden: more than eleven days in all, in a space made from a model.
bool sums_are_too_large(const StrategySpace& space) {
  const auto largest = [](const std::vector<Ticks>& costs) {
    Ticks result = 0;
    for (const Ticks cost : costs) result = std::max(result, cost < kForbidden ? cost : 0);
    return result;
  };
  TickSum total = 0;
  for (const SpaceNode& node : space.nodes) total += largest(node.costs);
  std::vector<Ticks> of_table;
  for (const CostTable& table : space.tables) of_table.push_back(largest(table.costs));
  for (const SpaceEdge& edge : space.edges) total += of_table[edge.table];
  return total >= kForbidden;
}

Reduction leave_as_it_is(const StrategySpace& space) {
  Reduction result;
  result.space = space;
  for (std::uint32_t id = 0; id < space.nodes.size(); ++id) {
    result.kept.push_back({id, std::vector<std::uint32_t>(space.nodes[id].costs.size())});
    std::iota(result.kept.back().strategies.begin(), result.kept.back().strategies.end(), 0U);
  }
  return result;
}

}  // namespace

std::vector<std::uint32_t> Reduction::lift(const std::vector<std::uint32_t>& choice) const {
  std::vector<std::uint32_t> lifted(kept.size() + folded.size(), 0);
  for (std::size_t i = 0; i < kept.size(); ++i) lifted[kept[i].node] = kept[i].strategies[choice[i]];
  for (auto fold = folded.rbegin(); fold != folded.rend(); ++fold) {
    lifted[fold->node] = fold->strategies[fold->alone ? 0 : lifted[fold->neighbour]];
  }
  return lifted;
}

Assignment Reduction::lift(const StrategySpace& original, Assignment answer) const {
  if (answer.status == SolveStatus::infeasible) return answer;
  answer.lower_bound += constant;
  if (answer.choice.size() != kept.size() || (answer.choice.empty() && answer.status != SolveStatus::optimal))
    return answer;
  answer.choice = lift(answer.choice);
  const Evaluation evaluation = evaluate(original, answer.choice);
  answer.cost = evaluation.cost;
  answer.peak_bytes = evaluation.peak_bytes;
  return answer;
}

Reduction reduce(const StrategySpace& space, const ReduceOptions& options) {
  if (sums_are_too_large(space)) return leave_as_it_is(space);
  reducing::Work work(space);
  std::int64_t work_left = options.dominance_work_limit;
  bool changed = true;
  for (int round = 0; round < kMostRounds && changed && !work.infeasible; ++round) {
    changed = false;
    if (options.consistency) changed = reducing::make_consistent(work) || changed;
    if (options.folding && !work.infeasible) changed = reducing::contract(work) || changed;
    if (options.folding && !work.infeasible) changed = reducing::fold(work) || changed;
    if (options.dominance && !work.infeasible) changed = reducing::remove_dominated(work, work_left) || changed;
  }
  return std::move(work).finish(space);
}

}  // namespace meshwright
