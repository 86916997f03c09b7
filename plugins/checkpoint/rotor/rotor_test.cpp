#include "rotor.h"

#include <gtest/gtest.h>

#include "chains.h"
#include "every_schedule.h"

namespace meshwright {
namespace {

std::int64_t peak_of_everything(const Chain& chain) { return replay(chain, keep_everything(chain)).value().peak_bytes; }

std::vector<CheckpointAnswer> solve(const Chain& chain, const std::vector<std::int64_t>& budgets,
                                    std::int64_t slots = 500) {
  const auto answers = Rotor(slots).solve(chain, budgets);
  EXPECT_TRUE(answers.ok()) << answers.error().message;
  return answers.ok() ? *answers : std::vector<CheckpointAnswer>(budgets.size());
}

std::int64_t least_bytes(const Chain& chain) {
  const CheckpointAnswer answer = solve(chain, {0}).front();
  return answer.status == SolveStatus::infeasible ? answer.least_bytes : 0;
}

// From one byte too few to everything kept.
std::vector<std::int64_t> budgets_of(const Chain& chain) {
  const std::int64_t least = least_bytes(chain), most = peak_of_everything(chain);
  return {std::max<std::int64_t>(0, least - 1), least, least + (most - least) / 4, least + (most - least) / 2,
          least + (most - least) * 3 / 4,       most};
}

// `solve` has replayed each schedule: it takes the time that the table claims and fits.
void expect_best_of(ScheduleFamily family, Gradients gradients, int chains) {
  for (int seed = 0; seed < chains; ++seed) {
    const Chain chain =
        random_chain(static_cast<std::uint64_t>(seed), 1 + static_cast<std::size_t>(seed) % 8, gradients);
    const std::vector<std::int64_t> budgets = budgets_of(chain);
    const std::vector<CheckpointAnswer> answers = solve(chain, budgets);
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const auto least = least_ticks_of_every_schedule(chain, budgets[i], family);
      ASSERT_EQ(answers[i].status == SolveStatus::infeasible, !least) << "seed " << seed << ", budget " << budgets[i];
      if (!least) continue;
      ASSERT_EQ(static_cast<std::int64_t>(answers[i].ticks), *least) << "seed " << seed << ", budget " << budgets[i];
      ASSERT_EQ(answers[i].status, SolveStatus::optimal) << "seed " << seed << ", budget " << budgets[i];
    }
  }
}

TEST(Rotor, IsTheBestOfItsFamily) { expect_best_of(ScheduleFamily::nested, Gradients::any, 1200); }

TEST(Rotor, IsTheBestThatKeepsWhatItKeptWhereGradientsAreNoLargerThanValues) {
  expect_best_of(ScheduleFamily::persistent, Gradients::no_larger_than_values, 400);
}

// Without the middle forward the two checkpoints would fit: an implementation that looks at the ends alone says 7.
TEST(Rotor, CountsWhatForwardsBetweenCheckpointsNeed) {
  Chain chain = equal_chain(4);
  chain.stages[1].forward_overhead_bytes = 5;
  EXPECT_EQ(least_bytes(chain), 8);
  EXPECT_EQ(solve(chain, {8}).front().peak_bytes, 8);
}

TEST(Rotor, PaysForCommunicationInEachRun) {
  Chain chain = equal_chain(6, 3);
  const std::int64_t budget = (least_bytes(chain) + peak_of_everything(chain)) / 2;
  const auto before = solve(chain, {budget}).front();
  for (ChainStage& stage : chain.stages) stage.forward_communication_ticks = 1000;
  const auto after = solve(chain, {budget}).front();
  std::int64_t forwards = 0;
  for (const ChainOperation& operation : after.schedule) {
    forwards += operation.kind <= ChainOperationKind::forward_keep_nothing ? 1 : 0;
  }
  EXPECT_GT(forwards, 6);
  EXPECT_EQ(static_cast<std::int64_t>(after.ticks), static_cast<std::int64_t>(before.ticks) + 1000 * forwards);
}

// Odd sizes in a handful of slots: `solve` refuses what is over the budget.
TEST(Rotor, RoundsSoThatEveryBudgetThatCanBeMetIsMet) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Chain chain = random_chain(seed, 1 + seed % 8, Gradients::any, 1009);
    for (std::size_t stage = 0; stage < chain.stages.size(); ++stage) {
      chain.stages[stage].saved_bytes += static_cast<std::int64_t>(stage * seed) % 577;
    }
    const std::vector<std::int64_t> budgets = budgets_of(chain);
    for (const std::int64_t slots : {1, 4, 13, 100}) {
      const std::vector<CheckpointAnswer> answers = solve(chain, budgets, slots);
      for (std::size_t i = 0; i < budgets.size(); ++i) {
        const auto least = least_ticks_of_every_schedule(chain, budgets[i], ScheduleFamily::nested);
        ASSERT_EQ(answers[i].status == SolveStatus::infeasible, !least);
        if (answers[i].status != SolveStatus::optimal) continue;
        ASSERT_EQ(static_cast<std::int64_t>(answers[i].ticks), *least);
      }
    }
  }
}

// All stages save less than half a slot, or are rounded the same way: the tables say little, and what stands beside
// them counts.
TEST(Rotor, RunsNoForwardThreeTimesForWantOfSlots) {
  const Chain chain = equal_chain(60, 4);
  const std::int64_t budget = peak_of_everything(chain) * 6 / 10;
  for (const std::int64_t slots : {1, 3, 10, 30}) {
    const CheckpointAnswer answer = solve(chain, {budget}, slots).front();
    EXPECT_TRUE(answer.ticks <= ticks_without_recomputing(chain) + 60 * 10) << slots;
  }
}

TEST(Rotor, RefusesWhatItCanNotHold) {
  const std::vector<std::int64_t> budgets = {20'000};
  EXPECT_EQ(Rotor(1'000'000).solve(equal_chain(400, 100), budgets).error().message,
            "rotor: a chain of 400 stages with 19999 slots of memory needs a table of more than 8 GiB; lower "
            "[search.rotor] slots, or give the chain "
            "fewer stages");
  Chain slow = equal_chain(100);
  for (ChainStage& stage : slow.stages) stage.forward_ticks = 1'000'000'000'000'000;
  const std::vector<std::int64_t> tight = {50};
  EXPECT_EQ(Rotor(500).solve(slow, tight).error().code, ErrorCode::bad_input);
}

TEST(Rotor, AnswersTheSameEachTime) {
  const Chain chain = random_chain(5, 30, Gradients::any);
  const std::vector<std::int64_t> budgets = budgets_of(chain);
  const auto once = solve(chain, budgets), again = solve(chain, budgets);
  for (std::size_t i = 0; i < budgets.size(); ++i) EXPECT_EQ(once[i].schedule, again[i].schedule);
}

}  // namespace
}  // namespace meshwright
