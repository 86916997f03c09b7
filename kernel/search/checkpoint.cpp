#include "meshwright/checkpoint.h"

#include <algorithm>
#include <optional>

#include "search/checked_answers.h"
#include "tensor/guarded.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMostInAll = std::int64_t{1} << 61;  // so that no sum of a few of them overflows

struct NamedField {
  std::string_view name;
  std::int64_t ChainStage::*field;
};

constexpr NamedField kTickFields[] = {
    {"forward_ticks", &ChainStage::forward_ticks},
    {"backward_ticks", &ChainStage::backward_ticks},
    {"forward_communication_ticks", &ChainStage::forward_communication_ticks},
    {"backward_communication_ticks", &ChainStage::backward_communication_ticks},
};
constexpr NamedField kByteFields[] = {
    {"input_bytes", &ChainStage::input_bytes},
    {"input_gradient_bytes", &ChainStage::input_gradient_bytes},
    {"saved_bytes", &ChainStage::saved_bytes},
    {"forward_overhead_bytes", &ChainStage::forward_overhead_bytes},
    {"backward_overhead_bytes", &ChainStage::backward_overhead_bytes},
};

Status check_fields(const Chain& chain, std::span<const NamedField> fields, std::string_view unit) {
  TickSum sum = 0;
  for (std::size_t stage = 0; stage < chain.stages.size(); ++stage) {
    for (const NamedField& field : fields) {
      const std::int64_t value = chain.stages[stage].*field.field;
      if (value < 0) {
        return bad_input("stage " + std::to_string(stage) + " of the chain: " + std::string(field.name) +
                         " is negative");
      }
      sum += value;
      if (sum >= kMostInAll) {
        return bad_input("stage " + std::to_string(stage) + " of the chain: the " + std::string(unit) +
                         " of all stages up to its " + std::string(field.name) + " add up to 2^61 or more");
      }
    }
  }
  return Done{};
}

Status check_no_schedule(const CheckpointAnswer& answer, std::int64_t budget) {
  if (!answer.schedule.empty()) return plugin_failed("the checkpoint solver says 'infeasible' and gives a schedule");
  if (answer.least_bytes <= budget) {
    return plugin_failed("the checkpoint solver says 'infeasible', but its least bytes, " +
                         std::to_string(answer.least_bytes) + ", are within the budget of " + std::to_string(budget));
  }
  return Done{};
}

Status check_schedule(const Chain& chain, const CheckpointAnswer& answer, std::int64_t budget) {
  const Result<ChainReplay> found = replay(chain, answer.schedule);
  if (!found) return plugin_failed("the checkpoint solver's schedule can't run: " + found.error().message);
  if (found->ticks != answer.ticks) {
    return plugin_failed("the checkpoint solver's schedule does not take the time that it claims");
  }
  if (found->peak_bytes != answer.peak_bytes) {
    return plugin_failed("the checkpoint solver claims a peak of " + std::to_string(answer.peak_bytes) +
                         " bytes, but its schedule has " + std::to_string(found->peak_bytes) + " at operation " +
                         std::to_string(found->peak_operation));
  }
  if (found->peak_bytes > budget) {
    return plugin_failed("the checkpoint solver's schedule needs " + std::to_string(found->peak_bytes) +
                         " bytes at operation " + std::to_string(found->peak_operation) + ", over the budget of " +
                         std::to_string(budget));
  }
  return Done{};
}

// What fits a budget fits every larger one.
Status check_ascending(std::span<const CheckpointAnswer> answers) {
  std::optional<TickSum> fastest;
  for (const CheckpointAnswer& answer : answers) {
    const bool fits = answer.status != SolveStatus::infeasible;
    if (fastest && (!fits || (answer.status == SolveStatus::optimal && answer.ticks > *fastest))) {
      return plugin_failed("the checkpoint solver's answer to a larger budget contradicts its answer to a smaller one");
    }
    if (fits) fastest = std::min(answer.ticks, fastest.value_or(answer.ticks));
  }
  return Done{};
}

