#include "routing.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace meshwright::tap {

namespace {

constexpr int kMostSweeps = 6;
constexpr Ticks kMostOfOne = kForbidden / 1024;  // what a byte's price may add: thousands of them can be summed

// Of each strategy of a variable. Of a parameter: the gather of what an update changed, which is what it takes longer than the
// step alone of the same shards.
std::vector<Ticks> communication_of(const Variable& variable, std::int64_t microbatches) {
  std::map<Layout, double> step;
  for (const Strategy& strategy : variable.set->strategies) {
    const ParameterStrategy* parameter = strategy.parameter();
    if (parameter == nullptr) continue;
    const auto [found, inserted] = step.try_emplace(parameter->state, parameter->update_seconds);
    if (!inserted) found->second = std::min(found->second, parameter->update_seconds);
  }
  std::vector<Ticks> ticks;
  for (const Strategy& strategy : variable.set->strategies) {
    double seconds = 0;
    if (const NodeStrategy* node = strategy.node()) seconds = static_cast<double>(microbatches) * (node->forward_communication_seconds + node->backward_communication_seconds);
    if (const ParameterStrategy* parameter = strategy.parameter()) seconds = parameter->update_seconds - step.at(parameter->state);
    ticks.push_back(to_ticks(seconds));
  }
  return ticks;
}

}  // namespace

Router::Router(const ProblemInput& input, const Problem& problem, const TrimmedGraph& trimmed, double ticks_per_byte, Meter& meter)
    : problem_(problem), meter_(meter), ends_(problem.variables.size()), trimmed_(trimmed), is_graph_node_(problem.variables.size(), false),
      is_open_(problem.variables.size(), false), regret_(problem.variables.size(), 0) {
  for (const GraphNode& node : trimmed.nodes) is_graph_node_[node.variable] = true;
  for (const SpaceEdge& edge : problem.space.edges) {
    ends_[edge.from].push_back({edge.to, edge.table, true});
    ends_[edge.to].push_back({edge.from, edge.table, false});
  }
  std::map<std::uint32_t, std::uint32_t> first_of_set;
  for (std::uint32_t v = 0; v < problem.variables.size(); ++v) {
    const Variable& variable = problem.variables[v];
    const auto [found, inserted] = first_of_set.try_emplace(variable.set->id, v);
    communicated_.push_back(inserted ? communication_of(variable, input.training.microbatches) : communicated_[found->second]);
    steered_by_.push_back(problem.space.nodes[v].costs);
    if (ticks_per_byte == 0) continue;
    for (std::size_t s = 0; s < variable.set->strategies.size(); ++s) {
      const Strategy& strategy = variable.set->strategies[s];
      const double price = ticks_per_byte * static_cast<double>(strategy.resident_bytes());
      const auto added = static_cast<Ticks>(std::min(price, static_cast<double>(kMostOfOne)));
      communicated_[v][s] += added;
      if (steered_by_[v][s] < kForbidden) steered_by_[v][s] += added;
    }
  }
}

template <class CostOfEdge>
bool Router::take_cheapest(std::uint32_t v, const Choices& candidates, std::vector<std::uint32_t>& choice, CostOfEdge cost_of_edge) {
  Ticks least = kForbidden;
  std::uint32_t best = choice[v];
  for (const std::uint32_t s : candidates) {
    Ticks sum = steered_by_[v][s];
    for (std::size_t i = 0; i < ends_[v].size() && sum < least; ++i) {
      const Ticks cost = cost_of_edge(ends_[v][i], s);
      sum = cost >= kForbidden ? kForbidden : sum + cost;
    }
    if (sum < least || (sum == least && sum < kForbidden && s == choice[v])) least = sum, best = s;
  }
  meter_.spend(static_cast<std::int64_t>(candidates.size() * (1 + ends_[v].size())));
  choice[v] = best;
  return least < kForbidden;
}

// What the second best strategy costs more than the best, beside what is chosen.
Ticks Router::regret(std::uint32_t v, const Choices& candidates, const std::vector<std::uint32_t>& choice) {
  if (candidates.size() == 1) return kForbidden;
  Ticks least = kForbidden, second = kForbidden;
  for (const std::uint32_t s : candidates) {
    Ticks sum = steered_by_[v][s];
    for (const End& end : ends_[v]) {
      if (is_open_[end.other]) continue;
      const Ticks cost = joined(end, s, choice[end.other]);
      sum = cost >= kForbidden || sum >= kForbidden ? kForbidden : sum + cost;
    }
    if (sum < least) second = std::exchange(least, sum);
    else second = std::min(second, sum);
  }
  meter_.spend(static_cast<std::int64_t>(candidates.size() * (1 + ends_[v].size())));
  return second - least;
}

