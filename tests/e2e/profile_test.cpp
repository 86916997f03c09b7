// `meshwright profile` as a user meets it, and its figures against those of `simulate` and `verify`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>

#include "files/json.h"
#include "files/plan_reader.h"
#include "meshwright/memory_profile.h"
#include "meshwright/saved.h"
#include "model_reader.h"
#include "planning.h"
#include "plugins/program_source.h"
#include "printed_json.h"
#include "run_program.h"
#include "scratch.h"
#include "serial_plan.h"

namespace meshwright {
namespace {

using host::Json;
using test::Outcome;
using test::integer;
using test::run_program;
using test::scratch;
using test::tiny;
using testing::HasSubstr;

std::string plan_for_profile(const std::string& model, const std::string& cluster, const std::string& options = "") {
  std::string file = scratch("plan.json");
  const Outcome outcome =
      run_program("plan " + model + " --cluster " TEST_FOLDER "/" + cluster + ".toml " + options + " -o " + file);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  return file;
}

Json json_of(const std::string& arguments) {
  return test::json_of(run_program(arguments + " --format json"));
}

std::string text(const Json& json, const char* key) { return std::get<std::string>(json.find(key)->value()); }
const Json::Array& array(const Json& json, const char* key) { return std::get<Json::Array>(json.find(key)->value()); }

std::int64_t sum_of(const Json::Array& items, const char* key) {
  return std::accumulate(items.begin(), items.end(), std::int64_t{0},
                         [&](std::int64_t sum, const Json& item) { return sum + integer(item, key); });
}

std::int64_t highest(const Json::Array& curve) {
  std::int64_t most = 0;
  for (const Json& point : curve) most = std::max(most, integer(point, "bytes"));
  return most;
}

// All that a profile says of its peak agrees.
void expect_consistent(const Json& profile) {
  const std::int64_t peak = integer(profile, "peak_bytes");
  EXPECT_EQ(highest(array(profile, "curve")), peak);
  EXPECT_EQ(integer(array(profile, "curve")[static_cast<std::size_t>(integer(profile, "peak_instruction"))], "bytes"),
            peak);
  EXPECT_EQ(sum_of(array(profile, "peak_tensors"), "bytes"), peak);
  std::int64_t split = 0;
  for (const auto& [kind, bytes] : std::get<Json::Object>(profile.find("peak_by_kind")->value()))
    split += std::get<std::int64_t>(bytes.value());
  EXPECT_EQ(split, peak);
  EXPECT_NE(text(profile, "peak_node"), "");
}

// What the profile adds up is what `memory_curve` counts, instruction by instruction.
void expect_adds_up(const Program& program) {
  const MemoryProfile profile = memory_profile(program);
  const std::vector<std::int64_t> curve = memory_curve(program);
  ASSERT_EQ(profile.curve.size(), curve.size());
  for (std::size_t i = 0; i < curve.size(); ++i) ASSERT_EQ(profile.curve[i].held.sum(), curve[i]) << i;
  EXPECT_EQ(profile.peak_bytes, *std::max_element(curve.begin(), curve.end()));
}

class Profile : public testing::TestWithParam<const char*> {};

TEST_P(Profile, OfAModelHasThePeakOfOneDevice) {
  const Json profile = json_of("profile " + tiny(GetParam()));
  expect_consistent(profile);
  const std::string file = plan_for_profile(tiny(GetParam()), "a100x1");
  EXPECT_EQ(integer(profile, "peak_bytes"), integer(json_of("simulate " + file), "peak_bytes"));
  const Json verified = json_of("verify " + file);
  EXPECT_EQ(integer(profile, "peak_bytes"), integer(verified, "peak_bytes_measured"));
}

TEST_P(Profile, OfAPlanHasThePeakOfItsRanks) {
  for (const char* options :
       {"--mesh 8", "--mesh 2x4 --set train.optimizer=sgd", "--mesh 2x4 --set search.weights=sharded"}) {
    const std::string file = plan_for_profile(tiny(GetParam()), "slow8", options);
    const Json profile = json_of("profile " + file);
    expect_consistent(profile);
    EXPECT_EQ(integer(profile, "devices"), 8);
    EXPECT_EQ(integer(profile, "peak_bytes"), integer(json_of("simulate " + file), "peak_bytes"));
    const Json verified = json_of("verify " + file);
    EXPECT_EQ(integer(profile, "peak_bytes"), integer(verified, "peak_bytes_measured"));
  }
}

TEST_P(Profile, AddsUpAtEveryInstruction) {
  host::PluginHost host = test::open_host();
  const auto frontend = host.create<Frontend>("frontend", "torch_export").value();
  Result<host::ProgramTools> tools = host::open_passes(host, {});
  ASSERT_TRUE(tools.ok());
  tools->profile = any_profile();
  const Result<TrainedModel> model = read_model(tiny(GetParam()), *frontend, *tools->ops, host.config().model, host.config().train);
  ASSERT_TRUE(model.ok());
  const Result<ModelAnalysis> analysis = analyze_model(model->graph, *tools->ops);
  ASSERT_TRUE(analysis.ok());
  const Result<Plan> serial = serial_plan(tools->context(*analysis, model->training));
  ASSERT_TRUE(serial.ok());
  const Result<Program> program = host::make_program(*serial, *tools);
  ASSERT_TRUE(program.ok());
  expect_adds_up(*program);
  ASSERT_TRUE(analysis->backward);
  EXPECT_EQ(memory_profile(*program).saved_bytes, saved_bytes(analysis->backward->training, *tools->ops));
  const Result<Plan> spread = host::read_plan(plan_for_profile(tiny(GetParam()), "slow8", "--mesh 2x4"), *tools->ops);
  ASSERT_TRUE(spread.ok());
  const Result<host::ProgramTools> its_tools = host::open_tools(host, *spread);
  ASSERT_TRUE(its_tools.ok());
  const Result<Program> ranks = host::make_program(*spread, *its_tools);
  ASSERT_TRUE(ranks.ok());
  expect_adds_up(*ranks);
}

// What a node's forward leaves for the backward is what is saved, but for inputs.
TEST_P(Profile, NodesAddUpToWhatIsSaved) {
  const Json profile = json_of("profile " + tiny(GetParam()));
  const std::int64_t by_nodes = sum_of(array(profile, "nodes"), "saved_bytes"), saved = integer(profile, "saved_bytes");
  EXPECT_LE(by_nodes, saved);
  EXPECT_GT(by_nodes, saved / 2);
}

INSTANTIATE_TEST_SUITE_P(Models, Profile,
                         testing::Values("gpt2_tiny", "llama_tiny", "mlp_tiny", "resnet_tiny", "t5_tiny",
                                         "mixtral_tiny"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ProfileProgram, PrintsOneObjectWithTheNamesThatScriptsRelyOn) {
  const Json profile = json_of("profile " SOURCE_FOLDER "/examples/gpt2_small.pt2");
  for (const char* key : {"saved_bytes", "parameter_bytes", "gradient_bytes", "optimizer_bytes", "peak_bytes",
                          "peak_node", "peak_tensors", "curve", "nodes"}) {
    EXPECT_NE(profile.find(key), nullptr) << key;
  }
  constexpr std::int64_t kParameters = 124'439'808;  // of GPT-2 small, its embedding tied
  EXPECT_EQ(integer(profile, "parameter_bytes"), 4 * kParameters);
  EXPECT_EQ(integer(profile, "gradient_bytes"), 4 * kParameters);
  EXPECT_EQ(integer(profile, "optimizer_bytes"), 8 * kParameters);
  const Json::Array& nodes = array(profile, "nodes");
  // Of the logits, 8 × 1024 × 50257: the product's input is saved for it, and its gradients are those of input and
  // weight.
  const auto head = std::find_if(nodes.begin(), nodes.end(),
                                 [](const Json& node) { return text(node, "module") == "inner.lm_head"; });
  ASSERT_NE(head, nodes.end());
  EXPECT_EQ(integer(*head, "fwd_in"), 4 * 8 * 1024 * 768);
  EXPECT_EQ(integer(*head, "fwd_out"), std::int64_t{4} * 8 * 1024 * 50257);
  EXPECT_EQ(integer(*head, "bwd_out"), std::int64_t{4} * 768 * (8 * 1024 + 50257));
}

TEST(ProfileProgram, IsPartOfTheSimulation) {
  const std::string file = plan_for_profile(tiny("gpt2_tiny"), "slow8", "--mesh 2x4");
  const std::string profile = run_program("profile " + file).output,
                    simulation = run_program("simulate " + file).output;
  const std::size_t at = profile.find("Peak ");
  ASSERT_NE(at, std::string::npos);
  const std::string peak = profile.substr(at, profile.find("\n\n", at) - at);
  EXPECT_THAT(peak, HasSubstr("gathered parameters"));
  EXPECT_THAT(simulation, HasSubstr(peak));
}

TEST(ProfileProgram, TakesTheTrainingSettings) {
  const std::string model = "profile " + tiny("gpt2_tiny");
  const std::int64_t parameters = integer(json_of(model), "parameter_bytes");
  EXPECT_EQ(integer(json_of(model + " --set train.optimizer=sgd"), "optimizer_bytes"), 0);
  EXPECT_EQ(integer(json_of(model + " --set train.optimizer=momentum"), "optimizer_bytes"), parameters);
  EXPECT_EQ(integer(json_of(model + " --set train.dtype=bf16"), "parameter_bytes"), parameters / 2);
  const std::string config = scratch("train.toml");
  std::ofstream(config) << "[train]\noptimizer = \"sgd\"\n";
  EXPECT_EQ(integer(json_of(model + " --config " + config), "optimizer_bytes"), 0);
}

TEST(ProfileProgram, ShowsTheCurveThePeakAndItsTensors) {
  const Outcome outcome = run_program("profile " SOURCE_FOLDER "/examples/gpt2_small.pt2 --nodes 7");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.errors, "");
  for (const char* part :
       {"v peak", "forward", "|backward", "|update", "Peak ", "saved activations", "inner.transformer.h.{0-11}.mlp",
        "fwd_in  fwd_tmp   fwd_out   bwd_tmp   bwd_out", "more kinds of nodes"}) {
    EXPECT_THAT(outcome.output, HasSubstr(part));
  }
  const Outcome all = run_program("profile " SOURCE_FOLDER "/examples/gpt2_small.pt2 --nodes all");
  EXPECT_THAT(all.output, HasSubstr("inner.transformer.h.7.mlp.c_fc"));
  EXPECT_THAT(all.output, testing::Not(HasSubstr("more kinds of nodes")));
  EXPECT_EQ(run_program("profile " SOURCE_FOLDER "/examples/gpt2_small.pt2 --nodes 7").output, outcome.output);
}

// Every tag is closed, in its order.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    ASSERT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    if (tag.back() == '/') continue;
    if (tag.front() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
      continue;
    }
    ASSERT_FALSE(open.empty());
    ASSERT_EQ(tag.substr(1), open.back());
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(ProfileProgram, DrawsTheCurve) {
  const std::string drawing = scratch("memory.svg");
  const Outcome outcome = run_program("profile " SOURCE_FOLDER "/examples/gpt2_small.pt2 --svg " + drawing);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const auto read = [&] {
    std::ifstream file(drawing);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string svg = read();
  expect_well_formed(svg);
  for (const char* part :
       {"GiB</text>", "forward</text>", "backward</text>", "saved activations", "optimizer state", "peak "}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  run_program("profile " SOURCE_FOLDER "/examples/gpt2_small.pt2 --svg " + drawing);
  EXPECT_EQ(read(), svg);
}

TEST(ProfileProgram, RefusesWhatItCantProfile) {
  const std::string old = scratch("old.json"), cut = scratch("cut.pt2");
  std::ofstream(old) << "{\"format\": \"meshwright-plan\", \"format_version\": 99}";
  std::ofstream(cut, std::ios::binary) << "PK\003\004";
  const std::string drawing = scratch("none.svg");
  const std::map<std::string, std::string> said_of = {
      {scratch("missing.pt2"), "can't be opened"},
      {old, "version 99"},
      {cut, "zip"},
      {SOURCE_FOLDER "/configs/clusters/h100x8.toml", "a model, or a file that `plan -o` wrote"},
      {SOURCE_FOLDER "/tests/models", "is no regular file"},
      {SOURCE_FOLDER "/tests/models/gpt2_17_tiny.onnx", "--set model.loss="},
      {tiny("mlp_tiny") + " --nodes some", "a number of rows, or all"},
      {tiny("mlp_tiny") + " --set train.optimizer=adamm", "adam"},
      {tiny("mlp_tiny") + " --config " + scratch("missing.toml"), "missing.toml"},
  };
  for (const auto& [input, said] : said_of) {
    const Outcome outcome = run_program("profile " + input + " --svg " + drawing);
    EXPECT_EQ(outcome.exit_code, 2) << input;
    EXPECT_THAT(outcome.errors, HasSubstr(said)) << input;
    EXPECT_EQ(outcome.output, "") << input;
    EXPECT_FALSE(std::filesystem::exists(drawing)) << input;
  }
}

TEST(ProfileProgram, WritesNoDrawingWhereNoneCanBe) {
  const Outcome outcome = run_program("profile " + tiny("mlp_tiny") + " --svg /proc/none/memory.svg");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("/proc/none/memory.svg"));
  EXPECT_EQ(outcome.output, "");
}

}  // namespace
}  // namespace meshwright
