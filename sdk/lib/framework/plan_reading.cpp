#include "plan_reading.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace meshwright::framework {

namespace {

ZeroUse zero_of(std::span<const Plan* const> stages, std::span<const StageUse> uses) {
  using Kept = std::tuple<ZeroStage, std::int64_t, bool>;
  std::map<Kept, double> kept;
  double all = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const Plan& plan = *stages[stage];
    for (const PlannedVariable& variable : plan.variables) {
      const PlannedParameter* parameter = variable.parameter();
      if (parameter == nullptr) continue;
      std::int64_t copies = 1;
      for (std::size_t axis = 0; axis < plan.mesh.rank() && parameter->zero != ZeroStage::none; ++axis) {
        if (!parameter->state[axis].is_shard() && uses[stage].roles[axis] != AxisRole::tensor) copies *= plan.mesh.axes[axis].size;
      }
      const auto size = static_cast<double>(plan.type(parameter->value).elements());
      kept[{parameter->zero, copies, parameter->regather}] += size;
      all += size;
    }
  }
  if (kept.empty()) return {};
  const auto& [most, size] = *std::ranges::max_element(kept, {}, [](const auto& of) { return of.second; });
  return {std::get<0>(most), std::get<1>(most), std::get<2>(most), size / all};
}

// Those of most computing; the rest of `made` says how much there is.
void find_use(std::span<const StageUse> uses, PlanReading& made) {
  const auto seconds_like = [&](const StageUse& one) {
    double seconds = 0;
    for (const StageUse& use : uses) seconds += use.same_degrees(one) ? use.seconds : 0;
    return seconds;
  };
  const StageUse most = *std::ranges::max_element(uses, {}, seconds_like);
  made.use = most;
  made.use.seconds = made.use.weight_seconds = made.use.mixed_seconds = 0;
  for (std::uint32_t stage = 0; stage < uses.size(); ++stage) {
    made.use.seconds += uses[stage].seconds;
    made.use.weight_seconds += uses[stage].weight_seconds;
    made.use.mixed_seconds += uses[stage].mixed_seconds;
    made.use.sequence_parallel = made.use.sequence_parallel || uses[stage].sequence_parallel;
    if (!uses[stage].same_degrees(most)) made.unlike.push_back(stage);
  }
}

void read_inputs(const ModelAnalysis& model, PlanReading& made) {
  const Graph& graph = *model.graph;
  bool any = false;
  for (const Source& source : graph.sources) {
    const TensorType& type = graph.type(source.value);
    if (source.kind != SourceKind::user_input || type.rank() == 0 || any) continue;
    any = true;
    made.batch = type.shape[0] * made.training.microbatches;
    if (type.rank() == 2 && !is_floating(type.dtype)) made.sequence = type.shape[1];
  }
  for (const Source& source : graph.sources) {
    const DType dtype = graph.type(source.value).dtype;
    if (source.kind == SourceKind::parameter && (dtype == DType::bfloat16 || dtype == DType::float16)) made.dtype = dtype;
  }
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.op == "aten.scaled_dot_product_attention" && made.heads == 0 && graph.type(node.operands.front().value).rank() == 4) made.heads = graph.type(node.operands.front().value).shape[1];
    const Rule& rule = model.atoms->nodes[id].rule;
    if (!rule.exchanges.empty()) made.experts = std::max(made.experts, rule.factors[rule.exchanges.front().to].size);
  }
}

Result<PlanReading> read(std::span<const Plan* const> stages, const ModelAnalysis& model, const Cluster& cluster, const TrainingSettings& training, PlanReading made) {
  if (!cluster.parts.empty()) return bad_input("'" + cluster.name + "' has " + devices_text(cluster) + ", and a framework splits a model as if all devices were alike; plan for one part of it");
  for (const Plan* stage : stages) {
    if (stage->cluster.devices() == stages.front()->cluster.devices()) continue;
    return bad_input("stage 0 has " + std::to_string(stages.front()->cluster.devices()) + " devices, and stage " + std::to_string(stage->part.stage) + " has " + std::to_string(stage->cluster.devices()) +
                     ", and a framework gives each as many; plan without \"stage_devices\" in [search]");
  }
  made.model = model.graph->name;
  made.devices = cluster.devices();
  made.training = training;
  made.chunks = static_cast<std::int64_t>(stages.size()) / made.groups;
  if (made.chunks * made.groups != static_cast<std::int64_t>(stages.size())) {
    return bad_input("the plan has " + std::to_string(stages.size()) + " stages on " + std::to_string(made.groups) + " groups of devices, and a framework wants as many on each; plan with chunks that are alike");
  }
  read_inputs(model, made);
  std::vector<StageUse> uses;
  for (const Plan* plan : stages) uses.push_back(use_of_stage(*plan));
  find_use(uses, made);
  made.zero = zero_of(stages, uses);
  Result<PlanLayers> layers = layers_of(stages);
  if (!layers) return layers.error();
  made.layers = std::move(*layers);
  return made;
}

}  // namespace

Result<PlanReading> read_plan(const Plan& plan) {
  PlanReading made;
  made.is_free_order = !plan.training.order.empty();
  const Plan* stages[] = {&plan};
  return read(stages, plan.model, plan.cluster, plan.training, std::move(made));
}

Result<PlanReading> read_plan(const PipelinePlan& plan) {
  PlanReading made;
  made.groups = plan.groups();
  made.schedule = plan.schedule;
  std::vector<const Plan*> stages;
  for (const Plan& stage : plan.stages) stages.push_back(&stage);
  return read(stages, plan.model, plan.cluster, plan.training, std::move(made));
}

}  // namespace meshwright::framework
