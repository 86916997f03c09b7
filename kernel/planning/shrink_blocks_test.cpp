#include "shrink_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "block_choices.h"
#include "meshwright/graph_builder.h"

namespace meshwright {
namespace {

const TensorType kWide{DType::float32, {8}};
const TensorType kNarrow{DType::float32, {4}};

// Blocks in a chain, each with a weight.
struct Chain {
  Chain() {
    graph.name = "model";
    last = source(SourceKind::user_input, "x", kWide);
    last = emit("embed", {last, source(SourceKind::parameter, "e", kWide)}, "");
  }

  ValueId source(SourceKind kind, const std::string& name, const TensorType& type) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({name, type, kNoId, kind == SourceKind::parameter});
    graph.sources.push_back({kind, id, {name}});
    return id;
  }
  ValueId emit(const std::string& op, std::vector<ValueId> operands, const std::string& module, TensorType type = kWide) {
    std::vector<Operand> named;
    for (const ValueId operand : operands) named.push_back({"o" + std::to_string(named.size()), operand});
    const ValueId made = build.emit(op, named, {}, std::move(type));
    graph.nodes.back().module_path = module;
    mark_gradients(graph);
    return made;
  }
  void add_block(const TensorType& type = kWide, ValueId also = kNoId) {
    const std::string name = "layers." + std::to_string(count++);
    const ValueId inner = emit("mul", {last, source(SourceKind::parameter, name + ".w", kWide)}, name + ".mul");
    std::vector<ValueId> added{emit("turn", {inner}, "rotary"), last};  // a module that all blocks share
    if (also != kNoId) added.insert(added.begin(), also);
    last = emit("add", added, name, type);
  }
  FewBlocks few() {
    graph.outputs = {{OutputKind::loss, emit("loss", {last}, ""), ""}};
    return with_few_blocks(graph, {});
  }

  Graph graph;
  GraphBuilder build{graph, "n"};
  ValueId last = kNoId;
  int count = 0;
};

using Names = std::vector<std::string>;

TEST(FewBlocks, OfBlocksThatAreAlikeTheFirstAndTheLastStay) {
  Chain chain;
  for (int i = 0; i < 5; ++i) chain.add_block();
  const FewBlocks few = chain.few();
  EXPECT_EQ(few.blocks.size(), 5u);
  EXPECT_EQ(few.kept, (Names{"layers.0", "layers.4"}));
  EXPECT_TRUE(few.stays.empty());
  EXPECT_EQ(few.places.size(), 3u);
  EXPECT_EQ(few.graph.sources.size(), 4u);  // the input, and three weights
  EXPECT_EQ(few.graph.nodes.size(), 8u);
  const Node& next = few.graph.nodes[4];
  EXPECT_EQ(next.op, "mul");
  EXPECT_EQ(few.graph.values[next.operands[0].value].producer, 3u);  // what the first block made
  EXPECT_TRUE(validate(few.graph));
}

TEST(FewBlocks, ABlockThatHandsOnAnotherTypeStays) {
  Chain chain;
  for (int i = 0; i < 3; ++i) chain.add_block();
  chain.add_block(kNarrow);
  EXPECT_EQ(chain.few().kept, (Names{"layers.0", "layers.2", "layers.3"}));
}

TEST(FewBlocks, OfTwoValuesTheOneInTheChainTakesThePlace) {
  Chain chain;
  const ValueId memory = chain.last;  // of an encoder, which all of them read
  chain.last = chain.emit("start", {memory}, "");
  for (int i = 0; i < 4; ++i) chain.add_block(kWide, memory);
  const std::string first = chain.graph.values[chain.graph.nodes[4].results[0]].name;
  const FewBlocks few = chain.few();
  EXPECT_EQ(few.kept, (Names{"layers.0", "layers.3"}));
  EXPECT_TRUE(std::ranges::any_of(few.places, [&](const auto& place) { return place.second == first; }));
}

TEST(FewBlocks, WhatOthersReadOfABlockIsNotLost) {
  Chain chain;
  for (int i = 0; i < 3; ++i) chain.add_block();
  const ValueId inside = chain.graph.nodes[4].results[0];  // of the second one
  chain.last = chain.emit("join", {chain.last, inside}, "");
  const FewBlocks few = chain.few();
  EXPECT_EQ(few.kept.size(), 3u);
  ASSERT_EQ(few.stays.size(), 1u);
  EXPECT_EQ(few.stays[0].block, "layers.1");
  EXPECT_THAT(few.stays[0].why, testing::HasSubstr("hands on 2 values"));
}

}  // namespace
}  // namespace meshwright
