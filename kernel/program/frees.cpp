#include <algorithm>
#include <map>

#include "meshwright/program.h"
#include "program/waits.h"

namespace meshwright {

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
  kept.reserve(program.instructions.size());
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    Instruction& instruction = program.instructions[i];
    const bool effect = instruction.kind() == InstructionKind::update || instruction.kind() == InstructionKind::store_gradient || instruction.message() != nullptr;
    const bool wanted = std::any_of(instruction.results.begin(), instruction.results.end(), [&](auto id) { return used[id]; });
    if (!effect && !wanted) continue;
    for (const ProgramOperand& operand : instruction.operands) used[operand.value] = true;
    kept.push_back(std::move(instruction));
  }
  std::reverse(kept.begin(), kept.end());
  program.instructions = std::move(kept);
  std::erase_if(program.inputs, [&](const ProgramInput& input) { return !used[input.value]; });
}

// When each value is freed: in the microbatches in which nobody else takes it over.
class Lifetimes {
 public:
  explicit Lifetimes(const Program& program) : program_(program), when_(program.values.size(), When::each), kept_(kept_values(program)) {
    if (program.order.microbatches == 1) return;
    for (const Instruction& instruction : program.instructions) {
      for (const ProgramValueId result : instruction.results) when_[result] = instruction.when;
    }
    for (const ProgramInput& input : program.inputs) when_[input.value] = When::each;
    for (const Instruction& instruction : program.instructions) {
      if (instruction.kind() == InstructionKind::accumulate && instruction.takes_over()) when_[instruction.operands[0].value] = When::later;
    }
    free_what_only_the_last_one_gives();
    for (ProgramValueId id = 0; id < when_.size(); ++id) {
      if (program.values[id].of_step) when_[id] = When::last;
    }
  }

  [[nodiscard]] When freed(ProgramValueId id) const { return when_[id]; }
  [[nodiscard]] bool is_kept(ProgramValueId id) const { return kept_[id]; }

 private:
  // A buffer that nobody reads is left by each microbatch, and given out by the last one.
  void free_what_only_the_last_one_gives() {
    std::vector<std::int64_t> given(program_.values.size(), 0);
    for (const ProgramOutput& output : program_.outputs) ++given[output.value];
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.kind() == InstructionKind::carry) given[instruction.operands[0].value] = 0;
    }
    for (ProgramValueId id = 0; id < given.size(); ++id) {
      if (given[id] == 0 || given[id] == program_.order.microbatches || program_.values[id].of_step) continue;
      kept_[id] = false;
      when_[id] = When::earlier;
    }
  }

  const Program& program_;
  std::vector<When> when_;
  std::vector<bool> kept_;
};

}  // namespace

void place_frees(Program& program) {
  std::erase_if(program.instructions, [](const Instruction& i) { return i.kind() == InstructionKind::free; });
  remove_unused(program);
  std::vector<bool> dead(program.values.size(), true);  // going backward: not used from here on
  const Lifetimes lifetimes(program);
  std::vector<Instruction> placed;
  placed.reserve(2 * program.instructions.size());
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    Instruction& instruction = program.instructions[i];
    std::map<When, Instruction> releases;
    const auto last_use = [&](ProgramValueId id, const Layout& layout) {
      if (lifetimes.is_kept(id) || !dead[id]) return;
      dead[id] = false;
      const When when = instruction.phase == Phase::update ? When::each : lifetimes.freed(id);
      releases[when].operands.push_back({"", id, layout});
    };
    if (instruction.kind() != InstructionKind::carry) {
      for (const ProgramOperand& operand : instruction.operands) last_use(operand.value, operand.needed);
    }
    for (const ProgramValueId result : instruction.results) last_use(result, program.type(result).layout);
    for (auto release = releases.rbegin(); release != releases.rend(); ++release) {
      release->second.action = Free{};
      release->second.phase = instruction.phase;
      release->second.when = release->first;
      placed.push_back(std::move(release->second));
    }
    placed.push_back(std::move(instruction));
  }
  std::reverse(placed.begin(), placed.end());
  program.instructions = std::move(placed);
  place_waits(program);
}

}  // namespace meshwright
