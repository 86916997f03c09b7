#include "stage_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace meshwright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StageTrial choice(std::uint32_t stages, const std::string& schedule, double floor) {
  StageTrial trial;
  trial.choice = {stages, schedule, 4};
  trial.floor_seconds = floor;
  return trial;
}

// Steps by the place in the list; 0: nothing fits. Which places were tried, in this order.
struct Tries {
  std::vector<double> steps;
  std::vector<std::size_t> tried = {};

  std::optional<std::size_t> run(std::vector<StageTrial>& trials) {
    const StageTrial* first = trials.data();
    return search_stage_grid(trials, [&](StageTrial& trial) -> Status {
             const auto at = static_cast<std::size_t>(&trial - first);
             tried.push_back(at);
             trial.state = steps[at] > 0 ? TrialState::planned : TrialState::unfit;
             trial.step_seconds = steps[at];
             trial.reason = steps[at] > 0 ? "" : "too large\nby far";
             return Done{};
           }).value();
  }
};

TEST(StageGrid, SkipsOnlyWhatCannotBeShorter) {
  std::vector<StageTrial> trials = {choice(2, "b", 9), choice(2, "a", 5), choice(4, "a", 6), choice(4, "b", 8), choice(2, "c", 7.5)};
  Tries tries{{10, 12, 8, 8, 7.9}};
  EXPECT_EQ(tries.run(trials), 4U);
  EXPECT_THAT(tries.tried, ElementsAre(1U, 2U, 4U));  // at 8 the best is 7.9
  EXPECT_EQ(trials[3].state, TrialState::skipped);
  EXPECT_EQ(shortest_of(trials), &trials[4]);
  EXPECT_EQ(least_floor(trials), 5);
}

TEST(StageGrid, TriesOneOfEachNumberOfStages) {
  std::vector<StageTrial> trials = {choice(1, "", 1), choice(2, "a", 20), choice(2, "b", 10), choice(4, "a", 30)};
  Tries tries{{2, 25, 15, 0}};
  EXPECT_EQ(tries.run(trials), 0U);
  EXPECT_THAT(tries.tried, ElementsAre(0U, 2U, 3U));
  const std::vector<const StageTrial*> best = best_by_stages(trials);
  EXPECT_THAT(best, ElementsAre(&trials[0], &trials[2], &trials[3]));
  EXPECT_EQ(chosen_note(trials, "trying"), "1 stage, 4 microbatches, chosen by trying, take 2000.000 ms. The best found of other numbers of stages: 2 stages by b, 4 microbatches take 15000.000 ms; "
                                 "4 stages by a, 4 microbatches: too large.");
}

TEST(StageGrid, AsksForNothingThatIsRefused) {
  std::vector<StageTrial> trials = {choice(2, "a", 0), choice(2, "b", 3)};
  trials[0].state = TrialState::refused;
  Tries tries{{0, 0}};
  EXPECT_EQ(tries.run(trials), std::nullopt);
  EXPECT_THAT(tries.tried, ElementsAre(1U));
  EXPECT_EQ(shortest_of(trials), nullptr);
  EXPECT_EQ(least_floor(trials), 3);  // nobody proved that nothing fits
  EXPECT_THAT(best_by_stages(trials), ElementsAre(&trials[1]));
  trials.pop_back();
  EXPECT_TRUE(std::isinf(least_floor(trials)));
}

TEST(StageGrid, AnErrorEndsIt) {
  std::vector<StageTrial> trials = {choice(2, "a", 1), choice(4, "a", 2)};
  int count = 0;
  const auto found = search_stage_grid(trials, [&](StageTrial&) -> Status {
    ++count;
    return plugin_failed("broken");
  });
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("broken"));
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace meshwright
