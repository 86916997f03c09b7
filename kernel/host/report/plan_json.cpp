#include "report/plan_json.h"

#include <algorithm>
#include <cmath>

#include "distinct_plans.h"
#include "plan_words.h"
#include "report/memory_json.h"
#include "report/pipeline_json.h"
#include "report/stage_search_report.h"
#include "report/sureness.h"

namespace meshwright::host {

namespace {

template <class Range, class Convert>
Json array_of(const Range& range, Convert convert) {
  Json::Array array;
  for (const auto& element : range) array.push_back(convert(element));
  return array;
}

Json texts(const std::vector<std::string>& list) {
  return array_of(list, [](const std::string& text) { return Json(text); });
}

Json integers(const std::vector<std::int64_t>& list) {
  return array_of(list, [](std::int64_t number) { return Json(number); });
}

Json node_json(const Node& node) {
  Json json;
  json.add("name", node.name).add("op", node.op).add("module", node.module_path);
  Json::Array operands;
  for (const Operand& operand : node.operands) operands.push_back(Json::Array{operand.name, operand.value});
  json.add("operands", std::move(operands));
  Json attributes = Json::Object{};
  for (const auto& [name, value] : node.attributes) attributes.add(name, attribute_json(value));
  json.add("attributes", std::move(attributes));
  json.add("results", array_of(node.results, [](ValueId id) { return Json(id); }));
  return json;
}

Json mesh_json(const Mesh& mesh) {
  return array_of(mesh.axes, [](const MeshAxis& axis) {
    Json one;
    one.add("size", axis.size).add("alpha_seconds", axis.alpha_seconds);
    one.add("beta_seconds_per_byte", axis.beta_seconds_per_byte).add("slowest_link", axis.slowest_link);
    return one;
  });
}

Json numbers(const std::vector<double>& values) {
  return array_of(values, [](double value) { return Json(value); });
}

Json rates_json(const RateCurve& curve) { return Json().add("sizes", numbers(curve.sizes)).add("rates", numbers(curve.rates)); }

}  // namespace

Json graph_json(const Graph& graph) {
  Json json;
  json.add("name", graph.name);
  json.add("values", array_of(graph.values, [](const Value& value) {
    return Json(Json::Array{value.name, name(value.type.dtype), integers(value.type.shape), value.requires_gradient});
  }));
  json.add("sources", array_of(graph.sources, [](const Source& source) {
    Json one;
    one.add("kind", word(source.kind)).add("value", source.value).add("names", texts(source.names));
    return one;
  }));
  json.add("nodes", array_of(graph.nodes, node_json));
  json.add("outputs", array_of(graph.outputs, [](const Output& output) {
    Json one;
    one.add("kind", word(output.kind)).add("value", output.value).add("target", output.target);
    return one;
  }));
  return json;
}

Json cluster_json(const Cluster& cluster) {
  const DeviceSpec& device = cluster.device;
  Json json;
  json.add("name", cluster.name).add("device", device.name);
  json.add("nodes", cluster.nodes).add("devices_per_node", cluster.devices_per_node);
  json.add("memory_bytes", device.memory_bytes).add("reserved_bytes", cluster.reserved_bytes);
  json.add("memory_bytes_per_second", device.memory_bytes_per_second);
  Json rates = Json::Object{};
  for (const auto& [dtype, rate] : device.matrix_flops_per_second) rates.add(std::string(name(dtype)), rate);
  json.add("matrix_flops_per_second", std::move(rates)).add("vector_flops_per_second", device.vector_flops_per_second);
  json.add("launch_seconds", device.launch_seconds).add("matrix_efficiency", device.matrix_efficiency);
  json.add("memory_efficiency", device.memory_efficiency).add("half_efficiency_flops", device.half_efficiency_flops);
  json.add("tf32_flops_per_second", device.tf32_flops_per_second).add("multiprocessors", device.multiprocessors);
  json.add("host_launch_seconds", device.host_launch_seconds).add("host_collective_seconds", device.host_collective_seconds).add("skew_seconds", device.skew_seconds);
  json.add("computing_stretch", device.computing_stretch).add("communication_stretch", device.communication_stretch);
  Json attention = Json::Object{};
  for (const auto& [kernel, rates] : device.attention) {
    attention.add(kernel, Json().add("efficiency", rates.efficiency).add("half_keys", rates.half_keys).add("half_head", rates.half_head).add("backward", rates.backward));
  }
  json.add("attention", std::move(attention));
  if (!device.product_curves.empty()) {
    Json curves = Json::Object{};
    for (const auto& [dtype, curve] : device.product_curves) curves.add(std::string(name(dtype)), rates_json(curve));
    json.add("product_curves", std::move(curves));
  }
  if (!device.memory_curve.sizes.empty()) json.add("memory_curve", rates_json(device.memory_curve));
  if (device.overheads != MemoryOverheads{}) json.add("memory_overheads", overheads_json(device.overheads));
  json.add("levels", levels_json(cluster.levels));
  return cluster.parts.empty() ? json : json.add("parts", array_of(cluster.parts, cluster_json));
}

Json levels_json(const std::vector<LinkLevel>& levels) {
  return array_of(levels, [](const LinkLevel& level) {
    Json one;
    one.add("name", level.name).add("group", level.group).add("bytes_per_second", level.bytes_per_second);
    one.add("latency_seconds", level.latency_seconds).add("sharers", level.sharers).add("ganged", level.ganged);
    if (level.measured.empty()) return one;
    one.add("measured", array_of(level.measured, [](const BusBandwidth& curve) {
      return Json().add("devices", curve.devices).add("only", curve.only ? Json(std::string(name(*curve.only))) : Json(nullptr)).add("bytes", numbers(curve.bytes)).add("bytes_per_second", numbers(curve.bytes_per_second));
    }));
    return one;
  });
}

namespace {

class PlanWriter {
 public:
  explicit PlanWriter(const Plan& plan) : plan_(plan) {}

