#include "plan/plan_index.h"

#include <algorithm>

namespace meshwright {

PlanIndex::PlanIndex(const Plan& plan) : PlanIndex(plan, Reads::all) {}

PlanIndex PlanIndex::of_variables(const Plan& plan) { return {plan, Reads::variables}; }

PlanIndex::PlanIndex(const Plan& plan, Reads reads) : plan_(plan), nodes_(plan.graph().nodes.size(), kNoId) {
  for (std::uint32_t i = 0; i < plan.variables.size(); ++i) {
    const PlannedVariable& variable = plan.variables[i];
    if (const PlannedNode* node = variable.node()) nodes_[node->node] = i;
    else if (const PlannedParameter* parameter = variable.parameter()) parameters_[parameter->value] = i;
    else if (const auto* fork = std::get_if<PlannedFork>(&variable.choice)) forks_[fork->value] = i;
    else outputs_[std::get<PlannedOutput>(variable.choice).value] = i;
  }
  if (reads == Reads::variables) return;
  for (std::uint32_t i = 0; i < plan.conversions.size(); ++i) add(plan.conversions[i], i);
  for (const PlannedConstant& constant : plan.constants) add(constant);
}

const PlannedNode* PlanIndex::node(NodeId id) const { return variable_of(id) == kNoId ? nullptr : plan_.variables[nodes_[id]].node(); }

const PlannedParameter* PlanIndex::parameter(ValueId id) const {
  const auto found = parameters_.find(id);
  return found == parameters_.end() ? nullptr : plan_.variables[found->second].parameter();
}

const PlannedFork* PlanIndex::fork(ValueId id) const {
  const auto found = forks_.find(id);
  return found == forks_.end() ? nullptr : std::get_if<PlannedFork>(&plan_.variables[found->second].choice);
}

const PlannedOutput* PlanIndex::output(ValueId id) const {
  const auto found = outputs_.find(id);
  return found == outputs_.end() ? nullptr : std::get_if<PlannedOutput>(&plan_.variables[found->second].choice);
}

PlanIndex::Origin PlanIndex::origin(ValueId id) const {
  if (const PlannedFork* settled = fork(id)) return {forks_.at(id), settled->layouts, false};
  return maker(id);
}

PlanIndex::Origin PlanIndex::maker(ValueId id) const {
  if (const PlannedParameter* stored = parameter(id)) return {parameters_.at(id), stored->stored, true};
  const NodeId producer = id < plan_.graph().values.size() ? plan_.graph().values[id].producer : kNoId;
  const PlannedNode* made = producer == kNoId ? nullptr : node(producer);
  if (made == nullptr) return {};
  const std::vector<ValueId>& results = plan_.graph().nodes[producer].results;
  const auto port = static_cast<std::size_t>(std::find(results.begin(), results.end(), id) - results.begin());
  return {nodes_[producer], made->call.results[port], false};
}

PlanIndex::Key PlanIndex::key_of(const PlannedConversion& conversion) {
  const bool gradient = conversion.gradient;
  return {conversion.value, conversion.hides, gradient ? conversion.from : 0, gradient ? conversion.to_port : 0, conversion.source, conversion.target};
}

std::uint32_t PlanIndex::conversion(ValueId value, bool hides, const Layout& from, const Layout& to) const {
  const auto found = conversions_.find({value, hides, 0, 0, from, to});
  return found == conversions_.end() ? kNoId : found->second;
}

std::uint32_t PlanIndex::gradient_conversion(ValueId value, std::uint32_t user, std::uint32_t port, const Layout& from, const Layout& to) const {
  for (const bool hides : {false, true}) {
    const auto found = gradients_.find({value, hides, user, port, from, to});
    if (found != gradients_.end()) return found->second;
  }
  return kNoId;
}

const CallLayouts* PlanIndex::constant(ValueId value, const Layout& wanted) const {
  const auto found = constants_.find({value, wanted});
  return found == constants_.end() ? nullptr : &found->second;
}

bool PlanIndex::add(const PlannedConversion& conversion, std::uint32_t index) {
  return (conversion.gradient ? gradients_ : conversions_).try_emplace(key_of(conversion), index).second;
}

bool PlanIndex::add(const PlannedConstant& constant) { return constants_.try_emplace({constant.value, constant.wanted}, constant.made).second; }

}  // namespace meshwright
