// What PyTorch's fused attention does beyond its schema, put into the graph:
//   a mask of truth values becomes a bias of numbers, 0 and -inf, of its own for each call, which is kept for the backward
//   the result lies in memory as [batch, queries, heads, width], so that making it contiguous after the heads are
//   transposed back copies nothing
#include <limits>

#include "attention.h"

namespace meshwright {

namespace {

constexpr const char* kForward = "aten.scaled_dot_product_attention";

// Whether a value is an attention's result, or a view of it that has the same shape.
bool is_attention(const Graph& graph, ValueId value) {
  for (;;) {
    const NodeId producer = graph.values[value].producer;
    if (producer == kNoId) return false;
    const Node& node = graph.nodes[producer];
    if (node.op == kForward) return true;
    if (node.op != "aten.view" || node.operands.size() != 1 || graph.type(node.operands[0].value) != graph.type(value)) return false;
    value = node.operands[0].value;
  }
}

// Whether a node swaps the heads and the queries of an attention's result.
bool swaps_heads_back(const Graph& graph, const Node& node) {
  if (node.operands.size() != 1 || !is_attention(graph, node.operands[0].value)) return false;
  const std::int64_t rank = graph.type(node.operands[0].value).rank();
  if (rank != 4) return false;
  if (node.op == "aten.permute") return node.integers("dims") == std::vector<std::int64_t>{0, 2, 1, 3};
  if (node.op != "aten.transpose.int") return false;
  const auto dimension = [&](const char* name) { return (node.integer(name, 0) + rank) % rank; };
  return dimension("dim0") + dimension("dim1") == 3 && dimension("dim0") * dimension("dim1") == 2;
}

Composite with_bias(const Graph& graph, NodeId id, std::size_t mask) {
  Composite made{graph.nodes[id], id, {}, {}};
  Operand& operand = made.node.operands[mask];
  Node& bias = made.before.emplace_back();
  bias.op = "aten.where.Scalar";
  bias.name = made.node.name + "_bias";
  bias.module_path = made.node.module_path;
  bias.operands = {{"condition", operand.value}};
  bias.attributes = {{"self", 0.0}, {"other", -std::numeric_limits<double>::infinity()}};
  bias.results = {kNewValue};
  made.values.push_back({bias.name, {graph.type(made.node.results[0]).dtype, graph.type(operand.value).shape}, kNoId, false});
  operand.value = kNewValue;
  return made;
}

}  // namespace

FoundComposites what_kernels_do(const Graph& graph) {
  FoundComposites found;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.op == kForward && node.results.size() == 1 && graph.values[node.results[0]].requires_gradient) {
      const auto mask = node.operand_index("attn_mask");
      if (mask && graph.type(node.operands[*mask].value).dtype == DType::boolean) found.composites.push_back(with_bias(graph, id, *mask));
    }
    if (node.op != "aten.clone" || node.operands.size() != 1 || node.text("memory_format", "") != "contiguous") continue;
    const NodeId source = graph.values[node.operands[0].value].producer;
    if (source == kNoId || !swaps_heads_back(graph, graph.nodes[source])) continue;
    Composite contiguous{node, id, {}, {}};
    contiguous.node.op = "aten.alias";
    contiguous.node.attributes.clear();
    found.composites.push_back(std::move(contiguous));
  }
  return found;
}

}  // namespace meshwright
