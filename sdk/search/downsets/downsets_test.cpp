#include "downsets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace meshwright {
namespace {

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

std::vector<std::vector<std::uint32_t>> listed(const Downsets& downsets) {
  std::vector<std::vector<std::uint32_t>> sets;
  for (std::uint32_t set = 0; set < downsets.size(); ++set) sets.push_back(downsets.nodes_of(set));
  return sets;
}

TEST(Downsets, OfADiamond) {
  const Edges edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {2, 3}};
  const Downsets downsets = find_downsets(downset_graph(4, edges), 100);
  EXPECT_TRUE(downsets.complete);
  const std::vector<std::vector<std::uint32_t>> wanted = {{}, {0}, {0, 1}, {0, 2}, {0, 1, 2}, {0, 1, 2, 3}};
  EXPECT_EQ(listed(downsets), wanted);
  ASSERT_EQ(downsets.grown(1).size(), 2U);
  EXPECT_EQ(downsets.grown(1)[0].node, 1U);
  EXPECT_EQ(downsets.grown(1)[0].bigger, 2U);
  EXPECT_TRUE(downsets.grown(5).empty());
}

TEST(Downsets, OneOrderWhereThereAreTooMany) {
  const Downsets downsets = find_downsets(downset_graph(40, Edges{{5, 3}}), 1000);
  EXPECT_FALSE(downsets.complete);
  EXPECT_EQ(downsets.size(), 41U);
  std::vector<std::uint32_t> before;
  for (const auto& set : listed(downsets)) {
    EXPECT_TRUE(std::includes(set.begin(), set.end(), before.begin(), before.end()));
    EXPECT_LE(std::count(set.begin(), set.end(), 3U), std::count(set.begin(), set.end(), 5U));
    before = set;
  }
  EXPECT_EQ(before.size(), 40U);
}

// Every set of nodes is looked at, and every downset has all that can be added to it.
TEST(Downsets, AreAllThatThereAre) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 numbers(seed);
    const std::uint32_t nodes = 1 + numbers() % 9;
    Edges edges;
    for (std::uint32_t to = 0; to < nodes; ++to) {
      for (std::uint32_t from = 0; from < to; ++from) {
        if (numbers() % 3 == 0) edges.emplace_back(from, to);
      }
    }
    const auto closed = [&](std::uint32_t bits) {
      return std::all_of(edges.begin(), edges.end(), [&](const auto& edge) { return (bits >> edge.second & 1U) <= (bits >> edge.first & 1U); });
    };
    std::set<std::vector<std::uint32_t>> wanted;
    std::size_t growths = 0;
    for (std::uint32_t bits = 0; bits < 1U << nodes; ++bits) {
      if (!closed(bits)) continue;
      std::vector<std::uint32_t> set;
      for (std::uint32_t node = 0; node < nodes; ++node) {
        if ((bits >> node & 1U) != 0) set.push_back(node);
        growths += (bits >> node & 1U) == 0 && closed(bits | 1U << node);
      }
      wanted.insert(set);
    }
    const Downsets downsets = find_downsets(downset_graph(nodes, edges), 1000);
    const auto sets = listed(downsets);
    EXPECT_EQ(std::set(sets.begin(), sets.end()), wanted);
    EXPECT_EQ(sets.size(), wanted.size());
    EXPECT_EQ(downsets.growths.size(), growths);
    for (std::uint32_t set = 0; set < downsets.size(); ++set) {
      for (const Downsets::Growth& growth : downsets.grown(set)) {
        EXPECT_GT(growth.bigger, set);
        std::vector<std::uint32_t> grown = sets[set];
        grown.insert(std::upper_bound(grown.begin(), grown.end(), growth.node), growth.node);
        EXPECT_EQ(grown, sets[growth.bigger]);
      }
    }
  }
}

}  // namespace
}  // namespace meshwright
