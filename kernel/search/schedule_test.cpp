#include "meshwright/schedule.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

namespace meshwright {
namespace {

using enum PipelineEventKind;

// Two stages of one chunk, two microbatches: 1F1B, of which the last backward is in two parts.
PipelineSchedule small_schedule() {
  return {{2, 1, 2},
          {0, 1},
          {{{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}},
           {{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {input_gradient, 0, 1}, {weight_gradient, 0, 1}}}};
}

std::string refusal(const std::function<void(PipelineSchedule&)>& spoil) {
  PipelineSchedule schedule = small_schedule();
  spoil(schedule);
  const Status status = validate(schedule);
  EXPECT_EQ(timeline(schedule, unit_ticks(schedule.shape)).ok(), status.ok());
  if (status) return "";
  EXPECT_EQ(status.error().code, ErrorCode::bad_input);
  return status.error().message;
}

class ScriptedMaker final : public ScheduleMaker {
 public:
  using Script = std::function<Result<PipelineSchedule>(const ScheduleShape&)>;
  explicit ScriptedMaker(Script script) : script_(std::move(script)) {}

 private:
  Result<PipelineSchedule> do_make(const ScheduleShape& wanted) const override { return script_(wanted); }
  Script script_;
};

TEST(Schedule, TakesTheTimeOfItsEvents) {
  const auto found = timeline(small_schedule(), unit_ticks({2, 1, 2}));
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->makespan, 8);
  EXPECT_EQ(found->in_flight, (std::vector<std::uint32_t>{2, 1}));
  EXPECT_EQ(found->busy, (std::vector<Ticks>{6, 6}));
  EXPECT_DOUBLE_EQ(found->bubble_fraction(), 0.25);
  const std::vector<Ticks> starts = {0, 1, 4, 6}, ends = {1, 2, 6, 8};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(found->spans[0][i].start, starts[i]);
    EXPECT_EQ(found->spans[0][i].end, ends[i]);
  }
  EXPECT_EQ(found->spans[1][3].start, 5);  // the input gradient, for which stage 0's last backward waits
}

TEST(Schedule, TakesEachPositionsOwnTime) {
  const std::vector<PositionTicks> ticks = {{10, 20, 0, 0}, {100, 200, 1000, 5000}};
  const auto found = timeline(small_schedule(), ticks);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->busy, (std::vector<Ticks>{60, 6400}));
  EXPECT_EQ(found->spans[0].back().start, 10 + 100 + 200 + 100 + 1000);
  EXPECT_EQ(found->makespan, 10 + 6400);
  EXPECT_EQ(timeline(small_schedule(), std::vector<PositionTicks>(2))->makespan, 0);
  EXPECT_EQ(timeline(small_schedule(), std::vector<PositionTicks>(2))->bubble_fraction(), 0);
}

TEST(Schedule, RefusesTicksThatMakeNoSense) {
  const auto message = [](const std::vector<PositionTicks>& ticks) {
    const auto found = timeline(small_schedule(), ticks);
    return found ? std::string() : found.error().message;
  };
  EXPECT_EQ(message({{}}), "a schedule of 2 positions can't be timed by those of 1");
  EXPECT_EQ(message({{}, {0, 0, -1, 0}}), "the ticks of position 1 are negative");
  EXPECT_EQ(message({{}, {Ticks{1} << 60, 0, 0, 0}}), "the ticks of all events add up to 2^61 or more");
  EXPECT_EQ(message({{}, {(Ticks{1} << 60) - 1, 0, 0, 0}}), "");
}

TEST(Schedule, RefusesWhatCantRun) {
  using S = PipelineSchedule;
  EXPECT_EQ(refusal([](S&) {}), "");
  EXPECT_EQ(refusal([](S& s) { s.shape.stages = 0; }), "a schedule needs at least 1 of its stages");
  EXPECT_EQ(refusal([](S& s) { s.shape.microbatches = 5000; }),
            "a schedule of 5000 microbatches is too large; at most 4096 are possible");
  EXPECT_EQ(refusal([](S& s) {
              s.positions = {0, 0};
            }),
            "position 0 is not on exactly one stage; there are those from 0 to 1");
  EXPECT_EQ(refusal([](S& s) { s.order.pop_back(); }),
            "the schedule has 2 positions and orders of 1 stages; its shape says 2 and 2");
  EXPECT_EQ(refusal([](S& s) { s.order[1][0].chunk = 1; }),
            "stage 1, event 0 is of chunk 1 and microbatch 0; the schedule has 1 and 2");
  EXPECT_EQ(refusal([](S& s) { s.order[0][1].microbatch = 0; }), "stage 0, event 1 (0F0) comes twice");
  EXPECT_EQ(refusal([](S& s) { std::swap(s.order[1][0], s.order[1][1]); }),
            "stage 1, event 0 (1B0) comes before its forward");
  EXPECT_EQ(refusal([](S& s) { std::swap(s.order[1][3], s.order[1][4]); }),
            "stage 1, event 3 (1W1) comes before its input gradient");
  EXPECT_EQ(refusal([](S& s) {
              s.order[1].push_back({backward, 0, 1});
            }),
            "stage 1, event 5 (1B1) is a second backward; it is one event, or two parts");
  EXPECT_EQ(refusal([](S& s) {
              s.order[1].push_back({input_gradient, 0, 0});
            }),
            "stage 1, event 5 (1I0) is a second backward; it is one event, or two parts");
  EXPECT_EQ(refusal([](S& s) { s.order[1].pop_back(); }), "position 1 has no weight gradient of microbatch 1");
  EXPECT_EQ(refusal([](S& s) { s.order[0].pop_back(); }), "position 0 has no backward of microbatch 1");
  EXPECT_EQ(refusal([](S& s) { s.order[1] = {}; }), "position 1 has no forward of microbatch 0");
}

