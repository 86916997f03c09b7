// Functional edges: where each strategy of one end allows a single one of the other, the other end has nothing to
// decide, and moves with its costs, edges and memory into the first.
#include <algorithm>
#include <optional>

#include "reduce_work.h"

namespace meshwright::reducing {

namespace {

class Contraction {
 public:
  explicit Contraction(Work& work) : work_(work) {}

  bool run() {
    bool changed = false;
    for (bool again = true; again && !work_.infeasible;) {
      again = false;
      // Contraction appends edges, which this loop reaches too.
      for (std::size_t id = 0; id < work_.edges.size() && !work_.infeasible; ++id) again = try_edge(id) || again;
      changed = changed || again;
    }
    return changed;
  }

 private:
  using Map = std::optional<std::vector<std::uint32_t>>;

  bool try_edge(std::size_t id) {
    const WorkEdge edge = work_.edges[id];
    if (edge.gone) return false;
    for (const bool rows : {true, false}) {
      const std::uint32_t stays = rows ? edge.from : edge.to;
      const std::uint32_t gone = rows ? edge.to : edge.from;
      const Map& map = partner_of(edge.table, rows);
      if (!map || grows(stays, gone)) continue;
      contract(static_cast<std::uint32_t>(id), stays, gone, *map);
      return true;
    }
    return false;
  }

  // Whether a joint table could have more entries than before: the one that stays is larger, and gets new neighbours. A
  // small node that separates others is better kept.
  bool grows(std::uint32_t stays, std::uint32_t gone) const {
    if (work_.nodes[stays].costs.size() <= work_.nodes[gone].costs.size()) return false;
    const auto& known = work_.nodes[stays].edges;
    const auto& moved = work_.nodes[gone].edges;
    return std::any_of(moved.begin(), moved.end(), [&](const auto& edge) { return edge.first != stays && !known.contains(edge.first); });
  }

  // For each row (or column) its only allowed partner. A row without one gets 0: its cost is forbidden.
  const Map& partner_of(std::uint32_t id, bool rows) {
    const auto [place, is_new] = known_.try_emplace({id, rows});
    if (!is_new) return place->second;
    const CostTable& table = work_.tables[id];
    std::vector<std::uint32_t> partners;
    const std::uint32_t count = rows ? table.rows : table.columns;
    const std::uint32_t others = rows ? table.columns : table.rows;
    for (std::uint32_t s = 0; s < count; ++s) {
      std::uint32_t allowed = 0;
      partners.push_back(0);
      for (std::uint32_t other = 0; other < others; ++other) {
        const std::size_t at = rows ? std::size_t{s} * table.columns + other : std::size_t{other} * table.columns + s;
        if (table.costs[at] >= kForbidden) continue;
        partners.back() = other;
        if (++allowed > 1) return place->second;
      }
    }
    place->second = std::move(partners);
    return place->second;
  }

  // `gone` is what `map` says of `stays`.
  void contract(std::uint32_t edge, std::uint32_t stays, std::uint32_t gone, const std::vector<std::uint32_t>& map) {
    WorkNode& into = work_.nodes[stays];
    WorkNode& from = work_.nodes[gone];
    Reduction::Folded folded{gone, stays, false, std::vector<std::uint32_t>(into.strategies.back() + 1, 0)};
    for (std::size_t s = 0; s < map.size(); ++s) {
      const Ticks pair = work_.cost(work_.edges[edge], stays, s, map[s]);
      into.costs[s] = add_costs(into.costs[s], add_costs(from.costs[map[s]], pair));
      folded.strategies[into.strategies[s]] = from.strategies[map[s]];
    }
    work_.remove_edge(edge);
    const std::map<std::uint32_t, std::uint32_t> moved = from.edges;
    for (const auto& [neighbour, id] : moved) {
      const WorkEdge old = work_.edges[id];
      const bool rows = old.from == gone;
      work_.remove_edge(id);
      const std::uint32_t table = work_.select(old.table, rows, map);
      work_.add_edge(rows ? stays : neighbour, rows ? neighbour : stays, table);
    }
    for (const MemoryTerm& term : from.memory) {
      MemoryTerm added{stays, term.begin, term.end, {}};
      for (const std::uint32_t partner : map) added.bytes.push_back(term.bytes[partner]);
      add_memory(into, std::move(added));
    }
    from.gone = true;
    work_.folded.push_back(std::move(folded));
    drop_forbidden(work_, stays);
  }

  static void add_memory(WorkNode& node, MemoryTerm added) {
    for (MemoryTerm& term : node.memory) {
      if (term.begin != added.begin || term.end != added.end) continue;
      for (std::size_t s = 0; s < term.bytes.size(); ++s) term.bytes[s] += added.bytes[s];
      return;
    }
    node.memory.push_back(std::move(added));
  }

  Work& work_;
  std::map<std::pair<std::uint32_t, bool>, Map> known_;
};

}  // namespace

void drop_forbidden(Work& work, std::uint32_t node) {
  std::vector<bool> marked;
  for (const Ticks cost : work.nodes[node].costs) marked.push_back(cost < kForbidden);
  work.keep(node, marked);
}

bool contract(Work& work) { return Contraction(work).run(); }

}  // namespace meshwright::reducing
