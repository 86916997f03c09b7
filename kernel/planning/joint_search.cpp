#include "joint_search.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "block_joins.h"
#include "joint_space.h"
#include "meshwright/recompute.h"
#include "meshwright/step_parts.h"
#include "path_averages.h"
#include "shorten_plans.h"

namespace meshwright {

namespace {

// Of the search by the objective, which says whether anything fits and bounds all that does, and of each by the step.
constexpr std::int64_t kWorkOfJoint = 200'000'000, kWorkOfRound = 100'000'000, kWorkOfLeast = 400'000'000;
constexpr double kGapOfRound = 0.0003;  // whose costs are an average's

}  // namespace

class JointSearch::Impl {
 public:
  Impl(const FittedSolver& solver, const RecomputeWish& wish, const FittedSearch& without, Problem kept, Problem again, Problem converted)
      : solver_(solver),
        wish_(wish),
        without_(without),
        kept_(std::move(kept)),
        again_(std::move(again)),
        converted_(std::move(converted)),
        least_kept_(with_least_kept(wish.input, kept_)),
        joint_(wish.input, {kept_, again_, &converted_}, wish.recompute_pins),
        least_joint_(wish.input, {least_kept_, again_}, wish.recompute_pins),
        space_(joint_.space()) {}

  Status search() {
    const std::int64_t most_work = std::min(wish_.most_work, kWorkOfJoint);
    StrategySpace bounded = least_joint_.space();
    Problem asked = of_space(space_);
    if (Status status = forbid_dearer(bounded, asked.space); !status) return status;
    const Result<Assignment> bound = solve(std::move(bounded), wish_.budget, most_work);
    if (!bound) return bound.error();
    if (bound->status == SolveStatus::infeasible) {
      found_.status = bound->status;
      found_.binding = bound->binding;
      found_.least_bytes = bound->least_bytes;
      found_.without_budget = without_.without_budget;
      return Done{};
    }
    const auto fit = [&](Assignment answer) {
      choice_ = answer.choice;
      asked_bytes_ = answer.peak_bytes;
      const ProblemInput given = as_planned(answer);
      return solver_.fit(given, kept_, std::move(answer), wish_.budget);
    };
    Result<FittedSearch> found = solver_.search(wish_.input, asked, wish_.budget, most_work, kMostRounds, fit);
    if (!found) return found.error();
    found_ = std::move(*found);
    found_.without_budget = without_.without_budget;
    found_.lower_bound_seconds = to_seconds(std::max(bound->lower_bound, without_.without_budget.lower_bound));
    found_.least_bytes = 0;
    if (!found_.best) found_.status = SolveStatus::heuristic;
    return Done{};
  }

  [[nodiscard]] const Problem& kept() const { return kept_; }
  [[nodiscard]] const Problem& again() const { return again_; }
  [[nodiscard]] const Problem& converted() const { return converted_; }

  [[nodiscard]] bool is_proven_impossible() const { return found_.status == SolveStatus::infeasible; }

  [[nodiscard]] Result<std::optional<RecomputeSearch>> found() {
    if (!found_.best) return std::optional<RecomputeSearch>();
    if (!made_ || made_of_ != choice_) {
      Result<RecomputeSearch> made = with_layouts(solver_, wish_, without_.without_budget, names_of(choice_), joint_.layouts(choice_));
      if (!made) return made.error();
      made_ = std::move(*made);
      made_of_ = choice_;
    }
    return solver_.excess_bytes(made_->found.best->plan, wish_.budget) > 0 ? std::nullopt : made_;
  }

  Result<std::optional<RecomputeSearch>> best_of(std::optional<RecomputeSearch> known) {
    const bool is_known = known && known->found.best;
    if (!is_known && !found_.best && !is_proven_impossible()) return known;
    // Where nothing fits, what holds least is looked for where all blocks run again.
    RecomputeSearch made{wish_.recompute_pins.applied_to(recomputable_blocks(wish_.input.model)), again_, {}, ""};
    if (!is_proven_impossible()) {
      if (Status status = best_plan(known, made); !status) return status.error();
      if (!found_.best) return std::optional<RecomputeSearch>();
    }
    made.found = std::move(found_);
    made.of_any = true;
    made.step_bound_seconds = step_bound_seconds_;
    if (made.found.best && without_.best && wish_.step_rounds > 0 && without_.best->no_program.empty()) {
      const Result<double> seconds = seconds_shortened(solver_, wish_, found_plan(without_.without_budget, wish_.recompute_pins.applied_to({}), wish_.problem, *without_.best));
      if (!seconds) return seconds.error();
      made.without_seconds = *seconds;
    }
    return std::optional<RecomputeSearch>(std::move(made));
  }

