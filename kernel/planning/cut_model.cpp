#include "cut_model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "meshwright/strategy.h"

namespace meshwright {

namespace {

class Cutter {
 public:
  Cutter(const Graph& graph, const std::vector<std::uint32_t>& stage_of, std::uint32_t stages)
      : graph_(graph), stage_of_(stage_of), stages_(stages), depends_(depends_on_parameters(graph)), uses_(stages), wanted_(stages) {}

  Result<CutModel> run() {
    if (Status status = find_uses(); !status) return status.error();
    if (Status status = place_mutations(); !status) return status.error();
    find_boundaries();
    for (std::uint32_t stage = 0; stage < stages_; ++stage) made_.graphs.push_back(graph_of(stage));
    return std::move(made_);
  }

 private:
  [[nodiscard]] bool is_bound(NodeId id) const { return depends_[graph_.nodes[id].results.front()]; }
  [[nodiscard]] std::string quoted(ValueId id) const { return "'" + graph_.values[id].name + "'"; }
  [[nodiscard]] static std::string number(std::uint32_t stage) { return "stage " + std::to_string(stage); }

  // Which values each stage uses, by what is bound to it.
  Status find_uses() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!is_bound(id)) continue;
      const std::uint32_t stage = stage_of_[id];
      has_nodes_.insert(stage);
      for (const Operand& operand : graph_.nodes[id].operands) {
        if (Status status = use(operand.value, stage); !status) return status;
      }
    }
    for (std::uint32_t stage = 0; stage < stages_; ++stage) {
      if (!has_nodes_.contains(stage)) return bad_input(number(stage) + " of " + std::to_string(stages_) + " would have nothing to compute; take fewer stages");
    }
    for (const Output& output : graph_.outputs) {
      if (output.kind != OutputKind::loss || !depends_[output.value]) continue;
      uses_[stage_of_value(output.value)].insert(output.value);
    }
    return Done{};
  }

  [[nodiscard]] std::uint32_t stage_of_value(ValueId id) const { return stage_of_[graph_.values[id].producer]; }

  Status use(ValueId id, std::uint32_t stage) {
    uses_[stage].insert(id);
    const NodeId producer = graph_.values[id].producer;
    if (!depends_[id]) {
      want(id, stage);
      return Done{};
    }
    if (producer == kNoId || stage_of_[producer] == stage) return Done{};
    if (stage_of_[producer] > stage) return internal_error(quoted(id) + " is made in " + number(stage_of_[producer]) + ", and used before that, in " + number(stage));
    if (graph_.values[id].requires_gradient) return Done{};
    return bad_input(quoted(id) + " is made of parameters in " + number(stage_of_[producer]) + ", has no gradient, and is used in " + number(stage) +
                     ": it cannot cross from stage to stage; keep its module in one stage by [pins], such as \"" + graph_.nodes[producer].module_path + "\" = \"" + number(stage) + "\"");
  }

  // A value that depends on no parameter, and what it is made of, in a stage that makes it by itself.
  void want(ValueId id, std::uint32_t stage) {
    if (!wanted_[stage].insert(id).second) return;
    const NodeId producer = graph_.values[id].producer;
    if (producer == kNoId) return;
    for (const Operand& operand : graph_.nodes[producer].operands) want(operand.value, stage);
  }

  // What a stage leaves in buffers, it alone reads.
  Status place_mutations() {
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Output& output = graph_.outputs[i];
      if (output.kind != OutputKind::buffer_mutation) continue;
      const NodeId producer = graph_.values[output.value].producer;
      const bool bound = producer != kNoId && depends_[output.value];
      const std::uint32_t stage = bound ? stage_of_[producer] : stage_of_module(producer);
      mutation_stage_[i] = stage;
      if (!bound) want(output.value, stage);
      for (std::uint32_t other = 0; other < stages_; ++other) {
        const auto is_read = [&](const Source& source) {
          return std::ranges::find(source.names, output.target) != source.names.end() && (wanted_[other].contains(source.value) || uses_[other].contains(source.value));
        };
        if (other != stage && std::ranges::any_of(graph_.sources, is_read)) {
          return bad_input("buffer '" + output.target + "' is changed in " + number(stage) + " and read in " + number(other) + ": a buffer belongs to one stage; keep its module in one by [pins]");
        }
      }
    }
    return Done{};
  }

  [[nodiscard]] std::uint32_t stage_of_module(NodeId producer) const {
    if (producer == kNoId) return 0;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (is_bound(id) && graph_.nodes[id].module_path == graph_.nodes[producer].module_path) return stage_of_[id];
    }
    return 0;
  }

  void find_boundaries() {
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (!depends_[id]) continue;
      const NodeId producer = graph_.values[id].producer;
      std::vector<std::uint32_t> users;
      for (std::uint32_t stage = 0; stage < stages_; ++stage) {
        if (uses_[stage].contains(id) && (producer == kNoId || stage_of_[producer] != stage)) users.push_back(stage);
      }
      if (producer == kNoId && users.size() > 1) made_.shared.push_back({parameter_name(id), users});
      if (producer != kNoId && !users.empty()) made_.boundaries.push_back({graph_.values[id].name, stage_of_[producer], users});
    }
  }

  [[nodiscard]] std::string parameter_name(ValueId id) const {
    const Source& source = *std::ranges::find(graph_.sources, id, &Source::value);
    return source.names.empty() ? graph_.values[id].name : source.names.front();
  }

  // --- one stage's graph ---

  Graph graph_of(std::uint32_t stage) {
    Graph made;
    made.name = graph_.name;
    std::map<ValueId, ValueId> now;
    const auto add_value = [&](ValueId id) {
      const auto [found, added] = now.try_emplace(id, static_cast<ValueId>(made.values.size()));
      if (!added) return found->second;
      made.values.push_back(graph_.values[id]);
      made.values.back().producer = kNoId;
      return found->second;
    };
    for (const Source& source : graph_.sources) {
      if (!uses_[stage].contains(source.value) && !wanted_[stage].contains(source.value)) continue;
      made.sources.push_back(source);
      made.sources.back().value = add_value(source.value);
    }
    for (const StageBoundary& boundary : made_.boundaries) {
      if (std::ranges::find(boundary.to, stage) == boundary.to.end()) continue;
      const auto value = std::ranges::find(graph_.values, boundary.value, &Value::name);
      made.sources.push_back({SourceKind::received, add_value(static_cast<ValueId>(value - graph_.values.begin())), {boundary.value}});
    }
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      const bool here = is_bound(id) ? stage_of_[id] == stage : std::ranges::any_of(node.results, [&](ValueId result) { return wanted_[stage].contains(result); });
      if (!here) continue;
      Node& copy = made.nodes.emplace_back(node);
      for (Operand& operand : copy.operands) operand.value = now.at(operand.value);
      for (ValueId& result : copy.results) {
        result = add_value(result);
        made.values[result].producer = static_cast<NodeId>(made.nodes.size() - 1);
      }
    }
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Output& output = graph_.outputs[i];
      const bool is_loss = output.kind == OutputKind::loss && stage_of_value(output.value) == stage;
      const bool is_mutation = output.kind == OutputKind::buffer_mutation && mutation_stage_.at(i) == stage;
      if (is_loss || is_mutation) made.outputs.push_back({output.kind, now.at(output.value), output.target});
    }
    for (const StageBoundary& boundary : made_.boundaries) {
      if (boundary.from != stage) continue;
      const auto value = std::ranges::find(made.values, boundary.value, &Value::name);
      made.outputs.push_back({OutputKind::sent, static_cast<ValueId>(value - made.values.begin()), ""});
    }
    mark_gradients(made);
    return made;
  }

  const Graph& graph_;
  const std::vector<std::uint32_t>& stage_of_;
  const std::uint32_t stages_;
  const std::vector<bool> depends_;
  std::vector<std::set<ValueId>> uses_;    // by stage: of what is bound to it
  std::vector<std::set<ValueId>> wanted_;  // by stage: what it makes by itself, sources among them
  std::set<std::uint32_t> has_nodes_;
  std::map<std::size_t, std::uint32_t> mutation_stage_;  // by output
  CutModel made_;
};

}  // namespace

