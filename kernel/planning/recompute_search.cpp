#include "recompute_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "joint_search.h"
#include "kept_space.h"
#include "meshwright/recompute.h"
#include "meshwright/step_order.h"
#include "meshwright/step_parts.h"

namespace meshwright {

namespace {

constexpr int kBetween = 2;
constexpr int kMostTurns = 3, kMostAsked = 5;
constexpr double kBetweenBudgets = 1.2;
constexpr int kLastPower = 9, kBudgets = 8;
constexpr std::int64_t kNearEnough = 100;  // such a part of the budget may be left
constexpr std::size_t kMostBegins = 3, kMostBeginsBeforeRounds = 2;  // where rounds by the step follow
constexpr std::size_t kMostOthers = 12;
// Near the least that any plan holds an exact search takes long, and each of these adds a candidate only, so all of them take little. Where nothing fits without,
// the search with all blocks is what says whether anything does.
constexpr std::int64_t kWorkOfLayouts = 100'000'000, kWorkOfKept = 20'000'000, kWorkOfStart = 60'000'000;
constexpr std::int64_t kWorkOfAllBlocks = 1'000'000'000;
// Where another mesh has a plan, those on which nothing fits are given up soon if their tables have so many entries together, so that each search takes about a second.
constexpr std::size_t kLargeSpace = 100'000'000;
constexpr int kFewRounds = 2;

using Rank = std::tuple<bool, double, TickSum>;

// By the step, or the objective; nothing ranks behind all.
Rank rank_of(const FittedPlan& plan) { return {false, plan.plan.step_seconds, plan.assignment.cost}; }

Rank rank_of(const FittedSearch& found) { return found.best ? rank_of(*found.best) : Rank{true, 0, 0}; }

// No budget binds, or nothing is allowed whatever the budget.
bool is_free(const FittedSearch& without) {
  const Assignment& fastest = without.without_budget;
  return fastest.choice.empty() || (without.best && without.best->assignment.cost <= fastest.cost);
}

// Whether another mesh has a plan, none is known here that runs nothing again, and it would take long to try everything.
bool tries_little(const RecomputeWish& wish, const FittedSearch& without) {
  if (!wish.has_rival || without.best) return false;
  std::size_t entries = 0;
  for (const SpaceEdge& edge : wish.problem.space.edges) entries += wish.problem.space.tables[edge.table].costs.size();
  return entries >= kLargeSpace;
}

// The search of layouts where these run again.
Result<RecomputeSearch> search_with(const FittedSolver& solver, const RecomputeWish& wish, const FittedSearch& without, const std::vector<std::string>& names,
                                    std::int64_t most_work = kWorkOfLayouts) {
  RecomputeSearch made;
  made.recomputed = wish.recompute_pins.applied_to(names);
  const ProblemInput given = wish.with(made.recomputed);
  Result<Problem> problem = build_pinned(given, wish.pins);
  if (!problem) return problem.error();
  made.problem = std::move(*problem);
  Result<FittedSearch> found = solver.search(given, made.problem, wish.budget, most_work, tries_little(wish, without) ? kFewRounds : kMostRounds);
  if (!found) return found.error();
  made.found = std::move(*found);
  bound_any_number(without.without_budget, made.found);
  return made;
}

class BlockCounts {
 public:
  BlockCounts(const FittedSolver& solver, const RecomputeWish& wish, const FittedSearch& without)
      : solver_(solver), wish_(wish), without_(without), blocks_(recomputable_blocks(wish.input.model)) {}

