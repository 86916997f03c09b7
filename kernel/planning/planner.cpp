#include "planner.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "checkpoint_sweep.h"
#include "distinct_plans.h"
#include "fed_rows.h"
#include "input_rows.h"
#include "meshwright/recompute.h"
#include "plan_notes.h"
#include "plan_status.h"
#include "recompute_search.h"
#include "refusal.h"
#include "runner_up.h"
#include "search_settings.h"
#include "smallest_budget.h"
#include "step_regions.h"
#include "step_search.h"
#include "stopwatch.h"

namespace meshwright {

namespace {

constexpr double kFirstRounds = 2;     // before what people would try, and of each of that
constexpr double kWorthTrying = 0.02, kFarFromBound = 0.1;  // gaps from which what people would try is tried, and thoroughly
constexpr int kRoundsOfBound = 1;      // where no plan is known that would need a better one
constexpr TickSum kNothingTooMuch = std::numeric_limits<TickSum>::max();

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : request_(request) {}

  Result<PlanRanking> run() {
    Result<RecomputePins> recompute_pins = RecomputePins::make(request_.context.model, request_.pins);
    if (!recompute_pins) return recompute_pins.error();
    recompute_pins_ = std::move(*recompute_pins);
    Result<std::vector<std::vector<std::int64_t>>> shapes = mesh_shapes();
    if (!shapes) return shapes.error();
    for (const auto& shape : *shapes) {
      if (Status status = try_mesh(shape); !status) return status.error();
    }
    if (Status status = name_smallest_budget(*shapes); !status) return status.error();
    if (Status status = shorten_steps(); !status) return status.error();
    for (const auto& searched : searched_) {
      if (Status status = keep(*searched); !status) return status.error();
    }
    rank();
    if (request_.explain && request_.search.boolean("sure")) {
      Stopwatch watch;
      if (Status status = add_neighbours(); !status) return status.error();
      if (Status status = add_runner_up(); !status) return status.error();
      ranking_.runner_up_seconds = watch.lap();
    }
    bound_by_all_meshes();
    keep_asked_for();
    if (!ranking_.plans.empty() && request_.explain && request_.usual) {
      Stopwatch watch;
      Result<std::vector<Comparison>> comparisons = usual_plans(fitted_, request_.context, ranking_.plans.front().fitted.plan.mesh, request_.budget_bytes);
      if (!comparisons) return comparisons.error();
      ranking_.comparisons = std::move(*comparisons);
      ranking_.comparisons_seconds = watch.lap();
    }
    return std::move(ranking_);
  }

 private:
  // What is known of a mesh that has a plan; there are two of these where one plan runs something again and one does not.
  struct Searched {
    Searched(const PlanningContext& context, Mesh of, const StrategyFilter& filter) : mesh(std::move(of)), given{context, mesh, filter} {}

    [[nodiscard]] bool is_of(const Plan& plan) const { return to_string(mesh) == to_string(plan.mesh) && given.recomputed == plan.recomputed; }

    const Mesh mesh;
    ProblemInput given;
    Problem problem;
    FittedPlan best;                                        // by the objective
    std::optional<FedRows> fed;                             // what that is of, where it is another problem
    std::unique_ptr<StepSearch> steps;                      // null where steps have no bound
    std::optional<double> step_bound_seconds;               // for any number of blocks that run again, where some do; else that of `steps` holds
    std::string again_note;                                 // why blocks run again
    bool of_any = false;                                    // What is proven holds whatever does.
    bool is_second = false;                                 // Nothing runs again, which was nearly as fast.
    std::size_t trial = 0;
  };

  Result<std::vector<std::vector<std::int64_t>>> mesh_shapes() const {
    if (request_.mesh.empty()) return candidate_shapes(request_.cluster, request_.explain ? 3 : 2);
    Result<std::vector<std::int64_t>> shape = parse_mesh_shape(request_.mesh);
    if (!shape) return shape.error();
    return std::vector<std::vector<std::int64_t>>{std::move(*shape)};
  }

  // What is to be searched on a mesh, without its problem.
  Result<std::unique_ptr<Searched>> mesh_of(const std::vector<std::int64_t>& shape) const {
    Result<Mesh> mesh = make_mesh(request_.cluster, shape);
    if (!mesh) return mesh.error();
    Result<StrategyFilter> filter = wanted_filter(request_.search, *mesh);
    if (!filter) return filter.error();
    auto searched = std::make_unique<Searched>(request_.context, std::move(*mesh), *filter);
    ProblemInput& given = searched->given;
    given.recomputed = recompute_pins_->applied_to(request_.search.text("recompute") == "all" ? recomputable_blocks(given.model) : given.recomputed);
    return searched;
  }

