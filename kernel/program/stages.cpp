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
  const Phase sends = sent.instruction->phase, receives = received.instruction->phase;
  if (sends != receives && !(is_backward(sends) && is_backward(receives))) {
    return bad_input(text(message) + " is sent in the " + name(sends) + ", and received in the " + name(receives));
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

Result<std::vector<std::uint32_t>> groups_of_stages(const GroupOrders& orders, std::size_t stages) {
  std::vector<std::uint32_t> groups(stages, kNoId);
  for (std::uint32_t stage = 0; orders.empty() && stage < stages; ++stage) groups[stage] = stage;
  for (std::uint32_t group = 0; group < orders.size(); ++group) {
    for (const StageEvent& event : orders[group]) {
      const std::string stage = "stage " + std::to_string(event.stage);
      if (event.stage >= stages) return bad_input(stage + " is in the order of devices, and there are " + std::to_string(stages) + " stages");
      if (groups[event.stage] != kNoId && groups[event.stage] != group) return bad_input(stage + " is on two groups of devices, " + std::to_string(groups[event.stage]) + " and " + std::to_string(group));
      groups[event.stage] = group;
    }
    if (orders[group].empty()) return bad_input("devices " + std::to_string(group) + " run nothing");
  }
  const auto missing = std::ranges::find(groups, kNoId);
  if (missing != groups.end()) return bad_input("stage " + std::to_string(missing - groups.begin()) + " is on no devices");
  return groups;
}

GroupOrders orders_of_own(std::span<const Program> programs) {
  GroupOrders orders(programs.size());
  for (std::uint32_t stage = 0; stage < programs.size(); ++stage) {
    for (const StepEvent& event : programs[stage].order.events()) {
      if (event.phase != Phase::update) orders[stage].push_back({stage, event});
    }
  }
  return orders;
}

namespace {

// Steps of all stages, merged.
class Joining {
 public:
  Joining(std::span<const Program> programs, GroupOrders orders) : programs_(programs), orders_(std::move(orders)), places_(programs.size()) {
    for (const Program& program : programs) steps_.push_back(occurrences(program));
  }

  Result<JointOrder> run() {
    const Result<std::vector<std::uint32_t>> groups = groups_of_stages(orders_, programs_.size());
    if (!groups) return groups.error();
    if (Status status = check_orders(); !status) return status.error();
    std::vector<std::size_t> reached(orders_.size(), 0);  // by group: events that are done
    std::size_t before = 0;
    do {
      before = next_;
      for (std::size_t group = 0; group < orders_.size(); ++group) {
        while (reached[group] < orders_[group].size() && run(orders_[group][reached[group]])) ++reached[group];
      }
      for (std::size_t stage = 0; stage < programs_.size(); ++stage) {
        if (reached[(*groups)[stage]] == orders_[(*groups)[stage]].size()) update(stage);
      }
    } while (next_ > before);
    for (std::size_t stage = 0; stage < programs_.size(); ++stage) {
      if (!ended(stage)) return bad_input("the stages wait for each other: nobody can send " + waited_for());
    }
    return std::move(places_);
  }

 private:
  // That of each stage they have the events of its program.
  [[nodiscard]] Status check_orders() const {
    std::vector<std::size_t> met(programs_.size(), 0);
    std::vector<std::vector<StepEvent>> events;
    for (const Program& program : programs_) events.push_back(program.order.events());
    for (const std::vector<StageEvent>& order : orders_) {
      for (const auto& [stage, event] : order) {
        const StepEvent& own = events[stage][met[stage]];
        if (event != own || own.phase == Phase::update) return bad_input("devices are to run " + text_of(event, stage) + " where that stage's program has the " + text_of(own));
        ++met[stage];
      }
    }
    for (std::size_t stage = 0; stage < programs_.size(); ++stage) {
      const StepEvent& next = events[stage][met[stage]];
      if (next.phase != Phase::update) return bad_input("no device runs " + text_of(next, stage));
    }
    return Done{};
  }

  static std::string text_of(const StepEvent& event) { return event.phase == Phase::update ? "update" : name(event.phase) + (" of microbatch " + std::to_string(event.microbatch)); }
  static std::string text_of(const StepEvent& event, std::size_t stage) { return "the " + text_of(event) + " of stage " + std::to_string(stage); }

  [[nodiscard]] bool ended(std::size_t stage) const { return places_[stage].size() == steps_[stage].size(); }
  [[nodiscard]] const Occurrence& occurrence(std::size_t stage) const { return steps_[stage][places_[stage].size()]; }
  [[nodiscard]] const Instruction& here(std::size_t stage) const { return programs_[stage].instructions[occurrence(stage).instruction]; }

  // Whether the event is done; else it waits for a message.
  bool run(const StageEvent& event) {
    while (!ended(event.stage) && here(event.stage).phase == event.event.phase && occurrence(event.stage).microbatch == event.event.microbatch) {
      if (!step(event.stage)) return false;
    }
    return true;
  }

  void update(std::size_t stage) {
    while (!ended(stage) && here(stage).phase == Phase::update && step(stage)) {
    }
  }

  // False: something is received that was not sent so far.
  bool step(std::size_t stage) {
    const Instruction& instruction = here(stage);
    const std::int64_t microbatch = occurrence(stage).microbatch;
    if (instruction.kind() == InstructionKind::receive && !under_way_.contains({*instruction.message(), microbatch})) return false;
    if (instruction.kind() == InstructionKind::send) under_way_.emplace(*instruction.message(), microbatch);
    places_[stage].push_back(next_++);
    return true;
  }

  [[nodiscard]] std::string waited_for() const {
    std::string waits;
    for (std::size_t stage = 0; stage < programs_.size(); ++stage) {
      if (ended(stage) || here(stage).message() == nullptr) continue;
      waits += (waits.empty() ? "" : "; ") + text(*here(stage).message()) + " of microbatch " + std::to_string(occurrence(stage).microbatch);
    }
    return waits;
  }

  std::span<const Program> programs_;
  const GroupOrders orders_;
  std::vector<std::vector<Occurrence>> steps_;
  JointOrder places_;
  std::size_t next_ = 0;
  std::set<std::pair<Message, std::int64_t>> under_way_;
};

}  // namespace

Result<JointOrder> joint_order(std::span<const Program> programs, const GroupOrders& orders) {
  if (Status status = validate_stages(programs); !status) return status.error();
  return Joining(programs, orders.empty() ? orders_of_own(programs) : orders).run();
}

// The most that stages hold together which take turns.
static std::int64_t peak_of_group(std::span<const Program> programs, const JointOrder& places, const std::vector<std::size_t>& stages) {
  struct Change {
    std::size_t place = 0;
    std::int64_t by = 0;
  };
  std::vector<Change> changes;
  std::int64_t sum = 0;
  for (const std::size_t stage : stages) {
    std::int64_t held = bytes_at_start(programs[stage]);
    sum += held;
    const std::vector<std::int64_t> curve = memory_curve(programs[stage]);
    for (std::size_t i = 0; i < curve.size(); ++i) changes.push_back({places[stage][i], curve[i] - std::exchange(held, curve[i])});
  }
  if (stages.size() > 1) std::ranges::sort(changes, {}, &Change::place);
  std::int64_t peak = sum;
  for (const Change& change : changes) peak = std::max(peak, sum += change.by);
  return peak;
}

std::vector<std::int64_t> peaks_of_groups(std::span<const Program> programs, const JointOrder& places, std::span<const std::uint32_t> groups) {
  std::vector<std::vector<std::size_t>> stages(groups.empty() ? 0 : 1 + *std::ranges::max_element(groups));
  for (std::size_t stage = 0; stage < programs.size(); ++stage) stages[groups[stage]].push_back(stage);
  std::vector<std::int64_t> peaks;
  for (const std::vector<std::size_t>& of_group : stages) peaks.push_back(peak_of_group(programs, places, of_group));
  return peaks;
}

}  // namespace meshwright