  Result<std::optional<RecomputeSearch>> run() {
    if (blocks_.empty() || is_free(without_)) return std::optional<RecomputeSearch>();
    Result<RecomputeSearch> all = search(blocks_.size());
    if (!all) return all.error();
    std::size_t fewest = 0, most = blocks_.size();
    const std::size_t enough = enough_blocks(all->found);
    Rank at_most = rank_of(all->found);
    keep(std::move(*all));
    // Where ops are searched for too, further numbers are nothing that this begins better from.
    const int between = wish_.of_ops ? 0 : kBetween;
    for (int i = 0; i <= between && most - fewest > 1; ++i) {
      const std::size_t count = i == 0 ? enough : fewest + (most - fewest) / 2;
      if (count == most) continue;
      Result<RecomputeSearch> some = search(count);
      if (!some) return some.error();
      const Rank rank = rank_of(some->found);
      if (rank <= at_most && some->found.best) most = count, at_most = rank;
      else fewest = count;
      keep(std::move(*some));
    }
    if (without_.best && rank_of(best_->found) >= rank_of(without_)) return std::optional<RecomputeSearch>();
    return std::move(best_);
  }

 private:
  [[nodiscard]] Result<RecomputeSearch> search(std::size_t count) const {
    return search_with(solver_, wish_, without_, {blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(count)},
                       std::min(wish_.most_work, count == blocks_.size() && !without_.best ? kWorkOfAllBlocks : kWorkOfLayouts));
  }

  // By interpolation, the number from which the fastest plan of all fits; all, if it never does.
  [[nodiscard]] std::size_t enough_blocks(const FittedSearch& with_all) const {
    const std::int64_t none = without_.without_budget.peak_bytes, all = with_all.without_budget.peak_bytes;
    if (all > wish_.budget || none <= all) return blocks_.size();
    const double share = static_cast<double>(none - wish_.budget) / static_cast<double>(none - all);
    const double count = std::ceil(share * static_cast<double>(blocks_.size()));
    return static_cast<std::size_t>(std::clamp(count, 1.0, static_cast<double>(blocks_.size())));
  }

  void keep(RecomputeSearch made) {
    if (!best_ || rank_of(made.found) < rank_of(best_->found)) best_ = std::move(made);
  }

  const FittedSolver& solver_;
  const RecomputeWish& wish_;
  const FittedSearch& without_;
  const std::vector<std::string> blocks_;
  std::optional<RecomputeSearch> best_;
};

// The search of what runs again by layouts, and of layouts by what runs again.
class KeptOps {
 public:
  KeptOps(const FittedSolver& solver, const RecomputeWish& wish, const FittedSearch& without, const JointSearch& joint)
      : solver_(solver), wish_(wish), without_(without), fastest_(without.without_budget), kept_(joint.kept()), again_(joint.again()), converted_(joint.converted()) {}

  Result<std::optional<RecomputeSearch>> improve(std::optional<RecomputeSearch> best) {
    // The terms are those of one microbatch at a time.
    if (recomputable_blocks(wish_.input.model).empty() || step_order(wish_.input.training)->fullest(Phase::forward).in_flight > 1) return best;
    best_ = std::move(best);
    Result<std::vector<Kept>> begins = choose_for_starts();
    if (!begins) return begins.error();
    std::ranges::stable_sort(*begins, {}, &Kept::rank);
    const std::size_t most = wish_.step_rounds > 0 ? kMostBeginsBeforeRounds : kMostBegins;
    for (std::size_t i = 0; i < std::min(begins->size(), most); ++i) {
      if (Status status = take_turns(std::move((*begins)[i].ops)); !status) return status.error();
    }
    if (Status status = try_others(); !status) return status.error();
    if (!better_) return std::move(best_);
    Result<RecomputeSearch> made = with_layouts(solver_, wish_, fastest_, better_->ops, better_->layouts);
    if (!made) return made.error();
    return std::optional<RecomputeSearch>(std::move(*made));
  }

 private:
  using Choice = std::vector<std::uint32_t>;

  // What runs again for some layouts, and how good that plan is; one that does not fit is behind all that do.
  struct Kept {
    Choice layouts;
    std::vector<std::string> ops = {};
    Rank rank = {true, 0, 0};
    std::int64_t asked = 0;  // what was asked for
  };

