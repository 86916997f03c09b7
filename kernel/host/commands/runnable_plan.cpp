#include "commands/runnable_plan.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <filesystem>
#include <utility>

#include "files/file_hash.h"
#include "in_float32.h"
#include "meshwright/frontend.h"
#include "meshwright/log.h"

namespace meshwright::host {

namespace {

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

// The type in which a plan is run, if it is another one than it computes in. Says so where precision is gained.
std::optional<DType> run_dtype(const Graph& graph, const TrainingSettings& training, const Backend& backend, bool exact, const char* who) {
  if (exact) return DType::float64;
  const auto computes = [&](DType dtype) { return !is_half(dtype) || backend.computes_in(dtype); };
  if (std::ranges::all_of(graph.values, computes, [](const Value& value) { return value.type.dtype; }) && computes(training.gradient_dtype(DType::float32))) return std::nullopt;
  log(LogLevel::warning, who, "the plan computes in half precision; here it is run in float32, so bytes are those of float32");
  return DType::float32;
}

}  // namespace

Result<RunnablePlan> make_runnable(std::variant<Plan, PipelinePlan> plan, const ProgramTools& tools, const Backend& backend, bool exact, const char* who) {
  RunnablePlan run;
  if (auto* pipeline = std::get_if<PipelinePlan>(&plan)) {
    run.is_whole = false;
    Graph model = *pipeline->model.graph;
    const std::optional<DType> dtype = run_dtype(model, pipeline->training, backend, exact, who);
    for (Plan& stage : pipeline->stages) {
      if (!dtype) break;
      if (Status status = compute_in(*dtype, *tools.ops, stage); !status) return status.error();
    }
    retype(model, dtype.value_or(DType::float32));
    if (dtype) pipeline->training = pipeline->stages.front().training;
    Result<StagePrograms> made = make_programs(*pipeline, tools);
    if (!made) return made.error();
    run.model = std::move(model);
    run.made = std::move(*made);
    run.training = pipeline->training;
    run.orders = pipeline->orders;
    run.stages = std::move(pipeline->stages);
    return run;
  }
  Plan& whole = std::get<Plan>(plan);
  if (const std::optional<DType> dtype = run_dtype(whole.graph(), whole.training, backend, exact, who)) {
    if (Status status = compute_in(*dtype, *tools.ops, whole); !status) return status.error();
  }
  Result<Program> program = make_program(whole, tools);
  if (!program) return program.error();
  run.model = whole.graph();
  if (!exact) retype(run.model, DType::float32);
  run.made.programs.push_back(std::move(*program));
  run.made.profiles.push_back(tools.profile);
  run.training = whole.training;
  run.stages.push_back(std::move(whole));
  return run;
}

Result<std::map<std::string, Tensor>> weights_of(const RunnablePlan& plan, PluginHost& host, bool exact, const char* who) {
  const std::string& path = plan.stages.front().model_path;
  if (!std::filesystem::exists(path) || hash_file(path) != plan.stages.front().model_hash) {
    log(LogLevel::warning, who, path + " is not there as it was planned: weights are drawn");
    return std::map<std::string, Tensor>();
  }
  Result<std::string> id = host.frontend_for(path);
  if (!id) return id.error();
  Result<std::shared_ptr<Frontend>> frontend = host.create<Frontend>("frontend", *id);
  if (!frontend) return frontend.error();
  Result<std::map<std::string, Tensor>> weights = (*frontend)->tensors(path);
  if (!weights) return weights;
  for (auto& [name, tensor] : *weights) tensor = exact ? in_float64(std::move(tensor)) : in_float32(std::move(tensor));
  return weights;
}

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace meshwright::host
