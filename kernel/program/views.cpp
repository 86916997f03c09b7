// Which instructions make views, and whose storage they share.
#include <algorithm>
#include <limits>
#include <numeric>

#include "meshwright/program.h"
#include "rule/view_finder.h"

namespace meshwright {

namespace {

constexpr std::size_t kAfterAll = std::numeric_limits<std::size_t>::max();

void mark_what_families_say(Program& program, const OpTable& ops) {
  ViewFinder finder(ops);
  for (Instruction& instruction : program.instructions) {
    if (instruction.kind() != InstructionKind::compute || instruction.operands.empty()) continue;
    const Node node = node_of(instruction);
    OpCall call{node, {}, {}};
    for (const ProgramOperand& operand : instruction.operands) call.operands.push_back(program.local(operand.value));
    for (const ProgramValueId result : instruction.results) call.results.push_back(program.local(result));
    const ViewFinder::View view = finder.view(call);
    instruction.compute()->alias = view.alias;
    instruction.compute()->keeps_order = view.keeps_order;
    instruction.compute()->transposes = view.transposes;
  }
}

// By value: the last instruction that reads it or a view of it. kAfterAll: it is handed out.
std::vector<std::size_t> last_reads(const Program& program) {
  std::vector<std::size_t> last(program.values.size(), 0);
  for (const ProgramOutput& output : program.outputs) last[output.value] = kAfterAll;
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.kind() == InstructionKind::free) continue;
    std::size_t read = i;
    if (instruction.is_alias()) {
      for (const ProgramValueId result : instruction.results) read = std::max(read, last[result]);
    }
    for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
      std::size_t& known = last[instruction.operands[k].value];
      known = std::max(known, k == 0 ? read : i);
    }
  }
  return last;
}

// An update overwrites its parameter, which nobody may see who read it before.
void copy_what_outlives_an_update(Program& program) {
  std::vector<std::size_t> updated(program.values.size(), kAfterAll);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.kind() == InstructionKind::update) updated[program.parameters[instruction.parameter].value] = i;
  }
  const std::vector<std::size_t> last = last_reads(program);
  std::vector<ProgramValueId> owner(program.values.size());
  std::iota(owner.begin(), owner.end(), ProgramValueId{0});
  for (Instruction& instruction : program.instructions) {
    if (!instruction.is_alias()) continue;
    const ProgramValueId shared = owner[instruction.operands[0].value];
    instruction.compute()->alias = std::ranges::none_of(instruction.results, [&](ProgramValueId id) { return last[id] > updated[shared]; });
    if (!instruction.is_alias()) continue;
    for (const ProgramValueId result : instruction.results) owner[result] = shared;
  }
}

// What a buffer hands on to the next microbatch goes with its storage: nobody may share it.
void copy_what_is_carried(Program& program) {
  std::vector<bool> carried(program.values.size(), false);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind() == InstructionKind::carry) carried[instruction.operands[0].value] = true;
  }
  for (Instruction& instruction : program.instructions) {
    const auto is_carried = [&](ProgramValueId id) { return static_cast<bool>(carried[id]); };
    if (instruction.is_alias() && (is_carried(instruction.operands[0].value) || std::ranges::any_of(instruction.results, is_carried))) instruction.compute()->alias = false;
  }
}

}  // namespace

void mark_views(Program& program, const OpTable& ops) {
  mark_what_families_say(program, ops);
  copy_what_is_carried(program);
  copy_what_outlives_an_update(program);
}

std::vector<ProgramValueId> storages(const Program& program) {
  std::vector<ProgramValueId> owner(program.values.size());
  std::iota(owner.begin(), owner.end(), ProgramValueId{0});
  for (const Instruction& instruction : program.instructions) {
    if (!instruction.is_alias()) continue;
    for (const ProgramValueId result : instruction.results) owner[result] = owner[instruction.operands[0].value];
  }
  return owner;
}

}  // namespace meshwright