 private:
  static Problem of_space(StrategySpace space) {
    Problem problem;
    problem.space = std::move(space);
    return problem;
  }

  // Forbids in both spaces what no plan has that costs no more than the one without what runs again.
  Status forbid_dearer(StrategySpace& bounded, StrategySpace& asked) const {
    const std::optional<Choice> known = without_.best ? joint_.completed(without_.best->assignment.choice) : std::nullopt;
    if (!known) return Done{};
    const Evaluation here = evaluate(asked, *known);
    if (!here.allowed || here.peak_bytes > wish_.budget) return Done{};
    const Result<LeastCosts> least = solver_.least_costs(joint_.least(kept_.space, again_.space), kWorkOfLeast);
    if (!least) return least.error();
    if (least->empty()) return Done{};
    joint_.forbid_above(here.cost, *least, asked);
    least_joint_.forbid_above(here.cost, *least, bounded);
    return Done{};
  }

  // What an op keeps for its backward may be converted again instead (decision 064), and is then held as whoever makes it has it: no less than in equal shards on all devices.
  static Problem with_least_kept(const ProblemInput& input, Problem kept) {
    for (const SavedTerm& saved : kept.saved) {
      MemoryTerm& term = kept.space.memory[saved.term];
      const std::vector<ValueId>& results = input.graph().nodes[kept.variables[term.node].node].results;
      if (std::ranges::find(results, saved.value) != results.end() || !input.graph().values[saved.value].requires_gradient) continue;
      const std::int64_t least = *std::ranges::max_element(term.bytes) / input.mesh.devices();
      for (std::int64_t& bytes : term.bytes) bytes = std::min(bytes, least);
    }
    return kept;
  }

  // The one with the shortest step becomes what was found, `made` says what runs again in it. Which one that is shows when the layouts of all are searched by the step too:
  // of what was found here, of what is known, and of what is some of each.
  Status best_plan(std::optional<RecomputeSearch>& known, RecomputeSearch& made) {
    std::vector<RecomputeSearch> plans;
    const bool was_found = found_.best.has_value();
    if (was_found) {
      if (Status status = is_by_step() ? shorten_step(*found_.best) : Status(Done{}); !status) return status;
      if (Status status = add_found(plans); !status) return status;
    }
    if (known && known->found.best) {
      const Choice before = choice_;
      const std::optional<Choice> other = begin_with(*known);
      if (is_by_step()) {
        if (Status status = was_found ? join_known(other, *found_.best) : shorten_step(*found_.best); !status) return status;
      }
      if (choice_ != before) {
        if (Status status = add_found(plans); !status) return status;
      }
      add(plans, std::move(*known));
    }
    if (plans.empty()) {
      found_.best.reset();
      return Done{};
    }
    if (plans.size() > 1 && wish_.step_rounds > 0) {
      if (Status status = shorten_plans(solver_, wish_, plans); !status) return status;
    }
    RecomputeSearch& best = *std::ranges::min_element(plans, {}, [](const RecomputeSearch& plan) { return plan.found.best->plan.step_seconds; });
    FittedPlan& plan = *best.found.best;
    if (found_.best) plan.assignment.method = found_.best->assignment.method;
    plan.assignment.lower_bound = std::min<TickSum>(to_ticks(found_.lower_bound_seconds), plan.assignment.cost);
    const bool proven = plan.assignment.cost == plan.assignment.lower_bound;
    if (found_.status == SolveStatus::optimal && !proven) found_.status = SolveStatus::bounded;
    plan.assignment.status = plan.plan.status = found_.status;
    plan.plan.lower_bound_seconds = found_.lower_bound_seconds;
    found_.best = std::move(plan);
    made.recomputed = std::move(best.recomputed);
    made.problem = std::move(best.problem);
    return Done{};
  }

  [[nodiscard]] bool is_by_step() const { return wish_.step_rounds > 0 && found_.best && found_.best->no_program.empty(); }

  // What was found, with its problem.
  Status add_found(std::vector<RecomputeSearch>& plans) {
    Result<std::optional<RecomputeSearch>> own = found();
    if (!own) return own.error();
    if (*own) add(plans, std::move(**own));
    return Done{};
  }

  static void add(std::vector<RecomputeSearch>& plans, RecomputeSearch plan) {
    const auto is_same = [&](const RecomputeSearch& other) {
      return plan.recomputed == other.recomputed && plan.found.best->assignment.choice == other.found.best->assignment.choice;
    };
    if (std::ranges::none_of(plans, is_same)) plans.push_back(std::move(plan));
  }