  Status try_mesh(const std::vector<std::int64_t>& shape) {
    Stopwatch watch;
    Result<std::unique_ptr<Searched>> wanted = mesh_of(shape);
    if (!wanted) return wanted.error();
    std::unique_ptr<Searched> searched = std::move(*wanted);
    ProblemInput& given = searched->given;
    Result<Problem> problem = build_pinned(given, request_.pins);
    ranking_.strategies_seconds += watch.lap();
    MeshTrial trial;
    trial.mesh = to_string(searched->mesh);
    if (!problem) {
      if (problem.error().code != ErrorCode::infeasible) return problem.error();
      trial.binding = problem.error().message;
      ranking_.trials.push_back(std::move(trial));
      return Done{};
    }
    searched->problem = std::move(*problem);
    Result<FittedSearch> found = fitted_.search(given, searched->problem, request_.budget_bytes);
    if (!found) return found.error();
    trial.free_lower_bound_seconds = to_seconds(found->without_budget.lower_bound);
    std::unique_ptr<Searched> without;
    if (chooses_blocks()) {
      if (Status status = run_blocks_again(*searched, *found, without); !status) return status;
    }
    if (!found->best && request_.explain) {
      keep_smallest(trial, std::move(found->smallest));
      Result<std::optional<FittedPlan>> smallest = fitted_.smallest(given, searched->problem, found->least_bytes);
      if (!smallest) return smallest.error();
      keep_smallest(trial, std::move(*smallest));
    }
    trial.status = found->status;
    trial.lower_bound_seconds = found->lower_bound_seconds;
    trial.least_bytes = chooses_blocks() && !searched->of_any ? 0 : found->least_bytes;  // else it is proven of one number of blocks
    if (found->status == SolveStatus::infeasible && found->least_bytes == 0 && !request_.pins.empty()) {
      Result<std::string> contradiction = contradiction_of(fitted_, given, request_.pins);
      if (!contradiction) return contradiction.error();
      if (!contradiction->empty()) found->binding = std::move(*contradiction);
    }
    trial.binding = found->least_bytes > 0 ? "needs at least " + size_text_beside(found->least_bytes, request_.budget_bytes) + " per device" : found->binding;
    if (chooses_blocks() && request_.checkpoint == nullptr && !found->best) trial.binding += searched->of_any ? ", whatever runs again" : ", with every block run again";
    if (!found->best) trial.step_lower_bound_seconds = searched->step_bound_seconds.value_or(0);
    if (found->best) {
      if (searches_steps() && found->best->no_program.empty()) begin_steps(*searched, *found->best);
      if (request_.search.text("inputs") == "rows") {
        Result<std::optional<FedRows>> fed = feed_rows(fitted_, request_.lower, given, request_.pins, request_.budget_bytes, *found);
        if (!fed) return fed.error();
        searched->fed = std::move(*fed);
        if (searched->steps != nullptr) searched->steps->answer_with(*found->best);
        trial.status = found->status;
      }
      trial.objective_seconds = to_seconds(found->best->assignment.cost);
      trial.peak_bytes = found->best->plan.peak_bytes;
      trial.step_seconds = found->best->plan.step_seconds;
      searched->best = std::move(*found->best);
      searched->trial = ranking_.trials.size();
      searched_.push_back(std::move(searched));
      if (without) {
        without->trial = ranking_.trials.size();
        begin_steps(*without, without->best);
        searched_.push_back(std::move(without));
      }
    }
    ranking_.search_seconds += watch.lap();
    ranking_.trials.push_back(std::move(trial));
    return Done{};
  }

  [[nodiscard]] bool chooses_blocks() const {
    const std::string& recompute = request_.search.text("recompute");
    return (request_.checkpoint != nullptr || recompute == "blocks" || recompute == "free") && !recomputable_blocks(request_.context.model).empty();
  }

  // Solvers that read the model know nothing of a space of what is kept.
  [[nodiscard]] bool chooses_ops() const { return request_.search.text("recompute") == "free" && !request_.solver.reads_model(); }

