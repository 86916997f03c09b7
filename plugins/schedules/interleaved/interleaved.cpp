// Interleaved 1F1B (Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters using
// Megatron-LM"): chunks lie in loops over the stages, so that a microbatch passes each stage v times in pieces that are
// v times smaller. Stage s begins with (v - 1) g + 2 (p - 1 - s) forwards, g microbatches a group
// (microbatch_groups.h), and goes on as 1F1B does. The bubble is that of 1F1B over v. With one chunk it is 1F1B, whose
// p - 1 - s forwards are enough.
#include <algorithm>

#include "meshwright/plugin.h"
#include "microbatch_groups.h"
#include "stage_order.h"

namespace meshwright {

namespace {

class Interleaved final : public ScheduleMaker {
  Result<PipelineSchedule> do_make(const ScheduleShape& wanted) const override {
    const Result<ScheduleShape> shape = settle(wanted, "interleaved", {.usual = 2, .any = true});
    if (!shape) return shape.error();
    const MicrobatchGroups groups = microbatch_groups(*shape);
    const std::size_t count = groups.chunks.size();
    return make_schedule(*shape, loop_positions(*shape), [&](std::uint32_t stage, StageOrder& order) {
      const std::size_t behind = shape->stages - 1 - stage;
      const std::size_t warm_up =
          shape->chunks == 1 ? behind : std::size_t{shape->chunks - 1} * groups.largest + 2 * behind;
      const std::size_t ahead = std::min(warm_up, count);
      for (std::size_t i = 0; i < ahead; ++i) order.forward(groups.chunks[i]);
      for (std::size_t i = 0; i < count; ++i) {
        if (ahead + i < count) order.forward(groups.chunks[ahead + i]);
        order.backward(shape->chunks - 1 - groups.chunks[i]);
      }
    });
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("schedules", "interleaved", "0.1.0", "Apache-2.0",
                  "Megatron's interleaved 1F1B: several chunks on each stage", nullptr, nullptr, 0,
                  (create_plugin<ScheduleMaker, Interleaved>), destroy_plugin<ScheduleMaker>)

}  // namespace meshwright
