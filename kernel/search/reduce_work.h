// The space while it is being reduced: what is left of each node, edges by pair of nodes, tables stored once. The sum
// of all allowed costs is below kForbidden, so no sum of allowed costs can pass for forbidden.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "meshwright/reduce.h"

namespace meshwright::reducing {

struct WorkNode {
  bool gone = false;
  std::vector<Ticks> costs;
  std::vector<std::uint32_t> strategies;  // numbers in the original
  std::vector<MemoryTerm> memory;
  std::map<std::uint32_t, std::uint32_t> edges;  // neighbour -> edge; ordered, so that nothing depends on addresses
};

struct WorkEdge {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t table = 0;
  bool gone = false;
};

class Work {
 public:
  explicit Work(const StrategySpace& space);

  std::vector<WorkNode> nodes;
  std::vector<WorkEdge> edges;
  std::vector<CostTable> tables;  // distinct, never changed
  TickSum constant = 0;
  bool infeasible = false;
  std::vector<Reduction::Folded> folded;

  // Keeps only the marked strategies of a node, in its tables too. None left: infeasible.
  void keep(std::uint32_t node, const std::vector<bool>& marked);
  void remove_edge(std::uint32_t edge);
  // A parallel edge is added to the one that is there.
  void add_edge(std::uint32_t from, std::uint32_t to, std::uint32_t table);
  // The table with these rows (or columns), in this order; they may repeat.
  std::uint32_t select(std::uint32_t table, bool rows, const std::vector<std::uint32_t>& kept);
  std::uint32_t intern(CostTable table);
  // What choosing (strategy of `node`, strategy of the other end) costs on an edge.
  [[nodiscard]] Ticks cost(const WorkEdge& edge, std::uint32_t node, std::size_t strategy, std::size_t other) const;

  [[nodiscard]] Reduction finish(const StrategySpace& original) &&;

 private:
  std::map<std::uint64_t, std::vector<std::uint32_t>> by_hash_;
  std::map<std::pair<std::pair<std::uint32_t, bool>, std::vector<std::uint32_t>>, std::uint32_t> selected_;
};

// kForbidden absorbs.
inline Ticks add_costs(Ticks a, Ticks b) { return a + b < kForbidden ? a + b : kForbidden; }

// Drops the strategies of a node whose own cost is forbidden.
void drop_forbidden(Work& work, std::uint32_t node);

// Each gives whether it changed anything.
bool make_consistent(Work& work);
bool remove_dominated(Work& work, std::int64_t& work_left);
bool fold(Work& work);
bool contract(Work& work);

}  // namespace meshwright::reducing