  [[nodiscard]] Result<std::optional<RecomputeSearch>> search_again(const Searched& searched, std::int64_t budget, std::int64_t most_work, int step_rounds,
                                                                    const FittedSearch& without) const {
    const RecomputeWish wish{searched.given, searched.problem, request_.pins, *recompute_pins_, budget, chooses_ops(), most_work, !searched_.empty(), step_rounds};
    if (request_.checkpoint == nullptr) return search_recomputed(fitted_, wish, without);
    return sweep_checkpoints(fitted_, wish, {*request_.checkpoint, request_.search.text("checkpoint"), request_.search.number("checkpoint_alpha")}, without);
  }

  // What there would be if this were the budget.
  Result<std::optional<FittedPlan>> plan_within(Searched& searched, std::int64_t budget, std::int64_t most_work) const {
    Result<FittedSearch> found = fitted_.search(searched.given, searched.problem, budget, most_work);
    if (!found) return found.error();
    if (chooses_blocks()) {
      Result<std::optional<RecomputeSearch>> better = search_again(searched, budget, most_work, 0, *found);
      if (!better) return better.error();
      if (*better) return std::move((*better)->found.best);
    }
    return std::move(found->best);
  }

  // Where nothing fits: the smallest budget for which there is a plan, as far as a few tries tell, on the mesh that needs least.
  Status name_smallest_budget(const std::vector<std::vector<std::int64_t>>& shapes) {
    if (!request_.name_budget || !searched_.empty() || !ranking_.smallest) return Done{};
    const auto nearest = std::ranges::find(ranking_.trials, ranking_.smallest->plan.peak_bytes, &MeshTrial::smallest_bytes);
    Result<std::unique_ptr<Searched>> wanted = mesh_of(shapes[static_cast<std::size_t>(nearest - ranking_.trials.begin())]);
    if (!wanted) return wanted.error();
    Searched& searched = **wanted;
    Result<Problem> problem = build_pinned(searched.given, request_.pins);
    if (!problem) return problem.error();
    searched.problem = std::move(*problem);
    Result<std::optional<KnownBudget>> known = smallest_budget([&](std::int64_t budget, std::int64_t most_work) { return plan_within(searched, budget, most_work); },
                                                               std::max(request_.budget_bytes, nearest->least_bytes - 1), nearest->smallest_bytes);
    if (!known) return known.error();
    if (!*known) return Done{};
    ranking_.smallest_budget_bytes = (*known)->bytes;
    nearest->smallest_bytes = (*known)->plan.plan.peak_bytes;
    ranking_.smallest = std::move((*known)->plan);
    return Done{};
  }

  // Where the budget binds, blocks run again if that is faster than what fits without, or nothing does. `without` is set where that is nearly as fast: once both are
  // searched by the step it may be faster.
  Status run_blocks_again(Searched& searched, FittedSearch& found, std::unique_ptr<Searched>& without) const {
    Result<std::optional<RecomputeSearch>> better = search_again(searched, request_.budget_bytes, kAnyWork, searches_steps() ? static_cast<int>(rounds()) : 0, found);
    if (!better) return better.error();
    const FittedPlan* again = *better && (*better)->found.best ? &*(*better)->found.best : nullptr;
    const bool may_be_both = again != nullptr && found.best && asks_for_neighbours() && searches_steps() && found.best->no_program.empty();
    const bool is_near = may_be_both && ((*better)->without_seconds > 0 ? (*better)->without_seconds : found.best->plan.step_seconds) < kNear * again->plan.step_seconds;
    const auto rank = [](const FittedPlan& plan) { return std::pair(plan.plan.step_seconds, plan.assignment.cost); };
    const bool is_slower = again != nullptr && found.best && rank(*found.best) <= rank(*again);
    if (!*better || (is_slower && !is_near)) {
      bound_any_number(found.without_budget, found);
      return Done{};
    }
    if ((*better)->step_bound_seconds > 0) searched.step_bound_seconds = (*better)->step_bound_seconds;
    else if (Status status = bound_without_budget(searched, found.without_budget, again != nullptr ? static_cast<int>(rounds()) : kRoundsOfBound); !status) return status;
    searched.of_any = (*better)->of_any;
    if (is_near) {
      without = std::make_unique<Searched>(request_.context, searched.mesh, searched.given.filter);
      without->given.recomputed = searched.given.recomputed;
      without->problem = std::move(searched.problem);
      without->best = *found.best;
      without->is_second = true;
      without->step_bound_seconds = searched.step_bound_seconds;
    }
    if ((*better)->recomputed != searched.given.recomputed) {
      searched.again_note = again_note(found.best ? std::optional(found.best->plan.step_seconds) : std::nullopt, (*better)->how);
    }
    searched.given.recomputed = std::move((*better)->recomputed);
    searched.problem = std::move((*better)->problem);
    found = std::move((*better)->found);
    return Done{};
  }

