#include "strategy/edge_tables.h"

#include <algorithm>
#include <set>

#include "meshwright/gather_units.h"

namespace meshwright {

std::int64_t converted_element_bytes(const TrainingSettings& training, DType dtype, bool of_parameter, bool gradient) {
  return of_parameter && gradient ? training.gradient_bytes(dtype) : size_bytes(dtype);
}

bool serves(const ParameterStrategy& parameter, const Layout& needed) {
  const Layout& compute = parameter.compute;
  const bool gathered = parameter.stored.value != compute;
  for (std::size_t axis = 0; axis < compute.mesh_rank(); ++axis) {
    if (compute[axis] == needed[axis]) continue;
    if (gathered || !compute[axis].is_replicate() || !needed[axis].is_partial()) return false;
  }
  return true;
}

std::string conversion_class(const AtomShape& shape, std::int64_t element_bytes) {
  std::string key = std::to_string(element_bytes);
  for (std::size_t atom = 0; atom < shape.sizes.size(); ++atom) {
    key += (shape.paddable[atom] ? " ~" : " ") + std::to_string(shape.sizes[atom]);
  }
  return key;
}

namespace {

void add_layouts(const ProblemEdge& edge, const StrategySet& from, const StrategySet& to, ConversionPrices& prices) {
  for (const Strategy& strategy : from.strategies) {
    prices.add(strategy.result(edge.from_port).value);
    prices.add(strategy.result(edge.from_port).gradient);
    if (edge.of_parameter) prices.add(strategy.parameter()->state);
  }
  for (const Strategy& strategy : to.strategies) {
    prices.add(strategy.operand(edge.to_port).value);
    prices.add(strategy.operand(edge.to_port).gradient);
  }
}

}  // namespace

bool is_again(const ModelAnalysis& model, const Problem& problem, const ProblemEdge& edge) {
  const Recomputation& recomputation = problem.recomputation;
  if (edge.of_parameter) return false;
  const Variable& user = problem.variables[edge.to];
  if (user.kind == VariableKind::fork) return recomputation.makes(edge.value) || recomputation.values_converted.contains(edge.value);
  if (user.kind != VariableKind::node) return false;
  return recomputation.runs(user.node) || recomputation.converts(user.node, edge.to_port) || (recomputation.makes(edge.value) && model.backward->memory.nodes[user.node].saves_operand[edge.to_port]);
}

EdgeTables::EdgeTables(const ProblemInput& input) : input_(input) {
  std::set<std::string> blocks;
  std::size_t trained = 0;
  for (const Source& source : input.graph().sources) {
    if (source.kind != SourceKind::parameter || !input.graph().values[source.value].requires_gradient) continue;
    blocks.insert(block_of(source.names.front()));
    ++trained;
  }
  parameters_ = static_cast<double>(std::max<std::size_t>(1, trained));
  parameters_in_block_ = parameters_ / static_cast<double>(std::max<std::size_t>(1, blocks.size()));
}

std::uint32_t EdgeTables::prices_of(ValueId value, std::int64_t element_bytes, bool of_parameter) {
  const AtomShape& shape = input_.atoms().values[value];
  const std::pair key{conversion_class(shape, element_bytes), of_parameter};
  const auto [found, inserted] = classes_.try_emplace(key, static_cast<std::uint32_t>(prices_.size()));
  if (inserted) {
    prices_.emplace_back();
    examples_.push_back({value, element_bytes, of_parameter});
  }
  return found->second;
}

Status EdgeTables::price_all() {
  for (std::size_t i = 0; i < prices_.size(); ++i) {
    const auto& [value, element_bytes, packed] = examples_[i];
    const ConversionProblem problem{input_.mesh, input_.atoms().values[value], input_.profile, element_bytes, packed};
    Result<std::vector<PathPrice>> paths = input_.conversions.price_all(problem, prices_[i].layouts);
    if (!paths) return paths.error();
    prices_[i].paths = std::move(*paths);
  }
  return Done{};
}

// What of `ticks` cannot hide behind `seconds` of computing.
Ticks EdgeTables::exposed(Ticks ticks, double seconds) const {
  const DeviceSpec& device = input_.profile.device;
  if (ticks >= kForbidden) return kForbidden;
  // Without a stretch in whole ticks, so that nothing is rounded twice.
  if (device.computing_stretch == 1 && device.communication_stretch == 1) return std::max<Ticks>(0, ticks - to_ticks(seconds));
  return to_ticks(exposed_seconds(device, to_seconds(ticks), seconds));
}

Ticks EdgeTables::gather_latency(const Layout& from, const Layout& to, double together) const {
  AxisSet axes = 0;
  for (std::size_t axis = 0; axis < input_.mesh.rank(); ++axis) {
    if (from[axis].is_shard() && from[axis] != to[axis]) axes |= AxisSet{1} << axis;
  }
  return to_ticks(gather_latency_seconds(input_.mesh, axes, together));
}

// A block is loaded together, for each forward.
Ticks EdgeTables::load_latency(const ParameterStrategy& parameter) const {
  return gather_latency(parameter.stored.value, parameter.compute, parameters_in_block_);
}

Ticks EdgeTables::update_latency(const ParameterStrategy& parameter) const {
  return gather_latency(parameter.state, parameter.stored.value, parameters_);
}

// Of all microbatches: gathers hide behind the user's computing if they are prefetched, reductions behind its backward. A
// program is never slower for prefetching, though the rule sees nothing that a gather for a fork or a view could hide
// behind: a tick in favour of it, so that it is left out for memory only.
Ticks EdgeTables::step_ticks(const ProblemEdge& edge, const ParameterStrategy& parameter, const Strategy& user, Ticks gather,
                             Ticks reduce) const {
  const TrainingSettings& training = input_.training;
  const std::int64_t times = training.microbatches;
  const double in_forward = user.forward_seconds * edge.hidden_share, in_backward = user.backward_seconds * edge.hidden_share;
  const Ticks again = parameter.regather ? gather : 0;
  const Ticks late = gather > 0 && !parameter.prefetch ? 1 : 0;
  const Ticks forward = parameter.prefetch ? exposed(gather, in_forward) : gather + late;
  const Ticks backward = parameter.prefetch ? exposed(again, in_backward) : again;
  // What is gathered again and what is reduced hide behind the same backward.
  const Ticks reducing = parameter.prefetch ? exposed(again + reduce, in_backward) : again + exposed(reduce, in_backward);
  if (training.reduces_each_microbatch(parameter.zero)) return times * (forward + reducing);
  return times * forward + (times - 1) * backward + (training.reduces_at_end(parameter.zero) ? again + reduce : reducing);
}

Ticks EdgeTables::price(ValueId parameter, bool gradient, const Layout& from, const Layout& to) {
  const std::int64_t element_bytes = converted_element_bytes(input_.training, input_.graph().type(parameter).dtype, true, gradient);
  return all_->between(prices_of(parameter, element_bytes, true), from, to).ticks;
}

bool EdgeTables::has_gradient(const Problem& problem, const ProblemEdge& edge) const {
  const Variable& user = problem.variables[edge.to];
  return user.kind == VariableKind::node ? contributes(input_.model, user.node, edge.to_port) : meshwright::has_gradient(input_.model, edge.value);
}

CostTable EdgeTables::make_table(const Problem& problem, const ProblemEdge& edge, const ConversionPrices& prices,
                                 const ConversionPrices& gradient_prices) const {
  const StrategySet &from = *problem.variables[edge.from].set, &to = *problem.variables[edge.to].set;
  struct Numbers {
    std::uint32_t value, gradient;
  };
  std::vector<Numbers> columns;
  for (const Strategy& strategy : to.strategies) {
    const PortLayouts& port = strategy.operand(edge.to_port);
    columns.push_back({prices.numbers.at(port.value), gradient_prices.numbers.at(port.gradient)});
  }
  CostTable table{static_cast<std::uint32_t>(from.strategies.size()), static_cast<std::uint32_t>(to.strategies.size()),
                  std::vector<Ticks>(from.strategies.size() * to.strategies.size())};
  const std::size_t width = prices.layouts.size(), gradient_width = gradient_prices.layouts.size();
  const bool comes_back = has_gradient(problem, edge);
  const Ticks forwards = is_again(input_.model, problem, edge) ? 2 : 1;
  std::map<std::pair<std::uint32_t, std::uint32_t>, const Ticks*> rows;  // of ops, rows from the same layouts are the same
  Ticks* costs = table.costs.data();
  for (const Strategy& source : from.strategies) {
    const PortLayouts& port = source.result(edge.from_port);
    const Numbers row{prices.numbers.at(port.value), gradient_prices.numbers.at(port.gradient)};
    const auto [alike, is_new] = rows.try_emplace({row.value, row.gradient}, costs);
    if (!is_new && !edge.of_parameter) {
      costs = std::copy_n(alike->second, columns.size(), costs);
      continue;
    }
    const Ticks latency = edge.of_parameter ? load_latency(*source.parameter()) : 0;
    for (std::size_t j = 0; j < columns.size(); ++j) {
      Ticks forward = prices.paths[row.value * width + columns[j].value].ticks;
      const Ticks backward = comes_back ? gradient_prices.paths[columns[j].gradient * gradient_width + row.gradient].ticks : 0;
      const Strategy& user = to.strategies[j];
      if (edge.of_parameter && !serves(*source.parameter(), user.operand(edge.to_port).value)) forward = kForbidden;
      if (forward >= kForbidden || backward >= kForbidden) *costs++ = kForbidden;
      else if (edge.of_parameter) *costs++ = step_ticks(edge, *source.parameter(), user, forward > 0 ? forward + latency : 0, backward);
      else *costs++ = input_.training.microbatches * (forwards * forward + backward);
    }
  }
  return table;
}

Status EdgeTables::fill(Problem& problem) {
  // Edges between the same two sets share a table; the first of them stands for all.
  std::map<TableKey, std::uint32_t> tables;
  struct First {
    std::size_t edge;
    std::uint32_t prices, gradient_prices;  // classes
  };
  std::vector<First> first_edges;
  for (std::size_t i = 0; i < problem.edges.size(); ++i) {
    const ProblemEdge& edge = problem.edges[i];
    const StrategySet& from = *problem.variables[edge.from].set;
    const StrategySet& to = *problem.variables[edge.to].set;
    const DType dtype = input_.graph().type(edge.value).dtype;
    const auto prices = [&](bool gradient) {
      return prices_of(edge.value, converted_element_bytes(input_.training, dtype, edge.of_parameter, gradient), edge.of_parameter);
    };
    const std::uint32_t number = prices(false), gradient_number = prices(true);
    const TableKey key{from.id, edge.from_port, to.id, edge.to_port, number, gradient_number,
                       static_cast<std::int64_t>(edge.hidden_share * 1e6), edge.of_parameter, has_gradient(problem, edge), is_again(input_.model, problem, edge)};
    const auto [found, inserted] = tables.try_emplace(key, static_cast<std::uint32_t>(first_edges.size()));
    problem.space.edges.push_back({edge.from, edge.to, found->second});
    all_->edges.push_back({number, gradient_number, has_gradient(problem, edge)});
    if (!inserted) continue;
    first_edges.push_back({i, number, gradient_number});
    add_layouts(edge, from, to, prices_[number]);
    if (gradient_number != number) add_layouts(edge, from, to, prices_[gradient_number]);
  }
  if (Status status = price_all(); !status) return status;
  for (const auto& [index, number, gradient_number] : first_edges) {
    problem.space.tables.push_back(make_table(problem, problem.edges[index], prices_[number], prices_[gradient_number]));
  }
  problem.edge_prices = all_;
  return Done{};
}

}  // namespace meshwright
