#include "meshwright/placement.h"

#include <gtest/gtest.h>

#include <functional>

namespace meshwright {
namespace {

using Nodes = std::vector<std::uint32_t>;

PlacementStage run(Nodes nodes, std::uint32_t replicas, std::uint32_t tensor = 1, Nodes variants = {}) {
  return {std::move(nodes), false, replicas, tensor, std::move(variants)};
}
PlacementStage on(Nodes nodes) { return run(std::move(nodes), 1); }
PlacementStage on_host(Nodes nodes) { return {std::move(nodes), true, 1, 1, {}}; }

std::string refusal(const PlacementProblem& problem, const std::vector<PlacementStage>& stages) {
  const Result<PlacementCost> cost = evaluate(problem, stages);
  return cost ? "" : cost.error().message;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// 0 -> 1 -> 2, and 0 -> 2; 1 takes long on a host.
LoadProblem small_load() {
  LoadProblem problem;
  problem.nodes = {{"a", 3, 4, 10, 0.5, true, false, 0}, {"b", 2, 20, 10, 0.25, true, false, 1}, {"c", 1, 2, 10, 0, true, false, 2}};
  problem.edges = {{0, 1}, {1, 2}, {0, 2}};
  problem.accelerators = 2;
  problem.hosts = 1;
  problem.accelerator_bytes = 20;
  return problem;
}

TEST(Placement, LoadsCountEachValueOnceForEachAccelerator) {
  const auto cost = evaluate(small_load(), std::vector<PlacementStage>{on({0}), on({1, 2})});
  ASSERT_TRUE(cost.ok()) << cost.error().message;
  EXPECT_EQ(cost->seconds, (std::vector<double>{3 + 0.5, 2 + 1 + 0.5}));
  EXPECT_EQ(cost->bytes, (std::vector<double>{10, 20}));
  // A host pays for nothing that moves; the accelerator beside it does.
  const auto mixed = evaluate(small_load(), std::vector<PlacementStage>{on_host({0}), on({1}), on({2})});
  ASSERT_TRUE(mixed.ok()) << mixed.error().message;
  EXPECT_EQ(mixed->seconds, (std::vector<double>{4, 2 + 0.5 + 0.25, 1 + 0.5 + 0.25}));
  EXPECT_EQ(mixed->objective, 4);
}

TEST(Placement, LoadsKeepTheirRules) {
  const LoadProblem problem = small_load();
  EXPECT_TRUE(has(refusal(problem, {on({0, 1, 2})}), "does not fit an accelerator's memory"));
  EXPECT_TRUE(has(refusal(problem, {on({1}), on_host({0, 2})}), "leads back"));
  EXPECT_TRUE(has(refusal(problem, {on({0}), on({1}), on({2})}), "3 accelerators and 0 hosts are used"));
  EXPECT_TRUE(has(refusal(problem, {on({0}), on({1})}), "node 2 is in no stage"));
  EXPECT_TRUE(has(refusal(problem, {on({0}), on_host({0, 1, 2})}), "node 0 is there twice"));
  EXPECT_TRUE(has(refusal(problem, {on({0, 1}), on({}), on({2})}), "it has no nodes"));
  LoadProblem other = problem;
  other.nodes[1].accelerator = false;
  EXPECT_TRUE(has(refusal(other, {on({0}), on({1, 2})}), "can't be on an accelerator"));
  other = problem;
  other.nodes[2].group = 0;
  EXPECT_TRUE(has(refusal(other, {on({0}), on({1, 2})}), "are of one group"));
}

// 3 is the backward of 0, and 2 a backward node alone, which 3 reads.
TEST(Placement, BackwardNodesGoWithTheirGroup) {
  LoadProblem problem = small_load();
  problem.nodes[2].backward = true;
  problem.nodes.push_back({"d", 5, 50, 0, 0.125, true, true, 0});
  problem.edges = {{0, 1}, {1, 2}, {2, 3}};
  const auto cost = evaluate(problem, std::vector<PlacementStage>{on({0, 3}), on({1, 2})});
  ASSERT_TRUE(cost.ok()) << cost.error().message;
  EXPECT_EQ(cost->seconds, (std::vector<double>{3 + 5 + 0.5 + 0, 2 + 1 + 0.5 + 0}));
  EXPECT_TRUE(has(refusal(problem, {on({2}), on_host({0, 1, 3})}), "leads back to stage 0"));
}

TEST(Placement, ReplicasShareComputeAndTransfers) {
  ReplicaProblem problem;
  problem.nodes = {{"a", 6, 8, 10}, {"b", 2, 4, 10}, {"c", 4, 0, 20}};
  problem.edges = {{0, 1}, {1, 2}, {0, 2}};
  problem.devices = 4;
  problem.bytes_per_second = 10;
  const auto cost = evaluate(problem, std::vector<PlacementStage>{run({0}, 2), run({1}, 1), run({2}, 1)});
  ASSERT_TRUE(cost.ok()) << cost.error().message;
  // (6 + 4 * 1 * 10 / (10 * 2)) / 2; 2 * (8 + 4) / 10 beats computing 2; 4 beats it.
  EXPECT_EQ(cost->seconds, (std::vector<double>{4, 2.4, 4}));
  EXPECT_TRUE(has(refusal(problem, {run({0, 1, 2}, 3)}), "they must have all 4"));
  EXPECT_TRUE(has(refusal(problem, {run({0, 1, 2}, 0)}), "it has no replicas"));
  EXPECT_TRUE(has(refusal(problem, {run({1, 2}, 2), run({0}, 2)}), "leads back"));
}

LayerProblem small_layers() {
  LayerProblem problem;
  problem.edges = {{0, 1, 5}};
  LayerNode first{"0", {{1, {{"keep", 8, 12, 3, 1, {}, {1}}, {"again", 10, 12, 1, 1, {}, {1}}}}}};
  LayerNode second{"1", {{1, {{"keep", 4, 6, 2, 2, {0}, {}}}}, {2, {{"keep", 3, 3, 1, 1, {2}, {}}}}}};
  problem.nodes = {first, second};
  problem.devices = 4;
  problem.samples = 6;
  problem.device_bytes = 9;
  problem.bytes_per_second = 2;
  return problem;
}

TEST(Placement, LayersPayForCutsReplicasAndWhatIsInFlight) {
  const auto cost = evaluate(small_layers(), std::vector<PlacementStage>{run({0}, 2, 1, {1}), run({1}, 1, 2, {0})});
  ASSERT_TRUE(cost.ok()) << cost.error().message;
  // 3 replicas behind and with the first stage are 2 for each of its own.
  EXPECT_DOUBLE_EQ(cost->seconds[0], (2 * (5 + 1) / 2.0 + 4 * 1 * 12 / 2.0 / 6) / 2 + 10 / 2.0);
  EXPECT_DOUBLE_EQ(cost->seconds[1], 2 * (5 + 2) / 2.0 + 3);
  EXPECT_EQ(cost->bytes, (std::vector<double>{2 * 1 + 1, 1 + 1}));
}

TEST(Placement, LayersKeepTheirRules) {
  const LayerProblem problem = small_layers();
  EXPECT_TRUE(has(refusal(problem, {run({0, 1}, 4, 1, {0, 0})}), "do not divide"));
  EXPECT_TRUE(has(refusal(problem, {run({0}, 3, 1, {0}), run({1}, 1, 2, {0})}), "5 devices together"));
  EXPECT_TRUE(has(refusal(problem, {run({0, 1}, 1, 2, {0, 0})}), "no such variant"));
  EXPECT_TRUE(has(refusal(problem, {run({0, 1}, 1, 1, {0})}), "a variant for each"));
  EXPECT_TRUE(has(refusal(problem, {run({0}, 1, 1, {0}), run({1}, 2, 1, {0})}), "does not fit a device's memory"));
  LayerProblem few = problem;
  few.samples = 2;
  EXPECT_TRUE(has(refusal(few, {run({0}, 1, 1, {1}), run({1}, 2, 1, {0})}), "more replicas together"));
}

TEST(Placement, ProblemsAreValidated) {
  EXPECT_TRUE(validate(PlacementProblem(small_load())).ok());
  EXPECT_TRUE(validate(PlacementProblem(small_layers())).ok());
  const auto broken = [](const std::function<void(LoadProblem&)>& change) {
    LoadProblem problem = small_load();
    change(problem);
    const Status status = validate(PlacementProblem(problem));
    return status ? std::string() : status.error().message;
  };
  EXPECT_TRUE(has(broken([](auto& p) { p.nodes.clear(); }), "no nodes"));
  EXPECT_TRUE(has(broken([](auto& p) { p.edges.push_back({2, 0}); }), "cycle"));
  EXPECT_TRUE(has(broken([](auto& p) { p.edges.push_back({1, 1}); }), "joins a node with itself"));
  EXPECT_TRUE(has(broken([](auto& p) { p.edges.push_back({1, 3}); }), "not there"));
  EXPECT_TRUE(has(broken([](auto& p) { p.nodes[1].host_seconds = -1; }), "host_seconds"));
  EXPECT_TRUE(has(broken([](auto& p) { p.nodes[1].accelerator_seconds = std::numeric_limits<double>::quiet_NaN(); }), "accelerator_seconds"));
  EXPECT_TRUE(has(broken([](auto& p) { p.accelerators = p.hosts = 0; }), "neither"));
}

// Two nodes, each alone on a device, or both in a way on two.
StepProblem small_step(StepObjective objective) {
  StepProblem problem;
  problem.objective = objective;
  problem.nodes = {{"a", 0.5}, {"b", 0}};
  problem.ways = {{"1", 1, {{1, 2, 4, 10, 3, 2}, {3, 5, 1, 20, 4, 1}}}, {"2", 2, {{1, 1, 4, 5, 2, 2}, {2, 2, 4, 10, 2, 1}}}};
  problem.groups = {2};
  problem.devices = 2;
  problem.microbatches = 4;
  problem.device_bytes = 50;
  return problem;
}

PlacementStage step_stage(Nodes nodes, std::uint32_t devices, std::uint32_t way) {
  PlacementStage stage = run(std::move(nodes), devices);
  stage.way = way;
  return stage;
}

TEST(Placement, AlpaCountsAStepThatFillsAndDrains) {
  const PlacementProblem problem = small_step(StepObjective::alpa);
  EXPECT_EQ(name(problem), "alpa");
  const auto two = evaluate(problem, std::vector<PlacementStage>{step_stage({0}, 1, 0), step_stage({1}, 1, 0)});
  ASSERT_TRUE(two.ok()) << two.error().message;
  EXPECT_EQ(two->seconds, (std::vector<double>{3 + 1, 8 + 0.25}));
  EXPECT_EQ(two->objective, 4 + 8.25 + 3 * 8.25);
  EXPECT_EQ(two->bytes, (std::vector<double>{10 + 2 * 3 + 2, 20 + 4 + 1}));  // two microbatches in flight, and one
  const auto one = evaluate(problem, std::vector<PlacementStage>{step_stage({0, 1}, 2, 1)});
  ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(one->objective, 4 * (6 + 2));
}

TEST(Placement, DapplesPivotDecides) {
  StepProblem problem = small_step(StepObjective::dapple);
  EXPECT_EQ(name(PlacementProblem(problem)), "dapple");
  const std::vector<PlacementStage> two = {step_stage({0}, 1, 0), step_stage({1}, 1, 0)};
  // b is the pivot: the forwards up to it, three times itself, and a's sums of gradients behind all backwards.
  EXPECT_EQ(evaluate(PlacementProblem(problem), two)->objective, (1 + 0.5 + 3) + 3 * 8 + (4 + 5 + 0.5 + 2));
  std::swap(problem.ways[0].nodes[0], problem.ways[0].nodes[1]);
  problem.ways[0].nodes[1].once_seconds = 30;
  // a is the pivot, and b's sums of gradients begin before its last backward ends.
  EXPECT_EQ(evaluate(PlacementProblem(problem), two)->objective, 3 + 3 * 8 + (30 - 5 - 0.5 - 2));
  EXPECT_EQ(evaluate(PlacementProblem(problem), std::vector<PlacementStage>{step_stage({0, 1}, 2, 1)})->objective, 3 + 3 * 6 + 3 + 8);
}

TEST(Placement, StepsKeepTheirRules) {
  StepProblem problem = small_step(StepObjective::alpa);
  EXPECT_TRUE(has(refusal(problem, {step_stage({1}, 1, 0), step_stage({0}, 1, 0)}), "leads back"));
  EXPECT_TRUE(has(refusal(problem, {step_stage({0, 1}, 1, 0)}), "they must have all 2"));
  EXPECT_TRUE(has(refusal(problem, {step_stage({0, 1}, 2, 2)}), "there is no way 2"));
  EXPECT_TRUE(has(refusal(problem, {step_stage({0, 1}, 2, 0)}), "its way is of 1 devices, and it has 2"));
  problem.devices = 3;
  EXPECT_TRUE(has(refusal(problem, {step_stage({0}, 1, 0), step_stage({1}, 2, 1)}), "2 devices from 1 on tear a group"));
  EXPECT_TRUE(are_together(problem.groups, 2, 1));
  problem = small_step(StepObjective::alpa);
  problem.device_bytes = 24;
  EXPECT_TRUE(has(refusal(problem, {step_stage({0}, 1, 0), step_stage({1}, 1, 0)}), "stage 1: it does not fit a device's memory"));
  const auto broken = [](const std::function<void(StepProblem&)>& change) {
    StepProblem problem = small_step(StepObjective::dapple);
    change(problem);
    const Status status = validate(PlacementProblem(problem));
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(broken([](auto&) {}), "");
  EXPECT_TRUE(has(broken([](auto& p) { p.ways.clear(); }), "no ways"));
  EXPECT_TRUE(has(broken([](auto& p) { p.ways[1].nodes.pop_back(); }), "way '2' on 2 devices: it must have what each of the 2 nodes takes"));
  EXPECT_TRUE(has(broken([](auto& p) { p.ways[1].nodes[0].saved_bytes = -1; }), "way '2' on 2 devices, node 'a': saved_bytes"));
  EXPECT_TRUE(has(broken([](auto& p) { p.nodes[0].crossing_seconds = -1; }), "crossing_seconds"));
  EXPECT_TRUE(has(broken([](auto& p) { p.groups = {0}; }), "groups"));
  EXPECT_TRUE(has(broken([](auto& p) { p.microbatches = 0; }), "microbatches"));
}

// Says what it is told to.
class Parrot final : public InterSolver {
 public:
  explicit Parrot(PlacementAnswer answer) : answer_(std::move(answer)) {}

 private:
  Result<PlacementAnswer> do_solve(const PlacementProblem&) const override { return answer_; }
  PlacementAnswer answer_;
};

TEST(Placement, ClaimsAreHeldAgainstTheStages) {
  PlacementAnswer answer;
  answer.stages = {on({0}), on({1, 2})};
  answer.objective = 3.5;
  EXPECT_TRUE(Parrot(answer).solve(small_load()).ok());
  answer.objective = 3.4;
  const auto wrong = Parrot(answer).solve(small_load());
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::plugin_failed);
  EXPECT_TRUE(has(wrong.error().message, "claims"));
  answer.status = SolveStatus::infeasible;
  EXPECT_TRUE(has(Parrot(answer).solve(small_load()).error().message, "gives stages"));
  answer.stages.clear();
  EXPECT_TRUE(has(Parrot(answer).solve(small_load()).error().message, "not why"));
  answer.binding = "no room";
  EXPECT_TRUE(Parrot(answer).solve(small_load()).ok());
}

}  // namespace
}  // namespace meshwright
