#include "checkpoint_sweep.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "meshwright/plan_chain.h"
#include "meshwright/recompute.h"
#include "meshwright/step_order.h"
#include "schedule_ops.h"

namespace meshwright {

namespace {

constexpr std::size_t kLastPower = 9;  // of 1 + α
constexpr int kMostSchedules = 6;  // that the solver of chains is asked for, of one plan
constexpr std::int64_t kWorkOfPlan = 200'000'000;

class Sweep {
 public:
  Sweep(const FittedSolver& solver, const RecomputeWish& wish, const CheckpointSweep& sweep, const FittedSearch& without)
      : solver_(solver), wish_(wish), sweep_(sweep), without_(without), fastest_(without.without_budget), model_(linearize(wish.input.model, wish.input.ops)) {
    if (without.best) best_rank_ = rank_of(*without.best);
  }

  Result<std::optional<RecomputeSearch>> run() {
    std::vector<double> factors = {1};
    while (factors.size() <= kLastPower) factors.push_back(factors.back() * (1 + sweep_.alpha));
    // From the largest budget on: plans of smaller ones are slower before anything runs again.
    for (const double factor : std::views::reverse(factors)) {
      if (factor * static_cast<double>(wish_.budget) < static_cast<double>(without_.least_bytes)) break;  // no plan holds so little
      Result<Assignment> plan = plan_within(factor);
      if (!plan) return plan.error();
      if (plan->choice.empty()) break;
      if (!seen_.insert(plan->choice).second) continue;
      if (Status status = try_plan(std::move(*plan), factor); !status) return status.error();
    }
    if (best_) return std::move(best_);
    if (without_.best) return std::optional<RecomputeSearch>();
    return nothing_fits();
  }

 private:
  using Rank = std::pair<double, TickSum>;
  using Names = std::vector<std::string>;

  static Rank rank_of(const FittedPlan& plan) { return {plan.plan.step_seconds, plan.assignment.cost}; }

  // The plan of the first solver.
  [[nodiscard]] Result<Assignment> plan_within(double factor) const {
    const double budget = factor * static_cast<double>(wish_.budget);
    if (static_cast<double>(fastest_.peak_bytes) <= budget) return fastest_;
    return solver_.solve(wish_.input, wish_.problem, static_cast<std::int64_t>(budget), kWorkOfPlan);
  }

  Status try_plan(Assignment plan, double factor) {
    const std::vector<std::uint32_t> choice = plan.choice;
    plan.lower_bound = fastest_.lower_bound;
    Result<FittedPlan> kept = solver_.fit(wish_.input, wish_.problem, std::move(plan), wish_.budget);
    if (!kept) return kept.error();
    if (rank_of(*kept) >= best_rank_) return Done{};
    const std::int64_t over = solver_.excess_bytes(kept->plan, wish_.budget);
    if (over > 0) return try_schedules(choice, over, factor);
    take(found_plan(fastest_, wish_.input.recomputed, wish_.problem, std::move(*kept)));
    return Done{};
  }

