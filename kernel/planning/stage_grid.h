// A search over numbers of stages, schedules and microbatches by trying them, the most promising first: each combination has a floor that no plan of it is below, and
// once that of the next one is no less than the best step found, nothing that is left can be shorter.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "meshwright/result.h"

namespace meshwright {

// How a model is cut into stages, and a batch into microbatches.
struct StageChoice {
  std::uint32_t stages = 1;   // groups of devices; 0: nobody found any
  std::string schedule;       // "" of one stage
  std::int64_t microbatches = 1;
  std::uint32_t chunks = 0;   // of each stage; 0: as many as the schedule usually has
  std::vector<std::int64_t> devices = {};  // of each stage, if these are unlike; empty: as many each

  friend bool operator==(const StageChoice&, const StageChoice&) = default;
};

// "4 stages by gpipe, 8 microbatches", "4 stages by interleaved, 4 chunks each, 8 microbatches", "3 stages of 4, 2, 2 devices by one_f_one_b, 8 microbatches"
std::string to_string(const StageChoice& choice);

enum class TrialState : std::uint8_t {
  planned,  // there is a plan, and its simulated step
  unfit,    // no plan was found that fits
  skipped,  // its floor is no better than a step that was found
  estimated,  // what it would take is known to be about so long, and it was not planned
  refused,  // there is no such plan
};

std::string_view name(TrialState state);  // "planned", "does not fit", "skipped", "estimated", "refused"

struct StageTrial {
  StageChoice choice;
  double floor_seconds = 0;  // no plan of the choice has a shorter step
  TrialState state = TrialState::skipped;
  double step_seconds = 0;   // of what is planned
  double estimate_seconds = 0;  // what was expected before anything was planned; 0: nothing was
  double bubble = 0;
  std::int64_t peak_bytes = 0;
  std::string reason;        // why there is no plan
};

// Tries choices of the state `skipped` and says how that went: fills in the rest, and may raise the floor. An error ends the search.
using TryStages = std::function<Status(StageTrial&)>;

// Plans by ascending floors (then fewer stages, the schedule's name, fewer microbatches), until no floor that is left is below the best step; and of each number of stages one at
// least, so that it has a step to compare with or a reason. The answer: the index of the best among `trials`, in which each says how it went; nothing if none has a plan.
Result<std::optional<std::size_t>> search_stage_grid(std::vector<StageTrial>& trials, const TryStages& plan);

// No plan of any of these choices has a shorter step; infinite if all are refused.
double least_floor(const std::vector<StageTrial>& trials);

// The best of each number of stages, ascending: by its state, then its step, what it is expected to take, and its floor.
std::vector<const StageTrial*> best_by_stages(const std::vector<StageTrial>& trials);

// What is planned with the shortest step; null if nothing is.
const StageTrial* shortest_of(const std::vector<StageTrial>& trials);

// "4 stages by gpipe, 8 microbatches, chosen by trying: 12.345 ms, where ...": why this many stages, and `by` whom. Of trials of which something is planned.
std::string chosen_note(const std::vector<StageTrial>& trials, const std::string& by);

}  // namespace meshwright
