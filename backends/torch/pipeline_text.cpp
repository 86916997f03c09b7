#include "pipeline_text.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <vector>

#include "meshwright/program.h"
#include "meshwright/stages.h"
#include "meshwright/step_order.h"
#include "python_text.h"
#include "source_lines.h"
#include "statements.h"

namespace meshwright::torch {

namespace {

using Events = std::vector<StepEvent>;

std::int64_t ranks_of(const PipelinePlan& pipeline) { return pipeline.stages.front().mesh.devices(); }

// What a stage runs, without the update.
Events events_of(const Plan& plan) {
  Events events = step_order(plan.training).value().events();
  std::erase_if(events, [](const StepEvent& event) { return event.phase == Phase::update; });
  return events;
}

// So many forwards, then a backward and a forward by turns, then the backwards that are left.
Events warmed_up(std::int64_t forwards, std::int64_t microbatches) {
  Events events;
  for (std::int64_t i = 0; i < forwards; ++i) events.push_back({Phase::forward, i});
  for (std::int64_t i = 0; i < microbatches; ++i) {
    events.push_back({Phase::backward, i});
    if (forwards + i < microbatches) events.push_back({Phase::forward, forwards + i});
  }
  return events;
}

// By group of ranks, the forwards and backwards of its stages.
GroupOrders orders_of(const PipelinePlan& pipeline) {
  if (!pipeline.orders.empty()) return pipeline.orders;
  GroupOrders orders(pipeline.stages.size());
  for (std::uint32_t s = 0; s < orders.size(); ++s) {
    for (const StepEvent& event : events_of(pipeline.stages[s])) orders[s].push_back({s, event});
  }
  return orders;
}

std::string row_text(const std::vector<StageEvent>& order) {
  std::string row;
  for (const StageEvent& event : order) row += (row.empty() ? "" : ",") + to_string(event);
  return quoted(row);
}

// Whether each stage has devices of its own, and runs so many forwards before its first backward.
bool is_warmed_up(const PipelinePlan& pipeline, const std::function<std::int64_t(std::int64_t)>& forwards) {
  for (std::int64_t s = 0; s < std::ssize(pipeline.stages); ++s) {
    if (events_of(pipeline.stages[static_cast<std::size_t>(s)]) != warmed_up(forwards(s), pipeline.training.microbatches)) return false;
  }
  return pipeline.orders.empty();
}

// PyTorch's name of the schedule, or the orders of all groups of ranks as rows of its CSV files.
std::string schedule_text(const PipelinePlan& pipeline) {
  const std::int64_t microbatches = pipeline.training.microbatches, stages = std::ssize(pipeline.stages);
  if (is_warmed_up(pipeline, [&](std::int64_t) { return microbatches; })) return "\"ScheduleGPipe\"";
  if (microbatches >= stages && is_warmed_up(pipeline, [&](std::int64_t s) { return std::min(microbatches, stages - s); })) return "\"Schedule1F1B\"";
  std::vector<std::string> rows;
  std::ranges::transform(orders_of(pipeline), std::back_inserter(rows), row_text);
  return list(rows);
}

std::string dictionary_text(const std::string& name, const std::vector<std::string>& entries) {
  if (entries.empty()) return "    " + name + " = {}\n";
  std::string text = "    " + name + " = {\n";
  for (const std::string& entry : entries) text += wrapped("        ", entry + ",");
  return text + "    }\n";
}

std::string crossings(const std::string& name, const std::vector<Crossing>& all, const Mesh& mesh) {
  std::vector<std::string> entries;
  for (const Crossing& crossing : all) {
    const TensorType part = local_type(crossing.type, mesh);
    entries.push_back(quoted(crossing.value) + ": (" + tuple(part.shape) + ", " + dtype(part.dtype) + ")");
  }
  return dictionary_text(name, entries);
}

const ProgramParameter* parameter_named(const Program& program, const std::string& name) {
  const auto found = std::ranges::find(program.parameters, name, &ProgramParameter::name);
  return found == program.parameters.end() ? nullptr : &*found;
}

ShardedType state_of(const Program& program, const ProgramParameter& parameter) {
  ShardedType state = program.type(parameter.value);
  state.layout = parameter.state;
  return state;
}

std::string shared_parameters(const PipelinePlan& pipeline, std::span<const BackendInput> stages) {
  std::vector<std::string> entries;
  for (const SharedParameter& shared : pipeline.shared) {
    std::vector<std::int64_t> trained;
    bool alike = true;
    for (const std::uint32_t stage : shared.stages) {
      const Program& program = stages[stage].program;
      const ProgramParameter* parameter = parameter_named(program, shared.name);
      if (parameter == nullptr || parameter->gradient == kNoId) continue;
      if (!trained.empty()) {
        const Program& first = stages[static_cast<std::size_t>(trained.front())].program;
        alike = alike && same_parts(state_of(first, *parameter_named(first, shared.name)), first.mesh, state_of(program, *parameter), program.mesh);
      }
      trained.push_back(stage);
    }
    if (trained.size() > 1) entries.push_back(quoted(shared.name) + ": (" + tuple(trained) + ", " + (alike ? "True" : "False") + ")");
  }
  return dictionary_text("SHARED", entries);
}

// Of several stages of a group, the largest.
std::string constant(const std::string& name, const std::vector<std::vector<std::int64_t>>& groups, const std::vector<std::int64_t>& by_stage, const std::string& remark) {
  std::vector<std::int64_t> by_group(groups.size(), 0);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::int64_t stage : groups[g]) by_group[g] = std::max(by_group[g], by_stage[static_cast<std::size_t>(stage)]);
  }
  const bool same = std::ranges::all_of(by_group, [&](std::int64_t each) { return each == by_group[0]; });
  return "\n\n" + name + " = " + (same ? std::to_string(by_group[0]) : tuple(by_group) + "[GROUP]") + "  # " + remark;
}

