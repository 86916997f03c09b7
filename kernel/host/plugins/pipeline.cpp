#include "plugins/pipeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cluster_part.h"
#include "expert_layers.h"
#include "files/file_hash.h"
#include "meshwright/frontend.h"
#include "meshwright/log.h"
#include "model_reader.h"
#include "pipeline_planner.h"
#include "plan_notes.h"
#include "plugins/joint_stage_planner.h"
#include "plugins/manual_degrees.h"
#include "plugins/placed_stage_planner.h"
#include "plugins/program_source.h"
#include "plugins/stage_grid_planner.h"
#include "plugins/suggestions.h"
#include "refusal.h"
#include "stage_devices.h"
#include "stopwatch.h"
#include "wished_stage.h"

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

// A model in microbatches, as it is planned for.
struct TrainedAnalysis {
  TrainedModel model;  // its graph goes into the analysis
  ModelAnalysis analysis;
  CostProfile profile;  // of the cluster
};

}  // namespace

class PlanningSession::Impl {
 public:
  Impl(const PlanOptions& options, PluginHost& host) : options_(options), host_(host), search_(host.config().search), mesh_(host.config().cluster.text("mesh")) {}

  Status open() {
    Stopwatch watch;
    if (Status status = load_plugins(); !status) return status;
    phases_.plugins = watch.lap();
    return Done{};
  }

  Status read(std::int64_t microbatches) {
    auto known = read_.find(microbatches);
    if (known == read_.end()) {
      Result<TrainedAnalysis> made = read_model(microbatches);
      if (!made) return made.error();
      known = read_.emplace(microbatches, std::move(*made)).first;
    }
    now_ = &known->second;
    tools_.profile = now_->profile;
    return Done{};
  }

