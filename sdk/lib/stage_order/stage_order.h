// What makers of pipeline schedules are made of: the sizes that they settle on, where chunks lie along the model, and
// the order of one stage, in which each event takes the next microbatch of its kind and chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "meshwright/schedule.h"

namespace meshwright {

// Chunks of a stage that a kind of schedule can have.
struct ChunkChoice {
  std::uint32_t usual = 1;
  bool any = false;  // else only the usual number
  // Which schedule to take for another number, as the end of a sentence: "looped_bfs has any number".
  std::string_view instead = {};
};

// `wanted` with the usual number of chunks where it leaves that open. `id` is the maker's, for messages. Errors:
// bad_input for stages or microbatches that are left open, for another number of chunks, and those of validate.
Result<ScheduleShape> settle(const ScheduleShape& wanted, std::string_view id, const ChunkChoice& chunks);

// Chunk c of stage s at c * stages + s: from the last stage the model goes on at the first one.
std::vector<std::uint32_t> loop_positions(const ScheduleShape& shape);

// Of two chunks: down the stages and back, so that the last stage has both chunks in the middle, and the first one the
// beginning and the loss.
std::vector<std::uint32_t> v_positions(const ScheduleShape& shape);

// The events of one stage. An order may be written for more microbatches than there are: the events of those from
// `microbatches` on are left out, which leaves the others in an order that can run, since no microbatch waits for
// another one.
class StageOrder {
 public:
  explicit StageOrder(const ScheduleShape& shape);

  // Each of the next microbatch of the chunk: forwards count for themselves, whole backwards and input gradients
  // together.
  void forward(std::uint32_t chunk);
  void backward(std::uint32_t chunk);
  void input_gradient(std::uint32_t chunk);
  // Of the microbatch whose input gradient has waited longest for its weight gradient, of the chunk or of all chunks.
  // Does nothing if none waits.
  void weight_gradient(std::uint32_t chunk);
  void oldest_weight_gradient();

  // How many there were so far, with those that were left out.
  [[nodiscard]] std::uint32_t forwards(std::uint32_t chunk) const { return forwards_[chunk]; }
  [[nodiscard]] std::uint32_t backwards(std::uint32_t chunk) const { return backwards_[chunk]; }

  // The events so far; the order is empty behind it.
  std::vector<PipelineEvent> take();

 private:
  void add(PipelineEventKind kind, std::uint32_t chunk, std::uint32_t microbatch);

  struct WaitingWeight {
    PipelineEvent event;
    bool has_run = false;
  };

  std::uint32_t microbatches_;
  std::vector<std::uint32_t> forwards_, backwards_;         // by chunk
  std::vector<WaitingWeight> weights_;                      // in the order of their input gradients
  std::vector<std::vector<std::size_t>> weights_of_chunk_;  // places in weights_
  std::size_t next_weight_ = 0;                             // in weights_; all before it have run
  std::vector<std::size_t> next_of_chunk_;                  // in weights_of_chunk_, likewise
  std::vector<PipelineEvent> events_;
};

// The schedule in which stage s runs what `fill(stage, order)` puts into its order.
template <class Fill>
PipelineSchedule make_schedule(const ScheduleShape& shape, std::vector<std::uint32_t> positions, Fill fill) {
  PipelineSchedule schedule{shape, std::move(positions), {}};
  schedule.order.reserve(shape.stages);
  for (std::uint32_t stage = 0; stage < shape.stages; ++stage) {
    StageOrder order(shape);
    fill(stage, order);
    schedule.order.push_back(order.take());
  }
  return schedule;
}

}  // namespace meshwright
