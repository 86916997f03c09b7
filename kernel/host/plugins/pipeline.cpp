#include "plugins/pipeline.h"

#include <algorithm>

#include "files/file_hash.h"
#include "meshwright/frontend.h"
#include "meshwright/log.h"
#include "model_reader.h"
#include "pipeline_planner.h"
#include "plan_notes.h"
#include "plugins/program_source.h"
#include "plugins/suggestions.h"
#include "refusal.h"
#include "stopwatch.h"

namespace meshwright::host {

namespace {

// The first dimension of what the user feeds; 1 if there is none.
std::int64_t batch_of(const Graph& graph) {
  for (const Source& source : graph.sources) {
    const TensorType& type = graph.type(source.value);
    if (source.kind == SourceKind::user_input && type.rank() > 0) return type.shape[0];
  }
  return 1;
}

class Pipeline {
 public:
  Pipeline(const PlanOptions& options, PluginHost& host) : options_(options), host_(host) {}

  Result<PlanOutcome> run() {
    Stopwatch total, watch;
    if (host_.config().free_microbatches) return bad_input("[train] microbatches = \"free\" is for `plan`, which tries several; give their number here");
    if (Status status = load_plugins(); !status) return status.error();
    outcome_.phases.plugins = watch.lap();
    if (Status status = read_model(); !status) return status.error();
    outcome_.phases.frontend = watch.lap();
    Result<ModelAnalysis> analysis = analyze_model(std::move(model_.graph), *tools_.ops);
    if (!analysis) return analysis.error();
    analysis_ = std::move(*analysis);
    outcome_.batch = batch_of(*analysis_.graph) * model_.training.microbatches;
    outcome_.phases.strategies = watch.lap();
    if (search().integer("stages") > 1) {
      if (Status status = run_stages(); !status) return status.error();
      outcome_.phases.total = total.lap();
      return std::move(outcome_);
    }
    outcome_.asked = {analysis_, model_.training, cluster_, budget_, holds_device_};
    Result<PlanRanking> ranking =
        rank_plans({context(), cluster_, *solver_, search(),
                    [this](const Plan& plan) { return make_program(plan, tools_); }, checkpoint_.get(), host_.config().pins,
                    host_.config().cluster.text("mesh"), budget_, holds_device_, options_.top, options_.explain, options_.usual});
    if (!ranking) return ranking.error();
    take(std::move(*ranking));
    outcome_.phases.total = total.lap();
    return std::move(outcome_);
  }

 private:
  const Config& search() const { return host_.config().search; }

  Status load_plugins() {
    Result<std::string> frontend_id = host_.frontend_for(options_.model);
    if (!frontend_id) return frontend_id.error();
    if (Status status = create("frontend", *frontend_id, frontend_); !status) return status;
    if (Status status = create("clusters", host_.config().cluster.text("plugin"), clusters_); !status) return status;
    if (Status status = create("profilers", search().text("profiler"), profiler_); !status) return status;
    Result<ProgramTools> tools = open_passes(host_, Plan{});
    if (!tools) return tools.error();
    tools_ = std::move(*tools);
    if (Status status = note_used("conversions", search().text("conversions")); !status) return status;
    if (search().text("checkpoint") != "none") {
      if (Status status = create("checkpoint", search().text("checkpoint"), checkpoint_); !status) return status;
    }
    return create("intra", search().text("intra"), solver_);
  }

  template <class T>
  Status create(std::string_view kind, const std::string& id, std::shared_ptr<T>& object) {
    Result<std::shared_ptr<T>> made = host_.create<T>(kind, id);
    if (!made) return made.error();
    object = std::move(*made);
    return note_used(kind, id);
  }

  Status note_used(std::string_view kind, const std::string& id) {
    Result<const PluginInfo*> info = host_.registry().find(kind, id);
    if (!info) return info.error();
    used_.push_back({std::string(kind), id, (*info)->version});
    return Done{};
  }

  Status read_model() {
    Result<TrainedModel> model = meshwright::read_model(options_.model, *frontend_, *tools_.ops, host_.config().model, host_.config().train);
    if (!model) return model.error();
    model_ = std::move(*model);
    Result<Cluster> cluster = clusters_->describe(host_.config().cluster.text("file"));
    if (!cluster) return cluster.error();
    cluster_ = std::move(*cluster);
    cluster_.nodes *= options_.node_factor;
    if (options_.profiled) cluster_.device = *options_.profiled;
    Result<CostProfile> profile = options_.profiled ? profiler_->recall(cluster_) : profiler_->profile(cluster_);
    if (!profile) return profile.error();
    cluster_.device = outcome_.device = profile->device;  // the plan keeps it, and nobody who opens it measures again
    tools_.profile = for_training(std::move(*profile), model_.training);
    tools_.profile.parameter_bytes = parameter_bytes(model_.graph, model_.training);
    if (Status status = check_attention(cluster_.device, model_.training); !status) return status;
    return read_budget();
  }

