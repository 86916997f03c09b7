// `plan --devices 8,64,128`: the best plan at each size of a part of the cluster, and where adding devices stops paying.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <ostream>

#include "folder_test.h"
#include "model_flops.h"
#include "planning.h"
#include "printed_json.h"
#include "run_program.h"

namespace meshwright {
namespace {

using host::Json;
using test::Outcome;
using test::integer;
using test::json_of;
using test::list;
using test::real;
using test::run_program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kPeak = 1e9;  // of the slow devices' matrix products, whatever the dtype

std::string model_file(const std::string& model) { return model + (model.find('.') == std::string::npos ? ".pt2" : ""); }

std::string command(const std::string& model, const std::string& cluster, const std::string& options) {
  const std::string file = cluster.starts_with('/') ? cluster : TEST_FOLDER "/" + cluster + ".toml";
  return "plan " SOURCE_FOLDER "/tests/models/" + model_file(model) + " --cluster " + file + " --set search.step_rounds=0 --set search.sure=false " + options;
}

Json sizes_of(const std::string& model, const std::string& cluster, const std::string& options) { return json_of(run_program(command(model, cluster, "--format json " + options))); }

const std::string& text_of(const Json& json, const char* key) { return std::get<std::string>(json.find(key)->value()); }

std::string refused_sizes(const std::string& options, int exit_code = 2) {
  const Outcome outcome = run_program(command("gpt2_tiny", "slow_pairs", options));
  EXPECT_EQ(outcome.exit_code, exit_code) << options;
  return outcome.errors;
}

struct SizesCase {
  const char* name;
  const char* model;
  const char* cluster;
  const char* options;
  std::vector<std::int64_t> idle;  // at each size
};
void PrintTo(const SizesCase& here, std::ostream* out) { *out << here.name; }

class DeviceSizes : public testing::TestWithParam<SizesCase> {};

// Each row is what `plan --devices` of what it uses says by itself, and no part of at most so many devices has a shorter step.
TEST_P(DeviceSizes, ASizeIsAsGoodAsAnyPartOfIt) {
  const SizesCase& here = GetParam();
  const Json table = sizes_of(here.model, here.cluster, here.options);
  const Json::Array &rows = list(table, "sizes"), &parts = list(table, "parts");
  ASSERT_EQ(rows.size(), here.idle.size());
  double before = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Json& row = rows[i];
    const std::int64_t devices = integer(row, "devices"), used = integer(row, "used");
    const double step = real(row, "step_seconds");
    EXPECT_EQ(integer(row, "idle"), here.idle[i]) << devices;
    EXPECT_EQ(used + integer(row, "idle"), devices);
    EXPECT_LE(step, before) << devices;
    before = step;
    for (const Json& part : parts) {
      if (integer(part, "devices") <= devices) { EXPECT_LE(step, real(part, "step_seconds")) << devices; }
    }
    std::string one = here.options;
    one.replace(one.find("--devices "), one.find(' ', one.find("--devices ") + 10) - one.find("--devices "), "--devices " + std::to_string(used));
    const Json alone = sizes_of(here.model, here.cluster, one);
    EXPECT_EQ(real(alone, "step_seconds"), step) << devices;
    EXPECT_EQ(integer(alone, "peak_bytes"), integer(row, "peak_bytes")) << devices;
    EXPECT_DOUBLE_EQ(real(row, "samples_per_second_per_device"), 8 / (step * static_cast<double>(used)));
    EXPECT_DOUBLE_EQ(real(row, "tokens_per_second_per_device"), 64 / (step * static_cast<double>(used)));
  }
  EXPECT_EQ(integer(*table.find("pays"), "shortest_step_devices"), integer(rows.back(), "used"));
}

INSTANTIATE_TEST_SUITE_P(Clusters, DeviceSizes,
                         testing::Values(SizesCase{"Near", "gpt2_tiny", "slow8", "--devices 1,2,4,8 ", {0, 0, 0, 0}}, SizesCase{"Far", "gpt2_tiny", "slow8_farther", "--devices 1,2,8 ", {0, 0, 0}},
                                         SizesCase{"Idle", "gpt2_tiny", "slow_pairs", "--devices 1,2,4,6,12 ", {0, 0, 0, 2, 4}},
                                         SizesCase{"Stages", "gpt2_tiny", "slow_pairs", "--devices 2,4,8 --set search.stages=2 --set train.microbatches=4", {0, 0, 0}},
                                         SizesCase{"Microbatches", "gpt2_tiny", "slow8", "--devices 2,4 --set train.microbatches=free", {0, 0}},
                                         SizesCase{"Grid", "gpt2_tiny", "slow8_farther", "--devices 1,2 --set 'search.inter=\"grid\"'", {0, 0}},
                                         SizesCase{"Joint", "gpt2_tiny", "slow8_farther", "--devices 1,2 --set 'search.inter=\"joint\"'", {0, 0}},
                                         SizesCase{"Manual", "gpt2_tiny", "slow_pairs", "--devices 2,4,8 --set 'search.inter=\"manual\"' --set inter.manual.tp=2", {0, 0, 0}}),
                         [](const auto& info) { return info.param.name; });

TEST(DeviceSizesCommand, SaysWhichDevicesIdleAndWhereAddingStopsPaying) {
  const Outcome outcome = run_program(command("gpt2_tiny", "slow_pairs", "--devices 1,4,6,12"));
  const Json table = sizes_of("gpt2_tiny", "slow_pairs", "--devices 12,1,6,4");  // in any order
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("the same step of 8 samples at each size (strong scaling), each of 8 tokens (of input 'input_ids')"),
                                    testing::ContainsRegex("\n  6 +3.626 ms .* 2\n  12 +2.863 ms .* 4\n"), HasSubstr("Shortest step    2.863 ms on 8 devices; of 12 the others idle"),
                                    HasSubstr("Planned for the sizes above it, too: 8 devices, 2.863 ms."), HasSubstr("All of 12 devices would take ")));
  // From 1 to 4 devices each of three is worth more than half of the first; from 4 to 8 each of four is not.
  const Json::Array& rows = list(table, "sizes");
  const double one = real(rows[0], "step_seconds"), four = real(rows[1], "step_seconds"), eight = real(rows[3], "step_seconds");
  ASSERT_GT((1 / four - 1 / one) / 3, 0.5 / one);
  ASSERT_LT((1 / eight - 1 / four) / 4, 0.5 / one);
  const Json& pays = *table.find("pays");
  EXPECT_EQ(integer(pays, "most_per_device_devices"), 1);
  EXPECT_EQ(integer(pays, "pays_up_to_devices"), 4);
  EXPECT_EQ(integer(*pays.find("next"), "devices"), 8);
  EXPECT_NEAR(real(*pays.find("next"), "share"), (1 / eight - 1 / four) / 4 * one, 1e-12);
  EXPECT_THAT(outcome.output, HasSubstr("stops paying at 4: of those that are added from there up to 8, where they do most, each does 21 % of what one does on 1"));
}