bool Router::visit_in_order(std::span<const std::uint32_t> region, const std::vector<const Choices*>& candidates,
                            std::vector<std::uint32_t>& choice) {
  for (const std::uint32_t v : region) is_open_[v] = true;
  // Of a neighbour that is still open, the cheapest of what it may do.
  const auto ahead = [&](const End& end, std::uint32_t s) {
    if (!is_open_[end.other]) return joined(end, s, choice[end.other]);
    Ticks least = kForbidden;
    for (const std::uint32_t theirs : *candidates[end.other]) least = std::min(least, joined(end, s, theirs));
    meter_.spend(static_cast<std::int64_t>(candidates[end.other]->size()));
    return least;
  };
  bool valid = true;
  const auto visit = [&](std::uint32_t v) {
    is_open_[v] = false;
    valid = valid && take_cheapest(v, *candidates[v], choice, ahead);
  };
  for (const std::uint32_t v : region) {
    if (is_graph_node_[v]) visit(v);
  }
  // The largest regret first, then the first variable. A variable is entered again when a neighbour is chosen; older entries are
  // passed over.
  std::vector<std::pair<Ticks, std::uint32_t>> heap;  // regret, and the variable's complement
  const auto enter = [&](std::uint32_t v) {
    regret_[v] = regret(v, *candidates[v], choice);
    heap.emplace_back(regret_[v], ~v);
    std::push_heap(heap.begin(), heap.end());
  };
  for (const std::uint32_t v : region) {
    if (is_open_[v] && !trimmed_.is_weight[v]) enter(v);
  }
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const auto [was, complement] = heap.back();
    const std::uint32_t v = ~complement;
    heap.pop_back();
    if (!is_open_[v] || was != regret_[v]) continue;
    visit(v);
    for (const End& end : ends_[v]) {
      if (is_open_[end.other] && !trimmed_.is_weight[end.other] && candidates[end.other]->size() > 1) enter(end.other);
    }
  }
  for (auto v = region.rbegin(); v != region.rend(); ++v) {
    if (is_open_[*v]) visit(*v);
  }
  return valid;
}

void Router::improve(std::span<const std::uint32_t> region, const std::vector<const Choices*>& candidates, std::vector<std::uint32_t>& choice) {
  const auto as_chosen = [&](const End& end, std::uint32_t s) { return joined(end, s, choice[end.other]); };
  bool changed = true;
  for (int sweep = 0; sweep < kMostSweeps && changed; ++sweep) {
    changed = false;
    for (std::size_t i = 0; i < region.size(); ++i) {
      const std::uint32_t v = sweep % 2 == 0 ? region[region.size() - 1 - i] : region[i];
      const std::uint32_t before = choice[v];
      take_cheapest(v, *candidates[v], choice, as_chosen);
      changed |= choice[v] != before;
    }
  }
}

bool Router::route(std::span<const std::uint32_t> region, const std::vector<const Choices*>& candidates, std::vector<std::uint32_t>& choice) {
  if (meter_.exhausted() || !visit_in_order(region, candidates, choice)) return false;
  improve(region, candidates, choice);
  return true;
}

TickSum Router::sum(std::span<const std::uint32_t> region, const std::vector<std::uint32_t>& choice,
                    const std::vector<std::vector<Ticks>>& own) const {
  TickSum sum = 0;
  for (const std::uint32_t v : region) {
    sum += own[v][choice[v]];
    for (const End& end : ends_[v]) {
      // An edge inside counts once, at its end.
      const bool inside = std::binary_search(region.begin(), region.end(), end.other);
      if (!inside || !end.is_from) sum += joined(end, choice[v], choice[end.other]);
    }
  }
  return sum;
}

TickSum Router::communication(std::span<const std::uint32_t> region, const std::vector<std::uint32_t>& choice) const {
  return sum(region, choice, communicated_);
}

TickSum Router::cost(std::span<const std::uint32_t> region, const std::vector<std::uint32_t>& choice) const {
  return sum(region, choice, steered_by_);
}

}  // namespace meshwright::tap
