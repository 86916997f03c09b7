#include "problem.h"

#include <algorithm>
#include <map>

#include "compact_space.h"

namespace meshwright::elimination {

namespace {

std::vector<Ticks> scaled(const std::vector<Ticks>& costs, int shift) {
  std::vector<Ticks> result(costs.size());
  for (std::size_t i = 0; i < costs.size(); ++i) result[i] = costs[i] >= kForbidden ? kForbidden : costs[i] >> shift;
  return result;
}

}  // namespace

int needed_shift(const StrategySpace& space) {
  const TickSum total = most_cost(space);
  int shift = 0;
  while ((total >> shift) >= kForbidden / 2) ++shift;
  return shift;
}

StrategySpace shift_costs(const StrategySpace& space, int shift) {
  StrategySpace result = space;
  for (SpaceNode& node : result.nodes) node.costs = scaled(node.costs, shift);
  for (CostTable& table : result.tables) table.costs = scaled(table.costs, shift);
  return result;
}

Problem make_problem(const StrategySpace& space) {
  Problem problem;
  for (const SpaceNode& node : space.nodes) {
    problem.domains.push_back(static_cast<std::uint32_t>(node.costs.size()));
    problem.unary.push_back(scaled(node.costs, 0));
  }
  std::vector<TableId> ids;
  for (const CostTable& table : space.tables) ids.push_back(problem.store.intern(scaled(table.costs, 0)));

  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> known;
  for (const SpaceEdge& edge : space.edges) {
    const std::uint32_t first = std::min(edge.from, edge.to);
    const std::uint32_t second = std::max(edge.from, edge.to);
    TableId table = ids[edge.table];
    if (edge.from != first)
      table = problem.store.transpose(table, problem.domains[edge.from], problem.domains[edge.to]);
    const auto [place, is_new] = known.emplace(std::pair(first, second), problem.pairs.size());
    if (is_new) {
      problem.pairs.push_back({first, second, table, 0});
      continue;
    }
    Pair& pair = problem.pairs[place->second];  // parallel edges add
    std::vector<Ticks> sum = problem.store[pair.table];
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = std::min(kForbidden, sum[i] + problem.store[table][i]);
    pair.table = problem.store.intern(std::move(sum));
  }
  std::map<TableId, TableId> masks;
  for (Pair& pair : problem.pairs) {
    const auto [mask, is_new] = masks.emplace(pair.table, 0);
    if (is_new) {
      std::vector<Ticks> values = problem.store[pair.table];
      for (Ticks& value : values) value = value >= kForbidden ? kForbidden : 0;
      mask->second = problem.store.intern(std::move(values));
    }
    pair.mask = mask->second;
  }
  // Both directions now, so that passes add only what they may forget.
  for (const Pair& pair : problem.pairs) {
    problem.store.transpose(pair.table, problem.domains[pair.first], problem.domains[pair.second]);
    problem.store.transpose(pair.mask, problem.domains[pair.first], problem.domains[pair.second]);
  }
  problem.base_tables = problem.store.size();
  return problem;
}

MemoryPoint memory_at(const StrategySpace& space, std::int32_t time) {
  MemoryPoint point;
  point.time = time;
  point.bytes.resize(space.nodes.size());
  for (const MemoryTerm& term : space.memory) {
    if (time < term.begin || time >= term.end) continue;
    std::vector<std::int64_t>& bytes = point.bytes[term.node];
    if (bytes.empty()) bytes.resize(term.bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += term.bytes[i];
  }
  point.least = space.fixed_bytes;
  for (std::vector<std::int64_t>& bytes : point.bytes) {
    if (bytes.empty()) continue;
    const std::int64_t least = *std::min_element(bytes.begin(), bytes.end());
    point.least += least;
    for (std::int64_t& value : bytes) value -= least;
    if (std::all_of(bytes.begin(), bytes.end(), [](std::int64_t value) { return value == 0; })) bytes.clear();
  }
  return point;
}

}  // namespace meshwright::elimination
