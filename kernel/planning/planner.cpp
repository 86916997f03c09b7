#include "planner.h"

#include <algorithm>
#include <limits>

#include "distinct_plans.h"
#include "input_rows.h"
#include "plan_notes.h"
#include "runner_up.h"
#include "search_settings.h"
#include "stopwatch.h"

namespace meshwright {

namespace {

constexpr std::size_t kNeighbours = 2;  // are simulated besides the best plan

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request) {}

  Result<PlanRanking> run() {
    Result<std::vector<std::vector<std::int64_t>>> shapes = mesh_shapes();
    if (!shapes) return shapes.error();
    for (const auto& shape : *shapes) {
      if (Status status = try_mesh(shape); !status) return status.error();
    }
    bound_by_all_meshes();
    rank();
    if (request_.explain && request_.search.boolean("sure")) {
      Stopwatch watch;
      if (Status status = add_runner_up(); !status) return status.error();
      ranking_.runner_up_seconds = watch.lap();
    }
    if (!ranking_.plans.empty() && request_.explain) {
      Stopwatch watch;
      if (Status status = compare(); !status) return status.error();
      ranking_.comparisons_seconds = watch.lap();
    }
    return std::move(ranking_);
  }

 private:
  Result<std::vector<std::vector<std::int64_t>>> mesh_shapes() const {
    if (request_.mesh.empty()) return candidate_shapes(request_.cluster, request_.explain ? 3 : 2);
    Result<std::vector<std::int64_t>> shape = parse_mesh_shape(request_.mesh);
    if (!shape) return shape.error();
    return std::vector<std::vector<std::int64_t>>{std::move(*shape)};
  }

  Result<Assignment> solve(const ModelProblem& model, std::int64_t budget, std::int64_t most_work = kAnyWork) const {
    return solve_problem(request_.solver, model, budget, request_.search, most_work);
  }

  Status try_mesh(const std::vector<std::int64_t>& shape) {
    Stopwatch watch;
    Result<Mesh> mesh = make_mesh(request_.cluster, shape);
    if (!mesh) return mesh.error();
    Result<StrategyFilter> filter = wanted_filter(request_.search, *mesh);
    if (!filter) return filter.error();
    ProblemInput given{request_.context, *mesh, *filter};
    Result<Problem> problem = build_pinned(given, request_.pins);
    ranking_.strategies_seconds += watch.lap();
    MeshTrial trial;
    trial.mesh = to_string(*mesh);
    if (!problem) {
      if (problem.error().code != ErrorCode::infeasible) return problem.error();
      trial.binding = problem.error().message;
      ranking_.trials.push_back(std::move(trial));
      return Done{};
    }
    Result<FittedSearch> found = fitted_.search(given, *problem, request_.budget_bytes);
    if (!found) return found.error();
    if (found->best && request_.search.text("inputs") == "rows") {
      if (Status status = feed_rows(given, *problem, *found); !status) return status;
    }
    if (!found->best && request_.explain) {
      keep_smallest(trial, std::move(found->smallest));
      Result<std::optional<FittedPlan>> smallest = fitted_.smallest(given, *problem, found->least_bytes);
      if (!smallest) return smallest.error();
      keep_smallest(trial, std::move(*smallest));
    }
    trial.status = found->status;
    trial.lower_bound_seconds = found->lower_bound_seconds;
    trial.least_bytes = found->least_bytes;
    if (found->status == SolveStatus::infeasible && found->least_bytes == 0 && !request_.pins.empty()) {
      Result<std::string> contradiction = contradiction_of(given);
      if (!contradiction) return contradiction.error();
      if (!contradiction->empty()) found->binding = std::move(*contradiction);
    }
    trial.binding = found->least_bytes > 0 ? "needs at least " + size_text(found->least_bytes) + " per device" : found->binding;
    if (found->best) {
      trial.objective_seconds = to_seconds(found->best->assignment.cost);
      trial.peak_bytes = found->best->plan.peak_bytes;
      if (Status status = keep(given, *problem, std::move(*found->best)); !status) return status;
    }
    ranking_.search_seconds += watch.lap();
    ranking_.trials.push_back(std::move(trial));
    return Done{};
  }

