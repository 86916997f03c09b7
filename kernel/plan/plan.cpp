#include "meshwright/plan.h"

#include <numeric>

namespace meshwright {

double PlannedConversion::seconds() const {
  return std::accumulate(moves.begin(), moves.end(), 0.0, [](double sum, const PlannedMove& move) { return sum + move.seconds; });
}

const std::string& value_name(const Graph& graph, ValueId value) {
  if (graph.values[value].producer != kNoId) return graph.values[value].name;
  for (const Source& source : graph.sources) {
    if (source.value == value && source.kind == SourceKind::parameter && !source.names.empty()) return source.names[0];
  }
  return graph.values[value].name;
}

const AtomShape& Plan::shape(ValueId value) const { return training_atoms(model).values[value]; }

const TensorType& Plan::type(ValueId value) const { return training_graph(model).type(value); }

const std::string& Plan::name(ValueId value) const {
  return value < graph().values.size() ? value_name(graph(), value) : training_graph(model).values[value].name;
}

std::string Plan::name(const PlannedVariable& variable) const {
  if (const PlannedNode* node = variable.node()) return graph().nodes[node->node].name;
  if (const PlannedParameter* parameter = variable.parameter()) return name(parameter->value);
  if (const auto* fork = std::get_if<PlannedFork>(&variable.choice)) return graph().values[fork->value].name;
  return "output " + graph().values[std::get<PlannedOutput>(variable.choice).value].name;
}

std::string Plan::module(const PlannedVariable& variable) const {
  if (const PlannedNode* node = variable.node()) return graph().nodes[node->node].module_path;
  if (variable.parameter() == nullptr) return "";
  const std::string& path = name(variable.parameter()->value);
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

namespace {

std::int64_t element_bytes(const Plan& plan, const PlannedConversion& conversion) {
  return converted_element_bytes(plan.training, plan.type(conversion.value).dtype, conversion.hides, conversion.gradient);
}

}  // namespace

ConversionProblem Plan::problem(const PlannedConversion& conversion, const CostProfile& profile) const {
  return {mesh, shape(conversion.value), profile, element_bytes(*this, conversion), conversion.hides};
}

std::int64_t Plan::local_bytes(const PlannedConversion& conversion, const Layout& layout) const {
  return meshwright::local_bytes(layout, shape(conversion.value), mesh, element_bytes(*this, conversion));
}

bool same_choice(const PlannedVariable& a, const PlannedVariable& b) {
  if (a.choice.index() != b.choice.index()) return false;
  if (const PlannedNode* node = a.node()) return node->node == b.node()->node && node->call == b.node()->call;
  if (const PlannedParameter* parameter = a.parameter()) return *parameter == *b.parameter();
  if (const auto* fork = std::get_if<PlannedFork>(&a.choice)) {
    const auto& other = std::get<PlannedFork>(b.choice);
    return fork->value == other.value && fork->layouts == other.layouts;
  }
  const auto &output = std::get<PlannedOutput>(a.choice), &other = std::get<PlannedOutput>(b.choice);
  return output.value == other.value && output.layouts == other.layouts;
}

}  // namespace meshwright
