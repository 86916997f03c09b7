#include <algorithm>
#include <ranges>

#include "rule/foreign_gradient.h"
#include "meshwright/training_graph.h"

namespace meshwright {

namespace {

class Differentiator {
 public:
  // `wanted`: by value of the forward, whether its gradient is.
  Differentiator(const Graph& forward, const OpTable& ops, const std::vector<bool>& wanted)
      : forward_(forward), ops_(ops), wanted_(wanted), build_(made_.graph, "grad_") {}

  Result<TrainingGraph> run() {
    made_.graph = forward_;
    made_.first_backward = static_cast<NodeId>(forward_.nodes.size());
    made_.gradients.assign(forward_.values.size(), kNoId);
    made_.contributions.resize(forward_.nodes.size());
    made_.sums.resize(forward_.values.size());
    if (Status status = seed(); !status) return status.error();
    for (NodeId id = made_.first_backward; id-- > 0;) {
      if (Status status = visit(id); !status) return status.error();
    }
    find_saved();
    return std::move(made_);
  }

 private:
  // The loss' gradient is 1; what is sent to other stages has the gradient that they send back, for which a tensor of ones stands here.
  Status seed() {
    for (const OutputKind kind : {OutputKind::loss, OutputKind::sent}) {
      for (const Output& output : forward_.outputs) {
        if (output.kind != kind || made_.gradients[output.value] != kNoId) continue;
        made_.gradients[output.value] = build_.emit("aten.ones", {}, {}, forward_.type(output.value));
        own(kNoId);
        if (kind == OutputKind::loss) break;
      }
    }
    if (made_.graph.nodes.size() > made_.first_backward) return Done{};
    return bad_input("graph '" + forward_.name + "' has no loss: training needs one output that is a differentiable scalar");
  }

  Status visit(NodeId id) {
    const Node& node = forward_.nodes[id];
    std::vector<ValueId> result_gradients;
    for (const ValueId result : node.results) result_gradients.push_back(made_.gradients[result]);
    if (std::all_of(result_gradients.begin(), result_gradients.end(), [](ValueId g) { return g == kNoId; })) return Done{};
    std::vector<bool> wanted;
    for (const Operand& operand : node.operands) wanted.push_back(wanted_[operand.value]);
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return Done{};
    build_.set_module_path(node.module_path);
    Result<std::vector<ValueId>> gradients = gradients_of({node, result_gradients, wanted, build_});
    if (!gradients) return gradients.error();
    own(id);
    made_.contributions[id] = *gradients;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] && (*gradients)[i] != kNoId) accumulate(node.operands[i].value, (*gradients)[i]);
    }
    own(kNoId);
    return Done{};
  }

  // What the op's family states; PyTorch's own gradient where it states none.
  Result<std::vector<ValueId>> gradients_of(const GradientCall& call) {
    const OpFamily* family = ops_.find(call.node.op);
    if (family == nullptr || has_complex(make_call(made_.graph, call.node))) return foreign_gradient(call);
    const std::size_t nodes = made_.graph.nodes.size(), values = made_.graph.values.size();
    Result<std::vector<ValueId>> gradients = family->gradient(call);
    if (gradients || gradients.error().code != ErrorCode::bad_input) return gradients;
    made_.graph.nodes.resize(nodes);
    made_.graph.values.resize(values);
    return foreign_gradient(call);
  }

  // Several uses of a value add their gradients, the later use first.
  void accumulate(ValueId value, ValueId gradient) {
    ValueId& sum = made_.gradients[value];
    if (sum != kNoId) {
      made_.sums[value].push_back(static_cast<NodeId>(made_.graph.nodes.size()));
      gradient = build_.emit("aten.add.Tensor", {{"self", sum}, {"other", gradient}}, {}, forward_.type(value));
    }
    sum = gradient;
  }

  // Notes whose the nodes are that were emitted since the last call.
  void own(NodeId id) { made_.forward_of.resize(made_.graph.nodes.size() - made_.first_backward, id); }

  void find_saved() {
    std::vector<bool> used(forward_.values.size(), false);
    for (NodeId id = made_.first_backward; id < made_.graph.nodes.size(); ++id) {
      for (const Operand& operand : made_.graph.nodes[id].operands) {
        if (operand.value < used.size()) used[operand.value] = true;
      }
    }
    for (ValueId id = 0; id < used.size(); ++id) {
      if (used[id]) made_.saved.push_back(id);
    }
  }

  const Graph& forward_;
  const OpTable& ops_;
  const std::vector<bool>& wanted_;
  TrainingGraph made_;
  GraphBuilder build_;
};

// By value of the forward: whether the backward of what made it computes a source's gradient, or it is a source.
std::vector<bool> reaching_sources(const TrainingGraph& training) {
  const Graph& graph = training.graph;
  std::vector<bool> reaches(training.gradients.size(), false);
  for (const Source& source : graph.sources) reaches[source.value] = graph.values[source.value].requires_gradient;
  for (NodeId id = 0; id < training.first_backward; ++id) {
    const std::vector<ValueId>& contributions = training.contributions[id];
    bool passes = false;
    for (std::size_t i = 0; i < contributions.size(); ++i) passes |= contributions[i] != kNoId && reaches[graph.nodes[id].operands[i].value];
    for (const ValueId result : graph.nodes[id].results) reaches[result] = passes;
  }
  return reaches;
}

}  // namespace

std::vector<std::vector<NodeId>> nodes_of_gradients(const TrainingGraph& training) {
  std::vector<std::vector<NodeId>> nodes(training.first_backward);
  for (std::size_t i = 0; i < training.forward_of.size(); ++i) {
    if (training.forward_of[i] != kNoId) nodes[training.forward_of[i]].push_back(training.first_backward + static_cast<NodeId>(i));
  }
  return nodes;
}

Result<TrainingGraph> differentiate(const Graph& forward, const OpTable& ops) {
  std::vector<bool> wanted;
  for (const Value& value : forward.values) wanted.push_back(value.requires_gradient);
  Result<TrainingGraph> made = Differentiator(forward, ops, wanted).run();
  if (!made) return made;
  // Only the families know which gradients an op passes on; those that reach no source are left out the second time.
  const std::vector<bool> reaching = reaching_sources(*made);
  const auto is_idle = [&](ValueId id) { return made->gradients[id] != kNoId && wanted[id] && !reaching[id]; };
  if (std::ranges::none_of(std::views::iota(ValueId{0}, static_cast<ValueId>(wanted.size())), is_idle)) return made;
  return Differentiator(forward, ops, reaching).run();
}

}  // namespace meshwright
