#include "exhaustive.h"

#include <algorithm>
#include <optional>

#include "meshwright/plugin.h"

namespace meshwright {

namespace {

// The start of each term is the only kind of point at which a peak can be reached.
std::vector<std::int32_t> time_points(const StrategySpace& space) {
  std::vector<std::int32_t> times;
  for (const MemoryTerm& term : space.memory) times.push_back(term.begin);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

class Enumeration {
 public:
  Enumeration(const StrategySpace& space, std::span<const std::int64_t> budgets)
      : space_(space),
        budgets_(budgets),
        times_(time_points(space)),
        best_(budgets.size()),
        choice_(space.nodes.size()),
        bytes_(times_.size(), space.fixed_bytes),
        earlier_edges_(space.nodes.size()),
        terms_(space.nodes.size()) {
    for (const SpaceEdge& edge : space.edges) earlier_edges_[std::max(edge.from, edge.to)].push_back(&edge);
    for (const MemoryTerm& term : space.memory) terms_[term.node].push_back(&term);
  }

  void run() { choose(0, 0); }

  Assignment answer(std::size_t budget) const {
    Assignment result;
    result.method = "every combination tried";
    if (best_[budget]) {
      result.status = SolveStatus::optimal;
      result.cost = result.lower_bound = best_[budget]->cost;
      result.choice = best_[budget]->choice;
      return result;
    }
    result.status = SolveStatus::infeasible;
    result.binding = kNothingAllowed;
    if (least_) {
      result.least_bytes = least_->first;
      result.binding = binding_text(least_->first, least_->second, budgets_[budget]);
    }
    return result;
  }

 private:
  struct Best {
    TickSum cost;
    std::vector<std::uint32_t> choice;
  };

  // The nodes before `node` are chosen, at `cost`.
  void choose(std::size_t node, TickSum cost) {
    if (node == space_.nodes.size()) return note(cost);
    for (std::uint32_t strategy = 0; strategy < space_.nodes[node].costs.size(); ++strategy) {
      choice_[node] = strategy;
      const auto added = cost_of(node);
      if (!added) continue;
      hold(node, +1);
      choose(node + 1, cost + *added);
      hold(node, -1);
    }
  }

  // What the node adds: its own cost and its edges to nodes that are chosen.
  std::optional<TickSum> cost_of(std::size_t node) const {
    TickSum sum = space_.nodes[node].costs[choice_[node]];
    if (sum >= kForbidden) return std::nullopt;
    for (const SpaceEdge* edge : earlier_edges_[node]) {
      const CostTable& table = space_.tables[edge->table];
      const Ticks cost = table.costs[std::size_t{choice_[edge->from]} * table.columns + choice_[edge->to]];
      if (cost >= kForbidden) return std::nullopt;
      sum += cost;
    }
    return sum;
  }

  void hold(std::size_t node, int sign) {
    for (const MemoryTerm* term : terms_[node]) {
      for (std::size_t i = 0; i < times_.size(); ++i) {
        if (times_[i] >= term->begin && times_[i] < term->end) bytes_[i] += sign * term->bytes[choice_[node]];
      }
    }
  }

  void note(TickSum cost) {
    std::int64_t peak = space_.fixed_bytes;
    std::int32_t time = 0;
    if (const auto most = std::max_element(bytes_.begin(), bytes_.end()); most != bytes_.end()) {
      peak = *most;
      time = times_[static_cast<std::size_t>(most - bytes_.begin())];
    }
    if (!least_ || peak < least_->first) least_ = {peak, time};
    for (std::size_t i = 0; i < budgets_.size(); ++i) {
      if (peak <= budgets_[i] && (!best_[i] || cost < best_[i]->cost)) best_[i] = {cost, choice_};
    }
  }

  const StrategySpace& space_;
  const std::span<const std::int64_t> budgets_;
  const std::vector<std::int32_t> times_;
  std::vector<std::optional<Best>> best_;                       // one for each budget
  std::optional<std::pair<std::int64_t, std::int32_t>> least_;  // the smallest peak of all, and when
  std::vector<std::uint32_t> choice_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::vector<const SpaceEdge*>> earlier_edges_;  // those that a node completes
  std::vector<std::vector<const MemoryTerm*>> terms_;
};

// Saturates: what is more than 2^63 need not be told apart.
std::int64_t combinations(const StrategySpace& space) {
  std::int64_t count = 1;
  for (const SpaceNode& node : space.nodes) {
    if (__builtin_mul_overflow(count, static_cast<std::int64_t>(node.costs.size()), &count)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return count;
}

}  // namespace

Result<std::vector<Assignment>> Exhaustive::do_solve(const StrategySpace& space, std::span<const std::int64_t> budgets,
                                                     const SearchLimits& limits) const {
  const std::int64_t count = combinations(space);
  if (count > limits.work_limit) {
    const bool saturated = count == std::numeric_limits<std::int64_t>::max();
    return bad_input((saturated ? "more than " : "") + std::to_string(count) +
                     " combinations are more than the work limit of " + std::to_string(limits.work_limit) +
                     "; choose a solver that does not try them all");
  }
  Enumeration enumeration(space, budgets);
  enumeration.run();
  std::vector<Assignment> answers;
  for (std::size_t i = 0; i < budgets.size(); ++i) answers.push_back(enumeration.answer(i));
  return answers;
}

MESHWRIGHT_PLUGIN("intra", "exhaustive", "0.1.0", "Apache-2.0", "Tries every combination; an oracle for small problems",
                  nullptr, nullptr, 0, (create_plugin<IntraSolver, Exhaustive>), destroy_plugin<IntraSolver>)

}  // namespace meshwright
