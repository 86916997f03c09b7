#include <gtest/gtest.h>

#include "meshwright/checkpoint.h"

namespace meshwright {
namespace {

using enum ChainOperationKind;

// Two stages; every size and every time can be told from the others by its digits.
Chain two_stages() {
  Chain chain;
  chain.stages = {{.forward_ticks = 1,
                   .backward_ticks = 20,
                   .forward_communication_ticks = 300,
                   .backward_communication_ticks = 4000,
                   .input_bytes = 1,
                   .input_gradient_bytes = 2,
                   .saved_bytes = 40,
                   .forward_overhead_bytes = 100,
                   .backward_overhead_bytes = 200},
                  {.forward_ticks = 5,
                   .backward_ticks = 60,
                   .forward_communication_ticks = 700,
                   .backward_communication_ticks = 8000,
                   .input_bytes = 10,
                   .input_gradient_bytes = 20,
                   .saved_bytes = 30,
                   .forward_overhead_bytes = 400,
                   .backward_overhead_bytes = 800}};
  return chain;
}

TEST(Replay, AddsUpWhatIsHeld) {
  const Chain chain = two_stages();
  const auto everything = replay(chain, keep_everything(chain));
  ASSERT_TRUE(everything.ok()) << everything.error().message;
  EXPECT_TRUE(everything->ticks == 321 + 4000 + 5 + 60 + 700 + 8000);
  EXPECT_TRUE(everything->ticks == ticks_without_recomputing(chain));
  // The second backward: the input, what both stages saved, the gradient that is made, the overhead.
  EXPECT_EQ(everything->peak_bytes, 1 + 40 + 30 + 20 + 800);
  EXPECT_EQ(everything->peak_operation, 2U);
}

TEST(Replay, AForwardThatRunsAgainPaysForItsCommunicationAgain) {
  const Chain chain = two_stages();
  const ChainSchedule schedule = {
      {forward_keep_input, 0}, {forward_keep_all, 1}, {backward, 1}, {forward_keep_all, 0}, {backward, 0}};
  const auto found = replay(chain, schedule);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(found->ticks == ticks_without_recomputing(chain) + 301);
  EXPECT_EQ(found->peak_bytes, 1 + 10 + 30 + 20 + 800);
}

TEST(Replay, HoldsAValueOnceBehindTheOperationThatSavedIt) {
  Chain chain = two_stages();
  chain.stages[1].backward_overhead_bytes = 0;
  chain.stages[1].forward_overhead_bytes = 0;
  chain.stages[0].forward_overhead_bytes = 0;
  // While stage 0 runs again its output is held already: 1 + 10 + 40.
  const ChainSchedule twice = {{forward_keep_input, 0}, {forward_keep_all, 0}, {drop_saved, 0}, {forward_keep_all, 0},
                               {forward_keep_all, 1},   {backward, 1},         {backward, 0}};
  const auto found = replay(chain, twice);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->peak_bytes, 40 + 20 + 2 + 200 + 1);  // the last backward
  const ChainSchedule begin(twice.begin(), twice.begin() + 2);
  EXPECT_EQ(replay(chain, begin).error().message, "the schedule ends before the backward of stage 1");
}

TEST(Replay, RefusesByName) {
  struct Case {
    ChainSchedule schedule;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{}, "the schedule ends before the backward of stage 1"},
      {{{forward_keep_all, 2}}, "operation 0 of the schedule, forward_keep_all of stage 2: the chain has 2 stages"},
      {{{forward_keep_all, 1}},
       "operation 0 of the schedule, forward_keep_all of stage 1: the stage's input is not held"},
      {{{forward_keep_nothing, 0}, {forward_keep_all, 0}},
       "operation 1 of the schedule, forward_keep_all of stage 0: the stage's input is not held"},
      {{{forward_keep_input, 0}, {forward_keep_input, 0}},
       "operation 1 of the schedule, forward_keep_input of stage 0: what it makes is held"},
      {{{forward_keep_all, 0}, {forward_keep_all, 0}},
       "operation 1 of the schedule, forward_keep_all of stage 0: what it makes is held"},
      {{{forward_keep_all, 0}, {forward_keep_nothing, 1}},
       "operation 1 of the schedule, forward_keep_nothing of stage 1: the stage's input is part of what stage 0 saved, "
       "and can't be let go alone"},
      {{{forward_keep_all, 0}, {backward, 0}},
       "operation 1 of the schedule, backward of stage 0: the next backward is that of stage 1"},
      {{{forward_keep_all, 0}, {backward, 1}},
       "operation 1 of the schedule, backward of stage 1: what the stage saves is not held"},
      {{{forward_keep_input, 0}, {forward_keep_all, 1}, {drop_input, 1}, {backward, 1}},
       "operation 3 of the schedule, backward of stage 1: the stage's input is not held"},
      {{{forward_keep_all, 0}, {forward_keep_all, 1}, {backward, 1}, {forward_keep_all, 1}},
       "operation 3 of the schedule, forward_keep_all of stage 1: the stage's backward has run"},
      {{{forward_keep_all, 0}, {forward_keep_all, 1}, {backward, 1}, {backward, 0}, {backward, 0}},
       "operation 4 of the schedule, backward of stage 0: all backwards have run"},
      {{{drop_saved, 0}}, "operation 0 of the schedule, drop_saved of stage 0: what the stage saves is not held"},
      {{{forward_keep_all, 0}, {drop_input, 1}},
       "operation 1 of the schedule, drop_input of stage 1: the stage's input is not held by itself"},
  };
  for (const Case& each : cases) {
    const auto found = replay(two_stages(), each.schedule);
    ASSERT_FALSE(found.ok()) << each.message;
    EXPECT_EQ(found.error().message, each.message);
    EXPECT_EQ(found.error().code, ErrorCode::bad_input);
  }
}

}  // namespace
}  // namespace meshwright