  [[nodiscard]] PlanningContext context() const { return tools_.context(now_->analysis, now_->model.training); }
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] std::int64_t batch() const { return batch_of(*now_->analysis.graph) * now_->model.training.microbatches; }
  Config& search() { return search_; }
  std::string& mesh() { return mesh_; }

  [[nodiscard]] std::int64_t budget_bytes() const { return budget_; }
  [[nodiscard]] const IntraSolver& solver() const { return *solver_; }
  [[nodiscard]] Result<Program> program(const Plan& plan, const PlanningContext& context) const { return make_program(plan, context, tools_); }

  Result<PlanOutcome> plan(StageCuts cuts) {
    Stopwatch total;
    if (Status status = check_expert_axes(now_->analysis, search_); !status) return status.error();
    outcome_ = {};
    outcome_.phases = phases_;
    outcome_.batch = batch();
    outcome_.device = cluster_.device;
    if (Status status = search_.integer("stages") > 1 ? run_stages(std::move(cuts)) : run_stage(cuts); !status) return status.error();
    outcome_.phases.total = phases_.plugins + phases_.frontend + phases_.strategies + total.lap();
    return std::move(outcome_);
  }

  Result<PipelineSchedule> schedule(std::int64_t microbatches) {
    const std::string& id = search_.text("schedule");
    std::shared_ptr<ScheduleMaker>& maker = schedules_[id];
    if (maker == nullptr) {
      Result<std::shared_ptr<ScheduleMaker>> made = host_.create<ScheduleMaker>("schedules", id);
      if (!made) return made.error();
      maker = std::move(*made);
    }
    Result<PipelineSchedule> made = maker->make({static_cast<std::uint32_t>(search_.integer("stages")), static_cast<std::uint32_t>(search_.integer("chunks")), static_cast<std::uint32_t>(microbatches)});
    return made ? std::move(made) : add_context("\"schedule\" in [search]", made.error());
  }

 private:
  Status load_plugins() {
    Result<std::string> frontend_id = host_.frontend_for(options_.model);
    if (!frontend_id) return frontend_id.error();
    if (Status status = create("frontend", *frontend_id, frontend_); !status) return status;
    if (Status status = create("clusters", host_.config().cluster.text("plugin"), clusters_); !status) return status;
    if (Status status = create("profilers", search_.text("profiler"), profiler_); !status) return status;
    Result<ProgramTools> tools = open_passes(host_, Plan{});
    if (!tools) return tools.error();
    tools_ = std::move(*tools);
    if (Status status = note_used("conversions", search_.text("conversions")); !status) return status;
    if (search_.text("checkpoint") != "none") {
      if (Status status = create("checkpoint", search_.text("checkpoint"), checkpoint_); !status) return status;
    }
    return create("intra", search_.text("intra"), solver_);
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

  Result<TrainedAnalysis> read_model(std::int64_t microbatches) {
    Stopwatch watch;
    Config train = host_.config().train;
    train.set("microbatches", microbatches);
    if (!whole_) {
      Result<ReadModel> whole = read_whole_model(options_.model, *frontend_, *tools_.ops, host_.config().model);
      if (!whole) return whole.error();
      whole_ = std::move(*whole);
    }
    Result<TrainedModel> model = as_trained(*whole_, *tools_.ops, train);
    if (!model) return model.error();
    TrainedAnalysis made;
    made.model = std::move(*model);
    Result<CostProfile> profile = read_cluster();
    if (!profile) return profile.error();
    made.profile = for_training(std::move(*profile), made.model.training);
    made.profile.parameter_bytes = parameter_bytes(made.model.graph, made.model.training);
    if (Status status = check_attention(cluster_.device, made.model.training); !status) return status.error();
    for (const Cluster& part : cluster_.parts) {
      if (Status status = check_attention(part.device, made.model.training); !status) return status.error();
    }
    if (Status status = read_budget(); !status) return status.error();
    phases_.frontend += watch.lap();
    Result<ModelAnalysis> analysis = analyze_model(std::move(made.model.graph), *tools_.ops);
    if (!analysis) return analysis.error();
    made.analysis = std::move(*analysis);
    phases_.strategies += watch.lap();
    return made;
  }

  // A profiler is asked for new figures once.
  Result<CostProfile> read_cluster() {
    const bool known = options_.profiled || !read_.empty();
    if (read_.empty()) {
      Result<Cluster> cluster = clusters_->describe(host_.config().cluster.text("file"));
      if (!cluster) return cluster.error();
      cluster_ = std::move(*cluster);
      if (Status status = take_devices(); !status) return status.error();
      if (options_.profiled) cluster_.device = *options_.profiled;
    }
    Result<CostProfile> profile = known ? profiler_->recall(cluster_) : profiler_->profile(cluster_);
    if (!profile) return profile.error();
    cluster_.device = profile->device;  // the plan keeps it, and nobody who opens it measures again
    for (Cluster& part : cluster_.parts) {
      const Result<CostProfile> of_part = known ? profiler_->recall(part) : profiler_->profile(part);
      if (!of_part) return of_part.error();
      part.device = of_part->device;
    }
    return profile;
  }

  // The part that is asked for; more nodes are what the cluster has, where it has so many.
  Status take_devices() {
    if (options_.only_part > 0) {
      const Cluster part = cluster_.parts.at(options_.only_part - 1);
      cluster_ = part;
    }
    const std::int64_t part = options_.part_devices, more = part * options_.node_factor;
    const bool has_more = part > 0 && more <= cluster_.devices();
    if (part > 0) {
      Result<Cluster> taken = cluster_part(cluster_, has_more ? more : part);
      if (!taken) return add_context("--devices", taken.error());
      cluster_ = std::move(*taken);
    }
    if (!has_more && cluster_.parts.empty()) cluster_.nodes *= options_.node_factor;
    return Done{};
  }

  Status read_budget() {
    const std::int64_t free = largest_peak_bytes(cluster_);
    const std::int64_t wanted = search_.integer("memory_budget");
    if (wanted == 0 && !options_.memory_budget.empty()) {  // the configuration's 0 is all, but nobody says so in an option
      return bad_input(
          "--memory-budget " + options_.memory_budget +
          " is no memory at all; leave it out for all that the device's and the cluster's file leave free");
    }
    budget_ = wanted > 0 ? wanted : free;
    holds_device_ = wanted <= 0;
    if (budget_ > free && read_.empty()) {
      log(LogLevel::warning, "plan",
          "the memory budget is more than the " + std::to_string(free) +
              " bytes that the device's and the cluster's file leave free on a device");
    }
    return Done{};
  }

  // As is asked for, until something fits; on the mesh that is given, or on any, where nobody asks.
  Status run_stage(const StageCuts& cuts) {
    outcome_.asked = {now_->analysis, now_->model.training, cluster_, budget_, holds_device_};
    if (const Result<Cluster> alike = cluster_range(cluster_, 0, cluster_.devices()); !alike) return alike.error();
    if (!cuts.is_given()) return run_stage(StageCutWish::Stage{mesh_});
    while (!outcome_.plan) {
      const Result<std::optional<StageCutWish>> wish = cuts.next(nullptr);
      if (!wish) return wish.error();
      if (!*wish) break;
      if (Status status = run_stage((*wish)->stages.front()); !status) return status;
    }
    return Done{};
  }

  Status run_stage(const StageCutWish::Stage& wish) {
    Result<PlanRanking> ranking =
        rank_wished({context(), cluster_, *solver_, search_, [this](const Plan& plan) { return make_program(plan, tools_); }, checkpoint_.get(), host_.config().pins, mesh_, budget_,
                     holds_device_, options_.top, options_.explain, options_.usual, options_.name_budget}, wish);
    if (!ranking) return ranking.error();
    take(std::move(*ranking));
    return Done{};
  }

  // --- several stages ---

  Status run_stages(StageCuts cuts) {
    if (!options_.known.empty()) return bad_input("--known " + options_.known + " is of plans of one stage; with several leave it out");
    if (options_.top > 1) return bad_input("--top " + std::to_string(options_.top) + " is of plans of one stage; with several there is one plan so far");
    Result<PipelineSchedule> order = schedule(now_->model.training.microbatches);
    if (!order) return order.error();
    const std::string &id = search_.text("schedule"), &devices = search_.text("stage_devices");
    Result<PipelineOutcome> found =
        plan_pipeline({context(), cluster_, *solver_, search_, checkpoint_.get(), host_.config().pins, mesh_, budget_, holds_device_, std::move(*order), id,
                       [this](const Plan& plan, const PlanningContext& stage) { return make_program(plan, stage, tools_); },
                       options_.explain && options_.usual, std::move(cuts), devices.empty() ? std::vector<std::int64_t>{} : parse_stage_devices(devices).value()});
    if (!found) return found.error();
    outcome_.phases.strategies += found->strategies_seconds;
    outcome_.phases.search = found->search_seconds;
    outcome_.phases.comparisons = found->comparisons_seconds;
    outcome_.pipeline_comparisons = std::move(found->comparisons);
    outcome_.refusal = std::move(found->refusal);
    if (!found->plan) return Done{};
    return complete(id, *found->plan);
  }

  Status complete(const std::string& schedule, PipelinePlan& pipeline) {
    std::vector<UsedPlugin> used = used_;
    used.push_back({"schedules", schedule, version_of("schedules", schedule)});
    add_op_families(used);
    pipeline.model_path = options_.model;
    pipeline.model_hash = hash_file(options_.model);
    pipeline.model = now_->analysis;
    pipeline.cluster = cluster_;
    pipeline.training = now_->model.training;
    pipeline.plugins = used;
    pipeline.budget_bytes = budget_;
    for (Plan& plan : pipeline.stages) {
      plan.model_path = pipeline.model_path;
      plan.model_hash = pipeline.model_hash;
      plan.plugins = used;
      const std::vector<std::string> notes = notes_of(plan);
      plan.notes.insert(plan.notes.end(), notes.begin(), notes.end());
    }
    pipeline.notes.insert(pipeline.notes.begin(), now_->model.refused_composites.begin(), now_->model.refused_composites.end());
    for (const std::string& note : unruled_notes(pipeline.stages.front(), tools_.profile, now_->analysis.atoms->warnings)) log(LogLevel::warning, "plan", note);
    outcome_.pipeline = std::move(pipeline);
    return Done{};
  }

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
    std::vector<UsedPlugin> used = used_;
    add_op_families(used);
    model_hash_ = hash_file(options_.model);
    const std::vector<std::string> unruled = unruled_notes(plans.front().fitted.plan, tools_.profile, now_->analysis.atoms->warnings);
    for (const std::string& note : unruled) log(LogLevel::warning, "plan", note);
    for (RankedPlan& ranked : plans) complete(used, ranked.fitted);
    outcome_.plan = std::move(plans.front().fitted.plan);
    for (std::size_t i = 1; i < plans.size(); ++i) outcome_.next.push_back(std::move(plans[i].fitted.plan));
  }

  // What a plan does not say of itself.
  void complete(const std::vector<UsedPlugin>& used, FittedPlan& fitted) const {
    Plan& plan = fitted.plan;
    plan.model_path = options_.model;
    plan.model_hash = model_hash_;
    plan.cluster = cluster_;
    plan.budget_bytes = budget_;
    plan.plugins = used;
    const auto add_notes = [&](const std::vector<std::string>& notes) { plan.notes.insert(plan.notes.end(), notes.begin(), notes.end()); };
    add_notes(notes_of(plan));
    for (const Pin& pin : host_.config().pins) plan.notes.push_back("Pinned by the configuration: " + to_string(pin) + ".");
    if (!fitted.no_program.empty()) {
      plan.notes.push_back("The peak is what the search counts, since the plan has no program: " + fitted.no_program + ".");
    }
    add_notes(now_->model.refused_composites);
    add_notes(unruled_notes(plan, tools_.profile, now_->analysis.atoms->warnings));
  }

  [[nodiscard]] bool computes_in(DType dtype) const {
    const Graph& graph = *now_->analysis.graph;
    return std::any_of(graph.sources.begin(), graph.sources.end(), [&](const Source& source) {
      return source.kind == SourceKind::parameter && graph.type(source.value).dtype == dtype;
    });
  }

  void add_op_families(std::vector<UsedPlugin>& used) const {
    for (const std::string& family : host_.registry().ids("ops")) used.push_back({"ops", family, version_of("ops", family)});
  }

  std::string version_of(std::string_view kind, const std::string& id) const {
    Result<const PluginInfo*> info = host_.registry().find(kind, id);
    return info ? (*info)->version : "";
  }

  void explain_refusal(const std::optional<FittedPlan>& smallest, std::int64_t smallest_budget_bytes) {
    for (const std::string& warning : now_->analysis.atoms->warnings) log(LogLevel::warning, "plan", warning);
    const auto is_no_matter_of_memory = [](const MeshTrial& trial) { return trial.status == SolveStatus::infeasible && trial.least_bytes == 0; };
    if (!host_.config().pins.empty() && std::all_of(outcome_.trials.begin(), outcome_.trials.end(), is_no_matter_of_memory)) {
      outcome_.refusal = "no plan meets what [pins] says";
      for (const MeshTrial& trial : outcome_.trials) outcome_.refusal += "\n  mesh " + trial.mesh + ": " + trial.binding;
      return;
    }
    outcome_.refusal = refusal_text(outcome_.trials, smallest ? &*smallest : nullptr, smallest_budget_bytes, budget_,
                                    holds_device_ ? &cluster_.device : nullptr);
    outcome_.changes = suggestions({options_, smallest ? &*smallest : nullptr, budget_, outcome_.batch, now_->model.training.microbatches,
                                    search_.text("zero") != "free" && search_.text("zero") != "3",
                                    !mesh_.empty(), computes_in(DType::float32)});
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
  std::optional<ReadModel> whole_;
  std::map<std::int64_t, TrainedAnalysis> read_;  // by microbatches
  TrainedAnalysis* now_ = nullptr;                // the last of them that was asked for
  Cluster cluster_;
  std::int64_t budget_ = 0;
  bool holds_device_ = false;  // Nobody gave a budget: a plan is held against all of the device.
  ProgramTools tools_;  // its profile is the cluster's, for what was read last
  std::string model_hash_;
  Config search_;
  std::string mesh_;
  std::map<std::string, std::shared_ptr<ScheduleMaker>> schedules_;  // by id
  PhaseSeconds phases_;  // of what is done once
};

