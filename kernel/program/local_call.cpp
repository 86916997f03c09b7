#include "meshwright/local_call.h"

#include "meshwright/program.h"
#include "tensor/guarded.h"

namespace meshwright {

LocalBuilder::LocalBuilder(Program& program, const Instruction& original, std::vector<Instruction>& instructions)
    : program_(program), original_(original), instructions_(instructions) {}

const ShardedType& LocalBuilder::type(ProgramValueId value) const { return program_.values[value].type; }

ProgramValueId LocalBuilder::make(ShardedType type) {
  const auto id = static_cast<ProgramValueId>(program_.values.size());
  program_.values.push_back({original_.name + "." + std::to_string(id), std::move(type)});
  return id;
}

void LocalBuilder::retype(ProgramValueId own, ShardedType type) { program_.values[own].type = std::move(type); }

void LocalBuilder::emit(std::string op, const std::vector<Operand>& operands, Attributes attributes,
                        RankAttributes rank_attributes, const std::vector<ProgramValueId>& results) {
  Instruction& made = instructions_.emplace_back();
  made.phase = original_.phase;
  made.name = original_.name;
  made.module_path = original_.module_path;
  made.node = original_.node;
  made.op = std::move(op);
  for (const Operand& operand : operands) {
    if (operand.value != kNoId) made.operands.push_back({operand.name, operand.value, type(operand.value).layout});
  }
  made.results = results;
  made.attributes = std::move(attributes);
  made.rank_attributes = std::move(rank_attributes);
  made.local = true;
}

ProgramValueId LocalBuilder::move(ProgramValueId value, MoveKind kind, std::size_t axis, Placement placement, ProgramValueId own) {
  ShardedType moved = type(value);
  moved.layout.place(axis, placement);
  Instruction& move = instructions_.emplace_back();
  move.kind = InstructionKind::move;
  move.phase = original_.phase;
  move.name = original_.name;
  move.module_path = original_.module_path;
  move.node = original_.node;
  move.operands.push_back({"", value, type(value).layout});
  move.move = {kind, static_cast<std::uint8_t>(axis), 0, false, false, moved.layout};
  if (own == kNoId) {
    value = make(std::move(moved));
  } else {
    retype(own, std::move(moved));
    value = own;
  }
  move.results.push_back(value);
  return value;
}

ProgramValueId LocalBuilder::reduce(ProgramValueId value) {
  for (std::size_t axis = 0; axis < program_.mesh.rank(); ++axis) {
    if (type(value).layout[axis].is_partial()) value = move(value, MoveKind::all_reduce, axis, Placement::replicate());
  }
  return value;
}

ProgramValueId LocalBuilder::exchange(ProgramValueId value, std::size_t axis, std::size_t atom, ProgramValueId own) {
  return move(value, MoveKind::all_to_all, axis, Placement::shard(atom), own);
}

void LocalCall::emit(Attributes attributes, RankAttributes rank_attributes) const {
  build.emit(call.node.op, call.node.operands, std::move(attributes), std::move(rank_attributes), call.node.results);
}

// What the header of op families declares of local calls stands here, since these speak of programs.
Status OpFamily::localize(const LocalCall& call) const {
  const std::string where = call.call.node.op + " at '" + call.call.node.name + "'";
  return guarded([&] { return where + ": the op family"; }, [&]() -> Status {
    if (Status status = do_localize(call); !status) return add_context(where, status.error());
    return Done{};
  });
}

Status OpFamily::do_localize(const LocalCall& call) const {
  call.emit(call.call.node.attributes);
  return Done{};
}

Status localize(const OpFamily& family, const Instruction& compute, Program& program, std::vector<Instruction>& instructions) {
  const Node node = node_of(compute);
  std::vector<ShardedType> operands, results;
  OpCall call{node, {}, {}};
  for (const ProgramOperand& operand : compute.operands) {
    operands.push_back(program.type(operand.value));
    call.operands.push_back(operands.back().type);
  }
  for (const ProgramValueId result : compute.results) {
    results.push_back(program.type(result));
    call.results.push_back(results.back().type);
  }
  LocalBuilder build(program, compute, instructions);
  return family.localize({call, std::move(operands), std::move(results), program.mesh, build});
}

}  // namespace meshwright