  [[nodiscard]] Json variable(const PlannedVariable& variable) const {
    Json json;
    json.add("kind", word(variable.kind())).add("name", plan_.name(variable));
    if (const PlannedNode* node = variable.node()) add_node(*node, json);
    else if (const PlannedParameter* parameter = variable.parameter()) add_parameter(*parameter, json);
    else if (const auto* fork = std::get_if<PlannedFork>(&variable.choice)) json.add("results", Json::Array{port(fork->value, fork->layouts)});
    else add_output(std::get<PlannedOutput>(variable.choice), json);
    json.add("forward_seconds", variable.forward_seconds).add("backward_seconds", variable.backward_seconds);
    if (variable.update_seconds > 0) json.add("update_seconds", variable.update_seconds);
    if (variable.communication_seconds > 0) json.add("communication_seconds", variable.communication_seconds);
    if (variable.saved_bytes > 0) json.add("saved_bytes", variable.saved_bytes);
    if (variable.state_bytes > 0) json.add("state_bytes", variable.state_bytes);
    if (variable.gradient_bytes > 0) json.add("gradient_bytes", variable.gradient_bytes);
    return json;
  }

  [[nodiscard]] Json::Array axes(const Move& move) const {
    Json::Array numbers;
    for (std::size_t axis = 0; axis < plan_.mesh.rank(); ++axis) {
      if (move.goes_over(axis)) numbers.emplace_back(static_cast<std::int64_t>(axis));
    }
    return numbers;
  }

  [[nodiscard]] Json conversion(const PlannedConversion& conversion) const {
    Json json;
    json.add("value", plan_.name(conversion.value));
    if (conversion.from != kNoId) json.add("from", conversion.from).add("to", conversion.to);
    if (conversion.to_port != kNoId) json.add("operand", conversion.to_port);
    json.add("direction", conversion.gradient ? "backward" : "forward").add("hides", conversion.hides);
    json.add("source_layout", layout(conversion.value, conversion.source)).add("target_layout", layout(conversion.value, conversion.target));
    Json::Array moves;
    const Layout* here = &conversion.source;
    for (const PlannedMove& planned : conversion.moves) {
      const Move& move = planned.move;
      Json one;
      one.add("kind", name(move.kind));
      if (move.joined == 0) one.add("axis", static_cast<std::int64_t>(move.axis));
      else one.add("axes", axes(move));
      if (move.kind == MoveKind::permute) one.add("other_axis", static_cast<std::int64_t>(move.other_axis));
      one.add("layout", layout(conversion.value, move.result));
      one.add("bytes", plan_.local_bytes(conversion, *here));
      one.add("seconds", planned.seconds);
      moves.push_back(std::move(one));
      here = &move.result;
    }
    json.add("moves", std::move(moves)).add("seconds", conversion.seconds()).add("times", conversion.times);
    return json;
  }

  [[nodiscard]] Json constant(const PlannedConstant& constant) const {
    const NodeId producer = training_graph(plan_.model).values[constant.value].producer;
    Json json;
    json.add("value", plan_.name(constant.value)).add("layout", layout(constant.value, constant.wanted));
    json.add("axes", axes(constant.made, training_atoms(plan_.model).nodes[producer]));
    return json;
  }