  // Where ranks feed rows of the batch, and the best plan wants some inputs otherwise: the best one that takes them as they are fed,
  // unless it is slower even so.
  Status feed_rows(ProblemInput& given, Problem& problem, FittedSearch& found) const {
    Result<Program> program = request_.lower(found.best->plan);
    if (!program) return Done{};  // the plan has a note that says why there is none
    const InputRows rows = input_rows(*program);
    if (rows.gather_seconds == 0) return Done{};
    ProblemInput fed = given;
    fed.filter.batch_axes |= rows.axes;
    fed.filter.sharded_weight_axes &= ~rows.axes;
    Result<Problem> other = build_pinned(fed, request_.pins);
    if (!other && other.error().code != ErrorCode::infeasible) return other.error();
    if (other) {
      Result<FittedSearch> second = fitted_.search(fed, *other, request_.budget_bytes);
      if (!second) return second.error();
      if (second->best && to_seconds(second->best->assignment.cost) < to_seconds(found.best->assignment.cost) + rows.gather_seconds) {
        second->lower_bound_seconds = second->best->plan.lower_bound_seconds = found.lower_bound_seconds;
        second->status = second->best->plan.status = SolveStatus::bounded;
        given.filter = fed.filter;
        problem = std::move(*other);
        found = std::move(*second);
        return Done{};
      }
    }
    found.best->plan.notes.push_back("Ranks that feed their rows of the batch gather inputs for " + milliseconds(rows.gather_seconds) +
                                     " before the step, which no figure here counts.");
    return Done{};
  }

  // A mesh's best plan, and its next ones, as far as they are among the best of all meshes so far.
  Status keep(const ProblemInput& given, Problem& problem, FittedPlan best) {
    std::vector<RankedPlan>& plans = ranking_.plans;
    const auto count = static_cast<std::size_t>(request_.top);
    const TickSum too_much = plans.size() < count ? std::numeric_limits<TickSum>::max() : plans.back().fitted.assignment.cost;
    if (best.assignment.cost >= too_much) {
      if (count == 1) beaten_.push_back(std::move(best));
      return Done{};
    }
    Result<DistinctPlans> found = DistinctPlans{};
    if (count == 1) found->plans.push_back(std::move(best));
    else found = distinct_plans(fitted_, given, problem, request_.budget_bytes, std::move(best), count, too_much);
    if (!found) return found.error();
    ranking_.may_have_more = ranking_.may_have_more || found->cut_off;
    for (FittedPlan& plan : found->plans) plans.push_back({std::move(plan), problem.variables.size(), problem.strategies});
    std::stable_sort(plans.begin(), plans.end(), [](const RankedPlan& a, const RankedPlan& b) { return a.fitted.assignment.cost < b.fitted.assignment.cost; });
    for (std::size_t i = count; count == 1 && i < plans.size(); ++i) beaten_.push_back(std::move(plans[i].fitted));
    if (plans.size() > count) plans.erase(plans.begin() + request_.top, plans.end());
    if (count == 1) leader_ = Leader{given.mesh, given.filter, std::move(problem)};
    return Done{};
  }

  // Where one plan was asked for, its runner-up is the best of other meshes, or one that does little otherwise than it.
  Status add_runner_up() {
    if (ranking_.plans.empty() || !ranking_.plans.front().fitted.no_program.empty()) return Done{};
    const FittedPlan& best = ranking_.plans.front().fitted;
    if (leader_ && !request_.solver.reads_model()) {
      const ProblemInput input{request_.context, leader_->mesh, leader_->filter};
      Result<std::vector<FittedPlan>> found = neighbouring_plans(fitted_, input, leader_->problem, request_.budget_bytes, best, kNeighbours);
      if (!found) return found.error();
      for (FittedPlan& plan : *found) beaten_.push_back(std::move(plan));
    }
    std::vector<const FittedPlan*> candidates;
    for (std::size_t i = 1; i < ranking_.plans.size(); ++i) candidates.push_back(&ranking_.plans[i].fitted);
    for (const FittedPlan& plan : beaten_) candidates.push_back(&plan);
    const FittedPlan* second = runner_up_among(candidates, best.plan);
    if (second == nullptr) return Done{};
    Result<RunnerUp> described = describe_runner_up(request_.cluster, request_.context, request_.lower, best.plan, second->plan);
    if (!described) return described.error();
    ranking_.plans.front().fitted.plan.runner_up = std::move(*described);
    return Done{};
  }

