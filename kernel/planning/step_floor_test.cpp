#include "step_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace meshwright {
namespace {

// Groups of devices in a loop over positions; events as GPipe's, by chunks.
PipelineSchedule loop(const ScheduleShape& shape, bool parts) {
  PipelineSchedule schedule{shape, {}, {}};
  for (std::uint32_t stage = 0; stage < shape.stages; ++stage) {
    std::vector<PipelineEvent>& order = schedule.order.emplace_back();
    const auto add = [&](PipelineEventKind kind, std::uint32_t chunk) {
      for (std::uint32_t i = 0; i < shape.microbatches; ++i) order.push_back({kind, chunk, i});
    };
    for (std::uint32_t chunk = 0; chunk < shape.chunks; ++chunk) {
      schedule.positions.push_back(chunk * shape.stages + stage);
      add(PipelineEventKind::forward, chunk);
    }
    for (std::uint32_t chunk = shape.chunks; chunk-- > 0;) add(parts ? PipelineEventKind::input_gradient : PipelineEventKind::backward, chunk);
    for (std::uint32_t chunk = 0; parts && chunk < shape.chunks; ++chunk) add(PipelineEventKind::weight_gradient, chunk);
  }
  return schedule;
}

constexpr ScheduleShape kShapes[] = {{1, 1, 1}, {1, 1, 4}, {2, 1, 1}, {4, 1, 2}, {4, 1, 16}, {8, 1, 4}, {2, 2, 4}, {4, 2, 4}, {4, 3, 8}};

// Whatever the cut, the simulated schedule takes as long at least; each op a tick or more.
TEST(StepFloor, NoCutIsBelow) {
  std::mt19937 random(7);
  for (const ScheduleShape& shape : kShapes) {
    for (const bool parts : {false, true}) {
      const PipelineSchedule schedule = loop(shape, parts);
      for (int draw = 0; draw < 200; ++draw) {
        std::vector<LeastComputing> computing;
        std::vector<PositionTicks> ticks(shape.positions());
        std::vector<std::uint32_t> position_of(12);  // ascending
        for (std::uint32_t& position : position_of) position = static_cast<std::uint32_t>(random() % shape.positions());
        std::ranges::sort(position_of);
        for (std::size_t node = 0; node < position_of.size(); ++node) {
          const Ticks forward = 1 + random() % 1000, input = random() % 1000, weight = random() % 2000;
          computing.push_back({static_cast<double>(forward), static_cast<double>(forward + input + weight)});
          PositionTicks& here = ticks[position_of[node]];
          here.forward += forward;
          here.backward += input + weight;
          here.input_gradient += input;
          here.weight_gradient += weight;
        }
        const auto makespan = static_cast<double>(timeline(schedule, ticks).value().makespan);
        ASSERT_LE(least_step_seconds(computing, schedule), makespan * (1 + 1e-12)) << shape.stages << " " << shape.chunks << " " << shape.microbatches << " " << parts;
      }
    }
  }
}

// 1F1B whose first stage is as busy as the path through the second one is long: no other cut is shorter, and the floor is the step.
TEST(StepFloor, IsMetByTheBestCut) {
  using enum PipelineEventKind;
  const PipelineSchedule schedule{{2, 1, 2}, {0, 1}, {{{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}}, {{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}}}};
  const std::vector<LeastComputing> computing = {{100, 200}, {50, 100}};
  const std::vector<PositionTicks> ticks = {{100, 100, 0, 0}, {50, 50, 0, 0}};
  EXPECT_EQ(timeline(schedule, ticks).value().makespan, 400);
  EXPECT_NEAR(least_step_seconds(computing, schedule), 400, 1e-6);
}

// What can't be cut counts once for each microbatch, and all before it once.
TEST(StepFloor, KnowsThatAnOpIsNotCut) {
  const std::vector<LeastComputing> computing = {{1, 3}, {1, 3}, {100, 300}, {1, 3}};
  EXPECT_NEAR(least_step_seconds(computing, loop({4, 1, 8}, false)), 6 + 8 * 300, 1e-6);
  EXPECT_NEAR(least_step_seconds(computing, loop({4, 1, 8}, true)), 2 + 8 * 300, 1e-6);
}

// Where each position has devices of its own, which may be quick at one op and slow at another.
TEST(StepFloor, NoCutIsBelowWhereStagesHaveUnlikeDevices) {
  std::mt19937 random(11);
  for (const ScheduleShape& shape : {ScheduleShape{2, 1, 4}, ScheduleShape{3, 1, 2}, ScheduleShape{4, 1, 8}}) {
    for (const bool parts : {false, true}) {
      const PipelineSchedule schedule = loop(shape, parts);
      for (int draw = 0; draw < 200; ++draw) {
        std::vector<std::vector<LeastComputing>> computing(shape.positions());
        std::vector<PositionTicks> ticks(shape.positions());
        std::vector<std::uint32_t> position_of(9);  // ascending
        for (std::uint32_t& position : position_of) position = static_cast<std::uint32_t>(random() % shape.positions());
        std::ranges::sort(position_of);
        for (const std::uint32_t chosen : position_of) {
          for (std::uint32_t position = 0; position < shape.positions(); ++position) {
            const Ticks forward = 1 + random() % 1000, input = random() % 1000, weight = random() % 2000;
            computing[position].push_back({static_cast<double>(forward), static_cast<double>(forward + input + weight)});
            if (position != chosen) continue;
            PositionTicks& here = ticks[position];
            here.forward += forward;
            here.backward += input + weight;
            here.input_gradient += input;
            here.weight_gradient += weight;
          }
        }
        std::vector<const std::vector<LeastComputing>*> by_position;
        for (const std::vector<LeastComputing>& each : computing) by_position.push_back(&each);
        const auto makespan = static_cast<double>(timeline(schedule, ticks).value().makespan);
        ASSERT_LE(least_step_seconds(by_position, schedule), makespan * (1 + 1e-12)) << shape.stages << " " << shape.microbatches << " " << parts;
      }
    }
  }
}

TEST(StepFloor, OneStageDoesAllOfIt) {
  const std::vector<LeastComputing> computing = {{1, 3}, {2, 5}};
  EXPECT_DOUBLE_EQ(least_step_seconds(computing, 4), 32);
  EXPECT_DOUBLE_EQ(least_step_seconds(computing, loop({1, 1, 4}, false)), 32);
}

}  // namespace
}  // namespace meshwright
