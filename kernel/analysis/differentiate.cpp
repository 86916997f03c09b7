#include <algorithm>

#include "rule/foreign_gradient.h"
#include "meshwright/training_graph.h"

namespace meshwright {

namespace {

class Differentiator {
 public:
  Differentiator(const Graph& forward, const OpTable& ops) : forward_(forward), ops_(ops), build_(made_.graph, "grad_") {}

  Result<TrainingGraph> run() {
    made_.graph = forward_;
    made_.first_backward = static_cast<NodeId>(forward_.nodes.size());
    made_.gradients.assign(forward_.values.size(), kNoId);
    made_.contributions.resize(forward_.nodes.size());
    if (Status status = seed(); !status) return status.error();
    for (NodeId id = made_.first_backward; id-- > 0;) {
      if (Status status = visit(id); !status) return status.error();
    }
    find_saved();
    return std::move(made_);
  }

 private:
  // The loss' gradient is 1.
  Status seed() {
    for (const Output& output : forward_.outputs) {
      if (output.kind != OutputKind::loss) continue;
      made_.gradients[output.value] = build_.emit("aten.ones", {}, {}, forward_.type(output.value));
      own(kNoId);
      return Done{};
    }
    return bad_input("graph '" + forward_.name + "' has no loss: training needs one output that is a differentiable scalar");
  }

  Status visit(NodeId id) {
    const Node& node = forward_.nodes[id];
    std::vector<ValueId> result_gradients;
    for (const ValueId result : node.results) result_gradients.push_back(made_.gradients[result]);
    if (std::all_of(result_gradients.begin(), result_gradients.end(), [](ValueId g) { return g == kNoId; })) return Done{};
    std::vector<bool> wanted;
    for (const Operand& operand : node.operands) wanted.push_back(forward_.values[operand.value].requires_gradient);
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
    sum = sum == kNoId ? gradient
                       : build_.emit("aten.add.Tensor", {{"self", sum}, {"other", gradient}}, {}, forward_.type(value));
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
  TrainingGraph made_;
  GraphBuilder build_;
};

}  // namespace

Result<TrainingGraph> differentiate(const Graph& forward, const OpTable& ops) { return Differentiator(forward, ops).run(); }

}  // namespace meshwright