Status check_answers(const Chain& chain, std::span<const std::int64_t> budgets,
                     std::span<const CheckpointAnswer> answers) {
  if (answers.size() != budgets.size()) {
    return plugin_failed("the checkpoint solver gave " + std::to_string(answers.size()) + " answers to " +
                         std::to_string(budgets.size()) + " budgets");
  }
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    const CheckpointAnswer& answer = answers[i];
    if (answer.status == SolveStatus::bounded) {
      return plugin_failed("the checkpoint solver says 'bounded', but gives no bound");
    }
    const Status status = answer.status == SolveStatus::infeasible ? check_no_schedule(answer, budgets[i])
                                                                  : check_schedule(chain, answer, budgets[i]);
    if (!status) return status.error();
  }
  return check_ascending(answers);
}

}  // namespace

CheckpointSolver::~CheckpointSolver() = default;

TickSum ticks_without_recomputing(const Chain& chain) {
  TickSum sum = 0;
  for (const ChainStage& stage : chain.stages) sum += TickSum{forward_run_ticks(stage)} + backward_run_ticks(stage);
  return sum;
}

Status validate(const Chain& chain) {
  if (chain.stages.empty()) return bad_input("the chain has no stages; its last one holds the loss");
  if (Status status = check_fields(chain, kTickFields, "ticks"); !status) return status;
  if (Status status = check_fields(chain, kByteFields, "bytes"); !status) return status;
  for (std::size_t stage = 0; stage + 1 < chain.stages.size(); ++stage) {
    if (chain.stages[stage].saved_bytes < chain.stages[stage + 1].input_bytes) {
      return bad_input("stage " + std::to_string(stage) +
                       " of the chain: saved_bytes are less than the next stage's input_bytes, " +
                       "but what a stage saves holds its output too");
    }
  }
  return Done{};
}

std::string_view name(ChainOperationKind kind) {
  switch (kind) {
    case ChainOperationKind::forward_keep_all:
      return "forward_keep_all";
    case ChainOperationKind::forward_keep_input:
      return "forward_keep_input";
    case ChainOperationKind::forward_keep_nothing:
      return "forward_keep_nothing";
    case ChainOperationKind::backward:
      return "backward";
    case ChainOperationKind::drop_saved:
      return "drop_saved";
    case ChainOperationKind::drop_input:
      return "drop_input";
  }
  return "unknown";
}

ChainSchedule keep_everything(const Chain& chain) {
  const auto count = static_cast<std::uint32_t>(chain.stages.size());
  ChainSchedule schedule;
  for (std::uint32_t stage = 0; stage < count; ++stage) {
    schedule.push_back({ChainOperationKind::forward_keep_all, stage});
  }
  for (std::uint32_t stage = count; stage-- > 0;) schedule.push_back({ChainOperationKind::backward, stage});
  return schedule;
}

Result<CheckpointAnswer> answer_by(const Chain& chain, ChainSchedule schedule, std::string method) {
  const Result<ChainReplay> found = replay(chain, schedule);
  if (!found) return found.error();
  CheckpointAnswer answer;
  answer.status = found->ticks == ticks_without_recomputing(chain) ? SolveStatus::optimal : SolveStatus::heuristic;
  answer.schedule = std::move(schedule);
  answer.ticks = found->ticks;
  answer.peak_bytes = found->peak_bytes;
  answer.method = std::move(method);
  return answer;
}

CheckpointAnswer no_answer_below(std::int64_t least_bytes, std::string method) {
  CheckpointAnswer answer;
  answer.status = SolveStatus::infeasible;
  answer.least_bytes = least_bytes;
  answer.method = std::move(method);
  return answer;
}

Result<std::vector<CheckpointAnswer>> CheckpointSolver::solve(const Chain& chain,
                                                              std::span<const std::int64_t> budgets) const {
  if (Status status = validate(chain); !status) return status.error();
  if (Status status = check_budgets(budgets); !status) return status.error();
  const auto who = [] { return std::string("the checkpoint solver"); };
  Result<std::vector<CheckpointAnswer>> answers = guarded(who, [&] { return do_solve(chain, budgets); });
  if (!answers) return answers;
  if (Status status = check_answers(chain, budgets, *answers); !status) return status.error();
  return answers;
}

}  // namespace meshwright
