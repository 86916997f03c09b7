// Products with a weight: linear, and its bias.
#include <algorithm>

#include "patterns.h"
#include "reader.h"

namespace meshwright::onnx {

namespace {

// Whether the value is a tensor of the file.
bool is_held(const Graph& graph, ValueId value) {
  return std::ranges::any_of(graph.sources, [&](const Source& source) {
    return source.value == value && source.kind != SourceKind::user_input;
  });
}

// Whether `bias` is a source with one number for each column of `product`.
bool is_bias(const Graph& graph, ValueId bias, ValueId product) {
  const Value& value = graph.values[bias];
  return value.producer == kNoId && value.type.rank() == 1 && value.type.dtype == graph.type(product).dtype &&
         graph.type(product).rank() >= 1 && value.type.shape[0] == graph.type(product).shape.back() &&
         value.type.shape[0] > 1 && is_held(graph, bias);
}

}  // namespace

int recognise_linear(Graph& graph) {
  const Reader read(graph);
  int found = 0;
  for (Node& product : graph.nodes) {
    if (product.op != "aten.matmul" && product.op != "aten.mm") continue;
    const Node* turn = read.maker(product.operands[1].value);
    if (turn == nullptr || turn->op != "aten.transpose.int") continue;
    const ValueId weight = turn->operands[0].value;
    if (graph.values[weight].producer != kNoId || graph.type(weight).rank() != 2 || !is_held(graph, weight)) continue;
    become(product, "aten.linear", {{"input", product.operands[0].value}, {"weight", weight}}, {});
    ++found;
  }
  return found;
}

int recognise_bias(Graph& graph) {
  const Users users(graph);
  int found = 0;
  for (Node& add : graph.nodes) {
    if (add.op != "aten.add.Tensor" || add.operands.size() != 2) continue;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const ValueId product = add.operands[i].value, bias = add.operands[1 - i].value;
      const NodeId maker = graph.values[product].producer;
      if (maker == kNoId || !users.is_alone(product) || !is_bias(graph, bias, product)) continue;
      const Node whole = graph.nodes[maker];
      if (whole.op == "aten.linear" && !whole.operand_index("bias")) {
        add.op = whole.op;
        add.operands = {whole.operands[0], whole.operands[1], {"bias", bias}};
      } else if (whole.op == "aten.mm") {
        add.op = "aten.addmm";
        add.operands = {{"self", bias}, {"mat1", whole.operands[0].value}, {"mat2", whole.operands[1].value}};
      } else {
        continue;
      }
      add.attributes = whole.attributes;
      if (add.module_path.empty()) add.module_path = whole.module_path;
      ++found;
      break;
    }
  }
  return found;
}

}  // namespace meshwright::onnx
