#include "pipeline.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "distinct_plans.h"
#include "file_hash.h"
#include "fitted_search.h"
#include "meshwright/atoms.h"
#include "meshwright/conversion.h"
#include "meshwright/frontend.h"
#include "meshwright/log.h"
#include "meshwright/solver.h"
#include "model_reader.h"
#include "pins.h"
#include "plan_notes.h"
#include "program_source.h"
#include "refusal.h"
#include "search_settings.h"
#include "text_table.h"

namespace meshwright::host {

namespace {

class Stopwatch {
 public:
  // Seconds since the last call.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// The first dimension of what the user feeds; 1 if there is none.
std::int64_t batch_of(const Graph& graph) {
  for (const Source& source : graph.sources) {
    const TensorType& type = graph.type(source.value);
    if (source.kind == SourceKind::user_input && type.rank() > 0) return type.shape[0];
  }
  return 1;
}

// A plan of one mesh, and the size of its problem.
struct Solved {
  Mesh mesh;
  FittedPlan fitted;
  std::size_t variables = 0, strategies = 0;
};

class Pipeline {
 public:
  Pipeline(const PlanOptions& options, PluginHost& host) : options_(options), host_(host) {}

  Result<PlanOutcome> run() {
    Stopwatch total, watch;
    if (Status status = load_plugins(); !status) return status.error();
    outcome_.phases.plugins = watch.lap();
    if (Status status = read_model(); !status) return status.error();
    outcome_.phases.frontend = watch.lap();
    Result<ModelAnalysis> analysis = analyze_model(std::move(model_.graph), *tools_.ops);
    if (!analysis) return analysis.error();
    analysis_ = std::move(*analysis);
    outcome_.phases.strategies += watch.lap();
    Result<std::vector<std::vector<std::int64_t>>> shapes = mesh_shapes();
    if (!shapes) return shapes.error();
    for (const auto& shape : *shapes) {
      if (Status status = try_mesh(shape); !status) return status.error();
    }
    rank();
    if (best_) {
      watch.lap();
      if (Status status = options_.explain ? compare() : Done{}; !status) return status.error();
      outcome_.phases.comparisons = watch.lap();
      finish();
    } else {
      explain_refusal();
    }
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
    Result<TrainedModel> model = host::read_model(options_.model, *frontend_, *tools_.ops, host_.config());
    if (!model) return model.error();
    model_ = std::move(*model);
    Result<Cluster> cluster = clusters_->describe(host_.config().cluster.text("file"));
    if (!cluster) return cluster.error();
    cluster_ = std::move(*cluster);
    cluster_.nodes *= options_.node_factor;
    Result<CostProfile> profile = profiler_->profile(cluster_);
    if (!profile) return profile.error();
    tools_.profile = std::move(*profile);
    return read_budget();
  }

  Status read_budget() {
    const std::int64_t free = cluster_.device.memory_bytes - cluster_.reserved_bytes;
    const std::int64_t wanted = search().integer("memory_budget");
    if (wanted == 0 && !options_.memory_budget.empty()) {  // the configuration's 0 is all, but nobody says so in an option
      return bad_input("--memory-budget " + options_.memory_budget + " is no memory at all; leave it out for all that the cluster file leaves free");
    }
    budget_ = wanted > 0 ? wanted : free;
    if (budget_ > free) {
      log(LogLevel::warning, "plan", "the memory budget is more than the " + std::to_string(free) +
                                         " bytes that the cluster file leaves free on a device");
    }
    return Done{};
  }

  Result<std::vector<std::vector<std::int64_t>>> mesh_shapes() {
    const std::string& wanted = host_.config().cluster.text("mesh");
    if (wanted.empty()) return candidate_shapes(cluster_, options_.explain ? 3 : 2);
    Result<std::vector<std::int64_t>> shape = parse_mesh_shape(wanted);
    if (!shape) return shape.error();
    return std::vector<std::vector<std::int64_t>>{std::move(*shape)};
  }

  ProblemInput input(const Mesh& mesh, StrategyFilter filter) const {
    return {tools_.context(analysis_, model_.training), mesh, filter};
  }

  Result<Assignment> solve(const ModelProblem& model, std::int64_t budget) {
    return solve_problem(*solver_, model, budget, search());
  }

