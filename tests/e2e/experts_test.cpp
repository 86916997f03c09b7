// Mixtures of experts: from what torch.export leaves of them to a plan that puts experts on devices, and runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "folder_test.h"
#include "meshwright/frontend.h"
#include "planned_axes.h"
#include "planned_pipeline.h"
#include "planning.h"
#include "printed_json.h"
#include "run_program.h"
#include "scratch.h"
#include "serial.h"
#include "sources.h"

namespace meshwright {
namespace {

using test::Outcome;
using test::run_program;
using testing::HasSubstr;

class Experts : public testing::Test {
 protected:
  Graph read(const std::string& model) const {
    return frontend_->read(SOURCE_FOLDER "/tests/models/" + model + ".pt2").value();
  }
  static std::size_t count(const Graph& graph, const std::string& op) {
    return static_cast<std::size_t>(
        std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op == op; }));
  }

  host::PluginHost host_ = test::open_host();
  std::shared_ptr<Frontend> frontend_ = host_.create<Frontend>("frontend", "torch_export").value();
  std::unique_ptr<OpTable> ops_ = host_.op_table().value();
};

TEST_F(Experts, AreOneOpForEachLayer) {
  for (const char* model : {"mixtral_tiny", "qwen_moe_tiny"}) {
    Graph graph = read(model);
    EXPECT_EQ(count(graph, "transformers.grouped_mm_fallback"), 4U);
    EXPECT_THAT(gather_composites(graph, *ops_).value(), testing::IsEmpty());
    EXPECT_EQ(count(graph, "meshwright.experts"), 2U);
    for (const char* gone : {"transformers.grouped_mm_fallback", "aten.sort", "aten.histc", "aten.index_put"})
      EXPECT_EQ(count(graph, gone), 0U) << gone;
  }
}

// Results that are put back in another order than they came in are no layer of experts.
TEST_F(Experts, StayInPiecesWhereTheyDoSomethingElseAndSaySo) {
  Graph graph = read("mixtral_tiny");
  const auto put = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                [](const Node& node) { return node.op == "aten.index_put"; });
  const NodeId numbers = graph.values[put->operands[*put->operand_index("values")].value].producer;
  Node& arange = graph.nodes[numbers];  // as many numbers, from 1 on
  arange.attributes["start"] = std::int64_t{1};
  arange.attributes["end"] = arange.integer("end", 0) + 1;
  arange.op = "aten.arange.start";
  const std::vector<std::string> refused = gather_composites(graph, *ops_).value();
  EXPECT_EQ(count(graph, "meshwright.experts"), 1U);
  ASSERT_EQ(refused.size(), 2U);
  EXPECT_THAT(refused[1], HasSubstr("The grouped matrix product 'grouped_mm_fallback_1' in "
                                    "inner.model.layers.0.mlp.experts is not known as a layer"));
  EXPECT_THAT(refused[1], HasSubstr("its results are not put back in the tokens' order"));
}

struct ExpertCase {
  const char* model;
  const char* mesh;
  const char* options;
  const char* axis;  // what one of the mesh's axes does to the experts
};

void PrintTo(const ExpertCase& here, std::ostream* out) { *out << here.model << " on " << here.mesh; }

class ExpertParallelism : public testing::TestWithParam<ExpertCase> {};

std::string plan_of(const ExpertCase& here, const std::string& file) {
  const Outcome planned = run_program(std::string("plan ") + SOURCE_FOLDER "/tests/models/" + here.model +
                                      ".pt2 --cluster " TEST_FOLDER "/slow8_far.toml --mesh " + here.mesh + " " +
                                      here.options + " -o " + file);
  EXPECT_EQ(planned.exit_code, 0) << planned.errors;
  return planned.output;
}

TEST_P(ExpertParallelism, IsPlannedWhereItPaysAndVerifies) {
  const std::string file = test::scratch("experts.json");
  plan_of(GetParam(), file);
  for (const std::string& axes : test::planned_axes(file, "meshwright.experts"))
    EXPECT_THAT(axes, HasSubstr(GetParam().axis));
  const Outcome verified = run_program("verify --steps 1 " + file);  // whose tokens find room
  EXPECT_EQ(verified.exit_code, 0) << verified.errors;
  EXPECT_THAT(verified.output, HasSubstr("8 ranks compute what 1 computes"));
  std::filesystem::remove(file);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ExpertParallelism,
    testing::Values(ExpertCase{"mixtral_tiny", "8",
                         "--set model.batch=32 --set ops.experts.capacity_factor=3 --set ops.experts.imbalance=1.0",
                         "\"t>e"},
                    ExpertCase{"qwen_moe_tiny", "2x4", "--set ops.experts.imbalance=1.0", "\"e\""}),
    [](const auto& info) { return std::string(info.param.model); });

