#include "pipeline_text.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "meshwright/program.h"
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

// PyTorch's name of the schedule, or the orders of all stages as rows of its CSV files.
std::string schedule_text(const PipelinePlan& pipeline) {
  const std::int64_t microbatches = pipeline.training.microbatches, stages = std::ssize(pipeline.stages);
  const auto all = [&](const std::function<std::int64_t(std::int64_t)>& forwards) {
    for (std::int64_t s = 0; s < stages; ++s) {
      if (events_of(pipeline.stages[static_cast<std::size_t>(s)]) != warmed_up(forwards(s), microbatches)) return false;
    }
    return true;
  };
  if (all([&](std::int64_t) { return microbatches; })) return "\"ScheduleGPipe\"";
  if (microbatches >= stages && all([&](std::int64_t s) { return std::min(microbatches, stages - s); })) return "\"Schedule1F1B\"";
  std::vector<std::string> rows;
  for (std::int64_t s = 0; s < stages; ++s) {
    std::string row;
    for (const StepEvent& event : events_of(pipeline.stages[static_cast<std::size_t>(s)])) {
      row += (row.empty() ? "" : ",") + std::to_string(s) + (event.phase == Phase::forward ? "F" : "B") + std::to_string(event.microbatch);
    }
    rows.push_back(quoted(row));
  }
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

std::string constant(const std::string& name, const std::vector<std::int64_t>& by_stage, const std::string& remark) {
  const bool same = std::ranges::all_of(by_stage, [&](std::int64_t each) { return each == by_stage[0]; });
  return "\n\n" + name + " = " + (same ? std::to_string(by_stage[0]) : tuple(by_stage) + "[STAGE]") + "  # " + remark;
}

}  // namespace

std::string stages_phrase(const PipelinePlan& pipeline) {
  const std::int64_t ranks = ranks_of(pipeline);
  return std::to_string(pipeline.stages.size()) + " stages of " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

std::string stage_settings(const PipelinePlan& pipeline, std::span<const BackendInput> stages, std::size_t stage, const StageEnds& ends) {
  std::vector<std::string> inputs;
  const Graph& graph = *pipeline.model.graph;
  for (const Source& source : graph.sources) {
    if (source.kind == SourceKind::user_input) inputs.push_back(quoted(source_name(graph, source)));
  }
  const Mesh& mesh = stages[stage].program.mesh;
  return wrapped("    ", "SCHEDULE = " + schedule_text(pipeline)) + wrapped("    ", "MODEL_INPUTS = " + tuple(inputs)) + crossings("RECEIVED", ends.received, mesh) +
         crossings("SENT", ends.sent, mesh) + shared_parameters(pipeline, stages);
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
  const std::string ranks = std::to_string(ranks_of(pipeline)), count = std::to_string(stages.size());
  return "STAGES = " + tuple(meshes) + "  # ranks along each axis of each stage's mesh\n\n"
         "# The stage of this rank: ranks of one stage are neighbours.\n"
         "STAGE = (dist.get_rank() if dist.is_initialized() else int(os.environ.get(\"RANK\", \"0\"))) // " + ranks + " % " + count +
         "\n\nAXES = STAGES[STAGE]" + constant("BUCKET_BYTES", buckets, "so much is reduced together") + constant("UNIT_BYTES", units, "so much is loaded together");
}

std::string pipeline_model_text(const PipelinePlan& pipeline, const std::string& name) {
  return "\"\"\"" + name + ", as Meshwright planned it for " + stages_phrase(pipeline) + ": the stage of this rank.\n\nRuns under torchrun; train.py shows how.\n\"\"\"\n"
         "import importlib\n\nfrom sharding import STAGE\n\nModel = importlib.import_module(f\"stage_{STAGE}\").Model\n";
}

}  // namespace meshwright::torch