PlanningSession::PlanningSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PlanningSession::~PlanningSession() = default;
PlanningSession::PlanningSession(PlanningSession&&) noexcept = default;

Result<PlanningSession> PlanningSession::open(const PlanOptions& options, PluginHost& host) {
  auto impl = std::make_unique<Impl>(options, host);
  if (Status status = impl->open(); !status) return status.error();
  return PlanningSession(std::move(impl));
}

Status PlanningSession::read(std::int64_t microbatches) { return impl_->read(microbatches); }
PlanningContext PlanningSession::context() const { return impl_->context(); }
const Cluster& PlanningSession::cluster() const { return impl_->cluster(); }
std::int64_t PlanningSession::batch() const { return impl_->batch(); }
Config& PlanningSession::search() { return impl_->search(); }
std::string& PlanningSession::mesh() { return impl_->mesh(); }
std::int64_t PlanningSession::budget_bytes() const { return impl_->budget_bytes(); }
const IntraSolver& PlanningSession::solver() const { return impl_->solver(); }
Result<Program> PlanningSession::program(const Plan& plan, const PlanningContext& context) const { return impl_->program(plan, context); }
Result<PlanOutcome> PlanningSession::plan() { return impl_->plan({}); }
Result<PlanOutcome> PlanningSession::plan(StageCuts cuts) { return impl_->plan(std::move(cuts)); }
Result<PipelineSchedule> PlanningSession::schedule(std::int64_t microbatches) { return impl_->schedule(microbatches); }

Result<PlanOutcome> run_pipeline(const PlanOptions& options, PluginHost& host) {
  const HostConfig& config = host.config();
  const std::string& inter = config.search.text("inter");
  if (inter == "grid") return plan_stage_grid(options, host);
  if (inter == "joint") return plan_joint_stages(options, host);
  if (inter != "none" && inter != "manual") return plan_placed_stages(options, host);
  if (config.free_microbatches) return bad_input("[train] microbatches = \"free\" is for `plan`, which tries several; give their number here");
  Result<PlanningSession> session = PlanningSession::open(options, host);
  if (!session) return session.error();
  if (Status status = session->read(config.train.integer("microbatches")); !status) return status.error();
  if (inter == "manual") {
    if (Status status = set_degrees(config, session->cluster(), session->context().model, session->search(), session->mesh()); !status) return status.error();
  }
  return session->plan();
}

}  // namespace meshwright::host
