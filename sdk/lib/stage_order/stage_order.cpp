#include "stage_order.h"

#include <string>
#include <utility>

namespace meshwright {

Result<ScheduleShape> settle(const ScheduleShape& wanted, std::string_view id, const ChunkChoice& chunks) {
  ScheduleShape shape = wanted;
  if (shape.chunks == 0) shape.chunks = chunks.usual;
  if (shape.stages == 0 || shape.microbatches == 0) {
    return bad_input(std::string(id) + " needs the number of " + (shape.stages == 0 ? "stages" : "microbatches") +
                     "; give at least 1");
  }
  if (!chunks.any && shape.chunks != chunks.usual) {
    return bad_input(std::string(id) + " has " + std::to_string(chunks.usual) +
                     (chunks.usual == 1 ? " chunk" : " chunks") + " on each stage, not " +
                     std::to_string(shape.chunks) +
                     "; leave out their number, or take another schedule: " + std::string(chunks.instead));
  }
  if (Status status = validate(shape); !status) return status.error();
  return shape;
}

std::vector<std::uint32_t> loop_positions(const ScheduleShape& shape) {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t stage = 0; stage < shape.stages; ++stage) {
    for (std::uint32_t chunk = 0; chunk < shape.chunks; ++chunk) positions.push_back(chunk * shape.stages + stage);
  }
  return positions;
}

std::vector<std::uint32_t> v_positions(const ScheduleShape& shape) {
  std::vector<std::uint32_t> positions;
  for (std::uint32_t stage = 0; stage < shape.stages; ++stage) {
    positions.push_back(stage);
    positions.push_back(2 * shape.stages - 1 - stage);
  }
  return positions;
}

StageOrder::StageOrder(const ScheduleShape& shape)
    : microbatches_(shape.microbatches),
      forwards_(shape.chunks),
      backwards_(shape.chunks),
      weights_of_chunk_(shape.chunks),
      next_of_chunk_(shape.chunks) {}

void StageOrder::add(PipelineEventKind kind, std::uint32_t chunk, std::uint32_t microbatch) {
  if (microbatch < microbatches_) events_.push_back({kind, chunk, microbatch});
}

void StageOrder::forward(std::uint32_t chunk) { add(PipelineEventKind::forward, chunk, forwards_[chunk]++); }

void StageOrder::backward(std::uint32_t chunk) { add(PipelineEventKind::backward, chunk, backwards_[chunk]++); }

void StageOrder::input_gradient(std::uint32_t chunk) {
  const std::uint32_t microbatch = backwards_[chunk]++;
  add(PipelineEventKind::input_gradient, chunk, microbatch);
  weights_of_chunk_[chunk].push_back(weights_.size());
  weights_.push_back({{PipelineEventKind::weight_gradient, chunk, microbatch}});
}

void StageOrder::weight_gradient(std::uint32_t chunk) {
  const std::vector<std::size_t>& places = weights_of_chunk_[chunk];
  std::size_t& next = next_of_chunk_[chunk];
  while (next < places.size() && weights_[places[next]].has_run) ++next;
  if (next == places.size()) return;
  WaitingWeight& weight = weights_[places[next++]];
  weight.has_run = true;
  add(weight.event.kind, chunk, weight.event.microbatch);
}

void StageOrder::oldest_weight_gradient() {
  while (next_weight_ < weights_.size() && weights_[next_weight_].has_run) ++next_weight_;
  if (next_weight_ < weights_.size()) weight_gradient(weights_[next_weight_].event.chunk);
}

std::vector<PipelineEvent> StageOrder::take() { return std::exchange(events_, {}); }

}  // namespace meshwright
