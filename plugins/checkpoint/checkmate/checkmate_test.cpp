#include "checkmate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "chains.h"
#include "every_schedule.h"
#include "frontier_program.h"
#include "rematerialization.h"

namespace meshwright {
namespace {

std::int64_t peak_of_everything(const Chain& chain) { return replay(chain, keep_everything(chain)).value().peak_bytes; }

std::vector<CheckpointAnswer> solve(const Chain& chain, const std::vector<std::int64_t>& budgets,
                                    const CheckmateOptions& options = {}) {
  const auto answers = Checkmate(options).solve(chain, budgets);
  EXPECT_TRUE(answers.ok()) << answers.error().message;
  return answers.ok() ? *answers : std::vector<CheckpointAnswer>(budgets.size());
}

// From one byte less than the least to everything kept.
std::vector<std::int64_t> budgets_of(const Chain& chain) {
  const CheckpointAnswer refused = solve(chain, {0}).front();
  const std::int64_t least = refused.status == SolveStatus::infeasible ? refused.least_bytes : 0;
  const std::int64_t most = peak_of_everything(chain);
  std::vector<std::int64_t> budgets = {std::max<std::int64_t>(0, least - 1)};
  for (int part = 0; part <= 4; ++part) budgets.push_back(least + (most - least) * part / 4);
  return budgets;
}

// Dijkstra's algorithm over everything that memory can hold knows no phases: its schedules are checkmate's and more.
void expect_between_the_families(Gradients gradients) {
  int as_fast_as_any = 0, faster_than_nested = 0, all = 0;
  for (int seed = 0; seed < 100; ++seed) {
    const Chain chain =
        random_chain(static_cast<std::uint64_t>(seed), 1 + static_cast<std::size_t>(seed) % 6, gradients);
    const std::vector<std::int64_t> budgets = budgets_of(chain);
    const std::vector<CheckpointAnswer> answers = solve(chain, budgets);
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const auto any = least_ticks_of_every_schedule(chain, budgets[i], ScheduleFamily::any);
      const auto nested = least_ticks_of_every_schedule(chain, budgets[i], ScheduleFamily::nested);
      if (answers[i].status == SolveStatus::infeasible) {
        ASSERT_FALSE(nested) << "seed " << seed << ", budget " << budgets[i];
        continue;
      }
      const auto ticks = static_cast<std::int64_t>(answers[i].ticks);
      ASSERT_EQ(answers[i].status, SolveStatus::optimal) << "seed " << seed << ": " << answers[i].method;
      ASSERT_TRUE(any && ticks >= *any) << "seed " << seed << ", budget " << budgets[i];
      ASSERT_TRUE(!nested || ticks <= *nested) << "seed " << seed << ", budget " << budgets[i];
      ++all;
      as_fast_as_any += ticks == *any ? 1 : 0;
      faster_than_nested += !nested || ticks < *nested ? 1 : 0;
    }
  }
  EXPECT_GE(as_fast_as_any, all * 99 / 100);
  EXPECT_GE(faster_than_nested, all / 10);
}

TEST(Checkmate, IsNoSlowerThanNestedSchedulesNorFasterThanAll) {
  expect_between_the_families(Gradients::no_larger_than_values);
}

TEST(Checkmate, IsSoWhereGradientsAreLargerThanValues) { expect_between_the_families(Gradients::any); }

// Inputs that take no bytes cut the program into parts.
TEST(Checkmate, IsNoSlowerWhereSomeInputsTakeNothing) {
  for (int seed = 0; seed < 100; ++seed) {
    Chain chain = random_chain(static_cast<std::uint64_t>(seed), 2 + static_cast<std::size_t>(seed) % 5,
                               Gradients::no_larger_than_values);
    for (std::size_t stage = 1; stage < chain.stages.size(); ++stage) {
      if ((seed >> stage) % 2 == 0) chain.stages[stage].input_bytes = chain.stages[stage].input_gradient_bytes = 0;
    }
    const std::vector<std::int64_t> budgets = budgets_of(chain);
    const std::vector<CheckpointAnswer> answers = solve(chain, budgets);
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const auto nested = least_ticks_of_every_schedule(chain, budgets[i], ScheduleFamily::nested);
      if (answers[i].status == SolveStatus::infeasible) {
        ASSERT_FALSE(nested) << "seed " << seed << ", budget " << budgets[i];
        continue;
      }
      ASSERT_EQ(answers[i].status, SolveStatus::optimal) << "seed " << seed << ": " << answers[i].method;
      const auto any = least_ticks_of_every_schedule(chain, budgets[i], ScheduleFamily::any);
      ASSERT_TRUE(any && answers[i].ticks >= *any) << "seed " << seed << ", budget " << budgets[i];
      ASSERT_TRUE(!nested || answers[i].ticks <= *nested) << "seed " << seed << ", budget " << budgets[i];
    }
  }
}