  Status try_mesh(const std::vector<std::int64_t>& shape) {
    Stopwatch watch;
    Result<Mesh> mesh = make_mesh(cluster_, shape);
    if (!mesh) return mesh.error();
    Result<StrategyFilter> filter = wanted_filter(search(), *mesh);
    if (!filter) return filter.error();
    const ProblemInput given = input(*mesh, *filter);
    Result<Problem> problem = build_pinned(given, host_.config().pins);
    outcome_.phases.strategies += watch.lap();
    MeshTrial trial;
    trial.mesh = to_string(*mesh);
    if (!problem) {
      if (problem.error().code != ErrorCode::infeasible) return problem.error();
      trial.binding = problem.error().message;
      outcome_.trials.push_back(std::move(trial));
      return Done{};
    }
    Result<FittedSearch> found = fitted_.search(given, *problem, budget_);
    if (!found) return found.error();
    if (!found->best && options_.explain) {
      keep_smallest(trial, std::move(found->smallest));
      Result<std::optional<FittedPlan>> smallest = fitted_.smallest(given, *problem, found->least_bytes);
      if (!smallest) return smallest.error();
      keep_smallest(trial, std::move(*smallest));
    }
    outcome_.phases.search += watch.lap();
    trial.status = found->status;
    trial.lower_bound_seconds = found->lower_bound_seconds;
    trial.least_bytes = found->least_bytes;
    if (found->status == SolveStatus::infeasible && found->least_bytes == 0 && !host_.config().pins.empty()) {
      Result<std::string> contradiction = contradiction_of(given);
      if (!contradiction) return contradiction.error();
      if (!contradiction->empty()) found->binding = std::move(*contradiction);
    }
    trial.binding = found->least_bytes > 0 ? "needs at least " + bytes_text(found->least_bytes) + " per device" : found->binding;
    if (found->best) {
      trial.objective_seconds = to_seconds(found->best->assignment.cost);
      trial.peak_bytes = found->best->plan.peak_bytes;
      if (Status status = keep(given, *problem, std::move(*found->best)); !status) return status;
    }
    outcome_.phases.search += watch.lap();
    outcome_.trials.push_back(std::move(trial));
    return Done{};
  }

  // A mesh's best plan, and its next ones, as far as they are among the best of all meshes so far.
  Status keep(const ProblemInput& given, Problem& problem, FittedPlan best) {
    const auto count = static_cast<std::size_t>(options_.top);
    const TickSum too_much = ranked_.size() < count ? std::numeric_limits<TickSum>::max() : ranked_.back().fitted.assignment.cost;
    if (best.assignment.cost >= too_much) return Done{};
    Result<DistinctPlans> found = DistinctPlans{};
    if (count == 1) found->plans.push_back(std::move(best));
    else found = distinct_plans(fitted_, given, problem, budget_, std::move(best), count, too_much);
    if (!found) return found.error();
    outcome_.may_have_more = outcome_.may_have_more || found->cut_off;
    for (FittedPlan& plan : found->plans) ranked_.push_back({given.mesh, std::move(plan), problem.variables.size(), problem.strategies});
    std::stable_sort(ranked_.begin(), ranked_.end(), [](const Solved& a, const Solved& b) { return a.fitted.assignment.cost < b.fitted.assignment.cost; });
    if (ranked_.size() > count) ranked_.erase(ranked_.begin() + options_.top, ranked_.end());
    return Done{};
  }

  // By the simulated step, which knows what the objective adds up.
  void rank() {
    const auto slower = [](const Solved& a, const Solved& b) { return a.fitted.plan.step_seconds < b.fitted.plan.step_seconds; };
    if (ranked_.empty()) return;
    const double least = ranked_.front().fitted.plan.objective_seconds;
    std::stable_sort(ranked_.begin(), ranked_.end(), slower);
    best_ = &ranked_.front();
    outcome_.may_have_more = outcome_.may_have_more && std::ssize(ranked_) < options_.top;
    Plan& plan = ranked_.front().fitted.plan;
    if (plan.objective_seconds <= least) return;
    plan.notes.push_back("Of the " + std::to_string(ranked_.size()) + " best distinct plans this one has the shortest simulated step; the least objective is " +
                         milliseconds(least) + ".");
  }

  static Result<Problem> build_pinned(const ProblemInput& given, std::span<const Pin> pins) {
    Result<Problem> problem = build_problem(given);
    if (!problem) return problem;
    if (Status pinned = apply_pins(pins, given, *problem); !pinned) return pinned.error();
    return problem;
  }

  // Pins that cannot be met together, and can without any one of them. "": it is not the pins.
  Result<std::string> contradiction_of(const ProblemInput& given) {
    std::vector<Pin> pins = host_.config().pins;
    for (std::size_t i = 0; i < pins.size();) {
      std::vector<Pin> others = pins;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      Result<Problem> problem = build_pinned(given, others);
      if (!problem) return problem.error();
      Result<Assignment> answer = solve({given, *problem}, kNoBudget);
      if (!answer) return answer.error();
      if (answer->choice.empty()) pins = std::move(others);
      else ++i;
    }
    if (pins.empty()) return std::string();
    std::string text = pins.size() > 1 ? "these pins contradict each other: " : "no plan meets the pin ";
    for (const Pin& pin : pins) text += (&pin == &pins.front() ? "" : ", ") + to_string(pin);
    return text;
  }

