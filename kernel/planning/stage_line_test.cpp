#include "stage_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace meshwright {
namespace {

// Units in kinds of three, and ways that take longer the less they hold.
struct DrawnLine {
  ModelUnits units;
  std::vector<std::vector<UnitCost>> ways;
};

DrawnLine draw(std::mt19937& random, std::size_t count) {
  const auto number = [&](int least, int most) { return static_cast<double>(std::uniform_int_distribution(least, most)(random)); };
  DrawnLine made;
  made.units.kinds = 3;
  for (std::uint32_t u = 0; u < count; ++u) made.units.units.push_back({u, u + 1, static_cast<std::uint32_t>(number(0, 2)), 0});
  for (int way = 0; way < 3; ++way) {
    std::vector<UnitCost>& kinds = made.ways.emplace_back();
    for (std::uint32_t kind = 0; kind < 3; ++kind) {
      UnitCost cost;
      cost.forward_seconds = number(1, 9) + way;
      cost.input_gradient_seconds = number(1, 9);
      cost.weight_gradient_seconds = number(1, 9);
      cost.update_seconds = number(0, 3);
      cost.resident_bytes = number(5, 9);
      cost.saved_bytes = 8 - 3 * way;
      cost.passing_bytes = number(0, 3);
      kinds.push_back(cost);
    }
  }
  return made;
}

StageLine line_of(const DrawnLine& drawn, std::int64_t microbatches) {
  StageLine line(drawn.units, microbatches);
  for (const std::vector<UnitCost>& way : drawn.ways) line.add_way(0, 1, way);
  return line;
}

// Each stage runs one forward and one backward by turns, as soon as it has begun as many as there are stages behind it.
PipelineSchedule alternating(std::uint32_t stages, std::uint32_t microbatches) {
  PipelineSchedule schedule{{stages, 1, microbatches}, {}, {}};
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    schedule.positions.push_back(stage);
    std::vector<PipelineEvent>& order = schedule.order.emplace_back();
    std::uint32_t forward = 0;
    for (std::uint32_t backward = 0; backward < microbatches; ++backward) {
      while (forward < microbatches && forward < backward + stages - stage) order.push_back({PipelineEventKind::forward, 0, forward++});
      order.push_back({PipelineEventKind::backward, 0, backward});
    }
  }
  return schedule;
}

// The same, but that gradients of weights are all made last.
PipelineSchedule with_weights_last(PipelineSchedule schedule) {
  for (std::vector<PipelineEvent>& order : schedule.order) {
    for (PipelineEvent& event : order) {
      if (event.kind == PipelineEventKind::backward) event.kind = PipelineEventKind::input_gradient;
    }
    for (std::uint32_t i = 0; i < schedule.shape.microbatches; ++i) order.push_back({PipelineEventKind::weight_gradient, 0, i});
  }
  return schedule;
}

// Two groups with a chunk on the way there and one on the way back, all forwards first.
PipelineSchedule there_and_back(std::uint32_t microbatches) {
  PipelineSchedule schedule{{2, 2, microbatches}, {0, 3, 1, 2}, {{}, {}}};
  for (std::vector<PipelineEvent>& order : schedule.order) {
    for (const std::uint32_t chunk : {0U, 1U}) {
      for (std::uint32_t i = 0; i < microbatches; ++i) order.push_back({PipelineEventKind::forward, chunk, i});
    }
    for (const std::uint32_t chunk : {1U, 0U}) {
      for (std::uint32_t i = 0; i < microbatches; ++i) order.push_back({PipelineEventKind::backward, chunk, i});
    }
  }
  return schedule;
}

// The least longest stage of all cuts; infinite where none fits.
double least_longest(const StageLine& line, const PipelineSchedule& schedule, double bytes) {
  const std::vector<PositionLoad> loads = loads_by_position(schedule);
  const double never = std::numeric_limits<double>::infinity();
  const std::function<double(std::size_t, std::size_t)> best = [&](std::size_t position, std::size_t from) {
    if (position == loads.size()) return from == line.size() ? 0.0 : never;
    double least = never;
    for (std::size_t to = from + 1; to <= line.size(); ++to) {
      const std::optional<StageCost> cost = line.stage(from, to, 1, loads[position], bytes);
      if (cost) least = std::min(least, std::max(cost->step_seconds(schedule.shape.microbatches), best(position + 1, to)));
    }
    return least;
  };
  return best(0, 0);
}

