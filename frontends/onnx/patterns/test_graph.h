// Graphs for tests of patterns: values by op, everything float32.
#pragma once

#include <gtest/gtest.h>

#include "meshwright/graph_builder.h"
#include "patterns.h"

namespace meshwright::onnx::test {

using Shape = std::vector<std::int64_t>;

class TestGraph {
 public:
  Graph graph;

  ValueId source(const std::string& name, Shape shape, SourceKind kind = SourceKind::user_input,
                 DType dtype = DType::float32) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({name, {dtype, std::move(shape)}, kNoId, false});
    graph.sources.push_back({kind, id, {name}});
    return id;
  }
  ValueId weight(const std::string& name, Shape shape) { return source(name, std::move(shape), SourceKind::constant); }

  ValueId unary(const std::string& op, ValueId x) { return emit(op, {{"self", x}}, {}, graph.type(x).shape); }
  ValueId with(const std::string& op, ValueId x, double number, const std::string& name = "other") {
    return emit(op, {{"self", x}}, {{name, number}}, graph.type(x).shape);
  }
  // Of two shapes of which one broadcasts to the other.
  ValueId both(const std::string& op, ValueId a, ValueId b) {
    const bool first = graph.type(a).elements() >= graph.type(b).elements();
    return emit(op, {{"self", a}, {"other", b}}, {}, graph.type(first ? a : b).shape);
  }
  ValueId mean(ValueId x) {
    Shape shape = graph.type(x).shape;
    shape.back() = 1;
    return emit("aten.mean.dim", {{"self", x}}, {{"dim", Shape{-1}}, {"keepdim", true}}, shape);
  }
  ValueId matmul(ValueId a, ValueId b) {
    Shape shape = graph.type(a).shape;
    shape.back() = graph.type(b).shape.back();
    return emit("aten.matmul", {{"self", a}, {"other", b}}, {}, shape);
  }
  ValueId transpose(ValueId x, std::int64_t a, std::int64_t b) {
    Shape shape = graph.type(x).shape;
    std::swap(shape[static_cast<std::size_t>(a)], shape[static_cast<std::size_t>(b)]);
    return emit("aten.transpose.int", {{"self", x}}, {{"dim0", a}, {"dim1", b}}, shape);
  }
  ValueId permute(ValueId x, const Shape& order) {
    Shape shape;
    for (const std::int64_t axis : order) shape.push_back(graph.type(x).shape[static_cast<std::size_t>(axis)]);
    return emit("aten.permute", {{"self", x}}, {{"dims", order}}, shape);
  }
  ValueId view(ValueId x, const Shape& shape) { return emit("aten.view", {{"self", x}}, {{"size", shape}}, shape); }
  ValueId softmax(ValueId x) {
    return emit("aten.softmax.int", {{"self", x}}, {{"dim", std::int64_t{-1}}}, graph.type(x).shape);
  }
  ValueId emit(const std::string& op, const std::vector<Operand>& operands, Attributes attributes, const Shape& shape,
               DType dtype = DType::float32) {
    return GraphBuilder(graph, "n").emit(op, operands, std::move(attributes), TensorType{dtype, shape});
  }

  // The node that makes `value`, once the pattern ran and nothing is left that nobody needs.
  Node finish(ValueId value) {
    graph.outputs.push_back({OutputKind::user_output, value, ""});
    drop_unused(graph);
    EXPECT_TRUE(validate(graph).ok()) << validate(graph).error().message;
    const NodeId maker = graph.values[graph.outputs[0].value].producer;
    return maker == kNoId ? Node{} : graph.nodes[maker];
  }
  std::string name_of(const Node& node, std::string_view operand) const {
    const auto at = node.operand_index(operand);
    return at ? graph.values[node.operands[*at].value].name : "";
  }
};

}  // namespace meshwright::onnx::test