  // What runs again for the layouts to begin with.
  [[nodiscard]] Result<std::vector<Kept>> choose_for_starts() {
    std::vector<Kept> begins;
    std::set<Choice> seen;
    const auto add = [&](const Choice& layouts) -> Status {
      if (layouts.empty() || !seen.insert(layouts).second) return Done{};
      Result<Kept> kept = choose(layouts);
      if (!kept) return kept.error();
      if (!kept->ops.empty()) begins.push_back(std::move(*kept));
      return Done{};
    };
    const Choice of_blocks = best_ && best_->found.best ? best_->found.best->assignment.choice : Choice();
    for (const Choice& layouts : {fastest_.choice, of_blocks}) {
      if (Status status = add(layouts); !status) return status.error();
    }
    const StepParts parts(wish_.input, wish_.problem);
    for (const std::int64_t budget : budgets()) {
      Result<Assignment> answer = solver_.solve(wish_.input, wish_.problem, budget, kWorkOfStart);
      if (!answer) return answer.error();
      if (answer->choice.empty()) break;
      if (seen.contains(answer->choice) || is_too_long(parts, answer->choice)) continue;
      if (Status status = add(answer->choice); !status) return status.error();
    }
    return begins;
  }

  // No plan of these layouts has a shorter step than the best one, since what runs again makes it no shorter.
  [[nodiscard]] bool is_too_long(const StepParts& parts, const Choice& layouts) const {
    const double known = std::get<double>(known_rank());
    const PathTable table = parts.of(layouts);
    return known > 0 && length(table, longest_path(parts.places(), table)) >= known * static_cast<double>(kTicksPerSecond);
  }

  // For layouts that leave room to be made by what runs again, from the largest on: as MAP's sweep has them, and some between.
  [[nodiscard]] std::vector<std::int64_t> budgets() const {
    const auto least = static_cast<double>(std::max(wish_.budget, without_.least_bytes)), most = static_cast<double>(fastest_.peak_bytes);
    std::set<std::int64_t, std::greater<>> made = {static_cast<std::int64_t>(least)};
    const auto add_powers = [&](double first, double factor) {
      for (int power = 0; power <= kLastPower; ++power, first *= factor) {
        if (first > least && first < most) made.insert(static_cast<std::int64_t>(first));
      }
    };
    add_powers(static_cast<double>(wish_.budget), kBetweenBudgets);
    add_powers(least, std::pow(most / least, 1.0 / kBudgets));
    return {made.begin(), made.end()};
  }

  [[nodiscard]] Rank known_rank() const {
    if (better_) return better_->rank;
    return best_ ? std::min(rank_of(best_->found), rank_of(without_)) : rank_of(without_);
  }

  // Layouts for these ops, ops for those layouts, as long as that makes the plan better.
  Status take_turns(std::vector<std::string> ops) {
    for (int turn = 0; turn < kMostTurns; ++turn) {
      if (ops.empty() || !tried_.insert(ops).second) return Done{};
      Result<RecomputeSearch> made = search_with(solver_, wish_, without_, ops);
      if (!made) return made.error();
      if (!made->found.best) return Done{};
      const Choice layouts = made->found.best->assignment.choice;
      if (!take(std::move(*made))) return Done{};
      Result<Kept> kept = choose(layouts);
      if (!kept) return kept.error();
      ops = std::move(kept->ops);
    }
    return Done{};
  }

