#include "unit_costs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "meshwright/memory_profile.h"
#include "meshwright/timeline.h"

namespace meshwright {

namespace {

constexpr double UnitCost::*kSums[] = {&UnitCost::forward_seconds,         &UnitCost::input_gradient_seconds,  &UnitCost::weight_gradient_seconds, &UnitCost::update_seconds, &UnitCost::forward_beside_seconds,
                                       &UnitCost::backward_beside_seconds, &UnitCost::weight_beside_seconds,   &UnitCost::last_beside_seconds,     &UnitCost::wait_seconds,   &UnitCost::resident_bytes,
                                       &UnitCost::saved_bytes};

class UnitMeter {
 public:
  UnitMeter(const Plan& plan, const Program& program, const ModelUnits& units) : plan_(plan), program_(program), units_(units), unit_of_node_(unit_of_nodes(plan.graph(), units)), costs_(units.units.size()) {
    for (NodeId id = 0; id < plan.graph().nodes.size(); ++id) unit_of_name_.emplace(plan.graph().nodes[id].name, unit_of_node_[id]);
    for (const ProgramParameter& parameter : program.parameters) unit_of_parameter_.push_back(first_use(parameter.source));
    for (const Instruction& instruction : program.instructions) unit_of_.push_back(unit_of(instruction));
  }

  Result<std::vector<UnitCost>> run(const OpTable& ops, const CostProfile& profile) {
    add_parameters();
    add_memory();
    const Result<Timeline> times = make_timeline(program_, ops, profile);
    if (!times) return times.error();
    find_weight_gradients();
    add_times(*times);
    return by_kind();
  }

 private:
  [[nodiscard]] std::uint32_t last() const { return static_cast<std::uint32_t>(costs_.size()) - 1; }

  [[nodiscard]] std::uint32_t first_use(ValueId value) const {
    for (NodeId id = 0; id < plan_.graph().nodes.size(); ++id) {
      for (const Operand& operand : plan_.graph().nodes[id].operands) {
        if (operand.value == value) return unit_of_node_[id];
      }
    }
    return 0;
  }

  [[nodiscard]] std::uint32_t unit_of(const Instruction& instruction) const {
    const auto node = unit_of_name_.find(instruction.node);
    if (node != unit_of_name_.end()) return node->second;
    return instruction.parameter != kNoId ? unit_of_parameter_[instruction.parameter] : last();
  }

  void add_parameters() {
    for (const PlannedVariable& variable : plan_.variables) {
      if (const PlannedParameter* parameter = variable.parameter()) costs_[first_use(parameter->value)].resident_bytes += static_cast<double>(variable.state_bytes + variable.gradient_bytes);
    }
  }

  void add_memory() {
    const MemoryProfile memory = memory_profile(program_);
    for (const NodeMemory& node : memory.nodes) {
      const auto unit = unit_of_name_.find(node.name);
      if (unit != unit_of_name_.end()) costs_[unit->second].saved_bytes += static_cast<double>(node.saved_bytes);
    }
    for (const MemoryProfile::Point& point : memory.curve) {
      const Instruction& instruction = program_.instructions[point.at.instruction];
      if (instruction.phase == Phase::update || instruction.kind() == InstructionKind::free) continue;
      const MemorySplit& held = point.held;
      const std::int64_t passing = held[MemoryKind::gathered] + held[MemoryKind::recomputed] + held[MemoryKind::temporary] + held[MemoryKind::output];
      double& most = costs_[unit_of_[point.at.instruction]].passing_bytes;
      most = std::max(most, static_cast<double>(passing));
    }
  }

  // Of a unit's backward, what is not needed for what it hands to another one.
  void find_weight_gradients() {
    std::vector<bool> asked(program_.values.size(), false);
    std::vector<std::uint32_t> made_by(program_.values.size(), kNoId);
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (!is_backward(instruction.phase) || instruction.kind() == InstructionKind::free) continue;
      for (const ProgramOperand& operand : instruction.operands) asked[operand.value] = asked[operand.value] || (made_by[operand.value] != kNoId && made_by[operand.value] != unit_of_[i]);
      for (const ProgramValueId result : instruction.results) made_by[result] = unit_of_[i];
    }
    of_weights_.assign(program_.instructions.size(), false);
    for (std::size_t i = program_.instructions.size(); i-- > 0;) {
      const Instruction& instruction = program_.instructions[i];
      if (!is_backward(instruction.phase) || instruction.kind() == InstructionKind::free) continue;
      const bool is_asked = std::ranges::any_of(instruction.results, [&](ProgramValueId value) { return asked[value]; });
      of_weights_[i] = !is_asked && !instruction.again;
      if (of_weights_[i]) continue;
      for (const ProgramOperand& operand : instruction.operands) asked[operand.value] = true;
    }
  }

