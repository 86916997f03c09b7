// Plans as arguments of Megatron-LM and as configurations of torchtitan, and what these cost under the same clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <regex>

#include "folder_test.h"
#include "plan_reading.h"
#include "planned_program.h"
#include "printed_json.h"
#include "quick_search.h"
#include "run_program.h"

namespace meshwright {
namespace {

using host::Json;
using test::Outcome;
using test::json_of;
using test::real;
using test::run_command;
using test::run_program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FrameworkEmit : public test::FolderTest {
 protected:
  Json plan(const std::string& model, const std::string& cluster, const std::string& options) const {
    return json_of(run_program("plan " SOURCE_FOLDER "/tests/models/" + model + ".pt2 --cluster " TEST_FOLDER "/" + cluster + ".toml --format json -o " + path("plan.json") + test::kQuickSearch + options));
  }
  // What is written, which bash and Python can read.
  [[nodiscard]] std::string emitted(const std::string& backend, const std::string& options = "") const {
    const Outcome outcome = run_program("emit " + path("plan.json") + " --backend " + backend + " -o " + path("out") + test::kQuickSearch + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    const std::string file = path(backend == "megatron" ? "out/megatron_args.sh" : "out/torchtitan_config.py");
    const Outcome parsed = run_command((backend == "megatron" ? "bash -n " : "python3 -m py_compile ") + file);
    EXPECT_EQ(parsed.exit_code, 0) << parsed.errors;
    return read(file);
  }
  [[nodiscard]] std::string refusal(const std::string& backend) const {
    const Outcome outcome = run_program("emit " + path("plan.json") + " --backend " + backend + test::kQuickSearch);
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.errors;
  }
};

// Milliseconds of a line of the comparison; 0 if there is none.
double milliseconds_of(const std::string& text, const std::string& what) {
  std::smatch found;
  return std::regex_search(text, found, std::regex("#   " + what + " +([0-9.]+) ms")) ? std::stod(found[1]) : 0;
}

struct GivenCase {
  const char* name;
  const char* model;
  std::string options;
  std::vector<std::string> arguments;  // of Megatron-LM
  std::vector<std::string> absent = {};
};
void PrintTo(const GivenCase& here, std::ostream* out) { *out << here.name; }

std::string manual(const std::string& degrees) { return "--set 'search.inter=\"manual\"' " + degrees; }

const std::string kUneven = "--set 'pins.\"inner.transformer.h.0\"=\"stage 0\"' --set 'pins.\"inner.transformer.h.1\"=\"stage 1\"' ";

const std::string kFourParts = kUneven + "--set 'pins.\"inner.transformer.h.2\"=\"stage 2\"' --set 'pins.\"inner.transformer.h.3\"=\"stage 3\"' ";

class GivenDegrees : public FrameworkEmit, public testing::WithParamInterface<GivenCase> {};

// A plan of degrees that Megatron-LM has is written as these degrees, and what is written takes what the plan takes.
TEST_P(GivenDegrees, ComeBackAndCostWhatThePlanDoes) {
  const GivenCase& here = GetParam();
  const Json planned = plan(here.model, "slow4_far", here.options);
  const std::string text = emitted("megatron");
  for (const std::string& argument : here.arguments) EXPECT_THAT(text, HasSubstr("\n  " + argument)) << here.name;
  for (const std::string& argument : here.absent) EXPECT_THAT(text, Not(HasSubstr(argument)));
  EXPECT_THAT(text, AllOf(HasSubstr("say all that this reads of the plan"), HasSubstr(": 1.000 times as long")));
  EXPECT_NEAR(milliseconds_of(text, "the plan"), 1e3 * real(planned, "step_seconds"), 6e-4);
  EXPECT_EQ(text, emitted("megatron"));
}

INSTANTIATE_TEST_SUITE_P(
    Models, GivenDegrees,
    testing::Values(
        GivenCase{"DataAndTensor", "gpt2_tiny", manual("--set inter.manual.dp=2 --set inter.manual.tp=2 --set train.microbatches=2"),
                  {"--tensor-model-parallel-size 2\n", "--pipeline-model-parallel-size 1\n", "--context-parallel-size 1\n", "--micro-batch-size 2 ", "--global-batch-size 8\n", "--sequence-parallel"},
                  {"recompute", "distributed-optimizer", "layout"}},
        GivenCase{"Context", "gpt2_tiny", manual("--set inter.manual.dp=2 --set inter.manual.cp=2"), {"--tensor-model-parallel-size 1\n", "--context-parallel-size 2\n", "--micro-batch-size 4 "}},
        GivenCase{"EvenStages", "gpt2_tiny", manual("--set inter.manual.pp=2 --set inter.manual.tp=2 --set train.microbatches=4 " + kUneven), {"--pipeline-model-parallel-size 2\n"}, {"layout", "num-virtual"}},
        GivenCase{"UnevenStages", "gpt2_deep_tiny", manual("--set inter.manual.pp=2 --set inter.manual.dp=2 --set train.microbatches=4 " + kUneven),
                  {"--pipeline-model-parallel-size 2\n", "--pipeline-model-parallel-layout 'Et|ttttL'", "--micro-batch-size 1 "}, {"num-virtual"}},
        GivenCase{"InterleavedStages", "gpt2_deep_tiny",
                  manual("--set inter.manual.pp=2 --set 'search.schedule=\"interleaved\"' --set search.chunks=2 --set train.microbatches=4 " + kFourParts),
                  {"--pipeline-model-parallel-size 2\n", "--pipeline-model-parallel-layout 'Et|t|t|ttL'"}, {"schedule"}},
        GivenCase{"ShardedOptimizer", "gpt2_tiny", manual("--set inter.manual.dp=4 --set 'search.zero=\"1\"'"), {"--use-distributed-optimizer", "--overlap-grad-reduce"}, {"fsdp", "param-gather"}},
        GivenCase{"ShardedValues", "gpt2_tiny", manual("--set inter.manual.dp=4 --set 'search.zero=\"3\"' --set 'search.regather=\"always\"'"),
                  {"--use-megatron-fsdp", "--data-parallel-sharding-strategy optim_grads_params", "--ckpt-format fsdp_dtensor"}, {"optimizer-instances"}},
        GivenCase{"Experts", "mixtral_tiny", manual("--set inter.manual.dp=4 --set inter.manual.ep=2"),
                  {"--expert-model-parallel-size 2  # 8 experts", "--tensor-model-parallel-size 1\n"}, {"expert-tensor-parallel"}},
        GivenCase{"LayersAgain", "gpt2_tiny", manual("--set inter.manual.dp=2 --set inter.manual.tp=2 --set 'search.recompute=\"all\"'"),
                  {"--recompute-granularity full\n", "--recompute-method uniform", "--recompute-num-layers 1\n"}, {"selective"}}),
    [](const auto& info) { return info.param.name; });

// A schedule that Megatron-LM lacks: what is in its place takes what `plan` says of that with the same cuts. PyTorch has it.
TEST_F(FrameworkEmit, TheNearestScheduleHasItsOwnPrice) {
  const std::string same = "--mesh 2 --set search.stages=2 --set search.chunks=2 --set train.microbatches=4 --set 'search.batch_axes=\"0\"' --set 'search.zero=\"1\"' " + kFourParts;
  const Json wanted = plan("gpt2_deep_tiny", "slow4_far", same + "--set 'search.schedule=\"interleaved\"'");
  const Json planned = plan("gpt2_deep_tiny", "slow4_far", same + "--set 'search.schedule=\"looped_bfs\"'");
  const std::string text = emitted("megatron");
  EXPECT_THAT(text, AllOf(HasSubstr("Megatron-LM has no schedule like 'looped_bfs' of the plan; here it is interleaved 1F1B."), HasSubstr("cannot be said in Megatron-LM's words")));
  EXPECT_NEAR(milliseconds_of(text, "the plan"), 1e3 * real(planned, "step_seconds"), 6e-4);
  EXPECT_NEAR(milliseconds_of(text, "as written here"), 1e3 * real(wanted, "step_seconds"), 6e-4);
  EXPECT_GT(std::abs(real(wanted, "step_seconds") - real(planned, "step_seconds")), 1e-6);
  const std::string titan = emitted("torchtitan");
  EXPECT_THAT(titan, AllOf(HasSubstr("pipeline_parallel_schedule=\"LoopedBFS\""), HasSubstr("pipeline_parallel_degree=2"), HasSubstr("pipeline_parallel_microbatch_size=1"), HasSubstr("local_batch_size=4"),
                           HasSubstr("module_fqns_per_model_part=[[\"tok_embeddings\", \"layers.0\"], [\"layers.1\"], [\"layers.2\"], [\"layers.3\", \"layers.4\", \"norm\", HEAD]]")));
  EXPECT_NEAR(milliseconds_of(titan, "as written here"), 1e3 * real(planned, "step_seconds"), 6e-4);  // priced as ZeRO-1
}

TEST_F(FrameworkEmit, TorchtitanShardsWhatItCannotKeepWhole) {
  plan("gpt2_tiny", "slow4_far", manual("--set inter.manual.dp=4"));
  EXPECT_THAT(emitted("torchtitan"), AllOf(HasSubstr("data_parallel_replicate_degree=4"), HasSubstr("data_parallel_shard_degree=1"), HasSubstr("mode=\"none\""), HasSubstr(": 1.000 times as long")));
  plan("gpt2_tiny", "slow4_far", manual("--set inter.manual.dp=2 --set inter.manual.tp=2 --set 'search.recompute=\"all\"'"));
  EXPECT_THAT(emitted("torchtitan"), AllOf(HasSubstr("data_parallel_shard_degree=2"), HasSubstr("tensor_parallel_degree=2"), HasSubstr("fsdp_reshard_after_forward=\"never\""), HasSubstr("mode=\"full\""),
                                           HasSubstr("for which torchtitan wants data parallelism alone")));
}

// What runs again of layers, where that is attention alone.
TEST_F(FrameworkEmit, PartsOfLayersRunAgain) {
  const auto node = [&](const std::string& op) {
    const Graph graph = test::planned_program("gpt2_tiny", "4", {"search.step_rounds=0", "search.sure=false"}).value().plan.graph();
    std::string pins;
    for (const Node& node : graph.nodes) pins += node.op == op && node.module_path.find(".h.") != std::string::npos ? "--set 'pins.\"" + node.name + "\"=\"recompute\"' " : "";
    return pins;
  };
  plan("gpt2_tiny", "slow4_far", manual("--set inter.manual.dp=4 ") + node("aten.scaled_dot_product_attention"));
  EXPECT_THAT(emitted("megatron"), AllOf(HasSubstr("--recompute-granularity selective\n"), HasSubstr("--recompute-modules core_attn "), HasSubstr(": 1.000 times as long")));
  plan("gpt2_tiny", "slow4_far", manual("--set inter.manual.dp=4 ") + node("aten.layer_norm"));
  EXPECT_THAT(emitted("megatron"), HasSubstr("--recompute-modules layernorm "));
}

// Of experts each axis may do something else than in other ops.
TEST_F(FrameworkEmit, ExpertsHaveDegreesOfTheirOwn) {
  plan("mixtral_tiny", "slow4_far", "--mesh 4 --set 'search.zero=\"0\"' --set 'pins.\"sum_2\"=\"e\"' --set 'pins.\"sum_4\"=\"e\"'");
  const std::string text = emitted("megatron");
  EXPECT_THAT(text, AllOf(HasSubstr("--expert-model-parallel-size 4  # 8 experts"), HasSubstr("devices over which experts are split do in other ops whatever is fastest")));
  EXPECT_THAT(emitted("torchtitan"), HasSubstr("expert_parallel_degree=4"));
}

TEST_F(FrameworkEmit, SaysWhereItDoesNotFit) {
  plan("gpt2_tiny", "slow4_far", "--set 'search.recompute=\"free\"' --memory-budget 200KiB");
  const std::string text = emitted("megatron");
  EXPECT_THAT(text, AllOf(HasSubstr("Megatron-LM has no word for"), HasSubstr("more than the 200 KiB that the plan was made for: it does not fit")));
  EXPECT_THAT(emitted("megatron", "--set emit.price=false"), Not(HasSubstr("A step, simulated")));
}

TEST_F(FrameworkEmit, RefusesByName) {
  plan("t5_tiny", "slow4_far", "--set search.stages=2");
  for (const char* backend : {"megatron", "torchtitan"}) EXPECT_THAT(refusal(backend), HasSubstr("one list of layers into pipeline stages, and this model has several: 'inner.encoder.block', 'inner.decoder.block'"));
  plan("mlp_tiny", "slow4_far", "");
  for (const char* backend : {"megatron", "torchtitan"}) EXPECT_THAT(refusal(backend), HasSubstr("trains models of numbered layers, and this one has none"));
}

// What a plan's file says becomes a remark of one line, and nothing else.
TEST_F(FrameworkEmit, NamesAreRemarks) {
  plan("gpt2_tiny", "slow4_far", manual("--set inter.manual.dp=4"));
  const std::string text = read(path("plan.json")), name = "\"name\": \"gpt2_tiny\"";
  const std::size_t at = text.find(name);
  ASSERT_NE(at, std::string::npos);
  write("plan.json", text.substr(0, at) + R"("name": "x\n)\ntouch )" + path("made") + R"(\n\"\"\"\nraise 1 #")" + text.substr(at + name.size()));
  for (const char* backend : {"megatron", "torchtitan"}) {
    const std::string written = emitted(backend);
    EXPECT_THAT(written, AllOf(Not(HasSubstr("\ntouch")), Not(HasSubstr("\nraise")), HasSubstr("touch")));
  }
  EXPECT_EQ(run_command("bash " + path("out/megatron_args.sh")).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(path("made")));
}

framework::PlanReading read_tiny(const std::vector<std::string>& set) {
  host::PlanOptions options;
  options.model = test::tiny("gpt2_tiny");
  options.cluster = TEST_FOLDER "/slow4_far.toml";
  options.mesh = "2x2";
  options.set = set;
  options.set.insert(options.set.end(), {"search.step_rounds=0", "search.sure=false", "search.batch_axes=0"});
  return framework::read_plan(test::plan(options).value().plan.value()).value();
}

TEST(PlanReading, IsByMostComputing) {
  const framework::PlanReading both = read_tiny({"search.weights=1", "search.zero=0"});
  EXPECT_EQ(both.use.data, 2);
  EXPECT_EQ(both.use.tensor, 2);
  EXPECT_EQ(both.use.context, 1);
  EXPECT_LT(both.use.mixed_seconds, 0.005 * both.use.weight_seconds);  // positions have no batch
  EXPECT_GT(both.use.weight_seconds, 0);
  EXPECT_EQ(both.batch, 8);
  EXPECT_EQ(both.sequence, 8);
  EXPECT_EQ(both.heads, 4);
  EXPECT_EQ(both.zero.stage, ZeroStage::none);
  EXPECT_EQ(both.layers.layers.size(), 2U);
  EXPECT_EQ(both.layers.lists, std::vector<std::string>{"inner.transformer.h"});
  const framework::PlanReading context = read_tiny({"search.context_axes=1", "search.zero=1", "search.zero_axes=0"});
  EXPECT_EQ(context.use.data, 2);
  EXPECT_EQ(context.use.context, 2);
  EXPECT_EQ(context.zero.stage, ZeroStage::optimizer);
  EXPECT_EQ(context.zero.copies, 2);
  EXPECT_GT(context.zero.share, 0.9);
}

}  // namespace
}  // namespace meshwright
