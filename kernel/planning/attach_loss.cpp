#include "attach_loss.h"

#include <algorithm>

#include "meshwright/graph_builder.h"
#include "nearest_name.h"

namespace meshwright {

namespace {

Result<ValueId> find_output(const Graph& graph, const std::string& wanted) {
  std::vector<std::string> names;
  for (const Output& output : graph.outputs) {
    if (output.kind != OutputKind::user_output) continue;
    const Value& value = graph.values[output.value];
    names.push_back(value.name);
    if (wanted.empty() ? !value.requires_gradient : value.name != wanted) continue;
    if (value.requires_gradient) return output.value;
    return bad_input("\"loss_output\" in [model]: output '" + wanted +
                     "' of the model does not depend on its parameters");
  }
  if (wanted.empty()) return bad_input("\"loss\" in [model]: the model has no output that depends on its parameters");
  return bad_input("\"loss_output\" in [model]: the model has no output '" + wanted + "'" + suggest(wanted, names));
}

ValueId add_input(Graph& graph, std::string name, TensorType type) {
  const auto is_taken = [&](const std::string& candidate) {
    return std::ranges::any_of(graph.values, [&](const Value& value) { return value.name == candidate; });
  };
  while (is_taken(name)) name += "_";
  const auto id = static_cast<ValueId>(graph.values.size());
  graph.values.push_back({name, std::move(type), kNoId, false});
  graph.sources.push_back({SourceKind::user_input, id, {std::move(name)}});
  return id;
}

// Labels [..., S] one position earlier, with nothing to predict at the last.
ValueId shifted(GraphBuilder& build, ValueId labels) {
  TensorType type = build.type(labels);
  const std::int64_t dim = type.rank() - 1, length = type.shape.back();
  ++type.shape.back();
  const ValueId longer = build.emit("aten.constant_pad_nd", {{"self", labels}},
                                    {{"pad", std::vector<std::int64_t>{0, 1}}, {"value", std::int64_t{-100}}}, type);
  --type.shape.back();
  return build.emit("aten.slice.Tensor", {{"self", longer}},
                    {{"dim", dim}, {"start", std::int64_t{1}}, {"end", length + 1}}, type);
}

Result<ValueId> cross_entropy(Graph& graph, GraphBuilder& build, ValueId logits, bool shift) {
  TensorType type = build.type(logits);
  if (type.rank() < 2)
    return bad_input(
        "\"loss\" in [model]: a cross entropy needs an output of [positions, classes] or more dimensions, not " +
        to_string(type));
  if (shift && type.rank() < 3)
    return bad_input("\"loss_shift\" in [model]: an output " + to_string(type) + " has no positions to shift by");
  if (type.dtype != DType::float32 && type.dtype != DType::float64) {
    type.dtype = DType::float32;
    logits = build.emit("aten._to_copy", {{"self", logits}}, {{"dtype", std::string("float32")}}, type);
  }
  const std::int64_t classes = type.shape.back();
  ValueId labels = add_input(graph, "labels", {DType::int64, {type.shape.begin(), type.shape.end() - 1}});
  if (shift) labels = shifted(build, labels);
  if (type.rank() > 2) {
    const std::int64_t positions = build.type(labels).elements();
    logits = build.emit("aten.view", {{"self", logits}}, {{"size", std::vector<std::int64_t>{positions, classes}}},
                        {type.dtype, {positions, classes}});
    labels = build.emit("aten.view", {{"self", labels}}, {{"size", std::vector<std::int64_t>{positions}}},
                        {DType::int64, {positions}});
  }
  return build.emit("aten.cross_entropy_loss", {{"self", logits}, {"target", labels}}, {}, {type.dtype, {}});
}

}  // namespace

LossSettings loss_settings(const Config& model) {
  return {model.text("loss"), model.text("loss_output"), model.boolean("loss_shift")};
}

Status attach_loss(Graph& graph, const LossSettings& settings) {
  if (settings.loss == "none") {
    if (!settings.output.empty() || settings.shift)
      return bad_input("\"loss_output\" and \"loss_shift\" in [model] go with a \"loss\", and there is none");
    return Done{};
  }
  for (const Output& output : graph.outputs) {
    if (output.kind != OutputKind::loss) continue;
    return bad_input("\"loss\" in [model]: the model has a loss already, its output '" +
                     graph.values[output.value].name + "'; leave \"loss\" out");
  }
  if (settings.shift && settings.loss != "cross_entropy")
    return bad_input("\"loss_shift\" in [model] goes with the loss cross_entropy");
  const Result<ValueId> output = find_output(graph, settings.output);
  if (!output) return output.error();
  std::string prefix = "loss_";
  const auto is_taken = [&](const Value& value) { return value.name.starts_with(prefix); };
  while (std::ranges::any_of(graph.values, is_taken)) prefix += '_';
  GraphBuilder build(graph, prefix);
  build.set_module_path("loss");
  Result<ValueId> loss = ValueId{0};
  if (settings.loss == "cross_entropy") {
    loss = cross_entropy(graph, build, *output, settings.shift);
    if (!loss) return loss.error();
  } else {
    const TensorType type = build.type(*output);
    const ValueId targets = add_input(graph, "targets", type);
    loss = build.emit("aten.mse_loss", {{"self", *output}, {"target", targets}}, {}, {type.dtype, {}});
  }
  std::erase_if(graph.outputs, [](const Output& old) { return old.kind == OutputKind::user_output; });
  graph.outputs.insert(graph.outputs.begin(), {OutputKind::loss, *loss, ""});
  drop_unused(graph);
  mark_gradients(graph);
  return Done{};
}

}  // namespace meshwright
