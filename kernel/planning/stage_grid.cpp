#include "stage_grid.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "units.h"

namespace meshwright {

namespace {

// By what a search tries first.
bool is_tried_before(const StageTrial& one, const StageTrial& other) {
  const auto key = [](const StageTrial& trial) { return std::tie(trial.floor_seconds, trial.choice.stages, trial.choice.schedule, trial.choice.microbatches); };
  return key(one) < key(other);
}

bool is_better(const StageTrial& one, const StageTrial& other) {
  const auto key = [](const StageTrial& trial) { return std::tuple(trial.state == TrialState::planned ? 0 : trial.state == TrialState::estimated ? 1 : 2, trial.state, trial.step_seconds, trial.estimate_seconds, trial.floor_seconds); };
  return key(one) < key(other);
}

}  // namespace

std::string to_string(const StageChoice& choice) {
  const auto counted = [](std::int64_t count, const char* what) { return std::to_string(count) + " " + what + (count == 1 ? "" : "s"); };
  const std::string microbatches = choice.microbatches == 1 ? "1 microbatch" : std::to_string(choice.microbatches) + " microbatches";
  if (choice.stages == 0) return microbatches;
  std::string devices;
  for (const std::int64_t count : choice.devices) devices += (devices.empty() ? " of " : ", ") + std::to_string(count);
  if (!devices.empty()) devices += " devices";
  return counted(choice.stages, "stage") + devices + (choice.schedule.empty() ? "" : " by " + choice.schedule) + (choice.chunks > 0 ? ", " + counted(choice.chunks, "chunk") + " each" : "") + ", " + microbatches;
}

std::string_view name(TrialState state) {
  switch (state) {
    case TrialState::planned: return "planned";
    case TrialState::unfit: return "does not fit";
    case TrialState::skipped: return "skipped";
    case TrialState::estimated: return "estimated";
    case TrialState::refused: return "refused";
  }
  return "";
}

Result<std::optional<std::size_t>> search_stage_grid(std::vector<StageTrial>& trials, const TryStages& plan) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].state == TrialState::skipped) order.push_back(i);
  }
  std::ranges::sort(order, [&](std::size_t one, std::size_t other) { return is_tried_before(trials[one], trials[other]); });
  std::optional<std::size_t> best;
  std::set<std::uint32_t> tried;  // numbers of stages
  for (const std::size_t i : order) {
    StageTrial& trial = trials[i];
    const bool may_be_best = !best || trial.floor_seconds < trials[*best].step_seconds;
    if (!may_be_best && tried.contains(trial.choice.stages)) continue;
    if (Status status = plan(trial); !status) return status.error();
    tried.insert(trial.choice.stages);
    if (trial.state == TrialState::planned && (!best || trial.step_seconds < trials[*best].step_seconds)) best = i;
  }
  return best;
}

double least_floor(const std::vector<StageTrial>& trials) {
  double least = std::numeric_limits<double>::infinity();
  for (const StageTrial& trial : trials) {
    if (trial.state != TrialState::refused) least = std::min(least, trial.floor_seconds);
  }
  return least;
}

std::vector<const StageTrial*> best_by_stages(const std::vector<StageTrial>& trials) {
  std::map<std::uint32_t, const StageTrial*> best;
  for (const StageTrial& trial : trials) {
    const StageTrial*& known = best[trial.choice.stages];
    if (known == nullptr || is_better(trial, *known)) known = &trial;
  }
  std::vector<const StageTrial*> list;
  for (const auto& [stages, trial] : best) list.push_back(trial);
  return list;
}

const StageTrial* shortest_of(const std::vector<StageTrial>& trials) {
  const StageTrial* shortest = nullptr;
  for (const StageTrial& trial : trials) {
    if (trial.state == TrialState::planned && (shortest == nullptr || trial.step_seconds < shortest->step_seconds)) shortest = &trial;
  }
  return shortest;
}

std::string chosen_note(const std::vector<StageTrial>& trials, const std::string& by) {
  const StageTrial& chosen = *shortest_of(trials);
  std::string others;
  for (const StageTrial* trial : best_by_stages(trials)) {
    if (trial->choice.stages == chosen.choice.stages) continue;
    const std::string found = trial->state == TrialState::planned     ? " take " + milliseconds(trial->step_seconds)
                              : trial->state == TrialState::estimated ? " would take about " + milliseconds(trial->estimate_seconds)
                                                                      : ": " + trial->reason.substr(0, trial->reason.find('\n'));
    others += (others.empty() ? "" : "; ") + to_string(trial->choice) + found;
  }
  return to_string(chosen.choice) + ", chosen by " + by + ", take " + milliseconds(chosen.step_seconds) + (others.empty() ? "." : ". The best found of other numbers of stages: " + others + ".");
}

}  // namespace meshwright