 private:
  [[nodiscard]] std::string layout(ValueId value, const Layout& layout) const { return to_string(layout, plan_.shape(value)); }

  [[nodiscard]] Json port(ValueId value, const PortLayouts& layouts) const {
    Json one;
    one.add("value", plan_.name(value)).add("layout", layout(value, layouts.value));
    if (plan_.graph().values[value].requires_gradient) one.add("gradient_layout", layout(value, layouts.gradient));
    return one;
  }

  static Json axes(const CallLayouts& call, const AtomizedNode& node) {
    return array_of(call.axes, [&](const AxisChoice& choice) { return Json(to_string(choice, node)); });
  }

  void add_node(const PlannedNode& planned, Json& json) const {
    const Node& node = plan_.graph().nodes[planned.node];
    json.add("op", node.op);
    if (!node.module_path.empty()) json.add("module", node.module_path);
    json.add("axes", axes(planned.call, plan_.model.atoms->nodes[planned.node]));
    Json::Array operands, results, backward;
    for (std::size_t i = 0; i < node.operands.size(); ++i) operands.push_back(port(node.operands[i].value, planned.call.operands[i]));
    for (std::size_t i = 0; i < node.results.size(); ++i) results.push_back(port(node.results[i], planned.call.results[i]));
    json.add("operands", std::move(operands)).add("results", std::move(results));
    for (std::size_t i = 0; i < planned.backward.size(); ++i) {
      const NodeId id = plan_.model.backward->backward_of[planned.node][i];
      const Node& gradient = plan_.model.backward->training.graph.nodes[id];
      Json one;
      one.add("node", gradient.name).add("op", gradient.op).add("axes", axes(planned.backward[i], plan_.model.backward->atoms.nodes[id]));
      backward.push_back(std::move(one));
    }
    if (!backward.empty()) json.add("backward", std::move(backward));
  }

  void add_parameter(const PlannedParameter& parameter, Json& json) const {
    json.add("results", Json::Array{port(parameter.value, parameter.stored)});
    json.add("compute_layout", layout(parameter.value, parameter.compute)).add("state_layout", layout(parameter.value, parameter.state));
    json.add("zero", word(parameter.zero)).add("regather", parameter.regather).add("prefetch", parameter.prefetch);
  }

  void add_output(const PlannedOutput& output, Json& json) const { json.add("operands", Json::Array{port(output.value, output.layouts)}); }

