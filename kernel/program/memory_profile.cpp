#include "meshwright/memory_profile.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "program/held_storages.h"

namespace meshwright {

namespace {

// What the optimizer keeps of a parameter; of 0 bytes if that is nothing.
HeldTensor optimizer_state(const Program& program, const ProgramParameter& parameter) {
  ShardedType state = program.type(parameter.value);
  state.layout = parameter.state;
  TensorType type = local_type(state, program.mesh);
  type.dtype = program.training.master_dtype;
  const std::int64_t bytes = optimizer_bytes(program, parameter);
  return {parameter.name, MemoryKind::optimizer, type, bytes == 0 ? 0 : bytes / type.bytes(), bytes, ""};
}

// The inputs of the microbatches that the shortened step leaves out.
template <class On>
void for_inputs_left_out(const Program& program, const ShortenedOrder& order, const On& on) {
  for (const ProgramInput& input : program.inputs) {
    if (input.microbatch >= order.microbatches && !program.values[input.value].of_step) on(input.value);
  }
}

// The bytes of what is held, and nothing else of it.
class Total {
 public:
  explicit Total(const Program& program) : program_(&program) {}
  void change(ProgramValueId owner, std::int64_t by) { bytes += by * program_->local_bytes(owner); }
  void repeat(std::int64_t repetitions, const Total& before) { bytes += repetitions * (bytes - before.bytes); }

  std::int64_t bytes = 0;

 private:
  const Program* program_;
};

// All that is known of one storage, by its owner.
struct Storage {
  std::int64_t bytes = 0;
  MemoryKind kind = MemoryKind::temporary;
  std::uint32_t node = kNoId;  // that made it; kNoId: nothing of a node
  Phase made_in = Phase::forward;
  bool made = false;            // by an instruction
  bool made_again = false;      // by one of a forward that runs again
  bool crosses = false;         // made in a forward or before the step, and used in a backward
  bool read_by_others = false;  // than the node that made it
};

class Profiling {
 public:
  explicit Profiling(const Program& program)
      : program_(program), order_(shortened(program.order)), owners_(storages(program)), storages_(program.values.size()) {}

  MemoryProfile run() {
    for (ProgramValueId id = 0; id < storages_.size(); ++id) {
      if (owners_[id] == id) storages_[id].bytes = program_.local_bytes(id);
    }
    add_what_is_there();
    for (const Instruction& instruction : program_.instructions) meet(instruction);
    for (const ProgramOutput& output : program_.outputs) of(output.value).read_by_others = true;
    classify();
    draw();
    sum_nodes();
    return std::move(profile_);
  }

 private:
  Storage& of(ProgramValueId id) { return storages_[owners_[id]]; }

  void add_what_is_there() {
    for (const ProgramInput& input : program_.inputs) of(input.value).kind = MemoryKind::input;
    for (const ProgramParameter& parameter : program_.parameters) {
      of(parameter.value).kind = MemoryKind::parameter;
      profile_.parameter_bytes += of(parameter.value).bytes;
      profile_.optimizer_bytes += optimizer_state(program_, parameter).bytes;
      if (parameter.gradient != kNoId) profile_.gradient_bytes += of(parameter.gradient).bytes;
    }
  }

  std::uint32_t number_of(const Instruction& instruction) {
    if (instruction.node.empty()) return kNoId;
    if (last_ == kNoId || profile_.nodes[last_].name != instruction.node) {  // most go on with the node before
      const auto [found, inserted] = numbers_.try_emplace(instruction.node, static_cast<std::uint32_t>(profile_.nodes.size()));
      if (inserted) {
        profile_.nodes.emplace_back().name = instruction.node;
        read_.emplace_back();
      }
      last_ = found->second;
    }
    NodeMemory& node = profile_.nodes[last_];
    const Compute* compute = instruction.phase == Phase::forward ? instruction.compute() : nullptr;
    if (compute != nullptr && (node.op.empty() || instruction.name == node.name)) {
      node.op = compute->op;
      node.module_path = instruction.module_path;
    }
    return last_;
  }

