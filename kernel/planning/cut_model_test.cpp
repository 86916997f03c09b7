#include "cut_model.h"

#include <gtest/gtest.h>

#include "meshwright/graph_builder.h"
#include "stage_devices.h"

namespace meshwright {
namespace {

const TensorType kOne{DType::float32, {8}};

struct CutGraph {
  CutGraph() { graph.name = "model"; }

  ValueId source(SourceKind kind, const std::string& name, TensorType type = kOne) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({name, std::move(type), kNoId, kind == SourceKind::parameter});
    graph.sources.push_back({kind, id, {name}});
    return id;
  }
  ValueId emit(const std::string& op, std::vector<ValueId> operands, TensorType type = kOne) {
    std::vector<Operand> named;
    for (const ValueId operand : operands) named.push_back({"o" + std::to_string(named.size()), operand});
    const ValueId made = build.emit(op, named, {}, type);
    mark_gradients(graph);
    return made;
  }
  // By the nodes' order.
  Result<CutModel> cut(std::vector<std::uint32_t> stage_of, std::uint32_t stages) { return cut_model(graph, stage_of, stages); }
  std::string refusal(std::vector<std::uint32_t> stage_of, std::uint32_t stages) {
    const Result<CutModel> made = cut(std::move(stage_of), stages);
    return made ? "" : made.error().message;
  }

  Graph graph;
  GraphBuilder build{graph, "n"};
};

std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> all;
  for (const Node& node : graph.nodes) all.push_back(node.op);
  return all;
}

using Names = std::vector<std::string>;

TEST(CutModel, AValueGoesToEveryStageThatUsesIt) {
  CutGraph model;
  const ValueId x = model.source(SourceKind::user_input, "x"), w = model.source(SourceKind::parameter, "w");
  const ValueId a = model.emit("a", {x, w}), b = model.emit("b", {a}), c = model.emit("c", {b, a});
  model.graph.outputs = {{OutputKind::loss, c, ""}};
  const CutModel cut = model.cut({0, 1, 2}, 3).value();
  const std::string &name_a = model.graph.values[a].name, &name_b = model.graph.values[b].name;
  EXPECT_EQ(cut.boundaries, (std::vector<StageBoundary>{{name_a, 0, {1, 2}}, {name_b, 1, {2}}}));
  EXPECT_TRUE(cut.shared.empty());
  EXPECT_EQ(ops(cut.graphs[0]), Names{"a"});
  EXPECT_EQ(cut.graphs[0].outputs.front().kind, OutputKind::sent);
  EXPECT_EQ(cut.graphs[1].sources.front().kind, SourceKind::received);
  EXPECT_EQ(cut.graphs[1].sources.front().names, Names{name_a});
  EXPECT_EQ(cut.graphs[2].outputs.front().kind, OutputKind::loss);
  for (const Graph& graph : cut.graphs) EXPECT_TRUE(validate(graph)) << validate(graph).error().message;
  EXPECT_EQ(cut.part_of(1).boundaries.size(), 2U);
}

TEST(CutModel, WhatDependsOnNoParameterIsMadeWhereItIsUsed) {
  CutGraph model;
  const ValueId x = model.source(SourceKind::user_input, "x"), w = model.source(SourceKind::parameter, "w");
  const ValueId mask = model.emit("mask", {x}), a = model.emit("a", {mask, w}), b = model.emit("b", {a, mask});
  model.graph.outputs = {{OutputKind::loss, b, ""}};
  const CutModel cut = model.cut({0, 0, 1}, 2).value();
  EXPECT_EQ(ops(cut.graphs[0]), (Names{"mask", "a"}));
  EXPECT_EQ(ops(cut.graphs[1]), (Names{"mask", "b"}));
  EXPECT_EQ(cut.boundaries.size(), 1U);
}