TEST(Schedule, NamesTheCircleOfADeadlock) {
  EXPECT_EQ(refusal([](PipelineSchedule& s) { std::swap(s.order[0][1], s.order[0][2]); }),
            "");  // slower, and no circle
  EXPECT_EQ(
      refusal([](PipelineSchedule& s) {
        std::swap(s.order[0][1], s.order[0][2]);
        std::swap(s.order[1][1], s.order[1][2]);
      }),
      "the stages wait for each other: stage 0 waits at its event 1 (0B0) for the gradient of microbatch 0 on stage 1, "
      "which waits at its event 1 (1F1) for the output of microbatch 1 on stage 0");
}

// Stage 1 runs the microbatches the other way round, so that both outputs of stage 0 wait for it.
TEST(Schedule, NeedsRoom) {
  EXPECT_TRUE(runs_with_room(small_schedule(), 1).ok());
  EXPECT_EQ(runs_with_room(small_schedule(), 0).error().message,
            "a pipeline needs room for at least 1 value between two stages");
  PipelineSchedule crossed = small_schedule();
  crossed.order[1] = {{forward, 0, 1}, {backward, 0, 1}, {forward, 0, 0}, {backward, 0, 0}};
  std::swap(crossed.order[0][2], crossed.order[0][3]);
  EXPECT_TRUE(runs_with_room(crossed, 2).ok());
  EXPECT_EQ(
      runs_with_room(crossed, 1).error().message,
      "the stages wait for each other: stage 0 waits at its event 1 (0F1) for room for the output of microbatch 1 on "
      "stage 1, which waits at its event 0 (1F1) for the output of microbatch 1 on stage 0");
}

TEST(Schedule, MakersKeepTheirWord) {
  const auto made = [](const ScheduleShape& wanted, const ScriptedMaker::Script& script) {
    return ScriptedMaker(script).make(wanted);
  };
  const auto small = [](const ScheduleShape&) { return small_schedule(); };
  EXPECT_EQ(made({2, 1, 2}, small).value(), small_schedule());
  EXPECT_EQ(made({}, small).value(), small_schedule());
  EXPECT_EQ(made({2, 1, 3}, small).error().message, "the maker of schedules was asked for 3 microbatches, and gave 2");
  EXPECT_EQ(made({2, 1, 3}, small).error().code, ErrorCode::plugin_failed);
  const auto broken = made({}, [](const ScheduleShape&) {
    PipelineSchedule schedule = small_schedule();
    schedule.order[0].pop_back();
    return schedule;
  });
  EXPECT_EQ(broken.error().code, ErrorCode::plugin_failed);
  EXPECT_EQ(broken.error().message,
            "the maker of schedules gave one that can't run: position 0 has no backward of microbatch 1");
  const auto thrown =
      made({}, [](const ScheduleShape&) -> Result<PipelineSchedule> { throw std::runtime_error("no"); });
  EXPECT_EQ(thrown.error().message, "the maker of schedules threw an exception: no");
  EXPECT_EQ(made({2, 1, 2}, [](const ScheduleShape&) { return bad_input("not mine"); }).error().code,
            ErrorCode::bad_input);
}

TEST(Schedule, BoundsSizesBeforeItAsks) {
  bool asked = false;
  const ScriptedMaker maker([&](const ScheduleShape&) {
    asked = true;
    return small_schedule();
  });
  EXPECT_EQ(maker.make({1'000'000'000, 1, 1}).error().message,
            "a schedule of 1000000000 stages is too large; at most 4096 are possible");
  EXPECT_EQ(
      maker.make({4096, 1024, 4096}).error().message,
      "a schedule of 17179869184 forwards (stages times chunks times microbatches) is too large; at most 1048576 are "
      "possible");
  EXPECT_FALSE(asked);
}

}  // namespace
}  // namespace meshwright