TEST(StageLine, CutsSoThatTheLongestStageIsShortest) {
  std::mt19937 random(7);
  int fitting = 0, unfit = 0;
  for (int i = 0; i < 60; ++i) {
    const DrawnLine drawn = draw(random, 8);
    const StageLine line = line_of(drawn, 6);
    const PipelineSchedule schedule = alternating(3, 6);
    const double bytes = static_cast<double>(std::uniform_int_distribution(22, 80)(random));
    const double least = least_longest(line, schedule, bytes);
    const std::optional<LineCut> cut = line.cut(schedule, {1, 1, 1}, bytes, 0);
    ASSERT_EQ(cut.has_value(), std::isfinite(least)) << i;
    ++(cut ? fitting : unfit);
    if (!cut) continue;
    double longest = 0;
    for (const StageCost& stage : cut->stages) {
      longest = std::max(longest, stage.step_seconds(6));
      EXPECT_LE(stage.bytes, bytes + 1e-9);
    }
    EXPECT_NEAR(longest, least, 1e-6 * least) << i;
    const LineCut moved = line.moved(*cut, schedule, bytes, 0);
    EXPECT_LE(moved.step_seconds, cut->step_seconds);
  }
  EXPECT_GT(fitting, 20);
  EXPECT_GT(unfit, 5);
}

// No unit that goes to a neighbour makes it shorter then, whatever was not drawn on the way.
TEST(StageLine, MovesUnitsUntilNoMoveIsShorter) {
  std::mt19937 random(11);
  const PipelineSchedule schedules[] = {alternating(3, 6), with_weights_last(alternating(3, 6)), there_and_back(6)};
  int shorter = 0;
  for (int i = 0; i < 60; ++i) {
    const PipelineSchedule& schedule = schedules[i % 3];
    const DrawnLine drawn = draw(random, 12);
    const StageLine line = line_of(drawn, 6);
    const std::optional<LineCut> cut = line.cut(schedule, std::vector<std::int64_t>(schedule.shape.positions(), 1), 400, 0.5);
    ASSERT_TRUE(cut) << i;
    const LineCut moved = line.moved(*cut, schedule, 400, 0.5);
    shorter += moved.step_seconds < cut->step_seconds ? 1 : 0;
    for (std::size_t border = 0; border + 1 < moved.shape.ends.size(); ++border) {
      for (const int by : {-1, 1}) {
        LineShape shape = moved.shape;
        shape.ends[border] += static_cast<std::size_t>(by);
        if (shape.ends[border] == (border == 0 ? 0 : shape.ends[border - 1]) || shape.ends[border] == shape.ends[border + 1]) continue;
        const std::optional<LineCut> other = line.estimate(schedule, shape, 400, 0.5);
        if (other) {
          EXPECT_GE(other->step_seconds, (1 - 1e-9) * moved.step_seconds) << i << " at " << border;
        }
      }
    }
  }
  EXPECT_GT(shorter, 10);
}

// A line on four devices, of which two may be one stage's; ways take shorter and hold less there.
StageLine line_on_four(const DrawnLine& drawn, std::int64_t microbatches) {
  StageLine line(drawn.units, microbatches);
  for (std::size_t way = 0; way < drawn.ways.size(); ++way) {
    line.add_way(way, 1, drawn.ways[way]);
    std::vector<UnitCost> of_two;
    for (std::size_t kind = 0; kind < drawn.ways[way].size(); ++kind) of_two.push_back(drawn.ways[way][kind] * (kind == 0 ? 0.5 : 0.75));
    line.add_way(way, 2, of_two);
  }
  return line;
}
constexpr DeviceRange kRangesOfFour[] = {{0, 1}, {0, 2}, {1, 1}, {2, 1}, {2, 2}, {3, 1}};

