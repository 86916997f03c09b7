#include "held_space.h"

#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "meshwright/solver.h"

namespace meshwright {

namespace {

void add_cost(Ticks& cost, Ticks more) { cost = cost >= kForbidden || more >= kForbidden ? kForbidden : cost + more; }

// The nodes that edges join, each part ascending.
std::vector<std::vector<std::uint32_t>> joined_parts(const StrategySpace& space) {
  std::vector<std::uint32_t> leader(space.nodes.size());
  std::iota(leader.begin(), leader.end(), 0U);
  const auto find = [&](std::uint32_t node) {
    while (leader[node] != node) node = leader[node] = leader[leader[node]];
    return node;
  };
  for (const SpaceEdge& edge : space.edges) leader[find(edge.from)] = find(edge.to);
  std::map<std::uint32_t, std::vector<std::uint32_t>> parts;
  for (std::uint32_t node = 0; node < space.nodes.size(); ++node) parts[find(node)].push_back(node);
  std::vector<std::vector<std::uint32_t>> all;
  for (auto& [first, nodes] : parts) all.push_back(std::move(nodes));
  return all;
}

// All that decides what is best in a part.
struct PartNumbers {
  std::vector<std::vector<Ticks>> costs;
  std::vector<std::array<std::uint32_t, 3>> edges;  // from, to, table
  auto operator<=>(const PartNumbers&) const = default;
};

}  // namespace

HeldSpace hold(const StrategySpace& space, const std::vector<std::uint32_t>& choice, const std::vector<bool>& is_free) {
  HeldSpace held;
  std::vector<std::uint32_t> number(space.nodes.size(), 0);
  for (std::uint32_t node = 0; node < space.nodes.size(); ++node) {
    if (!is_free[node]) continue;
    number[node] = static_cast<std::uint32_t>(held.nodes.size());
    held.nodes.push_back(node);
    held.space.nodes.push_back(space.nodes[node]);
  }
  std::map<std::uint32_t, std::uint32_t> tables;  // the number of each that is needed
  for (const SpaceEdge& edge : space.edges) {
    const CostTable& table = space.tables[edge.table];
    if (is_free[edge.from] && is_free[edge.to]) {
      const auto [found, is_new] = tables.try_emplace(edge.table, static_cast<std::uint32_t>(held.space.tables.size()));
      if (is_new) held.space.tables.push_back(table);
      held.space.edges.push_back({number[edge.from], number[edge.to], found->second});
    } else if (is_free[edge.from]) {
      std::vector<Ticks>& costs = held.space.nodes[number[edge.from]].costs;
      for (std::size_t s = 0; s < costs.size(); ++s) add_cost(costs[s], table.costs[s * table.columns + choice[edge.to]]);
    } else if (is_free[edge.to]) {
      std::vector<Ticks>& costs = held.space.nodes[number[edge.to]].costs;
      for (std::size_t s = 0; s < costs.size(); ++s) add_cost(costs[s], table.costs[std::size_t{choice[edge.from]} * table.columns + s]);
    }
  }
  held.space.fixed_bytes = space.fixed_bytes;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> held_bytes;  // by the interval in which they are
  for (const MemoryTerm& term : space.memory) {
    if (is_free[term.node]) held.space.memory.push_back({number[term.node], term.begin, term.end, term.bytes});
    else held_bytes[{term.begin, term.end}] += term.bytes[choice[term.node]];
  }
  const auto rest = static_cast<std::uint32_t>(held.nodes.size());
  if (!held_bytes.empty()) held.space.nodes.push_back({"held", {0}});
  for (const auto& [interval, bytes] : held_bytes) held.space.memory.push_back({rest, interval.first, interval.second, {bytes}});
  return held;
}

Result<std::vector<std::uint32_t>> best_around(const StrategySpace& space, const std::vector<std::uint32_t>& choice, const HeldSpace& held,
                                               std::int64_t budget, const SolveSpace& solve) {
  std::vector<std::uint32_t> whole = choice;
  const std::vector<std::vector<std::uint32_t>> parts = joined_parts(held.space);
  std::vector<PartNumbers> numbers(parts.size());
  std::vector<std::pair<std::size_t, std::uint32_t>> place(held.space.nodes.size());  // of a node: its part, and where in it
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (std::uint32_t i = 0; i < parts[part].size(); ++i) {
      place[parts[part][i]] = {part, i};
      numbers[part].costs.push_back(held.space.nodes[parts[part][i]].costs);
    }
  }
  for (const SpaceEdge& edge : held.space.edges) numbers[place[edge.from].first].edges.push_back({place[edge.from].second, place[edge.to].second, edge.table});
  StrategySpace plain = held.space;
  plain.memory.clear();
  std::map<PartNumbers, std::vector<std::uint32_t>> solved;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const auto [found, is_new] = solved.try_emplace(std::move(numbers[part]));
    if (is_new) {
      std::vector<bool> is_free(held.space.nodes.size(), false);
      for (const std::uint32_t node : parts[part]) is_free[node] = true;
      Result<std::vector<std::uint32_t>> best = solve(hold(plain, {}, is_free).space, kNoBudget);
      if (!best) return best.error();
      if (best->empty()) return std::vector<std::uint32_t>();
      found->second = std::move(*best);
    }
    for (std::size_t i = 0; i < parts[part].size(); ++i) {
      if (parts[part][i] < held.nodes.size()) whole[held.nodes[parts[part][i]]] = found->second[i];
    }
  }
  if (evaluate(space, whole).peak_bytes <= budget) return whole;
  Result<std::vector<std::uint32_t>> best = solve(held.space, budget);
  if (!best || best->empty()) return best;
  for (std::size_t i = 0; i < held.nodes.size(); ++i) whole[held.nodes[i]] = (*best)[i];
  return whole;
}

}  // namespace meshwright
