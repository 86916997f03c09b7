// `meshwright verify`, `simulate` and `emit` as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "files/json.h"
#include "planning.h"
#include "printed_json.h"
#include "run_program.h"
#include "scratch.h"

namespace meshwright {
namespace {

using host::Json;
using test::Outcome;
using test::example;
using test::integer;
using test::json_of;
using test::run_program;
using test::scratch;
using test::tiny;
using testing::HasSubstr;

std::string plan(const std::string& model, const std::string& cluster, const std::string& options = "") {
  std::string file = scratch("plan.json");
  const Outcome outcome = run_program("plan " + model + " --cluster " SOURCE_FOLDER "/configs/clusters/" + cluster + ".toml " +
                                      options + " -o " + file);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  return file;
}


void expect_equal(const Json& json) {
  EXPECT_TRUE(std::get<bool>(json.find("equal")->value()));
  EXPECT_LE(std::get<double>(json.find("max_relative_error")->value()), 1e-4);
  EXPECT_EQ(integer(json, "ranks"), 8);
  EXPECT_EQ(integer(json, "bytes_sent_predicted"), integer(json, "bytes_sent_measured"));
  EXPECT_NEAR(static_cast<double>(integer(json, "peak_bytes_measured")), static_cast<double>(integer(json, "peak_bytes_predicted")),
              0.01 * static_cast<double>(integer(json, "peak_bytes_predicted")));
  const double serial = std::get<double>(json.find("loss_serial")->value());
  EXPECT_NEAR(std::get<double>(json.find("loss_parallel")->value()), serial, 1e-4 * serial);
  EXPECT_NE(json.find("worst_tensor"), nullptr);
}

class VerifyTiny : public testing::TestWithParam<const char*> {};

TEST_P(VerifyTiny, IsEqualOnEveryClusterOfEight) {
  for (const auto& [cluster, optimizer] : {std::pair("h100x8", "adamw"), std::pair("a100x8_nvlink_pairs", "sgd")}) {
    const std::string file = plan(tiny(GetParam()), cluster, std::string("--set train.optimizer=") + optimizer + " --set search.sure=false");
    expect_equal(json_of(run_program("verify " + file + " --format json")));
    std::filesystem::remove(file);
  }
}

// On slow devices the plans of small models share the work as those of large ones do on quick ones.
TEST_P(VerifyTiny, IsEqualWhereSharingThePlanPays) {
  for (const char* mesh : {"8", "2x4"}) {
    const std::string file = scratch("slow.json");
    const Outcome planned = run_program("plan " + tiny(GetParam()) + " --cluster " TEST_FOLDER "/slow8.toml --mesh " + mesh + " --format json -o " + file);
    ASSERT_EQ(planned.exit_code, 0) << planned.errors;
    EXPECT_THAT(planned.output, HasSubstr("\"unruled_ops\": []"));
    EXPECT_THAT(planned.output, testing::Not(HasSubstr("is idle")));
    expect_equal(json_of(run_program("verify " + file + " --format json")));
    std::filesystem::remove(file);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, VerifyTiny, testing::Values("gpt2_tiny", "gpt2_tiny_weights", "bert_tiny", "vit_tiny", "mlp_tiny", "llama_tiny",
                                                              "resnet_tiny", "t5_tiny", "vgg_tiny", "clip_tiny", "swin_tiny", "unet_tiny", "densenet_tiny", "vit_torchvision_tiny",
                                                              "mixtral_tiny", "qwen_moe_tiny", "encoder_open",
                                                              "encoder_torch_2_6", "encoder_torch_2_8", "encoder_torch_2_10"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Verify, SaysTheLineThatMatters) {
  const std::string file = plan(tiny("gpt2_tiny"), "h100x8");
  const Outcome outcome = run_program("verify " + file);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.errors, "");
  EXPECT_THAT(outcome.output, HasSubstr("8 ranks compute what 1 computes over 3 steps: largest relative error "));
}

// In float64 what is left of a difference is rounding: rows of small gradients are right too.
TEST(Verify, ExactlyHoldsEveryElementAgainstItsRow) {
  for (const char* model : {"gpt2_tiny", "gpt2_tiny_weights", "mlp_bf16_weights", "bert_tiny", "llama_tiny", "mixtral_tiny", "t5_tiny", "resnet_tiny"}) {
    SCOPED_TRACE(model);
    const std::string file = scratch("exact.json");
    const Outcome planned = run_program("plan " + tiny(model) + " --cluster " TEST_FOLDER "/slow8.toml --mesh 2x4 --set search.sure=false --set search.step_rounds=0 -o " + file);
    ASSERT_EQ(planned.exit_code, 0) << planned.errors;
    const Json exact = json_of(run_program("verify " + file + " --exact --format json"));
    EXPECT_TRUE(std::get<bool>(exact.find("equal")->value()));
    EXPECT_LE(std::get<double>(exact.find("max_relative_error")->value()), 1e-9);
    EXPECT_EQ(integer(exact, "bytes_sent_predicted"), integer(exact, "bytes_sent_measured"));
    // Twice the bytes of float32, but for integers and what is counted in it.
    const Json usual = json_of(run_program("verify " + file + " --format json"));
    EXPECT_GT(integer(exact, "bytes_sent_measured"), integer(usual, "bytes_sent_measured"));
    std::filesystem::remove(file);
  }
}

TEST(Verify, TakesTheModelsOwnWeights) {
  const std::string drawn = plan(tiny("gpt2_tiny"), "h100x8");
  const Json without = json_of(run_program("verify " + drawn + " --format json"));
  const std::string given = plan(tiny("gpt2_tiny_weights"), "h100x8");
  const Json with = json_of(run_program("verify " + given + " --format json"));
  EXPECT_NE(std::get<double>(without.find("loss_serial")->value()), std::get<double>(with.find("loss_serial")->value()));
}

TEST(Verify, DrawsWeightsWhereTheModelIsGoneAndSaysSo) {
  const std::string copy = scratch("model.pt2");
  std::filesystem::copy_file(tiny("mlp_tiny"), copy);
  const std::string file = plan(copy, "h100x8");
  std::filesystem::remove(copy);
  const Outcome outcome = run_program("verify " + file);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("weights are drawn"));
}

TEST(Verify, ComputesInFloat32WhatIsPlannedInLess) {
  const std::string file = plan(tiny("bert_tiny"), "h100x8", "--set train.param_dtype=bf16");
  const Outcome outcome = run_program("verify " + file + " --format json");
  expect_equal(json_of(outcome));
  EXPECT_THAT(outcome.errors, HasSubstr("verify: the plan computes in half precision; here it is run in float32"));
}

TEST(Verify, ComputesInFloat32WhatIsReducedInLess) {
  for (const char* dtype : {"bf16", "fp16"}) {
    const std::string file = plan(tiny("mlp_tiny"), "h100x8", std::string("--set search.zero=2 --set train.microbatches=2 --set train.reduce_dtype=") + dtype);
    const Outcome outcome = run_program("verify " + file + " --format json");
    expect_equal(json_of(outcome));
    EXPECT_THAT(outcome.errors, HasSubstr("verify: the plan computes in half precision; here it is run in float32"));
  }
}

// A model in half precision has its own weights, as float32.
TEST(Verify, ComputesInFloat32WhatIsExportedInLess) {
  const std::string file = plan(tiny("mlp_bf16_weights"), "h100x8");
  const Outcome outcome = run_program("verify " + file + " --format json");
  const Json given = json_of(outcome);
  expect_equal(given);
  EXPECT_THAT(outcome.errors, HasSubstr("verify: the plan computes in half precision; here it is run in float32"));
  const Json drawn = json_of(run_program("verify " + plan(tiny("mlp_tiny"), "h100x8") + " --format json"));
  EXPECT_NE(std::get<double>(given.find("loss_serial")->value()), std::get<double>(drawn.find("loss_serial")->value()));
}

TEST(Verify, RefusesWhatIsNoPlan) {
  const std::string file = scratch("bad.json");
  std::ofstream(file) << "{\"format\": 1";
  for (const char* command : {"verify ", "emit ", "simulate "}) {
    const Outcome outcome = run_program(command + file);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.errors, HasSubstr(file));
    EXPECT_EQ(outcome.output, "");
  }
}

// A layout in the plan that the graph does not allow.
TEST(Verify, RefusesAPlanThatDoesNotFitItsGraph) {
  const std::string file = plan(tiny("mlp_tiny"), "h100x8");
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::string changed = text.str();
  const std::size_t at = changed.find("\"layout\": \"");
  ASSERT_NE(at, std::string::npos);
  changed.replace(at, sizeof("\"layout\": \""), "\"layout\": \"Q");
  std::ofstream(file) << changed;
  const Outcome outcome = run_program("verify " + file);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output << outcome.errors;
}

// What a hand or another program may do to a plan: leave a variable out, give an op another layout.
TEST(Verify, NamesWhatIsMissingOrInconsistent) {
  const std::string file = plan(tiny("mlp_tiny"), "h100x8", "--set search.weights=sharded");
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string changed = text.str();
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    std::ofstream(file) << changed;
    const Outcome outcome = run_program("verify " + file);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output << outcome.errors;
    return outcome.errors;
  };
  EXPECT_THAT(changed("\"kind\": \"output\"", "\"kind\": \"fork\""), HasSubstr("variables[19]: the key 'results' is missing"));
  EXPECT_THAT(changed("\"name\": \"gelu\"", "\"name\": \"gelo\""), HasSubstr("the graph has no node 'gelo'"));
}

