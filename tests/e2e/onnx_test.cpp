// ONNX models as a user meets them: planned as their .pt2 twins are, and verified with a loss that the config attaches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "files/json.h"
#include "planning.h"
#include "run_program.h"

namespace meshwright {
namespace {

using host::Json;
using testing::HasSubstr;

std::string model(const std::string& name) { return SOURCE_FOLDER "/tests/models/" + name; }

const std::vector<std::string> kClassified = {"model.loss=cross_entropy"};
const std::vector<std::string> kLanguage = {"model.loss=cross_entropy", "model.loss_shift=true"};

struct Twins {
  const char* name;
  const char* onnx;
  const char* twin;
  std::vector<std::string> settings;
  double tolerance;
};

void PrintTo(const Twins& twins, std::ostream* out) { *out << twins.name; }

class OnnxTwins : public testing::TestWithParam<Twins> {
 protected:
  static Plan plan(const std::string& path, const char* cluster, const char* mesh,
                   const std::vector<std::string>& settings) {
    host::PlanOptions options;
    options.model = path;
    options.cluster = test::cluster(cluster);
    options.mesh = mesh;
    options.set = settings;
    options.set.push_back("search.step_rounds=0");
    Result<host::PlanOutcome> outcome = test::plan(options);
    EXPECT_TRUE(outcome.ok() && outcome->plan) << (outcome.ok() ? outcome->refusal : outcome.error().message);
    return outcome.ok() && outcome->plan ? std::move(*outcome->plan) : Plan{};
  }
  static std::int64_t parameters(const Graph& graph) {
    std::int64_t elements = 0;
    for (const Source& source : graph.sources)
      elements += source.kind == SourceKind::parameter ? graph.type(source.value).elements() : 0;
    return elements;
  }
};

TEST_P(OnnxTwins, GetTheObjectiveOfTheirPt2) {
  const Twins& twins = GetParam();
  for (const auto& [cluster, mesh] : {std::pair{"h100x8", "8"}, std::pair{"a100x8_nvlink_pairs", "2x4"}}) {
    const Plan onnx = plan(model(twins.onnx), cluster, mesh, twins.settings),
               twin = plan(model(twins.twin), cluster, mesh, {});
    EXPECT_EQ(onnx.status, SolveStatus::optimal);
    EXPECT_NEAR(onnx.objective_seconds, twin.objective_seconds, twins.tolerance * twin.objective_seconds) << cluster;
    EXPECT_EQ(parameters(onnx.graph()), parameters(twin.graph()));
    EXPECT_TRUE(onnx.unruled_ops.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OnnxTwins,
    testing::Values(Twins{"gpt2_23", "gpt2_small_23.onnx", "../../examples/gpt2_small.pt2", kLanguage, 0.01},
                    Twins{"resnet50_23",
                          "resnet50_23.onnx",
                          "resnet50.pt2",
                          {"model.loss=cross_entropy", "frontend.onnx.batch_norm=training"},
                          0.01},
                    Twins{"gpt2_17", "gpt2_small_17.onnx", "../../examples/gpt2_small.pt2", kLanguage, 0.05},
                    Twins{"bert_17", "bert_base_17.onnx", "../../examples/bert_base.pt2", kClassified, 0.05}),
    [](const auto& info) { return std::string(info.param.name); });

// Plans the model with these settings and gives what `verify` says of it.
Json verified(const std::string& path, const std::string& settings) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("meshwright-onnx-plan-" + std::to_string(::getpid()) + ".json"))
          .string();
  const test::Outcome planned = test::run_program(
      "plan " + path + " --cluster " SOURCE_FOLDER "/configs/clusters/a100x8_nvlink_pairs.toml --mesh 2x4 " + settings +
      " -o " + file);
  EXPECT_EQ(planned.exit_code, 0) << planned.errors;
  const test::Outcome outcome = test::run_program("verify " + file + " --format json");
  std::filesystem::remove(file);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors << outcome.output;
  Json json = host::parse_json(outcome.output, "output").value();
  EXPECT_TRUE(std::get<bool>(json.find("equal")->value()));
  EXPECT_LE(std::get<double>(json.find("max_relative_error")->value()), 1e-4);
  return json;
}

double loss(const Json& json) { return std::get<double>(json.find("loss_serial")->value()); }

const std::string kToClasses = " --set model.loss=cross_entropy ",
                  kToNextToken = kToClasses + "--set model.loss_shift=true ";
const std::string kSharded = "--set search.weights=sharded ";

TEST(OnnxVerify, GptAtEitherOpsetComputesWhatItsPt2Does) {
  const double twin = loss(verified(model("gpt2_tiny_weights.pt2"), ""));
  for (const char* name : {"gpt2_23_tiny.onnx", "gpt2_17_tiny.onnx"}) {
    for (const char* patterns : {"auto", "all", "none"}) {
      const double found = loss(verified(model(name), kToNextToken + "--set frontend.onnx.patterns=" + patterns));
      EXPECT_NEAR(found, twin, 1e-5 * twin) << name << ", patterns " << patterns;
    }
  }
}

TEST(OnnxVerify, BertWithEitherPatterns) {
  const double whole = loss(verified(model("bert_17_tiny.onnx"), kToClasses + kSharded));
  EXPECT_NEAR(loss(verified(model("bert_17_tiny.onnx"), kToClasses + "--set frontend.onnx.patterns=none")), whole,
              1e-5 * whole);
}

TEST(OnnxVerify, ShardedGpt) { (void)verified(model("gpt2_17_tiny.onnx"), kToNextToken + kSharded); }

TEST(OnnxVerify, ResNetTrains) {
  (void)verified(model("resnet_23_tiny.onnx"), kToClasses + "--set frontend.onnx.batch_norm=training");
}

TEST(OnnxVerify, AModelThatPyTorchDidNotWrite) {
  const std::string path = model("classifier_tiny.onnx");
  for (const char* batch : {"8", "16"}) {
    (void)verified(path, kToClasses + "--set model.batch=" + batch);
    (void)verified(path, kToClasses + kSharded + "--set model.dimensions=N=" + batch);
  }
  (void)verified(path, "--set model.loss=mse --set model.batch=8");
}

std::string refusal_of(const std::string& path, const std::string& settings) {
  const test::Outcome outcome =
      test::run_program("plan " + path + " --cluster " SOURCE_FOLDER "/configs/clusters/h100x8.toml " + settings);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  return outcome.errors;
}

TEST(OnnxRefused, InOneSentence) {
  EXPECT_THAT(refusal_of(model("classifier_tiny.onnx"), kToClasses),
              HasSubstr("its dimension 0, 'N', is open; give it a size with --set model.batch=SIZE"));
  EXPECT_THAT(refusal_of(model("classifier_tiny.onnx"), kToClasses + "--set model.batch=8 --set model.loss_output=logit"),
              HasSubstr("did you mean \"logits\"?"));
  EXPECT_THAT(refusal_of(model("gpt2_tiny.pt2"), kToClasses), HasSubstr("the model has a loss already"));
  EXPECT_THAT(refusal_of(model("classifier_tiny.onnx"), "--set frontend.onnx.patterns=some"),
              HasSubstr("\"patterns\" in [frontend.onnx] can't be \"some\""));
}

}  // namespace
}  // namespace meshwright
