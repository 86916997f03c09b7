#include "rematerialization.h"

#include <cstdint>
#include <utility>

namespace meshwright::checkmate {

namespace {

class Completion {
 public:
  Completion(std::size_t stages, Rematerialization decided)
      : phases_(phases_of(stages)),
        holds_(std::move(decided.holds_input)),
        saving_(std::move(decided.saving_phase)),
        makes_alone_(phases_.size(), std::vector<bool>(stages, false)) {
    holds_.emplace_back(stages, false);  // behind the last phase
    // What a later phase wants is known before an earlier one is looked at.
    for (std::size_t phase = phases_.size(); phase-- > 0;) complete(phase);
  }

  ChainSchedule write() const {
    ChainSchedule schedule;
    for (std::size_t phase = 0; phase < phases_.size(); ++phase) {
      for (std::size_t stage = 0; stage < phases_[phase].forwards; ++stage) write_step(phase, stage, schedule);
      if (phases_[phase].has_backward) add(ChainOperationKind::backward, phases_[phase].forwards - 1, schedule);
    }
    return schedule;
  }

 private:
  [[nodiscard]] bool backward_reads(std::size_t phase, std::size_t stage) const {
    return phases_[phase].has_backward && stage + 1 == phases_[phase].forwards;
  }
  [[nodiscard]] bool input_outlives_step(std::size_t phase, std::size_t stage) const {
    return stage == 0 || backward_reads(phase, stage) || holds_[phase + 1][stage];
  }

  void complete(std::size_t phase) {
    const std::size_t forwards = phases_[phase].forwards;
    // What the frontier's forward makes is the input of the stage behind it.
    const std::size_t inputs = phases_[phase].has_backward || forwards == saving_.size() ? forwards : forwards + 1;
    for (std::size_t stage = inputs; stage-- > 1;) {
      const bool is_wanted = saving_[stage] == phase || makes_alone_[phase][stage] || input_outlives_step(phase, stage);
      const bool is_saved = saving_[stage - 1] <= phase;
      if (!is_wanted || is_saved || stage == forwards) holds_[phase][stage] = false;
      if (is_wanted && !is_saved && !holds_[phase][stage]) makes_alone_[phase][stage - 1] = true;
    }
  }

  static void add(ChainOperationKind kind, std::size_t stage, ChainSchedule& schedule) {
    schedule.push_back({kind, static_cast<std::uint32_t>(stage)});
  }

  void write_step(std::size_t phase, std::size_t stage, ChainSchedule& schedule) const {
    const bool is_alone = stage == 0 || holds_[phase][stage] || makes_alone_[phase][stage - 1];
    const bool goes = is_alone && !input_outlives_step(phase, stage);
    if (makes_alone_[phase][stage]) {
      add(goes ? ChainOperationKind::forward_keep_nothing : ChainOperationKind::forward_keep_input, stage, schedule);
      return;
    }
    if (saving_[stage] == phase) add(ChainOperationKind::forward_keep_all, stage, schedule);
    if (goes) add(ChainOperationKind::drop_input, stage, schedule);
  }

  const std::vector<Phase> phases_;
  std::vector<std::vector<bool>> holds_;
  const std::vector<std::size_t> saving_;
  std::vector<std::vector<bool>> makes_alone_;  // by phase and stage: its forward runs and makes its value alone
};

}  // namespace

std::vector<Phase> phases_of(std::size_t stages) {
  std::vector<Phase> phases;
  for (std::size_t stage = 0; stage < stages; ++stage) phases.push_back({stage + 1, false});
  for (std::size_t stage = stages; stage-- > 0;) phases.push_back({stage + 1, true});
  return phases;
}

Rematerialization hold_nothing(std::size_t stages) {
  Rematerialization decided;
  decided.holds_input.assign(2 * stages, std::vector<bool>(stages, false));
  for (std::size_t stage = 0; stage < stages; ++stage) {
    decided.saving_phase.push_back(backward_phase(stages, stage));
  }
  return decided;
}

ChainSchedule schedule_of(const Chain& chain, Rematerialization decided) {
  return Completion(chain.stages.size(), std::move(decided)).write();
}

}  // namespace meshwright::checkmate
