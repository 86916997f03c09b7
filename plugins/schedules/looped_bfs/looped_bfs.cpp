// Breadth-first pipeline parallelism (Lamy-Poirier 2023): chunks lie in loops over the stages, and a stage runs all
// microbatches of a chunk before the next chunk, forward and backward. The bubble is GPipe's over the number of chunks;
// a stage holds everything, and in exchange each chunk's parameters are gathered, and their gradients reduced, once.
#include "meshwright/plugin.h"
#include "stage_order.h"

namespace meshwright {

namespace {

class LoopedBfs final : public ScheduleMaker {
  Result<PipelineSchedule> do_make(const ScheduleShape& wanted) const override {
    const Result<ScheduleShape> shape = settle(wanted, "looped_bfs", {.usual = 2, .any = true});
    if (!shape) return shape.error();
    return make_schedule(*shape, loop_positions(*shape), [&](std::uint32_t, StageOrder& order) {
      for (std::uint32_t chunk = 0; chunk < shape->chunks; ++chunk) {
        for (std::uint32_t i = 0; i < shape->microbatches; ++i) order.forward(chunk);
      }
      for (std::uint32_t chunk = shape->chunks; chunk-- > 0;) {
        for (std::uint32_t i = 0; i < shape->microbatches; ++i) order.backward(chunk);
      }
    });
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("schedules", "looped_bfs", "0.1.0", "Apache-2.0",
                  "Breadth-first: all microbatches of a chunk, then the next chunk", nullptr, nullptr, 0,
                  (create_plugin<ScheduleMaker, LoopedBfs>), destroy_plugin<ScheduleMaker>)

}  // namespace meshwright
