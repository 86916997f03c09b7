#include "meshwright/program.h"

#include <algorithm>

namespace meshwright {

const char* name(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::compute: return "compute";
    case InstructionKind::convert: return "convert";
    case InstructionKind::move: return "move";
    case InstructionKind::load_parameter: return "load_parameter";
    case InstructionKind::store_gradient: return "store_gradient";
    case InstructionKind::accumulate: return "accumulate";
    case InstructionKind::update: return "update";
    case InstructionKind::free: return "free";
  }
  return "?";
}

const char* name(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::update: return "update";
  }
  return "?";
}

Node node_of(const Instruction& instruction) {
  Node node;
  node.op = instruction.op;
  node.name = instruction.name;
  node.module_path = instruction.module_path;
  for (const ProgramOperand& operand : instruction.operands) node.operands.push_back({operand.name, operand.value});
  node.attributes = instruction.attributes;
  node.results = instruction.results;
  return node;
}

Node node_of(const Instruction& instruction, const std::vector<std::int64_t>& coordinates) {
  Node node = node_of(instruction);
  for (const auto& [key, integers] : instruction.rank_attributes) node.attributes[key] = integers.at(coordinates);
  return node;
}

namespace {

// What must stay: parameters and outputs.
std::vector<bool> kept_values(const Program& program) {
  std::vector<bool> kept(program.values.size(), false);
  for (const ProgramParameter& parameter : program.parameters) {
    kept[parameter.updated == kNoId ? parameter.value : parameter.updated] = true;
  }
  for (const ProgramOutput& output : program.outputs) kept[output.value] = true;
  return kept;
}

void remove_unused(Program& program) {
  std::vector<bool> used = kept_values(program);
  std::vector<Instruction> kept;
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    Instruction& instruction = program.instructions[i];
    const bool effect = instruction.kind == InstructionKind::update || instruction.kind == InstructionKind::store_gradient;
    const bool wanted = std::any_of(instruction.results.begin(), instruction.results.end(), [&](auto id) { return used[id]; });
    if (!effect && !wanted) continue;
    for (const ProgramOperand& operand : instruction.operands) used[operand.value] = true;
    kept.push_back(std::move(instruction));
  }
  std::reverse(kept.begin(), kept.end());
  program.instructions = std::move(kept);
  std::erase_if(program.inputs, [&](const ProgramInput& input) { return !used[input.value]; });
}

}  // namespace

void place_frees(Program& program) {
  std::erase_if(program.instructions, [](const Instruction& i) { return i.kind == InstructionKind::free; });
  remove_unused(program);
  std::vector<bool> dead(program.values.size(), true);  // going backward: not used from here on
  const std::vector<bool> kept = kept_values(program);
  std::vector<Instruction> placed;
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    Instruction& instruction = program.instructions[i];
    Instruction release;
    release.kind = InstructionKind::free;
    release.phase = instruction.phase;
    const auto last_use = [&](ProgramValueId id, const Layout& layout) {
      if (kept[id] || !dead[id]) return;
      dead[id] = false;
      release.operands.push_back({"", id, layout});
    };
    for (const ProgramOperand& operand : instruction.operands) last_use(operand.value, operand.needed);
    for (const ProgramValueId result : instruction.results) last_use(result, program.type(result).layout);
    if (!release.operands.empty()) placed.push_back(std::move(release));
    placed.push_back(std::move(instruction));
  }
  std::reverse(placed.begin(), placed.end());
  program.instructions = std::move(placed);
}

std::int64_t optimizer_bytes(const Program& program, const ProgramParameter& parameter) {
  if (parameter.gradient == kNoId) return 0;
  ShardedType state = program.type(parameter.value);
  state.layout = parameter.state;
  const TensorType local = local_type(state, program.mesh);
  return local.elements() * program.training.optimizer_bytes(local.dtype);
}

std::vector<std::int64_t> memory_curve(const Program& program) {
  const std::vector<ProgramValueId> owner = storages(program);
  std::vector<std::int64_t> sharing(program.values.size(), 0);  // by owner: values that are there
  std::int64_t held = 0;
  const auto make = [&](ProgramValueId id) {
    if (++sharing[owner[id]] == 1) held += program.local_bytes(owner[id]);
  };
  for (const ProgramParameter& parameter : program.parameters) {
    held += optimizer_bytes(program, parameter);
    make(parameter.value);
  }
  for (const ProgramInput& input : program.inputs) make(input.value);
  std::vector<std::int64_t> curve;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind == InstructionKind::free) {
      for (const ProgramOperand& operand : instruction.operands) {
        const ProgramValueId id = owner[operand.value];
        if (--sharing[id] == 0) held -= program.local_bytes(id);
      }
    }
    for (const ProgramValueId result : instruction.results) make(result);
    curve.push_back(held);
  }
  return curve;
}

namespace {

// All that the ranks together hold of a tensor; beyond its size where it is cut with padding.
Box union_of_boxes(const ShardedType& tensor, const Mesh& mesh) {
  Box box;
  for (std::size_t atom = 0; atom < tensor.atoms.sizes.size(); ++atom) {
    box.start.push_back(0);
    box.extent.push_back(local_atom(tensor.layout, tensor.atoms, mesh, atom) * shards_of_atom(tensor.layout, mesh, atom));
  }
  return box;
}

}  // namespace

std::int64_t sent_bytes(const Program& program, const Instruction& instruction) {
  const Move& move = instruction.move;
  const ShardedType& from = program.type(instruction.operands[0].value);
  const ShardedType& to = program.type(instruction.results[0]);
  const Mesh& mesh = program.mesh;
  const std::int64_t group = mesh.axes[move.axis].size;
  if (move.kind == MoveKind::keep_one) return 0;
  // A reduce-scatter and an all-gather, each of which sends all but one part of every rank's tensor.
  if (move.kind == MoveKind::all_reduce) return mesh.devices() / group * 2 * (group - 1) * local_type(from, mesh).bytes();
  const std::int64_t addends = move.kind == MoveKind::reduce_scatter ? group : 1;
  const Box all = union_of_boxes(from, mesh);
  std::int64_t elements = 0;
  for (std::int64_t rank = 0; rank < mesh.devices(); ++rank) {
    const std::vector<std::int64_t> at = coordinates_of(mesh, rank);
    const Box wanted = intersect(box_of(to.layout, to.atoms, mesh, at), all);
    elements += addends * wanted.elements() - intersect(wanted, box_of(from.layout, from.atoms, mesh, at)).elements();
  }
  return elements * size_bytes(from.type.dtype);
}

std::int64_t sent_bytes(const Program& program) {
  std::int64_t sum = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind == InstructionKind::move) sum += sent_bytes(program, instruction);
  }
  return sum;
}

}  // namespace meshwright
