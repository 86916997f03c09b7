#include "placed_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "idle_devices.h"
#include "meshwright/graph_builder.h"

namespace meshwright {
namespace {

using testing::ElementsAre;

const TensorType kEight{DType::float32, {8}};  // 32 bytes

// a and c compute with the same weight, which is counted once; what no parameter goes into is nobody's; a frozen parameter needs no gradient.
//
//   unit 0: mask, a     unit 1: b     unit 2: c, d
struct PlacedGraph {
  PlacedGraph() {
    const ValueId x = source(SourceKind::user_input, "x"), w = source(SourceKind::parameter, "w"), v = source(SourceKind::parameter, "v"), still = source(SourceKind::parameter, "still");
    graph.values[still].requires_gradient = false;
    const ValueId mask = emit({x}), a = emit({mask, w}), b = emit({a, v}), c = emit({b, w}), d = emit({c, still});
    graph.outputs = {{OutputKind::loss, d, ""}};
    units.units = {{0, 2, 0, 100}, {2, 3, 1, 200}, {3, 5, 0, 0}};
    units.bound = {false, true, true, true, true};
    units.seconds = {64, 1, 2, 4, 8};
    units.kinds = 2;
  }

  ValueId source(SourceKind kind, const std::string& name) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({name, kEight, kNoId, kind == SourceKind::parameter});
    graph.sources.push_back({kind, id, {name}});
    return id;
  }
  ValueId emit(const std::vector<ValueId>& operands) {
    std::vector<Operand> named;
    for (const ValueId operand : operands) named.push_back({"o" + std::to_string(named.size()), operand});
    return build.emit("op", named, {}, kEight);
  }

