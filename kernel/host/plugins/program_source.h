// From a plan to the program that its ranks execute: composes the passes that the configuration names.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "meshwright/backend.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/program_pass.h"
#include "plugins/plugin_host.h"

namespace meshwright::host {

// What programs are made with.
struct ProgramTools {
  std::unique_ptr<OpTable> ops;
  std::shared_ptr<ConversionSearch> conversions;
  std::shared_ptr<ProgramPass> parameter_shard, communication, reshape;
  std::vector<std::string> altering;  // the ids of those among these that change what the backward computes
  CostProfile profile;

  // `part`: of a stage of a pipeline; null: the model is whole.
  [[nodiscard]] PlanningContext context(const ModelAnalysis& model, const TrainingSettings& training, const StagePart* part = nullptr) const {
    return {model, training, *ops, profile, *conversions, part};
  }
};

// The plugins that the configuration names; the conversion search and the profiler are those with which the plan was
// made, where the plan names them. `ops`: the families, where they are open already. Errors: bad_input (a name), plugin_failed.
Result<ProgramTools> open_tools(PluginHost& host, const Plan& plan, std::unique_ptr<OpTable> ops = nullptr);
// The same without the profile, for a plan that names no cluster.
Result<ProgramTools> open_passes(PluginHost& host, const Plan& plan, std::unique_ptr<OpTable> ops = nullptr);

// Errors: those of lower and of the passes.
Result<Program> make_program(const Plan& plan, const ProgramTools& tools);
// The same of a stage of a pipeline, in the context that it was planned in.
Result<Program> make_program(const Plan& plan, const PlanningContext& context, const ProgramTools& tools);
// Those of all stages, and what each is priced with. Errors: those of make_program, naming the stage, and of validate_stages.
struct StagePrograms {
  std::vector<Program> programs;
  std::vector<CostProfile> profiles;
};
Result<StagePrograms> make_programs(const PipelinePlan& pipeline, const ProgramTools& tools);

// The kernels that plugins bring for a backend ("BACKEND:OP" among what they serve). Two that claim one op: the first
// by id.
Result<std::unique_ptr<KernelTable>> kernels_for(PluginHost& host, const std::string& backend);

// The emitters that plugins bring for a backend, likewise. Errors: plugin_failed; bad_input that names both, where two write
// one op.
Result<std::unique_ptr<EmitterTable>> emitters_for(PluginHost& host, const std::string& backend);

}  // namespace meshwright::host
