// A plan on a smaller model of the same kind: what is left has what it had, it computes what one device computes, and faults in it are found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <ostream>

#include "meshwright/rebind.h"
#include "meshwright/resize.h"
#include "program_bench.h"
#include "shrink_plan.h"
#include "sources.h"
#include "verify.h"

namespace meshwright::test {
namespace {

struct ShrunkDraws {
  const char* model;
  std::vector<std::int64_t> mesh;
};

void PrintTo(const ShrunkDraws& draws, std::ostream* out) { *out << draws.model << " on " << to_string(plain_mesh(draws.mesh)); }

// A plan that is drawn, of a model in float64, and what becomes of it.
struct Shrunk {
  Shrunk(const std::string& name, const std::vector<std::int64_t>& shape, std::uint64_t seed) : mesh(plain_mesh(shape)) {
    model = make_float64_model(read_model(name), *bench().tools.ops).value();
    training.microbatches = 2;
    const ProblemInput input{{model, training, *bench().tools.ops, profile, *bench().tools.conversions}, mesh, {}};
    plan = draw_plan(input, build_problem(input).value(), seed).value();
    // The reader of a plan's file would say how many devices there are.
    Result<ShrunkPlan> made = shrink_plan(plan, {*bench().tools.ops, profile, *bench().tools.conversions});
    if (made) shrunk = std::move(*made);
    else ADD_FAILURE() << made.error().message;
  }

  [[nodiscard]] Program program() const { return host::make_program(shrunk.plan, bench().tools).value(); }

  [[nodiscard]] Result<Verification> run(const Program& program) const {
    const Graph& graph = shrunk.plan.graph();
    const auto further = sample_microbatches(graph, {}, training.microbatches).value();
    return verify({graph, program, *bench().tools.ops, profile, nullptr, *bench().reference, sample_sources(graph, {}, 1).value(), 1e-9, 1e-3, further});
  }

