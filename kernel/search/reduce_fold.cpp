// Which nodes can go: those that leave nothing to decide once a neighbour, or nobody, has decided.
#include <algorithm>

#include "reduce_work.h"

namespace meshwright::reducing {

namespace {

void add_to_costs(WorkNode& node, const std::vector<Ticks>& more) {
  for (std::size_t s = 0; s < more.size(); ++s) node.costs[s] = add_costs(node.costs[s], more[s]);
}

// A node with one strategy: its edges are costs of its neighbours.
void fold_edges(Work& work, std::uint32_t id) {
  const std::map<std::uint32_t, std::uint32_t> edges = work.nodes[id].edges;
  for (const auto& [neighbour, edge] : edges) {
    std::vector<Ticks> more;
    for (std::size_t s = 0; s < work.nodes[neighbour].costs.size(); ++s) {
      more.push_back(work.cost(work.edges[edge], neighbour, s, 0));
    }
    add_to_costs(work.nodes[neighbour], more);
    work.remove_edge(edge);
    drop_forbidden(work, neighbour);
    if (work.infeasible) return;
  }
}

// A node without edges and without memory: its cheapest strategy.
void fold_alone(Work& work, std::uint32_t id) {
  WorkNode& node = work.nodes[id];
  const auto best = std::min_element(node.costs.begin(), node.costs.end());
  work.constant += *best;
  work.folded.push_back({id, 0, true, {node.strategies[static_cast<std::size_t>(best - node.costs.begin())]}});
  node.gone = true;
}

// A node without memory and with one neighbour: its cheapest strategy for each of the neighbour's.
void fold_leaf(Work& work, std::uint32_t id) {
  const auto [neighbour, edge] = *work.nodes[id].edges.begin();
  const WorkNode& node = work.nodes[id];
  Reduction::Folded folded{id, neighbour, false, {}};
  std::vector<Ticks> more;
  for (std::size_t other = 0; other < work.nodes[neighbour].costs.size(); ++other) {
    Ticks best = kForbidden;
    std::uint32_t best_strategy = node.strategies.front();
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      const Ticks sum = add_costs(node.costs[s], work.cost(work.edges[edge], id, s, other));
      if (sum < best) {
        best = sum;
        best_strategy = node.strategies[s];
      }
    }
    more.push_back(best);
    const std::uint32_t original = work.nodes[neighbour].strategies[other];
    if (folded.strategies.size() <= original) folded.strategies.resize(original + 1, 0);
    folded.strategies[original] = best_strategy;
  }
  add_to_costs(work.nodes[neighbour], more);
  work.remove_edge(edge);
  work.nodes[id].gone = true;
  work.folded.push_back(std::move(folded));
  drop_forbidden(work, neighbour);
}

}  // namespace

bool fold(Work& work) {
  bool changed = false;
  std::vector<std::uint32_t> open;
  for (std::uint32_t id = 0; id < work.nodes.size(); ++id) open.push_back(id);
  while (!open.empty() && !work.infeasible) {
    const std::uint32_t id = open.back();
    open.pop_back();
    WorkNode& node = work.nodes[id];
    if (node.gone) continue;
    const std::map<std::uint32_t, std::uint32_t> before = node.edges;
    bool folded = false;
    if (node.costs.size() == 1 && !node.edges.empty()) {
      fold_edges(work, id);
      folded = true;
    }
    if (!work.infeasible && node.memory.empty() && node.edges.size() <= 1) {
      if (node.edges.empty()) {
        fold_alone(work, id);
      } else {
        fold_leaf(work, id);
      }
      folded = true;
    }
    if (!folded) continue;
    changed = true;
    for (const auto& [neighbour, edge] : before) open.push_back(neighbour);
  }
  return changed;
}

}  // namespace meshwright::reducing
