#include "elimination.h"

#include <iterator>

#include "budgeted.h"
#include "meshwright/plugin.h"

namespace meshwright {

namespace {

constexpr const char* kMaxTableEntries = "max_table_entries";

constexpr meshwright_config_key_v1 kSchema[] = {
    {kMaxTableEntries, "integer", "entries", "200_000_000",
     "the largest joint table that may be built; where elimination needs a larger one, the answer is bounded, not "
     "exact"},
};

void* create(const Config& config, Error& error) {
  const std::int64_t entries = config.integer(kMaxTableEntries);
  if (entries < 1) {
    error = bad_input("max_table_entries must be at least 1, not " + std::to_string(entries));
    return nullptr;
  }
  return static_cast<IntraSolver*>(new Elimination(entries));
}

// What the answer to a space with shifted costs says about the space itself.
Assignment unshift(const StrategySpace& space, Assignment answer, int shift) {
  answer.lower_bound <<= shift;
  if (answer.choice.empty()) return answer;
  answer.cost = evaluate(space, answer.choice).cost;
  if (answer.status == SolveStatus::optimal && answer.lower_bound != answer.cost) answer.status = SolveStatus::bounded;
  return answer;
}

}  // namespace

Result<std::vector<Assignment>> Elimination::do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                                      const SearchLimits& limits) const {
  elimination::Meter meter(limits);
  const int shift = elimination::needed_shift(space);
  const StrategySpace shifted = shift > 0 ? elimination::shift_costs(space, shift) : StrategySpace();
  elimination::Budgeted budgeted(shift > 0 ? shifted : space, static_cast<double>(max_table_entries_), meter);
  std::vector<Assignment> answers;
  for (const std::int64_t budget : budgets) answers.push_back(unshift(space, budgeted.solve(budget), shift));
  return answers;
}

MESHWRIGHT_PLUGIN("intra", "elimination", "0.1.0", "Apache-2.0",
                  "Exact elimination of nodes, with a Lagrangian and Pareto labels for the memory budget", nullptr,
                  kSchema, std::size(kSchema), create, destroy_plugin<IntraSolver>)

}  // namespace meshwright
