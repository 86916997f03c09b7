#include "message_bound.h"

#include <algorithm>
#include <chrono>

namespace meshwright {

namespace {

// Every step moves costs between a node and its edges without changing any choice's sum, so the sum of all leasts is
// a lower bound at any time.
class Messages {
 public:
  explicit Messages(const StrategySpace& space) : space_(space), edges_(space.nodes.size()) {
    for (const SpaceNode& node : space.nodes) costs_.push_back(node.costs);
    for (std::uint32_t id = 0; id < space.edges.size(); ++id) {
      const CostTable& table = space.tables[space.edges[id].table];
      taken_from_.emplace_back(table.rows, 0);
      taken_to_.emplace_back(table.columns, 0);
      edges_[space.edges[id].from].push_back(id);
      edges_[space.edges[id].to].push_back(id);
    }
  }

  // Each node takes all that its edges can give, and gives it back in equal parts to the edges that lie ahead.
  void visit(std::uint32_t node, bool forward) {
    std::vector<std::uint32_t> ahead;
    for (const std::uint32_t id : edges_[node]) {
      take(id, node);
      const SpaceEdge& edge = space_.edges[id];
      const std::uint32_t other = edge.from == node ? edge.to : edge.from;
      if ((other > node) == forward) ahead.push_back(id);
    }
    if (ahead.empty()) return;
    for (std::size_t s = 0; s < costs_[node].size(); ++s) {
      if (costs_[node][s] >= kForbidden) continue;
      const Ticks share = costs_[node][s] / static_cast<Ticks>(ahead.size());
      for (const std::uint32_t id : ahead) taken(id, node)[s] -= share;
      costs_[node][s] -= share * static_cast<Ticks>(ahead.size());
    }
  }

  [[nodiscard]] TickSum bound() const {
    TickSum sum = 0;
    for (const auto& costs : costs_) sum += *std::min_element(costs.begin(), costs.end());
    for (std::uint32_t id = 0; id < space_.edges.size(); ++id) {
      const std::vector<Ticks> leasts = least_of(id, space_.edges[id].from);
      TickSum least = kForbidden;
      for (std::size_t row = 0; row < leasts.size(); ++row) {
        if (leasts[row] < kForbidden) least = std::min<TickSum>(least, leasts[row] - taken_from_[id][row]);
      }
      sum += least;
    }
    return sum;
  }

  // After a pass back to the first node, which then knows of all the others: each node takes its best, given the nodes
  // before it.
  [[nodiscard]] std::vector<std::uint32_t> decode() const {
    std::vector<std::uint32_t> choice(costs_.size(), 0);
    for (std::uint32_t node = 0; node < costs_.size(); ++node) {
      TickSum best = TickSum{1} << 100;
      std::uint32_t best_strategy = 0;
      for (std::uint32_t strategy = 0; strategy < costs_[node].size(); ++strategy) {
        choice[node] = strategy;
        TickSum sum = costs_[node][strategy];
        for (const std::uint32_t id : edges_[node]) {
          const SpaceEdge& edge = space_.edges[id];
          if (edge.from > node || edge.to > node) continue;
          const CostTable& table = space_.tables[edge.table];
          const Ticks cost = table.costs[std::size_t{choice[edge.from]} * table.columns + choice[edge.to]];
          sum += std::min(cost, kForbidden) - taken_from_[id][choice[edge.from]] - taken_to_[id][choice[edge.to]];
        }
        if (sum < best) {
          best = sum;
          best_strategy = strategy;
        }
      }
      choice[node] = best_strategy;
    }
    return choice;
  }

 private:
  std::vector<Ticks>& taken(std::uint32_t id, std::uint32_t node) {
    return space_.edges[id].from == node ? taken_from_[id] : taken_to_[id];
  }

  // The least of the edge for each strategy of `node`, less what the other end took; kForbidden where it allows none.
  [[nodiscard]] std::vector<Ticks> least_of(std::uint32_t id, std::uint32_t node) const {
    const SpaceEdge& edge = space_.edges[id];
    const CostTable& table = space_.tables[edge.table];
    const bool rows = edge.from == node;
    const std::vector<Ticks>& other = rows ? taken_to_[id] : taken_from_[id];
    std::vector<Ticks> leasts(rows ? table.rows : table.columns, kForbidden);
    for (std::uint32_t row = 0; row < table.rows; ++row) {
      for (std::uint32_t column = 0; column < table.columns; ++column) {
        const Ticks cost = table.costs[std::size_t{row} * table.columns + column];
        if (cost >= kForbidden) continue;
        Ticks& least = leasts[rows ? row : column];
        least = std::min(least, cost - other[rows ? column : row]);
      }
    }
    return leasts;
  }

  void take(std::uint32_t id, std::uint32_t node) {
    const std::vector<Ticks> leasts = least_of(id, node);
    std::vector<Ticks>& already = taken(id, node);
    for (std::size_t s = 0; s < leasts.size(); ++s) {
      if (leasts[s] >= kForbidden || costs_[node][s] >= kForbidden) {
        costs_[node][s] = kForbidden;  // no allowed choice has it
        continue;
      }
      costs_[node][s] += leasts[s] - already[s];
      already[s] = leasts[s];
    }
  }

  const StrategySpace& space_;
  std::vector<std::vector<Ticks>> costs_;
  std::vector<std::vector<std::uint32_t>> edges_;
  std::vector<std::vector<Ticks>> taken_from_;  // by edge: what its ends took from it, by their strategies
  std::vector<std::vector<Ticks>> taken_to_;
};

// Sums of all costs must stay below kForbidden for the arithmetic above.
bool sums_fit(const StrategySpace& space) {
  TickSum total = 0;
  const auto add = [&total](const std::vector<Ticks>& costs) {
    Ticks largest = 0;
    for (const Ticks cost : costs) largest = cost < kForbidden ? std::max(largest, cost) : largest;
    total += largest;
  };
  for (const SpaceNode& node : space.nodes) add(node.costs);
  for (const SpaceEdge& edge : space.edges) add(space.tables[edge.table].costs);
  return total < kForbidden / 4;
}

}  // namespace

MessageBound message_bound(const StrategySpace& space, int sweeps, double deadline_seconds) {
  MessageBound result;
  result.choice.assign(space.nodes.size(), 0);
  if (!sums_fit(space)) return result;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(deadline_seconds);
  Messages messages(space);
  result.bound = std::max<TickSum>(0, messages.bound());
  for (int sweep = 0; sweep < sweeps && std::chrono::steady_clock::now() < end; ++sweep) {
    const auto count = static_cast<std::uint32_t>(space.nodes.size());
    for (std::uint32_t node = 0; node < count; ++node) messages.visit(node, true);
    for (std::uint32_t node = count; node-- > 0;) messages.visit(node, false);
    const TickSum bound = messages.bound();
    if (bound <= result.bound && sweep > 0) break;
    result.bound = std::max(result.bound, bound);
    result.choice = messages.decode();
  }
  return result;
}

}  // namespace meshwright