  // What runs again in the fastest plan of these layouts that fits, as far as its terms of memory know; nothing if none is found. Where its program holds more, less
  // is asked for, and then again more, in smaller steps; plans whose programs fit are ones to take.
  Result<Kept> choose(const Choice& layouts) {
    if (const auto known = chosen_.find(layouts); known != chosen_.end()) return known->second;
    const KeptSpace space(wish_.input, {kept_, again_, converted_}, wish_.recompute_pins, layouts);
    Problem problem;
    problem.space = space.space();
    Kept chosen{layouts};
    std::map<std::vector<std::string>, std::int64_t> excess;
    std::int64_t fits = 0, too_much = std::numeric_limits<std::int64_t>::max(), asked = wish_.budget;  // what was asked for
    bool is_least = false;
    for (int round = 0; round < kMostAsked; ++round) {
      Result<Assignment> answer = solver_.solve(wish_.input, problem, asked, kWorkOfKept);
      if (!answer) return answer.error();
      if (answer->choice.empty()) {
        if (is_least || answer->least_bytes <= asked) break;
        asked = answer->least_bytes;
        is_least = true;
        continue;
      }
      const auto [known, is_new] = excess.try_emplace(space.recomputed(answer->choice), 0);
      const auto& [ops, over] = *known;
      if (is_new) {
        const Result<FittedPlan> plan = plan_of(layouts, ops, answer->cost);
        if (!plan) return plan.error();
        known->second = solver_.excess_bytes(plan->plan, wish_.budget);
        const Kept here{layouts, ops, over <= 0 ? rank_of(*plan) : Rank{true, 0, 0}, asked};
        if (chosen.ops.empty() || here.rank < chosen.rank) chosen = here;
        if (here.rank < known_rank()) better_ = here;
      }
      if (over <= 0 ? !is_new || ops.empty() || -over < wish_.budget / kNearEnough : is_least) break;
      (over <= 0 ? fits : too_much) = asked;
      asked -= over;
      if (asked <= fits || asked >= too_much) asked = fits + (too_much - fits) / 2;
    }
    chosen_[layouts] = chosen;
    return chosen;
  }

  // The least cost is not the shortest step: for the layouts of the best plan, those in which one op less of it runs again.
  Status try_others() {
    if (!better_ && (!best_ || !best_->found.best)) return Done{};
    const Choice layouts = better_ ? better_->layouts : best_->found.best->assignment.choice;
    const Result<Kept> best = choose(layouts);
    if (!best) return best.error();
    const KeptSpace space(wish_.input, {kept_, again_, converted_}, wish_.recompute_pins, layouts);
    Problem problem;
    problem.space = space.space();
    const Result<Assignment> answer = solver_.solve(wish_.input, problem, best->asked, kWorkOfKept);
    if (!answer) return answer.error();
    if (answer->choice.empty()) return Done{};
    const std::vector<std::uint32_t> ops = space.ops_again(answer->choice);
    std::set<std::vector<std::string>> seen = {best->ops};
    for (std::size_t i = 0; i < ops.size(); i += 1 + ops.size() / kMostOthers) {
      Ticks& cost = problem.space.nodes[ops[i]].costs[1];
      const Ticks before = std::exchange(cost, kForbidden);
      const Result<Assignment> other = solver_.solve(wish_.input, problem, best->asked, kWorkOfKept);
      cost = before;
      if (!other) return other.error();
      if (other->choice.empty()) continue;
      const std::vector<std::string> names = space.recomputed(other->choice);
      if (!seen.insert(names).second) continue;
      const Result<FittedPlan> plan = plan_of(layouts, names, other->cost);
      if (!plan) return plan.error();
      if (solver_.excess_bytes(plan->plan, wish_.budget) <= 0 && rank_of(*plan) < known_rank()) better_ = {layouts, names, rank_of(*plan), best->asked};
    }
    return Done{};
  }

  // The plan of these layouts where these run again, which costs so much, as far as it is simulated: its prices are those of a problem in which nothing does.
  [[nodiscard]] Result<FittedPlan> plan_of(const Choice& layouts, const std::vector<std::string>& ops, TickSum cost = 0) const {
    const Evaluation kept = evaluate(kept_.space, layouts);
    Assignment assignment;
    assignment.choice = layouts;
    assignment.cost = kept.cost + cost;
    assignment.peak_bytes = kept.peak_bytes;
    return solver_.fit(wish_.with(ops), kept_, std::move(assignment), wish_.budget);
  }

  // Whether it is better than all that is known.
  bool take(RecomputeSearch made) {
    if (rank_of(made.found) >= known_rank()) return false;
    best_ = std::move(made);
    better_.reset();
    return true;
  }

