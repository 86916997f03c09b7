#include "program/waits.h"

#include <algorithm>
#include <deque>
#include <iterator>

#include "program/held_storages.h"

namespace meshwright {

SharedStorages::SharedStorages(const Program& program) : owners_(storages(program)), made_(owners_.size(), false), used_(owners_.size(), false) {
  for (const Instruction& instruction : program.instructions) {
    if (instruction.stream != Stream::communication) continue;
    for (const ProgramOperand& operand : instruction.operands) used_[owners_[operand.value]] = true;
    for (const ProgramValueId result : instruction.results) used_[owners_[result]] = made_[owners_[result]] = true;
  }
}

std::vector<ProgramValueId> SharedStorages::touched(const Program& program, const Instruction& instruction) const {
  std::vector<ProgramValueId> values;
  const auto add = [&](ProgramValueId value) {
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  };
  const bool ends_all = instruction.kind() == InstructionKind::free || instruction.takes_over();
  for (const ProgramOperand& operand : instruction.operands) {
    const ProgramValueId owner = owners_[operand.value];
    if (ends_all ? used_[owner] : made_[owner]) add(operand.value);
  }
  if (instruction.in_place() && used_[owners_[instruction.operands[0].value]]) add(instruction.operands[0].value);
  if (instruction.kind() == InstructionKind::update) {
    const ProgramValueId changed = instruction.operands.size() > 1 ? instruction.operands[1].value : program.parameters[instruction.parameter].value;
    if (used_[owners_[changed]]) add(changed);
  }
  return values;
}

namespace {

class Placing {
 public:
  explicit Placing(Program& program)
      : program_(program), shared_(program), progress_(program.values.size()), held_(held_bytes(program)), most_bytes_(std::max(held_.peak, program.room_bytes)) {}

  void run() {
    std::vector<Instruction> instructions = std::move(program_.instructions);
    placed_.reserve(instructions.size() + instructions.size() / 8);  // a free may be cut in two
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      Instruction& instruction = instructions[i];
      if (program_.order.microbatches > 1 && (placed_.empty() || instruction.phase != phase_)) begin_phase();
      phase_ = instruction.phase;
      while (!put_off_.empty() && held_.at_most[i] + put_off_bytes_ > most_bytes_) release_first();
      if (instruction.stream == Stream::communication) issue(std::move(instruction));
      else if (instruction.kind() == InstructionKind::free) put_off(std::move(instruction));
      else compute(std::move(instruction));
    }
    release_all();
    program_.instructions = std::move(placed_);
  }

 private:
  // A free that waits for the communication stream, until this one of its instructions.
  struct PutOff {
    Instruction release;
    std::int64_t until = 0;
    std::int64_t bytes = 0;
  };

  [[nodiscard]] std::int64_t bytes(const Instruction& release) const {
    std::int64_t sum = 0;
    for (const ProgramOperand& operand : release.operands) sum += program_.local_bytes(shared_.owner(operand.value));
    return sum;
  }

  // The last instruction of the communication stream that uses one of these; 0: none is in use.
  [[nodiscard]] std::int64_t last_use(const std::vector<ProgramValueId>& values) const {
    std::int64_t last = 0;
    for (const ProgramValueId value : values) {
      if (progress_.is_busy(shared_.owner(value))) last = std::max(last, progress_.last_use(shared_.owner(value)));
    }
    return last;
  }

  // The phases of other microbatches may stand before this one: whatever is used anywhere may be in use.
  void begin_phase() {
    release_all();
    progress_ = CommunicationProgress(program_.values.size());
    progress_.issue();
    for (ProgramValueId owner = 0; owner < program_.values.size(); ++owner) {
      if (shared_.is_used(owner)) progress_.use(owner);
    }
  }

  void issue(Instruction&& instruction) {
    progress_.issue();
    for (const ProgramOperand& operand : instruction.operands) progress_.use(shared_.owner(operand.value));
    for (const ProgramValueId result : instruction.results) progress_.use(shared_.owner(result));
    placed_.push_back(std::move(instruction));
  }

