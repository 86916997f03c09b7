#include "random_space.h"

#include <algorithm>
#include <random>

namespace meshwright::agreement {

namespace {

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count));
  }
  bool once_in(std::int64_t count) { return below(count) == 0; }

  Ticks cost(Ticks most, std::int64_t forbidden_once_in) {
    return once_in(forbidden_once_in) ? kForbidden + below(3) : below(most);
  }

  CostTable table(std::uint32_t rows, std::uint32_t columns, Ticks most, std::int64_t forbidden_once_in) {
    CostTable result{rows, columns, {}};
    for (std::uint32_t i = 0; i < rows * columns; ++i) result.costs.push_back(cost(most, forbidden_once_in));
    return result;
  }

  // Adds a strategy to a node, and gives the eighths of the memory that it holds: what holds less costs more.
  std::int64_t add_strategy(SpaceNode& node, Ticks most) {
    const std::int64_t share = 1 + below(8);
    node.costs.push_back(below(most / 4) + most / 8 * (8 - share));
    return share;
  }

 private:
  std::mt19937_64 random_;
};

void add_edge(StrategySpace& space, Maker& make, std::uint32_t from, std::uint32_t to, Ticks most) {
  const auto rows = static_cast<std::uint32_t>(space.nodes[from].costs.size());
  const auto columns = static_cast<std::uint32_t>(space.nodes[to].costs.size());
  for (std::uint32_t id = 0; id < space.tables.size(); ++id) {
    if (space.tables[id].rows == rows && space.tables[id].columns == columns && make.once_in(2)) {
      space.edges.push_back({from, to, id});
      return;
    }
  }
  space.edges.push_back({from, to, static_cast<std::uint32_t>(space.tables.size())});
  space.tables.push_back(make.table(rows, columns, most, 6));
}

}  // namespace

StrategySpace random_space(std::uint64_t seed) {
  Maker make(seed);
  StrategySpace space;
  const auto nodes = static_cast<std::uint32_t>(2 + make.below(6));
  const Ticks most = make.once_in(3) ? 4 : 1000;  // few values make ties
  for (std::uint32_t id = 0; id < nodes; ++id) {
    SpaceNode& node = space.nodes.emplace_back();
    node.name = "n" + std::to_string(id);
    for (std::int64_t s = 1 + make.below(4); s > 0; --s) node.costs.push_back(make.cost(most, 12));
  }
  const std::int64_t shape = make.below(3);
  for (std::uint32_t id = 1; id < nodes; ++id) {
    const auto parent = static_cast<std::uint32_t>(shape == 0 ? id - 1 : make.below(id));
    if (make.once_in(2)) {
      add_edge(space, make, parent, id, most);
    } else {
      add_edge(space, make, id, parent, most);
    }
    if (shape == 2) {
      for (std::int64_t more = make.below(3); more > 0; --more)
        add_edge(space, make, static_cast<std::uint32_t>(make.below(id)), id, most);
    }
  }
  space.fixed_bytes = make.below(20);
  const std::int64_t most_bytes = make.once_in(3) ? 4 : 100;
  for (std::uint32_t id = 0; id < nodes; ++id) {
    for (std::int64_t terms = make.below(3); terms > 0; --terms) {
      const auto begin = static_cast<std::int32_t>(make.below(6));
      MemoryTerm term{id, begin, begin + 1 + static_cast<std::int32_t>(make.below(5)), {}};
      for (std::size_t s = 0; s < space.nodes[id].costs.size(); ++s) term.bytes.push_back(make.below(most_bytes));
      space.memory.push_back(std::move(term));
    }
  }
  return space;
}

StrategySpace transformer_space(std::uint64_t seed, int layers, std::uint32_t strategies) {
  Maker make(seed);
  constexpr std::uint32_t kNodes = 12;
  constexpr Ticks kMost = 1'000'000'000;
  StrategySpace space;
  for (std::uint32_t i = 0; i <= kNodes + 2; ++i) {
    space.tables.push_back(make.table(strategies, strategies, kMost, 8));
    for (std::uint32_t s = 0; s < strategies; ++s) space.tables.back().costs[s * strategies + s] = 0;
  }
  std::vector<SpaceNode> kinds(kNodes);
  std::vector<std::vector<std::int64_t>> bytes(kNodes);
  for (std::uint32_t i = 0; i < kNodes; ++i) {
    for (std::uint32_t s = 0; s < strategies; ++s) {
      const std::int64_t share = make.add_strategy(kinds[i], kMost);
      bytes[i].push_back(share * 10'000'000 + make.below(5'000'000));
    }
  }
  const auto end = static_cast<std::int32_t>(2 * layers * static_cast<int>(kNodes));
  for (int layer = 0; layer < layers; ++layer) {
    const auto first = static_cast<std::uint32_t>(layer) * kNodes;
    for (std::uint32_t i = 0; i < kNodes; ++i) {
      const std::uint32_t id = first + i;
      space.nodes.push_back(kinds[i]);
      space.nodes.back().name = "layer" + std::to_string(layer) + "." + std::to_string(i);
      if (id > 0) space.edges.push_back({id - 1, id, i});
      const auto time = static_cast<std::int32_t>(id);
      const bool weight = i % 3 == 1;
      space.memory.push_back({id, weight ? 0 : time, weight ? end : end - time, bytes[i]});
    }
    // Around attention and around the feed-forward part.
    space.edges.push_back({first, first + 5, kNodes});
    space.edges.push_back({first + 5, first + 11, kNodes + 1});
  }
  return space;
}