// The least longest stage of all cuts and devices.
double least_longest_freely(const StageLine& line, const PipelineSchedule& schedule, double bytes) {
  const std::vector<PositionLoad> loads = loads_by_position(schedule);
  const double never = std::numeric_limits<double>::infinity();
  const std::function<double(std::size_t, std::size_t, std::int64_t)> best = [&](std::size_t position, std::size_t from, std::int64_t device) {
    if (position == loads.size()) return from == line.size() && device == 4 ? 0.0 : never;
    double least = never;
    for (const DeviceRange& range : kRangesOfFour) {
      if (range.first != device) continue;
      for (std::size_t to = from + 1; to <= line.size(); ++to) {
        const std::optional<StageCost> cost = line.stage(from, to, range.count, loads[position], bytes);
        if (cost) least = std::min(least, std::max(cost->step_seconds(schedule.shape.microbatches), best(position + 1, to, device + range.count)));
      }
    }
    return least;
  };
  return best(0, 0, 0);
}

TEST(StageLine, ChoosesTheDevicesOfEachStageSoThatTheLongestIsShortest) {
  std::mt19937 random(7);
  int fitting = 0, unfit = 0;
  for (int i = 0; i < 60; ++i) {
    const DrawnLine drawn = draw(random, 7);
    const StageLine line = line_on_four(drawn, 6);
    const PipelineSchedule schedule = alternating(3, 6);
    const double bytes = static_cast<double>(std::uniform_int_distribution(12, 70)(random));
    const double least = least_longest_freely(line, schedule, bytes);
    const std::optional<LineShape> shape = line.cut_freely(schedule, kRangesOfFour, 4, bytes, std::numeric_limits<double>::infinity());
    ASSERT_EQ(shape.has_value(), std::isfinite(least)) << i;
    ++(shape ? fitting : unfit);
    if (!shape) continue;
    const std::optional<LineCut> cut = line.estimate(schedule, *shape, bytes, 0);
    ASSERT_TRUE(cut) << i;
    double longest = 0;
    std::int64_t devices = 0;
    for (std::size_t position = 0; position < 3; ++position) {
      longest = std::max(longest, cut->stages[position].step_seconds(6));
      devices += shape->devices[position];
    }
    EXPECT_EQ(devices, 4);
    EXPECT_EQ(shape->ends.back(), line.size());
    EXPECT_NEAR(longest, least, 1e-5 * least) << i;
    EXPECT_FALSE(line.cut_freely(schedule, kRangesOfFour, 4, bytes, 0.999 * least)) << i;
  }
  EXPECT_GT(fitting, 20);
  EXPECT_GT(unfit, 5);
}

// Equal ones, with a fast way on mesh 0 and one that holds less.
struct FourUnits {
  ModelUnits units;
  FourUnits() {
    units.kinds = 1;
    for (std::uint32_t u = 0; u < 4; ++u) units.units.push_back({u, u + 1, 0, 0});
  }
  [[nodiscard]] StageLine line(std::size_t mesh_of_smaller) const {
    UnitCost fast, small;
    fast.forward_seconds = 1, fast.saved_bytes = 10;
    small.forward_seconds = 2, small.saved_bytes = 4;
    StageLine made(units, 1);
    made.add_way(0, 1, {fast});
    made.add_way(mesh_of_smaller, 1, {small});
    return made;
  }
};

// Between two ways that fit and do not, part of the stage goes the faster one, up to the last byte.
TEST(StageLine, MixesWaysWhereMemoryBinds) {
  const FourUnits four;
  const StageLine line = four.line(0);
  const std::optional<StageCost> cost = line.stage(0, 4, 1, {2}, 56);  // 80 bytes the one way, 32 the other
  ASSERT_TRUE(cost);
  EXPECT_DOUBLE_EQ(cost->part, 0.5);
  EXPECT_DOUBLE_EQ(cost->forward_seconds, 6);
  EXPECT_DOUBLE_EQ(cost->bytes, 56);
  EXPECT_DOUBLE_EQ(cost->price, 4.0 / 48);
  EXPECT_FALSE(line.stage(0, 4, 1, {2}, 31));
  EXPECT_DOUBLE_EQ(line.stage(0, 4, 1, {2}, 80)->forward_seconds, 4);
}

