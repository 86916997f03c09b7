#include "state_places.h"

namespace meshwright::cuda {

namespace {

int moments_of(const Program& program, std::size_t parameter) {
  if (optimizer_bytes(program, program.parameters[parameter]) == 0) return 0;
  const Optimizer optimizer = program.training.optimizer;
  return optimizer == Optimizer::adam || optimizer == Optimizer::adamw ? 2 : optimizer == Optimizer::momentum ? 1 : 0;
}

TensorType moment_type(const Program& program, std::size_t parameter) {
  ShardedType type = program.type(program.parameters[parameter].value);
  type.layout = program.parameters[parameter].state;
  return local_type(type, program.mesh);
}

std::size_t bytes_before(const Program& program, std::size_t parameter) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parameter; ++i)
    bytes += static_cast<std::size_t>(moments_of(program, i)) *
             aligned(static_cast<std::size_t>(moment_type(program, i).bytes()));
  return bytes;
}

}  // namespace

StatePlace state_place(const Program& program, const Block& block, std::size_t parameter) {
  StatePlace place{moment_type(program, parameter), nullptr, nullptr};
  const int moments = moments_of(program, parameter);
  if (moments > 0) place.first = block.states() + bytes_before(program, parameter);
  if (moments > 1) place.second = place.first + aligned(static_cast<std::size_t>(place.type.bytes()));
  return place;
}

std::size_t state_bytes(const Program& program) { return bytes_before(program, program.parameters.size()); }

}  // namespace meshwright::cuda
