#include "program/works.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "meshwright/call_price.h"
#include "meshwright/timeline.h"

namespace meshwright {

Work work_of(const Program& program, const Instruction& instruction, const OpTable& ops) {
  const Node node = node_of(instruction, std::vector<std::int64_t>(program.mesh.rank(), 0));
  std::vector<const ShardedType*> operands, results;
  for (const ProgramOperand& operand : instruction.operands) operands.push_back(&program.type(operand.value));
  for (const ProgramValueId result : instruction.results) results.push_back(&program.type(result));
  return call_work(ops, program.mesh, node, operands, results, instruction.compute()->fused);
}

namespace {

// Asks op families once for each kind of instruction: layers repeat them.
class WorkFinder {
 public:
  WorkFinder(const Program& program, const OpTable& ops) : program_(program), ops_(ops) {}

  Work of(const Instruction& instruction) {
    std::vector<Known>& alike = known_[hash(instruction)];
    for (const Known& other : alike) {
      if (does_the_same(*other.instruction, instruction)) return other.work;
    }
    return alike.emplace_back(Known{&instruction, work_of(program_, instruction, ops_)}).work;
  }

 private:
  struct Known {
    const Instruction* instruction;
    Work work;
  };

  [[nodiscard]] std::size_t hash(const Instruction& instruction) const {
    std::size_t sum = std::hash<std::string_view>()(instruction.compute()->op);
    const auto add = [&](std::size_t number) { sum = sum * 0x9e3779b97f4a7c15U + number; };
    const auto add_type = [&](ProgramValueId id) {
      const ShardedType& type = program_.type(id);
      for (const std::int64_t extent : type.type.shape) add(static_cast<std::size_t>(extent));
      for (std::size_t axis = 0; axis < type.layout.mesh_rank(); ++axis) add(type.layout[axis].is_shard() ? type.layout[axis].atom() + 1 : 0);
    };
    for (const ProgramOperand& operand : instruction.operands) add_type(operand.value);
    for (const ProgramValueId result : instruction.results) add_type(result);
    return sum;
  }

  [[nodiscard]] bool does_the_same(const Instruction& one, const Instruction& other) const {
    const Compute &a = *one.compute(), &b = *other.compute();
    const auto same_type = [this](ProgramValueId x, ProgramValueId y) { return x == y || program_.type(x) == program_.type(y); };
    const auto same_operand = [&](const ProgramOperand& x, const ProgramOperand& y) { return x.name == y.name && same_type(x.value, y.value); };
    return a.op == b.op && a.fused == b.fused && std::ranges::equal(one.operands, other.operands, same_operand) && std::ranges::equal(one.results, other.results, same_type) &&
           a.attributes == b.attributes && a.rank_attributes == b.rank_attributes;
  }

  const Program& program_;
  const OpTable& ops_;
  std::unordered_map<std::size_t, std::vector<Known>> known_;
};

}  // namespace

std::vector<Work> works_of(const Program& program, const OpTable& ops) {
  WorkFinder finder(program, ops);
  std::vector<Work> works;
  works.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    works.push_back(instruction.kind() == InstructionKind::compute ? finder.of(instruction) : Work{});
  }
  return works;
}

}  // namespace meshwright
