#include <algorithm>

#include "meshwright/local_call.h"
#include "meshwright/program.h"

namespace meshwright {

namespace {

// Appends to a program what one rank executes of one of its instructions.
class InstructionBuilder final : public LocalBuilder {
 public:
  // `call` is the node that `original` stands for.
  InstructionBuilder(Program& program, const Instruction& original, const Node& call, std::vector<Instruction>& instructions)
      : program_(program), original_(original), node_(call), instructions_(instructions) {}

  ProgramValueId make(ShardedType type) override {
    const auto id = static_cast<ProgramValueId>(program_.values.size());
    program_.values.push_back({original_.name + "." + std::to_string(id), std::move(type)});
    return id;
  }

  void retype(ProgramValueId own, ShardedType type) override { program_.values[own].type = std::move(type); }

  void emit(std::string op, const std::vector<Operand>& operands, Attributes attributes, RankAttributes rank_attributes,
            const std::vector<ProgramValueId>& results) override {
    Instruction& made = add(Compute{.op = std::move(op), .attributes = std::move(attributes), .rank_attributes = std::move(rank_attributes), .local = true, .call = call()});
    made.compute()->fused = fused_step(original_.compute()->fused, node_, operands, results);
    for (const Operand& operand : operands) {
      if (operand.value != kNoId) made.operands.push_back({operand.name, operand.value, type(operand.value).layout});
    }
    made.results = results;
  }

  [[nodiscard]] const ShardedType& type(ProgramValueId value) const override { return program_.values[value].type; }

 private:
  void take_move(ProgramValueId from, const Move& move, ProgramValueId to, bool along) override {
    Instruction& made = add(MoveStep{.move = move, .call = call(), .along = along});
    made.operands.push_back({"", from, type(from).layout});
    made.results.push_back(to);
  }

  // Where the call will be among the program's.
  [[nodiscard]] std::uint32_t call() const { return static_cast<std::uint32_t>(program_.calls.size()); }

  Instruction& add(Action action) {
    Instruction& made = instructions_.emplace_back();
    made.phase = original_.phase;
    made.again = original_.again;
    made.name = original_.name;
    made.module_path = original_.module_path;
    made.node = original_.node;
    made.action = std::move(action);
    return made;
  }

  Program& program_;
  const Instruction& original_;
  const Node& node_;
  std::vector<Instruction>& instructions_;
};

// Whether it is the op itself: what it reads and yields is then the op's.
bool is_the_op(const Instruction& local, const Instruction& compute) {
  const auto same = [](const ProgramOperand& a, const ProgramOperand& b) { return a.name == b.name && a.value == b.value; };
  return local.kind() == InstructionKind::compute && local.results == compute.results && std::ranges::equal(local.operands, compute.operands, same);
}

}  // namespace

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
  const std::size_t before = instructions.size();
  InstructionBuilder build(program, compute, node, instructions);
  if (Status status = family.localize({call, std::move(operands), std::move(results), program.mesh, build}); !status) return status;
  if (instructions.size() == before + 1 && is_the_op(instructions.back(), compute)) instructions.back().compute()->call = kNoId;
  else program.calls.push_back(compute);
  return Done{};
}

}  // namespace meshwright
