#include "plugins/free_microbatches.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "units.h"

namespace meshwright::host {

namespace {

constexpr double kNearlyAsGood = 1.05;  // of two steps by the objective's plans
constexpr std::int64_t kMostParts = 4096;

struct Trial {
  std::int64_t parts = 1;
  double step_seconds = 0;  // 0: nothing fits
};

PlanOptions in_parts(const PlanOptions& options, std::int64_t parts) {
  PlanOptions made = options;
  made.set.push_back("train.microbatches=" + std::to_string(parts));
  return made;
}

// What no plan takes less than on any mesh, whatever it holds; infinite where nothing is allowed.
double least_seconds(const PlanOutcome& outcome) {
  double least = std::numeric_limits<double>::infinity();
  for (const MeshTrial& trial : outcome.trials) {
    if (trial.free_lower_bound_seconds > 0) least = std::min(least, trial.free_lower_bound_seconds);
  }
  return least;
}

std::string trials_text(const std::vector<Trial>& trials) {
  std::string text;
  for (const Trial& trial : trials) {
    text += (text.empty() ? "" : ", ") + std::to_string(trial.parts) + (trial.step_seconds > 0 ? " take " + milliseconds(trial.step_seconds) : " do not fit");
  }
  return text;
}

}  // namespace

Result<PlanOutcome> plan_with_free_microbatches(const PlanOptions& options, const std::function<Result<PlanOutcome>(const PlanOptions&)>& plan) {
  std::vector<Trial> trials;
  std::string end;  // why no more were tried
  std::optional<DeviceSpec> profiled = options.profiled;
  std::int64_t batch = 1;
  double best_objective = std::numeric_limits<double>::infinity();
  for (std::int64_t parts = 1; parts <= std::min(batch, kMostParts) && end.empty(); ++parts) {
    if (batch % parts != 0) continue;
    PlanOptions quick = in_parts(options, parts);
    quick.explain = false;
    quick.top = 1;
    quick.profiled = profiled;
    const Result<PlanOutcome> outcome = plan(quick);
    if (!outcome && parts == 1) return outcome.error();
    if (!outcome) {
      end = std::to_string(parts) + " are refused: " + outcome.error().message;
      break;
    }
    batch = outcome->batch;
    profiled = outcome->device;
    if (const double least = least_seconds(*outcome); parts > 1 && least >= best_objective) {
      end = "more would take " + milliseconds(least) + " even without a budget";
      break;
    }
    trials.push_back({parts, outcome->plan ? outcome->plan->step_seconds : 0});
    if (outcome->plan) best_objective = std::min(best_objective, outcome->plan->objective_seconds);
  }
  const std::string note = "Of the parts of the batch that were tried (microbatches), by the objective alone: " + trials_text(trials) + (end.empty() ? "" : "; " + end) + ".";
  std::vector<Trial> fitting = trials;
  std::erase_if(fitting, [](const Trial& trial) { return trial.step_seconds == 0; });
  std::ranges::stable_sort(fitting, {}, &Trial::step_seconds);
  PlanOptions whole = options;
  whole.profiled = profiled;
  if (fitting.empty()) {
    Result<PlanOutcome> refused = plan(in_parts(whole, trials.back().parts));
    if (refused && !refused->plan) refused->refusal += "\n  " + note;
    return refused;
  }
  std::optional<PlanOutcome> best;
  for (std::size_t i = 0; i < std::min<std::size_t>(fitting.size(), 2); ++i) {
    if (fitting[i].step_seconds > kNearlyAsGood * fitting[0].step_seconds) break;
    Result<PlanOutcome> outcome = plan(in_parts(whole, fitting[i].parts));
    if (!outcome) return outcome;
    if (!outcome->plan) continue;
    if (!best || outcome->plan->step_seconds < best->plan->step_seconds) best = std::move(*outcome);
  }
  if (!best) return internal_error("a plan that fitted does not when it is planned again");
  best->plan->notes.push_back(note);
  return std::move(*best);
}

}  // namespace meshwright::host
