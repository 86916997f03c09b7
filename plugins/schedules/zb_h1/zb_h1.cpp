// ZB-H1 (Qi et al. 2023, "Zero bubble pipeline parallelism"): 1F1B whose backwards are in two parts. A stage runs the
// gradients of inputs as 1F1B runs backwards; stage s leaves the first s gradients of weights for later, so that every
// stage holds p microbatches, as many as the first one does in 1F1B, and fills its end with what is left. The bubble is
// (p - 1) (F + I - W): a third of 1F1B's where all parts take the same time.
//
// With several chunks a stage goes through them as in the interleaved schedule (microbatch_groups.h) and begins with
// (v - 1) g + p - 1 - s forwards, as PyTorch's ScheduleInterleavedZeroBubble does.
#include <algorithm>

#include "meshwright/plugin.h"
#include "microbatch_groups.h"
#include "stage_order.h"

namespace meshwright {

namespace {

class ZbH1 final : public ScheduleMaker {
  Result<PipelineSchedule> do_make(const ScheduleShape& wanted) const override {
    const Result<ScheduleShape> shape = settle(wanted, "zb_h1", {.usual = 1, .any = true});
    if (!shape) return shape.error();
    const MicrobatchGroups groups = microbatch_groups(*shape);
    const std::size_t count = groups.chunks.size();
    return make_schedule(*shape, loop_positions(*shape), [&](std::uint32_t stage, StageOrder& order) {
      const std::size_t warm_up = std::size_t{shape->chunks - 1} * groups.largest + (shape->stages - 1 - stage);
      const std::size_t ahead = std::min(warm_up, count);
      for (std::size_t i = 0; i < ahead; ++i) order.forward(groups.chunks[i]);
      for (std::size_t i = 0; i < count; ++i) {
        if (ahead + i < count) order.forward(groups.chunks[ahead + i]);
        order.input_gradient(shape->chunks - 1 - groups.chunks[i]);
        if (i >= stage) order.oldest_weight_gradient();
      }
      for (std::size_t i = 0; i < stage; ++i) order.oldest_weight_gradient();
    });
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("schedules", "zb_h1", "0.1.0", "Apache-2.0",
                  "Zero bubble H1: 1F1B whose weight gradients fill the end", nullptr, nullptr, 0,
                  (create_plugin<ScheduleMaker, ZbH1>), destroy_plugin<ScheduleMaker>)

}  // namespace meshwright
