// Products of batches: PyTorch multiplies [batch, m, k] by [batch, k, n], and where several leading dimensions do not lie one
// after the other in memory, as heads that were cut out of a row do not, it copies the factor first. The copy is what is saved.
#include <algorithm>

#include "matmul.h"

namespace meshwright {

namespace {

bool is_dense_range(const std::vector<std::int64_t>& order, std::size_t first, std::size_t last) {
  for (std::size_t i = first + 1; i < last; ++i) {
    if (order[i] != order[i - 1] + 1) return false;
  }
  return true;
}

// Whether views put the leading dimensions of a value apart from each other: two of them are to be one batch.
bool leading_dimensions_lie_apart(const Graph& graph, ValueId value) {
  std::size_t dropped = 0;  // of the leading dimensions, further up
  for (;;) {
    const NodeId producer = graph.values[value].producer;
    if (producer == kNoId || graph.nodes[producer].operands.empty()) return false;
    const Node& node = graph.nodes[producer];
    value = node.operands[0].value;
    const std::int64_t rank = graph.type(value).rank();
    const auto dimension = [&](const char* name, std::int64_t otherwise) {
      const std::int64_t at = node.integer(name, otherwise);
      return static_cast<std::size_t>(at < 0 ? at + rank : at);
    };
    std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    if (node.op == "aten.permute") {
      order = node.integers("dims");
      for (std::int64_t& at : order) at = at < 0 ? at + rank : at;
    } else if (node.op == "aten.transpose.int") {
      const std::size_t first = dimension("dim0", 0), second = dimension("dim1", 1);
      if (std::max(first, second) >= order.size()) return false;
      std::swap(order[first], order[second]);
    } else if (node.op == "aten.select.int" || node.op == "aten.unbind.int") {
      if (dimension("dim", 0) != 0) return false;
      ++dropped;
      continue;
    } else if (node.op != "aten.slice.Tensor" && !node.op.starts_with("aten.split")) {
      return false;  // a dense result, for all that is known
    }
    if (order.size() < dropped + 2) return false;
    if (!is_dense_range(order, dropped, order.size() - 2)) return true;
  }
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
      if (type.rank() < 4 || !leading_dimensions_lie_apart(graph, operand.value)) continue;
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
