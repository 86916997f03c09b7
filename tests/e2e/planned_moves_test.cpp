// What a plan says of moves is what is priced and what runs: each conversion as often as it says, move by move.
#include <gtest/gtest.h>

#include "planned_program.h"
#include "report/plan_json.h"

namespace meshwright {
namespace {

using Settings = std::vector<std::string>;

struct Trial {
  const char* model;
  const char* mesh;
  Settings settings;
};

std::string name_of(const testing::TestParamInfo<Trial>& info) {
  std::string name = std::string(info.param.model) + "_" + info.param.mesh + "_" + std::to_string(info.index);
  std::ranges::replace_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

class PlannedMoves : public testing::TestWithParam<Trial> {};

TEST_P(PlannedMoves, AreThoseThatRun) {
  const Result<test::PlannedProgram> planned = test::planned_program(GetParam().model, GetParam().mesh, GetParam().settings);
  ASSERT_TRUE(planned) << planned.error().message;
  const Plan& plan = planned->plan;
  const Program& program = planned->program;
  std::vector<std::vector<const Instruction*>> ran(plan.conversions.size());
  std::vector<std::int64_t> moves(plan.conversions.size(), 0);  // that ran in the step
  for (const Instruction& instruction : program.instructions) {
    const auto* step = std::get_if<MoveStep>(&instruction.action);
    if (step == nullptr || step->conversion == kNoId) continue;
    ASSERT_LT(step->conversion, ran.size());
    ran[step->conversion].push_back(&instruction);
    moves[step->conversion] += times(program, instruction);
  }
  for (std::size_t i = 0; i < ran.size(); ++i) {
    const PlannedConversion& conversion = plan.conversions[i];
    SCOPED_TRACE(plan.name(conversion.value) + " from " + to_string(conversion.source, plan.shape(conversion.value)) + " to " +
                 to_string(conversion.target, plan.shape(conversion.value)));
    ASSERT_EQ(moves[i], conversion.times * static_cast<std::int64_t>(conversion.moves.size()));
    const ConversionProblem problem = plan.problem(conversion, planned->tools.profile);
    for (std::size_t m = 0; m < ran[i].size(); ++m) {
      const PlannedMove& said = conversion.moves[m % conversion.moves.size()];
      const Layout& from = m % conversion.moves.size() == 0 ? conversion.source : conversion.moves[m % conversion.moves.size() - 1].move.result;
      EXPECT_EQ(*ran[i][m]->move(), said.move);
      EXPECT_EQ(ran[i][m]->stream == Stream::communication, conversion.hides);
      EXPECT_EQ(program.type(ran[i][m]->operands[0].value).layout, from);
      EXPECT_EQ(program.local_bytes(ran[i][m]->operands[0].value), plan.local_bytes(conversion, from));
      EXPECT_EQ(to_seconds(to_ticks(move_seconds(problem, from, said.move))), said.seconds);
    }
  }
}

// What is printed is the plan: read back, it gives the same program.
TEST_P(PlannedMoves, ArePrinted) {
  const Result<test::PlannedProgram> planned = test::planned_program(GetParam().model, GetParam().mesh, GetParam().settings);
  ASSERT_TRUE(planned) << planned.error().message;
  const std::string text = host::write_json(host::plan_json(planned->plan));
  const Result<Plan> read = host::parse_plan(text, "plan.json", *planned->tools.ops);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(host::write_json(host::plan_json(*read)), text);
  const Result<test::PlannedProgram> again = test::program_of(*read);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_string(again->program), to_string(planned->program));
}

std::vector<Trial> trials() {
  const std::vector<Settings> ways = {{}, {"search.zero=3", "search.regather=always", "train.microbatches=2"}, {"search.zero=1", "train.microbatches=4"},
                                      {"search.zero=1"}, {"search.zero=2", "train.microbatches=2", "train.gradients=reduced", "train.reduce_dtype=fp32"}};
  std::vector<Trial> all;
  for (const char* model : {"mlp_tiny", "gpt2_tiny", "llama_tiny", "bert_tiny", "vit_tiny", "t5_tiny", "clip_tiny", "resnet_tiny", "vgg_tiny",
                            "unet_tiny", "densenet_tiny", "mixtral_tiny", "qwen_moe_tiny"}) {
    for (std::size_t way = 0; way < ways.size(); ++way) {
      Settings settings = ways[way];
      settings.emplace_back("train.batch_coupling=allow");
      all.push_back({model, way % 2 == 0 ? "2x2" : "4", settings});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, PlannedMoves, testing::ValuesIn(trials()), name_of);

}  // namespace
}  // namespace meshwright
