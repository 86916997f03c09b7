#include "folding.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace meshwright::tap {
namespace {

GraphNode node(std::string scope, std::string kind, std::vector<std::uint32_t> producers = {}) {
  return {.variable = 0, .port = 0, .scope = std::move(scope), .kind = std::move(kind), .producers = std::move(producers)};
}

// An embedding, `layers` layers of query, key, value, output, up and down, and a head.
std::vector<GraphNode> transformer(std::uint32_t layers, bool named = true) {
  std::vector<GraphNode> nodes = {node(named ? "embed" : "", "embedding")};
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::string scope = "layers." + std::to_string(layer);
    const auto at = static_cast<std::uint32_t>(nodes.size());
    const auto add = [&](const std::string& name, const std::string& kind, std::vector<std::uint32_t> producers) {
      nodes.push_back(node(named ? scope + name : "", kind, std::move(producers)));
    };
    for (const char* name : {".attention.q", ".attention.k", ".attention.v"}) add(name, "square", {at - 1});
    add(".attention.o", "square", {at, at + 1, at + 2});
    add(".mlp.up", "up", {at - 1, at + 3});
    add(".mlp.down", "down", {at + 4});
  }
  nodes.push_back(node(named ? "head" : "", "head", {static_cast<std::uint32_t>(nodes.size()) - 1}));
  return nodes;
}

std::vector<std::size_t> copies(const Folding& folding) {
  std::vector<std::size_t> counts;
  for (const auto& unique : folding.unique) counts.push_back(unique.size());
  return counts;
}

// What every folding must be: each GraphNode in one block, each block in one class.
void expect_partition(const Folding& folding, std::size_t nodes) {
  std::vector<int> seen(nodes, 0), blocks(folding.blocks.size(), 0);
  for (const Block& block : folding.blocks) {
    EXPECT_TRUE(std::is_sorted(block.nodes.begin(), block.nodes.end()));
    for (const std::uint32_t at : block.nodes) ++seen.at(at);
  }
  for (const auto& unique : folding.unique) {
    for (const std::uint32_t block : unique) ++blocks.at(block);
  }
  EXPECT_EQ(seen, std::vector<int>(nodes, 1));
  EXPECT_EQ(blocks, std::vector<int>(folding.blocks.size(), 1));
}