  // What passes on the compute stream from the end of one instruction to that of the next, waiting included, is the latter's. Of the second microbatch, if there are several.
  void add_times(const Timeline& times) {
    const std::int64_t microbatch = std::min<std::int64_t>(1, program_.order.microbatches - 1);
    Ticks before = 0;
    std::optional<Ticks> updates;  // begin
    Ticks computed = 0;            // before they do
    for (const Span& span : times.spans) {
      if (span.stream != Stream::compute) {
        add_beside(span, microbatch);
        continue;
      }
      if (program_.instructions[span.at.instruction].kind() == InstructionKind::free) continue;
      const Ticks end = std::exchange(before, span.end());
      const double seconds = to_seconds(span.end() - end);
      const Instruction& instruction = program_.instructions[span.at.instruction];
      UnitCost& cost = costs_[unit_of_[span.at.instruction]];
      if (instruction.phase == Phase::update) {
        cost.update_seconds += updates ? seconds : span.seconds();
        if (!updates && instruction.kind() == InstructionKind::update) updates = span.start, computed = end;
      } else if (span.at.microbatch == microbatch) {
        if (instruction.phase == Phase::forward) cost.forward_seconds += seconds;
        else (of_weights_[span.at.instruction] ? cost.weight_gradient_seconds : cost.input_gradient_seconds) += seconds;
      }
    }
    for (const Span& span : times.spans) {
      const Ticks waits = updates && span.stream != Stream::compute ? std::min(span.end(), *updates) - std::max(span.start, computed) : 0;
      if (waits > 0) costs_[unit_of_[span.at.instruction]].wait_seconds += to_seconds(waits);
    }
  }

  void add_beside(const Span& span, std::int64_t microbatch) {
    const Phase phase = program_.instructions[span.at.instruction].phase;
    UnitCost& cost = costs_[unit_of_[span.at.instruction]];
    if (phase == Phase::forward && span.at.microbatch == microbatch) cost.forward_beside_seconds += span.seconds();
    if (!is_backward(phase)) return;
    if (span.at.microbatch == microbatch) {
      cost.backward_beside_seconds += span.seconds();
      if (of_weights_[span.at.instruction]) cost.weight_beside_seconds += span.seconds();
    }
    if (span.at.microbatch == program_.order.microbatches - 1) cost.last_beside_seconds += span.seconds();
  }

  [[nodiscard]] std::vector<UnitCost> by_kind() const {
    std::vector<UnitCost> mean(units_.kinds);
    std::vector<double> count(units_.kinds, 0);
    for (const ModelUnit& unit : units_.units) ++count[unit.kind];
    for (std::size_t u = 0; u < costs_.size(); ++u) {
      const std::uint32_t kind = units_.units[u].kind;
      mean[kind] = mean[kind] + costs_[u] * (1 / count[kind]);
    }
    return mean;
  }

  const Plan& plan_;
  const Program& program_;
  const ModelUnits& units_;
  const std::vector<std::uint32_t> unit_of_node_;
  std::map<std::string, std::uint32_t> unit_of_name_;  // by node
  std::vector<std::uint32_t> unit_of_parameter_, unit_of_;  // by parameter; by instruction
  std::vector<bool> of_weights_;                       // by instruction
  std::vector<UnitCost> costs_;                        // by unit
};

}  // namespace

UnitCost operator+(UnitCost one, const UnitCost& other) {
  for (double UnitCost::*figure : kSums) one.*figure += other.*figure;
  one.passing_bytes = std::max(one.passing_bytes, other.passing_bytes);
  return one;
}

UnitCost operator*(UnitCost cost, double factor) {
  for (double UnitCost::*figure : kSums) cost.*figure *= factor;
  return cost;
}

std::string measured_order(std::int64_t microbatches) {
  if (microbatches == 1) return "";
  std::string text = "F0";
  for (std::int64_t i = 1; i < microbatches; ++i) text += " F" + std::to_string(i) + " B" + std::to_string(i - 1);
  return text + " B" + std::to_string(microbatches - 1);
}

Result<std::vector<UnitCost>> unit_costs(const Plan& plan, const Program& program, const ModelUnits& units, const OpTable& ops, const CostProfile& profile) {
  return UnitMeter(plan, program, units).run(ops, profile);
}

}  // namespace meshwright
