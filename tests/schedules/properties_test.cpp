// What the papers say of each schedule, of every shape up to 16 stages, 16 chunks and 16 microbatches. That every event
// is there once, that dependencies are kept and that no stage waits for ever is checked by the kernel of every schedule
// that a maker gives (schedule.h), and here again by other means.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "meshwright/schedule.h"
#include "plugins/plugin_registry.h"

namespace meshwright {
namespace {

constexpr std::uint32_t kMost = 16;

class Schedules : public ::testing::Test {
 protected:
  static std::shared_ptr<ScheduleMaker> maker(const std::string& id) {
    static host::PluginRegistry registry = host::PluginRegistry::discover_in({PLUGIN_FOLDER}).value();
    const auto made = registry.create<ScheduleMaker>("schedules", id, Config{});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return *made;
  }

  static std::string text(const ScheduleShape& shape) {
    return std::to_string(shape.stages) + " stages, " + std::to_string(shape.chunks) + " chunks, " +
           std::to_string(shape.microbatches) + " microbatches";
  }

  // check(shape, schedule, timeline) for every shape that the schedule has: of `chunks`, or of every number up to
  // kMost.
  template <class Check>
  void for_every_shape(const std::string& id, std::uint32_t chunks, Check check) {
    const std::shared_ptr<ScheduleMaker> make = maker(id);
    for (std::uint32_t p = 1; p <= kMost; ++p) {
      for (std::uint32_t v = chunks > 0 ? chunks : 1; v <= (chunks > 0 ? chunks : kMost); ++v) {
        for (std::uint32_t m = 1; m <= kMost; ++m) {
          const ScheduleShape shape = {p, v, m};
          const Result<PipelineSchedule> schedule = make->make(shape);
          ASSERT_TRUE(schedule.ok()) << id << ", " << text(shape) << ": " << schedule.error().message;
          const Result<PipelineTimeline> found = timeline(*schedule, unit_ticks(shape));
          ASSERT_TRUE(found.ok()) << id << ", " << text(shape) << ": " << found.error().message;
          ASSERT_NO_FATAL_FAILURE(check_events(*schedule, *found)) << id << ", " << text(shape);
          ASSERT_NO_FATAL_FAILURE(check(shape, *schedule, *found)) << id << ", " << text(shape);
        }
      }
    }
  }

  // By the times alone: every event is there once, none begins before what it reads, and no stage runs two at once.
  static void check_events(const PipelineSchedule& schedule, const PipelineTimeline& found) {
    using enum PipelineEventKind;
    const ScheduleShape& shape = schedule.shape;
    const std::uint32_t last = shape.positions() - 1;
    struct Unit {
      int forwards = 0, backwards = 0, inputs = 0, weights = 0;
      Ticks forward_end = 0, gradient_end = 0, forward_start = 0, gradient_start = 0, weight_start = 0;
    };
    std::vector<std::vector<Unit>> units(shape.positions(), std::vector<Unit>(shape.microbatches));
    for (std::size_t stage = 0; stage < shape.stages; ++stage) {
      Ticks free = 0;
      for (std::size_t i = 0; i < schedule.order[stage].size(); ++i) {
        const PipelineEvent& event = schedule.order[stage][i];
        const PipelineTimeline::Span& span = found.spans[stage][i];
        ASSERT_GE(span.start, free);
        ASSERT_EQ(span.end - span.start, event.kind == backward ? 2 : 1);
        free = span.end;
        Unit& unit = units[schedule.position(stage, event.chunk)][event.microbatch];
        ++(event.kind == forward          ? unit.forwards
           : event.kind == backward       ? unit.backwards
           : event.kind == input_gradient ? unit.inputs
                                          : unit.weights);
        if (event.kind == weight_gradient) {
          unit.weight_start = span.start;
          continue;
        }
        (event.kind == forward ? unit.forward_start : unit.gradient_start) = span.start;
        (event.kind == forward ? unit.forward_end : unit.gradient_end) = span.end;
      }
    }
    for (std::uint32_t position = 0; position <= last; ++position) {
      for (std::uint32_t i = 0; i < shape.microbatches; ++i) {
        const Unit& unit = units[position][i];
        ASSERT_EQ(unit.forwards, 1);
        ASSERT_EQ(unit.backwards + unit.inputs, 1);
        ASSERT_EQ(unit.inputs, unit.weights);
        ASSERT_GE(unit.gradient_start, unit.forward_end);
        if (position > 0) {
          ASSERT_GE(unit.forward_start, units[position - 1][i].forward_end);
        }
        if (position < last) {
          ASSERT_GE(unit.gradient_start, units[position + 1][i].gradient_end);
        }
        if (unit.weights > 0) {
          ASSERT_GE(unit.weight_start, unit.gradient_end);
        }
      }
    }
  }

