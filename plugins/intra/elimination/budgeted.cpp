#include "budgeted.h"

#include <algorithm>
#include <numeric>

#include "local_search.h"
#include "meshwright/reduce.h"
#include "restrict.h"

namespace meshwright::elimination {

namespace {

constexpr std::size_t kMostCuts = 64;    // where two choices are crossed over
constexpr TickSum kFirstShare = 1024;    // the first search goes this fraction of the gap above the lower bound,
constexpr TickSum kWiden = 2;            // and each further one this much further
constexpr TickSum kShareOfBound = 1024;  // where there is no upper bound yet, a fraction of the lower one instead

// Nodes in their order, but that each stands right behind the last one before it that it is tied to: a cut through this order parts few neighbours, also where nodes that
// only tell what others hold come behind all the others.
std::vector<std::uint32_t> in_line(const StrategySpace& space) {
  std::vector<std::uint32_t> before(space.nodes.size()), order(space.nodes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::iota(before.begin(), before.end(), 0U);
  for (const SpaceEdge& edge : space.edges) {
    const auto [low, high] = std::minmax(edge.from, edge.to);
    before[high] = before[high] == high ? low : std::max(before[high], low);
  }
  std::ranges::stable_sort(order, {}, [&](std::uint32_t node) { return before[node]; });
  return order;
}

}  // namespace

struct Budgeted::Search {
  std::int64_t budget = 0;
  TickSum lower = 0;
  std::optional<Candidate> best;
  std::vector<std::uint32_t> relaxed_choice;  // the best choice, as far as the points so far can tell
  std::vector<std::int32_t> times;            // of the points that are priced
  Multipliers multipliers;
  std::optional<Assignment> infeasible;
};

Budgeted::Budgeted(const StrategySpace& space, double max_table_entries, bool memo, double gap, Meter& meter)
    : space_(space),
      max_table_entries_(max_table_entries),
      gap_(gap),
      meter_(meter),
      problem_(make_problem(space)),
      plan_(make_join_plan(problem_, find_order(problem_), max_table_entries)),
      passes_(problem_, plan_, meter, memo) {}

Assignment Budgeted::solve(std::int64_t budget) {
  if (!unbudgeted_) unbudgeted_ = passes_.forward(problem_.unary, false);
  if (!unbudgeted_) return without_search(budget);
  Search search;
  search.budget = budget;
  if (!unbudgeted_->allowed) {
    Assignment result;
    result.status = SolveStatus::infeasible;
    result.binding = kNothingAllowed;
    result.method = "elimination, width " + std::to_string(plan_.width);
    return result;
  }
  search.lower = unbudgeted_->value;
  search.relaxed_choice = unbudgeted_->choice;
  consider(search, search.relaxed_choice);
  while (!is_near(search)) {
    const Evaluation relaxed = evaluate(space_, search.relaxed_choice);
    const bool known = std::find(search.times.begin(), search.times.end(), relaxed.peak_time) != search.times.end();
    if (relaxed.peak_bytes <= budget || known) break;  // a split plan's choice proves nothing
    search.times.push_back(relaxed.peak_time);
    const Progress progress = tighten(search);
    if (search.infeasible) return *search.infeasible;
    if (progress != Progress::again) break;
  }
  return answer(search);
}

bool Budgeted::is_near(const Search& search) const {
  return search.best && is_within(gap_, search.best->cost, search.lower);
}

const Budgeted::Point* Budgeted::point_at(std::int32_t time) {
  if (const auto known = points_.find(time); known != points_.end()) return &known->second;
  Point point;
  point.memory = memory_at(space_, time);
  Unaries unary = problem_.unary;
  TickSum most = 0;
  for (std::size_t v = 0; v < unary.size(); ++v) {
    const auto& bytes = point.memory.bytes[v];
    if (!bytes.empty()) most += *std::max_element(bytes.begin(), bytes.end());
    for (std::size_t s = 0; s < unary[v].size(); ++s) {
      if (unary[v][s] < kForbidden) unary[v][s] = bytes.empty() ? 0 : bytes[s];
    }
  }
  if (most >= kForbidden / 2) return nullptr;  // bytes that no device has: they do not fit where ticks do
  auto pass = passes_.forward(unary, true);
  if (!pass) return nullptr;
  point.least_value = pass->value;
  point.least_choice = std::move(pass->choice);
  return &points_.emplace(time, std::move(point)).first->second;
}

Budgeted::Progress Budgeted::tighten(Search& search) {
  const Point* newest = point_at(search.times.back());
  if (newest == nullptr) return Progress::stuck;
  const auto least = static_cast<std::int64_t>(newest->memory.least + newest->least_value);
  if (least > search.budget) {
    search.infeasible = impossible(least, newest->memory.time, search.budget);
    return Progress::proven;
  }
  consider(search, newest->least_choice);
  if (search.times.size() > kMostPoints) return Progress::stuck;

  std::vector<MemoryPoint> points;
  std::vector<std::vector<std::uint32_t>> least_choices;
  std::vector<std::int64_t> room;
  for (const std::int32_t time : search.times) {
    const Point* point = point_at(time);
    points.push_back(point->memory);
    least_choices.push_back(point->least_choice);
    room.push_back(search.budget - point->memory.least);
  }
  std::vector<std::vector<std::uint32_t>> seen;
  Relaxation relaxation(passes_, space_, points, room, least_choices,
                        [&](const auto& choice) { seen.push_back(choice); });
  relaxation.know(*unbudgeted_);
  const auto relaxed = relaxation.maximize(search.multipliers);
  for (const auto& choice : seen) consider(search, choice);
  if (!relaxed) return Progress::stuck;
  search.multipliers = relaxed->multipliers;
  search.lower = std::max(search.lower, relaxed->bound);
  if (search.best) {
    const std::vector<std::uint32_t> within = search.best->choice;
    for (const auto& choice : seen) {
      if (gap_ > 0) cross_closely(search, within, choice);
      else cross_over(search, within, choice);
    }
  }
  if (!plan_.exact) return Progress::stuck;
  const auto forward = relaxation.forward(relaxed->multipliers);
  if (!forward) return Progress::stuck;
  const auto backward = passes_.backward(*forward);
  if (!backward) return Progress::stuck;
  return finish(search, {*relaxed, points, room, backward->rise});
}

Budgeted::Progress Budgeted::finish(Search& search, const Bounds& bounds) {
  const TickSum bound = bounds.relaxed.bound;
  TickSum step = search.best ? (search.best->cost - bound) / kFirstShare : bound / kShareOfBound;
  for (step = std::max<TickSum>(step, 1);; step *= kWiden) {
    if (is_near(search)) return Progress::stuck;
    TickSum most = std::max(bound + step, search.lower);
    bool last = false;
    if (search.best && most >= search.best->cost) {
      most = search.best->cost - 1;
      last = true;
    } else if (most >= kForbidden) {  // no choice costs more
      last = true;
    }
    if (most >= search.lower) {
      const LabelSearch found = search_below(search, bounds, most);
      if (!found.complete) return Progress::stuck;
      if (found.choice) {
        search.relaxed_choice = *found.choice;
        search.lower = std::max(search.lower, evaluate(space_, *found.choice).cost);
        consider(search, *found.choice);
        return Progress::again;
      }
      search.lower = std::max(search.lower, most + 1);
    }
    if (!last) continue;
    if (!search.best) {
      // Each point alone leaves room, all of them together do not.
      search.infeasible = impossible(search.budget + 1, search.times.back(), search.budget);
    }
    return Progress::proven;
  }
}

LabelSearch Budgeted::search_below(Search& search, const Bounds& bounds, TickSum most_cost) {
  LabelSearch none;
  none.complete = true;
  Kept kept(space_.nodes.size());
  for (std::size_t v = 0; v < kept.size(); ++v) {
    for (std::uint32_t s = 0; s < bounds.rise[v].size(); ++s) {
      const Ticks rise = bounds.rise[v][s];
      if (rise < kForbidden && bounds.relaxed.bound + rise <= most_cost) kept[v].push_back(s);
    }
    if (kept[v].empty()) return none;
  }
  const Reduction reduction = reduce(restrict_space(space_, kept, bounds.points));
  if (reduction.infeasible) return none;
  const auto lifted = [&](const std::vector<std::uint32_t>& choice) {
    std::vector<std::uint32_t> result = reduction.lift(choice);
    for (std::size_t v = 0; v < result.size(); ++v) result[v] = kept[v][result[v]];
    return result;
  };
  std::vector<MemoryPoint> points;
  std::vector<std::int64_t> room;
  for (std::size_t k = 0; k < bounds.points.size(); ++k) {
    points.push_back(memory_at(reduction.space, static_cast<std::int32_t>(k)));
    room.push_back(bounds.room[k] - points.back().least);
    if (room.back() < 0) return none;
  }
  if (reduction.space.nodes.empty()) {
    if (reduction.constant <= most_cost) none.choice = lifted({});
    return none;
  }
  Problem problem = make_problem(reduction.space);
  const JoinPlan plan = make_join_plan(problem, find_order(problem), max_table_entries_);
  if (!plan.exact) return {};
  Passes passes(problem, plan, meter_, passes_.memo());
  Relaxation relaxation(passes, reduction.space, points, room, {}, [](const auto&) {});
  const auto forward = relaxation.forward(search.multipliers);
  if (!forward) return {};
  if (!forward->allowed) return none;
  const auto backward = passes.backward(*forward);
  if (!backward) return {};
  LabelSearch found =
      search_labels(passes, *forward, *backward, points, room, search.multipliers, most_cost - reduction.constant);
  if (found.choice) found.choice = lifted(*found.choice);
  return found;
}

bool Budgeted::consider(Search& search, const std::vector<std::uint32_t>& choice) const {
  const std::optional<TickSum> cost = cost_of(space_, choice);
  if (!cost || (search.best && *cost >= search.best->cost)) return false;  // what it holds takes longer to find
  if (evaluate(space_, choice).peak_bytes > search.budget) return false;
  search.best = Candidate{choice, *cost};
  return true;
}

// The first nodes as in one choice, the others as in the other: between a choice within the budget and one over it.
void Budgeted::cross_over(Search& search, const std::vector<std::uint32_t>& within, const std::vector<std::uint32_t>& over) const {
  const std::size_t cuts = std::min(kMostCuts, within.size());
  for (std::size_t cut = 1; cut < cuts; ++cut) {
    const auto at = static_cast<std::ptrdiff_t>(cut * within.size() / cuts);
    for (const auto& [first, second] : {std::pair(&within, &over), std::pair(&over, &within)}) {
      std::vector<std::uint32_t> crossed = *second;
      std::copy(first->begin(), first->begin() + at, crossed.begin());
      consider(search, crossed);
    }
  }
}

// The same along the line, and once more in small steps near the best place: equal layers all change at one multiplier, and of those as many as fit are nearly the best.
void Budgeted::cross_closely(Search& search, const std::vector<std::uint32_t>& within, const std::vector<std::uint32_t>& over) {
  if (line_.empty()) line_ = in_line(space_);
  const std::size_t nodes = line_.size(), far = (nodes + kMostCuts - 1) / kMostCuts, near = (far + kMostCuts - 1) / kMostCuts;
  for (const auto& both : {std::pair(&within, &over), std::pair(&over, &within)}) {
    std::size_t best = 0;
    const auto cut = [&](std::size_t at) {
      std::vector<std::uint32_t> crossed = *both.second;
      for (std::size_t i = 0; i < at; ++i) crossed[line_[i]] = (*both.first)[line_[i]];
      if (consider(search, crossed)) best = at;
    };
    for (std::size_t at = far; at < nodes; at += far) cut(at);
    if (best == 0) continue;
    const std::size_t end = std::min(best + far, nodes);
    for (std::size_t at = best - far + near; at < end; at += near) cut(at);
  }
}

Assignment Budgeted::answer(Search& search) const {
  if (!is_near(search)) {
    consider(search, local_search(space_, search.best ? search.best->choice : search.relaxed_choice, search.budget));
  }
  Assignment result;
  result.cut_off_by_clock = meter_.cut_off_by_clock();
  result.method =
      (plan_.exact ? "elimination, width " : "elimination in mini-buckets, width ") + std::to_string(plan_.width);
  if (!search.times.empty()) result.method += ", " + std::to_string(search.times.size()) + " memory multipliers";
  result.lower_bound = search.lower;
  result.status = search.lower > 0 ? SolveStatus::bounded : SolveStatus::heuristic;
  if (!search.best) return result;
  result.choice = search.best->choice;
  result.cost = search.best->cost;
  if (result.cost <= result.lower_bound) {
    result.lower_bound = result.cost;
    result.status = SolveStatus::optimal;
  }
  return result;
}

Assignment Budgeted::impossible(std::int64_t least_bytes, std::int32_t time, std::int64_t budget) const {
  Assignment result;
  result.status = SolveStatus::infeasible;
  result.least_bytes = least_bytes;
  result.binding = binding_text(least_bytes, time, budget);
  result.method = "elimination of bytes, width " + std::to_string(plan_.width);
  return result;
}

// Not even one pass was possible.
Assignment Budgeted::without_search(std::int64_t budget) const {
  Search search;
  search.budget = budget;
  search.relaxed_choice.assign(space_.nodes.size(), 0);
  return answer(search);
}

}  // namespace meshwright::elimination