TEST(CutModel, TiedWeightsAreInBothStages) {
  CutGraph model;
  const ValueId x = model.source(SourceKind::user_input, "x"), w = model.source(SourceKind::parameter, "w");
  const ValueId a = model.emit("a", {x, w}), b = model.emit("b", {a, w});
  model.graph.outputs = {{OutputKind::loss, b, ""}};
  const CutModel cut = model.cut({0, 1}, 2).value();
  EXPECT_EQ(cut.shared, (std::vector<SharedParameter>{{"w", {0, 1}}}));
  EXPECT_EQ(cut.part_of(0).shared.size(), 1U);
}

TEST(CutModel, AChoiceOfARouterCannotCross) {
  CutGraph model;
  const ValueId x = model.source(SourceKind::user_input, "x"), w = model.source(SourceKind::parameter, "w");
  const ValueId a = model.emit("a", {x, w}), choice = model.emit("topk", {a}, {DType::int64, {8}});
  model.graph.values[choice].name = "choice";
  const ValueId b = model.emit("b", {a, choice});
  model.graph.outputs = {{OutputKind::loss, b, ""}};
  EXPECT_NE(model.refusal({0, 0, 1}, 2).find("'choice' is made of parameters in stage 0, has no gradient, and is used in stage 1"), std::string::npos) << model.refusal({0, 0, 1}, 2);
  EXPECT_EQ(model.refusal({0, 1, 1}, 2), "");
}

TEST(CutModel, ABufferBelongsToOneStage) {
  CutGraph model;
  const ValueId x = model.source(SourceKind::user_input, "x"), w = model.source(SourceKind::parameter, "w"), mean = model.source(SourceKind::buffer, "mean");
  const ValueId a = model.emit("a", {x, w, mean}), now = model.emit("now", {a, mean}), b = model.emit("b", {a, mean});
  model.graph.outputs = {{OutputKind::loss, b, ""}, {OutputKind::buffer_mutation, now, "mean"}};
  EXPECT_NE(model.refusal({0, 0, 1}, 2).find("buffer 'mean' is changed in stage 0 and read in stage 1"), std::string::npos);
}

TEST(CutModel, NoStageIsEmpty) {
  CutGraph model;
  const ValueId x = model.source(SourceKind::user_input, "x"), w = model.source(SourceKind::parameter, "w");
  model.graph.outputs = {{OutputKind::loss, model.emit("a", {x, w}), ""}};
  EXPECT_EQ(model.refusal({0}, 2), "stage 1 of 2 would have nothing to compute; take fewer stages");
}

// --- the devices of stages ---

Cluster two_servers() {
  Cluster cluster;
  cluster.name = "two servers";
  cluster.devices_per_node = 8;
  cluster.nodes = 2;
  cluster.levels = {{"pair", 2, 200e9, 1e-6}, {"server", 8, 20e9, 2e-6}, {"network", 16, 10e9, 5e-6, 8}};
  return cluster;
}

TEST(StageDevices, AreServersOrEvenPartsOfOne) {
  const Cluster server = StageDevices::even(two_servers(), 2)->cluster(1), pair = StageDevices::even(two_servers(), 8)->cluster(7), half = StageDevices::even(two_servers(), 4)->cluster(3);
  EXPECT_EQ(server.devices(), 8);
  EXPECT_EQ(server.levels.size(), 2U);
  EXPECT_EQ(pair.levels.size(), 1U);
  EXPECT_EQ(half.levels.back().name, "server");
  EXPECT_EQ(half.levels.back().group, 4);
  EXPECT_TRUE(StageDevices::even(two_servers(), 16)->cluster(15).levels.empty());
  EXPECT_EQ(StageDevices::even(two_servers(), 3).error().message,
            "16 devices of 'two servers' in 3 stages: each stage gets as many; take a number of stages that divides them, or say how many each gets (\"stage_devices\" in [search])");
}

