#include "input_rows.h"

#include <bit>
#include <map>

#include "meshwright/cost.h"

namespace meshwright {

namespace {

AxisSet row_axes(const ShardedType& input) {
  AxisSet axes = 0;
  for (std::size_t axis = 0; axis < input.layout.mesh_rank(); ++axis) {
    const Placement placement = input.layout[axis];
    if (placement.is_shard() && input.atoms.dimension_of(placement.atom()) == 0) axes |= AxisSet{1} << axis;
  }
  return axes;
}

}  // namespace

InputRows input_rows(const Program& program) {
  struct Input {
    const TensorType* type;
    AxisSet rows;  // in every layout in which it is used
  };
  std::map<ValueId, Input> inputs;
  for (const ProgramInput& input : program.inputs) {
    const ShardedType& sharded = program.type(input.value);
    if (input.kind != SourceKind::user_input || sharded.type.shape.empty()) continue;
    const AxisSet rows = row_axes(sharded);
    const auto [known, inserted] = inputs.try_emplace(input.source, Input{&sharded.type, rows});
    if (!inserted) known->second.rows &= rows;
  }
  InputRows fed;
  std::int64_t batch = 0;
  for (const auto& [source, input] : inputs) {
    if (batch > 0 && std::popcount(input.rows) <= std::popcount(fed.axes)) continue;
    fed.axes = input.rows;
    batch = input.type->shape[0];
  }
  if (fed.axes == 0) return fed;
  const MeshAxis group = program.mesh.along(fed.axes);
  for (const auto& [source, input] : inputs) {
    if (input.type->shape[0] != batch || input.rows == fed.axes) continue;
    fed.gather_seconds += collective_seconds(CollectiveKind::all_gather, group, static_cast<double>(input.type->bytes()) / static_cast<double>(group.size));
  }
  return fed;
}

}  // namespace meshwright
