#include <algorithm>
#include <map>
#include <string>

#include "recurrent.h"

namespace meshwright {

namespace {

const char* cell_name(const std::string& op) {
  static const std::map<std::string, const char*, std::less<>> kCells = {
      {"aten.lstm.input", "lstm"}, {"aten.gru.input", "gru"}, {"aten.rnn_tanh.input", "tanh"}, {"aten.rnn_relu.input", "relu"}};
  const auto found = kCells.find(op);
  return found == kCells.end() ? nullptr : found->second;
}

// Why the call stays as it is; empty where it need not.
std::string reason_against(const Graph& graph, const Node& node) {
  if (node.number("dropout", 0) != 0 && node.boolean("train", false) && node.integer("num_layers", 1) > 1) {
    return "between its layers numbers are dropped at random";
  }
  const auto first = node.operand_index("hx.0"), second = node.operand_index("hx.1");
  if (first && second && graph.type(node.operands[*first].value) != graph.type(node.operands[*second].value)) {
    return "its hidden state is projected to another size";
  }
  return "";
}

}  // namespace

FoundComposites find_recurrences(const Graph& graph) {
  FoundComposites found;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    const char* cell = cell_name(node.op);
    if (cell == nullptr) continue;
    Composite composite{node, id, {}, {}};
    composite.node.op = kRecurrent;
    composite.node.attributes["cell"] = std::string(cell);
    for (Operand& operand : composite.node.operands) {
      if (operand.name == "hx.0") operand.name = "hx";
      if (operand.name == "hx.1") operand.name = "cx";
    }
    OpCall call = make_call(graph, composite.node);
    call.results.push_back(call.results[0]);  // saved, whose last size comes from the others
    const Result<Recurrence> sizes = recurrence_of(call);
    std::string reason = reason_against(graph, node);
    if (reason.empty() && !sizes) reason = sizes.error().message;
    if (!reason.empty()) {
      found.refused.push_back("The recurrent layers '" + node.name + "' in " + (node.module_path.empty() ? "the model" : node.module_path) +
                              " run replicated, as they are: " + reason + ".");
      continue;
    }
    TensorType saved = call.results[0];
    saved.shape[2] = sizes->stacks() * sizes->kept() * sizes->hidden;
    composite.node.results.push_back(kNewValue);
    composite.values.push_back({node.name + "_saved", std::move(saved), kNoId, false});
    found.composites.push_back(std::move(composite));
  }
  return found;
}

}  // namespace meshwright
