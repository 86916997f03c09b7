// What `validate` finds in programs of ZeRO and of microbatches from which something was taken, or moved.
#include <gmock/gmock.h>

#include "linear_program.h"
#include "taken_out.h"

namespace meshwright::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The first instruction that is as `wanted` says.
template <class Wanted>
std::size_t find(const Program& program, Wanted wanted) {
  const auto found = std::find_if(program.instructions.begin(), program.instructions.end(), wanted);
  EXPECT_NE(found, program.instructions.end());
  return static_cast<std::size_t>(found - program.instructions.begin());
}

Instruction& first(Program& program, InstructionKind kind) {
  return program.instructions[find(program, [&](const Instruction& here) { return here.kind() == kind; })];
}

std::string refusal(const Program& program) {
  const Status status = validate_finished(program);
  return status ? "valid" : status.error().message;
}

class EveryStage : public testing::TestWithParam<int> {
 protected:
  const ZeroStage stage_ = static_cast<ZeroStage>(GetParam());
};

TEST_P(EveryStage, IsValidAsItIsMade) {
  for (const std::int64_t microbatches : {1, 2}) EXPECT_EQ(refusal(linear_program(stage_, microbatches)), "valid");
}

// The gradient's reduction is left out.
TEST_P(EveryStage, NeedsItsReduction) {
  Program program = linear_program(stage_, 2);
  const MoveKind kind = stage_ == ZeroStage::none ? MoveKind::all_reduce : MoveKind::reduce_scatter;
  take_out(program, find(program, [&](const Instruction& here) { return is_move(here, kind) && here.parameter != kNoId; }));
  EXPECT_THAT(refusal(program), HasSubstr(std::string(kind == MoveKind::all_reduce ? "an all_reduce" : "a reduce_scatter") + " over axis 0"));
}

// Without what an instruction waits for, another stream may still write what it reads, or read what it frees.
TEST_P(EveryStage, NeedsEachWait) {
  const Program program = linear_program(stage_, 1);
  std::size_t waits = 0;
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].waits.empty()) continue;
    Program altered = program;
    altered.instructions[i].waits.clear();
    EXPECT_THAT(refusal(altered), HasSubstr("which the communication stream may still use")) << i;
    ++waits;
  }
  EXPECT_GE(waits, 1U);
}

// Leaves out what begins the sums of gradients.
class LeavesOutFirst final : public ProgramPass {
  Result<Program> do_run(Program program, const PlanningContext&) const override {
    std::erase_if(program.instructions, [](const Instruction& instruction) { return instruction.when == When::first; });
    return program;
  }
};

TEST(MakeProgram, SaysThatAPassBrokeTheProgramWhateverTheOrder) {
  const LeavesOutFirst breaks;
  const host::ProgramTools& tools = bench().tools;
  for (const char* order : {"", "F0 F1 F2 B0 B1 B2", "F0 F1 I0 F2 I1 W0 I2 W1 W2"}) {
    TrainingSettings training;
    training.microbatches = 3;
    training.order = order;
    EXPECT_TRUE(linear_program(ZeroStage::none, training, {tools.parameter_shard.get(), tools.communication.get(), tools.reshape.get()})) << order;
    const Result<Program> program = linear_program(ZeroStage::none, training, {tools.parameter_shard.get(), &breaks, tools.communication.get(), tools.reshape.get()});
    ASSERT_FALSE(program) << order;
    EXPECT_THAT(program.error().message, AllOf(HasSubstr("after a pass"), HasSubstr("(accumulate of 'weight') of microbatch 0"), HasSubstr("is used before it is made"))) << order;
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, EveryStage, testing::Values(0, 1, 2, 3), [](const auto& info) { return std::to_string(info.param); });

TEST(Validate, NeedsTheGatherOfWhatZero1Changed) {
  for (const ZeroStage stage : {ZeroStage::optimizer, ZeroStage::gradient}) {
    Program program = linear_program(stage, 1);
    take_out(program, find(program, [](const Instruction& here) { return is_move(here, MoveKind::all_gather) && here.phase == Phase::update; }));
    EXPECT_EQ(refusal(program), "parameter 'weight' is stored as RR before the step, as S0R after it: an all_gather over axis 0 is missing");
  }
}

TEST(Validate, NeedsTheGatherThatZero3ComputesWith) {
  Program program = linear_program(ZeroStage::value, 1);
  take_out(program, find(program, [](const Instruction& here) { return is_move(here, MoveKind::all_gather); }));
  EXPECT_THAT(refusal(program), HasSubstr("needs 'weight' as RR, but it is S0R: an all_gather over axis 0 is missing"));
}

TEST(Validate, NeedsTheSliceThatZero1Changes) {
  Program program = linear_program(ZeroStage::optimizer, 1);
  take_out(program, find(program, [](const Instruction& here) { return is_move(here, MoveKind::slice) && here.phase == Phase::update; }));
  EXPECT_THAT(refusal(program), HasSubstr("a slice over axis 0 is missing"));
}

TEST(Validate, RefusesAnUpdateWhoseGradientLiesOtherwise) {
  Program program = linear_program(ZeroStage::optimizer, 1);
  program.parameters[0].state = Layout(1);  // whole
  EXPECT_THAT(refusal(program), HasSubstr("the optimizer's state of 'weight' is stored as RR, its gradient as S0R: an all_gather over axis 0 is missing"));
}

TEST(Validate, RefusesAnUpdateOfAnotherGradient) {
  Program program = linear_program(ZeroStage::none, 1);
  Instruction& update = first(program, InstructionKind::update);
  update.operands[0] = {"", program.parameters[0].value, program.type(program.parameters[0].value).layout};
  EXPECT_THAT(refusal(program), HasSubstr("does not take the gradient of 'weight'"));
}

TEST(Validate, RefusesASumOfDifferentLayouts) {
  Program program = linear_program(ZeroStage::none, 2);
  Instruction& sum = first(program, InstructionKind::accumulate);
  program.values[sum.operands[0].value].type.layout = Layout(1);
  sum.operands[0].needed = Layout(1);
  EXPECT_THAT(refusal(program), HasSubstr("adds up what is not of one type and layout"));
}

TEST(Validate, RefusesASumOfOneThing) {
  Program program = linear_program(ZeroStage::none, 2);
  first(program, InstructionKind::accumulate).operands.pop_back();
  EXPECT_THAT(refusal(program), HasSubstr("takes a sum and an addend"));
}

TEST(Validate, RefusesAParameterThatIsNotUpdated) {
  Program program = linear_program(ZeroStage::value, 1);
  std::erase_if(program.instructions, [](const Instruction& here) { return here.kind() == InstructionKind::update; });
  EXPECT_EQ(refusal(program), "parameter 'weight' has a gradient, but is not updated");
}

TEST(Validate, RefusesANewValueThatNobodyMakes) {
  Program program = linear_program(ZeroStage::optimizer, 1);
  program.values.push_back(program.values[program.parameters[0].value]);
  program.parameters[0].updated = static_cast<ProgramValueId>(program.values.size() - 1);
  EXPECT_EQ(refusal(program), "the new value of 'weight' is never made");
}

TEST(Validate, RefusesWhatStandsForNoCall) {
  Program program = linear_program(ZeroStage::value, 1);
  first(program, InstructionKind::compute).compute()->call = static_cast<std::uint32_t>(program.calls.size());
  EXPECT_THAT(refusal(program), HasSubstr("stands in the place of no call of the program"));
}

}  // namespace
}  // namespace meshwright::test
