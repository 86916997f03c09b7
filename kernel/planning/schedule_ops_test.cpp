#include "schedule_ops.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

using Kind = ChainOperationKind;

// Three stages of two nodes, "a0 b0 a1 b1 a2 b2" in a row: each b makes the chain's value behind its stage.
struct Row {
  Row() {
    graph.values.push_back({"x", {DType::float32, {4}}, kNoId, true});
    chain.owner.push_back(0);
    for (NodeId id = 0; id < 6; ++id) {
      const ValueId made = id + 1;
      graph.values.push_back({"v" + std::to_string(id), {DType::float32, {4}}, id, true});
      graph.nodes.push_back({"op", "n" + std::to_string(id), "", {{"self", id}}, {}, {made}});
      chain.owner.push_back(made);
      chain.stage_of.push_back(id / 2);
      chain.is_common.push_back(false);
    }
    for (NodeId stage = 0; stage < 3; ++stage) {
      const NodeId first = 2 * stage;
      chain.stages.push_back({{first, first + 1}, {}});
      if (stage < 2) chain.stages.back().results = {first + 2};
      bytes.stages.push_back({.input_bytes = 16});
    }
  }
  [[nodiscard]] std::vector<NodeId> again(const ChainSchedule& schedule, std::int64_t spare = 0) const {
    const ScheduledOps ops = ops_of_schedule(chain, value_makers(chain, graph, all), schedule, bytes, spare);
    std::vector<NodeId> nodes;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      if (ops.run_again[id]) nodes.push_back(id);
    }
    return nodes;
  }

  Graph graph;
  ModelChain chain;
  Recomputation all;  // that may run again
  Chain bytes;
};

TEST(ScheduleOps, NothingRunsAgainWhereAllIsKept) {
  const Row row;
  EXPECT_TRUE(row.again({{Kind::forward_keep_all, 0}, {Kind::forward_keep_all, 1}, {Kind::forward_keep_all, 2}, {Kind::backward, 2}, {Kind::backward, 1}, {Kind::backward, 0}}).empty());
}

// The value behind stage 0 is held, since stage 1 keeps its input: what makes it does not run again.
TEST(ScheduleOps, WhatTheScheduleHoldsIsNotMadeAgain) {
  const Row row;
  const ChainSchedule schedule = {{Kind::forward_keep_input, 0}, {Kind::forward_keep_input, 1}, {Kind::forward_keep_all, 2}, {Kind::backward, 2},
                                  {Kind::forward_keep_all, 1},   {Kind::backward, 1},           {Kind::forward_keep_all, 0}, {Kind::backward, 0}};
  EXPECT_EQ(row.again(schedule), (std::vector<NodeId>{0, 2}));
}

TEST(ScheduleOps, WhatItLetsGoIs) {
  const Row row;
  ChainSchedule schedule = {{Kind::forward_keep_input, 0}, {Kind::forward_keep_nothing, 1}, {Kind::forward_keep_all, 2}, {Kind::backward, 2},
                            {Kind::forward_keep_all, 0},   {Kind::forward_keep_all, 1},     {Kind::backward, 1},         {Kind::backward, 0}};
  EXPECT_EQ(row.again(schedule), (std::vector<NodeId>{0, 1, 2}));
  // The same with an operation more.
  schedule[1].kind = Kind::forward_keep_input;
  schedule.insert(schedule.begin() + 2, {Kind::drop_input, 1});
  EXPECT_EQ(row.again(schedule), (std::vector<NodeId>{0, 1, 2}));
}

// Values of 16 bytes, two of which it lets go: those behind stages that run again.
TEST(ScheduleOps, WhatTheBudgetSparesIsHeld) {
  const Row row;
  const ChainSchedule schedule = {{Kind::forward_keep_input, 0}, {Kind::forward_keep_nothing, 1}, {Kind::forward_keep_nothing, 2}, {Kind::forward_keep_all, 0},
                                  {Kind::forward_keep_all, 1},   {Kind::forward_keep_all, 2},     {Kind::backward, 2},             {Kind::backward, 1},
                                  {Kind::backward, 0}};
  EXPECT_EQ(row.again(schedule, 15), (std::vector<NodeId>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(row.again(schedule, 16), (std::vector<NodeId>{0, 2, 3, 4, 5}));
  EXPECT_EQ(row.again(schedule, 32), (std::vector<NodeId>{0, 2, 4, 5}));
}

TEST(ScheduleOps, CountsStagesThatAPlanRunsLessOften) {
  const Row row;
  const ScheduledOps ops = ops_of_schedule(row.chain, value_makers(row.chain, row.graph, row.all),
                                           ChainSchedule{{Kind::forward_keep_input, 0}, {Kind::forward_keep_nothing, 1}, {Kind::forward_keep_all, 2}, {Kind::backward, 2},
                                                         {Kind::forward_keep_input, 0}, {Kind::forward_keep_all, 1},     {Kind::backward, 1},
                                                         {Kind::forward_keep_all, 0},   {Kind::backward, 0}},
                                           row.bytes, 0);
  EXPECT_EQ(ops.stages, 2U);
  EXPECT_EQ(ops.more_than_twice, 1U);
}

// b0 also makes what a plan lets go: the value behind its stage is held, and it runs again all the same.
TEST(ScheduleOps, WhatMakesMoreThanTheHeldValueIsMadeAgain) {
  Row row;
  row.graph.values.push_back({"places", {DType::int64, {4}}, 1, false});
  row.graph.nodes[1].results.push_back(7);
  row.chain.owner.push_back(7);
  const ChainSchedule schedule = {{Kind::forward_keep_input, 0}, {Kind::forward_keep_input, 1}, {Kind::forward_keep_all, 2}, {Kind::backward, 2},
                                  {Kind::forward_keep_all, 1},   {Kind::backward, 1},           {Kind::forward_keep_all, 0}, {Kind::backward, 0}};
  EXPECT_EQ(row.again(schedule), (std::vector<NodeId>{0, 2})) << "nobody asks for the places";
  row.all = {std::vector<bool>(6, true), std::vector<bool>(8, false), std::vector<NodeId>(6, 5), {}, {}};
  row.all.made_again[7] = true;
  EXPECT_EQ(row.again(schedule), (std::vector<NodeId>{0, 1, 2}));
}

// What makes a value that is a view is what makes the storage.
TEST(ScheduleOps, KeepsTheStorageOfAView) {
  Row row;
  row.chain.owner[4] = 3;  // b1 shows what a1 makes
  const ChainSchedule schedule = {{Kind::forward_keep_all, 0}, {Kind::forward_keep_input, 1}, {Kind::forward_keep_all, 2}, {Kind::backward, 2},
                                  {Kind::forward_keep_all, 1}, {Kind::backward, 1},           {Kind::backward, 0}};
  EXPECT_EQ(row.again(schedule), (std::vector<NodeId>{3}));
}

}  // namespace
}  // namespace meshwright
