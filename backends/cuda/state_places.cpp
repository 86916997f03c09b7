#include "state_places.h"

#include <utility>

namespace meshwright::cuda {

namespace {

struct Kept {
  TensorType type;
  std::size_t masters = 0, moments = 0;

  [[nodiscard]] std::size_t bytes() const {
    return (masters + moments) * aligned(static_cast<std::size_t>(type.bytes()));
  }
};

// Nothing is kept in less than the parameter's own precision.
Kept kept_of(const Program& program, const ProgramParameter& parameter) {
  ShardedType type = program.type(parameter.value);
  type.layout = parameter.state;
  Kept kept{local_type(type, program.mesh)};
  if (parameter.gradient == kNoId) return kept;
  const TrainingSettings& training = program.training;
  kept.moments = static_cast<std::size_t>(training.optimizer_values());
  if (size_bytes(training.master_dtype) < size_bytes(kept.type.dtype)) return kept;
  kept.masters = training.master_dtype != kept.type.dtype ? 1 : 0;
  kept.type.dtype = training.master_dtype;
  return kept;
}

}  // namespace

StatePlace state_place(const Program& program, const Block& block, std::size_t parameter) {
  std::byte* next = block.states();
  for (std::size_t i = 0; i < parameter; ++i) next += kept_of(program, program.parameters[i]).bytes();
  const Kept kept = kept_of(program, program.parameters[parameter]);
  const std::size_t each = aligned(static_cast<std::size_t>(kept.type.bytes()));
  StatePlace place{kept.type, nullptr, nullptr, nullptr};
  if (kept.masters > 0) place.master = std::exchange(next, next + each);
  if (kept.moments > 0) place.first = std::exchange(next, next + each);
  if (kept.moments > 1) place.second = next;
  return place;
}

std::size_t state_bytes(const Program& program) {
  std::size_t bytes = 0;
  for (const ProgramParameter& parameter : program.parameters) bytes += kept_of(program, parameter).bytes();
  return bytes;
}

}  // namespace meshwright::cuda