  // A plan that was found elsewhere, if it says nothing that the space does not, and its step is shorter. Of both, where there are two, the one that is not begun with.
  std::optional<Choice> begin_with(const RecomputeSearch& known) {
    const FittedPlan& plan = *known.found.best;
    const Result<Recomputation> again = recomputation(wish_.input.model, known.recomputed);
    std::optional<Choice> choice = again ? joint_.answer(plan.assignment.choice, *again) : std::nullopt;
    if (!choice || names_of(*choice) != known.recomputed || !evaluate(space_, *choice).allowed) return std::nullopt;
    if (found_.best && plan.plan.step_seconds >= found_.best->plan.step_seconds) return choice;
    std::optional<Choice> other;
    if (!found_.best) asked_bytes_ = evaluate(space_, *choice).peak_bytes;
    else other = std::move(choice_);
    found_.best = plan;
    choice_ = std::move(*choice);
    return other;
  }

  [[nodiscard]] std::vector<std::string> names_of(const Choice& choice) const { return wish_.recompute_pins.applied_to(joint_.recomputed(choice)); }

  // What the plan of an answer is of, as far as it is simulated: its prices are those of a problem in which nothing runs again, of which the answer is one then.
  [[nodiscard]] ProblemInput as_planned(Assignment& answer) const {
    ProblemInput given = wish_.with(names_of(answer.choice));
    answer.choice = joint_.layouts(answer.choice);
    return given;
  }

  // Rounds as those of StepSearch, in which what runs again is chosen too. Where the space is too large for the work of a round only bounds are raised, by plans of the
  // problem in which nothing does.
  Status shorten_step(FittedPlan& best) {
    const ProblemInput all = wish_.with(recomputable_blocks(wish_.input.model)), none = wish_.with({});
    const StepParts kept(none, kept_), again(all, again_, StepParts::Again::from_there_on);
    PathAverages averages(kept.places());
    const std::vector<std::uint32_t> blocks = block_numbers(none, kept_);
    simulated_.insert(choice_);
    averages.add(again.of(joint_.layouts(choice_), joint_.again(choice_)));
    bool is_too_large = false;
    for (int round = 0; round < wish_.step_rounds && !averages.is_done(); ++round) {
      const PathTable average = averages.next();
      const StrategySpace of_kept = kept.space(average), of_again = again.space(average);
      const Result<Assignment> fastest = solve(joint_.least(of_kept, of_again), kNoBudget, kAnyWork);
      if (!fastest) return fastest.error();
      Round found{fastest->lower_bound, {}};
      if (!is_too_large) {
        Result<Round> within = solve_round(of_kept, of_again);
        if (!within) return within.error();
        found = {std::max(found.bound, within->bound), std::move(within->choice)};
        is_too_large = found.choice.empty();
      }
      averages.prove(average, (static_cast<double>(found.bound) + kept.fixed_ticks(average)) / static_cast<double>(kTicksPerSecond));
      if (is_too_large) {
        if (fastest->choice.empty()) break;
        averages.add(kept.of(fastest->choice));
        continue;
      }
      averages.add(again.of(joint_.layouts(found.choice), joint_.again(found.choice)));
      if (Status status = try_choice(found.choice, again, best); !status) return status;
      if (Status status = join(found.choice, blocks, again, best); !status) return status;
    }
    step_bound_seconds_ = averages.bound_seconds();
    return Done{};
  }

  struct Round {
    TickSum bound = 0;  // no plan within the budget costs less
    Choice choice;      // empty where the space is too large
  };

  // By such costs, within what fitted: a plan's program may hold more than the terms say.
  [[nodiscard]] Result<Round> solve_round(const StrategySpace& kept, const StrategySpace& again) const {
    Result<Assignment> answer = solve(joint_.priced(kept, again), std::min(wish_.budget, asked_bytes_), {kWorkOfRound, kGapOfRound});
    if (!answer) return answer.error();
    if (answer->choice.empty()) return Round{};
    const Result<Assignment> bound = solve(least_joint_.priced(kept, again), wish_.budget, {kWorkOfRound, kGapOfRound});
    if (!bound) return bound.error();
    return Round{bound->lower_bound, std::move(answer->choice)};
  }

  [[nodiscard]] Result<Assignment> solve(StrategySpace space, std::int64_t budget, Effort effort) const {
    return solver_.solve(wish_.input, of_space(std::move(space)), budget, effort);
  }

  // With what is known besides, if anything is.
  Status join_known(const std::optional<Choice>& other, FittedPlan& best) {
    if (!other) return Done{};
    const ProblemInput all = wish_.with(recomputable_blocks(wish_.input.model));
    const StepParts parts(all, again_, StepParts::Again::from_there_on);
    return join(*other, block_numbers(wish_.with({}), kept_), parts, best);
  }

