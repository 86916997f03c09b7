#include "reduce_work.h"

#include <algorithm>

namespace meshwright::reducing {

namespace {

std::uint64_t hash_of(const CostTable& table) {
  std::uint64_t hash = (std::uint64_t{table.rows} << 32) ^ table.columns;
  for (const Ticks cost : table.costs)
    hash = (hash ^ static_cast<std::uint64_t>(cost)) * 0xff51afd7ed558ccdULL ^ (hash >> 29);
  return hash;
}

CostTable transposed(const CostTable& table) {
  CostTable result{table.columns, table.rows, std::vector<Ticks>(table.costs.size())};
  for (std::uint32_t row = 0; row < table.rows; ++row) {
    for (std::uint32_t column = 0; column < table.columns; ++column) {
      result.costs[std::size_t{column} * table.rows + row] = table.costs[std::size_t{row} * table.columns + column];
    }
  }
  return result;
}

template <class T>
void select_entries(std::vector<T>& values, const std::vector<std::uint32_t>& kept) {
  for (std::size_t i = 0; i < kept.size(); ++i) values[i] = values[kept[i]];
  values.resize(kept.size());
}

}  // namespace

Work::Work(const StrategySpace& space) {
  for (const SpaceNode& node : space.nodes) {
    WorkNode& added = nodes.emplace_back();
    added.costs = node.costs;
    for (std::uint32_t s = 0; s < node.costs.size(); ++s) added.strategies.push_back(s);
  }
  for (const MemoryTerm& term : space.memory) {
    if (std::any_of(term.bytes.begin(), term.bytes.end(), [](auto bytes) { return bytes != 0; })) {
      nodes[term.node].memory.push_back(term);
    }
  }
  std::vector<std::uint32_t> ids;
  for (const CostTable& table : space.tables) {
    CostTable clamped = table;
    for (Ticks& cost : clamped.costs) cost = std::min(cost, kForbidden);
    ids.push_back(intern(std::move(clamped)));
  }
  for (const SpaceEdge& edge : space.edges) add_edge(edge.from, edge.to, ids[edge.table]);
  for (std::uint32_t id = 0; id < nodes.size(); ++id) {
    std::vector<bool> marked;
    for (const Ticks cost : nodes[id].costs) marked.push_back(cost < kForbidden);
    keep(id, marked);
  }
}

std::uint32_t Work::intern(CostTable table) {
  std::vector<std::uint32_t>& alike = by_hash_[hash_of(table)];
  for (const std::uint32_t id : alike) {
    if (tables[id].rows == table.rows && tables[id].columns == table.columns && tables[id].costs == table.costs)
      return id;
  }
  alike.push_back(static_cast<std::uint32_t>(tables.size()));
  tables.push_back(std::move(table));
  return alike.back();
}

void Work::add_edge(std::uint32_t from, std::uint32_t to, std::uint32_t table) {
  const auto known = nodes[from].edges.find(to);
  if (known == nodes[from].edges.end()) {
    const auto id = static_cast<std::uint32_t>(edges.size());
    edges.push_back({from, to, table, false});
    nodes[from].edges.emplace(to, id);
    nodes[to].edges.emplace(from, id);
    return;
  }
  WorkEdge& first = edges[known->second];
  const CostTable more = first.from == from ? tables[table] : transposed(tables[table]);
  CostTable sum = tables[first.table];
  for (std::size_t i = 0; i < sum.costs.size(); ++i) {
    sum.costs[i] = add_costs(sum.costs[i], more.costs[i]);
  }
  first.table = intern(std::move(sum));
}

void Work::remove_edge(std::uint32_t edge) {
  edges[edge].gone = true;
  nodes[edges[edge].from].edges.erase(edges[edge].to);
  nodes[edges[edge].to].edges.erase(edges[edge].from);
}

Ticks Work::cost(const WorkEdge& edge, std::uint32_t node, std::size_t strategy, std::size_t other) const {
  const CostTable& table = tables[edge.table];
  return edge.from == node ? table.costs[strategy * table.columns + other]
                           : table.costs[other * table.columns + strategy];
}

// Alike edges of alike layers lose alike strategies, so most selections were made before.
std::uint32_t Work::select(std::uint32_t table, bool rows, const std::vector<std::uint32_t>& kept) {
  const auto key = std::pair(std::pair(table, rows), kept);
  if (const auto known = selected_.find(key); known != selected_.end()) return known->second;
  const CostTable& old = tables[table];
  CostTable result;
  result.rows = rows ? static_cast<std::uint32_t>(kept.size()) : old.rows;
  result.columns = rows ? old.columns : static_cast<std::uint32_t>(kept.size());
  result.costs.reserve(std::size_t{result.rows} * result.columns);
  for (std::uint32_t row = 0; row < result.rows; ++row) {
    for (std::uint32_t column = 0; column < result.columns; ++column) {
      result.costs.push_back(
          old.costs[std::size_t{rows ? kept[row] : row} * old.columns + (rows ? column : kept[column])]);
    }
  }
  return selected_.emplace(key, intern(std::move(result))).first->second;
}

void Work::keep(std::uint32_t node, const std::vector<bool>& marked) {
  std::vector<std::uint32_t> kept;
  for (std::uint32_t s = 0; s < marked.size(); ++s) {
    if (marked[s]) kept.push_back(s);
  }
  if (kept.size() == marked.size()) return;
  if (kept.empty()) {
    infeasible = true;
    return;
  }
  WorkNode& at = nodes[node];
  select_entries(at.costs, kept);
  select_entries(at.strategies, kept);
  for (MemoryTerm& term : at.memory) select_entries(term.bytes, kept);
  for (const auto& [neighbour, edge] : at.edges)
    edges[edge].table = select(edges[edge].table, edges[edge].from == node, kept);
}

Reduction Work::finish(const StrategySpace& original) && {
  Reduction result;
  result.infeasible = infeasible;
  result.constant = constant;
  result.folded = std::move(folded);
  result.space.fixed_bytes = original.fixed_bytes;
  if (infeasible) return result;
  std::vector<std::uint32_t> numbers(nodes.size(), 0);
  for (std::uint32_t id = 0; id < nodes.size(); ++id) {
    if (nodes[id].gone) continue;
    numbers[id] = static_cast<std::uint32_t>(result.space.nodes.size());
    result.space.nodes.push_back({original.nodes[id].name, std::move(nodes[id].costs)});
    result.kept.push_back({id, std::move(nodes[id].strategies)});
    for (MemoryTerm& term : nodes[id].memory) {
      term.node = numbers[id];
      result.space.memory.push_back(std::move(term));
    }
  }
  std::map<std::uint32_t, std::uint32_t> used;
  for (const WorkEdge& edge : edges) {
    if (edge.gone) continue;
    const auto [place, is_new] = used.emplace(edge.table, static_cast<std::uint32_t>(result.space.tables.size()));
    if (is_new) result.space.tables.push_back(std::move(tables[edge.table]));
    result.space.edges.push_back({numbers[edge.from], numbers[edge.to], place->second});
  }
  return result;
}

}  // namespace meshwright::reducing
