#include "dtr.h"

#include <algorithm>
#include <optional>

#include "meshwright/plugin.h"

namespace meshwright {

namespace {

// One step under one budget.
class OnlineRun {
 public:
  OnlineRun(const Chain& chain, std::int64_t budget)
      : stages_(chain.stages), budget_(budget), inputs_(stages_.size()), saved_(stages_.size()) {
    inputs_[0].is_held = true;
    held_ = stages_[0].input_bytes;
  }

  // nullopt if at some time nothing was left to let go.
  std::optional<ChainSchedule> run() {
    const std::size_t count = stages_.size();
    bool fits = true;
    for (live_ = 0; live_ < count && fits; ++live_) fits = save(live_);
    for (live_ = count; live_-- > 0 && fits;) fits = run_backward(live_);
    if (!fits) return std::nullopt;
    return std::move(schedule_);
  }

 private:
  // What can be let go, and when it was read or made last.
  struct Value {
    bool is_held = false;
    bool is_locked = false;  // what runs next reads it
    TickSum read_at = 0;
  };

  [[nodiscard]] std::int64_t output_bytes(std::size_t stage) const {
    return stage + 1 < stages_.size() ? stages_[stage + 1].input_bytes : 0;
  }
  [[nodiscard]] bool has_input(std::size_t stage) const {
    return inputs_[stage].is_held || (stage > 0 && saved_[stage - 1].is_held);
  }
  Value& holder_of_input(std::size_t stage) { return inputs_[stage].is_held ? inputs_[stage] : saved_[stage - 1]; }

  void add(ChainOperationKind kind, std::size_t stage) {
    schedule_.push_back({kind, static_cast<std::uint32_t>(stage)});
  }

  // Saves all of the stage, if that is not held.
  bool save(std::size_t stage) {
    if (saved_[stage].is_held) return true;
    if (!make_input(stage)) return false;
    return run_forward(stage, ChainOperationKind::forward_keep_all);
  }

  // Makes the input of the stage by the forwards from the last value before it that is held.
  bool make_input(std::size_t stage) {
    std::size_t from = stage;
    while (!has_input(from)) --from;
    for (; from < stage; ++from) {
      if (!run_forward(from, ChainOperationKind::forward_keep_input)) return false;
    }
    return true;
  }

  bool run_forward(std::size_t stage, ChainOperationKind kind) {
    const bool saves = kind == ChainOperationKind::forward_keep_all;
    const std::int64_t made = saves ? stages_[stage].saved_bytes : output_bytes(stage);
    Value& input = holder_of_input(stage);
    input.is_locked = true;
    const bool fits = make_room(made + stages_[stage].forward_overhead_bytes);
    input.is_locked = false;
    if (!fits) return false;
    add(kind, stage);
    clock_ += forward_run_ticks(stages_[stage]);
    input.read_at = clock_;
    held_ += made;
    if (saves && stage + 1 < stages_.size() && inputs_[stage + 1].is_held) let_go_input(stage + 1);
    if (saves || stage + 1 < stages_.size()) {
      Value& value = saves ? saved_[stage] : inputs_[stage + 1];
      value.is_held = true;
      value.read_at = clock_;
    }
    return true;
  }

  bool run_backward(std::size_t stage) {
    const ChainStage& here = stages_[stage];
    if (!save(stage)) return false;
    saved_[stage].is_locked = true;
    if (!make_input(stage)) return false;
    Value& input = holder_of_input(stage);
    input.is_locked = true;
    const bool fits = make_room(here.input_gradient_bytes + here.backward_overhead_bytes);
    input.is_locked = saved_[stage].is_locked = false;
    if (!fits) return false;
    add(ChainOperationKind::backward, stage);
    clock_ += backward_run_ticks(here);
    input.read_at = clock_;
    held_ += here.input_gradient_bytes - here.saved_bytes -
             (stage + 1 < stages_.size() ? stages_[stage + 1].input_gradient_bytes : 0);
    saved_[stage].is_held = false;
    if (inputs_[stage].is_held) let_go_input(stage);
    return true;
  }

  void let_go_input(std::size_t stage) {
    inputs_[stage].is_held = false;
    held_ -= stages_[stage].input_bytes;
  }

