#include "commands/plan_verification.h"

#include <set>
#include <span>

#include "commands/runnable_plan.h"
#include "sources.h"
#include "stand_ins.h"

namespace meshwright::host {

namespace {

constexpr const char* kVerify = "verify";

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

Result<Verification> verify_plan(std::variant<Plan, PipelinePlan> plan, const ProgramTools& tools, PluginHost& host, const VerifyOptions& options) {
  Result<std::shared_ptr<Backend>> backend = host.create<Backend>("backend", "reference");
  if (!backend) return backend.error();
  const Result<RunnablePlan> run = make_runnable(std::move(plan), tools, **backend, options.exact, kVerify);
  if (!run) return run.error();
  Result<std::map<std::string, Tensor>> weights = weights_of(*run, host, options.exact, kVerify);
  if (!weights) return weights.error();
  const Graph& graph = run->model;
  if (options.shrunk) keep_of_same_size(graph, *weights);
  const std::int64_t microbatches = run->training.microbatches;
  Result<std::map<ValueId, Tensor>> sources = sample_sources(graph, *weights, 0);
  if (!sources) return sources.error();
  Result<std::vector<std::map<ValueId, Tensor>>> further = sample_microbatches(graph, *weights, microbatches);
  if (!further) return further.error();
  const auto later = sample_steps(graph, *weights, microbatches, options.steps);
  if (!later) return later.error();
  weights->clear();
  Result<std::unique_ptr<KernelTable>> kernels = kernels_for(host, "reference");
  if (!kernels) return kernels.error();
  std::vector<VerifiedStage> stages;
  for (std::size_t s = 0; s < run->stages.size(); ++s) stages.push_back({run->graph(s), run->made.programs[s]});
  const Measure& measure = options.exact ? kExact : kUsual;
  const StandIns stand_ins(*tools.ops, kernels->get());
  Result<Verification> verification = verify({graph, stages.front().program, *tools.ops, run->made.profiles.front(), &stand_ins, **backend, std::move(*sources), measure.tolerance,
                                              measure.floor, *further, measure.by_rows, *later, run->is_whole ? std::span<const VerifiedStage>() : std::span<const VerifiedStage>(stages), run->orders});
  if (verification) verification->not_computed = stand_ins.ops();
  return verification;
}

}  // namespace meshwright::host
