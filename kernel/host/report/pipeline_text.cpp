#include "report/pipeline_text.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "cluster_part.h"
#include "meshwright/memory_account.h"
#include "meshwright/stages.h"
#include "report/memory_text.h"
#include "report/stage_search_report.h"
#include "report/text_table.h"
#include "stage_devices.h"
#include "units.h"

namespace meshwright::host {

namespace {

std::string numbers_text(const std::vector<std::uint32_t>& stages) {
  std::string text;
  for (const std::uint32_t stage : stages) text += (text.empty() ? "" : ", ") + std::to_string(stage);
  return text;
}

// The first and the last module that a stage computes of its own.
std::string modules_of(const Plan& plan) {
  std::string first, last;
  for (const PlannedVariable& variable : plan.variables) {
    if (variable.node() == nullptr) continue;
    const std::string module = plan.module(variable);
    if (module.empty()) continue;
    if (first.empty()) first = module;
    last = module;
  }
  return first == last ? first : first + " to " + last;
}

std::string stages_text(const PipelinePlan& pipeline) {
  std::vector<std::vector<std::string>> rows = {{"stage", "devices", "mesh", "modules", "busy", "peak memory", "in flight", "plan"}};
  const std::vector<std::uint32_t> groups = groups_of_stages(pipeline.orders, pipeline.stages.size()).value();
  const StageDevices devices_of = StageDevices::of(pipeline.cluster, pipeline).value();
  const auto slowest = std::ranges::max_element(pipeline.busy_seconds) - pipeline.busy_seconds.begin();
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const Plan& plan = pipeline.stages[s];
    const std::int64_t devices = plan.cluster.devices(), first = devices_of.first(groups[s]);
    rows.push_back({std::to_string(s) + (static_cast<std::ptrdiff_t>(s) == slowest ? " *" : ""), std::to_string(first) + (devices > 1 ? " to " + std::to_string(first + devices - 1) : ""),
                    devices > 1 ? to_string(plan.mesh) : "1", modules_of(plan), milliseconds(pipeline.busy_seconds[s]), size_text(plan.peak_bytes), std::to_string(pipeline.in_flight[s]),
                    std::string(name(plan.status))});
  }
  std::string text = "Stages (* " + std::string(pipeline.orders.empty() ? "sets the pace" : "takes longest") + "):\n" + table_text(rows, 4);
  for (std::uint32_t group = 0; group < pipeline.orders.size(); ++group) {
    std::vector<std::uint32_t> stages;
    for (std::uint32_t s = 0; s < groups.size(); ++s) {
      if (groups[s] == group) stages.push_back(s);
    }
    text += "  stages " + numbers_text(stages) + " share devices, and hold " + size_text(pipeline.peak_bytes[group]) + " at most together\n";
  }
  return text;
}

// Where a stage uses a value that it receives; empty: it does not.
std::string arrival_text(const Plan& plan, const std::string& value) {
  for (const PlannedVariable& variable : plan.variables) {
    const auto* fork = std::get_if<PlannedFork>(&variable.choice);
    if (fork != nullptr && plan.graph().values[fork->value].name == value) return to_string(fork->layouts.value, plan.shape(fork->value));
  }
  return "";
}

std::string boundaries_text(const PipelinePlan& pipeline) {
  std::vector<std::vector<std::string>> rows = {{"value", "bytes", "from", "to", "leaves as", "arrives as"}};
  for (const StageBoundary& boundary : pipeline.boundaries) {
    const Plan& plan = pipeline.stages[boundary.from];
    for (const PlannedVariable& variable : plan.variables) {
      const auto* output = std::get_if<PlannedOutput>(&variable.choice);
      if (output == nullptr || plan.graph().values[output->value].name != boundary.value) continue;
      std::string arrivals;
      for (const std::uint32_t stage : boundary.to) arrivals += (arrivals.empty() ? "" : ", ") + arrival_text(pipeline.stages[stage], boundary.value);
      rows.push_back({boundary.value, size_text(plan.type(output->value).bytes()), std::to_string(boundary.from), numbers_text(boundary.to),
                      to_string(output->layouts.value, plan.shape(output->value)), arrivals});
    }
  }
  std::string text = "Sent in each microbatch, and its gradient back:\n" + table_text(rows, 1);
  for (const SharedParameter& shared : pipeline.shared) text += "  " + shared.name + " is in stages " + numbers_text(shared.stages) + ": its gradients are added up once a step\n";
  return text;
}

std::string usual_text(const PlanOutcome& outcome) {
  if (outcome.pipeline_comparisons.empty()) return "";
  const PipelinePlan& pipeline = *outcome.pipeline;
  std::vector<std::vector<std::string>> rows = {{"plan", "step", "peak memory", ""}};
  rows.push_back({"this plan", milliseconds(pipeline.step_seconds), size_text(std::ranges::max(pipeline.peak_bytes)), ""});
  for (const PipelineComparison& comparison : outcome.pipeline_comparisons) {
    const bool known = comparison.step_seconds.has_value();
    rows.push_back({comparison.name, known ? milliseconds(*comparison.step_seconds) : "-", known ? size_text(comparison.peak_bytes) : "-", comparison.note});
  }
  return "On the same cluster and cost model:\n" + table_text(rows, 1) + "\n";
}

// Of each kind of devices what is held at most, and what may be.
std::string memory_text(const PipelinePlan& pipeline) {
  const auto most_text = [](std::int64_t peak, std::int64_t budget) { return "at most " + size_text(peak) + " of " + size_text(budget) + " per device"; };
  if (pipeline.cluster.parts.empty()) return most_text(std::ranges::max(pipeline.peak_bytes), pipeline.budget_bytes);
  const bool is_free = pipeline.budget_bytes == largest_peak_bytes(pipeline.cluster);
  const std::vector<std::uint32_t> groups = groups_of_stages(pipeline.orders, pipeline.stages.size()).value();
  std::string text;
  for (const Cluster& part : pipeline.cluster.parts) {
    std::int64_t peak = 0;
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      if (pipeline.stages[s].cluster.name == part.name) peak = std::max(peak, pipeline.peak_bytes[groups[s]]);
    }
    text += (text.empty() ? "" : ", ") + most_text(peak, is_free ? largest_peak_bytes(part) : pipeline.budget_bytes) + " of '" + part.name + "'";
  }
  return text;
}

}  // namespace

