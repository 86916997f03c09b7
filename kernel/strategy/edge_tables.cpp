#include "strategy/edge_tables.h"

#include <algorithm>

namespace meshwright {

bool serves(const Layout& compute, const Layout& needed) {
  for (std::size_t axis = 0; axis < compute.mesh_rank(); ++axis) {
    if (compute[axis] != needed[axis] && !compute[axis].is_replicate()) return false;
  }
  return true;
}

std::string conversion_class(const AtomShape& shape, DType dtype) {
  std::string key = std::to_string(size_bytes(dtype));
  for (std::size_t atom = 0; atom < shape.sizes.size(); ++atom) {
    key += (shape.paddable[atom] ? " ~" : " ") + std::to_string(shape.sizes[atom]);
  }
  return key;
}

namespace {

// What of `ticks` cannot hide behind `seconds` of computing.
Ticks exposed(Ticks ticks, double seconds) {
  return ticks >= kForbidden ? kForbidden : std::max<Ticks>(0, ticks - to_ticks(seconds));
}

void add_layouts(const ProblemEdge& edge, const StrategySet& from, const StrategySet& to, ConversionPrices& prices) {
  for (const Strategy& strategy : from.strategies) {
    prices.add(strategy.result(edge.from_port).value);
    prices.add(strategy.result(edge.from_port).gradient);
  }
  for (const Strategy& strategy : to.strategies) {
    prices.add(strategy.operands[edge.to_port].value);
    prices.add(strategy.operands[edge.to_port].gradient);
  }
}

}  // namespace

std::uint32_t EdgeTables::prices_of(ValueId value, bool of_parameter) {
  const AtomShape& shape = input_.atoms.values[value];
  const std::pair key{conversion_class(shape, input_.graph.type(value).dtype), of_parameter};
  const auto [found, inserted] = classes_.try_emplace(key, static_cast<std::uint32_t>(prices_.size()));
  if (inserted) {
    prices_.emplace_back();
    examples_.emplace_back(value, of_parameter);
  }
  return found->second;
}

Status EdgeTables::price_all() {
  for (std::size_t i = 0; i < prices_.size(); ++i) {
    const auto& [value, packed] = examples_[i];
    const ConversionProblem problem{input_.mesh, input_.atoms.values[value], input_.profile,
                                    size_bytes(input_.graph.type(value).dtype), packed};
    Result<std::vector<Ticks>> ticks = input_.conversions.price_all(problem, prices_[i].layouts);
    if (!ticks) return ticks.error();
    prices_[i].ticks = std::move(*ticks);
  }
  return Done{};
}

CostTable EdgeTables::make_table(const ProblemEdge& edge, const StrategySet& from, const StrategySet& to,
                                 const ConversionPrices& prices) const {
  const auto number = [&](const Layout& layout) { return prices.numbers.at(layout); };
  struct Numbers {
    std::uint32_t value, gradient;
  };
  std::vector<Numbers> columns;
  for (const Strategy& strategy : to.strategies) {
    const PortLayouts& port = strategy.operands[edge.to_port];
    columns.push_back({number(port.value), number(port.gradient)});
  }
  CostTable table{static_cast<std::uint32_t>(from.strategies.size()), static_cast<std::uint32_t>(to.strategies.size()), {}};
  table.costs.reserve(from.strategies.size() * to.strategies.size());
  const std::size_t width = prices.layouts.size();
  const bool has_gradient = input_.graph.values[edge.value].requires_gradient;
  for (const Strategy& source : from.strategies) {
    const PortLayouts& port = source.result(edge.from_port);
    const Numbers row{number(port.value), number(port.gradient)};
    for (std::size_t j = 0; j < columns.size(); ++j) {
      Ticks forward = prices.ticks[row.value * width + columns[j].value];
      Ticks backward = has_gradient ? prices.ticks[columns[j].gradient * width + row.gradient] : 0;
      if (edge.of_parameter) {
        const Strategy& user = to.strategies[j];
        if (!serves(source.compute, user.operands[edge.to_port].value)) forward = kForbidden;
        forward = exposed(forward, user.forward_seconds * edge.hidden_share);
        backward = exposed(backward, user.backward_seconds * edge.hidden_share);
      }
      table.costs.push_back(forward >= kForbidden || backward >= kForbidden ? kForbidden : forward + backward);
    }
  }
  return table;
}

Status EdgeTables::fill(Problem& problem) {
  // Edges between the same two sets share a table; the first of them stands for all.
  std::map<TableKey, std::uint32_t> tables;
  std::vector<std::pair<std::size_t, std::uint32_t>> first_edges;  // and the class of their prices
  for (std::size_t i = 0; i < problem.edges.size(); ++i) {
    const ProblemEdge& edge = problem.edges[i];
    const StrategySet& from = *problem.variables[edge.from].set;
    const StrategySet& to = *problem.variables[edge.to].set;
    const std::uint32_t number = prices_of(edge.value, edge.of_parameter);
    const TableKey key{from.id, edge.from_port, to.id, edge.to_port, number,
                       static_cast<std::int64_t>(edge.hidden_share * 1e6), edge.of_parameter};
    const auto [found, inserted] = tables.try_emplace(key, static_cast<std::uint32_t>(first_edges.size()));
    problem.space.edges.push_back({edge.from, edge.to, found->second});
    if (!inserted) continue;
    first_edges.emplace_back(i, number);
    add_layouts(edge, from, to, prices_[number]);
  }
  if (Status status = price_all(); !status) return status;
  for (const auto& [index, number] : first_edges) {
    const ProblemEdge& edge = problem.edges[index];
    problem.space.tables.push_back(
        make_table(edge, *problem.variables[edge.from].set, *problem.variables[edge.to].set, prices_[number]));
  }
  return Done{};
}

}  // namespace meshwright
