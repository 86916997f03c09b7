#include "graph_edit.h"

namespace meshwright::onnx {

Users::Users(const Graph& graph) : uses_(graph.values.size()), outputs_(graph.values.size(), 0) {
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const std::vector<Operand>& operands = graph.nodes[id].operands;
    for (std::size_t i = 0; i < operands.size(); ++i) uses_[operands[i].value].push_back({id, i});
  }
  for (const Output& output : graph.outputs) ++outputs_[output.value];
}

void mark_loss(Graph& graph) {
  Output* loss = nullptr;
  for (Output& output : graph.outputs) {
    const Value& value = graph.values[output.value];
    if (output.kind != OutputKind::user_output || value.type.rank() != 0 || !value.requires_gradient) continue;
    if (loss != nullptr) return;  // two candidates: nobody said which
    loss = &output;
  }
  if (loss != nullptr) loss->kind = OutputKind::loss;
}

}  // namespace meshwright::onnx
