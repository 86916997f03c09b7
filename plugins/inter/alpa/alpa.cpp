#include "alpa.h"

#include <algorithm>
#include <limits>

#include "meshwright/plugin.h"
#include "step_table.h"

namespace meshwright {

namespace {

constexpr double kUpwards = 1.1;           // from one guess of the longest stage to the next
constexpr double kShorter = 1 - 1e-12;
constexpr double kMostWork = 6e9;          // steps of the dynamic program where memory counts, and as many where it does not
constexpr std::size_t kMostStates = 16'000'000;
constexpr double kAnyPace = std::numeric_limits<double>::infinity();

struct Searched {
  std::optional<FoundSteps> best;
  int paces = 0;     // longest stages that were tried
  bool done = true;  // false: there was too much work
};

// Longest stages upwards until some stages are within one. Then downwards: of all stages within a pace those with the least sum are the best whose longest one is no shorter, so the next pace is below
// that, and so low that the sum, which grows, can still pay.
Searched search_paces(const StepStages& stages, const FlightClasses* flights) {
  StepTable table(stages, flights);
  const double microbatches = stages.problem().microbatches;
  Searched searched;
  const auto within = [&](double pace) {
    ++searched.paces;
    return table.within(pace);
  };
  double too_short = stages.least_pace() * kShorter;
  for (double pace = stages.least_pace() * kUpwards; !searched.best; pace *= kUpwards) {
    const bool last = !(pace < stages.most_pace()) || pace <= 0;
    searched.best = within(last ? kAnyPace : pace);
    if (!searched.best && last) return searched;
    if (!searched.best) too_short = pace;
  }
  double least_sum = stages.least_seconds(stages.nodes());
  const auto most_pace = [&] { return microbatches > 1 ? (searched.best->objective(microbatches) - least_sum) / (microbatches - 1) : kAnyPace; };
  for (double pace = most_pace(); pace > too_short;) {
    if (table.work() > kMostWork) {
      searched.done = false;
      break;
    }
    std::optional<FoundSteps> found = within(pace);
    if (!found) break;
    least_sum = std::max(least_sum, found->sum);
    const double longest = found->longest;
    if (found->objective(microbatches) < searched.best->objective(microbatches)) searched.best = std::move(found);
    if (microbatches == 1) break;
    pace = std::min(longest, most_pace()) * kShorter;
  }
  return searched;
}

}  // namespace

Result<PlacementAnswer> Alpa::do_solve(const PlacementProblem& problem) const {
  const auto* step = std::get_if<StepProblem>(&problem);
  if (step == nullptr || step->objective != StepObjective::alpa) return other_problem("alpa", problem);
  const std::size_t states = (step->nodes.size() + 1) * (step->devices + std::size_t{1});
  if (states > kMostStates) {
    return bad_input("alpa looks at each node on each device, which is too much for " + std::to_string(step->nodes.size()) + " nodes and " + std::to_string(step->devices) + " devices; take fewer devices");
  }
  const StepStages stages(*step);
  if (stages.sizes().empty()) return no_stages(*step, true);
  // As if memory did not bind: nothing is faster, and often it fits.
  Searched searched = search_paces(stages, nullptr);
  bool exact = searched.done;
  if (searched.best && !evaluate(problem, searched.best->stages)) {
    const FlightClasses flights(*step, std::max<std::size_t>(kMostStates / states, 1));
    searched = search_paces(stages, &flights);
    exact = searched.done && flights.exact();
  }
  if (!searched.best) return no_stages(*step, exact);
  PlacementAnswer answer;
  answer.status = exact ? SolveStatus::optimal : SolveStatus::heuristic;
  answer.method = std::to_string(searched.paces) + " longest stages tried" + (exact ? "" : ", and not all that could be better");
  answer.stages = std::move(searched.best->stages);
  const Result<PlacementCost> cost = evaluate(problem, answer.stages);
  if (!cost) return cost.error();
  answer.objective = cost->objective;
  return answer;
}

MESHWRIGHT_PLUGIN("inter", "alpa", "0.1.0", "Apache-2.0", "Zheng et al. 2022: stages on meshes of a cluster, by the step that they make, exact", nullptr, nullptr, 0,
                  (create_plugin<InterSolver, Alpa>), destroy_plugin<InterSolver>)

}  // namespace meshwright
