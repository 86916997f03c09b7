#include "marginal_program.h"

#include <algorithm>

namespace meshwright {

namespace {

constexpr double kLargestNumber = 1 << 20;

double power_of_two_scale(double largest) {
  double scale = 1;
  while (largest / scale > kLargestNumber) scale *= 2;
  return scale;
}

std::optional<Ticks> least_allowed(const std::vector<Ticks>& costs) {
  const Ticks least = *std::min_element(costs.begin(), costs.end());
  return least < kForbidden ? std::optional(least) : std::nullopt;
}

// Times at which everything that is live may be the most: after a begin and before the next end.
std::vector<std::int32_t> full_times(const StrategySpace& space) {
  std::vector<std::pair<std::int32_t, bool>> events;  // at one time ends come first
  for (const MemoryTerm& term : space.memory) {
    events.emplace_back(term.begin, true);
    events.emplace_back(term.end, false);
  }
  std::sort(events.begin(), events.end());
  std::vector<std::int32_t> times;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].second && !events[i + 1].second) times.push_back(events[i].first);
  }
  return times;
}

class Builder {
 public:
  explicit Builder(const StrategySpace& space) : space_(space) {}

  MarginalProgram build_for_cost(std::int64_t budget) {
    double largest = 0;
    const auto note = [&largest](const std::vector<Ticks>& costs, Ticks least) {
      for (const Ticks cost : costs) {
        if (cost < kForbidden) largest = std::max(largest, static_cast<double>(cost - least));
      }
    };
    for (const SpaceNode& node : space_.nodes) note(node.costs, least_allowed(node.costs).value_or(0));
    for (const CostTable& table : space_.tables) note(table.costs, least_allowed(table.costs).value_or(0));
    result_.ticks_per_unit = power_of_two_scale(largest);
    add_nodes_and_edges(true);
    if (budget == kMostBudget) return std::move(result_);
    result_.bytes_per_unit = power_of_two_scale(static_cast<double>(budget));
    for (const std::int32_t time : full_times(space_)) add_memory_row(time, budget, std::nullopt);
    return std::move(result_);
  }

  MarginalProgram build_for_peak() {
    add_nodes_and_edges(false);
    double most = static_cast<double>(space_.fixed_bytes);
    for (const MemoryTerm& term : space_.memory)
      most += static_cast<double>(*std::max_element(term.bytes.begin(), term.bytes.end()));
    result_.bytes_per_unit = power_of_two_scale(most);
    const std::uint32_t peak = add_column({1, std::numeric_limits<double>::infinity(), false});
    // Where no term is live the fixed bytes alone are the peak.
    result_.program.rows.push_back(
        {{{peak, -1}}, Relation::at_most, -static_cast<double>(space_.fixed_bytes) / result_.bytes_per_unit});
    for (const std::int32_t time : full_times(space_)) add_memory_row(time, 0, peak);
    return std::move(result_);
  }

 private:
  static constexpr std::int64_t kMostBudget = std::numeric_limits<std::int64_t>::max();

  std::uint32_t add_column(LinearColumn column) {
    result_.program.columns.push_back(column);
    return static_cast<std::uint32_t>(result_.program.columns.size() - 1);
  }

  void add_nodes_and_edges(bool priced) {
    for (const SpaceNode& node : space_.nodes) add_node(node, priced);
    for (const SpaceEdge& edge : space_.edges) {
      if (!result_.infeasible) add_edge(edge, priced);
    }
  }

  void add_node(const SpaceNode& node, bool priced) {
    std::vector<std::int64_t>& columns = result_.columns.emplace_back();
    const auto least = least_allowed(node.costs);
    if (!least) {
      result_.infeasible = true;
      return;
    }
    if (priced) result_.constant += *least;
    LinearRow one{{}, Relation::equal, 1};
    for (const Ticks cost : node.costs) {
      if (cost >= kForbidden) {
        columns.push_back(-1);
        continue;
      }
      const double units = priced ? static_cast<double>(cost - *least) / result_.ticks_per_unit : 0;
      columns.push_back(add_column({units, 1, true}));
      one.entries.push_back({static_cast<std::uint32_t>(columns.back()), 1});
    }
    result_.program.rows.push_back(std::move(one));
  }