StagePart CutModel::part_of(std::uint32_t stage) const {
  StagePart part{stage, {}, {}};
  const auto has = [&](const std::vector<std::uint32_t>& list) { return std::ranges::find(list, stage) != list.end(); };
  std::ranges::copy_if(boundaries, std::back_inserter(part.boundaries), [&](const StageBoundary& boundary) { return boundary.from == stage || has(boundary.to); });
  std::ranges::copy_if(shared, std::back_inserter(part.shared), [&](const SharedParameter& parameter) { return has(parameter.stages); });
  return part;
}

std::vector<bool> depends_on_parameters(const Graph& graph) {
  std::vector<bool> depends(graph.values.size(), false);
  for (const Source& source : graph.sources) depends[source.value] = source.kind == SourceKind::parameter || graph.values[source.value].requires_gradient;
  for (const Node& node : graph.nodes) {
    const bool any = std::ranges::any_of(node.operands, [&](const Operand& operand) { return depends[operand.value]; });
    for (const ValueId result : node.results) depends[result] = any;
  }
  return depends;
}

Result<CutModel> cut_model(const Graph& graph, const std::vector<std::uint32_t>& stage_of, std::uint32_t stages) {
  return Cutter(graph, stage_of, stages).run();
}

std::map<std::string, std::uint32_t> stages_by_node(std::span<const Plan> stages) {
  std::map<std::string, std::uint32_t> stage_of;
  for (const Plan& plan : stages) {
    for (const Node& node : plan.graph().nodes) stage_of.emplace(node.name, plan.part.stage);
  }
  return stage_of;
}

void find_batches(const ModelAnalysis& whole, std::vector<StageBoundary>& boundaries) {
  const std::set<std::uint32_t> batch = batch_atoms(whole, nullptr);
  for (StageBoundary& boundary : boundaries) {
    const auto value = static_cast<ValueId>(std::ranges::find(whole.graph->values, boundary.value, &Value::name) - whole.graph->values.begin());
    const AtomShape& shape = whole.atoms->values[value];
    const std::vector<std::uint32_t>& classes = whole.atoms->classes[value];
    for (std::uint32_t dimension = 0; dimension < shape.atoms_of_dimension.size() && !boundary.batch; ++dimension) {
      const std::size_t first = shape.first_atom(dimension), count = shape.atoms_of_dimension[dimension];
      if (count == 0 || !batch.contains(classes[first])) continue;
      const bool alone = std::all_of(classes.begin() + static_cast<std::ptrdiff_t>(first), classes.begin() + static_cast<std::ptrdiff_t>(first + count), [&](std::uint32_t atom) { return batch.contains(atom); });
      boundary.batch = {dimension, alone};
    }
  }
}

}  // namespace meshwright