// The stages of each group of ranks.
std::vector<std::vector<std::int64_t>> stages_of_groups(const PipelinePlan& pipeline) {
  std::vector<std::vector<std::int64_t>> groups(pipeline.groups());
  const std::vector<std::uint32_t> group_of = groups_of_stages(pipeline.orders, pipeline.stages.size()).value();
  for (std::size_t s = 0; s < group_of.size(); ++s) groups[group_of[s]].push_back(static_cast<std::int64_t>(s));
  return groups;
}

}  // namespace

std::string stages_phrase(const PipelinePlan& pipeline) {
  const std::int64_t ranks = ranks_of(pipeline);
  const std::string groups = pipeline.orders.empty() ? " stages of " : " stages on " + std::to_string(pipeline.groups()) + " groups of ";
  return std::to_string(pipeline.stages.size()) + groups + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

std::string stage_settings(std::size_t stage, const StageEnds& ends, const Mesh& mesh) {
  return "    STAGE = " + std::to_string(stage) + "\n" + crossings("RECEIVED", ends.received, mesh) + crossings("SENT", ends.sent, mesh);
}

std::string stage_constants(const PipelinePlan& pipeline, std::span<const BackendInput> stages) {
  std::vector<std::string> meshes;
  std::vector<std::int64_t> buckets, units;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    std::vector<std::int64_t> sizes;
    for (const MeshAxis& axis : pipeline.stages[s].mesh.axes) sizes.push_back(axis.size);
    meshes.push_back(tuple(sizes));
    buckets.push_back(pipeline.stages[s].bucket_bytes);
    units.push_back(stages[s].profile.bucket_bytes);
  }
  const std::string ranks = std::to_string(ranks_of(pipeline)), count = std::to_string(pipeline.groups());
  const std::vector<std::vector<std::int64_t>> groups = stages_of_groups(pipeline);
  std::vector<std::string> group_texts;
  for (const std::vector<std::int64_t>& group : groups) group_texts.push_back(tuple(group));
  return "STAGES = " + tuple(meshes) + "  # ranks along each axis of each stage's mesh\n\n"
         "GROUPS = " + tuple(group_texts) + "  # the stages of each group of ranks\n\n"
         "# The group of this rank: ranks of one group are neighbours.\n"
         "GROUP = (dist.get_rank() if dist.is_initialized() else int(os.environ.get(\"RANK\", \"0\"))) // " + ranks + " % " + count +
         "\n\nAXES = STAGES[GROUPS[GROUP][0]]" + constant("BUCKET_BYTES", groups, buckets, "so much is reduced together") +
         constant("UNIT_BYTES", groups, units, "so much is loaded together");
}

std::string pipeline_class(const PipelinePlan& pipeline, std::span<const BackendInput> stages, const std::string& name) {
  std::vector<std::string> inputs;
  const Graph& graph = *pipeline.model.graph;
  for (const Source& source : graph.sources) {
    if (source.kind == SourceKind::user_input) inputs.push_back(quoted(source_name(graph, source)));
  }
  return "class Model(Staged):\n    \"\"\"" + name + " in " + stages_phrase(pipeline) + ": what this rank has of it.\"\"\"\n\n" +
         "    MICROBATCHES = " + std::to_string(pipeline.training.microbatches) + "\n    MODELS = models_here()\n" +
         wrapped("    ", "SCHEDULE = " + schedule_text(pipeline)) + wrapped("    ", "MODEL_INPUTS = " + tuple(inputs)) + shared_parameters(pipeline, stages);
}

}  // namespace meshwright::torch