  void put_off(Instruction&& release) {
    const auto is_busy = [this](const ProgramOperand& operand) { return progress_.is_busy(shared_.owner(operand.value)); };
    if (std::ranges::none_of(release.operands, is_busy)) {
      placed_.push_back(std::move(release));
      return;
    }
    const auto busy = std::ranges::stable_partition(release.operands, [&](const ProgramOperand& operand) { return !is_busy(operand); });
    PutOff later;
    if (!busy.empty()) {
      later.release = release;
      later.release.operands.assign(busy.begin(), busy.end());
      release.operands.erase(busy.begin(), busy.end());
    }
    if (!release.operands.empty()) placed_.push_back(std::move(release));
    if (later.release.operands.empty()) return;
    for (const ProgramOperand& operand : later.release.operands) later.until = std::max(later.until, progress_.last_use(shared_.owner(operand.value)));
    later.bytes = bytes(later.release);
    put_off_bytes_ += later.bytes;
    put_off_.push_back(std::move(later));
  }

  void compute(Instruction&& instruction) {
    const std::vector<ProgramValueId> touched = shared_.touched(program_, instruction);
    const std::int64_t until = last_use(touched);
    while (!put_off_.empty() && put_off_.front().until <= until) release_first();
    state_waits(instruction, touched);
    placed_.push_back(std::move(instruction));
  }

  void state_waits(Instruction& instruction, const std::vector<ProgramValueId>& touched) {
    std::ranges::copy_if(touched, std::back_inserter(instruction.waits), [&](ProgramValueId value) { return progress_.is_busy(shared_.owner(value)); });
    // What only some microbatches wait for is not known to be done in all.
    if (instruction.when == When::each || program_.order.microbatches == 1) progress_.wait_for(last_use(touched));
  }

  void release_first() {
    PutOff first = std::move(put_off_.front());
    put_off_.pop_front();
    put_off_bytes_ -= first.bytes;
    first.release.phase = phase_;
    state_waits(first.release, shared_.touched(program_, first.release));
    placed_.push_back(std::move(first.release));
  }

  void release_all() {
    while (!put_off_.empty()) release_first();
  }

  Program& program_;
  const SharedStorages shared_;
  CommunicationProgress progress_;
  const HeldBytes held_;            // as long as nothing is put off
  const std::int64_t most_bytes_;   // that are held
  Phase phase_ = Phase::forward;
  std::deque<PutOff> put_off_;
  std::int64_t put_off_bytes_ = 0;
  std::vector<Instruction> placed_;
};

}  // namespace

void place_waits(Program& program) {
  for (Instruction& instruction : program.instructions) instruction.waits.clear();
  const auto communicates = [](const Instruction& instruction) { return instruction.stream == Stream::communication; };
  if (std::any_of(program.instructions.begin(), program.instructions.end(), communicates)) Placing(program).run();
}

// What the communication stream begins, begins when the computing before it is done, so that only the other way has to be waited.
Status check_waits(const Program& program) {
  const SharedStorages shared(program);
  const ShortenedOrder order = shortened(program.order);
  CommunicationProgress progress(program.values.size() * static_cast<std::size_t>(order.microbatches));
  for (const Occurrence& here : occurrences(program, order.events, order.microbatches)) {
    const Instruction& instruction = program.instructions[here.instruction];
    const auto operand = [&](ProgramValueId value) { return program.place(shared.owner(value), instruction.operands_from(here.microbatch)); };
    const auto problem = [&](const std::string& text) { return bad_input("instruction " + std::to_string(here.instruction) + " ('" + instruction.name + "') " + text); };
    if (instruction.stream == Stream::communication) {
      if (!instruction.waits.empty()) return problem("is on the communication stream, and waits for that stream");
      progress.issue();
      for (const ProgramOperand& read : instruction.operands) progress.use(operand(read.value));
      for (const ProgramValueId result : instruction.results) progress.use(program.place(shared.owner(result), here.microbatch));
      continue;
    }
    for (const ProgramValueId value : instruction.waits) {
      if (value >= program.values.size()) return problem("waits for what is no value of the program");
      progress.wait_for(progress.last_use(operand(value)));
    }
    for (const ProgramValueId value : shared.touched(program, instruction)) {
      if (!progress.is_busy(operand(value))) continue;
      return problem("does not wait for '" + program.values[value].name + "', which the communication stream may still use");
    }
  }
  return Done{};
}

}  // namespace meshwright
