// Which strategies can go: those without a partner, and those that another one beats whatever the neighbours do.
#include <algorithm>

#include "meshwright/wide_vectors.h"
#include "reduce_work.h"

namespace meshwright::reducing {

namespace {

constexpr std::size_t kLook = 64;  // partners until it is looked at whether one is forbidden

// The most that q costs more than r, r's forbidden partners left out; kForbidden if q forbids what r allows.
MESHWRIGHT_WIDE_VECTORS Ticks worst_difference(const Ticks* __restrict q, const Ticks* __restrict r, std::size_t count) {
  Ticks worst = -kForbidden;
  for (std::size_t i = 0; i < count; ++i) {
    const Ticks allowed = q[i] >= kForbidden ? kForbidden : q[i] - r[i];
    const Ticks here = r[i] >= kForbidden ? -kForbidden : allowed;
    worst = here > worst ? here : worst;
  }
  return worst;
}

// Of q and r at [r * count + q], over a table.
std::vector<Ticks> worst_differences(const CostTable& table, bool rows) {
  const std::size_t count = rows ? table.rows : table.columns, others = rows ? table.columns : table.rows;
  std::vector<Ticks> turned;
  if (!rows) {
    turned.resize(table.costs.size());
    for (std::size_t i = 0; i < table.costs.size(); ++i) turned[i % count * others + i / count] = table.costs[i];
  }
  const Ticks* costs = rows ? table.costs.data() : turned.data();
  std::vector<Ticks> differences(count * count);
  for (std::size_t q = 0; q < count; ++q) {
    for (std::size_t r = 0; r < count; ++r) {
      Ticks worst = -kForbidden;
      for (std::size_t first = 0; first < others && worst < kForbidden; first += kLook) {
        worst = std::max(worst, worst_difference(costs + q * others + first, costs + r * others + first, std::min(kLook, others - first)));
      }
      differences[r * count + q] = worst;
    }
  }
  return differences;
}

bool holds_no_more(const WorkNode& node, std::size_t q, std::size_t r) {
  return std::all_of(node.memory.begin(), node.memory.end(),
                     [q, r](const MemoryTerm& term) { return term.bytes[q] <= term.bytes[r]; });
}

class Dominance {
 public:
  Dominance(Work& work, std::int64_t& work_left) : work_(work), work_left_(work_left) {}

  bool run() {
    bool changed = false;
    for (std::uint32_t id = 0; id < work_.nodes.size(); ++id) {
      if (!work_.nodes[id].gone && work_.nodes[id].costs.size() > 1) changed = prune(id) || changed;
    }
    return changed;
  }

 private:
  // Nothing if the comparison is not worth its time.
  const std::vector<Ticks>* differences(std::uint32_t table, bool rows) {
    const auto key = std::pair(table, rows);
    const auto known = known_.find(key);
    if (known != known_.end()) return &known->second;
    const std::int64_t count = rows ? work_.tables[table].rows : work_.tables[table].columns;
    const std::int64_t others = rows ? work_.tables[table].columns : work_.tables[table].rows;
    if (count * count * others > work_left_) return nullptr;
    work_left_ -= count * count * others;
    return &known_.emplace(key, worst_differences(work_.tables[table], rows)).first->second;
  }

  bool prune(std::uint32_t id) {
    const WorkNode& node = work_.nodes[id];
    const std::size_t count = node.costs.size();
    std::vector<const std::vector<Ticks>*> of_edges;
    for (const auto& [neighbour, edge] : node.edges) {
      of_edges.push_back(differences(work_.edges[edge].table, work_.edges[edge].from == id));
      if (of_edges.back() == nullptr) return false;
    }
    const auto [place, is_new] = pruned_.try_emplace(key_of(id), count, true);
    std::vector<bool>& alive = place->second;
    for (std::size_t r = is_new ? count : 0; r-- > 0;) {  // from the last, so that of equal ones the first stays
      for (std::size_t q = 0; q < count && alive[r]; ++q) {
        if (q == r || !alive[q] || !costs_no_more(node, of_edges, q, r)) continue;
        if (holds_no_more(node, q, r)) alive[r] = false;
      }
    }
    if (std::find(alive.begin(), alive.end(), false) == alive.end()) return false;
    work_.keep(id, alive);
    return true;
  }