TEST(DeviceSizesCommand, WhereNothingFitsSaysWhyAndGoesOn) {
  const std::string tight = "--devices 2,4,8 --memory-budget 300KiB ";
  const Json table = sizes_of("gpt2_tiny", "slow_pairs", tight);
  EXPECT_EQ(text_of(list(table, "sizes")[0], "status"), "no plan");
  EXPECT_THAT(text_of(list(table, "parts")[0], "reason"), HasSubstr("no plan fits into 300 KiB per device"));
  EXPECT_LE(integer(list(table, "sizes")[1], "peak_bytes"), 300 * 1024);
  EXPECT_THAT(run_program(command("gpt2_tiny", "slow_pairs", tight)).output, HasSubstr("No plan uses all of 2 devices: no plan fits into 300 KiB per device\n"));
  EXPECT_THAT(run_program(command("gpt2_tiny", "slow_pairs", "--devices 2,4 --set search.stages=4")).output,
              HasSubstr("No plan uses all of 2 devices: 2 devices of 'slow_pairs' in 4 stages: each stage gets as many"));
  EXPECT_THAT(refused_sizes("--devices 2,4 --memory-budget 1KiB", 3), HasSubstr("none of the sizes has a plan that fits"));
}

// Nothing that a size comes to changes what another one does.
TEST(DeviceSizesCommand, ARefusedSizeLeavesTheOthersAsTheyAre) {
  const std::string joint = " --memory-budget 300KiB --set 'search.inter=\"joint\"'";
  const Json table = sizes_of("gpt2_tiny", "slow8_farther", "--devices 1,4" + joint), alone = sizes_of("gpt2_tiny", "slow8_farther", "--devices 4" + joint);
  EXPECT_EQ(text_of(list(table, "sizes")[0], "status"), "no plan");
  EXPECT_THAT(text_of(list(table, "parts")[0], "reason"), HasSubstr("no plan fits, with any number of stages that was tried:\n"));
  EXPECT_EQ(real(list(table, "sizes")[1], "step_seconds"), real(alone, "step_seconds"));
  EXPECT_THAT(run_program(command("gpt2_tiny", "slow8_farther", "--devices 1,4" + joint)).output, HasSubstr("No plan uses all of 1 device: no plan fits, with any number of stages that was tried: 1 stage, "));
}