// A faster way of another mesh is not mixed with it; it has a price all the same.
TEST(StageLine, AsksForLessOfAFasterMesh) {
  const FourUnits four;
  const StageLine line = four.line(1);
  const std::optional<StageCost> cost = line.stage(0, 4, 1, {2}, 56);  // 80 bytes the one way, 32 the other
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->mesh, 1U);
  EXPECT_DOUBLE_EQ(cost->forward_seconds, 8);
  EXPECT_DOUBLE_EQ(cost->price, 4.0 / 24);
  EXPECT_EQ(line.stage(0, 4, 1, {2}, 80)->price, 0);
}

TEST(StageLine, WaitsForCommunicationThatTakesLonger) {
  DrawnLine drawn;
  drawn.units.kinds = 1;
  drawn.units.units.push_back({0, 1, 0, 0});
  UnitCost cost;
  cost.forward_seconds = 1, cost.input_gradient_seconds = 1, cost.weight_gradient_seconds = 1, cost.update_seconds = 1;
  cost.forward_beside_seconds = 3, cost.backward_beside_seconds = 5, cost.last_beside_seconds = 9;
  drawn.ways = {{cost}};
  const std::optional<StageCost> stage = line_of(drawn, 2).stage(0, 1, 1, {1}, 100);
  ASSERT_TRUE(stage);
  EXPECT_DOUBLE_EQ(stage->forward_seconds, 3);
  EXPECT_DOUBLE_EQ(stage->backward_seconds(), 5);
  EXPECT_DOUBLE_EQ(stage->update_seconds, 1 + 4);
}

// Each part of a backward waits for what travels in it; what nobody waits for may all be done last.
TEST(StageLine, WaitsInEachPartOfABackward) {
  DrawnLine drawn;
  drawn.units.kinds = 1;
  drawn.units.units = {{0, 1, 0, 0}, {1, 2, 0, 0}};
  UnitCost cost;
  cost.forward_seconds = 1, cost.input_gradient_seconds = 3, cost.weight_gradient_seconds = 1, cost.backward_beside_seconds = 4, cost.weight_beside_seconds = 3, cost.last_beside_seconds = 4;
  drawn.ways = {{cost}};
  const StageLine line = line_of(drawn, 2);
  const auto expect = [&](std::size_t from, bool in_parts, double input, double weight, double update) {
    const std::optional<StageCost> stage = line.stage(from, from + 1, 1, {1, in_parts}, 100);
    ASSERT_TRUE(stage);
    EXPECT_DOUBLE_EQ(stage->input_gradient_seconds, input) << from << in_parts;
    EXPECT_DOUBLE_EQ(stage->weight_gradient_seconds, weight) << from << in_parts;
    EXPECT_DOUBLE_EQ(stage->update_seconds, update) << from << in_parts;
  };
  expect(1, false, 3, 1, 0);
  expect(1, true, 3, 3, 0);
  expect(0, true, 0, 4, 0);
}

TEST(StageLine, PricesTheBestWayOfAMesh) {
  std::mt19937 random(5);
  for (int i = 0; i < 20; ++i) {
    const DrawnLine drawn = draw(random, 6);
    StageLine line(drawn.units, 3);
    for (std::size_t way = 0; way < drawn.ways.size(); ++way) line.add_way(way % 2, 1, drawn.ways[way]);
    for (const double price : {0.0, 0.5, 20.0}) {
      for (const double in_flight : {1.0, 2.0}) {
        double least = std::numeric_limits<double>::infinity();
        for (const std::size_t way : {0U, 2U}) {
          StageLine alone(drawn.units, 3);
          alone.add_way(0, 1, drawn.ways[way]);
          const StageCost cost = alone.stage(0, 6, 1, {in_flight, false}, std::numeric_limits<double>::infinity()).value();
          least = std::min(least, cost.step_seconds(3) + price * cost.bytes);
        }
        EXPECT_DOUBLE_EQ(line.priced_seconds(0, price, in_flight), least);
      }
    }
  }
  EXPECT_EQ(line_of(draw(random, 3), 1).priced_seconds(7, 1, 1), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace meshwright