  // Schedules of a plan that holds so much more than the budget if it keeps everything.
  Status try_schedules(const std::vector<std::uint32_t>& choice, std::int64_t over, double factor) {
    const Chain chain = chain_of(wish_.input, wish_.problem, model_, choice);
    if (Status status = validate(chain); !status) return status;
    const Result<ChainReplay> everything = replay(chain, keep_everything(chain));
    if (!everything) return everything.error();
    // Budgets of the chain: the most that is known to fit, and the least that is known not to.
    std::int64_t fits = 0, too_much = everything->peak_bytes, asked = too_much - over;
    bool is_least = false;  // what is asked for
    std::map<Names, std::int64_t> excess;
    for (int round = 0; round < kMostSchedules && asked < too_much; ++round) {
      const std::int64_t budgets[] = {std::max<std::int64_t>(asked, 0)};
      Result<std::vector<CheckpointAnswer>> answers = sweep_.solver.solve(chain, budgets);
      if (!answers) return answers.error();
      const CheckpointAnswer& answer = answers->front();
      if (answer.status == SolveStatus::infeasible) {
        if (is_least || fits > 0) break;
        asked = answer.least_bytes;
        is_least = true;
        continue;
      }
      const ScheduledOps ops = ops_of_schedule(model_, wish_.input.graph(), answer.schedule);
      Names names = wish_.recompute_pins.applied_to(recomputed_names(wish_.input.model, ops.run_again));
      const auto [known, is_new] = excess.try_emplace(names, 0);
      if (is_new) {
        Result<RecomputeSearch> made = with_layouts(solver_, wish_, fastest_, std::move(names), choice);
        if (!made) return made.error();
        made->how = how(ops, factor);
        FittedPlan& fitted = *made->found.best;
        known->second = solver_.excess_bytes(fitted.plan, wish_.budget);
        if (known->second > 0) keep_smaller(std::move(fitted));
        else if (rank_of(fitted) < best_rank_) take(std::move(*made));
      }
      if (known->second > 0) {
        if (is_least) break;
        too_much = asked;
        asked = fits > 0 ? fits + (too_much - fits) / 2 : asked - std::max(known->second, asked / 8);
      } else {
        fits = asked;
        is_least = false;
        asked = fits + (too_much - fits + 1) / 2;
      }
    }
    return Done{};
  }

  [[nodiscard]] std::string how(const ScheduledOps& ops, double factor) const {
    char times[32];
    std::snprintf(times, sizeof times, "%.4g", factor);
    std::string text = sweep_.name + ", budget times " + times + ": " + std::to_string(ops.stages) + " of " + std::to_string(model_.stages.size()) + " stages run again";
    if (ops.more_than_twice > 0) text += ", " + std::to_string(ops.more_than_twice) + " of them more often in its schedule";
    return text + ".";
  }

  void take(RecomputeSearch made) {
    best_rank_ = rank_of(*made.found.best);
    best_ = std::move(made);
  }

  void keep_smaller(FittedPlan plan) {
    if (!smallest_ || plan.plan.peak_bytes < smallest_->plan.peak_bytes) smallest_ = std::move(plan);
  }

  std::optional<RecomputeSearch> nothing_fits() {
    RecomputeSearch made{wish_.input.recomputed, wish_.problem, {}, ""};
    made.found.status = SolveStatus::heuristic;
    made.found.without_budget = fastest_;
    made.found.lower_bound_seconds = to_seconds(fastest_.lower_bound);
    made.found.binding = sweep_.name + " has no schedule for a plan of the sweep that fits, though none is proven impossible";
    made.found.smallest = std::move(smallest_);
    return made;
  }

  const FittedSolver& solver_;
  const RecomputeWish& wish_;
  const CheckpointSweep& sweep_;
  const FittedSearch& without_;
  const Assignment& fastest_;  // whatever it holds
  const ModelChain model_;
  std::set<std::vector<std::uint32_t>> seen_;
  Rank best_rank_{std::numeric_limits<double>::infinity(), 0};  // of the plan without, too
  std::optional<RecomputeSearch> best_;
  std::optional<FittedPlan> smallest_;  // that does not fit
};

// Nothing is allowed whatever the budget, or the fastest plan of all fits.
bool binds_nothing(const FittedSearch& without) {
  const Assignment& fastest = without.without_budget;
  return fastest.choice.empty() || (without.best && without.best->assignment.cost <= fastest.cost);
}

}  // namespace

Result<std::optional<RecomputeSearch>> sweep_checkpoints(const FittedSolver& solver, const RecomputeWish& wish, const CheckpointSweep& sweep,
                                                         const FittedSearch& without) {
  if (step_order(wish.input.training)->fullest(Phase::forward).in_flight > 1) {
    return bad_input("\"checkpoint\" in [search] is of steps with one microbatch in flight, and the \"order\" in [train] has several; leave one of them out");
  }
  if (binds_nothing(without) || recomputable_blocks(wish.input.model).empty()) return std::optional<RecomputeSearch>();
  return Sweep(solver, wish, sweep, without).run();
}

}  // namespace meshwright
