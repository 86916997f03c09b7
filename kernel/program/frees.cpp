#include <algorithm>
#include <utility>

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

// Which instructions do something that is used. Inputs that nobody uses go.
std::vector<bool> find_used(Program& program) {
  std::vector<bool> used = kept_values(program), wanted(program.instructions.size(), false);
  for (std::size_t i = program.instructions.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.kind() == InstructionKind::free) continue;
    const bool effect = instruction.kind() == InstructionKind::update || instruction.kind() == InstructionKind::store_gradient || instruction.message() != nullptr;
    wanted[i] = effect || std::any_of(instruction.results.begin(), instruction.results.end(), [&](auto id) { return used[id]; });
    if (!wanted[i]) continue;
    for (const ProgramOperand& operand : instruction.operands) used[operand.value] = true;
  }
  std::erase_if(program.inputs, [&](const ProgramInput& input) { return !used[input.value]; });
  return wanted;
}

// Without the frees. Nothing is moved where all stays.
void keep_used(Program& program) {
  const std::vector<bool> wanted = find_used(program);
  std::size_t count = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    if (count != i) program.instructions[count] = std::move(program.instructions[i]);
    ++count;
  }
  program.instructions.resize(count);
}

// When each value is freed: in the microbatches in which nobody else takes it over.
class Lifetimes {
 public:
  // `instructions`: of the program.
  Lifetimes(const Program& program, const std::vector<Instruction>& instructions)
      : program_(program), instructions_(instructions), when_(program.values.size(), When::each), kept_(kept_values(program)) {
    if (program.order.microbatches == 1) return;
    for (const Instruction& instruction : instructions) {
      for (const ProgramValueId result : instruction.results) when_[result] = instruction.when;
    }
    for (const ProgramInput& input : program.inputs) when_[input.value] = When::each;
    for (const Instruction& instruction : instructions) {
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
    for (const Instruction& instruction : instructions_) {
      if (instruction.kind() == InstructionKind::carry) given[instruction.operands[0].value] = 0;
    }
    for (ProgramValueId id = 0; id < given.size(); ++id) {
      if (given[id] == 0 || given[id] == program_.order.microbatches || program_.values[id].of_step) continue;
      kept_[id] = false;
      when_[id] = When::earlier;
    }
  }

  const Program& program_;
  const std::vector<Instruction>& instructions_;
  std::vector<When> when_;
  std::vector<bool> kept_;
};

// What is used last by an instruction, and with which layouts.
struct Releases {
  std::size_t behind = 0;  // the instruction
  std::vector<std::pair<When, ProgramOperand>> values;
};

// From the last instruction to the first.
std::vector<Releases> find_releases(const Program& program, const std::vector<Instruction>& instructions) {
  std::vector<bool> dead(program.values.size(), true);  // going backward: not used from here on
  const Lifetimes lifetimes(program, instructions);
  std::vector<Releases> all;
  for (std::size_t i = instructions.size(); i-- > 0;) {
    const Instruction& instruction = instructions[i];
    const auto last_use = [&](ProgramValueId id, const Layout& layout) {
      if (lifetimes.is_kept(id) || !dead[id]) return;
      dead[id] = false;
      if (all.empty() || all.back().behind != i) all.push_back({i, {}});
      all.back().values.push_back({instruction.phase == Phase::update ? When::each : lifetimes.freed(id), {"", id, layout}});
    };
    if (instruction.kind() != InstructionKind::carry) {
      for (const ProgramOperand& operand : instruction.operands) last_use(operand.value, operand.needed);
    }
    for (const ProgramValueId result : instruction.results) last_use(result, program.type(result).layout);
  }
  return all;
}

// One for each kind of microbatches, in their order.
void add_frees(const Releases& releases, Phase phase, std::vector<Instruction>& instructions) {
  for (const When when : {When::each, When::first, When::later, When::earlier, When::last}) {
    Instruction* release = nullptr;
    for (const auto& [freed, operand] : releases.values) {
      if (freed != when) continue;
      if (release == nullptr) {
        release = &instructions.emplace_back();
        release->action = Free{};
        release->phase = phase;
        release->when = when;
      }
      release->operands.push_back(operand);
    }
  }
}

}  // namespace

void place_frees(Program& program) {
  keep_used(program);
  std::vector<Instruction> instructions = std::move(program.instructions);
  const std::vector<Releases> releases = find_releases(program, instructions);
  program.instructions.clear();
  program.instructions.reserve(instructions.size() + releases.size());
  std::size_t next = releases.size();  // they are found from the last one on
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Phase phase = instructions[i].phase;
    program.instructions.push_back(std::move(instructions[i]));
    for (; next > 0 && releases[next - 1].behind == i; --next) add_frees(releases[next - 1], phase, program.instructions);
  }
  place_waits(program);
}

}  // namespace meshwright