std::string pipeline_text(const PlanOutcome& outcome) {
  const PipelinePlan& pipeline = *outcome.pipeline;
  std::string text = pipeline.model.graph->name + " on " + pipeline.cluster.name + " (" + parts_text(pipeline.cluster) + "), " +
                     std::to_string(pipeline.stages.size()) + " stages, " + std::to_string(pipeline.training.microbatches) + " microbatches by " + pipeline.schedule + "\n\n";
  text += stages_text(pipeline) + "\n" + boundaries_text(pipeline) + "\n" + usual_text(outcome) + stage_search_text(outcome);
  text += "Step         " + milliseconds(pipeline.step_seconds) + " (simulated)\n";
  text += "Bubble       " + percent(pipeline.bubble) + " of all devices' time: " + percent(pipeline.start) + " to fill and to drain, " + percent(pipeline.imbalance) +
          " since stages take unequally long, " + percent(pipeline.communication) + " for what is sent\n";
  text += "Memory       " + memory_text(pipeline) + "\n";
  char seconds[160];
  std::snprintf(seconds, sizeof seconds, "Search       strategies %.3f s, search %.3f s, whole %.3f s\n", outcome.phases.strategies, outcome.phases.search, outcome.phases.total);
  text += seconds;
  for (const std::string& note : pipeline.notes) text += "Note         " + note + "\n";
  return text;
}

}  // namespace meshwright::host
