#include "derive.h"

#include <algorithm>
#include <numeric>

namespace meshwright::tap {

Deriver::Deriver(const ProblemInput& input, const Problem& problem, const TrimmedGraph& trimmed, const Folding& folding,
                 std::int64_t max_plans, Meter& meter)
    : problem_(problem), trimmed_(trimmed), folding_(folding), max_plans_(max_plans), meter_(meter), patterns_(input, problem, trimmed),
      everything_(problem.variables.size()), candidates_(problem.variables.size(), nullptr) {
  std::iota(everything_.begin(), everything_.end(), 0U);
  find_regions();
}

// What a block's plan decides: the variables that follow its GraphNodes, and those before them that serve nothing else.
void Deriver::find_regions() {
  std::vector<std::vector<std::uint32_t>> users(problem_.variables.size());
  for (const ProblemEdge& edge : problem_.edges) users[edge.from].push_back(edge.to);
  std::vector<bool> is_graph_node(problem_.variables.size(), false);
  for (const GraphNode& node : trimmed_.nodes) is_graph_node[node.variable] = true;
  for (const std::vector<std::uint32_t>& copies : folding_.unique) {
    const Block& block = folding_.blocks[copies.front()];
    std::vector<std::uint32_t>& region = regions_.emplace_back();
    std::vector<bool> inside(problem_.variables.size(), false);
    for (std::uint32_t v = static_cast<std::uint32_t>(inside.size()); v-- > 0;) {
      const bool follows = std::binary_search(block.nodes.begin(), block.nodes.end(), trimmed_.owner[v]);
      const bool serves = !is_graph_node[v] && !users[v].empty() &&
                          std::all_of(users[v].begin(), users[v].end(), [&](std::uint32_t user) { return inside[user]; });
      inside[v] = follows || serves;
      if (inside[v]) region.push_back(v);
    }
    std::reverse(region.begin(), region.end());
  }
}

void Deriver::set(std::uint32_t graph_node, Pattern pattern, std::uint32_t tensor_axes) {
  const Router::Choices* choices = &patterns_.of(graph_node, pattern, tensor_axes);
  // A copy of a block may be pinned to something else.
  if (choices->empty()) choices = &patterns_.of(graph_node, kReplica, tensor_axes);
  candidates_[trimmed_.nodes[graph_node].variable] = choices;
}

std::vector<Deriver::Part> Deriver::parts_of(const Block& block, std::uint32_t tensor_axes) {
  std::vector<std::vector<Pattern>> available;
  std::int64_t plans = 1;
  for (const std::uint32_t node : block.nodes) {
    available.push_back(patterns_.available(node, tensor_axes));
    if (plans <= max_plans_) plans *= static_cast<std::int64_t>(available.back().size());
  }
  std::vector<Part> parts;
  std::int64_t of_part = 0;
  for (std::size_t i = 0; i < block.nodes.size(); ++i) {
    const auto count = static_cast<std::int64_t>(available[i].size());
    if (parts.empty() || (plans > max_plans_ && of_part * count > max_plans_)) {
      parts.emplace_back();
      of_part = 1;
    }
    of_part *= count;
    parts.back().nodes.push_back(block.nodes[i]);
    parts.back().patterns.push_back(std::move(available[i]));
  }
  return parts;
}

// Finds the best plan of the part, given the others. Whether it is another one than before.
bool Deriver::examine(Router& router, const Part& part, std::span<const std::uint32_t> region, std::uint32_t tensor_axes,
                      std::vector<std::uint32_t>& choice, std::vector<Pattern>& best, Examined& examined) {
  const std::vector<Pattern> before = best;
  std::optional<std::pair<TickSum, TickSum>> least;
  std::vector<std::uint32_t> tried = choice;
  std::vector<std::size_t> picked(part.nodes.size(), 0);
  while (!meter_.exhausted()) {
    for (std::size_t i = 0; i < part.nodes.size(); ++i) set(part.nodes[i], part.patterns[i][picked[i]], tensor_axes);
    ++examined.plans;
    if (router.route(region, candidates_, tried)) {
      ++examined.valid;
      const std::pair<TickSum, TickSum> cost{router.communication(region, tried), router.cost(region, tried)};
      if (!least || cost < *least) {
        least = cost;
        choice = tried;
        for (std::size_t i = 0; i < part.nodes.size(); ++i) best[part.nodes[i]] = part.patterns[i][picked[i]];
      }
    }
    std::size_t last = picked.size();
    while (last > 0 && ++picked[last - 1] == part.patterns[last - 1].size()) picked[--last] = 0;
    if (last == 0) break;
  }
  for (const std::uint32_t node : part.nodes) set(node, best[node], tensor_axes);
  return best != before;
}

std::optional<WholePlan> Deriver::derive(Router& router, std::uint32_t tensor_axes, Examined& examined) {
  for (const std::uint32_t v : everything_) candidates_[v] = &patterns_.following(v, tensor_axes);
  for (std::uint32_t node = 0; node < trimmed_.nodes.size(); ++node) set(node, kReplica, tensor_axes);
  WholePlan plan{tensor_axes, std::vector<Pattern>(trimmed_.nodes.size(), kReplica), std::vector<std::uint32_t>(everything_.size(), 0)};
  ++examined.plans;
  if (!router.route(everything_, candidates_, plan.choice)) return std::nullopt;
  ++examined.valid;
  if (tensor_axes == 0) return plan;

  const std::vector<std::uint32_t> data_parallel = plan.choice;
  for (std::size_t unique = 0; unique < folding_.unique.size(); ++unique) {
    const Block& first = folding_.blocks[folding_.unique[unique].front()];
    const std::vector<Part> parts = parts_of(first, tensor_axes);
    if (parts.size() > 1) examined.in_parts.insert(unique);
    std::vector<std::uint32_t> choice = data_parallel;
    bool changed = true;
    for (int round = 0; round < kMostRounds && changed; ++round) {
      changed = false;
      for (const Part& part : parts) changed |= examine(router, part, regions_[unique], tensor_axes, choice, plan.patterns, examined);
      changed &= parts.size() > 1;
    }
    for (const std::uint32_t node : first.nodes) set(node, kReplica, tensor_axes);
  }
  for (const std::vector<std::uint32_t>& copies : folding_.unique) {
    const Block& first = folding_.blocks[copies.front()];
    for (const std::uint32_t copy : copies) {
      const Block& block = folding_.blocks[copy];
      for (std::size_t i = 0; i < block.nodes.size(); ++i) {
        plan.patterns[block.nodes[i]] = plan.patterns[first.nodes[i]];
        set(block.nodes[i], plan.patterns[first.nodes[i]], tensor_axes);
      }
    }
  }
  ++examined.plans;
  if (!router.route(everything_, candidates_, plan.choice)) return std::nullopt;
  ++examined.valid;
  return plan;
}

}  // namespace meshwright::tap