  // Who makes a storage, and who reads it.
  void meet(const Instruction& instruction) {
    if (instruction.kind() == InstructionKind::free) return;
    const std::uint32_t node = number_of(instruction);
    const bool moves = instruction.kind() == InstructionKind::move || instruction.kind() == InstructionKind::convert;
    MemoryKind kind = MemoryKind::temporary;
    for (const ProgramOperand& operand : instruction.operands) {
      Storage& storage = of(operand.value);
      if (moves && (storage.kind == MemoryKind::parameter || storage.kind == MemoryKind::gathered))
        kind = MemoryKind::gathered;
      const bool from_forward = !storage.made || storage.made_in == Phase::forward;
      if (is_backward(instruction.phase) && from_forward) storage.crosses = true;
      if (storage.node != node || node == kNoId) storage.read_by_others = true;
      if (node == kNoId) continue;
      auto& read = instruction.phase == Phase::forward ? read_[node].by_forward : read_[node].by_backward;
      if (!moves && std::find(read.begin(), read.end(), owners_[operand.value]) == read.end())
        read.push_back(owners_[operand.value]);
    }
    for (const ProgramValueId result : instruction.results) {
      Storage& storage = of(result);
      if (storage.made || owners_[result] != result) continue;
      storage.made = true;
      storage.made_in = instruction.phase;
      storage.made_again = instruction.again;
      storage.node = node;
      storage.kind = kind;
    }
  }

  void classify() {
    const auto is_free = [](const Storage& storage) { return storage.kind == MemoryKind::temporary; };
    for (const ProgramParameter& parameter : program_.parameters) {
      if (parameter.gradient == kNoId) continue;
      if (Storage& gradient = of(parameter.gradient); is_free(gradient)) gradient.kind = MemoryKind::gradient;
    }
    for (std::size_t i = program_.instructions.size(); i-- > 0;) {  // back to what a gradient is reduced from
      const Instruction& instruction = program_.instructions[i];
      if (instruction.kind() == InstructionKind::compute || instruction.results.empty()) continue;
      if (of(instruction.results[0]).kind != MemoryKind::gradient) continue;
      for (const ProgramOperand& operand : instruction.operands) {
        if (Storage& storage = of(operand.value); storage.made && is_free(storage)) storage.kind = MemoryKind::gradient;
      }
    }
    for (Storage& storage : storages_) {
      if (storage.made && storage.crosses && is_free(storage)) storage.kind = MemoryKind::activation;
      if (storage.made_again && is_free(storage)) storage.kind = MemoryKind::recomputed;
    }
    for (const ProgramOutput& output : program_.outputs) {
      if (Storage& storage = of(output.value); is_free(storage)) storage.kind = MemoryKind::output;
    }
  }

  // --- the curve ---

  // What is held: bytes by kind, and how many of each storage.
  class Held {
   public:
    explicit Held(const std::vector<Storage>& storages) : count(storages.size(), 0), storages_(&storages) {}

    void change(ProgramValueId owner, std::int64_t by) {
      const Storage& storage = (*storages_)[owner];
      bytes[storage.kind] += by * storage.bytes;
      count[owner] += by;
    }
    void repeat(std::int64_t repetitions, const Held& before) {
      for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) bytes.bytes[kind] += repetitions * (bytes.bytes[kind] - before.bytes.bytes[kind]);
      for (std::size_t owner = 0; owner < count.size(); ++owner) count[owner] += repetitions * (count[owner] - before.count[owner]);
    }

    MemorySplit bytes;
    std::vector<std::int64_t> count;  // by owner: storages of it that are held, one for each microbatch that has one

   private:
    const std::vector<Storage>* storages_;
  };

  // Besides what HeldStorages begins with: the optimizer's state, and the inputs of the microbatches that the shortened step leaves out.
  [[nodiscard]] Held at_start() const {
    Held held(storages_);
    held.bytes[MemoryKind::optimizer] = profile_.optimizer_bytes;
    for_inputs_left_out(program_, order_, [&](ProgramValueId value) { held.change(owners_[value], 1); });
    return held;
  }

  void draw() {
    Held held = at_start();
    profile_.curve.reserve(program_.instructions.size());  // of one microbatch
    walk(program_, order_, held, [&](std::size_t event) { if (is_backward(order_.events[event].phase)) count_saved(event, held); },
         [&](const Occurrence& at) {
           if (const std::int64_t bytes = held.bytes.sum(); profile_.curve.empty() || bytes > profile_.peak_bytes) {
             profile_.peak_bytes = bytes;
             profile_.peak = profile_.curve.size();
           }
           profile_.curve.push_back({at, held.bytes});
           return true;
         });
    if (profile_.curve.empty()) profile_.peak_bytes = held.bytes.sum();
    else explain_peak();
  }

  // As a backward begins: what its microbatch and others in flight have kept for theirs.
  void count_saved(std::size_t event, const Held& held) {
    std::int64_t begun = 0, ended = 0;
    for (std::size_t e = 0; e < event; ++e) {
      const std::int64_t microbatches = 1 + order_.microbatch_at(e);
      if (order_.events[e].phase == Phase::forward) begun = microbatches;
      if (ends_microbatch(order_.events[e].phase)) ended = microbatches;
    }
    const std::int64_t in_flight = begun - ended;
    std::int64_t inputs = 0;
    for (ProgramValueId id = 0; id < storages_.size(); ++id) {
      if (storages_[id].crosses && storages_[id].kind == MemoryKind::input) inputs += (program_.values[id].of_step ? 1 : in_flight) * storages_[id].bytes;
    }
    profile_.saved_bytes = std::max(profile_.saved_bytes, held.bytes[MemoryKind::activation] + inputs);
  }

