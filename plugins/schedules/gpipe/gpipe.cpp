// GPipe (Huang et al. 2019): all forwards, then all backwards. The bubble is (p - 1) (F + B), whatever the number of
// microbatches m, and a stage holds what all m of them keep.
#include "meshwright/plugin.h"
#include "stage_order.h"

namespace meshwright {

namespace {

class Gpipe final : public ScheduleMaker {
  Result<PipelineSchedule> do_make(const ScheduleShape& wanted) const override {
    const Result<ScheduleShape> shape = settle(wanted, "gpipe", {.usual = 1, .instead = "looped_bfs has any number"});
    if (!shape) return shape.error();
    return make_schedule(*shape, loop_positions(*shape), [&](std::uint32_t, StageOrder& order) {
      for (std::uint32_t i = 0; i < shape->microbatches; ++i) order.forward(0);
      for (std::uint32_t i = 0; i < shape->microbatches; ++i) order.backward(0);
    });
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("schedules", "gpipe", "0.1.0", "Apache-2.0", "GPipe: all forwards, then all backwards", nullptr,
                  nullptr, 0, (create_plugin<ScheduleMaker, Gpipe>), destroy_plugin<ScheduleMaker>)

}  // namespace meshwright
