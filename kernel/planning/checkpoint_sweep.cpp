#include "checkpoint_sweep.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "followed_chain.h"
#include "meshwright/recompute.h"
#include "meshwright/step_order.h"

namespace meshwright {

namespace {

constexpr std::size_t kLastPower = 9;  // of 1 + α
// Of one plan: plans of schedules that are lowered, to find the most that fits and of less, and how often the solver of chains is asked for either.
constexpr std::size_t kMostSchedules = 6, kMostOfLess = 3;
constexpr int kMostAsked = 12;
constexpr std::int64_t kNearEnough = 200, kFirstLess = 32;  // such parts of what a chain could let go
constexpr double kSlower = 1.05;  // than the best so far: nothing between is tried
constexpr std::int64_t kWorkOfPlan = 200'000'000;

class Sweep {
 public:
  Sweep(const FittedSolver& solver, const RecomputeWish& wish, const CheckpointSweep& sweep, const FittedSearch& without)
      : solver_(solver), wish_(wish), sweep_(sweep), without_(without), fastest_(without.without_budget) {
    if (without.best) best_rank_ = rank_of(*without.best);
  }

  Result<std::optional<RecomputeSearch>> run() {
    std::vector<double> factors = {1};
    while (factors.size() <= kLastPower) factors.push_back(factors.back() * (1 + sweep_.alpha));
    // From the largest budget on: plans of smaller ones are slower before anything runs again.
    std::ranges::reverse(factors);
    for (const double factor : factors) {
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

  static constexpr Rank kNothing = {std::numeric_limits<double>::infinity(), 0};

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

  // A plan of the sweep, and what is known of its schedules.
  struct Tried {
    bool is_met = true;           // The solver has a schedule; `least` is what it has one for, where not.
    std::int64_t least = 0;
    std::int64_t peak_bytes = 0;  // of the chain
    std::int64_t excess = 0;      // of the plan's program, over the budget
    Rank rank;
  };
  struct SweptPlan {
    const FollowedChains& chains;
    const std::vector<std::uint32_t>& choice;
    double factor = 1;
    Chain chain;
    std::int64_t may_go = 0;            // bytes of it: all that its stages save
    std::map<Names, Tried> tried = {};  // by what runs again
    int asked = 0;                      // of the solver
    // Budgets of the chain: the most that is known to fit, if any does, and the least that is known not to.
    std::int64_t fits = 0, too_much = 0;
    Rank best = kNothing;  // of the schedules that fit

    [[nodiscard]] bool may_ask(std::size_t programs) const { return tried.size() < programs && asked < kMostAsked; }
  };

  Status make_chains() {
    if (!chains_.empty()) return Done{};
    Result<FollowedChains> chains = FollowedChains::make(wish_);
    if (!chains) return chains.error();
    Result<FollowedChains> keeping = chains->keeping_values();
    if (!keeping) return keeping.error();
    chains_.push_back(*std::move(keeping));
    chains_.push_back(*std::move(chains));
    return Done{};
  }

  // Schedules of a plan that holds so much more than the budget if it keeps everything.
  Status try_schedules(const std::vector<std::uint32_t>& choice, std::int64_t over, double factor) {
    if (Status status = make_chains(); !status) return status;
    for (const FollowedChains& chains : chains_) {
      SweptPlan plan{chains, choice, factor, chains.of(choice)};
      if (Status status = validate(plan.chain); !status) return status;
      const Result<ChainReplay> everything = replay(plan.chain, keep_everything(plan.chain));
      if (!everything) return everything.error();
      plan.too_much = everything->peak_bytes;
      for (const ChainStage& stage : plan.chain.stages) plan.may_go += stage.saved_bytes;
      if (Status status = find_most(plan, plan.too_much - over); !status) return status;
      if (plan.fits == 0) continue;
      if (Status status = try_less(plan); !status) return status;
    }
    return Done{};
  }

  // The largest budget of the chain whose plan fits, about: from this one on.
  Status find_most(SweptPlan& plan, std::int64_t asked) {
    const std::int64_t near = plan.may_go / kNearEnough;
    // By so much less is asked for where a plan is over, if it is over by less than that; then by twice as much.
    std::int64_t less = plan.may_go / kFirstLess;
    bool is_least = false;  // what is asked for
    while (plan.may_ask(kMostSchedules) && asked < plan.too_much) {
      const Result<Tried> tried = ask(plan, asked);
      if (!tried) return tried.error();
      if (!tried->is_met) {
        if (is_least || plan.fits > 0) break;
        asked = tried->least;
        is_least = true;
        continue;
      }
      if (tried->excess > 0) {
        if (is_least) break;
        plan.too_much = std::min(asked, tried->peak_bytes);
        asked = plan.fits > 0 ? plan.fits + (plan.too_much - plan.fits) / 2 : asked - std::max(tried->excess, less);
        less *= 2;
      } else {
        plan.fits = asked;
        is_least = false;
        asked = plan.fits + (plan.too_much - plan.fits + 1) / 2;
      }
      if (plan.fits > 0 && plan.too_much - plan.fits <= near) break;
    }
    return Done{};
  }

  // Where a step waits for communication, more that runs again may be hidden by it, and even come out shorter, of which a chain knows nothing: in it nothing overlaps. So
  // the least budget is tried, and some between it and the most.
  Status try_less(SweptPlan& plan) {
    const std::size_t most = plan.tried.size() + kMostOfLess;
    plan.asked = 0;
    Result<Tried> least = ask(plan, 0);
    if (!least) return least.error();
    std::int64_t low = least->least, high = plan.fits;
    if (!least->is_met) least = ask(plan, low);
    if (!least) return least.error();
    if (least->excess > 0 || least->rank.first > kSlower * plan.best.first) return Done{};
    Rank of_low = least->rank, of_high = plan.best;
    while (plan.may_ask(most) && high - low > plan.may_go / kNearEnough) {
      const std::int64_t middle = low + (high - low) / 2;
      const Result<Tried> tried = ask(plan, middle);
      if (!tried) return tried.error();
      const bool is_low_better = of_low < of_high;  // towards the better end
      (is_low_better ? high : low) = middle;
      (is_low_better ? of_high : of_low) = tried->rank;
    }
    return Done{};
  }

  // The plan of the solver's schedule within a budget of the chain.
  Result<Tried> ask(SweptPlan& plan, std::int64_t asked) {
    ++plan.asked;
    const std::int64_t budgets[] = {std::max<std::int64_t>(asked, 0)};
    Result<std::vector<CheckpointAnswer>> answers = sweep_.solver.solve(plan.chain, budgets);
    if (!answers) return answers.error();
    const CheckpointAnswer& answer = answers->front();
    if (answer.status == SolveStatus::infeasible) return Tried{false, answer.least_bytes, 0, 0, kNothing};
    const ScheduledOps ops = plan.chains.ops_of(answer.schedule, plan.chain, budgets[0] - answer.peak_bytes);
    Names names = wish_.recompute_pins.applied_to(recomputed_names(wish_.input.model, ops.run_again));
    const auto [known, is_new] = plan.tried.try_emplace(names);
    if (!is_new) return known->second;
    Result<RecomputeSearch> made = with_layouts(solver_, wish_, fastest_, std::move(names), plan.choice);
    if (!made) return made.error();
    made->how = how(ops, plan.factor);
    FittedPlan& fitted = *made->found.best;
    Tried& tried = known->second = {true, 0, answer.peak_bytes, solver_.excess_bytes(fitted.plan, wish_.budget), rank_of(fitted)};
    if (tried.excess > 0) {
      keep_smaller(std::move(fitted));
      return tried;
    }
    plan.best = std::min(plan.best, tried.rank);
    if (tried.rank < best_rank_) take(std::move(*made));
    return tried;
  }

  [[nodiscard]] std::string how(const ScheduledOps& ops, double factor) const {
    char times[32];
    std::snprintf(times, sizeof times, "%.4g", factor);
    std::string text = sweep_.name + ", budget times " + times + ": " + std::to_string(ops.stages) + " of " + std::to_string(chains_.front().model().stages.size()) + " stages run again";
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
  std::vector<FollowedChains> chains_;  // of both kinds, since a plan of the sweep was too large
  std::set<std::vector<std::uint32_t>> seen_;
  Rank best_rank_ = kNothing;  // of the plan without, too
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
