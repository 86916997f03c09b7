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

TEST(NotesOf, APlanThatItsDeviceCanNotHoldSaySo) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  Plan plan;
  plan.cluster.device.memory_bytes = 80 * kGiB;
  plan.memory = {.program_bytes = 78 * kGiB, .context_bytes = kGiB, .communicators = 2, .communicator_bytes = kGiB};
  EXPECT_TRUE(notes_of(plan).empty());
  plan.memory.context_bytes = 2 * kGiB;
  const std::vector<std::string> notes = notes_of(plan);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0],
            "The plan keeps to its budget, but with all that a device's memory holds it takes 81.0 GiB of 80.0 GiB "
            "(context 2.00 GiB, 2 communicators "
            "1.00 GiB): it may not fit.");
}

TEST(StepNote, NamesTheCausesOfADifference) {
  Plan plan;
  plan.objective_seconds = 0.010;
  Timeline times;
  const auto note = [&](double step, double waits, double counted) {
    times.step_seconds = step;
    times.communication_seconds = 0.004;
    times.waits_before_updates = waits;
    return step_note(plan, times, counted).value_or("");
  };
  EXPECT_EQ(note(0.0096, 0, 0.0004), "");
  EXPECT_EQ(note(0.009, 0.001, 0.002),
            "The simulated step is 10.0 % below the objective: of 4.000 ms in which parameters are gathered and reduced, it waits for 1.000 ms "
            "(1.000 ms before the updates, 0.000 ms at the end); the search, which hides each parameter's behind the op that uses "
            "it, counts 2.000 ms.");
  EXPECT_EQ(note(0.009, 0, 0),
            "The simulated step is 10.0 % below the objective. Conversions and constants that several ops share run once; the search counts them for "
            "each op, 1.000 ms more.");
  EXPECT_EQ(note(0.011, 0.003, 0.001),
            "The simulated step is 10.0 % above the objective: of 4.000 ms in which parameters are gathered and reduced, it waits for 3.000 ms "
            "(3.000 ms before the updates, 0.000 ms at the end); the search, which hides each parameter's behind the op that uses "
            "it, counts 1.000 ms. Conversions and constants that several ops share run once; the search counts them for each op, 1.000 ms more.");
  EXPECT_TRUE(note(0.012, 0, 0).ends_with("All but the communication of parameters takes 2.000 ms more than the search counts."));
}

}  // namespace
}  // namespace meshwright
