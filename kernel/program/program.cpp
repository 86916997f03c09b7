#include "meshwright/program.h"

#include <algorithm>
#include <map>

#include "program/held_storages.h"

namespace meshwright {

const char* name(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::compute: return "compute";
    case InstructionKind::convert: return "convert";
    case InstructionKind::move: return "move";
    case InstructionKind::load_parameter: return "load_parameter";
    case InstructionKind::store_gradient: return "store_gradient";
    case InstructionKind::accumulate: return "accumulate";
    case InstructionKind::carry: return "carry";
    case InstructionKind::update: return "update";
    case InstructionKind::send: return "send";
    case InstructionKind::receive: return "receive";
    case InstructionKind::free: return "free";
  }
  return "?";
}

const char* name(When when) {
  switch (when) {
    case When::each: return "each";
    case When::first: return "first";
    case When::later: return "later";
    case When::earlier: return "earlier";
    case When::last: return "last";
  }
  return "?";
}

bool runs(When when, std::int64_t microbatch, std::int64_t microbatches) {
  switch (when) {
    case When::each: return true;
    case When::first: return microbatch == 0;
    case When::later: return microbatch > 0;
    case When::earlier: return microbatch + 1 < microbatches;
    case When::last: return microbatch + 1 == microbatches;
  }
  return true;
}

std::uint32_t Instruction::call() const {
  if (const auto* op = std::get_if<Compute>(&action)) return op->call;
  const auto* step = std::get_if<MoveStep>(&action);
  return step != nullptr ? step->call : kNoId;
}

const Message* Instruction::message() const {
  if (const auto* send = std::get_if<Send>(&action)) return &send->message;
  const auto* receive = std::get_if<Receive>(&action);
  return receive != nullptr ? &receive->message : nullptr;
}

Node node_of(const Instruction& instruction) {
  const Compute& compute = std::get<Compute>(instruction.action);
  Node node;
  node.op = compute.op;
  node.name = instruction.name;
  node.module_path = instruction.module_path;
  for (const ProgramOperand& operand : instruction.operands) node.operands.push_back({operand.name, operand.value});
  node.attributes = compute.attributes;
  node.results = instruction.results;
  return node;
}

Node node_of(const Instruction& instruction, const std::vector<std::int64_t>& coordinates) {
  Node node = node_of(instruction);
  for (const auto& [key, integers] : instruction.compute()->rank_attributes) node.attributes[key] = integers.at(coordinates);
  return node;
}

std::vector<Occurrence> occurrences(const Program& program, const std::vector<StepEvent>& events, std::int64_t microbatches) {
  std::vector<std::vector<std::size_t>> of_phase(kPhases);
  std::vector<bool> is_asked(kPhases, false);
  for (const StepEvent& event : events) is_asked[static_cast<std::size_t>(event.phase)] = true;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto phase = static_cast<std::size_t>(program.instructions[i].phase);
    if (is_asked[phase]) of_phase[phase].push_back(i);
  }
  std::size_t most = 0;
  for (const StepEvent& event : events) most += of_phase[static_cast<std::size_t>(event.phase)].size();
  std::vector<Occurrence> all;
  all.reserve(most);
  for (const StepEvent& event : events) {
    for (const std::size_t i : of_phase[static_cast<std::size_t>(event.phase)]) {
      if (runs(program.instructions[i].when, event.microbatch, microbatches)) all.push_back({i, event.microbatch});
    }
  }
  return all;
}

std::vector<Occurrence> occurrences(const Program& program) { return occurrences(program, program.order.events(), program.order.microbatches); }

std::int64_t times(const Program& program, const Instruction& instruction) {
  if (instruction.phase == Phase::update) return 1;
  switch (instruction.when) {
    case When::each: return program.order.microbatches;
    case When::first:
    case When::last: return 1;
    case When::later:
    case When::earlier: return program.order.microbatches - 1;
  }
  return 1;
}

std::int64_t optimizer_bytes(const Program& program, const ProgramParameter& parameter) {
  if (parameter.gradient == kNoId) return 0;
  const ShardedType& value = program.type(parameter.value);
  return local_bytes(parameter.state, value.atoms, program.mesh, program.training.optimizer_bytes(value.type.dtype));
}

std::int64_t bytes_at_start(const Program& program) {
  std::int64_t held = 0;
  for (const ProgramParameter& parameter : program.parameters) held += optimizer_bytes(program, parameter);
  HeldStorages(program, program.order.microbatches).begin([&](ProgramValueId owner, int change, std::size_t) { held += change * program.local_bytes(owner); });
  return held;
}

std::vector<std::int64_t> memory_curve(const Program& program) {
  HeldStorages storages(program, program.order.microbatches);
  std::int64_t held = 0;
  const auto on = [&](ProgramValueId owner, int change, std::size_t) { held += change * program.local_bytes(owner); };
  for (const ProgramParameter& parameter : program.parameters) held += optimizer_bytes(program, parameter);
  storages.begin(on);
  std::vector<std::int64_t> curve;
  for (const Occurrence& here : occurrences(program)) {
    storages.run(program.instructions[here.instruction], here.microbatch, on);
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

static std::int64_t received_bytes(const Program& program, const Instruction& receive) {
  const ShardedType& to = program.type(receive.results[0]);
  const Box all{std::vector<std::int64_t>(to.atoms.sizes.size(), 0), to.atoms.sizes};
  std::int64_t elements = 0;
  for (std::int64_t rank = 0; rank < program.mesh.devices(); ++rank) elements += intersect(box_of(to.layout, to.atoms, program.mesh, coordinates_of(program.mesh, rank)), all).elements();
  return elements * size_bytes(to.type.dtype);
}

std::int64_t sent_bytes(const Program& program, const Instruction& instruction) {
  if (instruction.kind() == InstructionKind::receive) return received_bytes(program, instruction);
  const Move& move = *instruction.move();
  const ShardedType& from = program.type(instruction.operands[0].value);
  const ShardedType& to = program.type(instruction.results[0]);
  const Mesh& mesh = program.mesh;
  const std::int64_t group = mesh.along(move.axes()).size;
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
    if (instruction.kind() == InstructionKind::move || instruction.kind() == InstructionKind::receive) sum += times(program, instruction) * sent_bytes(program, instruction);
  }
  return sum;
}

}  // namespace meshwright