  // The forward that makes the output of the stage, with those beside it whose outputs are missing too.
  [[nodiscard]] double ticks_to_make(std::size_t stage) const {
    TickSum ticks = forward_run_ticks(stages_[stage]);
    for (std::size_t below = stage; below > 0 && !has_input(below); --below) {
      ticks += forward_run_ticks(stages_[below - 1]);
    }
    for (std::size_t above = stage + 1; above < live_ && !has_input(above + 1); ++above) {
      ticks += forward_run_ticks(stages_[above]);
    }
    return static_cast<double>(ticks);
  }

  // Of what can be let go, the one for which this is least: ticks / (bytes · ticks since it was read).
  bool make_room(std::int64_t bytes) {
    while (held_ > budget_ - bytes) {
      double least = 0;
      std::optional<ChainOperation> best;
      const auto consider = [&](ChainOperationKind kind, std::size_t stage, std::size_t made_by, const Value& value,
                                std::int64_t size) {
        if (!value.is_held || value.is_locked || size == 0) return;
        const double staleness = static_cast<double>(clock_ - value.read_at) + 1;
        const double score = ticks_to_make(made_by) / (static_cast<double>(size) * staleness);
        if (best && score >= least) return;
        least = score;
        best = {kind, static_cast<std::uint32_t>(stage)};
      };
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        const std::int64_t beside = stages_[stage].saved_bytes - output_bytes(stage);
        if (stage > 0) {
          consider(ChainOperationKind::drop_input, stage, stage - 1, inputs_[stage], stages_[stage].input_bytes);
        }
        consider(ChainOperationKind::drop_saved, stage, stage, saved_[stage],
                 beside > 0 ? beside : output_bytes(stage));
      }
      if (!best) return false;
      let_go(*best);
    }
    return true;
  }

  void let_go(const ChainOperation& operation) {
    schedule_.push_back(operation);
    const std::size_t stage = operation.stage;
    if (operation.kind == ChainOperationKind::drop_input) return let_go_input(stage);
    saved_[stage].is_held = false;
    held_ -= stages_[stage].saved_bytes - output_bytes(stage);
    if (stage + 1 == stages_.size()) return;
    inputs_[stage + 1] = {true, false, saved_[stage].read_at};
  }

  const std::vector<ChainStage>& stages_;
  const std::int64_t budget_;
  std::vector<Value> inputs_;  // by stage: its input, held by itself
  std::vector<Value> saved_;   // by stage: what it saved, its output included
  std::size_t live_ = 0;       // outputs of the stages below it have been made, and are of use
  ChainSchedule schedule_;
  std::int64_t held_ = 0;
  TickSum clock_ = 0;
};

// The least budget that is met, as far as bisection finds it: `missed` is not, `met` is.
std::int64_t bisect(const Chain& chain, std::int64_t missed, std::int64_t met) {
  while (met - missed > 1) {
    const std::int64_t middle = missed + (met - missed) / 2;
    (OnlineRun(chain, middle).run() ? met : missed) = middle;
  }
  return met;
}

}  // namespace

Result<std::vector<CheckpointAnswer>> Dtr::do_solve(const Chain& chain, std::span<const std::int64_t> budgets) const {
  const Result<CheckpointAnswer> everything = answer_by(chain, keep_everything(chain), "nothing let go");
  if (!everything) return everything.error();
  std::vector<CheckpointAnswer> answers;
  std::optional<CheckpointAnswer> fastest;  // of the budgets so far
  for (const std::int64_t budget : budgets) {
    if (budget >= everything->peak_bytes) {
      fastest = *everything;
    } else if (std::optional<ChainSchedule> schedule = OnlineRun(chain, budget).run()) {
      const Result<CheckpointAnswer> answer =
          answer_by(chain, std::move(*schedule), "online, let go by cost, size and staleness");
      if (!answer) return answer.error();
      if (!fastest || answer->ticks < fastest->ticks) fastest = *answer;
    }
    answers.push_back(fastest ? *fastest
                              : no_answer_below(bisect(chain, budget, everything->peak_bytes), "online, by bisection"));
  }
  return answers;
}

MESHWRIGHT_PLUGIN("checkpoint", "dtr", "0.1.0", "Apache-2.0",
                  "Kirisame et al.: online, lets go what is cheap to make again, large and stale", nullptr, nullptr, 0,
                  (create_plugin<CheckpointSolver, Dtr>), destroy_plugin<CheckpointSolver>)

}  // namespace meshwright
