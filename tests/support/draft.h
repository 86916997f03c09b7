// Graphs made by hand, for tests that need a small one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/graph_builder.h"

namespace meshwright::test {

struct Draft {
  Graph graph;
  GraphBuilder build{graph, "node_"};

  Draft() = default;
  Draft(const Draft&) = delete;

  ValueId source(SourceKind kind, const std::string& name, const TensorType& type) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({name, type, kNoId, kind == SourceKind::parameter});
    graph.sources.push_back({kind, id, {name}});
    return id;
  }
  ValueId parameter(const std::string& name, std::vector<std::int64_t> shape) {
    return source(SourceKind::parameter, name, {DType::float32, std::move(shape)});
  }
  ValueId input(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    return source(SourceKind::user_input, name, {dtype, std::move(shape)});
  }
  ValueId op(const std::string& op, const std::vector<Operand>& operands, Attributes attributes, std::vector<std::int64_t> shape) {
    const ValueId result = build.emit(op, operands, std::move(attributes), TensorType{DType::float32, std::move(shape)});
    graph.values[result].name = op.substr(op.find('.') + 1) + "_" + std::to_string(graph.nodes.size() - 1);
    return result;
  }
  Graph finish(const std::string& name, ValueId loss) {
    graph.name = name;
    graph.outputs.push_back({OutputKind::loss, loss, ""});
    mark_gradients(graph);
    return graph;
  }
};

}  // namespace meshwright::test