// --- a degree that somebody gives ---

struct GivenExperts {
  const char* name;
  const char* model;
  const char* degrees;
  const char* mesh;
  const char* axes;  // of every layer of experts; of plans of one stage
};
void PrintTo(const GivenExperts& here, std::ostream* out) { *out << here.name; }

std::string given_experts(const std::string& model, const std::string& options) {
  return "plan " SOURCE_FOLDER "/tests/models/" + model + ".pt2 --cluster " TEST_FOLDER "/slow8_far.toml --set search.step_rounds=0 --set search.sure=false --format json " + options;
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](char letter) { return letter == ' ' || letter == '\n'; });
  return text;
}

class ExpertDegrees : public test::FolderTest, public testing::WithParamInterface<GivenExperts> {};

// As Megatron's ep: experts lie over devices of dp, to which tokens travel, and all other weights are whole there.
TEST_P(ExpertDegrees, AreAPlanThatComputesWhatOneDeviceComputes) {
  const GivenExperts& here = GetParam();
  const std::string file = path("plan.json"), options = "--set 'search.inter=\"manual\"' " + std::string(here.degrees) + " -o ";
  const host::Json planned = test::json_of(run_program(given_experts(here.model, options + file)));
  if (planned.find("stages") != nullptr) return test::verify_and_simulate(file, planned, 8);
  const host::Json verified = test::json_of(run_program("verify " + file + " --format json"));
  EXPECT_TRUE(std::get<bool>(verified.find("equal")->value()));
  EXPECT_EQ(test::integer(verified, "ranks"), 8);
  EXPECT_EQ(test::integer(verified, "peak_bytes_measured"), test::integer(planned, "peak_bytes"));
  EXPECT_EQ(std::get<std::string>(planned.find("mesh")->value()), here.mesh);
  const std::vector<std::string> layers = test::planned_axes(file, "meshwright.experts");
  EXPECT_EQ(layers.size(), 2U);
  for (const std::string& axes : layers) EXPECT_EQ(without_spaces(axes), here.axes);
}

INSTANTIATE_TEST_SUITE_P(Models, ExpertDegrees,
                         testing::Values(GivenExperts{"AllOfData", "mixtral_tiny", "--set inter.manual.ep=8 --set model.batch=8", "8", R"("t>e.0")"},
                                         GivenExperts{"PartOfData", "qwen_moe_tiny", "--set inter.manual.ep=4 --set model.batch=8", "2x4", R"("t.0","t>e.0")"},
                                         GivenExperts{"Tensor", "mixtral_tiny", "--set inter.manual.ep=2 --set inter.manual.tp=2", "2x2x2", R"("t.0","t>e.0","i")"},
                                         GivenExperts{"Context", "mixtral_tiny", "--set inter.manual.ep=4 --set inter.manual.cp=2", "4x2", R"("t>e.0","t.1")"},
                                         GivenExperts{"Sharded", "qwen_moe_tiny", "--set inter.manual.ep=2 --set inter.manual.tp=2 --set 'search.zero=\"3\"'", "2x2x2", R"("t.0","t>e.0","e")"},
                                         GivenExperts{"Stages", "mixtral_tiny", "--set inter.manual.ep=2 --set inter.manual.dp=2 --set inter.manual.tp=2 --set inter.manual.pp=2 --set train.microbatches=2", "", ""}),
                         [](const auto& info) { return info.param.name; });

class ExpertAxes : public test::FolderTest {};

// The degree is these settings, and says something else than data parallelism alone.
TEST_F(ExpertAxes, AreWhatTheDegreeSays) {
  const auto step = [](const std::string& options) { return test::real(test::json_of(run_program(given_experts("mixtral_tiny", "--set model.batch=8 --set 'search.zero=\"0\"' " + options))), "step_seconds"); };
  const double given = step("--set 'search.inter=\"manual\"' --set inter.manual.ep=4");
  EXPECT_EQ(given, step("--mesh 2x4 --set search.batch_axes=0,1 --set search.expert_axes=1"));
  EXPECT_NE(given, step("--mesh 2x4 --set search.batch_axes=0,1"));
}