  Graph graph;
  GraphBuilder build{graph, "n"};
  ModelUnits units;
};

Cluster two_servers() {
  Cluster cluster;
  cluster.name = "two servers";
  cluster.devices_per_node = 4;
  cluster.nodes = 2;
  cluster.levels = {{"server", 4, 20e9, 2e-6}, {"network", 8, 10e9, 0.5, 4}};
  return cluster;
}

PlacedLine line() {
  const PlacedGraph model;
  return placed_line(model.graph, model.units, two_servers());
}

PlacedWay way(std::uint32_t tensor, const std::string& name, double resident, double saved) {
  UnitCost first, second;
  first.forward_seconds = 1.0 / tensor, first.input_gradient_seconds = 2, first.weight_gradient_seconds = 3, first.update_seconds = 100;
  first.resident_bytes = resident, first.saved_bytes = saved, first.passing_bytes = 1000;
  second = first * 2;
  return {tensor, name, {first, second}};
}

TEST(PlacedStages, ALineHasAllSecondsAndEachParameterOnce) {
  const PlacedLine made = line();
  EXPECT_THAT(made.seconds, ElementsAre(1, 2, 12));
  EXPECT_THAT(made.parameter_bytes, ElementsAre(32, 32, 0));
  EXPECT_EQ(made.devices, 8U);
  EXPECT_DOUBLE_EQ(made.bytes_per_second, 10e9 / 4);  // four devices share the network's link
  EXPECT_DOUBLE_EQ(made.latency_seconds, 0.5);
}

TEST(PlacedStages, ReplicasSayWhatIsSentAndReduced) {
  const ReplicaProblem problem = replica_problem(line());
  ASSERT_TRUE(validate(PlacementProblem(problem)));
  ASSERT_EQ(problem.nodes.size(), 3U);
  EXPECT_EQ(problem.edges.size(), 2U);
  EXPECT_EQ(problem.nodes[1].output_bytes, 200);
  EXPECT_EQ(problem.nodes[1].parameter_bytes, 32);
  EXPECT_EQ(problem.nodes[2].seconds, 12);
  EXPECT_EQ(problem.devices, 8U);
}

TEST(PlacedStages, LoadsHoldParametersAndOneMicrobatch) {
  const LoadProblem problem = load_problem(line(), way(1, "vanilla", 40, 5), 256);
  ASSERT_TRUE(validate(PlacementProblem(problem)));
  EXPECT_EQ(problem.accelerators, 8U);
  EXPECT_EQ(problem.hosts, 0U);
  EXPECT_EQ(problem.accelerator_bytes, 256);
  EXPECT_EQ(problem.nodes[0].memory_bytes, 45);
  EXPECT_EQ(problem.nodes[1].memory_bytes, 90);  // of the other kind
  EXPECT_EQ(problem.nodes[2].accelerator_seconds, 12);
  EXPECT_DOUBLE_EQ(problem.nodes[1].transfer_seconds, 2 * (0.5 + 200 / 2.5e9));  // there, and its gradient back
  // What is between two units of a stage costs no transfer.
  const std::vector<PlacementStage> one = {{{0, 1}, false, 1, 1, {}}, {{2}, false, 1, 1, {}}};
  EXPECT_DOUBLE_EQ(evaluate(PlacementProblem(problem), one)->objective, 12 + problem.nodes[1].transfer_seconds);
}

TEST(PlacedStages, LayersHaveWhatEachWayTakes) {
  const std::vector<PlacedWay> ways = {way(1, "vanilla", 40, 8), way(1, "activation recomp", 40, 2), way(2, "vanilla", 20, 4), way(2, "activation recomp", 20, 1)};
  const LayerProblem problem = layer_problem(line(), ways, 16, 256);
  ASSERT_TRUE(validate(PlacementProblem(problem)));
  EXPECT_EQ(problem.samples, 16U);
  EXPECT_EQ(problem.edges[1].bytes, 200);
  ASSERT_EQ(problem.nodes[1].degrees.size(), 2U);
  const LayerDegree &alone = problem.nodes[1].degrees[0], &two = problem.nodes[1].degrees[1];
  ASSERT_EQ(alone.variants.size(), 2U);
  EXPECT_EQ(two.tensor, 2U);
  EXPECT_EQ(two.variants[1].name, "activation recomp");
  EXPECT_EQ(alone.variants[0].seconds, 12);  // forward and backward, no update
  EXPECT_EQ(two.variants[0].seconds, 11);
  EXPECT_EQ(alone.variants[0].parameter_bytes, 32);
  EXPECT_EQ(two.variants[0].parameter_bytes, 16);  // as its memory says: each device has half
  EXPECT_EQ(two.variants[1].bytes_per_stage_in_flight, 2);
  EXPECT_EQ(two.variants[1].fixed_bytes, 40);
}

TEST(PlacedStages, AnAnswerIsACutWithAMeshForEachStage) {
  const PlacedGraph model;
  PlacementAnswer answer;
  answer.stages = {{{0}, false, 2, 1, {}}, {{1}, false, 1, 2, {}}, {{2}, false, 2, 2, {}}};
  const StageCutWish wish = placed_wish(model.units, answer);
  EXPECT_THAT(wish.stage_of, ElementsAre(0, 0, 1, 2, 2));
  EXPECT_THAT(wish.devices, ElementsAre(2, 2, 4));
  ASSERT_EQ(wish.stages.size(), 3U);
  EXPECT_EQ(wish.stages[0], (StageCutWish::Stage{"2", true}));
  EXPECT_EQ(wish.stages[1], (StageCutWish::Stage{"2", false}));
  EXPECT_EQ(wish.stages[2], (StageCutWish::Stage{"2x2", true}));
  EXPECT_EQ(devices_of(answer), 8);
}

TEST(PlacedStages, AMicrobatchIsAsManySamplesAsRunAtOnce) {
  const auto microbatches = [](std::vector<std::uint32_t> replicas, std::int64_t samples, std::int64_t batch) {
    PlacementAnswer answer;
    for (const std::uint32_t count : replicas) answer.stages.push_back({{0}, false, count, 1, {}});
    return placed_microbatches(answer, samples, batch);
  };
  EXPECT_EQ(microbatches({1, 1}, 8, 8), 8);
  EXPECT_EQ(microbatches({2, 1}, 8, 8), 4);
  EXPECT_EQ(microbatches({2, 3}, 12, 24), 2);
  EXPECT_EQ(microbatches({8}, 4, 8), 1);   // replicas share what is one sample of the problem
  EXPECT_EQ(microbatches({4}, 2, 8), 2);
  EXPECT_EQ(microbatches({3, 5}, 8, 8), std::nullopt);
}

// --- devices that an answer leaves idle ---

LoadProblem loads(const std::vector<double>& seconds, double transfer_seconds, std::uint32_t devices) {
  LoadProblem problem;
  for (std::uint32_t u = 0; u < seconds.size(); ++u) {
    LoadNode node;
    node.name = std::to_string(u);
    node.accelerator_seconds = seconds[u];
    node.transfer_seconds = transfer_seconds;
    node.group = u;
    problem.nodes.push_back(node);
    if (u > 0) problem.edges.push_back({u - 1, u, 0});
  }
  problem.accelerators = devices;
  problem.accelerator_bytes = 1;
  return problem;
}

std::vector<std::size_t> sizes_with_idle_used(const LoadProblem& problem, std::vector<PlacementStage> stages) {
  PlacementAnswer answer;
  answer.stages = std::move(stages);
  answer.objective = evaluate(PlacementProblem(problem), answer.stages)->objective;
  const PlacementAnswer made = with_idle_devices_used(problem, answer, problem.accelerators);
  EXPECT_LE(evaluate(PlacementProblem(problem), made.stages)->objective, answer.objective);
  std::vector<std::size_t> sizes;
  for (const PlacementStage& stage : made.stages) sizes.push_back(stage.nodes.size());
  return sizes;
}

TEST(IdleDevices, AreUsedWhereThatCostsNothing) {
  const std::vector<PlacementStage> two = {{{0}, false, 1, 1, {}}, {{1, 2, 3, 4}, false, 1, 1, {}}};
  EXPECT_THAT(sizes_with_idle_used(loads({4, 1, 1, 1, 1}, 0, 3), two), ElementsAre(1, 2, 2));
  EXPECT_THAT(sizes_with_idle_used(loads({4, 1, 1, 1, 1}, 0, 9), two), ElementsAre(1, 1, 1, 1, 1));  // and the rest stays idle
  // Of two stages that take 5 with what is sent, the second one becomes two that take 1 + 2 and 3 + 1.
  EXPECT_THAT(sizes_with_idle_used(loads({4, 1, 1, 1, 1}, 1, 3), two), ElementsAre(1, 1, 3));
  // Here the middle one of three would receive and send.
  EXPECT_THAT(sizes_with_idle_used(loads({1, 2, 2}, 3, 3), {{{0}, false, 1, 1, {}}, {{1, 2}, false, 1, 1, {}}}), ElementsAre(1, 2));
}

}  // namespace
}  // namespace meshwright
