// ZB-V (Qi et al. 2023, "Zero bubble pipeline parallelism", §6): two chunks on each stage, down the stages and back (a
// V), with backwards in two parts. Stage s
//   1. runs 2 (p - s) - 1 forwards of chunk 0, so that the first microbatch is back when they end,
//   2. s pairs of a forward of chunk 1 and one of chunk 0,
//   3. p - s triples of chunk 1: a forward and both parts of a backward,
//   4. while there are forwards, such triples of chunk 0 and of chunk 1 by turns,
//   5. s pairs of the input gradients of chunks 0 and 1, p - s pairs of both parts of chunk 0,
//   6. and the weight gradients that are left.
// Where a forward and both parts take the same time, no stage waits between its first and its last event, and a
// stage holds at most 2 p pairs of a chunk and a microbatch, as much as 1F1B's first stage with chunks twice as large.
// The pattern needs 2 p - 1 microbatches; of fewer, it is the pattern without those that are not there.
#include <algorithm>

#include "meshwright/plugin.h"
#include "stage_order.h"

namespace meshwright {

namespace {

class ZbV final : public ScheduleMaker {
  Result<PipelineSchedule> do_make(const ScheduleShape& wanted) const override {
    const Result<ScheduleShape> shape = settle(wanted, "zb_v", {.usual = 2, .instead = "zb_h1 has any number"});
    if (!shape) return shape.error();
    const std::uint32_t count = std::max(shape->microbatches, 2 * shape->stages - 1);
    return make_schedule(*shape, v_positions(*shape), [&](std::uint32_t stage, StageOrder& order) {
      const std::uint32_t behind = shape->stages - stage;  // this stage and those behind it
      for (std::uint32_t i = 0; i < 2 * behind - 1; ++i) order.forward(0);
      for (std::uint32_t i = 0; i < stage; ++i) {
        order.forward(1);
        order.forward(0);
      }
      for (std::uint32_t i = 0; i < behind; ++i) forward_and_backward(order, 1, count);
      while (order.forwards(1) < count) {
        forward_and_backward(order, 0, count);
        forward_and_backward(order, 1, count);
      }
      for (std::uint32_t i = 0; i < stage; ++i) {
        order.input_gradient(0);
        order.input_gradient(1);
      }
      for (std::uint32_t i = 0; i < behind; ++i) {
        order.input_gradient(0);
        order.weight_gradient(0);
      }
      for (std::uint32_t i = 0; i < stage; ++i) order.weight_gradient(1);
      for (std::uint32_t i = 0; i < stage; ++i) order.weight_gradient(0);
    });
  }

  // The forward only if one is left of `count`.
  static void forward_and_backward(StageOrder& order, std::uint32_t chunk, std::uint32_t count) {
    if (order.forwards(chunk) < count) order.forward(chunk);
    order.input_gradient(chunk);
    order.weight_gradient(chunk);
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("schedules", "zb_v", "0.1.0", "Apache-2.0", "Zero bubble V: two chunks on each stage, down and back",
                  nullptr, nullptr, 0, (create_plugin<ScheduleMaker, ZbV>), destroy_plugin<ScheduleMaker>)

}  // namespace meshwright
