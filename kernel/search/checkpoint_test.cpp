#include "meshwright/checkpoint.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

namespace meshwright {
namespace {

using enum ChainOperationKind;

Chain two_stages() {
  Chain chain;
  chain.stages = {
      {.forward_ticks = 3, .backward_ticks = 5, .input_bytes = 1, .saved_bytes = 8},
      {.forward_ticks = 7, .backward_ticks = 11, .input_bytes = 2, .input_gradient_bytes = 2, .saved_bytes = 4}};
  return chain;
}

// Answers what the test tells it to.
class Scripted final : public CheckpointSolver {
 public:
  using Script = std::function<Result<std::vector<CheckpointAnswer>>()>;
  explicit Scripted(Script script) : script_(std::move(script)) {}

 private:
  Result<std::vector<CheckpointAnswer>> do_solve(const Chain&, std::span<const std::int64_t>) const override {
    return script_();
  }
  Script script_;
};

Result<std::vector<CheckpointAnswer>> solve(std::vector<CheckpointAnswer> answers, std::vector<std::int64_t> budgets) {
  return Scripted([answers] { return answers; }).solve(two_stages(), budgets);
}

CheckpointAnswer everything() {
  return answer_by(two_stages(), keep_everything(two_stages()), "everything kept").value();
}
CheckpointAnswer twice() {
  return answer_by(
             two_stages(),
             {{forward_keep_input, 0}, {forward_keep_all, 1}, {backward, 1}, {forward_keep_all, 0}, {backward, 0}},
             "twice")
      .value();
}

TEST(Checkpoint, PassesAnswersThatKeepTheirWord) {
  EXPECT_EQ(everything().status, SolveStatus::optimal);
  EXPECT_EQ(everything().peak_bytes, 1 + 8 + 4 + 2);
  EXPECT_EQ(twice().status, SolveStatus::heuristic);
  EXPECT_EQ(twice().peak_bytes, 1 + 2 + 8);
  EXPECT_TRUE(twice().ticks == 26 + 3);
  const auto answers = solve({no_answer_below(11, "none"), twice(), everything()}, {10, 11, kNoBudget});
  ASSERT_TRUE(answers.ok()) << answers.error().message;
  EXPECT_EQ((*answers)[2].schedule, keep_everything(two_stages()));
}

TEST(Checkpoint, RefusesAnswersThatBreakTheContract) {
  struct Case {
    std::vector<CheckpointAnswer> answers;
    std::vector<std::int64_t> budgets;
    std::string message;
  };
  CheckpointAnswer quicker = everything(), lower = everything(), torn = no_answer_below(90, ""), cut = everything(),
                   slow = twice(), bounded = everything();
  --quicker.ticks;
  --lower.peak_bytes;
  torn.schedule = keep_everything(two_stages());
  cut.schedule.pop_back();
  slow.status = SolveStatus::optimal;
  bounded.status = SolveStatus::bounded;
  const std::vector<Case> cases = {
      {{}, {60}, "the checkpoint solver gave 0 answers to 1 budgets"},
      {{quicker}, {60}, "the checkpoint solver's schedule does not take the time that it claims"},
      {{lower}, {60}, "the checkpoint solver claims a peak of 14 bytes, but its schedule has 15 at operation 2"},
      {{everything()}, {14}, "the checkpoint solver's schedule needs 15 bytes at operation 2, over the budget of 14"},
      {{cut}, {60}, "the checkpoint solver's schedule can't run: the schedule ends before the backward of stage 0"},
      {{torn}, {60}, "the checkpoint solver says 'infeasible' and gives a schedule"},
      {{no_answer_below(60, "")},
       {60},
       "the checkpoint solver says 'infeasible', but its least bytes, 60, are within the budget of 60"},
      {{bounded}, {60}, "the checkpoint solver says 'bounded', but gives no bound"},
      {{everything(), no_answer_below(90, "")},
       {60, 70},
       "the checkpoint solver's answer to a larger budget contradicts its answer to a smaller one"},
      {{everything(), slow},
       {60, 70},
       "the checkpoint solver's answer to a larger budget contradicts its answer to a smaller one"},
  };
  for (const Case& each : cases) {
    const auto answers = solve(each.answers, each.budgets);
    ASSERT_FALSE(answers.ok()) << each.message;
    EXPECT_EQ(answers.error().message, each.message);
    EXPECT_EQ(answers.error().code, ErrorCode::plugin_failed);
  }
}

TEST(Checkpoint, CatchesWhatIsThrown) {
  const Scripted solver([]() -> Result<std::vector<CheckpointAnswer>> { throw std::runtime_error("out of luck"); });
  const std::vector<std::int64_t> budgets = {1};
  EXPECT_EQ(solver.solve(two_stages(), budgets).error().message,
            "the checkpoint solver threw an exception: out of luck");
}

TEST(Checkpoint, RefusesWhatIsNoChain) {
  const auto refusal = [](const std::function<void(Chain&)>& spoil) {
    Chain chain = two_stages();
    spoil(chain);
    const std::vector<std::int64_t> budgets = {1};
    const auto answers = Scripted([] { return std::vector<CheckpointAnswer>{}; }).solve(chain, budgets);
    return answers.ok() ? "" : answers.error().message;
  };
  EXPECT_EQ(refusal([](Chain& chain) { chain.stages.clear(); }),
            "the chain has no stages; its last one holds the loss");
  EXPECT_EQ(refusal([](Chain& chain) { chain.stages[1].backward_communication_ticks = -1; }),
            "stage 1 of the chain: backward_communication_ticks is negative");
  EXPECT_EQ(refusal([](Chain& chain) { chain.stages[0].forward_overhead_bytes = std::int64_t{1} << 61; }),
            "stage 0 of the chain: the bytes of all stages up to its forward_overhead_bytes add up to 2^61 or more");
  EXPECT_EQ(refusal([](Chain& chain) { chain.stages[0].saved_bytes = 1; }),
            "stage 0 of the chain: saved_bytes are less than the next stage's input_bytes, but what a stage saves "
            "holds its output too");
}

TEST(Checkpoint, RefusesWhatAreNoBudgets) {
  EXPECT_FALSE(solve({}, {}).ok());
  EXPECT_EQ(solve({}, {-1}).error().message, "a memory budget is negative");
  EXPECT_EQ(solve({}, {2, 1}).error().message, "the memory budgets do not ascend");
}

}  // namespace
}  // namespace meshwright
