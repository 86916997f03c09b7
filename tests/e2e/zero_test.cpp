// Every stage of ZeRO, with and without microbatches, computes what one device computes, and sends and holds the bytes
// that were predicted (Rajbhandari et al. 2020).
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "files/json.h"
#include "files/plan_reader.h"
#include "files/write_file.h"
#include "planned_program.h"
#include "report/plan_json.h"

namespace meshwright::test {
namespace {

using Settings = std::vector<std::string>;

Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

void verify_model(const std::string& model, const std::string& mesh, const Settings& settings) {
  SCOPED_TRACE(model + " on " + mesh + ": " + joined(settings));
  Result<PlannedProgram> planned = planned_program(model, mesh, settings);
  ASSERT_TRUE(planned) << planned.error().message;
  expect_verifies(*planned);
}

class Zero : public testing::TestWithParam<const char*> {
 protected:
  static void verify_on(const std::string& mesh, const Settings& settings) { verify_model(GetParam(), mesh, settings); }
};

const Settings kStages = {"search.zero=0", "search.zero=1", "search.zero=2", "search.zero=3"};

TEST_P(Zero, EveryStageVerifies) {
  for (const std::string& stage : kStages) {
    verify_on("4", {stage, "search.batch_axes=all"});
    verify_on("2x2x2", {stage, "search.batch_axes=all"});
    verify_on("2x2", {stage});
  }
}

TEST_P(Zero, EveryStageVerifiesWithMicrobatches) {
  for (const std::string& stage : kStages) {
    verify_on("2x2", {stage, "search.batch_axes=all", "train.microbatches=2"});
    verify_on("4", {stage, "train.microbatches=2", "train.gradients=reduced", "search.batch_axes=all"});
    verify_on("2x2", {stage, "train.microbatches=2", "train.gradients=reduced"});
  }
}

TEST_P(Zero, GatheredAgainOrKeptVerifies) {
  for (const char* regather : {"always", "never"}) {
    const Settings settings = {"search.zero=3", "search.batch_axes=all", std::string("search.regather=") + regather};
    verify_on("4", settings);
    verify_on("2x2", with(settings, {"train.microbatches=2", "search.prefetch=never"}));
  }
}

TEST_P(Zero, PrefetchedOrNotVerifies) {
  for (const char* prefetch : {"always", "never"}) {
    verify_on("2x2", {"search.zero=3", std::string("search.prefetch=") + prefetch});
    verify_on("4", {"search.zero=3", "search.batch_axes=all", "train.microbatches=2", std::string("search.prefetch=") + prefetch});
  }
}

TEST_P(Zero, HybridShardingVerifies) {
  for (const char* stage : {"search.zero=1", "search.zero=2", "search.zero=3"}) {
    verify_on("2x2", {stage, "search.batch_axes=all", "search.zero_axes=1", "train.microbatches=2"});
    verify_on("2x2x2", {stage, "search.batch_axes=all", "search.zero_axes=0"});
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Zero, testing::Values("mlp_tiny", "gpt2_tiny", "llama_tiny", "t5_tiny", "bert_tiny", "vit_tiny"),
                         [](const auto& info) { return std::string(info.param); });

// Batch norm's statistics are those of a microbatch, on one device and on all.
TEST(ZeroResNet, EveryStageVerifies) {
  for (const std::string& stage : kStages) {
    verify_model("resnet_tiny", "4", {stage, "search.batch_axes=all"});
    verify_model("resnet_tiny", "2x2", {stage, "search.batch_axes=all", "train.microbatches=2", "train.batch_coupling=allow"});
  }
}

TEST(ZeroResNet, HybridShardingAndFreeLayoutsVerify) {
  const Settings settings = {"search.zero=3", "train.microbatches=2", "train.batch_coupling=allow"};
  verify_model("resnet_tiny", "2x2", settings);
  verify_model("resnet_tiny", "2x2", with(settings, {"search.zero_axes=0", "train.gradients=reduced", "search.batch_axes=all"}));
}

TEST(ZeroOnEight, VerifiesWithFreeLayouts) {
  for (const std::string& stage : kStages) {
    for (const char* model : {"mlp_tiny", "gpt2_tiny"}) verify_model(model, "2x2x2", {stage, "train.microbatches=2"});
  }
}

// What was forced is what is planned.
TEST(ZeroPlan, HasTheStageThatIsAskedFor) {
  for (const auto& [text, stage] : {std::pair("1", ZeroStage::optimizer), std::pair("2", ZeroStage::gradient), std::pair("3", ZeroStage::value)}) {
    const Result<PlannedProgram> planned =
        planned_program("gpt2_tiny", "2x2", {std::string("search.zero=") + text, "search.batch_axes=all", "search.zero_axes=1"});
    ASSERT_TRUE(planned) << planned.error().message;
    for (const ProgramParameter& parameter : planned->program.parameters) {
      EXPECT_EQ(parameter.zero, stage) << parameter.name;
      const Layout& value = planned->program.type(parameter.value).layout;
      EXPECT_EQ(value == parameter.state, stage == ZeroStage::value) << parameter.name;
      EXPECT_TRUE(parameter.state[0].is_replicate()) << parameter.name;  // hybrid: over the other axis only
      EXPECT_TRUE(parameter.state[1].is_shard()) << parameter.name;
    }
  }
}

TEST(ZeroPlan, IsWrittenAndReadBackAsItWas) {
  const std::string file = (std::filesystem::temp_directory_path() / ("meshwright-zero-" + std::to_string(::getpid()) + ".json")).string();
  for (const std::string& stage : kStages) {
    const Result<PlannedProgram> planned = planned_program("mlp_tiny", "2x2", {stage, "train.microbatches=2", "train.gradients=reduced",
                                                                               "train.reduce_dtype=bf16"});
    ASSERT_TRUE(planned) << planned.error().message;
    ASSERT_TRUE(host::write_file_atomically(file, host::write_json(host::plan_json(planned->plan))));
    const Result<Plan> read = host::read_plan(file, *planned->tools.ops);
    ASSERT_TRUE(read) << read.error().message;
    const Result<PlannedProgram> again = program_of(*read);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(to_string(again->program), to_string(planned->program));
    for (std::size_t i = 0; i < read->variables.size(); ++i) EXPECT_TRUE(same_choice(read->variables[i], planned->plan.variables[i]));
    EXPECT_EQ(read->training.keep_gradients, false);
    EXPECT_EQ(read->training.microbatches, 2);
    EXPECT_EQ(read->training.reduce_dtype, DType::bfloat16);
  }
  std::filesystem::remove(file);
}

Plan planned_by(const std::string& config, const Settings& set = {}) {
  host::PlanOptions options;
  options.model = example("gpt2_small");
  options.cluster = cluster("h100x8");
  options.mesh = "8";
  options.config = SOURCE_FOLDER "/configs/" + config + ".toml";
  options.set = set;
  return *plan(options)->plan;
}

TEST(ZeroConfigs, ShardEveryParameterAndGatherItTwice) {
  const Plan plan = planned_by("zero3");
  EXPECT_EQ(plan.training.reduce_dtype, DType::float32);
  for (const PlannedVariable& variable : plan.variables) {
    const PlannedParameter* parameter = variable.parameter();
    if (parameter == nullptr) continue;
    EXPECT_EQ(parameter->zero, ZeroStage::value) << plan.name(variable);
    EXPECT_TRUE(parameter->regather) << plan.name(variable);
    EXPECT_TRUE(parameter->prefetch) << plan.name(variable);
    EXPECT_NE(parameter->stored.value, parameter->compute) << plan.name(variable);
  }
}

TEST(ZeroConfigs, CutTheBatchAndHoldLess) {
  const Plan parts = planned_by("microbatches"), whole = planned_by("microbatches", {"train.microbatches=1"});
  EXPECT_EQ(parts.training.microbatches, 4);
  EXPECT_LT(parts.peak_bytes, whole.peak_bytes / 2);
  EXPECT_GT(parts.objective_seconds, whole.objective_seconds);
}

class Refused : public testing::TestWithParam<std::pair<Settings, std::string>> {};

TEST_P(Refused, WithWhatIsWrong) {
  const auto& [settings, said] = GetParam();
  const Result<host::PlanOutcome> outcome = plan_tiny("mlp_tiny", "2x2", settings);
  ASSERT_FALSE(outcome) << joined(settings);
  EXPECT_EQ(outcome.error().code, ErrorCode::bad_input);
  EXPECT_THAT(outcome.error().message, testing::HasSubstr(said));
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Refused,
    testing::Values(std::pair<Settings, std::string>{{"search.zero=4"}, "\"zero\" in [search] can't be \"4\""},
                    std::pair<Settings, std::string>{{"search.zero_axes=2"}, "names axis 2, but the mesh 2x2 has axes 0 to 1"},
                    std::pair<Settings, std::string>{{"search.zero_axes=0,,1"}, "\"zero_axes\" in [search] can't be \"0,,1\""},
                    std::pair<Settings, std::string>{{"search.zero_axes=first"}, "it is all, none, or numbers of mesh axes such as 0,2"},
                    std::pair<Settings, std::string>{{"search.batch_axes=7"}, "\"batch_axes\" in [search] names axis 7"},
                    std::pair<Settings, std::string>{{"search.batch_axes=-1"}, "\"batch_axes\" in [search] can't be \"-1\""},
                    std::pair<Settings, std::string>{{"search.regather=sometimes"}, "\"regather\" in [search] can't be \"sometimes\""},
                    std::pair<Settings, std::string>{{"search.prefetch=ahead"}, "\"prefetch\" in [search] can't be \"ahead\""},
                    std::pair<Settings, std::string>{{"train.gradients=summed"}, "\"gradients\" in [train] can't be \"summed\""},
                    std::pair<Settings, std::string>{{"train.reduce_dtype=int8"}, "\"reduce_dtype\" in [train] can't be \"int8\""},
                    std::pair<Settings, std::string>{{"train.microbatches=0"}, "\"microbatches\" in [train] must be at least 1"},
                    std::pair<Settings, std::string>{{"train.microbatches=3"}, "a batch of 16 can't be cut into 3 microbatches; it can be into 1, 2, 4, 8, 16"}));

}  // namespace
}  // namespace meshwright::test