  // A plan is optimal if no mesh may have a better one: also those that were only bounded, or where nothing was found and
  // nothing is proven.
  void bound_by_all_meshes() {
    double least = std::numeric_limits<double>::infinity();
    for (const MeshTrial& trial : ranking_.trials) {
      if (trial.status != SolveStatus::infeasible) least = std::min(least, trial.lower_bound_seconds);
    }
    for (RankedPlan& ranked : ranking_.plans) {
      Plan& plan = ranked.fitted.plan;
      plan.lower_bound_seconds = std::min(plan.lower_bound_seconds, least);
      if (plan.lower_bound_seconds <= 0) plan.status = SolveStatus::heuristic;
      else if (plan.status == SolveStatus::optimal && plan.lower_bound_seconds < plan.objective_seconds) plan.status = SolveStatus::bounded;
    }
  }

  // By the simulated step, which knows what the objective adds up.
  void rank() {
    std::vector<RankedPlan>& plans = ranking_.plans;
    if (plans.empty()) return;
    const double least = plans.front().fitted.plan.objective_seconds;
    std::stable_sort(plans.begin(), plans.end(), [](const RankedPlan& a, const RankedPlan& b) { return a.fitted.plan.step_seconds < b.fitted.plan.step_seconds; });
    ranking_.may_have_more = ranking_.may_have_more && std::ssize(plans) < request_.top;
    Plan& plan = plans.front().fitted.plan;
    if (plan.objective_seconds <= least) return;
    plan.notes.push_back("Of the " + std::to_string(plans.size()) + " best distinct plans this one has the shortest simulated step; the least objective is " +
                         milliseconds(least) + ".");
  }

  static Result<Problem> build_pinned(const ProblemInput& given, std::span<const Pin> pins) {
    Result<Problem> problem = build_problem(given);
    if (!problem) return problem;
    if (Status pinned = apply_pins(pins, given, *problem); !pinned) return pinned.error();
    return problem;
  }

  // Pins that cannot be met together, and can without any one of them. "": it is not the pins.
  Result<std::string> contradiction_of(const ProblemInput& given) const {
    std::vector<Pin> pins = request_.pins;
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
    std::optional<FittedPlan>& smallest = ranking_.smallest;
    if (trial.smallest_bytes == 0 || plan->plan.peak_bytes < trial.smallest_bytes) trial.smallest_bytes = plan->plan.peak_bytes;
    if (!smallest || plan->plan.peak_bytes < smallest->plan.peak_bytes) smallest = std::move(plan);
  }

  // Data parallelism alone and Megatron's plan, on the mesh that won.
  Status compare() {
    const Mesh& mesh = ranking_.plans.front().fitted.plan.mesh;
    const std::uint32_t all = (1U << mesh.rank()) - 1;
    if (mesh.rank() == 0) return Done{};
    if (Status status = compare_with("data parallel", mesh, {all, 0, ZeroStage::none}); !status) return status;
    const std::uint32_t last = 1U << (mesh.rank() - 1);
    std::string name = "Megatron";
    if (mesh.rank() > 1) name += ", data parallel over axes before the last";
    return compare_with(name, mesh, {all & ~last, last, ZeroStage::none});
  }

  Status compare_with(const std::string& name, const Mesh& mesh, StrategyFilter filter) {
    Comparison comparison;
    comparison.name = name;
    const ProblemInput given{request_.context, mesh, filter};
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
        if (fitted_.excess_bytes(fitted->plan, request_.budget_bytes) > 0) comparison.note = "does not fit the budget";
      } else {
        comparison.note = answer->binding;
      }
    }
    ranking_.comparisons.push_back(std::move(comparison));
    return Done{};
  }

  const PlanRequest& request_;
  const FittedSolver fitted_{[this](const ModelProblem& model, std::int64_t budget, std::int64_t most_work) { return solve(model, budget, most_work); },
                             request_.lower, DeviceMemory{&request_.cluster, request_.must_fit_device}};
  PlanRanking ranking_;

  // Where one plan is asked for: the problem of the best mesh so far, and the best plans of others.
  struct Leader {
    Mesh mesh;
    StrategyFilter filter;
    Problem problem;
  };
  std::optional<Leader> leader_;
  std::vector<FittedPlan> beaten_;
};

}  // namespace

Result<PlanRanking> rank_plans(const PlanRequest& request) { return Planner(request).run(); }

}  // namespace meshwright