  // The smallest plan of all meshes explains a refusal.
  void keep_smallest(MeshTrial& trial, std::optional<FittedPlan> plan) {
    if (!plan) return;
    if (trial.smallest_bytes == 0 || plan->plan.peak_bytes < trial.smallest_bytes) trial.smallest_bytes = plan->plan.peak_bytes;
    if (!smallest_ || plan->plan.peak_bytes < smallest_->plan.peak_bytes) smallest_ = std::move(plan);
  }

  // Data parallelism alone and Megatron's plan, on the mesh that won.
  Status compare() {
    const Mesh& mesh = best_->mesh;
    const std::uint32_t all = (1U << mesh.rank()) - 1;
    if (mesh.rank() == 0) return Done{};
    if (Status status = compare_with("data parallel", {all, 0, ZeroStage::none}); !status) return status;
    const std::uint32_t last = 1U << (mesh.rank() - 1);
    std::string name = "Megatron";
    if (mesh.rank() > 1) name += ", data parallel over axes before the last";
    return compare_with(name, {all & ~last, last, ZeroStage::none});
  }

  Status compare_with(const std::string& name, StrategyFilter filter) {
    Comparison comparison;
    comparison.name = name;
    const ProblemInput given = input(best_->mesh, filter);
    Result<Problem> problem = build_problem(given);
    if (!problem && problem.error().code != ErrorCode::infeasible) return problem.error();
    if (!problem) {
      comparison.note = problem.error().message;
    } else {
      Result<Assignment> answer = solve({given, *problem}, kNoBudget);
      if (!answer) return answer.error();
      if (!answer->choice.empty()) {
        comparison.objective_seconds = to_seconds(answer->cost);
        Result<FittedPlan> fitted = fitted_.fit(given, *problem, std::move(*answer));
        if (!fitted) return fitted.error();
        comparison.peak_bytes = fitted->plan.peak_bytes;
        if (comparison.peak_bytes > budget_) comparison.note = "does not fit the budget";
      } else {
        comparison.note = answer->binding;
      }
    }
    outcome_.comparisons.push_back(std::move(comparison));
    return Done{};
  }

  void finish() {
    outcome_.variables = best_->variables;
    outcome_.strategies = best_->strategies;
    for (const std::string& family : op_families()) used_.push_back({"ops", family, version_of("ops", family)});
    model_hash_ = hash_file(options_.model);
    for (const std::string& note : unruled_notes(best_->fitted.plan, tools_.profile, analysis_.atoms.warnings)) log(LogLevel::warning, "plan", note);
    for (Solved& solved : ranked_) {
      complete(solved.fitted);
      if (&solved == best_) outcome_.plan = std::move(solved.fitted.plan);
      else outcome_.next.push_back(std::move(solved.fitted.plan));
    }
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
    add_notes(unruled_notes(plan, tools_.profile, analysis_.atoms.warnings));
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

  void explain_refusal() {
    for (const std::string& warning : analysis_.atoms.warnings) log(LogLevel::warning, "plan", warning);
    const auto is_no_matter_of_memory = [](const MeshTrial& trial) { return trial.status == SolveStatus::infeasible && trial.least_bytes == 0; };
    if (!host_.config().pins.empty() && std::all_of(outcome_.trials.begin(), outcome_.trials.end(), is_no_matter_of_memory)) {
      outcome_.refusal = "no plan meets what [pins] says";
      for (const MeshTrial& trial : outcome_.trials) outcome_.refusal += "\n  mesh " + trial.mesh + ": " + trial.binding;
      return;
    }
    outcome_.refusal = refusal_text(outcome_.trials, smallest_ ? &*smallest_ : nullptr, budget_);
    outcome_.changes = suggestions({options_, batch_of(*analysis_.graph) * model_.training.microbatches, model_.training.microbatches,
                                    search().text("zero") != "free" && search().text("zero") != "3",
                                    !host_.config().cluster.text("mesh").empty(), computes_in(DType::float32)});
  }

  const PlanOptions& options_;
  PluginHost& host_;
  PlanOutcome outcome_;
  std::shared_ptr<Frontend> frontend_;
  std::shared_ptr<ClusterSource> clusters_;
  std::shared_ptr<Profiler> profiler_;
  std::shared_ptr<IntraSolver> solver_;
  std::vector<UsedPlugin> used_;
  TrainedModel model_;  // its graph goes into the analysis
  ModelAnalysis analysis_;
  Cluster cluster_;
  std::int64_t budget_ = 0;
  ProgramTools tools_;  // its profile is the cluster's
  const FittedSolver fitted_{[this](const ModelProblem& model, std::int64_t budget) { return solve(model, budget); },
                             [this](const Plan& plan) { return make_program(plan, analysis_, tools_); }};
  std::vector<Solved> ranked_;  // at most options_.top
  const Solved* best_ = nullptr;  // of them
  std::string model_hash_;
  std::optional<FittedPlan> smallest_;  // of those that do not fit
};

}  // namespace

Result<PlanOutcome> run_pipeline(const PlanOptions& options, PluginHost& host) { return Pipeline(options, host).run(); }

}  // namespace meshwright::host
