#include <gtest/gtest.h>

#include "meshwright/op.h"

namespace meshwright {
namespace {

// Puts what the test says in the place of the node "pool".
class TestFamily final : public OpFamily {
 public:
  Composite composite;

 private:
  Result<Rule> do_rule(const OpCall& call) const override { return replicated_rule(call.operands, call.results); }
  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }
  FoundComposites do_find_composites(const Graph&) const override { return {{composite}, {}}; }
};

class TestOps final : public OpTable {
 public:
  const OpFamily* find(std::string_view) const override { return &family; }
  std::vector<const OpFamily*> families() const override { return {&family}; }
  TestFamily family;
};

// x -> pool -> last
Graph pooling() {
  Graph graph;
  graph.values.push_back({"x", {DType::float32, {4}}, kNoId, true});
  graph.sources.push_back({SourceKind::parameter, 0, {"x"}});
  GraphBuilder build(graph, "n");
  const ValueId pooled = build.emit("pool", {{"self", 0}}, {}, {DType::float32, {2}});
  graph.outputs.push_back({OutputKind::loss, build.emit("last", {{"self", pooled}}, {}, {DType::float32, {}}), ""});
  mark_gradients(graph);
  return graph;
}

TestOps with_indices_and_copy(const Graph& graph) {
  TestOps ops;
  Composite& made = ops.family.composite;
  made.node = graph.nodes[0];
  made.node.op = "pool_with_indices";
  made.values = {{"copied", graph.type(0), kNoId, false}, {"indices", {DType::int64, {2}}, kNoId, false}};
  made.before.push_back({"copy", "n0_copy", "", {{"self", 0}}, {}, {kNewValue}});
  made.node.operands[0].value = kNewValue;
  made.node.results.push_back(kNewValue + 1);
  return ops;
}

TEST(Composites, BringNodesAndResultsWithThem) {
  Graph graph = pooling();
  ASSERT_TRUE(gather_composites(graph, with_indices_and_copy(graph)).ok());
  ASSERT_EQ(graph.nodes.size(), 3U);
  EXPECT_EQ(graph.nodes[0].op, "copy");
  EXPECT_EQ(graph.nodes[1].op, "pool_with_indices");
  EXPECT_EQ(graph.nodes[1].operands[0].value, graph.nodes[0].results[0]);
  ASSERT_EQ(graph.nodes[1].results.size(), 2U);
  EXPECT_EQ(graph.values[graph.nodes[1].results[1]].name, "indices");
  EXPECT_FALSE(graph.values[graph.nodes[1].results[1]].requires_gradient);
  EXPECT_TRUE(graph.values[graph.nodes[0].results[0]].requires_gradient);  // since x does
  EXPECT_EQ(graph.nodes[2].operands[0].value, graph.nodes[1].results[0]);
  EXPECT_TRUE(validate(graph).ok());
}

TEST(Composites, ThatDoNotFitAreTheFamilysFault) {
  const Graph graph = pooling();
  const auto refuses = [&](auto spoil) {
    TestOps ops = with_indices_and_copy(graph);
    spoil(ops.family.composite);
    Graph given = graph;
    const auto gathered = gather_composites(given, ops);
    return !gathered.ok() && gathered.error().code == ErrorCode::plugin_failed;
  };
  EXPECT_TRUE(refuses([](Composite& one) { one.at = 7; }));
  EXPECT_TRUE(refuses([](Composite& one) { one.node.results[0] = 2; }));     // another node's
  EXPECT_TRUE(refuses([](Composite& one) { one.node.results[1] = 0; }));     // known already
  EXPECT_TRUE(refuses([](Composite& one) { one.node.results[1] = kNewValue + 9; }));
  EXPECT_TRUE(refuses([](Composite& one) { one.before[0].name = one.node.name; }));
  EXPECT_TRUE(refuses([](Composite& one) { one.before.clear(); }));          // nobody makes the copy
}

}  // namespace
}  // namespace meshwright