TEST_F(ExpertAxes, AreRefusedByName) {
  const auto refusal = [](const std::string& options, int exit_code) {
    const Outcome outcome = run_program(given_experts("mixtral_tiny", options));
    EXPECT_EQ(outcome.exit_code, exit_code) << options;
    return outcome.errors;
  };
  const std::string manual = "--set 'search.inter=\"manual\"' ";
  EXPECT_THAT(refusal(manual + "--set inter.manual.ep=3", 2), HasSubstr("\"ep\" in [inter.manual] is 3, which does not divide the 8 experts of '"));
  EXPECT_THAT(refusal(manual + "--set inter.manual.ep=4 --set inter.manual.tp=4", 2), HasSubstr("ep 4 does not divide dp 2"));
  EXPECT_THAT(refusal("--mesh 2x4 --set search.expert_axes=2", 2), HasSubstr("\"expert_axes\" in [search] names axis 2"));
  EXPECT_THAT(refusal("--mesh 8 --set search.batch_axes=0 --set search.expert_axes=0 --set model.batch=4", 3), HasSubstr("along the batch over 8 devices and with the experts of each layer apart over 8 devices"));
}

// Two layers of Mixtral 8x7B on 8 servers of 8 H100, whose tokens stay on their servers: a server's devices share the experts, to which tokens may travel, or the inner
// dimension of each. From server to server a device has one card for what it sends to experts.
TEST(Mixtral, HasItsExpertsInsideOfAServer) {
  const std::string file = test::scratch("mixtral.json");
  const Outcome planned = run_program(
      "plan " SOURCE_FOLDER "/tests/models/mixtral_short.pt2 --cluster " SOURCE_FOLDER
      "/configs/clusters/h100x64.toml --mesh 8x8 --set train.dtype=bf16 --set ops.experts.capacity_factor=1.25 --set search.batch_axes=0 --set search.zero=0 -o " +
      file);
  EXPECT_EQ(planned.exit_code, 0) << planned.errors;
  const std::vector<std::string> axes = test::planned_axes(file, "meshwright.experts");
  EXPECT_EQ(axes.size(), 2U);
  for (const std::string& here : axes) EXPECT_THAT(here, testing::ContainsRegex("\"t[.]0\",[[:space:]]*\"(e|i|t>e[.]1)\""));
  std::filesystem::remove(file);
}

// A buffer that is too small for what the data sends is an error, and tokens are never dropped.
TEST(Capacity, IsNotExceededInSilence) {
  const std::string file = test::scratch("capacity.json");
  plan_of({"qwen_moe_tiny", "8", "--set ops.experts.capacity_factor=1.1", ""}, file);
  const Outcome verified = run_program("verify --steps 1 " + file);  // whose tokens find room
  EXPECT_EQ(verified.exit_code, 2);
  EXPECT_THAT(verified.errors, HasSubstr("raise \"capacity_factor\" in [ops.experts]"));
  std::filesystem::remove(file);
}

// Where the scores of two experts are almost the same, another rounding may choose the other one.
TEST_F(Experts, NearTiesOfTheRouterAreCounted) {
  Graph graph = read("mixtral_tiny");
  ASSERT_TRUE(gather_composites(graph, *ops_));
  auto sources = sample_sources(graph, {}, 1).value();
  const auto near_ties = [&] {
    return run_serial({graph, *ops_, nullptr, sources, Optimizer::sgd, {}}).value().near_ties;
  };
  EXPECT_THAT(near_ties(), testing::IsEmpty());
  for (const Source& source : graph.sources) {
    if (source.names.empty() || source.names[0].find("layers.1.mlp.gate") == std::string::npos) continue;
    Tensor& gate = sources.at(source.value);  // all experts get the same score
    const std::int64_t width = gate.shape()[1];
    for (std::int64_t i = 0; i < gate.elements(); ++i) gate.set(i, gate.get(i % width));
  }
  const std::vector<NearTies> found = near_ties();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].node, "topk_1");
  EXPECT_EQ(found[0].rows, 64);
  EXPECT_EQ(found[0].ties, 64);
}

}  // namespace
}  // namespace meshwright
