// 1F1B (PipeDream-Flush, Narayanan et al. 2021, "Memory-efficient pipeline-parallel DNN training"): stage s begins
// with p - 1 - s forwards, goes on with a forward and a backward by turns, and ends with the backwards that are left.
// The bubble is GPipe's, but stage s holds min(p - s, m) microbatches.
#include <algorithm>

#include "meshwright/plugin.h"
#include "stage_order.h"

namespace meshwright {

namespace {

class OneFOneB final : public ScheduleMaker {
  Result<PipelineSchedule> do_make(const ScheduleShape& wanted) const override {
    const Result<ScheduleShape> shape =
        settle(wanted, "one_f_one_b", {.usual = 1, .instead = "interleaved has any number"});
    if (!shape) return shape.error();
    return make_schedule(*shape, loop_positions(*shape), [&](std::uint32_t stage, StageOrder& order) {
      const std::uint32_t warm_up = std::min(shape->stages - 1 - stage, shape->microbatches);
      for (std::uint32_t i = 0; i < warm_up; ++i) order.forward(0);
      for (std::uint32_t i = warm_up; i < shape->microbatches; ++i) {
        order.forward(0);
        order.backward(0);
      }
      for (std::uint32_t i = 0; i < warm_up; ++i) order.backward(0);
    });
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("schedules", "one_f_one_b", "0.1.0", "Apache-2.0",
                  "1F1B (PipeDream-Flush): forwards and backwards by turns", nullptr, nullptr, 0,
                  (create_plugin<ScheduleMaker, OneFOneB>), destroy_plugin<ScheduleMaker>)

}  // namespace meshwright
