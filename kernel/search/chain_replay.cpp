// What a schedule of a chain does, operation by operation: the truth that every checkpoint solver is held against.
#include <algorithm>
#include <string>

#include "meshwright/checkpoint.h"

namespace meshwright {

namespace {

class ChainMachine {
 public:
  explicit ChainMachine(const Chain& chain)
      : stages_(chain.stages), alone_(stages_.size(), false), saved_(stages_.size(), false), pending_(stages_.size()) {
    alone_[0] = true;
    held_ = stages_[0].input_bytes;
  }

  // Returns what is wrong, or nothing.
  std::string run(const ChainOperation& operation) {
    if (operation.stage >= stages_.size()) return "the chain has " + std::to_string(stages_.size()) + " stages";
    switch (operation.kind) {
      case ChainOperationKind::forward_keep_all:
      case ChainOperationKind::forward_keep_input:
      case ChainOperationKind::forward_keep_nothing:
        return forward(operation.kind, operation.stage);
      case ChainOperationKind::backward:
        return backward(operation.stage);
      case ChainOperationKind::drop_saved:
        return drop_saved(operation.stage);
      case ChainOperationKind::drop_input:
        return drop_input(operation.stage);
    }
    return "there is no such operation";
  }

  // Stages 0 to pending() - 1 have not had their backward.
  [[nodiscard]] std::size_t pending() const { return pending_; }
  [[nodiscard]] TickSum ticks() const { return ticks_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }  // of all operations so far

 private:
  [[nodiscard]] bool has_input(std::size_t stage) const { return alone_[stage] || (stage > 0 && saved_[stage - 1]); }
  // The value between a stage and the next one, and its gradient; nothing leaves the last stage.
  [[nodiscard]] std::int64_t output_bytes(std::size_t stage) const {
    return stage + 1 < stages_.size() ? stages_[stage + 1].input_bytes : 0;
  }
  [[nodiscard]] std::int64_t output_gradient_bytes(std::size_t stage) const {
    return stage + 1 < stages_.size() ? stages_[stage + 1].input_gradient_bytes : 0;
  }
  [[nodiscard]] bool output_is_alone(std::size_t stage) const {
    return stage + 1 < stages_.size() && alone_[stage + 1];
  }

  void reach(std::int64_t bytes) { peak_ = std::max(peak_, bytes); }

  std::string forward(ChainOperationKind kind, std::size_t stage) {
    const ChainStage& here = stages_[stage];
    const bool saves = kind == ChainOperationKind::forward_keep_all;
    if (stage >= pending_) return "the stage's backward has run";
    if (!has_input(stage)) return "the stage's input is not held";
    if (saved_[stage]) return "what it makes is held";
    if (!saves && output_is_alone(stage)) return "what it makes is held";
    if (kind == ChainOperationKind::forward_keep_nothing && !alone_[stage]) {
      return "the stage's input is part of what stage " + std::to_string(stage - 1) +
             " saved, and can't be let go alone";
    }
    const std::int64_t made = saves ? here.saved_bytes : output_bytes(stage);
    reach(held_ + made + here.forward_overhead_bytes);
    held_ += made;
    ticks_ += forward_run_ticks(here);
    if (saves) {
      if (output_is_alone(stage)) let_go_alone(stage + 1);
      saved_[stage] = true;
      return {};
    }
    if (stage + 1 < stages_.size()) alone_[stage + 1] = true;
    if (kind == ChainOperationKind::forward_keep_nothing) let_go_alone(stage);
    return {};
  }

  std::string backward(std::size_t stage) {
    const ChainStage& here = stages_[stage];
    if (stage + 1 != pending_) {
      return pending_ == 0 ? "all backwards have run"
                           : "the next backward is that of stage " + std::to_string(pending_ - 1);
    }
    if (!saved_[stage]) return "what the stage saves is not held";
    if (!has_input(stage)) return "the stage's input is not held";
    reach(held_ + here.input_gradient_bytes + here.backward_overhead_bytes);
    held_ += here.input_gradient_bytes - here.saved_bytes - output_gradient_bytes(stage);
    saved_[stage] = false;
    if (alone_[stage]) let_go_alone(stage);
    ticks_ += backward_run_ticks(here);
    pending_ = stage;
    return {};
  }

  std::string drop_saved(std::size_t stage) {
    if (!saved_[stage]) return "what the stage saves is not held";
    saved_[stage] = false;
    held_ += output_bytes(stage) - stages_[stage].saved_bytes;
    if (stage + 1 < stages_.size()) alone_[stage + 1] = true;
    return {};
  }

  std::string drop_input(std::size_t stage) {
    if (!alone_[stage]) return "the stage's input is not held by itself";
    let_go_alone(stage);
    return {};
  }

  void let_go_alone(std::size_t stage) {
    alone_[stage] = false;
    held_ -= stages_[stage].input_bytes;
  }

  const std::vector<ChainStage>& stages_;
  std::vector<bool> alone_;  // by stage: its input is held by itself
  std::vector<bool> saved_;  // by stage: what it saves is held, its output included
  std::size_t pending_;
  TickSum ticks_ = 0;
  std::int64_t held_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace

Result<ChainReplay> replay(const Chain& chain, std::span<const ChainOperation> schedule) {
  ChainMachine machine(chain);
  ChainReplay result;
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const std::string wrong = machine.run(schedule[i]);
    if (!wrong.empty()) {
      return bad_input("operation " + std::to_string(i) + " of the schedule, " + std::string(name(schedule[i].kind)) +
                       " of stage " + std::to_string(schedule[i].stage) + ": " + wrong);
    }
    if (machine.peak_bytes() > result.peak_bytes) {
      result.peak_bytes = machine.peak_bytes();
      result.peak_operation = i;
    }
  }
  if (machine.pending() > 0) {
    return bad_input("the schedule ends before the backward of stage " + std::to_string(machine.pending() - 1));
  }
  result.ticks = machine.ticks();
  return result;
}

}  // namespace meshwright