  const FittedSolver& solver_;
  const RecomputeWish& wish_;
  const FittedSearch& without_;
  const Assignment& fastest_;  // whatever it holds
  const Problem &kept_, &again_, &converted_;
  std::set<std::vector<std::string>> tried_;
  std::map<Choice, Kept> chosen_;
  std::optional<RecomputeSearch> best_;
  std::optional<Kept> better_;  // than the best one
};

}  // namespace

ProblemInput RecomputeWish::with(std::vector<std::string> names) const {
  ProblemInput given = input;
  given.recomputed = std::move(names);
  return given;
}

Result<Problem> RecomputeWish::problem_with(std::vector<std::string> names) const {
  if (names == input.recomputed) return problem;
  return build_pinned(with(std::move(names)), pins);
}

Result<RecomputeSearch> with_layouts(const FittedSolver& solver, const RecomputeWish& wish, const Assignment& fastest, std::vector<std::string> names,
                                     const std::vector<std::uint32_t>& choice) {
  const ProblemInput given = wish.with(std::move(names));
  Result<Problem> problem = build_pinned(given, wish.pins);
  if (!problem) return problem.error();
  const Evaluation evaluation = evaluate(problem->space, choice);
  Assignment assignment;
  assignment.choice = choice;
  assignment.cost = evaluation.cost;
  assignment.peak_bytes = evaluation.peak_bytes;
  assignment.lower_bound = fastest.lower_bound;
  assignment.method = fastest.method;
  Result<FittedPlan> fitted = solver.fit(given, *problem, std::move(assignment), wish.budget);
  if (!fitted) return fitted.error();
  return found_plan(fastest, given.recomputed, std::move(*problem), std::move(*fitted));
}

RecomputeSearch found_plan(const Assignment& fastest, std::vector<std::string> names, Problem problem, FittedPlan plan) {
  RecomputeSearch made{std::move(names), std::move(problem), {}, ""};
  made.found.status = fastest.status;
  made.found.without_budget = fastest;
  made.found.lower_bound_seconds = to_seconds(fastest.lower_bound);
  made.found.best = std::move(plan);
  bound_any_number(fastest, made.found);
  return made;
}

void bound_any_number(const Assignment& without_budget, FittedSearch& found) {
  found.lower_bound_seconds = std::min(found.lower_bound_seconds, to_seconds(without_budget.lower_bound));
  if (!found.best) return;
  if (found.status == SolveStatus::optimal && found.best->assignment.cost > without_budget.lower_bound) found.status = SolveStatus::bounded;
  found.best->plan.status = found.status;
  found.best->plan.lower_bound_seconds = found.lower_bound_seconds;
}

Result<std::optional<RecomputeSearch>> search_recomputed(const FittedSolver& solver, const RecomputeWish& wish, const FittedSearch& without) {
  if (!wish.of_ops || is_free(without)) return BlockCounts(solver, wish, without).run();
  if (tries_little(wish, without)) {
    Result<std::optional<RecomputeSearch>> blocks = BlockCounts(solver, wish, without).run();
    if (!blocks || !*blocks || (*blocks)->found.best) return blocks;
    (*blocks)->found.binding = "no plan is known that holds no more than the budget, though none is proven impossible, and since another mesh has one little was tried";
    return blocks;
  }
  Result<JointSearch> joint = JointSearch::make(solver, wish, without);
  if (!joint) return joint.error();
  if (Status status = joint->search(); !status) return status.error();
  if (joint->is_proven_impossible()) return joint->best_of(std::nullopt);
  Result<std::optional<RecomputeSearch>> known = joint->found();
  // The plan with the least objective is not the one with the shortest step: where no rounds by the step follow, blocks may be better to begin from.
  if (known && (!*known || wish.step_rounds == 0)) {
    Result<std::optional<RecomputeSearch>> blocks = BlockCounts(solver, wish, without).run();
    if (!blocks) return blocks;
    if (*blocks && (!*known || rank_of((*blocks)->found) < rank_of((*known)->found))) known = std::move(blocks);
  }
  if (known) known = KeptOps(solver, wish, without, *joint).improve(std::move(*known));
  if (!known) return known;
  return joint->best_of(std::move(*known));
}

}  // namespace meshwright
