#include "meshwright/graph_builder.h"

namespace meshwright {

GraphBuilder::GraphBuilder(Graph& graph, std::string prefix) : graph_(graph), prefix_(std::move(prefix)) {}

std::vector<ValueId> GraphBuilder::emit(std::string op, const std::vector<Operand>& operands, Attributes attributes,
                                        const std::vector<TensorType>& results) {
  const auto id = static_cast<NodeId>(graph_.nodes.size());
  Node node;
  node.op = std::move(op);
  node.name = prefix_ + std::to_string(id);
  node.module_path = module_path_;
  for (const Operand& operand : operands) {
    if (operand.value != kNoId) node.operands.push_back(operand);
  }
  node.attributes = std::move(attributes);
  for (const TensorType& type : results) {
    node.results.push_back(static_cast<ValueId>(graph_.values.size()));
    Value value;
    value.name = node.name + (results.size() > 1 ? "." + std::to_string(node.results.size() - 1) : "");
    value.type = type;
    value.producer = id;
    graph_.values.push_back(std::move(value));
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().results;
}

ValueId GraphBuilder::emit(std::string op, const std::vector<Operand>& operands, Attributes attributes,
                           const TensorType& result) {
  return emit(std::move(op), operands, std::move(attributes), std::vector<TensorType>{result})[0];
}

}  // namespace meshwright