  // What is made again takes time, so no plan that runs blocks again has a shorter step than the least without, whatever that holds.
  Status bound_without_budget(Searched& searched, Assignment fastest, int count) const {
    if (!searches_steps()) return Done{};
    searched.step_bound_seconds = 0;
    Result<FittedPlan> fitted = fitted_.fit(searched.given, searched.problem, std::move(fastest), kNoBudget);
    if (!fitted) return fitted.error();
    if (!fitted->no_program.empty()) return Done{};
    StepSearch steps(fitted_, searched.given, searched.problem, kNoBudget, std::move(*fitted));
    if (Status status = steps.run_rounds(count); !status) return status;
    searched.step_bound_seconds = steps.bound_seconds();
    return Done{};
  }

  // --- steps ---

  [[nodiscard]] double rounds() const { return static_cast<double>(request_.search.integer("step_rounds")); }

  // Solvers that read the model try plans of their own, and prove nothing. What has no backward has no program, and no step.
  [[nodiscard]] bool searches_steps() const {
    return request_.explain && rounds() > 0 && request_.context.model.backward && !request_.solver.reads_model();
  }

  void begin_steps(Searched& searched, FittedPlan best) const {
    const auto takes_rows = [this](const FittedPlan& plan) -> Result<bool> {
      if (request_.search.text("inputs") != "rows") return true;
      const Result<Program> program = request_.lower(plan.plan);
      if (!program) return program.error();
      return input_rows(*program).gather_seconds == 0;
    };
    searched.steps = std::make_unique<StepSearch>(fitted_, searched.given, searched.problem, request_.budget_bytes, std::move(best), takes_rows);
    if (searched.step_bound_seconds || !chooses_blocks()) searched.steps->leave_out_fastest();
  }

  // A few rounds, what people would try, and then the rest of the rounds.
  Status shorten_steps() {
    Stopwatch watch;
    const double first = std::min(rounds(), kFirstRounds);
    if (Status status = run_all_rounds(first, kLeastWork); !status) return status;
    std::vector<std::pair<Searched*, ChoicesByHand>> leaders;
    for (Searched* leader : nearest_by_steps()) {
      ChoicesByHand& by_hand = leaders.emplace_back(leader, ChoicesByHand()).second;
      if (Status status = try_by_hand(*leader, by_hand); !status) return status;
      if (Status status = try_neighbours(*leader, leader->steps->best()); !status) return status;
    }
    if (Status status = run_all_rounds(rounds() - first, 0); !status) return status;
    for (auto& [leader, by_hand] : leaders) {
      if (Status status = search_parts(*leader, by_hand, static_cast<int>(rounds() - first)); !status) return status;
    }
    for (const auto& searched : searched_) {
      if (searched->steps == nullptr) continue;
      MeshTrial& trial = ranking_.trials[searched->trial];
      trial.step_lower_bound_seconds = step_bound_seconds(*searched);
      trial.step_seconds = std::min(trial.step_seconds, searched->steps->best().plan.step_seconds);
    }
    ranking_.search_seconds += watch.lap();
    return Done{};
  }

  // Of all meshes together; and of what is a second one of its mesh, as if that were all.
  [[nodiscard]] Status run_all_rounds(double count, double least_work) const {
    std::vector<StepSearch*> of_meshes, second;
    for (const auto& searched : searched_) {
      if (searched->steps != nullptr) (searched->is_second ? second : of_meshes).push_back(searched->steps.get());
    }
    const Status status = run_rounds(of_meshes, count, least_work);
    return status ? run_rounds(second, count, least_work) : status;
  }

  // Of all that was to be searched on a mesh.
  [[nodiscard]] double step_bound_seconds(const Searched& searched) const {
    if (searched.step_bound_seconds) return *searched.step_bound_seconds;
    return chooses_blocks() ? searched.steps->bound_without_budget_seconds() : searched.steps->bound_seconds();
  }

  // The search with the shortest step so far, and the other one of its mesh if that is nearly as fast; nothing if steps have no bound.
  [[nodiscard]] std::vector<Searched*> nearest_by_steps() const {
    const auto seconds = [](const auto& searched) { return searched->steps->best().plan.step_seconds; };
    Searched* leader = nullptr;
    for (const auto& searched : searched_) {
      if (searched->steps != nullptr && (leader == nullptr || seconds(searched) < seconds(leader))) leader = searched.get();
    }
    std::vector<Searched*> nearest;
    for (const auto& searched : searched_) {
      if (leader != nullptr && searched->trial == leader->trial && seconds(searched) < kNear * seconds(leader)) nearest.push_back(searched.get());
    }
    return nearest;
  }