TEST(Checkmate, ProvesLongerChains) {
  const Chain chain = equal_chain(12, 3);
  const CheckpointAnswer answer = solve(chain, {peak_of_everything(chain) * 6 / 10}).front();
  EXPECT_EQ(answer.status, SolveStatus::optimal) << answer.method;
  EXPECT_EQ(static_cast<std::int64_t>(answer.ticks), 420);
}

// Microseconds in ticks and megabytes are small numbers times a large one.
TEST(Checkmate, ProvesTimesAndSizesOfOneUnit) {
  const Chain small = random_chain(10, 10, Gradients::any);
  Chain large = random_chain(10, 10, Gradients::any, 1'000'000);
  for (ChainStage& stage : large.stages) {
    for (Ticks* ticks : {&stage.forward_ticks, &stage.backward_ticks, &stage.forward_communication_ticks,
                         &stage.backward_communication_ticks}) {
      *ticks *= 1'000'000'000;
    }
  }
  const std::int64_t budget = peak_of_everything(small) * 7 / 10;
  const CheckpointAnswer of_small = solve(small, {budget}).front();
  const CheckpointAnswer of_large = solve(large, {budget * 1'000'000 + 1}).front();
  EXPECT_EQ(of_small.status, SolveStatus::optimal) << of_small.method;
  EXPECT_EQ(of_large.status, SolveStatus::optimal) << of_large.method;
  EXPECT_TRUE(of_small.ticks > ticks_without_recomputing(small));
  EXPECT_TRUE(of_large.ticks == of_small.ticks * 1'000'000'000);
}

// Sizes and times of many digits, which no double holds times 2^16: replayed, they count to the last one.
TEST(Checkmate, TakesNoScheduleThatIsOverTheBudgetByAByte) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Chain chain = random_chain(seed, 2 + seed % 4, Gradients::any, 1'000'000'007);
    for (std::size_t stage = 0; stage < chain.stages.size(); ++stage) {
      chain.stages[stage].saved_bytes += static_cast<std::int64_t>(stage * seed) % 577;
      chain.stages[stage].forward_ticks = chain.stages[stage].forward_ticks * 1'000'000'007 + 1;
    }
    const std::vector<std::int64_t> budgets = budgets_of(chain);
    const std::vector<CheckpointAnswer> answers = solve(chain, budgets);
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      if (answers[i].status != SolveStatus::optimal) continue;
      const auto any = least_ticks_of_every_schedule(chain, budgets[i], ScheduleFamily::any);
      ASSERT_TRUE(any && answers[i].ticks == *any) << "seed " << seed << ", budget " << budgets[i];
    }
  }
}

TEST(Checkmate, SaysWhatIsTooLarge) {
  const Chain chain = equal_chain(60, 3);
  const std::int64_t most = peak_of_everything(chain);
  const std::vector<CheckpointAnswer> answers = solve(chain, {2, most / 2, most});
  EXPECT_EQ(answers[0].status, SolveStatus::infeasible);
  EXPECT_NE(answers[0].method.find("nothing is proven"), std::string::npos) << answers[0].method;
  EXPECT_EQ(answers[1].status, SolveStatus::heuristic);
  EXPECT_NE(answers[1].method.find("14640 columns are too many for the integer program of a chain of 60 stages"),
            std::string::npos)
      << answers[1].method;
  EXPECT_EQ(answers[2].status, SolveStatus::optimal);
}