  // How much longer than the work of one stage it takes.
  static Ticks bubble(const ScheduleShape& shape, const PipelineTimeline& found) {
    return found.makespan - Ticks{3} * shape.chunks * shape.microbatches;
  }

  static std::uint32_t most(const PipelineTimeline& found) {
    return *std::max_element(found.in_flight.begin(), found.in_flight.end());
  }
};

// (p - 1) (F + B), and all microbatches are held.
TEST_F(Schedules, Gpipe) {
  for_every_shape("gpipe", 1,
                  [](const ScheduleShape& shape, const PipelineSchedule& schedule, const PipelineTimeline& found) {
                    EXPECT_EQ(bubble(shape, found), 3 * (shape.stages - 1));
                    EXPECT_EQ(found.in_flight, std::vector<std::uint32_t>(shape.stages, shape.microbatches));
                    EXPECT_TRUE(runs_with_room(schedule, 1).ok());
                  });
}

// The same bubble, and min(p - s, m) microbatches on stage s.
TEST_F(Schedules, OneFOneB) {
  for_every_shape("one_f_one_b", 1,
                  [](const ScheduleShape& shape, const PipelineSchedule& schedule, const PipelineTimeline& found) {
                    EXPECT_EQ(bubble(shape, found), 3 * (shape.stages - 1));
                    for (std::uint32_t stage = 0; stage < shape.stages; ++stage) {
                      EXPECT_EQ(found.in_flight[stage], std::min(shape.stages - stage, shape.microbatches));
                    }
                    EXPECT_TRUE(runs_with_room(schedule, 1).ok());
                  });
}

// The bubble of 1F1B, in pieces v times smaller. Megatron's warm-up: (v - 1) p + 2 (p - 1 - s) forwards, where p
// divides m, before backwards and forwards go by turns.
TEST_F(Schedules, Interleaved) {
  for_every_shape("interleaved", 0,
                  [](const ScheduleShape& shape, const PipelineSchedule& schedule, const PipelineTimeline& found) {
                    const std::uint32_t p = shape.stages, v = shape.chunks, m = shape.microbatches;
                    if (m >= p) {
                      EXPECT_EQ(bubble(shape, found), 3 * (p - 1));
                    }
                    if (v == 1) {
                      EXPECT_EQ(schedule, maker("one_f_one_b")->make(shape).value());
                    }
                    for (std::uint32_t stage = 0; stage < p && v > 1 && m % p == 0; ++stage) {
                      const std::uint32_t warm_up = std::min((v - 1) * p + 2 * (p - 1 - stage), v * m);
                      EXPECT_EQ(found.in_flight[stage], std::min(warm_up + 1, v * m));
                      for (std::uint32_t i = 0; i < warm_up; ++i)
                        EXPECT_EQ(schedule.order[stage][i].kind, PipelineEventKind::forward);
                      for (std::uint32_t i = warm_up; i < v * m; ++i) {
                        EXPECT_EQ(schedule.order[stage][warm_up + 2 * (i - warm_up)].kind, PipelineEventKind::forward);
                        EXPECT_EQ(schedule.order[stage][warm_up + 2 * (i - warm_up) + 1].kind,
                                  PipelineEventKind::backward);
                      }
                    }
                    EXPECT_TRUE(runs_with_room(schedule, m % p == 0 || m < p ? 1 : (m + p - 1) / p + 1).ok());
                  });
}

TEST_F(Schedules, LoopedBfs) {
  for_every_shape(
      "looped_bfs", 0, [](const ScheduleShape& shape, const PipelineSchedule& schedule, const PipelineTimeline& found) {
        if (shape.microbatches >= shape.stages) {
          EXPECT_EQ(bubble(shape, found), 3 * (shape.stages - 1));
        }
        EXPECT_EQ(found.in_flight, std::vector<std::uint32_t>(shape.stages, shape.chunks * shape.microbatches));
        if (shape.chunks == 1) {
          EXPECT_EQ(schedule, maker("gpipe")->make(shape).value());
        }
        EXPECT_TRUE(runs_with_room(schedule, (shape.microbatches + shape.stages - 1) / shape.stages).ok());
      });
}

// (p - 1) (F + I - W), a third of 1F1B's; and on no stage more than 1F1B's first one holds. With chunks the same bubble
// in smaller pieces, and no more than interleaved 1F1B.
TEST_F(Schedules, ZbH1) {
  const std::shared_ptr<ScheduleMaker> interleaved = maker("interleaved");
  for_every_shape(
      "zb_h1", 0, [&](const ScheduleShape& shape, const PipelineSchedule& schedule, const PipelineTimeline& found) {
        const PipelineTimeline whole = timeline(interleaved->make(shape).value(), unit_ticks(shape)).value();
        if (shape.microbatches >= shape.stages) {
          EXPECT_EQ(bubble(shape, found), shape.stages - 1);
          EXPECT_EQ(3 * bubble(shape, found), bubble(shape, whole));
        }
        EXPECT_LE(found.makespan, whole.makespan);
        EXPECT_LE(most(found), most(whole));
        if (shape.chunks == 1) {
          EXPECT_EQ(most(found), std::min(shape.stages, shape.microbatches));
        }
        EXPECT_TRUE(runs_with_room(schedule, shape.chunks == 1 ? 1 : shape.stages).ok());
      });
}

// No stage waits between its first and its last event, from 2 p - 1 microbatches on: p - 1 units are left at the ends.
// It holds 2 p chunks, which are p microbatches' worth.
TEST_F(Schedules, ZbV) {
  for_every_shape(
      "zb_v", 2, [](const ScheduleShape& shape, const PipelineSchedule& schedule, const PipelineTimeline& found) {
        EXPECT_LE(most(found), 2 * std::min(shape.stages, shape.microbatches));
        if (shape.microbatches >= 2 * shape.stages - 1) {
          EXPECT_EQ(bubble(shape, found), shape.stages - 1);
          for (std::size_t stage = 0; stage < shape.stages; ++stage) {
            EXPECT_EQ(found.spans[stage].back().end - found.spans[stage].front().start, found.busy[stage]) << stage;
          }
        }
        EXPECT_TRUE(runs_with_room(schedule, 1).ok());
      });
}

// The published bubble, of P = 2 p pieces, is (P / 2 - 1) (F&B + B - 3 W), where F&B is the time of a forward beside a
// backward: 2 (p - 1) units if they take as long as one after the other. Here each of the two starts as soon as it can,
// and p - 1 units are left. A stage holds P + 1 chunks.
TEST_F(Schedules, DualPipeV) {
  for_every_shape(
      "dualpipe_v", 2, [](const ScheduleShape& shape, const PipelineSchedule& schedule, const PipelineTimeline& found) {
        EXPECT_LE(most(found), std::min(2 * shape.stages + 1, 2 * shape.microbatches));
        if (shape.microbatches >= 2 * shape.stages) {
          EXPECT_EQ(bubble(shape, found), shape.stages - 1);
          EXPECT_EQ(found.in_flight,
                    std::vector<std::uint32_t>(shape.stages, std::min(2 * shape.stages + 1, 2 * shape.microbatches)));
        }
        EXPECT_TRUE(runs_with_room(schedule, 1).ok());
      });
}

// Of fewer microbatches than a pattern needs no schedule is longer than that of one more.
TEST_F(Schedules, FewerMicrobatchesTakeLess) {
  for (const std::string id : {"zb_v", "dualpipe_v", "zb_h1", "interleaved"}) {
    Ticks before = 0;
    for_every_shape(id, 2, [&](const ScheduleShape& shape, const PipelineSchedule&, const PipelineTimeline& found) {
      if (shape.microbatches > 1) {
        EXPECT_GT(found.makespan, before);
      }
      before = found.makespan;
    });
  }
}

TEST_F(Schedules, RefuseOtherChunks) {
  const std::map<std::string, std::uint32_t> chunks = {
      {"gpipe", 1}, {"one_f_one_b", 1}, {"zb_v", 2}, {"dualpipe_v", 2}};
  for (const auto& [id, usual] : chunks) {
    EXPECT_EQ(maker(id)->make({4, 0, 8})->shape.chunks, usual);
    for (const std::uint32_t other : {1U, 2U, 3U}) {
      if (other == usual) continue;
      const auto made = maker(id)->make({4, other, 8});
      ASSERT_FALSE(made.ok()) << id;
      EXPECT_EQ(made.error().code, ErrorCode::bad_input);
      EXPECT_EQ(made.error().message.find(id + " has " + std::to_string(usual) + " chunk"), 0U) << made.error().message;
    }
  }
  EXPECT_EQ(maker("interleaved")->make({4, 0, 8})->shape.chunks, 2);
  EXPECT_EQ(maker("looped_bfs")->make({4, 0, 8})->shape.chunks, 2);
  EXPECT_EQ(maker("zb_h1")->make({4, 0, 8})->shape.chunks, 1);
}

}  // namespace
}  // namespace meshwright
