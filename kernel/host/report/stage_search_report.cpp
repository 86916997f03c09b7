#include "report/stage_search_report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "report/text_table.h"
#include "stage_devices.h"
#include "units.h"

namespace meshwright::host {

namespace {

struct TrialCounts {
  std::size_t planned = 0, unfit = 0, skipped = 0, estimated = 0, refused = 0;
};

// Of so many stages; of all with 0.
TrialCounts count_trials(const StageSearch& search, std::uint32_t stages) {
  TrialCounts counts;
  for (const StageTrial& trial : search.trials) {
    if (stages > 0 && trial.choice.stages != stages) continue;
    switch (trial.state) {
      case TrialState::planned: ++counts.planned; break;
      case TrialState::unfit: ++counts.unfit; break;
      case TrialState::skipped: ++counts.skipped; break;
      case TrialState::estimated: ++counts.estimated; break;
      case TrialState::refused: ++counts.refused; break;
    }
  }
  return counts;
}

// No plan of so many stages is below, of those that were considered.
double least_floor_of(const StageSearch& search, std::uint32_t stages) {
  std::vector<StageTrial> trials;
  std::ranges::copy_if(search.trials, std::back_inserter(trials), [&](const StageTrial& trial) { return trial.choice.stages == stages; });
  return least_floor(trials);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string stages_text(const StageChoice& choice) {
  if (choice.stages == 0) return "none";
  return std::to_string(choice.stages) + (choice.devices.empty() ? "" : " of " + stage_devices_text(choice.devices));
}

std::string schedule_text(const StageChoice& choice) {
  if (choice.schedule.empty()) return "-";
  return choice.schedule + (choice.chunks > 0 ? ", " + std::to_string(choice.chunks) + " chunks" : "");
}

std::string step_text(const StageTrial& trial) {
  if (trial.state == TrialState::planned) return milliseconds(trial.step_seconds);
  return trial.state == TrialState::estimated ? "about " + milliseconds(trial.estimate_seconds) : std::string(name(trial.state));
}

std::string table_of_stages(const StageSearch& search) {
  const bool estimates = count_trials(search, 0).estimated > 0 || std::ranges::any_of(search.trials, [](const StageTrial& trial) { return trial.estimate_seconds > 0; });
  const char* passed_over = estimates ? "estimated" : "skipped";
  std::vector<std::vector<std::string>> rows = {{"stages", "schedule", "microbatches", "step", "waits", "no step below", "peak memory", "planned", "unfit", passed_over, "refused"}};
  const StageTrial* chosen = shortest_of(search.trials);
  for (const StageTrial* best : best_by_stages(search.trials)) {
    const bool planned = best->state == TrialState::planned;
    const double floor = least_floor_of(search, best->choice.stages);
    const TrialCounts counts = count_trials(search, best->choice.stages);
    rows.push_back({stages_text(best->choice) + (best == chosen ? " *" : ""), schedule_text(best->choice), std::to_string(best->choice.microbatches),
                    step_text(*best), planned && best->choice.stages > 1 ? percent(best->bubble) : "",
                    std::isfinite(floor) && floor > 0 ? milliseconds(floor) : "", planned ? size_text(best->peak_bytes) : "", std::to_string(counts.planned), std::to_string(counts.unfit),
                    std::to_string(estimates ? counts.estimated : counts.skipped), std::to_string(counts.refused)});
  }
  return table_text(rows, 2);
}

// Of those that are not planned.
std::string but_for_shorter(const StageSearch& search) {
  const StageTrial* chosen = shortest_of(search.trials);
  if (chosen == nullptr) return "";
  const auto shorter = std::ranges::count_if(search.trials, [&](const StageTrial& trial) { return trial.state == TrialState::estimated && trial.estimate_seconds < chosen->step_seconds; });
  return shorter == 0 ? "" : ", but for " + std::to_string(shorter) + " behind others of as many stages that were planned or did not fit";
}

Json trial_json(const StageTrial& trial) {
  Json json;
  json.add("stages", trial.choice.stages).add("schedule", trial.choice.schedule.empty() ? Json(nullptr) : Json(trial.choice.schedule)).add("microbatches", trial.choice.microbatches);
  if (trial.choice.chunks > 0) json.add("chunks", trial.choice.chunks);
  if (!trial.choice.devices.empty()) json.add("stage_devices", Json::Array(trial.choice.devices.begin(), trial.choice.devices.end()));
  json.add("state", name(trial.state));
  if (trial.estimate_seconds > 0) json.add("estimated_step_seconds", trial.estimate_seconds);
  if (trial.state == TrialState::planned) json.add("step_seconds", trial.step_seconds).add("bubble", trial.bubble).add("peak_bytes", trial.peak_bytes);
  if (trial.state != TrialState::refused) json.add("step_lower_bound_seconds", trial.floor_seconds);
  if (!trial.reason.empty()) json.add("reason", trial.reason);
  return json;
}

}  // namespace

std::string stage_search_text(const PlanOutcome& outcome) {
  if (!outcome.stage_search) return "";
  const StageSearch& search = *outcome.stage_search;
  const TrialCounts counts = count_trials(search, 0);
  std::string text = "The best of each number of stages (* won), of " + std::to_string(search.trials.size()) + " combinations with schedules and microbatches:\n" + table_of_stages(search);
  text += "  planned " + std::to_string(counts.planned) + ", unfit " + std::to_string(counts.unfit) + ", refused " + std::to_string(counts.refused);
  if (counts.estimated > 0) text += ", estimated " + std::to_string(counts.estimated) + ": expected to take longer than what was planned" + but_for_shorter(search) + ", and not proven to\n";
  else text += ", skipped " + std::to_string(counts.skipped) + ": no plan of theirs has a shorter step than the best\n";
  for (const StageTrial* best : best_by_stages(search.trials)) {
    if (best->state != TrialState::planned && best->state != TrialState::estimated) text += "  " + to_string(best->choice) + ": " + first_line(best->reason) + "\n";
  }
  if (const double floor = least_floor(search.trials); std::isfinite(floor) && floor > 0) text += "  no plan of any of them has a step below " + milliseconds(floor) + "\n";
  text += "Not considered:\n";
  for (const std::string& what : search.left_out) text += "  " + what + "\n";
  return text + "\n";
}

void add_stage_search(Json& json, const PlanOutcome& outcome) {
  if (!outcome.stage_search) return;
  const StageSearch& search = *outcome.stage_search;
  Json::Array best, trials, left_out;
  for (const StageTrial* trial : best_by_stages(search.trials)) best.push_back(trial_json(*trial));
  for (const StageTrial& trial : search.trials) trials.push_back(trial_json(trial));
  for (const std::string& what : search.left_out) left_out.emplace_back(what);
  Json all;
  if (const StageTrial* chosen = shortest_of(search.trials)) all.add("chosen", trial_json(*chosen));
  if (const double floor = least_floor(search.trials); std::isfinite(floor)) all.add("step_lower_bound_seconds", floor);
  all.add("by_stages", std::move(best)).add("combinations", std::move(trials)).add("not_considered", std::move(left_out));
  json.add("stage_search", std::move(all));
}

}  // namespace meshwright::host
