#include "model_flops.h"

#include <algorithm>
#include <string>
#include <vector>

#include "meshwright/call_price.h"
#include "meshwright/cost.h"

namespace meshwright {

namespace {

double points_of(const WorkTerm& term, const Rule& rule) {
  double points = 1;
  for (const FactorId factor : term.factors) points *= static_cast<double>(rule.factors[factor].size);
  return term.is_causal ? points / 2 : points;
}

// Of a term of fused attention, which computes more than the model asks for: the products, which sum over more than the scores are, and not the softmax beside them. Of three products of
// its backward over a head's size the first one makes the scores again.
double asked_share(const OpCost& cost, const WorkTerm& term) {
  const auto fewest = std::ranges::min(cost.forward, {}, [](const WorkTerm& each) { return each.factors.size(); }).factors.size();
  if (term.factors.size() == fewest) return 0;
  const bool over_head = std::ranges::find(term.factors, cost.attention->head) != term.factors.end();
  return cost.attention->is_backward && over_head ? 2.0 / 3 : 1;
}

double flops_of_node(const AtomizedNode& node) {
  if (!node.cost.matrix || node.cost.alias) return 0;
  double flops = 0;
  for (const WorkTerm& term : node.cost.forward) flops += term.flops * points_of(term, node.rule) * (node.cost.attention ? asked_share(node.cost, term) : 1);
  return flops;
}

DType product_dtype(const Graph& graph, const Node& node) {
  std::vector<DType> operands, results;
  for (const Operand& operand : node.operands) operands.push_back(graph.type(operand.value).dtype);
  for (const ValueId result : node.results) results.push_back(graph.type(result).dtype);
  return computing_dtype(operands, results);
}

}  // namespace

double ModelFlops::sum() const {
  double sum = 0;
  for (const auto& [dtype, flops] : by_dtype) sum += flops;
  return sum;
}

Result<ModelFlops> model_flops(const ModelAnalysis& model, const TrainingSettings& training) {
  if (model.backward == nullptr) return bad_input("the model has no backward: " + model.no_backward.message);
  const Graph& graph = training_graph(model);
  const AtomizedGraph& atoms = training_atoms(model);
  ModelFlops made;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (!atoms.nodes[id].ruled) ++made.unruled;
    const double flops = flops_of_node(atoms.nodes[id]) * static_cast<double>(training.microbatches);
    if (flops > 0) made.by_dtype[product_dtype(graph, graph.nodes[id])] += flops;
  }
  return made;
}

Result<double> seconds_at_peak(const ModelFlops& flops, const DeviceSpec& device, const TrainingSettings& training) {
  const DeviceSpec trained = for_training({.device = device}, training).device;
  double seconds = 0;
  for (const auto& [dtype, count] : flops.by_dtype) {
    const auto peak = trained.matrix_flops_per_second.find(dtype);
    if (peak == trained.matrix_flops_per_second.end()) return bad_input("device '" + device.name + "' states no peak of " + std::string(name(dtype)) + " matrix products, which the model has");
    seconds += count / peak->second;
  }
  return seconds;
}

}  // namespace meshwright
