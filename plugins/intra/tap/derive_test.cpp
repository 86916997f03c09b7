// TAP's parts on a model that is small enough to see through.
#include "derive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "small_model.h"

namespace meshwright::tap {
namespace {

using test::SmallModel;

struct Parts {
  explicit Parts(const SmallModel& model) : input(model.given()), trimmed(trim(input, model.problem)), folding(fold(trimmed.nodes, 2)) {}

  // One block of both layers, so that all nine plans are its own.
  void join_layers() {
    folding.blocks = {{"all", {0, 1}}};
    folding.unique = {{0}};
  }

  ProblemInput input;
  TrimmedGraph trimmed;
  Folding folding;
  Meter meter{SearchLimits()};
};

TEST(Trim, KeepsTheLinearLayers) {
  const SmallModel model(8, {4});
  const Parts parts(model);
  ASSERT_EQ(parts.trimmed.nodes.size(), 2U);
  EXPECT_EQ(parts.trimmed.nodes[0].scope, "up");
  EXPECT_EQ(parts.trimmed.nodes[1].scope, "down");
  EXPECT_TRUE(parts.trimmed.nodes[0].producers.empty());
  EXPECT_EQ(parts.trimmed.nodes[1].producers, (std::vector<std::uint32_t>{0}));  // through the scale and the activation
  EXPECT_NE(parts.trimmed.nodes[0].kind, parts.trimmed.nodes[1].kind);
}

TEST(Trim, LetsTheRestFollow) {
  const SmallModel model(8, {4});
  const Parts parts(model);
  for (const char* name : {"up.weight", "scale.weight"}) EXPECT_TRUE(parts.trimmed.is_weight[model.variable(name)]) << name;
  EXPECT_EQ(parts.trimmed.owner[model.variable("up.weight")], 0U);
  EXPECT_EQ(parts.trimmed.owner[model.variable("scale.weight")], 0U);
  EXPECT_EQ(parts.trimmed.owner[model.variable("down.weight")], 1U);
  EXPECT_EQ(std::count(parts.trimmed.owner.begin(), parts.trimmed.owner.end(), kNoId), 0);
}

TEST(Patterns, AreReplicaAndASplitOfEachDimension) {
  const SmallModel model(8, {4});
  const Parts parts(model);
  Patterns patterns(parts.input, model.problem, parts.trimmed);
  EXPECT_EQ(patterns.available(0, 1), (std::vector<Pattern>{kReplica, 1, 2}));
  EXPECT_EQ(patterns.available(0, 0), (std::vector<Pattern>{kReplica}));
  const auto& strategies = model.problem.variables[parts.trimmed.nodes[0].variable].set->strategies;
  const auto& shape = model.model.atoms->values[model.up];
  const auto texts = [&](Pattern pattern) {
    std::vector<std::string> all;
    for (const std::uint32_t s : patterns.of(0, pattern, 1)) {
      all.push_back(to_string(strategies[s].operand(0).value, model.model.atoms->values[model.input]) + " " + to_string(strategies[s].operand(1).value, shape));
    }
    return all;
  };
  EXPECT_EQ(texts(kReplica), (std::vector<std::string>{"S0R RR"}));
  EXPECT_EQ(texts(1), (std::vector<std::string>{"RR S0R"}));
  EXPECT_EQ(texts(2), (std::vector<std::string>{"RS0 RS0"}));
}

TEST(Patterns, AreDataParallelOnTheOtherAxes) {
  const SmallModel model(8, {2, 4});
  const Parts parts(model);
  Patterns patterns(parts.input, model.problem, parts.trimmed);
  const auto& strategies = model.problem.variables[parts.trimmed.nodes[0].variable].set->strategies;
  for (const Pattern pattern : {Pattern{1}, Pattern{2}}) {
    ASSERT_FALSE(patterns.of(0, pattern, 2).empty());
    for (const std::uint32_t s : patterns.of(0, pattern, 2)) {
      EXPECT_EQ(to_string(strategies[s].result(0).value, model.model.atoms->values[model.graph.nodes[0].results[0]]).substr(0, 2), "S0");
    }
  }
}

// 6 rows on 4 devices: something must stand in for data parallelism.
TEST(Patterns, FallBackWhereTheBatchCannotBeCut) {
  const SmallModel model(6, {4});
  const Parts parts(model);
  Patterns patterns(parts.input, model.problem, parts.trimmed);
  EXPECT_FALSE(patterns.of(0, kReplica, 1).empty());
  for (std::uint32_t v = 0; v < model.problem.variables.size(); ++v) EXPECT_FALSE(patterns.following(v, 0).empty()) << model.problem.variables[v].name;
}

TEST(Patterns, PassNoPartialValuesOn) {
  const SmallModel model(8, {4});
  const Parts parts(model);
  Patterns patterns(parts.input, model.problem, parts.trimmed);
  for (std::uint32_t v = 0; v < model.problem.variables.size(); ++v) {
    if (model.problem.variables[v].kind != VariableKind::node || v == parts.trimmed.nodes[1].variable) continue;
    for (const std::uint32_t s : patterns.following(v, 1)) {
      for (const AxisChoice& axis : model.problem.variables[v].set->strategies[s].node()->call.axes) EXPECT_NE(axis.use, AxisUse::pass_forward);
    }
  }
}

// Routes the whole model with these patterns of its two layers.
struct Routed {
  bool valid = false;
  std::vector<std::uint32_t> choice;
  TickSum communication = 0;
};

Routed route(const SmallModel& model, Pattern up, Pattern down) {
  Parts parts(model);
  Patterns patterns(parts.input, model.problem, parts.trimmed);
  Router router(parts.input, model.problem, parts.trimmed, 0, parts.meter);
  std::vector<const Router::Choices*> candidates;
  for (std::uint32_t v = 0; v < model.problem.variables.size(); ++v) candidates.push_back(&patterns.following(v, 1));
  candidates[parts.trimmed.nodes[0].variable] = &patterns.of(0, up, 1);
  candidates[parts.trimmed.nodes[1].variable] = &patterns.of(1, down, 1);
  std::vector<std::uint32_t> all(model.problem.variables.size());
  std::iota(all.begin(), all.end(), 0U);
  Routed routed;
  routed.choice.assign(all.size(), 0);
  routed.valid = router.route(all, candidates, routed.choice);
  if (routed.valid) routed.communication = router.communication(all, routed.choice);
  return routed;
}

TEST(Router, JoinsAColumnAndARowWithoutCommunicationBetween) {
  const SmallModel model(8, {4});
  const Routed routed = route(model, 1, 2);
  ASSERT_TRUE(routed.valid);
  EXPECT_TRUE(evaluate(model.problem.space, routed.choice).allowed);
  for (std::size_t e = 0; e < model.problem.edges.size(); ++e) {
    const std::string& name = model.graph.values[model.problem.edges[e].value].name;
    if (name != "n0" && name != "n1" && name != "n2") continue;  // from the first layer to the second
    const SpaceEdge& edge = model.problem.space.edges[e];
    const CostTable& table = model.problem.space.tables[edge.table];
    EXPECT_EQ(table.costs[routed.choice[edge.from] * table.columns + routed.choice[edge.to]], 0) << name;
  }
}

TEST(Router, CountsWhatIsSent) {
  const SmallModel model(8, {4});
  const Routed routed = route(model, kReplica, kReplica);
  ASSERT_TRUE(routed.valid);
  // Data parallelism sends the gradients of all parameters and the loss, as far as computing does not hide them: the edges' costs.
  TickSum edges = 0;
  for (const SpaceEdge& edge : model.problem.space.edges) {
    const CostTable& table = model.problem.space.tables[edge.table];
    edges += table.costs[routed.choice[edge.from] * table.columns + routed.choice[edge.to]];
  }
  EXPECT_GT(static_cast<double>(edges), 0);
  EXPECT_EQ(static_cast<double>(routed.communication), static_cast<double>(edges));
  EXPECT_LT(static_cast<double>(routed.communication), static_cast<double>(evaluate(model.problem.space, routed.choice).cost));
}

TEST(Router, SaysThatAPlanIsNotValidWhereNothingCanBeJoined) {
  SmallModel model(8, {4});
  ASSERT_TRUE(route(model, 1, 2).valid);
  for (std::size_t e = 0; e < model.problem.edges.size(); ++e) {
    if (model.graph.values[model.problem.edges[e].value].name != "n2") continue;
    auto& costs = model.problem.space.tables[model.problem.space.edges[e].table].costs;
    std::fill(costs.begin(), costs.end(), kForbidden);
  }
  EXPECT_FALSE(route(model, 1, 2).valid);
}

TEST(Deriver, ExaminesAllPlansAndTakesTheOneThatCommunicatesLeast) {
  for (const std::int64_t batch : {4, 8, 64, 1024}) {
    const SmallModel model(batch, {4});
    Parts parts(model);
    parts.join_layers();
    Deriver deriver(parts.input, model.problem, parts.trimmed, parts.folding, 9, parts.meter);
    Router router(parts.input, model.problem, parts.trimmed, 0, parts.meter);
    Examined examined;
    const std::optional<WholePlan> plan = deriver.derive(router, 1, examined);
    ASSERT_TRUE(plan.has_value());
    EXPECT_EQ(examined.plans, 9 + 2);  // data parallelism before, the whole model after
    EXPECT_TRUE(examined.in_parts.empty());
    std::vector<std::uint32_t> all(model.problem.variables.size());
    std::iota(all.begin(), all.end(), 0U);
    for (Pattern up = 0; up < 3; ++up) {
      for (Pattern down = 0; down < 3; ++down) {
        const Routed routed = route(model, up, down);
        if (!routed.valid) continue;
        EXPECT_LE(static_cast<double>(router.communication(all, plan->choice)), static_cast<double>(routed.communication)) << batch;
      }
    }
  }
}

TEST(Deriver, SplitsWeightsOfFewRowsAndNoneOfMany) {
  const auto patterns = [](std::int64_t batch) {
    const SmallModel model(batch, {4});
    Parts parts(model);
    parts.join_layers();
    Deriver deriver(parts.input, model.problem, parts.trimmed, parts.folding, 9, parts.meter);
    Router router(parts.input, model.problem, parts.trimmed, 0, parts.meter);
    Examined examined;
    return deriver.derive(router, 1, examined)->patterns;
  };
  EXPECT_EQ(patterns(4), (std::vector<Pattern>{1, 2}));  // Megatron's column and row
  EXPECT_EQ(patterns(4096), (std::vector<Pattern>{kReplica, kReplica}));
}

TEST(Deriver, ExaminesPartsWhereThereAreTooManyPlans) {
  const SmallModel model(4, {4});
  Parts parts(model);
  parts.join_layers();
  Deriver deriver(parts.input, model.problem, parts.trimmed, parts.folding, 3, parts.meter);
  Router router(parts.input, model.problem, parts.trimmed, 0, parts.meter);
  Examined examined;
  ASSERT_TRUE(deriver.derive(router, 1, examined).has_value());
  EXPECT_EQ(examined.in_parts.size(), 1U);
}

TEST(Deriver, StopsAtTheWorkLimit) {
  const SmallModel model(8, {4});
  Parts parts(model);
  SearchLimits limits;
  limits.work_limit = 0;
  Meter meter(limits);
  meter.spend(1);
  Deriver deriver(parts.input, model.problem, parts.trimmed, parts.folding, 9, meter);
  Router router(parts.input, model.problem, parts.trimmed, 0, meter);
  Examined examined;
  EXPECT_FALSE(deriver.derive(router, 1, examined).has_value());
}

}  // namespace
}  // namespace meshwright::tap
