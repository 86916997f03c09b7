#include "meshwright/strategy_space.h"

#include <algorithm>
#include <map>

namespace meshwright {

namespace {

// No device comes near it, and sums of two stay inside 64 bits.
constexpr std::int64_t kMostTermBytes = std::int64_t{1} << 62;

std::string quoted(const StrategySpace& space, std::uint32_t node) { return "node '" + space.nodes[node].name + "'"; }

bool any_negative(const std::vector<std::int64_t>& values) {
  return std::any_of(values.begin(), values.end(), [](std::int64_t value) { return value < 0; });
}

Status check_nodes(const StrategySpace& space) {
  for (std::uint32_t id = 0; id < space.nodes.size(); ++id) {
    if (space.nodes[id].costs.empty()) return bad_input(quoted(space, id) + " has no strategy");
    if (any_negative(space.nodes[id].costs)) return bad_input(quoted(space, id) + " has a negative cost");
  }
  return Done{};
}

Status check_tables(const StrategySpace& space) {
  for (std::size_t id = 0; id < space.tables.size(); ++id) {
    const CostTable& table = space.tables[id];
    const std::string where = "cost table " + std::to_string(id);
    if (table.costs.size() != std::size_t{table.rows} * table.columns) {
      return bad_input(where + " has " + std::to_string(table.costs.size()) + " costs for " +
                       std::to_string(table.rows) + " rows and " + std::to_string(table.columns) + " columns");
    }
    if (any_negative(table.costs)) return bad_input(where + " has a negative cost");
  }
  return Done{};
}

Status check_edges(const StrategySpace& space) {
  for (std::size_t id = 0; id < space.edges.size(); ++id) {
    const SpaceEdge& edge = space.edges[id];
    const std::string where = "edge " + std::to_string(id);
    if (edge.from >= space.nodes.size() || edge.to >= space.nodes.size()) return bad_input(where + " has no such node");
    if (edge.table >= space.tables.size()) return bad_input(where + " has no such cost table");
    const std::string between = where + " from " + quoted(space, edge.from) + " to " + quoted(space, edge.to);
    if (edge.from == edge.to) return bad_input(between + " joins a node to itself");
    const CostTable& table = space.tables[edge.table];
    if (table.rows != space.nodes[edge.from].costs.size() || table.columns != space.nodes[edge.to].costs.size()) {
      return bad_input(between + ": its cost table does not have a row and a column for each of their strategies");
    }
  }
  return Done{};
}

Status check_memory(const StrategySpace& space) {
  if (space.fixed_bytes < 0) return bad_input("the fixed bytes are negative");
  std::int64_t most = space.fixed_bytes;
  for (std::size_t id = 0; id < space.memory.size(); ++id) {
    const MemoryTerm& term = space.memory[id];
    const std::string where = "memory term " + std::to_string(id);
    if (term.node >= space.nodes.size()) return bad_input(where + " has no such node");
    const std::string of = where + " of " + quoted(space, term.node);
    if (term.begin >= term.end) return bad_input(of + " ends before it begins");
    if (term.bytes.size() != space.nodes[term.node].costs.size()) {
      return bad_input(of + " does not have bytes for each of the node's strategies");
    }
    if (any_negative(term.bytes)) return bad_input(of + " has negative bytes");
    const std::int64_t largest = *std::max_element(term.bytes.begin(), term.bytes.end());
    if (__builtin_add_overflow(most, largest, &most) || most > kMostTermBytes) {
      return bad_input(of + ": the terms' bytes add up to more than 2^62");
    }
  }
  return Done{};
}

// What begins at a time, less what ends there.
struct Event {
  std::int32_t time;
  std::int64_t change;
};
using Events = std::vector<Event>;

// In the order of time. The space has memory terms.
Events events_of(const StrategySpace& space, std::span<const std::uint32_t> choice) {
  std::int32_t first = space.memory.front().begin, last = space.memory.front().end;
  for (const MemoryTerm& term : space.memory) {
    first = std::min(first, term.begin);
    last = std::max(last, term.end);
  }
  const auto span = static_cast<std::size_t>(std::int64_t{last} - first) + 1;
  Events events;
  if (span <= 8 * space.memory.size()) {
    for (std::size_t i = 0; i < span; ++i) events.push_back({first + static_cast<std::int32_t>(i), 0});
    for (const MemoryTerm& term : space.memory) {
      const std::int64_t bytes = term.bytes[choice[term.node]];
      events[static_cast<std::size_t>(term.begin - first)].change += bytes;
      events[static_cast<std::size_t>(term.end - first)].change -= bytes;
    }
    return events;
  }
  std::map<std::int32_t, std::int64_t> changes;  // times far apart
  for (const MemoryTerm& term : space.memory) {
    const std::int64_t bytes = term.bytes[choice[term.node]];
    changes[term.begin] += bytes;
    changes[term.end] -= bytes;
  }
  for (const auto& [time, change] : changes) events.push_back({time, change});
  return events;
}

// The costs of a choice, as long as it is true of them; whether it was of all.
template <class Holds>
bool all_of_costs(const StrategySpace& space, std::span<const std::uint32_t> choice, Holds holds) {
  for (std::size_t id = 0; id < space.nodes.size(); ++id) {
    if (!holds(space.nodes[id].costs[choice[id]])) return false;
  }
  for (const SpaceEdge& edge : space.edges) {
    const CostTable& table = space.tables[edge.table];
    if (!holds(table.costs[std::size_t{choice[edge.from]} * table.columns + choice[edge.to]])) return false;
  }
  return true;
}

}  // namespace

Status validate(const StrategySpace& space) {
  for (const auto check : {check_nodes, check_tables, check_edges, check_memory}) {
    if (Status status = check(space); !status) return status;
  }
  return Done{};
}

std::optional<TickSum> cost_of(const StrategySpace& space, std::span<const std::uint32_t> choice) {
  TickSum sum = 0;
  const auto add = [&sum](Ticks cost) {
    if (cost >= kForbidden) return false;
    sum += cost;
    return true;
  };
  return all_of_costs(space, choice, add) ? std::optional(sum) : std::nullopt;
}

Evaluation evaluate(const StrategySpace& space, std::span<const std::uint32_t> choice) {
  Evaluation result;
  all_of_costs(space, choice, [&result](Ticks cost) {
    if (cost >= kForbidden) {
      result.allowed = false;
    } else {
      result.cost += cost;
    }
    return true;
  });

  const Events events = space.memory.empty() ? Events() : events_of(space, choice);
  std::int64_t bytes = space.fixed_bytes;
  result.peak_bytes = bytes;
  result.peak_time = events.empty() ? 0 : events.front().time;
  for (const Event& event : events) {
    bytes += event.change;
    if (bytes > result.peak_bytes) {
      result.peak_bytes = bytes;
      result.peak_time = event.time;
    }
  }
  return result;
}

}  // namespace meshwright