  // What people would try, in parts of the problem that may be searched further.
  Status try_by_hand(Searched& leader, ChoicesByHand& by_hand) const {
    StepSearch& steps = *leader.steps;
    if (steps.gap() < kWorthTrying) return Done{};
    Result<ChoicesByHand> choices = choices_by_hand(fitted_, leader.given, leader.problem, request_.pins, request_.budget_bytes,
                                                    static_cast<int>(std::min(rounds(), kFirstRounds)), steps.gap() > kFarFromBound);
    if (!choices) return choices.error();
    const std::vector<Choice>& first = choices->by_step;
    for (const std::vector<Choice>& each : {first, choices->by_objective}) {
      if (Status status = steps.try_choices(each); !status) return status;
    }
    for (const std::vector<Choice>& each : {first, choices->by_objective}) {
      if (Status status = steps.join_best(each); !status) return status;
    }
    for (std::size_t i = 1; i < first.size(); ++i) {
      if (Status status = steps.join(first[i - 1], first[i]); !status) return status;
    }
    by_hand = std::move(*choices);
    return Done{};
  }

  // The shortest parts, as long as the whole was. Where that is shorter, plans near to what the whole had found are tried too, as those near to the answer are.
  Status search_parts(Searched& leader, const ChoicesByHand& by_hand, int count) const {
    const FittedPlan before = leader.steps->best();
    for (const bool nearby : {false, true}) {
      for (const std::unique_ptr<PartSearch>& part : by_hand.shortest) {
        if (leader.steps->gap() < kWorthTrying) break;
        if (Status status = nearby ? search_nearby(*part, by_hand, count, leader.problem, *leader.steps) : search_further(*part, count, leader.problem, *leader.steps); !status) return status;
      }
    }
    return leader.steps->best().plan.step_seconds < before.plan.step_seconds ? try_neighbours(leader, before) : Status(Done{});
  }

  // Plans that do little otherwise than this one.
  Status try_neighbours(Searched& leader, const FittedPlan& plan) const {
    return asks_for_neighbours() ? leader.steps->try_neighbours(plan, kNeighbours) : Status(Done{});
  }

  [[nodiscard]] bool asks_for_neighbours() const { return request_.top == 1 && !request_.solver.reads_model() && request_.search.text("inputs") != "rows"; }

  // --- ranking ---

  // A mesh's best plan, and its next ones where several are asked for.
  Status keep(Searched& searched) {
    least_objective_ = std::min(least_objective_, searched.best.plan.objective_seconds);
    std::vector<FittedPlan> found;
    if (request_.top == 1) {
      found.push_back(searched.steps != nullptr ? searched.steps->best() : std::move(searched.best));
    } else {
      ProblemInput given = searched.given;
      if (searched.fed) given.filter = searched.fed->filter;
      Problem& problem = searched.fed ? searched.fed->problem : searched.problem;
      Result<DistinctPlans> distinct = distinct_plans(fitted_, given, problem, request_.budget_bytes, std::move(searched.best),
                                                      static_cast<std::size_t>(request_.top), kNothingTooMuch);
      if (!distinct) return distinct.error();
      ranking_.may_have_more = ranking_.may_have_more || distinct->cut_off;
      found = std::move(distinct->plans);
      if (searched.steps != nullptr) add_distinct(searched.steps->best(), found);
    }
    for (FittedPlan& plan : found) ranking_.plans.push_back({std::move(plan), searched.problem.variables.size(), searched.problem.strategies});
    return Done{};
  }

  // In the place of one that differs in details only.
  static void add_distinct(FittedPlan plan, std::vector<FittedPlan>& plans) {
    std::erase_if(plans, [&](const FittedPlan& other) { return differences(other.plan, plan.plan).empty(); });
    plans.push_back(std::move(plan));
  }