  void explain_peak() {
    const Instruction& at = program_.instructions[profile_.curve[profile_.peak].at.instruction];
    profile_.peak_node = at.node.empty() ? at.name : at.node;
    std::size_t point = 0;
    Held held = at_start();
    walk(program_, order_, held, [](std::size_t) {}, [&](const Occurrence&) { return point++ != profile_.peak; });
    std::vector<HeldTensor>& tensors = profile_.peak_tensors;
    for (ProgramValueId id = 0; id < storages_.size(); ++id) {
      const Storage& storage = storages_[id];
      if (held.count[id] == 0 || storage.bytes == 0) continue;
      const std::string node = storage.node == kNoId ? "" : profile_.nodes[storage.node].name;
      tensors.push_back({program_.values[id].name, storage.kind, program_.local(id), held.count[id], held.count[id] * storage.bytes, node});
    }
    for (const ProgramParameter& parameter : program_.parameters) {
      if (HeldTensor state = optimizer_state(program_, parameter); state.bytes > 0) tensors.push_back(std::move(state));
    }
    std::sort(tensors.begin(), tensors.end(), [](const HeldTensor& a, const HeldTensor& b) {
      return std::tie(b.bytes, a.kind, a.name) < std::tie(a.bytes, b.kind, b.name);
    });
  }

  // --- nodes ---

  static bool is_parameters(const Storage& storage) {
    return storage.kind == MemoryKind::parameter || storage.kind == MemoryKind::gathered;
  }

  void sum_nodes() {
    for (const Storage& storage : storages_) {
      if (!storage.made || storage.node == kNoId) continue;
      NodeMemory& node = profile_.nodes[storage.node];
      const bool forward = storage.made_in == Phase::forward;
      const bool out = storage.read_by_others;
      (forward ? (out ? node.fwd_out : node.fwd_tmp) : (out ? node.bwd_out : node.bwd_tmp)) += storage.bytes;
      if (storage.kind == MemoryKind::activation) node.saved_bytes += storage.bytes;
    }
    for (std::uint32_t id = 0; id < read_.size(); ++id) {
      for (const ProgramValueId owner : read_[id].by_forward) {
        const std::vector<ProgramValueId>& again = read_[id].by_backward;
        const Storage& storage = storages_[owner];
        if ((storage.made && storage.node == id) || is_parameters(storage)) continue;
        if (std::find(again.begin(), again.end(), owner) != again.end()) profile_.nodes[id].fwd_in += storage.bytes;
      }
    }
  }

  // Storages that a node's computing reads, by their owners.
  struct Reads {
    std::vector<ProgramValueId> by_forward, by_backward;
  };

  const Program& program_;
  const ShortenedOrder order_;
  const std::vector<ProgramValueId> owners_;
  std::vector<Storage> storages_;  // by owner
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::uint32_t last_ = kNoId;  // the node that was asked for last
  std::vector<Reads> read_;  // by node
  MemoryProfile profile_;
};

}  // namespace

const char* name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::parameter:
      return "parameters";
    case MemoryKind::optimizer:
      return "optimizer state";
    case MemoryKind::gradient:
      return "gradients";
    case MemoryKind::gathered:
      return "gathered parameters";
    case MemoryKind::input:
      return "inputs";
    case MemoryKind::activation:
      return "saved activations";
    case MemoryKind::recomputed:
      return "recomputed activations";
    case MemoryKind::output:
      return "outputs";
    case MemoryKind::temporary:
      return "temporaries";
  }
  return "?";
}

std::int64_t MemorySplit::sum() const { return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}); }

MemoryProfile memory_profile(const Program& program) { return Profiling(program).run(); }

HeldBytes held_bytes(const Program& program) {
  const ShortenedOrder order = shortened(program.order);
  const std::vector<ProgramValueId> owners = storages(program);
  Total held(program);
  for (const ProgramParameter& parameter : program.parameters) held.bytes += optimizer_bytes(program, parameter);
  for_inputs_left_out(program, order, [&](ProgramValueId value) { held.change(owners[value], 1); });
  HeldBytes found;
  found.at_most.assign(program.instructions.size(), 0);
  walk(program, order, held, [](std::size_t) {}, [&](const Occurrence& at) {
    found.at_most[at.instruction] = std::max(found.at_most[at.instruction], held.bytes);
    found.peak = std::max(found.peak, held.bytes);
    return true;
  });
  return found;
}

}  // namespace meshwright
