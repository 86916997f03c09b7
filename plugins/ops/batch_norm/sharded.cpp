#include "batch_norm.h"

namespace meshwright {

namespace {

// A number for each channel of an input n c x*: axes that cut the channels keep cutting them, the others leave a partial sum.
ShardedType per_channel(const ShardedType& input) {
  const std::size_t first = input.atoms.atoms_of_dimension[0], count = input.atoms.atoms_of_dimension[1];
  ShardedType made{{input.type.dtype, {input.type.shape[1]}}, {}, input.layout};
  made.atoms.atoms_of_dimension.push_back(input.atoms.atoms_of_dimension[1]);
  for (std::size_t atom = first; atom < first + count; ++atom) {
    made.atoms.sizes.push_back(input.atoms.sizes[atom]);
    made.atoms.paddable.push_back(input.atoms.paddable[atom]);
  }
  for (std::size_t axis = 0; axis < input.layout.mesh_rank(); ++axis) {
    if (!input.layout[axis].is_shard()) continue;
    const std::size_t atom = input.layout[axis].atom();
    const bool channel = atom >= first && atom < first + count;
    made.layout.place(axis, channel ? Placement::shard(atom - first) : Placement::partial_sum());
  }
  return made;
}

}  // namespace

bool emit_sharded_steps(const LocalCall& call) {
  const Node& node = call.call.node;
  if (!is_forward(node) || !trains(node)) return false;
  const ShardedType statistic = per_channel(*call.type("input"));
  if (!statistic.layout.has_partial()) return false;
  LocalBuilder& build = call.build;
  Attributes attributes = node.attributes;
  attributes["count"] = call.type("input")->type.elements() / statistic.type.elements();
  const ProgramValueId input = call.operand("input"), part_of_mean = build.make(statistic);
  build.emit(kMean, {{"input", input}}, attributes, {}, {part_of_mean});
  const ProgramValueId mean = build.reduce(part_of_mean), part_of_variance = build.make(statistic);
  build.emit(kVariance, {{"input", input}, {"mean", mean}}, attributes, {}, {part_of_variance});
  std::vector<Operand> operands = node.operands;
  operands.push_back({"mean", mean});
  operands.push_back({"variance", build.reduce_along(part_of_variance)});  // an emitted program adds up both by one collective
  build.emit(kApply, operands, attributes, {}, node.results);
  return true;
}

}  // namespace meshwright
