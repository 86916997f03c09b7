#include "case_runner.h"

#include <cmath>

#include "toml_config.h"

namespace meshwright::test {

Result<host::PluginHost> open_host(std::vector<std::string> overrides) {
  overrides.emplace_back("plugins.paths=[\"" PLUGIN_FOLDER "\"]");
  Result<host::ConfigTree> tree = host::read_config("", overrides);
  if (!tree) return tree.error();
  return host::PluginHost::open(std::move(*tree));
}

std::unique_ptr<OpTable> open_ops() {
  host::PluginHost host = open_host().value();
  return host.op_table().value();
}

namespace {

std::string weights_name(ValueId result) { return "weights" + std::to_string(result); }

}  // namespace

ValueId weights_of(const Graph& graph, ValueId result) {
  for (const Source& source : graph.sources) {
    if (graph.values[source.value].name == weights_name(result)) return source.value;
  }
  return kNoId;
}

Graph with_loss(const OpCase& op_case, std::map<ValueId, Tensor>& sources) {
  Graph graph = op_case.graph;
  GraphBuilder build(graph, "loss_");
  ValueId loss = kNoId;
  const std::vector<ValueId> results = graph.nodes[0].results;
  for (const ValueId result : results) {
    if (!graph.values[result].requires_gradient) continue;
    const TensorType type = graph.type(result);
    const auto weights = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({weights_name(result), type, kNoId, false});
    graph.sources.push_back({SourceKind::user_input, weights, {}});
    Tensor drawn(type);
    for (std::int64_t i = 0; i < drawn.elements(); ++i) drawn.set(i, std::sin(1.0 + 7.0 * static_cast<double>(i)));
    sources.emplace(weights, std::move(drawn));
    const ValueId product = build.emit("aten.mul.Tensor", {{"self", result}, {"other", weights}}, {}, type);
    const TensorType scalar{type.dtype, {}};
    const ValueId sum = build.emit("aten.sum", {{"self", product}}, {}, scalar);
    loss = loss == kNoId ? sum : build.emit("aten.add.Tensor", {{"self", loss}, {"other", sum}}, {}, scalar);
  }
  graph.outputs.push_back({OutputKind::loss, loss, ""});
  mark_gradients(graph);
  return graph;
}

}  // namespace meshwright::test
