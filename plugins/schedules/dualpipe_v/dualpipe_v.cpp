// DualPipeV (DeepSeek-AI 2024, "DeepSeek-V3 technical report", §3.2.1, and their repository DualPipe, which has the V
// shape): two chunks on each stage, down the stages and back, and a steady state in which each stage runs a forward of
// one chunk beside a backward of the other, so that the communication of the one hides behind the computing of the
// other. Here the two stand one behind the other. Only the backwards at the beginning and at the end are in two parts,
// where a weight gradient fills a wait. Stage s runs
//   1. 2 (p - s - 1) forwards of chunk 0,
//   2. s + 1 pairs of a forward of chunk 0 and one of chunk 1,
//   3. p - s - 1 triples of chunk 1: both parts of a backward, and a forward,
//   4. m - 2 p + s + 1 times a forward of chunk 0 with a backward of 1, and a forward of 1 with a backward of 0,
//   5. p - s - 1 times a backward of chunk 1, and a forward of 1 with a backward of 0,
//   6. s + 1 pairs of a backward of chunk 1 and one of 0, of the second half the input gradients alone,
//   7. p - s - 1 times a weight gradient that was left, and a backward of chunk 0, or its input gradient,
//   8. and the weight gradients that are left.
// A stage holds 2 p + 1 pairs of a chunk and a microbatch. The pattern needs 2 p microbatches; of fewer, it is the
// pattern without those that are not there.
#include <algorithm>

#include "meshwright/plugin.h"
#include "stage_order.h"

namespace meshwright {

namespace {

class DualPipeV final : public ScheduleMaker {
  Result<PipelineSchedule> do_make(const ScheduleShape& wanted) const override {
    const Result<ScheduleShape> shape = settle(wanted, "dualpipe_v", {.usual = 2, .instead = "zb_h1 has any number"});
    if (!shape) return shape.error();
    const std::uint32_t count = std::max(shape->microbatches, 2 * shape->stages);
    return make_schedule(*shape, v_positions(*shape), [&](std::uint32_t stage, StageOrder& order) {
      begin(shape->stages, stage, order);
      for (std::uint32_t i = 0; i < count - 2 * shape->stages + stage + 1; ++i) {
        order.forward(0);
        order.backward(1);
        order.forward(1);
        order.backward(0);
      }
      end(shape->stages, stage, order);
    });
  }

  // Steps 1 to 3.
  static void begin(std::uint32_t stages, std::uint32_t stage, StageOrder& order) {
    const std::uint32_t behind = stages - stage - 1;
    for (std::uint32_t i = 0; i < 2 * behind; ++i) order.forward(0);
    for (std::uint32_t i = 0; i < stage + 1; ++i) {
      order.forward(0);
      order.forward(1);
    }
    for (std::uint32_t i = 0; i < behind; ++i) {
      order.input_gradient(1);
      order.weight_gradient(1);
      order.forward(1);
    }
  }

  // Steps 5 to 8.
  static void end(std::uint32_t stages, std::uint32_t stage, StageOrder& order) {
    const std::uint32_t behind = stages - stage - 1;
    for (std::uint32_t i = 0; i < behind; ++i) {
      order.backward(1);
      order.forward(1);
      order.backward(0);
    }
    for (std::uint32_t i = 0; i < 2 * (stage + 1); ++i) {
      const std::uint32_t chunk = i % 2 == 0 ? 1 : 0;
      if (i < stage + 1)
        order.backward(chunk);
      else
        order.input_gradient(chunk);
    }
    for (std::uint32_t i = 0; i < behind; ++i) {
      order.oldest_weight_gradient();
      order.input_gradient(0);
    }
    for (std::uint32_t i = 0; i < stage + 1; ++i) order.oldest_weight_gradient();
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("schedules", "dualpipe_v", "0.1.0", "Apache-2.0",
                  "DeepSeek's DualPipeV: forwards beside backwards, two chunks down and back", nullptr, nullptr, 0,
                  (create_plugin<ScheduleMaker, DualPipeV>), destroy_plugin<ScheduleMaker>)

}  // namespace meshwright