TEST(StageDevices, TheSlowestLinkJoinsStages) {
  const StageLink network = StageDevices::even(two_servers(), 2)->link(0, 1);
  EXPECT_DOUBLE_EQ(network.seconds_per_byte, 8 / 10e9);  // eight devices share a card
  EXPECT_DOUBLE_EQ(network.latency_seconds, 5e-6);
  const StageDevices four = StageDevices::even(two_servers(), 4).value();
  EXPECT_DOUBLE_EQ(four.link(0, 1).seconds_per_byte, 1 / 20e9);
  EXPECT_DOUBLE_EQ(four.link(2, 1).seconds_per_byte, 8 / 10e9);
  EXPECT_DOUBLE_EQ(four.slowest_link().seconds_per_byte, 8 / 10e9 / 4);  // of all that four devices send
}

TEST(StageDevices, MayBeUnlike) {
  const StageDevices devices = StageDevices::make(two_servers(), {8, 4, 2, 1, 1}).value();
  EXPECT_EQ(devices.counts(), (std::vector<std::int64_t>{8, 4, 2, 1, 1}));
  EXPECT_EQ(devices.cluster(1).levels.back().name, "server");
  EXPECT_EQ(devices.cluster(2).devices(), 2);
  // What four devices receive from eight goes over a link each; what eight receive from four over half as many.
  EXPECT_DOUBLE_EQ(devices.link(0, 1).seconds_per_byte, 8 / 10e9);
  EXPECT_DOUBLE_EQ(devices.link(1, 0).seconds_per_byte, 2 * 8 / 10e9);
  EXPECT_DOUBLE_EQ(devices.link(3, 2).seconds_per_byte, 2 / 20e9);
  EXPECT_DOUBLE_EQ(devices.link(3, 4).seconds_per_byte, 1 / 200e9);
}

// The two servers of unlike links, as one cluster.
TEST(StageDevices, OfPartsAreJoinedByTheirOwnLinks) {
  Cluster near = two_servers(), far = two_servers();
  near.nodes = far.nodes = 1;
  near.levels = {{"server", 8, 20e9, 2e-6}};
  far.levels = {{"rail", 8, 5e9, 2e-6}};
  const Cluster both = joined("both", {near, far}, {"network", 16, 10e9, 5e-6, 8});
  EXPECT_EQ(both.devices(), 16);
  const StageDevices devices = StageDevices::make(both, {4, 4, 2, 6}).value();
  EXPECT_EQ(devices.cluster(2).levels.front().name, "rail");
  EXPECT_DOUBLE_EQ(devices.link(0, 1).seconds_per_byte, 1 / 20e9);
  EXPECT_DOUBLE_EQ(devices.link(2, 1).seconds_per_byte, 2 * 8 / 10e9);
  EXPECT_DOUBLE_EQ(devices.link(2, 3).seconds_per_byte, 3 * 1 / 5e9);
  EXPECT_EQ(StageDevices::even(both, 1).error().message.substr(0, 58), "stage 0: devices 0 to 15 of 'both' are unlike (8 x  and 8 ");
}

TEST(StageDevices, NeedNotDivideAServer) {
  Cluster server = two_servers();
  server.nodes = 1;
  server.levels = {{"server", 8, 20e9, 2e-6}};
  EXPECT_EQ(StageDevices::make(server, {3, 5})->cluster(1).levels.front().group, 5);
}

TEST(StageDevices, ThatAreNoPartAreRefusedByName) {
  const auto refusal = [](const std::vector<std::int64_t>& devices) { return StageDevices::make(two_servers(), devices).error().message; };
  EXPECT_EQ(refusal({8, 4}), "the stages have 12 devices together, and there are 16 devices of 'two servers'; each device is in one stage");
  EXPECT_EQ(refusal({4, 8, 4}), "stage 1: devices 4 to 11 of 'two servers' are parts of several servers of 8; take whole ones, or devices of one of them");
  EXPECT_EQ(refusal({1, 2, 5, 8}), "stage 1: devices 1 to 2 of 'two servers' are parts of several groups of level 'pair', which joins 2; take whole ones, or devices of one of them");
}

}  // namespace
}  // namespace meshwright