  Status read_budget() {
    const std::int64_t free = largest_peak_bytes(cluster_);
    const std::int64_t wanted = search().integer("memory_budget");
    if (wanted == 0 && !options_.memory_budget.empty()) {  // the configuration's 0 is all, but nobody says so in an option
      return bad_input(
          "--memory-budget " + options_.memory_budget +
          " is no memory at all; leave it out for all that the device's and the cluster's file leave free");
    }
    budget_ = wanted > 0 ? wanted : free;
    holds_device_ = wanted <= 0;
    if (budget_ > free) {
      log(LogLevel::warning, "plan",
          "the memory budget is more than the " + std::to_string(free) +
              " bytes that the device's and the cluster's file leave free on a device");
    }
    return Done{};
  }

  // --- several stages ---

  Status run_stages() {
    if (!options_.known.empty()) return bad_input("--known " + options_.known + " is of plans of one stage; with several leave it out");
    if (options_.top > 1) return bad_input("--top " + std::to_string(options_.top) + " is of plans of one stage; with several there is one plan so far");
    const std::string& id = search().text("schedule");
    std::shared_ptr<ScheduleMaker> maker;
    if (Status status = create("schedules", id, maker); !status) return status;
    Result<PipelineSchedule> schedule =
        maker->make({static_cast<std::uint32_t>(search().integer("stages")), static_cast<std::uint32_t>(search().integer("chunks")), static_cast<std::uint32_t>(model_.training.microbatches)});
    if (!schedule) return add_context("\"schedule\" in [search]", schedule.error());
    Result<PipelineOutcome> found =
        plan_pipeline({context(), cluster_, *solver_, search(), checkpoint_.get(), host_.config().pins, host_.config().cluster.text("mesh"), budget_, holds_device_, std::move(*schedule), id,
                       [this](const Plan& plan, const PlanningContext& stage) { return make_program(plan, stage, tools_); },
                       options_.explain && options_.usual});
    if (!found) return found.error();
    outcome_.phases.strategies += found->strategies_seconds;
    outcome_.phases.search = found->search_seconds;
    outcome_.phases.comparisons = found->comparisons_seconds;
    outcome_.pipeline_comparisons = std::move(found->comparisons);
    outcome_.refusal = std::move(found->refusal);
    if (!found->plan) return Done{};
    complete(*found->plan);
    outcome_.pipeline = std::move(*found->plan);
    return Done{};
  }

  void complete(PipelinePlan& pipeline) {
    for (const std::string& family : op_families()) used_.push_back({"ops", family, version_of("ops", family)});
    pipeline.model_path = options_.model;
    pipeline.model_hash = hash_file(options_.model);
    pipeline.model = analysis_;
    pipeline.cluster = cluster_;
    pipeline.training = model_.training;
    pipeline.plugins = used_;
    pipeline.budget_bytes = budget_;
    for (Plan& plan : pipeline.stages) {
      plan.model_path = pipeline.model_path;
      plan.model_hash = pipeline.model_hash;
      plan.plugins = used_;
      const std::vector<std::string> notes = notes_of(plan);
      plan.notes.insert(plan.notes.end(), notes.begin(), notes.end());
    }
    pipeline.notes.insert(pipeline.notes.begin(), model_.refused_composites.begin(), model_.refused_composites.end());
    for (const std::string& note : unruled_notes(pipeline.stages.front(), tools_.profile, analysis_.atoms->warnings)) log(LogLevel::warning, "plan", note);
  }

  PlanningContext context() const { return tools_.context(analysis_, model_.training); }

  void take(PlanRanking ranking) {
    outcome_.phases.strategies += ranking.strategies_seconds;
    outcome_.phases.search = ranking.search_seconds;
    outcome_.phases.comparisons = ranking.comparisons_seconds;
    outcome_.phases.runner_up = ranking.runner_up_seconds;
    outcome_.may_have_more = ranking.may_have_more;
    outcome_.trials = std::move(ranking.trials);
    outcome_.comparisons = std::move(ranking.comparisons);
    if (ranking.plans.empty()) explain_refusal(ranking.smallest, ranking.smallest_budget_bytes);
    else finish(std::move(ranking.plans));
  }

