#include "shrinking_space.h"

#include <algorithm>
#include <numeric>

#include "critical_times.h"

namespace meshwright {

namespace {

constexpr double kMuchSmaller = 0.8;  // of the strategies are left at most

StrategySpace restricted(const StrategySpace& space, const std::vector<std::vector<std::uint32_t>>& kept) {
  StrategySpace result;
  result.fixed_bytes = space.fixed_bytes;
  for (std::size_t id = 0; id < space.nodes.size(); ++id) {
    SpaceNode& node = result.nodes.emplace_back();
    node.name = space.nodes[id].name;
    for (const std::uint32_t s : kept[id]) node.costs.push_back(space.nodes[id].costs[s]);
  }
  for (const SpaceEdge& edge : space.edges) {
    const CostTable& table = space.tables[edge.table];
    CostTable& selected = result.tables.emplace_back();
    selected.rows = static_cast<std::uint32_t>(kept[edge.from].size());
    selected.columns = static_cast<std::uint32_t>(kept[edge.to].size());
    for (const std::uint32_t row : kept[edge.from]) {
      for (const std::uint32_t column : kept[edge.to]) {
        selected.costs.push_back(table.costs[std::size_t{row} * table.columns + column]);
      }
    }
    result.edges.push_back({edge.from, edge.to, static_cast<std::uint32_t>(result.tables.size() - 1)});
  }
  for (const MemoryTerm& term : space.memory) {
    MemoryTerm& selected = result.memory.emplace_back(MemoryTerm{term.node, term.begin, term.end, {}});
    for (const std::uint32_t s : kept[term.node]) selected.bytes.push_back(term.bytes[s]);
  }
  return result;
}

}  // namespace

ShrinkingSpace::ShrinkingSpace(const StrategySpace& original, std::int64_t budget, std::int64_t reduce_work)
    : budget_(budget), reduce_work_(reduce_work) {
  std::vector<std::vector<std::uint32_t>> all;
  for (const SpaceNode& node : original.nodes) {
    all.emplace_back(node.costs.size());
    std::iota(all.back().begin(), all.back().end(), 0U);
  }
  add_stage(original, std::move(all));
}

void ShrinkingSpace::add_stage(StrategySpace space, std::vector<std::vector<std::uint32_t>> kept) {
  CriticalSpace critical = keep_critical_times(space, budget_);
  times_ = std::move(critical.times);
  ReduceOptions options;
  options.dominance_work_limit = reduce_work_;
  Reduction reduction = reduce(critical.space, options);
  if (reduction.infeasible) {
    infeasible_ = true;
    return;
  }
  space_ = std::move(reduction.space);
  constant_ += reduction.constant;
  stages_.push_back({std::move(kept), std::move(reduction)});
  compact_ = std::make_unique<CompactSpace>(space_, budget_);
}

std::vector<std::uint32_t> ShrinkingSpace::lift(const std::vector<std::uint32_t>& choice) const {
  std::vector<std::uint32_t> lifted = choice;
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    lifted = stage->reduction.lift(lifted);
    lifted.resize(stage->kept.size());  // less the node of what is held whatever is chosen
    for (std::size_t id = 0; id < lifted.size(); ++id) lifted[id] = stage->kept[id][lifted[id]];
  }
  return lifted;
}

std::vector<std::uint32_t> ShrinkingSpace::carry(const std::vector<std::uint32_t>& choice) const {
  const Stage& last = stages_.back();
  std::vector<std::uint32_t> carried;
  for (const Reduction::Kept& node : last.reduction.kept) {
    carried.push_back(0);
    if (node.node >= last.kept.size()) continue;
    const std::vector<std::uint32_t>& kept = last.kept[node.node];
    for (std::uint32_t s = 0; s < node.strategies.size(); ++s) {
      if (kept[node.strategies[s]] == choice[node.node]) carried.back() = s;
    }
  }
  return carried;
}

ShrinkingSpace::Before ShrinkingSpace::before() const {
  constexpr std::uint32_t kNobody = 0xffffffff;
  const Stage& last = stages_.back();
  Before result;
  for (const Reduction::Kept& node : last.reduction.kept) {
    const bool was = node.node < last.kept.size();
    result.nodes.push_back(was ? node.node : kNobody);
    result.strategies.emplace_back();
    for (const std::uint32_t s : node.strategies) result.strategies.back().push_back(was ? last.kept[node.node][s] : 0);
  }
  return result;
}

bool ShrinkingSpace::is_worth_it(const std::vector<bool>& dropped) {
  const auto left = static_cast<double>(std::count(dropped.begin(), dropped.end(), false));
  return left <= kMuchSmaller * static_cast<double>(dropped.size());
}

void ShrinkingSpace::shrink(const std::vector<bool>& dropped, PointPrices& prices) {
  std::vector<std::vector<std::uint32_t>> kept(space_.nodes.size());
  for (std::uint32_t id = 0; id < kept.size(); ++id) {
    for (std::uint32_t s = 0; s < space_.nodes[id].costs.size(); ++s) {
      if (!dropped[compact_->offset(id) + s]) kept[id].push_back(s);
    }
    if (!kept[id].empty()) continue;
    infeasible_ = true;
    return;
  }
  const std::vector<std::int32_t> points(compact_->times().begin(), compact_->times().end());
  StrategySpace left = restricted(space_, kept);
  add_stage(std::move(left), std::move(kept));
  if (infeasible_) return;
  // A price goes to the last point that is not after its own.
  const PointPrices old = std::move(prices);
  prices.assign(compact_->times().size(), 0);
  for (std::size_t t = 0; t < old.size() && !prices.empty(); ++t) {
    if (old[t] == 0) continue;
    const auto after = std::upper_bound(compact_->times().begin(), compact_->times().end(), points[t],
                                        [this](std::int32_t time, std::int32_t point) { return time < times_[static_cast<std::size_t>(point)]; });
    if (after != compact_->times().begin()) prices[static_cast<std::size_t>(after - compact_->times().begin() - 1)] += old[t];
  }
}

}  // namespace meshwright
