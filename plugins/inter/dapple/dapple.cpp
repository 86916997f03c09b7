#include "dapple.h"

#include <algorithm>
#include <limits>

#include "meshwright/plugin.h"
#include "pivot_search.h"

namespace meshwright {

namespace {

constexpr double kPaceUpwards = 1.5;  // from one guess of the longest stage to the next
constexpr double kRoundOffOfPace = 1 + 1e-8;
constexpr std::size_t kFewLabels = 1;
constexpr std::size_t kMoreLabels[] = {4, 32};
constexpr double kMostLabelsMade = 4e7, kMostLabelsThatFit = 1e7;  // by a search; where memory counts
constexpr std::size_t kMostPivotStates = 1'000'000;
constexpr std::size_t kMostFlightStates = 300'000;  // where memory counts
constexpr double kAnything = std::numeric_limits<double>::infinity();

struct PivotResult {
  std::optional<FoundPivot> best;
  bool exact = false;
};

// With few labels until some stages are within a guess of the longest one; then with more among what is shorter than the best. A stage of the pace p makes the whole take M p at least: if it is not the pivot, the
// pivot takes as long, or longer with what lies between the two.
PivotResult search_stages(const StepStages& stages, const FlightClasses* flights) {
  PivotSearch search(stages, flights);
  PivotResult result;
  for (double pace = stages.least_pace() * kPaceUpwards; !result.best; pace *= kPaceUpwards) {
    const bool last = !(pace < stages.most_pace()) || pace <= 0;
    result.best = search.search(last ? kAnything : pace, kAnything, kFewLabels, kAnything);
    if (!result.best && last) return {std::nullopt, search.complete()};
  }
  for (const std::size_t most_labels : kMoreLabels) {
    const double pace = result.best->seconds / stages.problem().microbatches * kRoundOffOfPace;
    std::optional<FoundPivot> found = search.search(pace, result.best->seconds, most_labels, flights == nullptr ? kMostLabelsMade : kMostLabelsThatFit);
    result.exact = search.complete();
    if (found) result.best = std::move(found);
    if (result.exact || search.stopped()) break;
  }
  return result;
}

}  // namespace

Result<PlacementAnswer> Dapple::do_solve(const PlacementProblem& problem) const {
  const auto* step = std::get_if<StepProblem>(&problem);
  if (step == nullptr || step->objective != StepObjective::dapple) return other_problem("dapple", problem);
  const std::size_t states = (step->nodes.size() + 1) * (step->devices + std::size_t{1});
  if (states > kMostPivotStates) {
    return bad_input("dapple looks at each node on each device, which is too much for " + std::to_string(step->nodes.size()) + " nodes and " + std::to_string(step->devices) + " devices; take fewer devices");
  }
  const StepStages stages(*step);
  if (stages.sizes().empty()) return no_stages(*step, true);
  // As if memory did not bind: nothing is faster, and often it fits.
  PivotResult result = search_stages(stages, nullptr);
  if (result.best && !evaluate(problem, result.best->stages)) {
    const FlightClasses flights(*step, std::max<std::size_t>(kMostFlightStates / states, 1));
    result = search_stages(stages, &flights);
    result.exact = result.exact && flights.exact();
  }
  if (!result.best) return no_stages(*step, result.exact);
  PlacementAnswer answer;
  answer.status = result.exact ? SolveStatus::optimal : SolveStatus::heuristic;
  answer.method = result.exact ? "all stages that could be better" : "partial lists of stages, not all that could be better";
  answer.stages = std::move(result.best->stages);
  const Result<PlacementCost> cost = evaluate(problem, answer.stages);
  if (!cost) return cost.error();
  answer.objective = cost->objective;
  return answer;
}

MESHWRIGHT_PLUGIN("inter", "dapple", "0.1.0", "Apache-2.0", "Fan et al. 2021: stages and their replicas, by a pipeline's latency", nullptr, nullptr, 0, (create_plugin<InterSolver, Dapple>),
                  destroy_plugin<InterSolver>)

}  // namespace meshwright
