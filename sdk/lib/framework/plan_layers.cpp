#include "plan_layers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "meshwright/gather_units.h"
#include "meshwright/recompute.h"
#include "stage_use.h"

namespace meshwright::framework {

namespace {

bool has_word(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

// "attn" of "transformer.h.3.attn.c_proj" in "transformer.h.3"; "" of what the layer does itself.
std::string submodule_of(const std::string& path, const std::string& layer) {
  if (path.size() <= layer.size() + 1) return "";
  const std::string rest = path.substr(layer.size() + 1);
  return rest.substr(0, rest.find('.'));
}

// "transformer.h" of "transformer.h.3", "encoder.layers.encoder_layer" of "encoder.layers.encoder_layer_3".
std::string list_of(std::string name) {
  while (!name.empty() && (name.back() == '.' || name.back() == '_' || (name.back() >= '0' && name.back() <= '9'))) name.pop_back();
  return name;
}

// The part of a layer that lies in one stage.
class LayerReader {
 public:
  LayerReader(const Plan& plan, const std::vector<bool>& weights, std::vector<NodeId> nodes, std::string layer) : plan_(plan), weights_(weights), nodes_(std::move(nodes)), layer_(std::move(layer)) {
    for (const NodeId id : nodes_) {
      const std::string module = submodule_of(node(id).module_path, layer_);
      if (has_experts(plan_, id)) with_experts_.insert(module);
      else if (is_attention(id)) with_attention_.insert(module);
      else if (has_weights(id)) with_weights_.insert(module);
    }
  }

  [[nodiscard]] bool has_weights(NodeId id) const {
    return std::ranges::any_of(node(id).operands, [&](const Operand& operand) { return weights_[operand.value]; });
  }

  // Products of what is no weight, and what lies between them.
  [[nodiscard]] bool is_attention(NodeId id) const {
    const std::string& op = node(id).op;
    if (has_word(op, "attention") || has_word(op, "softmax")) return true;
    return (op == "aten.bmm" || op == "aten.matmul") && !has_weights(id);
  }

  [[nodiscard]] LayerPart part_of(NodeId id) const {
    const std::string module = submodule_of(node(id).module_path, layer_);
    if (has_experts(plan_, id) || (!module.empty() && with_experts_.contains(module))) return LayerPart::experts;
    if (is_attention(id)) return LayerPart::attention;
    if (has_word(node(id).op, "norm")) return LayerPart::norm;
    if (!module.empty() && with_weights_.contains(module) && !with_attention_.contains(module)) return LayerPart::mlp;
    return LayerPart::other;
  }

 private:
  [[nodiscard]] const Node& node(NodeId id) const { return plan_.graph().nodes[id]; }

  const Plan& plan_;
  const std::vector<bool>& weights_;
  const std::vector<NodeId> nodes_;
  const std::string layer_;
  std::set<std::string> with_experts_, with_attention_, with_weights_;
};

class LayersReader {
 public:
  explicit LayersReader(std::span<const Plan* const> stages) : stages_(stages) {}

  Result<PlanLayers> read() {
    for (std::uint32_t stage = 0; stage < stages_.size(); ++stage) {
      if (Status status = read_stage(*stages_[stage], stage); !status) return status.error();
    }
    for (std::size_t i = 0; i < made_.layers.size(); ++i) {
      Layer& layer = made_.layers[i];
      const std::map<std::uint32_t, double>& seconds = seconds_[i];
      layer.stage = std::ranges::max_element(seconds, {}, [](const auto& of) { return of.second; })->first;
      layer.is_split = seconds.size() > 1;
      const std::string list = list_of(layer.name);
      if (std::ranges::find(made_.lists, list) == made_.lists.end()) made_.lists.push_back(list);
    }
    return std::move(made_);
  }

 private:
  Status read_stage(const Plan& plan, std::uint32_t stage) {
    const Graph& graph = plan.graph();
    Recomputation again;
    if (!plan.recomputed.empty()) {
      Result<Recomputation> made = recomputation(plan.model, plan.recomputed);
      if (!made) return made.error();
      again = std::move(*made);
    }
    made_.converted_again += static_cast<std::int64_t>(again.converted_again.size());
    std::map<NodeId, double> forward, all;
    for (const PlannedVariable& variable : plan.variables) {
      if (const PlannedNode* node = variable.node()) {
        forward[node->node] = variable.forward_seconds;
        all[node->node] = variable.forward_seconds + variable.backward_seconds;
      }
    }
    std::map<std::string, std::vector<NodeId>> nodes;
    std::vector<std::string> order;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      if (!all.contains(id)) continue;
      const std::string layer = block_of(graph.nodes[id].module_path);
      if (layer.empty()) {
        if (again.runs(id)) made_.again_outside_seconds += forward[id];
        continue;
      }
      if (!nodes.contains(layer)) order.push_back(layer);
      nodes[layer].push_back(id);
    }
    const std::vector<bool> weights = weights_of(graph);
    const std::set<std::string> named(plan.recomputed.begin(), plan.recomputed.end());
    for (const std::string& name : order) {
      const LayerReader reader(plan, weights, nodes[name], name);
      const bool is_new = !numbers_.contains(name);
      Layer& layer = layer_of(name);
      const bool here = named.contains(name);
      layer.all_again = here && (is_new || layer.all_again);
      double& seconds = seconds_[numbers_[name]][stage];
      std::array<int, kLayerParts> again_ops{}, ops{};
      for (const NodeId id : nodes[name]) {
        seconds += all[id];
        const auto part = static_cast<std::size_t>(reader.part_of(id));
        PartOps& of = layer.parts[part];
        const bool runs = again.runs(id);
        if (runs) of.again_seconds += forward[id];
        if (plan.model.backward && plan.model.backward->memory.nodes[id].view) continue;
        of.ops.push_back(graph.nodes[id].name);
        const bool is_product = reader.has_weights(id) || reader.is_attention(id) || has_experts(plan, id);
        if (is_product && static_cast<LayerPart>(part) != LayerPart::norm) layer.products.push_back(graph.nodes[id].name);
        ++ops[part];
        if (runs) ++again_ops[part];
        if (runs && is_product && static_cast<LayerPart>(part) != LayerPart::norm) of.runs_again = true;
      }
      const auto norm = static_cast<std::size_t>(LayerPart::norm);
      if (2 * again_ops[norm] > ops[norm]) layer.parts[norm].runs_again = true;
    }
    return Done{};
  }

  Layer& layer_of(const std::string& name) {
    const auto [number, is_new] = numbers_.try_emplace(name, made_.layers.size());
    if (is_new) {
      made_.layers.push_back({name, 0, false, false, {}, {}});
      seconds_.emplace_back();
    }
    return made_.layers[number->second];
  }

  const std::span<const Plan* const> stages_;
  PlanLayers made_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::map<std::uint32_t, double>> seconds_;  // by layer and stage
};

}  // namespace

bool Layer::any_again() const {
  return all_again || std::ranges::any_of(parts, [](const PartOps& part) { return part.again_seconds > 0; });
}

Result<PlanLayers> layers_of(std::span<const Plan* const> stages) { return LayersReader(stages).read(); }

}  // namespace meshwright::framework
