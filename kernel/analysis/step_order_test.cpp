#include "meshwright/step_order.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

TrainingSettings settings(std::int64_t microbatches, std::string order = "") {
  TrainingSettings training;
  training.microbatches = microbatches;
  training.order = std::move(order);
  return training;
}

std::string text_of(std::int64_t microbatches, const std::string& order = "") { return to_string(step_order(settings(microbatches, order)).value()); }

// Forwards of all, then backwards of all; or so many ahead.
std::string ahead(std::int64_t microbatches, std::int64_t forwards) {
  std::string text;
  for (std::int64_t i = 0; i < microbatches + forwards; ++i) {
    if (i < microbatches) text += "F" + std::to_string(i) + " ";
    if (i >= forwards) text += "B" + std::to_string(i - forwards) + " ";
  }
  return text;
}

TEST(StepOrder, KeepsOnceWhatRepeats) {
  EXPECT_EQ(text_of(1), "F0 B0");
  EXPECT_EQ(text_of(2), "F0 B0 F1 B1");
  EXPECT_EQ(text_of(3), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(text_of(4), "F0 B0 (F1 B1) x2 F3 B3");
  EXPECT_EQ(text_of(64), "F0 B0 (F1 B1) x62 F63 B63");
  EXPECT_EQ(text_of(8, ahead(8, 1)), "F0 F1 B0 (F2 B1) x5 F7 B6 B7");
  EXPECT_EQ(text_of(8, ahead(8, 3)), "F0 (F1) x3 B0 (F4 B1) x3 F7 (B4) x3 B7");
  EXPECT_EQ(text_of(8, ahead(8, 8)), "F0 (F1) x6 F7 B0 (B1) x6 B7");
}

TEST(StepOrder, ListsTheEventsAsTheyWereWritten) {
  for (const std::int64_t forwards : {0, 1, 2, 5, 16}) {
    const StepOrder order = step_order(settings(16, ahead(16, forwards))).value();
    std::string text;
    for (const StepEvent& event : order.events()) {
      if (event.phase != Phase::update) text += (event.phase == Phase::forward ? "F" : "B") + std::to_string(event.microbatch) + " ";
    }
    EXPECT_EQ(text, ahead(16, forwards));
    EXPECT_EQ(order.events().back(), (StepEvent{Phase::update, 15}));
  }
}

// A second part is put off as far as the next backward's first one.
std::string in_parts(std::int64_t microbatches) {
  std::string text = "F0 F1 I0 ";
  for (std::int64_t i = 2; i < microbatches; ++i) text += "F" + std::to_string(i) + " I" + std::to_string(i - 1) + " W" + std::to_string(i - 2) + " ";
  return text + "I" + std::to_string(microbatches - 1) + " W" + std::to_string(microbatches - 2) + " W" + std::to_string(microbatches - 1);
}

TEST(StepOrder, HasBackwardsInTwoParts) {
  EXPECT_EQ(text_of(8, in_parts(8)), "F0 F1 I0 F2 I1 W0 (F3 I2 W1) x4 F7 I6 W5 I7 W6 W7");
  EXPECT_TRUE(step_order(settings(8, in_parts(8))).value().has_parts());
  EXPECT_FALSE(step_order(settings(8)).value().has_parts());
  // A microbatch is in flight until its second part is done.
  const StepOrder::Fullest most = step_order(settings(8, in_parts(8))).value().fullest(Phase::backward);
  EXPECT_EQ(most, (StepOrder::Fullest{3, true, true}));
  // Whole ones among them are both parts, one behind the other.
  EXPECT_EQ(text_of(3, "F0 B0 F1 I1 W1 F2 B2"), "F0 I0 W0 F1 I1 W1 F2 I2 W2");
  const ShortenedOrder few = shortened(step_order(settings(64, in_parts(64))).value());
  ASSERT_EQ(few.gaps.size(), 1U);
  EXPECT_EQ(few.gaps[0].period, 3U);
  EXPECT_EQ(few.events, step_order(settings(few.microbatches, in_parts(few.microbatches))).value().events());
  EXPECT_EQ(few.microbatch_at(few.events.size() - 1), 63);
}

TEST(StepOrder, KnowsWhereMostIsHeld) {
  using Fullest = StepOrder::Fullest;
  EXPECT_EQ(StepOrder{}.fullest(Phase::forward), (Fullest{1, false, false}));
  EXPECT_EQ(step_order(settings(2)).value().fullest(Phase::backward), (Fullest{1, true, false}));
  EXPECT_EQ(step_order(settings(64)).value().fullest(Phase::backward), (Fullest{1, true, true}));
  const StepOrder three = step_order(settings(8, ahead(8, 2))).value();
  EXPECT_EQ(three.fullest(Phase::forward), (Fullest{3, true, true}));
  EXPECT_EQ(three.fullest(Phase::backward), (Fullest{3, true, true}));
  const StepOrder all = step_order(settings(8, ahead(8, 8))).value();
  EXPECT_EQ(all.fullest(Phase::forward), (Fullest{8, false, false}));
  EXPECT_EQ(all.fullest(Phase::backward), (Fullest{8, false, true}));
}

TEST(StepOrder, OfManyMicrobatchesIsShortenedToTheSameEventsOfFewer) {
  for (const std::int64_t forwards : {0, 1, 2, 3}) {
    const ShortenedOrder few = shortened(step_order(settings(64, ahead(64, forwards))).value());
    EXPECT_EQ(few.events, step_order(settings(few.microbatches, ahead(few.microbatches, forwards))).value().events());
    ASSERT_EQ(few.gaps.size(), 1U);
    EXPECT_EQ(few.gaps[0].repetitions + few.microbatches, 64);
    EXPECT_EQ(few.microbatch_at(0), 0);
    EXPECT_EQ(few.microbatch_at(few.events.size() - 1), 63);
  }
  // More and more are in flight, then fewer and fewer.
  EXPECT_EQ(shortened(step_order(settings(64, ahead(64, 64))).value()).microbatches, 64);
  EXPECT_EQ(shortened(StepOrder{}).events, StepOrder{}.events());
}

std::string refusal(std::int64_t microbatches, const std::string& order) {
  const Result<StepOrder> made = parse_step_order(order, microbatches);
  return made ? "an order" : made.error().message;
}

TEST(StepOrder, RefusesWhatIsNone) {
  EXPECT_EQ(refusal(2, "F0 F1 B0 B1"), "an order");
  EXPECT_EQ(refusal(2, "F0 B0 F1"), "B1 is missing: there are 2 microbatches, from 0 on");
  EXPECT_EQ(refusal(2, ""), "F0 is missing: there are 2 microbatches, from 0 on");
  EXPECT_EQ(refusal(1, "F0 B0 F1"), "'F1' is one too many: there are 1 microbatches");
  EXPECT_EQ(refusal(2, "F0 F0 B0 B1"), "'F0' stands where F1 is due: microbatches go in their order");
  EXPECT_EQ(refusal(2, "F0 F1 B1 B0"), "'B1' stands where B0 is due: microbatches go in their order");
  EXPECT_EQ(refusal(2, "B0 F0"), "'B0' stands before F0");
  EXPECT_EQ(refusal(1, "F0 W0 I0"), "'W0' stands before I0");
  EXPECT_EQ(refusal(1, "F0 I0"), "W0 is missing: there are 1 microbatches, from 0 on");
  EXPECT_EQ(refusal(1, "F0 W0"), "'W0' is a second part of a backward, and there are no first ones");
  EXPECT_EQ(refusal(3, "F0 B0 F1 I1 F2 B2 W1"), "'W2' stands where W1 is due: microbatches go in their order");
  for (const char* word : {"G0", "F", "F-1x", "F0x", "f0", "F99999999999999999999"}) {
    EXPECT_EQ(refusal(2, word), "'" + std::string(word) + "' is neither the forward of a microbatch, like F0, nor its backward, like B0, nor a part of it, like I0 and W0");
  }
}

}  // namespace
}  // namespace meshwright
