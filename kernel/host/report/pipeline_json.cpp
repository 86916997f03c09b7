#include "report/pipeline_json.h"

#include <algorithm>

#include "meshwright/stages.h"
#include "report/memory_json.h"
#include "report/plan_json.h"
#include "report/stage_search_report.h"
#include "stage_devices.h"

namespace meshwright::host {

namespace {

Json text_list(const std::vector<std::string>& list) {
  Json::Array array;
  for (const std::string& text : list) array.emplace_back(text);
  return array;
}

Json number_list(const std::vector<std::uint32_t>& list) {
  Json::Array array;
  for (const std::uint32_t number : list) array.emplace_back(number);
  return array;
}

void add_joints(Json& json, const PipelinePlan& pipeline) {
  Json::Array boundaries, shared;
  for (const StageBoundary& boundary : pipeline.boundaries) boundaries.push_back(Json().add("value", boundary.value).add("from", boundary.from).add("to", number_list(boundary.to)));
  for (const SharedParameter& parameter : pipeline.shared) shared.push_back(Json().add("name", parameter.name).add("stages", number_list(parameter.stages)));
  json.add("boundaries", std::move(boundaries)).add("shared_parameters", std::move(shared));
}

Json devices_of(const StageDevices& devices, std::uint32_t group) {
  Json::Array list;
  for (std::int64_t i = 0; i < devices.devices(group); ++i) list.emplace_back(devices.first(group) + i);
  return list;
}

// By group of devices: "0F0 2F0 2B0 0B0", the events by their stages, as PyTorch's schedule files have them.
Json orders_json(const GroupOrders& orders) {
  Json::Array groups;
  for (const std::vector<StageEvent>& order : orders) {
    std::string text;
    for (const StageEvent& event : order) text += (text.empty() ? "" : " ") + to_string(event);
    groups.emplace_back(text);
  }
  return groups;
}

// What the devices of a group have together; of stages that share devices only.
Json groups_json(const PipelinePlan& pipeline, const StageDevices& devices, const std::vector<std::uint32_t>& groups) {
  Json::Array list;
  for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
    std::vector<std::uint32_t> stages;
    double busy = 0;
    for (std::uint32_t stage = 0; stage < groups.size(); ++stage) {
      if (groups[stage] != group) continue;
      stages.push_back(stage);
      busy += pipeline.busy_seconds[stage];
    }
    Json one;
    one.add("devices", devices_of(devices, group)).add("stages", number_list(stages));
    list.push_back(one.add("step_share_seconds", busy).add("peak_bytes", pipeline.peak_bytes[group]));
  }
  return list;
}

}  // namespace

void add_pipeline_step(Json& json, const PipelinePlan& pipeline) {
  json.add("schedule", pipeline.schedule).add("microbatches", pipeline.training.microbatches);
  json.add("step_seconds", pipeline.step_seconds);
  Json bubble;
  bubble.add("share", pipeline.bubble).add("imbalance", pipeline.imbalance).add("communication", pipeline.communication).add("start", pipeline.start);
  json.add("bubble", std::move(bubble));
}

Json pipeline_json(const PipelinePlan& pipeline) {
  Json json;
  json.add("format", kPipelineFormat).add("format_version", kPipelineFormatVersion);
  json.add("model", Json().add("path", pipeline.model_path).add("hash", pipeline.model_hash));
  add_pipeline_step(json, pipeline);
  json.add("budget_bytes", pipeline.budget_bytes).add("notes", text_list(pipeline.notes));
  Json::Array busy, in_flight, stages, peaks;
  for (const double seconds : pipeline.busy_seconds) busy.emplace_back(seconds);
  for (const std::int64_t count : pipeline.in_flight) in_flight.emplace_back(count);
  for (const std::int64_t bytes : pipeline.peak_bytes) peaks.emplace_back(bytes);
  json.add("busy_seconds", std::move(busy)).add("in_flight", std::move(in_flight)).add("peak_bytes", std::move(peaks));
  if (!pipeline.orders.empty()) json.add("orders", orders_json(pipeline.orders));
  add_joints(json, pipeline);
  json.add("cluster", cluster_json(pipeline.cluster)).add("graph", graph_json(*pipeline.model.graph));
  for (const Plan& plan : pipeline.stages) stages.push_back(plan_json(plan));
  return json.add("stages", std::move(stages));
}

Json pipeline_summary_json(const PlanOutcome& outcome) {
  const PipelinePlan& pipeline = *outcome.pipeline;
  Json json;
  add_pipeline_step(json, pipeline);
  const std::vector<std::uint32_t> groups = groups_of_stages(pipeline.orders, pipeline.stages.size()).value();
  const StageDevices devices = StageDevices::of(pipeline.cluster, pipeline).value();
  Json::Array stages;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const Plan& plan = pipeline.stages[s];
    Json one;
    one.add("devices", devices_of(devices, groups[s])).add("mesh", to_string(plan.mesh));
    one.add("step_share_seconds", pipeline.busy_seconds[s]).add("peak_bytes", plan.peak_bytes).add("in_flight", pipeline.in_flight[s]);
    one.add("status", name(plan.status)).add("method", plan.method).add("memory", account_json(plan.memory)).add("notes", text_list(plan.notes));
    stages.push_back(std::move(one));
  }
  json.add("peak_bytes", std::ranges::max(pipeline.peak_bytes)).add("budget_bytes", pipeline.budget_bytes).add("notes", text_list(pipeline.notes));
  add_joints(json, pipeline);
  json.add("stages", std::move(stages));
  if (!pipeline.orders.empty()) json.add("groups", groups_json(pipeline, devices, groups));
  Json::Array comparisons;
  for (const PipelineComparison& comparison : outcome.pipeline_comparisons) {
    Json one;
    one.add("name", comparison.name).add("step_seconds", comparison.step_seconds ? Json(*comparison.step_seconds) : Json(nullptr));
    comparisons.push_back(one.add("peak_bytes", comparison.peak_bytes).add("note", comparison.note));
  }
  json.add("comparisons", std::move(comparisons));
  add_stage_search(json, outcome);
  Json phases;
  phases.add("plugins", outcome.phases.plugins).add("frontend", outcome.phases.frontend);
  phases.add("strategies", outcome.phases.strategies).add("search", outcome.phases.search).add("comparisons", outcome.phases.comparisons).add("total", outcome.phases.total);
  return json.add("phase_seconds", std::move(phases));
}

}  // namespace meshwright::host