TEST(DeviceSizesCommand, RefusesByName) {
  EXPECT_THAT(refused_sizes("--devices 3"), HasSubstr("--devices: 3 devices of 'slow_pairs' are neither whole servers of 2 nor an even part of one; take 2 or 4"));
  EXPECT_THAT(refused_sizes("--devices 2,5"), HasSubstr("5 devices of 'slow_pairs' are neither whole servers of 2 nor an even part of one; take 4 or 6"));
  EXPECT_THAT(refused_sizes("--devices 2,14"), HasSubstr("--devices: 14 devices of 'slow_pairs', which has 12: take at most these"));
  EXPECT_THAT(refused_sizes("--devices 0,2"), HasSubstr("--devices: 0 devices of 'slow_pairs': a part of a cluster has at least one"));
  EXPECT_THAT(refused_sizes("--devices=-2"), HasSubstr("--devices: -2 devices"));
  EXPECT_THAT(refused_sizes("--devices 2,4,2"), HasSubstr("--devices names 2 twice"));
  EXPECT_THAT(refused_sizes("--devices 2,eight"), HasSubstr("--devices 'eight' is no number of devices"));
  EXPECT_THAT(refused_sizes("--devices 2,4x"), HasSubstr("--devices '4x' is no number of devices"));
  EXPECT_THAT(refused_sizes("--devices 2,99999999999999999999"), HasSubstr("is no number of devices"));
  const std::string several = "and --devices names several sizes; leave it out, or name one size";
  EXPECT_THAT(refused_sizes("--devices 2,4 -o plan.json"), AllOf(HasSubstr("-o plan.json is of one plan"), HasSubstr(several)));
  EXPECT_THAT(refused_sizes("--devices 2,4 --known plan.json"), AllOf(HasSubstr("--known plan.json is of one plan"), HasSubstr(several)));
  EXPECT_THAT(refused_sizes("--devices 2,4 --top 3"), AllOf(HasSubstr("--top 3 ranks the plans of one size"), HasSubstr(several)));
  EXPECT_THAT(refused_sizes("--devices 2,4 --mesh 2x2"), AllOf(HasSubstr("the mesh 2x2 (--mesh, or \"mesh\" in [cluster])"), HasSubstr(several)));
  EXPECT_THAT(refused_sizes("--devices 2,4 --set 'cluster.mesh=\"4\"'"), HasSubstr("the mesh 4 "));
  EXPECT_THAT(refused_sizes("--devices 2,4 --set 'search.inter=\"gird\"'"), HasSubstr("did you mean \"grid\"?"));
  EXPECT_THAT(refused_sizes("--devices 4 --mesh 2x4"), HasSubstr("does not cover"));  // of one size: that of the part
}

class OneSize : public test::FolderTest {};

