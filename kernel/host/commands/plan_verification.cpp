#include "commands/plan_verification.h"

#include <filesystem>
#include <optional>
#include <set>
#include <span>

#include "files/file_hash.h"
#include "in_float32.h"
#include "meshwright/frontend.h"
#include "meshwright/log.h"
#include "sources.h"
#include "stand_ins.h"

namespace meshwright::host {

namespace {

// What the model's file holds of weights and buffers; nothing where there is none, or the file is not the plan's.
Result<std::map<std::string, Tensor>> weights_of(const Plan& plan, PluginHost& host) {
  const std::string& path = plan.model_path;
  if (!std::filesystem::exists(path) || hash_file(path) != plan.model_hash) {
    log(LogLevel::warning, "verify", path + " is not there as it was planned: weights are drawn");
    return std::map<std::string, Tensor>();
  }
  Result<std::string> id = host.frontend_for(path);
  if (!id) return id.error();
  Result<std::shared_ptr<Frontend>> frontend = host.create<Frontend>("frontend", *id);
  if (!frontend) return frontend.error();
  return (*frontend)->tensors(path);
}

// The plan with everything that is float32 or less computed, kept and reduced in one type.
Status compute_in(DType dtype, const OpTable& ops, Plan& plan) {
  plan.training.param_dtype.reset();
  plan.training.reduce_dtype.reset();
  plan.training.master_dtype = dtype;
  Graph graph = plan.graph();
  retype(graph, dtype);
  Result<ModelAnalysis> model = analyze_model(std::move(graph), ops);
  if (!model) return model.error();
  plan.model = std::move(*model);
  return Done{};
}

// Leaves out what a smaller model has in another size.
void keep_of_same_size(const Graph& graph, std::map<std::string, Tensor>& tensors) {
  std::set<std::string> same;
  for (const Source& source : graph.sources) {
    const Value& value = graph.values[source.value];
    const auto found = tensors.find(value.name);
    if (found != tensors.end() && found->second.type() == value.type) same.insert(value.name);
  }
  std::erase_if(tensors, [&](const auto& tensor) { return !same.contains(tensor.first); });
}

// What "equal" means; see verify_plan.
struct Measure {
  double tolerance = 1e-4;
  double floor = 1e-3;
  bool by_rows = false;
};
constexpr Measure kUsual{};
constexpr Measure kExact{1e-9, 1e-6, true};

}  // namespace

namespace {

// What is verified: a plan's program, or those of the stages of a pipeline, and the model that they are of.
struct Verified {
  const Graph& graph;
  const TrainingSettings& training;
  std::vector<VerifiedStage> stages;  // of one that is whole: itself
  GroupOrders orders;
  bool is_whole = true;
  CostProfile profile;
};

Result<Verification> verify_programs(const Verified& verified, const Plan& of_file, const ProgramTools& tools, PluginHost& host, const VerifyOptions& options) {
  Result<std::map<std::string, Tensor>> weights = weights_of(of_file, host);
  if (!weights) return weights.error();
  for (auto& [name, tensor] : *weights) tensor = options.exact ? in_float64(std::move(tensor)) : in_float32(std::move(tensor));
  const Graph& graph = verified.graph;
  if (options.shrunk) keep_of_same_size(graph, *weights);
  const std::int64_t microbatches = verified.training.microbatches;
  Result<std::map<ValueId, Tensor>> sources = sample_sources(graph, *weights, 0);
  if (!sources) return sources.error();
  Result<std::vector<std::map<ValueId, Tensor>>> further = sample_microbatches(graph, *weights, microbatches);
  if (!further) return further.error();
  const auto later = sample_steps(graph, *weights, microbatches, options.steps);
  if (!later) return later.error();
  weights->clear();
  Result<std::shared_ptr<Backend>> backend = host.create<Backend>("backend", "reference");
  if (!backend) return backend.error();
  Result<std::unique_ptr<KernelTable>> kernels = kernels_for(host, "reference");
  if (!kernels) return kernels.error();
  const Measure& measure = options.exact ? kExact : kUsual;
  const StandIns stand_ins(*tools.ops, kernels->get());
  Result<Verification> verification = verify({graph, verified.stages.front().program, *tools.ops, verified.profile, &stand_ins, **backend, std::move(*sources), measure.tolerance,
                                              measure.floor, *further, measure.by_rows, *later, verified.is_whole ? std::span<const VerifiedStage>() : std::span(verified.stages), verified.orders});
  if (verification) verification->not_computed = stand_ins.ops();
  return verification;
}

// The type in which a plan is verified, if it is another one than it computes in. Says so where precision is gained.
std::optional<DType> verified_dtype(const Graph& graph, const TrainingSettings& training, bool exact) {
  if (exact) return DType::float64;
  if (!computes_in_half(graph) && !is_half(training.gradient_dtype(DType::float32))) return std::nullopt;
  log(LogLevel::warning, "verify", "the plan computes in half precision; it is verified in float32, so bytes are those of float32");
  return DType::float32;
}

}  // namespace

Result<Verification> verify_plan(Plan plan, const ProgramTools& tools, PluginHost& host, const VerifyOptions& options) {
  if (const std::optional<DType> dtype = verified_dtype(plan.graph(), plan.training, options.exact)) {
    if (Status status = compute_in(*dtype, *tools.ops, plan); !status) return status.error();
  }
  Result<Program> program = make_program(plan, tools);
  if (!program) return program.error();
  return verify_programs({plan.graph(), plan.training, {{plan.graph(), *program}}, {}, true, tools.profile}, plan, tools, host, options);
}

Result<Verification> verify_pipeline(PipelinePlan pipeline, const ProgramTools& tools, PluginHost& host, const VerifyOptions& options) {
  Graph graph = *pipeline.model.graph;
  if (const std::optional<DType> dtype = verified_dtype(graph, pipeline.training, options.exact)) {
    retype(graph, *dtype);
    for (Plan& plan : pipeline.stages) {
      if (Status status = compute_in(*dtype, *tools.ops, plan); !status) return status.error();
    }
    pipeline.training = pipeline.stages.front().training;
  }
  const Result<StagePrograms> made = make_programs(pipeline, tools);
  if (!made) return made.error();
  std::vector<VerifiedStage> stages;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) stages.push_back({pipeline.stages[s].graph(), made->programs[s]});
  return verify_programs({graph, pipeline.training, std::move(stages), pipeline.orders, false, made->profiles.front()}, pipeline.stages.front(), tools, host, options);
}

}  // namespace meshwright::host