  // Plans that are the best one in some blocks and another one in the rest: of each kind the one whose longest path is shortest.
  Status join(const Choice& other, const std::vector<std::uint32_t>& blocks, const StepParts& parts, FittedPlan& best) {
    const std::size_t count = kept_.variables.size();
    const Choice one(choice_.begin(), choice_.begin() + static_cast<std::ptrdiff_t>(count)), two(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(count));
    for (const std::vector<Choice>& joined : {joined_at_cuts(blocks, one, two), joined_at_cuts(blocks, two, one), joined_in_turns(blocks, one, two)}) {
      double shortest = std::numeric_limits<double>::infinity();
      std::optional<Choice> found;
      for (const Choice& each : joined) {
        std::optional<Choice> whole = joint_.completed(each);
        if (!whole) continue;
        const Evaluation here = evaluate(space_, *whole);
        if (!here.allowed || here.peak_bytes > wish_.budget) continue;
        const PathTable table = parts.of(joint_.layouts(*whole), joint_.again(*whole));
        const double seconds = length(table, longest_path(parts.places(), table));
        if (seconds < shortest) shortest = seconds, found = std::move(whole);
      }
      if (!found) continue;
      if (Status status = try_choice(*found, parts, best); !status) return status;
    }
    return Done{};
  }

  // The best one from now on, if it is shorter and fits.
  Status try_choice(const Choice& choice, const StepParts& parts, FittedPlan& best) {
    if (!simulated_.insert(choice).second) return Done{};
    const PathTable table = parts.of(joint_.layouts(choice), joint_.again(choice));
    if (length(table, longest_path(parts.places(), table)) >= best.plan.step_seconds * static_cast<double>(kTicksPerSecond)) return Done{};
    const Evaluation here = evaluate(space_, choice);
    Assignment answer = best.assignment;
    answer.choice = choice;
    answer.cost = here.cost;
    answer.peak_bytes = here.peak_bytes;
    const ProblemInput given = as_planned(answer);
    Result<std::optional<FittedPlan>> plan = solver_.fit_shorter(given, kept_, std::move(answer), wish_.budget, best.plan.step_seconds);
    if (!plan) return plan.error();
    if (!*plan) return Done{};
    best = std::move(**plan);
    choice_ = choice;
    return Done{};
  }

  const FittedSolver& solver_;
  const RecomputeWish& wish_;
  const FittedSearch& without_;
  const Problem kept_, again_, converted_;  // nothing runs again, every block does, every operand is converted again that could be
  const Problem least_kept_;    // the first, with the least that may be held
  const JointSpace joint_, least_joint_;
  const StrategySpace space_;   // the first of these
  Choice choice_;               // of the best plan
  std::optional<RecomputeSearch> made_;  // that plan with its problem, as it was asked for last, of this choice
  Choice made_of_;
  FittedSearch found_;            // its plan's choice is the problem's in which nothing runs again
  std::int64_t asked_bytes_ = 0;  // by the terms, of a plan that fits
  double step_bound_seconds_ = 0;
  std::set<Choice> simulated_;
};

Result<JointSearch> JointSearch::make(const FittedSolver& solver, const RecomputeWish& wish, const FittedSearch& without) {
  const ModelAnalysis& model = wish.input.model;
  Result<Problem> kept = wish.problem_with({}), again = wish.problem_with(recomputable_blocks(model));
  Result<Problem> converted = wish.problem_with(recomputed_names(model, std::vector<bool>(model.graph->nodes.size(), false), convertible_operands(model)));
  for (const Result<Problem>* problem : {&kept, &again, &converted}) {
    if (!*problem) return problem->error();
  }
  return JointSearch(std::make_unique<Impl>(solver, wish, without, std::move(*kept), std::move(*again), std::move(*converted)));
}

JointSearch::JointSearch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JointSearch::JointSearch(JointSearch&&) noexcept = default;
JointSearch::~JointSearch() = default;

Status JointSearch::search() { return impl_->search(); }

bool JointSearch::is_proven_impossible() const { return impl_->is_proven_impossible(); }

Result<std::optional<RecomputeSearch>> JointSearch::found() { return impl_->found(); }

const Problem& JointSearch::kept() const { return impl_->kept(); }
const Problem& JointSearch::again() const { return impl_->again(); }
const Problem& JointSearch::converted() const { return impl_->converted(); }

Result<std::optional<RecomputeSearch>> JointSearch::best_of(std::optional<RecomputeSearch> known) { return impl_->best_of(std::move(known)); }

}  // namespace meshwright