  // Plans that do little otherwise than the best one, which may be faster; where one plan is asked for.
  Status add_neighbours() {
    if (!asks_for_neighbours() || ranking_.plans.empty()) return Done{};
    const RankedPlan& best = ranking_.plans.front();
    if (!best.fitted.no_program.empty()) return Done{};
    const std::size_t variables = best.variables, strategies = best.strategies;
    const auto searched = std::ranges::find_if(searched_, [&](const auto& each) { return each->is_of(best.fitted.plan); });
    Result<std::vector<FittedPlan>> found = neighbouring_plans(fitted_, (*searched)->given, (*searched)->problem, request_.budget_bytes, best.fitted, kNeighbours);
    if (!found) return found.error();
    for (FittedPlan& plan : *found) ranking_.plans.push_back({std::move(plan), variables, strategies});
    rank();
    return Done{};
  }

  Status add_runner_up() {
    if (ranking_.plans.empty() || !ranking_.plans.front().fitted.no_program.empty()) return Done{};
    Plan& best = ranking_.plans.front().fitted.plan;
    std::vector<const FittedPlan*> candidates;
    for (std::size_t i = 1; i < ranking_.plans.size(); ++i) candidates.push_back(&ranking_.plans[i].fitted);
    const FittedPlan* second = runner_up_among(candidates, best);
    if (second == nullptr) return Done{};
    Result<RunnerUp> described = describe_runner_up(request_.cluster, request_.context, request_.lower, best, second->plan);
    if (!described) return described.error();
    best.runner_up = std::move(*described);
    return Done{};
  }

  // What no mesh may be below: also those that were only bounded, or where nothing was found and nothing is proven.
  void bound_by_all_meshes() {
    double least = std::numeric_limits<double>::infinity(), least_step = least;
    for (const MeshTrial& trial : ranking_.trials) {
      if (trial.status == SolveStatus::infeasible) continue;
      least = std::min(least, trial.lower_bound_seconds);
      least_step = std::min(least_step, trial.step_lower_bound_seconds);
    }
    for (RankedPlan& ranked : ranking_.plans) {
      Plan& plan = ranked.fitted.plan;
      plan.lower_bound_seconds = std::min(plan.lower_bound_seconds, least);
      if (searches_steps() && ranked.fitted.no_program.empty()) state_by_step(plan, least_step);
      else state_by_objective(plan);
    }
  }

  // By the step; where none is searched for, the objective says which plan is the answer, and the step only ranks several.
  void rank() {
    const double Plan::* seconds = searches_steps() || request_.top > 1 ? &Plan::step_seconds : &Plan::objective_seconds;
    std::ranges::stable_sort(ranking_.plans, {}, [&](const RankedPlan& each) { return each.fitted.plan.*seconds; });
  }

  void keep_asked_for() {
    std::vector<RankedPlan>& plans = ranking_.plans;
    if (plans.empty()) return;
    if (std::ssize(plans) > request_.top) plans.erase(plans.begin() + request_.top, plans.end());
    ranking_.may_have_more = ranking_.may_have_more && std::ssize(plans) < request_.top;
    Plan& plan = plans.front().fitted.plan;
    for (MeshTrial& trial : ranking_.trials) {
      if (trial.mesh == to_string(plan.mesh)) trial.step_seconds = plan.step_seconds;
    }
    for (const auto& searched : searched_) {
      if (searched->is_of(plan) && !searched->again_note.empty()) plan.notes.push_back(recomputed_text(plan.model, plan.recomputed) + "; " + searched->again_note);
    }
    if (plan.objective_seconds <= least_objective_) return;
    plan.notes.push_back("The least objective is " + milliseconds(least_objective_) + ", but the simulated step of the plan that has it is longer than this one's.");
  }

  // The smallest plan of all meshes explains a refusal.
  void keep_smallest(MeshTrial& trial, std::optional<FittedPlan> plan) {
    if (!plan) return;
    std::optional<FittedPlan>& smallest = ranking_.smallest;
    if (trial.smallest_bytes == 0 || plan->plan.peak_bytes < trial.smallest_bytes) trial.smallest_bytes = plan->plan.peak_bytes;
    if (!smallest || plan->plan.peak_bytes < smallest->plan.peak_bytes) smallest = std::move(plan);
  }

  const PlanRequest& request_;
  std::optional<RecomputePins> recompute_pins_;
  const FittedSolver fitted_ = fitted_solver(request_.solver, request_.search, request_.lower, DeviceMemory{&request_.cluster, request_.must_fit_device});
  PlanRanking ranking_;
  std::vector<std::unique_ptr<Searched>> searched_;
  double least_objective_ = std::numeric_limits<double>::infinity();
};

}  // namespace

Result<PlanRanking> rank_plans(const PlanRequest& request) { return Planner(request).run(); }

}  // namespace meshwright