  // All that the comparison reads: the nodes of alike layers have it in common.
  [[nodiscard]] std::vector<std::int64_t> key_of(std::uint32_t id) const {
    const WorkNode& node = work_.nodes[id];
    std::vector<std::int64_t> key = {std::ssize(node.costs)};
    key.insert(key.end(), node.costs.begin(), node.costs.end());
    for (const auto& [neighbour, edge] : node.edges) {
      key.push_back(work_.edges[edge].table);
      key.push_back(work_.edges[edge].from == id ? 1 : 0);
    }
    key.push_back(-1);  // the end of the edges
    for (const MemoryTerm& term : node.memory) key.insert(key.end(), term.bytes.begin(), term.bytes.end());
    return key;
  }

  static bool costs_no_more(const WorkNode& node, const std::vector<const std::vector<Ticks>*>& of_edges, std::size_t q,
                            std::size_t r) {
    TickSum difference = TickSum{node.costs[q]} - node.costs[r];
    for (const auto* of_edge : of_edges) {
      const Ticks worst = (*of_edge)[r * node.costs.size() + q];
      if (worst >= kForbidden) return false;
      difference += worst;
    }
    return difference <= 0;
  }

  Work& work_;
  std::int64_t& work_left_;
  std::map<std::pair<std::uint32_t, bool>, std::vector<Ticks>> known_;
  std::map<std::vector<std::int64_t>, std::vector<bool>> pruned_;  // what stays of each key's strategies
};

}  // namespace

bool make_consistent(Work& work) {
  bool changed = false;
  std::vector<std::uint32_t> open;
  std::vector<bool> is_open(work.nodes.size(), true);
  for (std::uint32_t id = 0; id < work.nodes.size(); ++id) open.push_back(id);
  // Whether a row or column of a table has an allowed entry, computed once per table.
  std::map<std::pair<std::uint32_t, bool>, std::vector<bool>> supported;
  const auto supports = [&](const WorkEdge& edge, std::uint32_t node) -> const std::vector<bool>& {
    const bool rows = edge.from == node;
    const auto [place, is_new] = supported.try_emplace({edge.table, rows});
    if (is_new) {
      const CostTable& table = work.tables[edge.table];
      place->second.resize(rows ? table.rows : table.columns, false);
      const Ticks* cost = table.costs.data();
      for (std::uint32_t row = 0; row < table.rows; ++row) {
        for (std::uint32_t column = 0; column < table.columns; ++column, ++cost) {
          if (*cost < kForbidden) place->second[rows ? row : column] = true;
        }
      }
    }
    return place->second;
  };
  for (std::size_t next = 0; next < open.size() && !work.infeasible; ++next) {
    const std::uint32_t id = open[next];
    is_open[id] = false;
    if (work.nodes[id].gone) continue;
    std::vector<bool> marked(work.nodes[id].costs.size(), true);
    for (const auto& [neighbour, edge] : work.nodes[id].edges) {
      const std::vector<bool>& allowed = supports(work.edges[edge], id);
      for (std::size_t s = 0; s < marked.size(); ++s) marked[s] = marked[s] && allowed[s];
    }
    if (std::find(marked.begin(), marked.end(), false) == marked.end()) continue;
    changed = true;
    work.keep(id, marked);
    for (const auto& [neighbour, edge] : work.nodes[id].edges) {
      if (!is_open[neighbour]) open.push_back(neighbour);
      is_open[neighbour] = true;
    }
  }
  return changed;
}

bool remove_dominated(Work& work, std::int64_t& work_left) { return Dominance(work, work_left).run(); }

}  // namespace meshwright::reducing