TEST(Folding, MakesOneBlockOfALayer) {
  const std::vector<GraphNode> nodes = transformer(24);
  const Folding folding = fold(nodes, 2);
  expect_partition(folding, nodes.size());
  EXPECT_EQ(copies(folding), (std::vector<std::size_t>{1, 24, 1}));
  EXPECT_EQ(folding.blocks[1].scope, "layers.0");
  EXPECT_EQ(folding.blocks[1].nodes, (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Folding, DoesNotDependOnTheThresholdWhileLayersAreAsMany) {
  const std::vector<GraphNode> nodes = transformer(24);
  for (std::int64_t duplicates = 2; duplicates <= 24; ++duplicates) {
    EXPECT_EQ(fold(nodes, duplicates).unique.size(), 3U) << duplicates;
  }
}

// More than there are layers: one level below there are 96 equal projections.
TEST(Folding, GoesDownALevelWhereTheThresholdIsHigher) {
  const std::vector<GraphNode> nodes = transformer(24);
  for (const std::int64_t duplicates : {25, 96}) {
    const Folding folding = fold(nodes, duplicates);
    expect_partition(folding, nodes.size());
    EXPECT_EQ(copies(folding), (std::vector<std::size_t>{1, 96, 24, 24, 1})) << duplicates;
  }
}

// An encoder and a decoder with the same embedding: that is no reason to take each of them whole.
TEST(Folding, IsNotMisledByWhatIsSmall) {
  std::vector<GraphNode> nodes;
  for (const char* half : {"encoder", "decoder"}) {
    nodes.push_back(node(std::string(half) + ".embed", "embedding"));
    for (int layer = 0; layer < 3; ++layer) {
      const std::string scope = std::string(half) + ".block." + std::to_string(layer);
      nodes.push_back(node(scope + ".in", "square"));
      if (*half == 'd') nodes.push_back(node(scope + ".cross", "square"));
      nodes.push_back(node(scope + ".out", "square"));
    }
  }
  EXPECT_EQ(copies(fold(nodes, 2)), (std::vector<std::size_t>{2, 3, 3}));
}

TEST(Folding, FoldsNothingAtOne) {
  for (const bool named : {true, false}) {
    const std::vector<GraphNode> nodes = transformer(4, named);
    const Folding folding = fold(nodes, 1);
    expect_partition(folding, nodes.size());
    EXPECT_EQ(folding.unique.size(), nodes.size());
  }
}

TEST(Folding, FoldsSingleGraphNodesAboveAllCounts) {
  for (const bool named : {true, false}) {
    const std::vector<GraphNode> nodes = transformer(4, named);
    const Folding folding = fold(nodes, 17);
    expect_partition(folding, nodes.size());
    EXPECT_EQ(folding.blocks.size(), nodes.size());
    EXPECT_EQ(copies(folding), (std::vector<std::size_t>{1, 16, 4, 4, 1}));
  }
}

TEST(Folding, TellsBlocksApartByWhatIsInThem) {
  std::vector<GraphNode> nodes = transformer(6);
  nodes[1].kind = "wider";  // of the first layer
  EXPECT_EQ(copies(fold(nodes, 2)), (std::vector<std::size_t>{1, 1, 5, 1}));
}

TEST(Folding, TellsBlocksApartByHowTheyAreJoined) {
  std::vector<GraphNode> nodes = transformer(6);
  nodes[5].producers = {0};  // the first layer's `up` no longer reads what its attention gives
  EXPECT_EQ(copies(fold(nodes, 2)), (std::vector<std::size_t>{1, 1, 5, 1}));
}

// A module that is called three times: its scope stands three times, one after the other.
TEST(Folding, CutsCallsOfOneModule) {
  std::vector<GraphNode> nodes;
  for (std::uint32_t call = 0; call < 3; ++call) {
    nodes.push_back(node("shared.up", "up"));
    nodes.push_back(node("shared.down", "down", {2 * call}));
  }
  const Folding folding = fold(nodes, 3);
  expect_partition(folding, nodes.size());
  EXPECT_EQ(copies(folding), (std::vector<std::size_t>{3}));
  EXPECT_EQ(folding.blocks[1].nodes, (std::vector<std::uint32_t>{2, 3}));
}

TEST(Folding, FindsLayersByStructureWhereNamesAreMissing) {
  const std::vector<GraphNode> nodes = transformer(24, false);
  const Folding folding = fold(nodes, 2);
  expect_partition(folding, nodes.size());
  EXPECT_FALSE(folding.by_name);
  EXPECT_EQ(copies(folding), (std::vector<std::size_t>{1, 24, 1}));
  EXPECT_EQ(folding.blocks[1].nodes, (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6}));
}

// One name that is missing is enough: a half of a tree is none.
TEST(Folding, IsByStructureIfOneNameIsMissing) {
  std::vector<GraphNode> nodes = transformer(4);
  nodes[0].scope = "";
  EXPECT_FALSE(fold(nodes, 2).by_name);
}

TEST(Folding, FindsAnEncoderAndADecoderByStructure) {
  std::vector<GraphNode> nodes;
  for (int layer = 0; layer < 5; ++layer) {
    for (const char* kind : {"a", "a", "b"}) nodes.push_back(node("", kind));
  }
  for (int layer = 0; layer < 4; ++layer) {
    for (const char* kind : {"a", "c"}) nodes.push_back(node("", kind));
  }
  const Folding folding = fold(nodes, 3);
  expect_partition(folding, nodes.size());
  EXPECT_EQ(copies(folding), (std::vector<std::size_t>{5, 4}));
}

TEST(Folding, OfNothingIsNothing) {
  EXPECT_TRUE(fold({}, 2).blocks.empty());
  EXPECT_TRUE(fold({}, 1).unique.empty());
}

}  // namespace
}  // namespace meshwright::tap
