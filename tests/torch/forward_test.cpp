// What an emitted program has of its finished program: what passes make of the forward is written, or refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "program_bench.h"

namespace meshwright::test {
namespace {

class EmittedForward : public testing::Test {
 protected:
  Result<std::string> emit(const Program& program, std::vector<std::string> altering = {}) const {
    const host::ProgramTools& tools = bench().tools;
    BackendInput input{program, *tools.ops, tools.profile, nullptr, {}, nullptr, {}, &plan_, emitters_.get()};
    input.altering = std::move(altering);
    const Result<std::vector<EmittedFile>> files = backend_->emit(input);
    if (!files) return files.error();
    return files->front().text;
  }

  static Instruction& first(Program& program, const std::function<bool(const Instruction&)>& is_it) {
    const auto found = std::ranges::find_if(program.instructions, [&](const Instruction& here) { return here.phase == Phase::forward && is_it(here); });
    EXPECT_NE(found, program.instructions.end());
    return *found;
  }

  static Instruction& op(Program& program, const std::string& name) {
    return first(program, [&](const Instruction& here) { return here.compute() != nullptr && here.compute()->op == name; });
  }

  const ModelAnalysis model_ = analyze_model(read_model("mlp_tiny"), *bench().tools.ops).value();
  const TrainingSettings training_;
  const Mesh mesh_ = plain_mesh({2, 2});
  const CostProfile profile_ = plain_profile();
  const ProblemInput input_{{model_, training_, *bench().tools.ops, profile_, *bench().tools.conversions}, mesh_, {}};
  const Problem problem_ = build_problem(input_).value();
  const Plan plan_ = draw_plan(input_, problem_, 0).value();
  const Program program_ = host::make_program(plan_, bench().tools).value();
  const std::shared_ptr<Backend> backend_ = bench().host.create<Backend>("backend", "torch").value();
  const std::unique_ptr<EmitterTable> emitters_ = host::emitters_for(bench().host, "torch").value();
};

TEST_F(EmittedForward, HasWhatAPassMadeOfAnOp) {
  Program program = program_;
  op(program, "aten.relu").compute()->op = "aten.tanh";
  const Result<std::string> before = emit(program_), after = emit(program);
  ASSERT_TRUE(before && after);
  EXPECT_NE(before->find("F.relu("), std::string::npos);
  EXPECT_EQ(after->find("F.relu("), std::string::npos) << *after;
  EXPECT_NE(after->find("tanh("), std::string::npos) << *after;
}

TEST_F(EmittedForward, RefusesAnOpWhoseGradientNobodyKnows) {
  Program program = program_;
  op(program, "aten.relu").name = "another";
  const Result<std::string> emitted = emit(program);
  ASSERT_FALSE(emitted);
  EXPECT_NE(emitted.error().message.find("'another' (aten.relu), which is no node of the model"), std::string::npos) << emitted.error().message;
}

TEST_F(EmittedForward, RefusesAWayThatIsNotThePlans) {
  Program program = program_;
  std::map<ProgramValueId, const Instruction*> moves;
  for (const Instruction& here : program_.instructions) {
    const auto* step = std::get_if<MoveStep>(&here.action);
    if (step != nullptr && step->conversion != kNoId && step->move.kind != MoveKind::keep_one) moves[here.results[0]] = &here;
  }
  const auto is_converted = [&](const ProgramOperand& operand) { return moves.contains(operand.value); };
  Instruction& user = first(program, [&](const Instruction& here) { return here.kind() == InstructionKind::compute && std::ranges::any_of(here.operands, is_converted); });
  ProgramOperand& operand = *std::ranges::find_if(user.operands, is_converted);
  operand.value = moves.at(operand.value)->operands[0].value;
  const Result<std::string> emitted = emit(program);
  ASSERT_FALSE(emitted);
  EXPECT_NE(emitted.error().message.find("by another way than the plan's"), std::string::npos) << emitted.error().message;
}

TEST_F(EmittedForward, RefusesAValueThatNobodyMakes) {
  Program program = program_;
  const Instruction& relu = op(program, "aten.relu");
  program.instructions.erase(program.instructions.begin() + (&relu - program.instructions.data()));
  const Result<std::string> emitted = emit(program);
  ASSERT_FALSE(emitted);
  EXPECT_NE(emitted.error().message.find("which the program's forward does not make"), std::string::npos) << emitted.error().message;
}

TEST_F(EmittedForward, RefusesByNameAPassThatAltersTheBackward) {
  EXPECT_TRUE(bench().tools.altering.empty());  // the passes in tree
  const Result<std::string> emitted = emit(program_, {"fused"});
  ASSERT_FALSE(emitted);
  EXPECT_NE(emitted.error().message.find("the pass \"fused\" in [emit] alters what the backward computes"), std::string::npos) << emitted.error().message;
}

}  // namespace
}  // namespace meshwright::test