  void finish(std::vector<RankedPlan> plans) {
    outcome_.variables = plans.front().variables;
    outcome_.strategies = plans.front().strategies;
    for (const std::string& family : op_families()) used_.push_back({"ops", family, version_of("ops", family)});
    model_hash_ = hash_file(options_.model);
    const std::vector<std::string> unruled = unruled_notes(plans.front().fitted.plan, tools_.profile, analysis_.atoms->warnings);
    for (const std::string& note : unruled) log(LogLevel::warning, "plan", note);
    for (RankedPlan& ranked : plans) complete(ranked.fitted);
    outcome_.plan = std::move(plans.front().fitted.plan);
    for (std::size_t i = 1; i < plans.size(); ++i) outcome_.next.push_back(std::move(plans[i].fitted.plan));
  }

  // What a plan does not say of itself.
  void complete(FittedPlan& fitted) const {
    Plan& plan = fitted.plan;
    plan.model_path = options_.model;
    plan.model_hash = model_hash_;
    plan.cluster = cluster_;
    plan.budget_bytes = budget_;
    plan.plugins = used_;
    const auto add_notes = [&](const std::vector<std::string>& notes) { plan.notes.insert(plan.notes.end(), notes.begin(), notes.end()); };
    add_notes(notes_of(plan));
    for (const Pin& pin : host_.config().pins) plan.notes.push_back("Pinned by the configuration: " + to_string(pin) + ".");
    if (!fitted.no_program.empty()) {
      plan.notes.push_back("The peak is what the search counts, since the plan has no program: " + fitted.no_program + ".");
    }
    add_notes(model_.refused_composites);
    add_notes(unruled_notes(plan, tools_.profile, analysis_.atoms->warnings));
  }

  [[nodiscard]] bool computes_in(DType dtype) const {
    const Graph& graph = *analysis_.graph;
    return std::any_of(graph.sources.begin(), graph.sources.end(), [&](const Source& source) {
      return source.kind == SourceKind::parameter && graph.type(source.value).dtype == dtype;
    });
  }

  std::vector<std::string> op_families() const { return host_.registry().ids("ops"); }

  std::string version_of(std::string_view kind, const std::string& id) const {
    Result<const PluginInfo*> info = host_.registry().find(kind, id);
    return info ? (*info)->version : "";
  }

  void explain_refusal(const std::optional<FittedPlan>& smallest, std::int64_t smallest_budget_bytes) {
    for (const std::string& warning : analysis_.atoms->warnings) log(LogLevel::warning, "plan", warning);
    const auto is_no_matter_of_memory = [](const MeshTrial& trial) { return trial.status == SolveStatus::infeasible && trial.least_bytes == 0; };
    if (!host_.config().pins.empty() && std::all_of(outcome_.trials.begin(), outcome_.trials.end(), is_no_matter_of_memory)) {
      outcome_.refusal = "no plan meets what [pins] says";
      for (const MeshTrial& trial : outcome_.trials) outcome_.refusal += "\n  mesh " + trial.mesh + ": " + trial.binding;
      return;
    }
    outcome_.refusal = refusal_text(outcome_.trials, smallest ? &*smallest : nullptr, smallest_budget_bytes, budget_,
                                    holds_device_ ? &cluster_.device : nullptr);
    outcome_.changes = suggestions({options_, smallest ? &*smallest : nullptr, budget_, outcome_.batch, model_.training.microbatches,
                                    search().text("zero") != "free" && search().text("zero") != "3",
                                    !host_.config().cluster.text("mesh").empty(), computes_in(DType::float32)});
    for (Suggestion& change : outcome_.changes) change.options.profiled = cluster_.device;
  }

  const PlanOptions& options_;
  PluginHost& host_;
  PlanOutcome outcome_;
  std::shared_ptr<Frontend> frontend_;
  std::shared_ptr<ClusterSource> clusters_;
  std::shared_ptr<Profiler> profiler_;
  std::shared_ptr<IntraSolver> solver_;
  std::shared_ptr<CheckpointSolver> checkpoint_;  // null: nobody asks for one
  std::vector<UsedPlugin> used_;
  TrainedModel model_;  // its graph goes into the analysis
  ModelAnalysis analysis_;
  Cluster cluster_;
  std::int64_t budget_ = 0;
  bool holds_device_ = false;  // Nobody gave a budget: a plan is held against all of the device.
  ProgramTools tools_;  // its profile is the cluster's
  std::string model_hash_;
};

}  // namespace

Result<PlanOutcome> run_pipeline(const PlanOptions& options, PluginHost& host) { return Pipeline(options, host).run(); }

}  // namespace meshwright::host
