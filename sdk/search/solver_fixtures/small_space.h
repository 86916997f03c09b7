// Random spaces that are small enough for trying every choice: all edges that a few nodes can have, forbidden entries,
// parallel edges, and memory over a handful of times.
#pragma once

#include <optional>
#include <random>
#include <string>

#include "meshwright/strategy_space.h"

namespace meshwright {

inline StrategySpace small_space(std::uint64_t seed, int most_nodes = 7, Ticks most_cost = 50) {
  std::mt19937_64 random(seed);
  const auto draw = [&random](std::int64_t count) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count)); };
  StrategySpace space;
  space.fixed_bytes = draw(5);
  const std::int64_t nodes = 1 + draw(most_nodes);
  for (std::int64_t id = 0; id < nodes; ++id) {
    SpaceNode& node = space.nodes.emplace_back();
    node.name = std::to_string(id);
    for (std::int64_t s = 1 + draw(4); s > 0; --s) node.costs.push_back(draw(12) == 0 ? kForbidden : draw(most_cost));
    for (std::int64_t terms = draw(3); terms > 0; --terms) {
      const auto begin = static_cast<std::int32_t>(draw(6));
      MemoryTerm term{static_cast<std::uint32_t>(id), begin, begin + 1 + static_cast<std::int32_t>(draw(4)), {}};
      for (std::size_t s = 0; s < node.costs.size(); ++s) term.bytes.push_back(draw(10));
      space.memory.push_back(std::move(term));
    }
  }
  for (std::int64_t count = nodes < 2 ? 0 : draw(2 * nodes + 1); count > 0; --count) {
    const auto from = static_cast<std::uint32_t>(draw(nodes));
    const auto to = static_cast<std::uint32_t>((from + 1 + draw(nodes - 1)) % nodes);
    CostTable& table = space.tables.emplace_back();
    table.rows = static_cast<std::uint32_t>(space.nodes[from].costs.size());
    table.columns = static_cast<std::uint32_t>(space.nodes[to].costs.size());
    for (std::uint32_t i = 0; i < table.rows * table.columns; ++i) table.costs.push_back(draw(7) == 0 ? kForbidden : draw(most_cost));
    space.edges.push_back({from, to, static_cast<std::uint32_t>(space.tables.size() - 1)});
  }
  return space;
}

// Calls visit(choice, evaluation) for every choice.
template <class Visit>
void for_each_choice(const StrategySpace& space, Visit visit) {
  std::vector<std::uint32_t> choice(space.nodes.size(), 0);
  for (;;) {
    visit(choice, evaluate(space, choice));
    std::size_t id = 0;
    while (id < choice.size() && ++choice[id] == space.nodes[id].costs.size()) choice[id++] = 0;
    if (id == choice.size()) return;
  }
}

// Nothing if no allowed choice fits.
inline std::optional<TickSum> least_cost(const StrategySpace& space, std::int64_t budget) {
  std::optional<TickSum> least;
  for_each_choice(space, [&](const auto&, const Evaluation& evaluation) {
    if (!evaluation.allowed || evaluation.peak_bytes > budget) return;
    if (!least || evaluation.cost < *least) least = evaluation.cost;
  });
  return least;
}

}  // namespace meshwright
