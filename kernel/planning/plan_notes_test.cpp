#include "plan_notes.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

// Two differentiable calls of an op without a rule, and one that makes a mask.
TEST(UnruledNotes, NameTheModulesAndTheSeconds) {
  Graph graph;
  graph.values.push_back({"x", {DType::float32, {1000, 1000}}, kNoId, false});
  for (const char* module : {"encoder.a", "encoder.b", "encoder.a"}) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({"y" + std::to_string(id),
                                 {DType::float32, {1000, 1000}},
                                 static_cast<NodeId>(graph.nodes.size()),
                                 false});
    graph.nodes.push_back({"acme.op", "node" + std::to_string(id), module, {{"self", 0}}, {}, {id}});
  }
  Plan plan;
  plan.model.graph = std::make_shared<const Graph>(std::move(graph));
  for (const NodeId node : {0U, 1U}) {
    PlannedVariable& variable = plan.variables.emplace_back();
    variable.choice = PlannedNode{node, {}, {}};
    variable.forward_seconds = 0.001;
    variable.backward_seconds = 0.002;
  }
  CostProfile profile;
  profile.device.vector_flops_per_second = 1e12;
  profile.device.memory_bytes_per_second = 1e9;  // 8 MB that are read and written take 8 ms
  const std::vector<std::string> notes = unruled_notes(
      plan, profile, {"acme.op runs replicated: no op family serves it (first at 'node1' in 'encoder.a')"});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(
      notes[0],
      "acme.op runs replicated: no op family serves it (first at 'node1' in 'encoder.a'). It stands in 2 modules: "
      "encoder.a, encoder.b, and costs every device 14.000 ms a step.");
}

}  // namespace
}  // namespace meshwright