// One size is a plan as any other, of that part: it computes what one device computes.
TEST_F(OneSize, IsAPlanOfThePart) {
  const std::string file = path("plan.json");
  const Json planned = json_of(run_program(command("gpt2_tiny", "slow_pairs", "--devices 4 --mesh 2x2 --format json -o " + file)));
  EXPECT_GT(real(planned, "step_seconds"), 0);
  const Json verified = json_of(run_program("verify " + file + " --format json"));
  EXPECT_TRUE(std::get<bool>(verified.find("equal")->value()));
  const Json cluster = *host::parse_json(read(file), file).value().find("cluster");
  EXPECT_EQ(integer(cluster, "nodes"), 2);
  EXPECT_EQ(integer(cluster, "devices_per_node"), 2);
}

// What more nodes would do (suggestions.h) is asked of the cluster that there is, whose network joins them.
TEST(DeviceSizesCommand, MoreNodesOfAPartAreTheClusters) {
  host::PlanOptions options;
  options.model = SOURCE_FOLDER "/tests/models/gpt2_tiny.pt2";
  options.cluster = TEST_FOLDER "/slow_pairs.toml";
  options.set = {"search.step_rounds=0", "search.sure=false"};
  options.usual = false;
  options.part_devices = 2;
  options.node_factor = 2;
  const Plan more = *test::plan(options).value().plan;
  EXPECT_EQ(more.cluster.devices(), 4);
  EXPECT_EQ(more.cluster.levels.back().name, "network");
  EXPECT_EQ(more.cluster.levels.back().group, 4);
  options.part_devices = 4;
  options.node_factor = 1;
  EXPECT_EQ(more.step_seconds, test::plan(options).value().plan->step_seconds);
}

// --- FLOPs ---

// Of layers of a width and the model's head, 64 tokens: a product has two FLOPs for each weight and token in the forward, and twice that in the backward. Attention of 8 samples of 8 tokens:
// two products over all pairs of tokens and the width.
constexpr double flops_by_hand(double weights) { return 3 * (64 * 2 * weights + 2 * 2 * (2.0 * 8 * 8 * 8 * 32)); }
constexpr double kGpt2Weights = 2 * 12 * 32 * 32 + 32 * 50;

struct FlopsCase {
  const char* name;
  const char* model;
  double flops;
};
void PrintTo(const FlopsCase& here, std::ostream* out) { *out << here.name; }

class Mfu : public testing::TestWithParam<FlopsCase> {};

