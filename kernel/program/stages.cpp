#include "meshwright/stages.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace meshwright {

namespace {

std::string text(const Message& message) {
  return std::string(message.gradient ? "the gradient of '" : "'") + message.value + "' from stage " + std::to_string(message.from) + " to stage " + std::to_string(message.to);
}

// --- shared parameters ---

class GradientExchange {
 public:
  GradientExchange(const StagePart& part, Program& program) : part_(part), program_(program) {}

  void run() {
    std::vector<Instruction> instructions = std::move(program_.instructions);
    program_.instructions.clear();
    for (Instruction& instruction : instructions) {
      if (instruction.kind() == InstructionKind::update) {
        const auto shared = std::ranges::find(part_.shared, program_.parameters[instruction.parameter].name, &SharedParameter::name);
        if (shared != part_.shared.end()) join(*shared, instruction);
      }
      program_.instructions.push_back(std::move(instruction));
    }
  }

 private:
  void join(const SharedParameter& shared, Instruction& update) {
    ProgramParameter& parameter = program_.parameters[update.parameter];
    const std::uint32_t first = shared.stages.front(), here = part_.stage;
    ProgramValueId gradient = parameter.gradient;
    if (here == first) {
      for (std::size_t i = 1; i < shared.stages.size(); ++i) gradient = add(update, gradient, receive(update, shared.stages[i], gradient));
      for (std::size_t i = 1; i < shared.stages.size(); ++i) send(update, gradient, shared.stages[i]);
    } else {
      send(update, gradient, first);
      gradient = receive(update, first, gradient);
    }
    parameter.gradient = gradient;
    update.operands[0].value = gradient;
  }

  ProgramValueId make(const std::string& name, ProgramValueId like) {
    program_.values.push_back({name + " of all stages", program_.type(like)});
    if (const int copy = copies_[name]++; copy > 0) program_.values.back().name += "'" + std::to_string(copy);
    return static_cast<ProgramValueId>(program_.values.size() - 1);
  }

  Instruction& put(Action action, const Instruction& update) {
    Instruction& made = program_.instructions.emplace_back();
    made.action = std::move(action);
    made.phase = Phase::update;
    made.name = update.name;
    made.parameter = update.parameter;
    return made;
  }

  ProgramValueId receive(const Instruction& update, std::uint32_t from, ProgramValueId like) {
    const ProgramValueId result = make("gradient of " + update.name, like);
    put(Receive{{update.name, true, from, part_.stage}}, update).results = {result};
    return result;
  }

  void send(const Instruction& update, ProgramValueId value, std::uint32_t to) {
    Instruction& made = put(Send{{update.name, true, part_.stage, to}}, update);
    made.operands = {{"", value, program_.type(value).layout}};
    made.stream = Stream::communication;
  }

  ProgramValueId add(const Instruction& update, ProgramValueId sum, ProgramValueId addend) {
    const ProgramValueId result = make("gradient of " + update.name, sum);
    const Layout& layout = program_.type(sum).layout;
    Instruction& made = put(Compute{.op = "aten.add.Tensor", .local = true}, update);
    made.operands = {{"self", sum, layout}, {"other", addend, layout}};
    made.results = {result};
    return result;
  }

  const StagePart& part_;
  Program& program_;
  std::map<std::string, int> copies_;
};

// --- messages ---

struct End {
  std::size_t stage = 0;
  const Instruction* instruction = nullptr;
};

const ShardedType& type_of(const Program& program, const Instruction& instruction) {
  return program.type(instruction.kind() == InstructionKind::send ? instruction.operands[0].value : instruction.results[0]);
}

Status check_pair(std::span<const Program> programs, const Message& message, const End& sent, const End& received) {
  if (sent.instruction->phase != received.instruction->phase) {
    return bad_input(text(message) + " is sent in the " + name(sent.instruction->phase) + ", and received in the " + name(received.instruction->phase));
  }
  const TensorType &from = type_of(programs[sent.stage], *sent.instruction).type, &to = type_of(programs[received.stage], *received.instruction).type;
  if (from == to) return Done{};
  return bad_input(text(message) + " is sent as " + to_string(from) + ", and received as " + to_string(to));
}

}  // namespace

void exchange_shared_gradients(const StagePart& part, Program& program) {
  if (!part.shared.empty()) GradientExchange(part, program).run();
}

Status validate_stages(std::span<const Program> programs) {
  std::map<Message, End> sent, received;
  for (std::size_t stage = 0; stage < programs.size(); ++stage) {
    if (programs[stage].order.microbatches != programs[0].order.microbatches) {
      return bad_input("stage " + std::to_string(stage) + " has " + std::to_string(programs[stage].order.microbatches) + " microbatches, and stage 0 " + std::to_string(programs[0].order.microbatches));
    }
    for (const Instruction& instruction : programs[stage].instructions) {
      const Message* message = instruction.message();
      if (message == nullptr) continue;
      const bool sends = instruction.kind() == InstructionKind::send;
      if ((sends ? message->from : message->to) != stage) return bad_input("stage " + std::to_string(stage) + (sends ? " sends " : " receives ") + text(*message));
      if (!(sends ? sent : received).try_emplace(*message, stage, &instruction).second) {
        return bad_input(text(*message) + " is " + (sends ? "sent" : "received") + " twice");
      }
    }
  }
  for (const auto& [message, end] : received) {
    const auto other = sent.find(message);
    if (other == sent.end()) return bad_input(text(message) + " is received, but never sent");
    if (Status status = check_pair(programs, message, other->second, end); !status) return status;
  }
  for (const auto& [message, end] : sent) {
    if (!received.contains(message)) return bad_input(text(message) + " is sent, but never received");
  }
  return Done{};
}

Result<std::vector<std::vector<std::size_t>>> joint_order(std::span<const Program> programs) {
  if (Status status = validate_stages(programs); !status) return status.error();
  std::vector<std::vector<Occurrence>> steps;
  std::vector<std::vector<std::size_t>> places(programs.size());
  std::size_t left = 0, next = 0;
  for (const Program& program : programs) left += steps.emplace_back(occurrences(program)).size();
  std::set<std::pair<Message, std::int64_t>> under_way;
  while (left > 0) {
    const std::size_t before = left;
    for (std::size_t stage = 0; stage < programs.size(); ++stage) {
      while (places[stage].size() < steps[stage].size()) {
        const Occurrence& here = steps[stage][places[stage].size()];
        const Instruction& instruction = programs[stage].instructions[here.instruction];
        if (instruction.kind() == InstructionKind::receive && !under_way.contains({*instruction.message(), here.microbatch})) break;
        if (instruction.kind() == InstructionKind::send) under_way.emplace(*instruction.message(), here.microbatch);
        places[stage].push_back(next++);
        --left;
      }
    }
    if (left < before) continue;
    std::string waits;
    for (std::size_t stage = 0; stage < programs.size(); ++stage) {
      if (places[stage].size() == steps[stage].size()) continue;
      const Occurrence& here = steps[stage][places[stage].size()];
      waits += (waits.empty() ? "" : "; ") + text(*programs[stage].instructions[here.instruction].message()) + " of microbatch " + std::to_string(here.microbatch);
    }
    return bad_input("the stages wait for each other: nobody can send " + waits);
  }
  return places;
}

}  // namespace meshwright
