#include <set>

#include "patterns.h"

namespace meshwright::onnx {

namespace {

// Whether `bias` is a source with one number for each column of `product`.
bool is_bias(const Graph& graph, ValueId bias, ValueId product) {
  const Value& value = graph.values[bias];
  return value.producer == kNoId && value.type.rank() == 1 && value.type.dtype == graph.type(product).dtype && graph.type(product).rank() >= 1 &&
         value.type.shape[0] == graph.type(product).shape.back() && value.type.shape[0] > 1;
}

}  // namespace

int recognise_bias(Graph& graph) {
  const Users users(graph);
  std::set<ValueId> inputs;  // a bias comes from the file
  for (const Source& source : graph.sources) {
    if (source.kind == SourceKind::user_input) inputs.insert(source.value);
  }
  int found = 0;
  for (Node& add : graph.nodes) {
    if (add.op != "aten.add.Tensor" || add.operands.size() != 2) continue;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const ValueId product = add.operands[i].value, bias = add.operands[1 - i].value;
      const NodeId maker = graph.values[product].producer;
      if (maker == kNoId || !users.is_alone(product) || inputs.contains(bias) || !is_bias(graph, bias, product)) continue;
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