  void add_edge(const SpaceEdge& edge, bool priced) {
    const CostTable& table = space_.tables[edge.table];
    const auto least = least_allowed(table.costs);
    if (!least) {
      result_.infeasible = true;
      return;
    }
    if (priced) result_.constant += *least;
    const auto& from = result_.columns[edge.from];
    const auto& to = result_.columns[edge.to];
    std::vector<LinearRow> rows(from.size());
    std::vector<LinearRow> columns(to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i] >= 0) rows[i].entries.push_back({static_cast<std::uint32_t>(from[i]), -1});
    }
    for (std::size_t j = 0; j < to.size(); ++j) {
      if (to[j] >= 0) columns[j].entries.push_back({static_cast<std::uint32_t>(to[j]), -1});
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      for (std::size_t j = 0; j < to.size(); ++j) {
        const Ticks cost = table.costs[i * table.columns + j];
        if (cost >= kForbidden || from[i] < 0 || to[j] < 0) continue;
        const double units = priced ? static_cast<double>(cost - *least) / result_.ticks_per_unit : 0;
        const std::uint32_t column = add_column({units, std::numeric_limits<double>::infinity(), false});
        rows[i].entries.push_back({column, 1});
        columns[j].entries.push_back({column, 1});
      }
    }
    for (auto* list : {&rows, &columns}) {
      for (LinearRow& row : *list) {
        if (!row.entries.empty()) result_.program.rows.push_back(std::move(row));
      }
    }
  }

  // Bytes at `time` ≤ budget, or ≤ the peak column.
  void add_memory_row(std::int32_t time, std::int64_t budget, std::optional<std::uint32_t> peak) {
    std::vector<double> bytes(result_.program.columns.size(), 0);
    double most = static_cast<double>(space_.fixed_bytes);
    for (const MemoryTerm& term : space_.memory) {
      if (time < term.begin || time >= term.end) continue;
      most += static_cast<double>(*std::max_element(term.bytes.begin(), term.bytes.end()));
      for (std::size_t s = 0; s < term.bytes.size(); ++s) {
        const std::int64_t column = result_.columns[term.node][s];
        if (column >= 0) bytes[static_cast<std::size_t>(column)] += static_cast<double>(term.bytes[s]);
      }
    }
    if (!peak && most <= static_cast<double>(budget)) return;
    LinearRow row{{}, Relation::at_most, static_cast<double>(budget - space_.fixed_bytes) / result_.bytes_per_unit};
    for (std::uint32_t column = 0; column < bytes.size(); ++column) {
      if (bytes[column] > 0) row.entries.push_back({column, bytes[column] / result_.bytes_per_unit});
    }
    if (peak) row.entries.push_back({*peak, -1});
    result_.program.rows.push_back(std::move(row));
  }

  const StrategySpace& space_;
  MarginalProgram result_;
};

}  // namespace

std::vector<std::uint32_t> MarginalProgram::round(std::span<const double> values) const {
  std::vector<std::uint32_t> choice;
  for (const auto& of_node : columns) {
    std::uint32_t best = 0;
    double largest = -1;
    for (std::uint32_t s = 0; s < of_node.size(); ++s) {
      if (of_node[s] < 0 || values[static_cast<std::size_t>(of_node[s])] <= largest) continue;
      largest = values[static_cast<std::size_t>(of_node[s])];
      best = s;
    }
    choice.push_back(best);
  }
  return choice;
}

MarginalProgram make_marginal_program(const StrategySpace& space, std::int64_t budget) {
  return Builder(space).build_for_cost(budget);
}

MarginalProgram make_least_peak_program(const StrategySpace& space) { return Builder(space).build_for_peak(); }

std::int64_t count_columns(const StrategySpace& space) {
  std::int64_t count = 0;
  for (const SpaceNode& node : space.nodes) count += static_cast<std::int64_t>(node.costs.size());
  for (const SpaceEdge& edge : space.edges) count += static_cast<std::int64_t>(space.tables[edge.table].costs.size());
  return count;
}

}  // namespace meshwright
