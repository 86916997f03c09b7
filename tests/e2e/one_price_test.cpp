// The search, a plan's step and a simulation have one price for one thing.
#include <gtest/gtest.h>

#include "meshwright/timeline.h"
#include "planned_program.h"

namespace meshwright {
namespace {

using Settings = std::vector<std::string>;

void expect_one_price(const test::PlannedProgram& made) {
  const Program& program = made.program;
  struct Sums {
    double forward = 0, backward = 0;
  };
  std::map<std::string, Sums> sums;  // by the node that an instruction serves
  double added_up = 0;               // gradients of several uses
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind() != InstructionKind::compute) continue;
    const double seconds = to_seconds(instruction_ticks(program, instruction, *made.tools.ops, made.tools.profile).value());
    if (instruction.name.starts_with("grad ") && instruction.compute()->op == "aten.add.Tensor") added_up += seconds;
    (instruction.phase == Phase::forward ? sums[instruction.node].forward : sums[instruction.node].backward) += seconds;
  }
  std::map<ValueId, double> fork_sums;
  double of_forks = 0;
  for (const PlannedVariable& variable : made.plan.variables) {
    const auto* fork = std::get_if<PlannedFork>(&variable.choice);
    if (fork == nullptr) continue;
    fork_sums[fork->value] = variable.backward_seconds;
    of_forks += variable.backward_seconds;
  }
  EXPECT_NEAR(of_forks, added_up, 1e-9 * added_up + 1e-10);
  for (const PlannedVariable& variable : made.plan.variables) {
    const PlannedNode* node = variable.node();
    if (node == nullptr) continue;
    const Sums& ran = sums[made.plan.name(variable)];
    EXPECT_NEAR(variable.forward_seconds, ran.forward, 1e-9 * ran.forward + 1e-11) << made.plan.name(variable);
    // A program says of sums of gradients that they serve the node whose gradient is added.
    double added = 0;
    for (const Operand& operand : made.plan.graph().nodes[node->node].operands) added += fork_sums.contains(operand.value) ? fork_sums[operand.value] : 0;
    EXPECT_LE(variable.backward_seconds, ran.backward + 1e-9 * ran.backward + 1e-11) << made.plan.name(variable);
    EXPECT_GE(variable.backward_seconds + added, ran.backward - 1e-9 * ran.backward - 1e-11) << made.plan.name(variable);
  }
}

class OnePrice : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  static Result<test::PlannedProgram> planned(const Settings& more) {
    Settings settings = {"train.batch_coupling=allow"};
    settings.insert(settings.end(), more.begin(), more.end());
    return test::planned_program(std::get<0>(GetParam()), std::get<1>(GetParam()), settings);
  }
};

// Every node's computing and what it sends inside, forward and backward, instruction by instruction.
TEST_P(OnePrice, OfEachNodeInTheSearchAndInTheProgram) {
  for (const Settings& settings : {Settings{}, Settings{"train.compile=true"}}) {
    SCOPED_TRACE(test::joined(settings));
    const Result<test::PlannedProgram> made = planned(settings);
    ASSERT_TRUE(made) << made.error().message;
    expect_one_price(*made);
  }
}

// Batch norms of a sharded batch, in whose place a rank does several steps.
TEST(OnePriceCompiled, OfOpsThatTakeSeveralSteps) {
  const Settings settings = {"train.compile=true", "train.batch_coupling=allow", "search.batch_axes=all"};
  for (const char* model : {"resnet_tiny", "densenet_tiny"}) {
    SCOPED_TRACE(model);
    const Result<test::PlannedProgram> made = test::planned_program(model, "4", settings);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_FALSE(made->program.calls.empty());
    expect_one_price(*made);
  }
}

TEST_P(OnePrice, OfTheStepInThePlanAndInTheSimulation) {
  for (const Settings& settings : {Settings{}, Settings{"train.microbatches=4"}, Settings{"search.zero=3", "search.regather=always"},
                                   Settings{"train.compile=true", "train.microbatches=2"}}) {
    const Result<test::PlannedProgram> made = planned(settings);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->plan.step_seconds, make_timeline(made->program, *made->tools.ops, made->tools.profile)->step_seconds);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OnePrice,
                         testing::Combine(testing::Values("mlp_tiny", "gpt2_tiny", "llama_tiny", "bert_tiny", "vit_tiny", "t5_tiny", "clip_tiny", "resnet_tiny",
                                                          "vgg_tiny", "unet_tiny", "densenet_tiny", "mixtral_tiny", "qwen_moe_tiny", "swin_tiny"),
                                          testing::Values("2x2", "4")),
                         [](const auto& info) { return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param); });

}  // namespace
}  // namespace meshwright