namespace {

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // from earlier nodes to later ones

// Nodes that hold memory from their place to that of their last reader.
StrategySpace space_of(std::uint64_t seed, std::uint32_t nodes, std::uint32_t strategies, const Edges& edges) {
  constexpr Ticks kMost = 1'000'000;
  constexpr int kTables = 12;
  Maker make(seed);
  StrategySpace space;
  for (int i = 0; i < kTables; ++i) space.tables.push_back(make.table(strategies, strategies, kMost, 12));
  for (std::uint32_t id = 0; id < nodes; ++id) {
    SpaceNode& node = space.nodes.emplace_back();
    node.name = "n" + std::to_string(id);
    MemoryTerm term{id, static_cast<std::int32_t>(id), static_cast<std::int32_t>(id) + 1, {}};
    for (std::uint32_t s = 0; s < strategies; ++s) {
      const std::int64_t share = make.add_strategy(node, kMost);
      term.bytes.push_back(share * 10'000'000 + make.below(1000));
    }
    space.memory.push_back(std::move(term));
  }
  for (const auto& [from, to] : edges) {
    space.edges.push_back({from, to, static_cast<std::uint32_t>(make.below(kTables))});
    space.memory[from].end = std::max(space.memory[from].end, static_cast<std::int32_t>(to) + 1);
  }
  return space;
}

}  // namespace

StrategySpace unet_space(std::uint64_t seed, std::uint32_t levels, std::uint32_t strategies) {
  const std::uint32_t nodes = 2 * levels + 1;
  Edges edges;
  for (std::uint32_t id = 1; id < nodes; ++id) edges.emplace_back(id - 1, id);
  for (std::uint32_t level = 0; level < levels; ++level) edges.emplace_back(level, nodes - 1 - level);
  return space_of(seed, nodes, strategies, edges);
}

StrategySpace densenet_space(std::uint64_t seed, std::uint32_t blocks, std::uint32_t layers, std::uint32_t strategies) {
  Edges edges;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    const std::uint32_t first = block * layers;  // what the block reads, too
    for (std::uint32_t to = first + 1; to <= first + layers; ++to) {
      for (std::uint32_t from = first; from < to; ++from) edges.emplace_back(from, to);
    }
  }
  return space_of(seed, blocks * layers + 1, strategies, edges);
}

StrategySpace encoder_decoder_space(std::uint64_t seed, std::uint32_t layers, std::uint32_t strategies) {
  constexpr std::uint32_t kPerLayer = 2;
  Edges edges;
  const std::uint32_t half = kPerLayer * layers + 1;  // a position bias and its layers; the encoder's last node is a hub, too
  for (const std::uint32_t first : {0U, half}) {
    for (std::uint32_t id = first + 1; id < first + half; ++id) {
      if (id > first + 1) edges.emplace_back(id - 1, id);
      if ((id - first) % kPerLayer == 1) edges.emplace_back(first, id);
      if (first > 0 && (id - first) % kPerLayer == 0) edges.emplace_back(half - 1, id);
    }
  }
  return space_of(seed, 2 * half, strategies, edges);
}

StrategySpace random_dag_space(std::uint64_t seed, std::uint32_t nodes, std::uint32_t strategies, std::uint32_t reach) {
  constexpr Ticks kMost = 1'000'000;
  constexpr int kTables = 40;
  Maker make(seed);
  StrategySpace space;
  for (int i = 0; i < kTables; ++i) space.tables.push_back(make.table(strategies, strategies, kMost, 20));
  for (std::uint32_t id = 0; id < nodes; ++id) {
    SpaceNode& node = space.nodes.emplace_back();
    node.name = "n" + std::to_string(id);
    const auto begin = static_cast<std::int32_t>(id);
    MemoryTerm term{id, begin, begin + 1 + static_cast<std::int32_t>(make.below(reach)), {}};
    for (std::uint32_t s = 0; s < strategies; ++s) term.bytes.push_back(make.add_strategy(node, kMost) * 10'000'000);
    space.memory.push_back(std::move(term));
    for (std::int64_t edges = id == 0 ? 0 : 1 + make.below(3); edges > 0; --edges) {
      const auto back = static_cast<std::uint32_t>(1 + make.below(std::min(id, reach)));
      space.edges.push_back({id - back, id, static_cast<std::uint32_t>(make.below(kTables))});
    }
  }
  return space;
}

}  // namespace meshwright::agreement
