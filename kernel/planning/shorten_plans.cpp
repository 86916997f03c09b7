#include "shorten_plans.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "distinct_plans.h"
#include "step_search.h"

namespace meshwright {

namespace {

constexpr int kFirstRounds = 2;

struct Shortened {
  Shortened(const FittedSolver& solver, const RecomputeWish& wish, RecomputeSearch& of)
      : plan(of), given(wish.with(of.recomputed)), steps(solver, given, plan.problem, wish.budget, *plan.found.best) {
    steps.leave_out_fastest();
  }

  [[nodiscard]] double seconds() const { return steps.best().plan.step_seconds; }

  RecomputeSearch& plan;
  ProblemInput given;
  StepSearch steps;
};

}  // namespace

Status shorten_plans(const FittedSolver& solver, const RecomputeWish& wish, std::vector<RecomputeSearch>& plans) {
  const int most = (2 * wish.step_rounds + 2) / 3, first = std::min(most, kFirstRounds);
  std::vector<std::unique_ptr<Shortened>> searches;
  double shortest = std::numeric_limits<double>::infinity();
  for (RecomputeSearch& plan : plans) {
    Shortened& search = *searches.emplace_back(std::make_unique<Shortened>(solver, wish, plan));
    if (Status status = search.steps.run_rounds(first); !status) return status;
    shortest = std::min(shortest, search.seconds());
  }
  for (const std::unique_ptr<Shortened>& search : searches) {
    if (search->seconds() < kNear * shortest) {
      if (Status status = search->steps.run_rounds(most - first); !status) return status;
      if (Status status = search->steps.try_neighbours(search->steps.best(), kNeighbours); !status) return status;
    }
    search->plan.found.best = search->steps.best();
  }
  return Done{};
}

Result<double> seconds_shortened(const FittedSolver& solver, const RecomputeWish& wish, RecomputeSearch plan) {
  Shortened search(solver, wish, plan);
  if (Status status = search.steps.run_rounds(std::min(wish.step_rounds, kFirstRounds)); !status) return status.error();
  return search.seconds();
}

}  // namespace meshwright
