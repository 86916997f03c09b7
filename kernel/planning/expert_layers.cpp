#include "expert_layers.h"

namespace meshwright {

std::vector<ExpertLayer> expert_layers(const ModelAnalysis& model) {
  std::vector<ExpertLayer> layers;
  for (NodeId id = 0; id < model.atoms->nodes.size(); ++id) {
    const AtomizedNode& node = model.atoms->nodes[id];
    if (node.ruled && !node.rule.exchanges.empty()) layers.push_back({model.graph->nodes[id].name, node.rule.factors[node.rule.exchanges.front().to].size});
  }
  return layers;
}

Status check_expert_axes(const ModelAnalysis& model, const Config& search) {
  if (search.text("expert_axes") == "none" || !expert_layers(model).empty()) return Done{};
  return bad_input("\"expert_axes\" in [search] is \"" + search.text("expert_axes") + "\", but the model has no layer of experts that is known as one; leave it out");
}

}  // namespace meshwright