// A chain of which neither the relaxation nor segments are the best.
TEST(Checkmate, ClaimsNothingWhereItIsCutOff) {
  const Chain chain = random_chain(12, 12, Gradients::any);
  const std::vector<std::int64_t> budgets = {peak_of_everything(chain) * 6 / 10};
  const CheckpointAnswer best = solve(chain, budgets).front();
  ASSERT_EQ(best.status, SolveStatus::optimal) << best.method;
  CheckmateOptions little;
  little.work_limit = 20'000;
  const CheckpointAnswer counted = solve(chain, budgets, little).front();
  EXPECT_EQ(counted.status, SolveStatus::heuristic) << counted.method;
  EXPECT_NE(counted.method.find("work limit"), std::string::npos) << counted.method;
  EXPECT_TRUE(counted.ticks >= best.ticks);
  CheckmateOptions late;
  late.deadline_seconds = 0;
  const CheckpointAnswer clocked = solve(chain, budgets, late).front();
  EXPECT_EQ(clocked.status, SolveStatus::heuristic) << clocked.method;
  EXPECT_NE(clocked.method.find("clock"), std::string::npos) << clocked.method;
}

TEST(Checkmate, AnswersTheSameEachTime) {
  const Chain chain = random_chain(7, 8, Gradients::any);
  const std::vector<std::int64_t> budgets = budgets_of(chain);
  const auto once = solve(chain, budgets), again = solve(chain, budgets);
  for (std::size_t i = 0; i < budgets.size(); ++i) EXPECT_EQ(once[i].schedule, again[i].schedule);
}

// Whatever is decided, right or not, is a schedule.
TEST(Rematerialization, RunsWhatIsMissing) {
  std::mt19937_64 random(1);
  for (int draw = 0; draw < 500; ++draw) {
    const std::size_t stages = 1 + static_cast<std::size_t>(draw) % 7;
    const Chain chain = random_chain(random(), stages, Gradients::any);
    checkmate::Rematerialization decided = checkmate::hold_nothing(stages);
    for (std::vector<bool>& phase : decided.holds_input) {
      for (std::size_t stage = 1; stage < stages; ++stage) phase[stage] = random() % 2 == 0;
    }
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const std::size_t last = checkmate::backward_phase(stages, stage);
      decided.saving_phase[stage] = stage + random() % (last - stage + 1);
    }
    const auto found = replay(chain, checkmate::schedule_of(chain, decided));
    ASSERT_TRUE(found.ok()) << found.error().message;
  }
}

// Sixty stages in parts of two, of which a budget holds about half.
TEST(Checkmate, ProvesLongChainsOfParts) {
  Chain chain = equal_chain(60, 3);
  for (std::size_t stage = 2; stage < chain.stages.size(); stage += 2) chain.stages[stage].input_bytes = 0;
  const CheckpointAnswer answer = solve(chain, {peak_of_everything(chain) / 2}).front();
  EXPECT_EQ(answer.status, SolveStatus::optimal) << answer.method;
}

TEST(FrontierProgram, HasAsManyColumnsAsItSaysInParts) {
  Chain chain = equal_chain(7);
  for (const std::size_t stage : {2U, 5U, 6U}) {
    chain.stages[stage].input_bytes = 0;
    const auto made = checkmate::FrontierProgram::within(chain, 10);
    EXPECT_EQ(std::ssize(made.program().columns), checkmate::count_columns(chain));
  }
}

TEST(FrontierProgram, HasAsManyColumnsAsItSays) {
  for (const std::size_t stages : {1U, 2U, 5U}) {
    const Chain chain = equal_chain(stages);
    const auto made = checkmate::FrontierProgram::within(chain, 10);
    EXPECT_EQ(std::ssize(made.program().columns), checkmate::count_columns(chain));
    EXPECT_EQ(std::ssize(made.program().columns), 4 * static_cast<std::int64_t>(stages * (stages + 1)));
    EXPECT_TRUE(std::all_of(made.program().columns.begin(), made.program().columns.end(),
                            [](const LinearColumn& column) { return column.integer; }));
  }
}

}  // namespace
}  // namespace meshwright