  const Plan& plan_;
};

void add_totals(Json& json, const Plan& plan) {
  json.add("status", name(plan.status)).add("method", plan.method);
  json.add("objective_seconds", plan.objective_seconds).add("lower_bound_seconds", plan.lower_bound_seconds);
  json.add("step_seconds", plan.step_seconds).add("step_lower_bound_seconds", plan.step_lower_bound_seconds).add("forward_seconds", plan.forward_seconds).add("peak_bytes", plan.peak_bytes).add("budget_bytes", plan.budget_bytes);
  json.add("bucket_bytes", plan.bucket_bytes).add("room_bytes", plan.room_bytes);
  json.add("memory", account_json(plan.memory));
}

// JSON has no infinities: they are words.
Json real_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

}  // namespace

Json attribute_json(const Attribute& attribute) {
  struct Visitor {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(bool value) const { return value; }
    Json operator()(std::int64_t value) const { return value; }
    Json operator()(double value) const {
      return std::isfinite(value) ? Json(value) : Json(Json::Object{{"real", real_json(value)}});
    }
    Json operator()(const std::string& value) const { return value; }
    Json operator()(const std::vector<std::int64_t>& value) const { return integers(value); }
    Json operator()(const std::vector<double>& value) const {
      Json list = array_of(value, real_json);
      const bool plain = !value.empty() && std::ranges::all_of(value, [](double real) { return std::isfinite(real); });
      return plain ? list : Json(Json::Object{{"reals", std::move(list)}});
    }
  };
  return std::visit(Visitor{}, attribute);
}

Json plan_json(const Plan& plan) {
  Json json;
  json.add("format", "meshwright-plan").add("format_version", kPlanFormatVersion);
  Json model;
  model.add("path", plan.model_path).add("hash", plan.model_hash);
  json.add("model", std::move(model));
  add_totals(json, plan);
  json.add("cluster", cluster_json(plan.cluster));
  json.add("mesh", mesh_json(plan.mesh));
  Json training;
  training.add("optimizer", word(plan.training.optimizer));
  training.add("param_dtype", plan.training.param_dtype ? Json(name(*plan.training.param_dtype)) : Json(nullptr));
  training.add("master_dtype", name(plan.training.master_dtype));
  training.add("reduce_dtype", plan.training.reduce_dtype ? Json(name(*plan.training.reduce_dtype)) : Json(nullptr));
  training.add("attention", plan.training.attention);
  if (plan.training.tf32) training.add("tf32", true);
  if (plan.training.cuda_graphs) training.add("cuda_graphs", true);
  if (plan.training.compile) training.add("compile", true);
  training.add("microbatches", plan.training.microbatches).add("keep_gradients", plan.training.keep_gradients);
  if (!plan.training.order.empty()) training.add("order", plan.training.order);
  json.add("training", std::move(training));
  json.add("plugins", array_of(plan.plugins, [](const UsedPlugin& plugin) {
    Json one;
    one.add("kind", plugin.kind).add("id", plugin.id).add("version", plugin.version);
    return one;
  }));
  json.add("unruled_ops", texts(plan.unruled_ops)).add("notes", texts(plan.notes));
  if (plan.runner_up) json.add("runner_up", runner_up_json(*plan.runner_up));
  if (!plan.recomputed.empty()) json.add("recomputed", texts(plan.recomputed));
  const PlanWriter writer(plan);
  json.add("variables", array_of(plan.variables, [&](const PlannedVariable& variable) { return writer.variable(variable); }));
  json.add("conversions", array_of(plan.conversions, [&](const PlannedConversion& conversion) { return writer.conversion(conversion); }));
  json.add("constants", array_of(plan.constants, [&](const PlannedConstant& constant) { return writer.constant(constant); }));
  json.add("graph", graph_json(plan.graph()));
  return json;
}

Json summary_json(const PlanOutcome& outcome) {
  if (outcome.pipeline) return pipeline_summary_json(outcome);
  Json json;
  if (outcome.plan) {
    add_totals(json, *outcome.plan);
    json.add("mesh", to_string(outcome.plan->mesh)).add("unruled_ops", texts(outcome.plan->unruled_ops));
    json.add("notes", texts(outcome.plan->notes));
    if (outcome.plan->runner_up) json.add("runner_up", runner_up_json(*outcome.plan->runner_up));
  } else {
    json.add("status", name(SolveStatus::infeasible)).add("reason", outcome.refusal);
    for (const char* key :
         {"objective_seconds", "lower_bound_seconds", "step_seconds", "step_lower_bound_seconds", "peak_bytes", "memory", "mesh"}) {
      json.add(key, nullptr);
    }
    json.add("unruled_ops", Json::Array{});
  }
  json.add("variables", outcome.variables).add("strategies", outcome.strategies);
  json.add("meshes_tried", array_of(outcome.trials, [](const MeshTrial& trial) {
    Json one;
    one.add("mesh", trial.mesh).add("status", name(trial.status)).add("objective_seconds", trial.objective_seconds);
    one.add("step_seconds", trial.step_seconds).add("step_lower_bound_seconds", trial.step_lower_bound_seconds);
    one.add("peak_bytes", trial.peak_bytes);
    if (!trial.binding.empty()) one.add("binding", trial.binding);
    if (trial.least_bytes > 0) one.add("least_bytes", trial.least_bytes);
    if (trial.smallest_bytes > 0) one.add("smallest_known_bytes", trial.smallest_bytes);
    return one;
  }));
  json.add("comparisons", array_of(outcome.comparisons, [](const Comparison& comparison) {
    Json one;
    one.add("name", comparison.name);
    one.add("objective_seconds", comparison.objective_seconds ? Json(*comparison.objective_seconds) : Json(nullptr));
    one.add("step_seconds", comparison.objective_seconds ? Json(comparison.step_seconds) : Json(nullptr));
    one.add("peak_bytes", comparison.peak_bytes).add("note", comparison.note);
    return one;
  }));
  if (!outcome.next.empty()) {
    json.add("next", array_of(outcome.next, [&](const Plan& plan) {
      Json one;
      add_totals(one, plan);
      one.add("mesh", to_string(plan.mesh));
      if (to_string(plan.mesh) == to_string(outcome.plan->mesh)) one.add("differences", texts(differences(plan, *outcome.plan)));
      return one;
    }));
  }
  if (outcome.may_have_more) json.add("may_have_more", true);
  add_stage_search(json, outcome);
  Json phases;
  phases.add("plugins", outcome.phases.plugins).add("frontend", outcome.phases.frontend);
  phases.add("strategies", outcome.phases.strategies).add("search", outcome.phases.search);
  phases.add("comparisons", outcome.phases.comparisons);
  phases.add("runner_up", outcome.phases.runner_up).add("total", outcome.phases.total);
  json.add("phase_seconds", std::move(phases));
  return json;
}

}  // namespace meshwright::host
