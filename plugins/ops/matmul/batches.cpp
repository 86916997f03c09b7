// Products of batches: PyTorch multiplies [batch, m, k] by [batch, k, n], and where several leading dimensions do not lie one
// after the other in memory, as heads that were cut out of a row do not, it copies the factor first. The copy is what is saved.
#include <functional>
#include <numeric>

#include "matmul.h"
#include "memory_strides.h"

namespace meshwright {

namespace {

// Whether [b0, b1, .., m, k] can be seen as [b0·b1·.., m, k].
bool is_one_batch(const Graph& graph, ValueId value) {
  const std::vector<std::int64_t>& shape = graph.type(value).shape;
  const std::int64_t batch = std::accumulate(shape.begin(), shape.end() - 2, std::int64_t{1}, std::multiplies<>());
  return viewed_strides(shape, memory_strides(graph, value), {batch, *(shape.end() - 2), shape.back()}).has_value();
}

}  // namespace

FoundComposites copies_of_batches(const Graph& graph) {
  FoundComposites found;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.op != "aten.matmul" || node.results.size() != 1 || !graph.values[node.results[0]].requires_gradient) continue;
    if (graph.type(node.results[0]).rank() < 4) continue;  // one leading dimension alone is a batch as it lies
    Composite made{node, id, {}, {}};
    for (Operand& operand : made.node.operands) {
      const TensorType type = graph.type(operand.value);
      if (type.rank() < 4 || is_one_batch(graph, operand.value)) continue;
      const ValueId copied = kNewValue + static_cast<ValueId>(made.values.size());
      Node& copy = made.before.emplace_back();
      copy.op = "aten.clone";
      copy.name = node.name + "_" + operand.name;
      copy.module_path = node.module_path;
      copy.operands = {{"self", operand.value}};
      copy.attributes = {{"memory_format", std::string("contiguous")}};
      copy.results = {copied};
      made.values.push_back({copy.name, type, kNoId, false});
      operand.value = copied;
    }
    if (!made.before.empty()) found.composites.push_back(std::move(made));
  }
  return found;
}

}  // namespace meshwright