TEST(Simulate, HasThePeakOfTheRunAndATrace) {
  const std::string file = plan(tiny("vit_tiny"), "h100x8"), trace = scratch("trace.json");
  const Json simulated = json_of(run_program("simulate " + file + " --format json --trace " + trace));
  const Json verified = json_of(run_program("verify " + file + " --format json"));
  EXPECT_EQ(integer(simulated, "peak_bytes"), integer(verified, "peak_bytes_measured"));
  EXPECT_EQ(integer(simulated, "bytes_sent"), integer(verified, "bytes_sent_measured"));
  EXPECT_GT(std::get<double>(simulated.find("step_seconds")->value()), 0);
  std::stringstream text;
  text << std::ifstream(trace).rdbuf();
  const Result<Json> parsed = host::parse_json(text.str(), trace);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_NE(parsed->find("traceEvents"), nullptr);
}

TEST(Emit, PrintsTheProgramOrWritesItIntoAFolder) {
  const std::string file = plan(tiny("mlp_tiny"), "h100x8"), folder = scratch("out");
  const Outcome printed = run_program("emit " + file + " --backend text");
  EXPECT_EQ(printed.exit_code, 0) << printed.errors;
  EXPECT_THAT(printed.output, HasSubstr("program mlp_tiny on a mesh"));
  EXPECT_EQ(run_program("emit " + file + " --backend text -o " + folder).exit_code, 0);
  std::stringstream text;
  text << std::ifstream(folder + "/program.txt").rdbuf();
  EXPECT_EQ(text.str(), printed.output);
  std::filesystem::remove_all(folder);
}