TEST_P(Mfu, IsWhatAHandCountGives) {
  const FlopsCase& here = GetParam();
  const Json table = sizes_of(here.model, "slow8", "--devices 1,4");
  EXPECT_DOUBLE_EQ(real(table, "model_flops"), here.flops);
  for (const Json& row : list(table, "sizes")) {
    const double mfu = real(row, "mfu");
    EXPECT_NEAR(mfu, here.flops / (real(row, "step_seconds") * static_cast<double>(integer(row, "used")) * kPeak), 1e-12);
    EXPECT_GT(mfu, 0.3);
    EXPECT_LT(mfu, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Mfu,
                         testing::Values(FlopsCase{"Gpt2", "gpt2_tiny", flops_by_hand(kGpt2Weights)}, FlopsCase{"Bert", "bert_tiny", flops_by_hand(2 * (4 * 32 * 32 + 2 * 32 * 64) + 32 * 32 + 32 * 50)},
                                         // Two heads of keys and values for four of queries.
                                         FlopsCase{"Llama", "llama_tiny", flops_by_hand(2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64) + 32 * 50)},
                                         // Of 16 samples; nobody asks for the gradient of what the first layer is fed.
                                         FlopsCase{"Mlp", "mlp_tiny", 16 * 2.0 * (2 * 16 * 64 + 3 * 64 * 64 + 3 * 64 * 8)}),
                         [](const auto& info) { return info.param.name; });

TEST(DeviceSizesCommand, WhatRunsAgainIsNoModelFlop) {
  const Json kept = sizes_of("gpt2_tiny", "slow8", "--devices 1,2"), again = sizes_of("gpt2_tiny", "slow8", "--devices 1,2 --set 'search.recompute=\"all\"'");
  EXPECT_EQ(real(again, "model_flops"), real(kept, "model_flops"));
  EXPECT_LT(real(list(again, "sizes")[0], "mfu"), real(list(kept, "sizes")[0], "mfu"));
  EXPECT_EQ(real(sizes_of("gpt2_tiny", "slow8", "--devices 1,2 --set train.microbatches=4 --set train.dtype=bf16"), "model_flops"), real(kept, "model_flops"));
}

// Where an op says that it is causal, half of its pairs count, whatever its kernel computes again.
TEST(DeviceSizesCommand, CausalAttentionCountsHalf) {
  host::PluginHost host = test::open_host();
  const std::unique_ptr<OpTable> ops = host.op_table().value();
  host::PlanOptions options;
  options.model = SOURCE_FOLDER "/tests/models/gpt2_tiny.pt2";
  options.cluster = TEST_FOLDER "/slow8.toml";
  options.usual = false;
  const Plan plan = *test::plan(options).value().plan;
  Graph graph = plan.graph();
  int changed = 0;
  for (Node& node : graph.nodes) {
    if (node.op != "aten.scaled_dot_product_attention") continue;
    std::erase_if(node.operands, [](const Operand& operand) { return operand.name == "attn_mask"; });
    node.attributes["is_causal"] = true;
    ++changed;
  }
  ASSERT_EQ(changed, 2);
  const ModelFlops flops = model_flops(analyze_model(std::move(graph), *ops).value(), plan.training).value();
  EXPECT_DOUBLE_EQ(flops.sum(), (flops_by_hand(kGpt2Weights) + 3 * 64 * 2 * kGpt2Weights) / 2);
  EXPECT_EQ(flops.by_dtype.count(DType::float32), 1U);
}

class UnknownMfu : public test::FolderTest {};

TEST_F(UnknownMfu, IsSaid) {
  write("device.toml",
        "name = \"no bfloat16\"\nmemory = \"4GiB\"\nmemory_bandwidth = \"1GB/s\"\nvector_flops = \"1GFLOP/s\"\nlaunch = \"0us\"\nmatrix_efficiency = 1.0\nmemory_efficiency = 1.0\n"
        "half_efficiency = \"1FLOP\"\n[matrix_flops]\nfloat32 = \"1GFLOP/s\"\n");
  write("cluster.toml", "name = \"two\"\nnodes = 1\ndevices_per_node = 2\ndevice = \"device.toml\"\nreserved_bytes = \"0GiB\"\n[[level]]\nname = \"all\"\ngroup = 2\nbandwidth = \"1GB/s\"\nlatency = \"1us\"\n");
  const std::string half = "--devices 1,2 --set train.dtype=bf16";
  const Json table = sizes_of("gpt2_tiny", path("cluster.toml"), half);
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(list(table, "sizes")[0].find("mfu")->value()));
  EXPECT_THAT(text_of(table, "mfu_unknown"), HasSubstr("device 'no bfloat16' states no peak of bfloat16 matrix products"));
  EXPECT_THAT(run_program(command("gpt2_tiny", path("cluster.toml"), half)).output, AllOf(HasSubstr("  unknown  "), HasSubstr("MFU is unknown: device 'no bfloat16' states no peak")));
  EXPECT_GT(real(list(sizes_of("gpt2_tiny", path("cluster.toml"), "--devices 1,2"), "sizes")[0], "mfu"), 0);
  EXPECT_THAT(text_of(sizes_of("classifier_tiny.onnx", "slow8", "--devices 1,2 --set model.batch=8"), "mfu_unknown"), HasSubstr("the model has no backward"));
}

// Pictures are no tokens: samples are counted.
TEST(DeviceSizesCommand, TokensAreThoseOfAnInputOfWholeNumbers) {
  const Json table = sizes_of("vit_tiny", "slow8", "--devices 1,2");
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(table.find("tokens")->value()));
  EXPECT_TRUE(std::holds_alternative<std::nullptr_t>(list(table, "sizes")[0].find("tokens_per_second_per_device")->value()));
  EXPECT_GT(real(list(table, "sizes")[0], "samples_per_second_per_device"), 0);
  EXPECT_THAT(run_program(command("vit_tiny", "slow8", "--devices 1,2")).output, AllOf(HasSubstr("samples/s a device"), HasSubstr("which have no input of tokens"), Not(HasSubstr("tokens/s"))));
}

}  // namespace
}  // namespace meshwright
