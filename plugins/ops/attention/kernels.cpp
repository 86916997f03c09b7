// What PyTorch's fused attention does beyond its schema, put into the graph:
//   a mask of truth values becomes a bias of numbers, 0 and -inf, of its own for each call, which is kept for the backward
//   the result lies in memory as the queries do, which are mostly rows cut into heads: making it contiguous after the
//   heads are transposed back copies nothing
#include <limits>

#include "attention.h"
#include "memory_strides.h"

namespace meshwright {

namespace {

constexpr const char* kForward = "aten.scaled_dot_product_attention";

// Whether a value is a view of an attention's result that lies row by row, so that a contiguous copy of it is none.
bool is_contiguous_attention(const Graph& graph, ValueId value) {
  const NodeId producer = graph.values[viewed_value(graph, value)].producer;
  if (producer == kNoId || graph.nodes[producer].op != kForward) return false;
  return is_row_major(graph.type(value).shape, memory_strides(graph, value));
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
    if (!is_contiguous_attention(graph, node.operands[0].value)) continue;
    Composite contiguous{node, id, {}, {}};
    contiguous.node.op = "aten.alias";
    contiguous.node.attributes.clear();
    found.composites.push_back(std::move(contiguous));
  }
  return found;
}

}  // namespace meshwright