  Mesh mesh;
  ModelAnalysis model;
  TrainingSettings training;
  CostProfile profile = plain_profile();
  Plan plan;
  ShrunkPlan shrunk;
};

class ShrunkDrawnPlan : public testing::TestWithParam<ShrunkDraws> {};

TEST_P(ShrunkDrawnPlan, HasWhatThePlanHasAndComputesWhatOneDeviceComputes) {
  for (int seed = 0; seed < at_most_draws(3); ++seed) {
    SCOPED_TRACE(seed);
    const Shrunk made(GetParam().model, GetParam().mesh, static_cast<std::uint64_t>(seed));
    EXPECT_LT(made.shrunk.shrinkage.parameters_after, made.shrunk.shrinkage.parameters_before);
    std::map<std::string, const PlannedNode*> before;
    for (const PlannedVariable& variable : made.plan.variables) {
      if (variable.node() != nullptr) before[made.plan.name(variable)] = variable.node();
    }
    for (const PlannedVariable& variable : made.shrunk.plan.variables) {
      if (variable.node() == nullptr) continue;
      ASSERT_TRUE(before.contains(made.shrunk.plan.name(variable)));
      EXPECT_EQ(variable.node()->call, before[made.shrunk.plan.name(variable)]->call);
      EXPECT_EQ(variable.node()->backward, before[made.shrunk.plan.name(variable)]->backward);
    }
    const Result<Verification> result = made.run(made.program());
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->equal) << result->worst_tensor << ": " << result->max_relative_error << " " << result->problem;
    EXPECT_EQ(result->bytes_sent_measured, result->bytes_sent_predicted);
    EXPECT_EQ(result->peak_bytes_measured, result->peak_bytes_predicted);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ShrunkDrawnPlan,
                         testing::Values(ShrunkDraws{"gpt2_tiny", {2, 2}}, ShrunkDraws{"gpt2_tiny", {2, 4}}, ShrunkDraws{"bert_tiny", {2, 2}}, ShrunkDraws{"llama_tiny", {2, 2}},
                                         ShrunkDraws{"t5_tiny", {2, 2}}, ShrunkDraws{"mixtral_tiny", {2, 2}}, ShrunkDraws{"resnet_tiny", {2, 2}}, ShrunkDraws{"vit_tiny", {4}}),
                         [](const auto& info) {
                           std::string name = info.param.model;
                           for (const std::int64_t size : info.param.mesh) name += "_" + std::to_string(size);
                           return name;
                         });

// Without instruction `number`, whose users take its operand.
void leave_out(Program& program, std::size_t number) {
  const ProgramValueId before = program.instructions[number].operands[0].value, result = program.instructions[number].results[0];
  program.instructions.erase(program.instructions.begin() + static_cast<std::ptrdiff_t>(number));
  std::erase_if(program.instructions, [](const Instruction& here) { return here.kind() == InstructionKind::free; });
  for (Instruction& here : program.instructions) {
    for (ProgramOperand& operand : here.operands) {
      if (operand.value == result) operand.value = before;
    }
  }
  for (ProgramParameter& parameter : program.parameters) {
    for (ProgramValueId* value : {&parameter.gradient, &parameter.updated}) {
      if (*value == result) *value = before;
    }
  }
  for (ProgramOutput& output : program.outputs) {
    if (output.value == result) output.value = before;
  }
  place_frees(program);
}

// The layouts prove it, and where they are made to look right, the numbers do.
TEST(ShrunkPlan, AReductionThatIsLeftOutIsFound) {
  const Shrunk made("gpt2_tiny", {2, 2}, 3);
  Program program = made.program();
  ASSERT_TRUE(made.run(program)->equal);
  const auto reduces = std::ranges::find_if(program.instructions, [](const Instruction& here) { return here.move() != nullptr && here.move()->kind == MoveKind::all_reduce; });
  ASSERT_NE(reduces, program.instructions.end());
  const auto at = static_cast<std::size_t>(reduces - program.instructions.begin());
  const ShardedType whole = program.type(reduces->results[0]);
  const ProgramValueId partial = reduces->operands[0].value;
  leave_out(program, at);
  EXPECT_FALSE(validate_finished(program));
  // Said to be whole what is a partial sum.
  program.values[partial].type.layout = whole.layout;
  const Result<Verification> result = made.run(program);
  EXPECT_FALSE(result && result->equal);
}

TEST(ShrunkPlan, AnotherLayoutIsRefusedByName) {
  Shrunk made("gpt2_tiny", {2, 2}, 1);
  for (PlannedVariable& variable : made.shrunk.plan.variables) {
    auto* node = std::get_if<PlannedNode>(&variable.choice);
    if (node == nullptr || node->call.axes[0].use == AxisUse::repeat) continue;
    node->call.axes[0] = {};
    const Status status = validate(made.shrunk.plan);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, testing::HasSubstr(made.shrunk.plan.name(variable)));
    return;
  }
  FAIL() << "the plan shards nothing over axis 0";
}

// Another batch is one of the sizes that a model can have.
TEST(Resize, GivesTheGraphThatAnotherBatchGives) {
  const OpTable& ops = *bench().tools.ops;
  for (const char* model : {"mlp_tiny", "gpt2_tiny", "bert_tiny", "llama_tiny", "t5_tiny", "vit_tiny", "mixtral_tiny"}) {
    SCOPED_TRACE(model);
    const Graph graph = read_model(model);
    const AtomizedGraph atoms = atomize(graph, ops).value();
    const SizeClasses classes = size_classes(graph, atoms);
    std::map<std::uint32_t, std::int64_t> sizes;
    std::int64_t batch = 0;
    for (const Source& source : graph.sources) {
      if (source.kind != SourceKind::user_input) continue;
      batch = graph.type(source.value).shape[0];
      sizes[classes.of[source.value][0]] = batch + 6;
    }
    const Result<Resized> resized = resize(graph, atoms, classes, ops, sizes);
    ASSERT_TRUE(resized) << resized.error().message;
    EXPECT_TRUE(resized->held.empty());
    EXPECT_TRUE(resized->graph == rebind_batch(graph, ops, batch + 6).value());
  }
}

TEST(Resize, NamesWhatKeepsItsSizeAndWhy) {
  const OpTable& ops = *bench().tools.ops;
  const Graph graph = read_model("resnet_tiny");
  const AtomizedGraph atoms = atomize(graph, ops).value();
  const SizeClasses classes = size_classes(graph, atoms);
  const auto images = std::ranges::find(graph.sources, SourceKind::user_input, &Source::kind);
  const std::uint32_t height = classes.of[images->value][2];
  const Result<Resized> resized = resize(graph, atoms, classes, ops, {{height, classes.sizes.at(height) / 2 + 1}});
  ASSERT_TRUE(resized) << resized.error().message;
  ASSERT_EQ(resized->held.size(), 1u);
  EXPECT_THAT(resized->held.at(height), testing::HasSubstr("aten.conv2d at '"));
  EXPECT_TRUE(resized->graph == graph);
  EXPECT_THAT(resize(graph, atoms, classes, ops, {{height, 1}}).error().message, testing::HasSubstr("must be at least 2"));
  EXPECT_FALSE(resize(graph, atoms, classes, ops, {{0xfffffff0U, 4}}));
}

}  // namespace
}  // namespace meshwright::test