// What the search counted is what the ranks do: lowering adds no move of its own to a plan that the solver chose.
TEST(Emit, HasNoMoveThatThePlanDoesNotPrice) {
  for (const auto& [model, mesh] : {std::pair("gpt2_small", "2x2x2"), std::pair("bert_base", "2x4"), std::pair("vit_base", "2x2x2")}) {
    const std::string file = plan(example(model), "a100x8_nvlink_pairs", std::string("--set search.sure=false --mesh ") + mesh);
    const Outcome outcome = run_program("emit " + file);
    EXPECT_THAT(outcome.output, HasSubstr("reduce_scatter"));
    EXPECT_THAT(outcome.output, testing::Not(HasSubstr("not in the plan"))) << model << " on " << mesh;
  }
}

TEST(Emit, SuggestsABackend) {
  const std::string file = plan(tiny("mlp_tiny"), "h100x8");
  const Outcome outcome = run_program("emit " + file + " --backend txt");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("text"));
}

// Twelve layers of full width, 512 tokens: 124 million parameters on 8 ranks.
class VerifyFullWidth : public testing::TestWithParam<const char*> {};

TEST_P(VerifyFullWidth, IsEqualAndStaysUnder16GiB) {
  const std::string file = plan(example(GetParam()), "h100x8");
  expect_equal(json_of(run_program("verify " + file + " --format json")));
  std::filesystem::remove(file);
  rusage children{};
  ::getrusage(RUSAGE_CHILDREN, &children);
  EXPECT_LT(children.ru_maxrss, 16 * 1024 * 1024) << "KiB";
}

INSTANTIATE_TEST_SUITE_P(Models, VerifyFullWidth, testing::Values("gpt2_small_short", "bert_base_short", "vit_base_short"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace meshwright
