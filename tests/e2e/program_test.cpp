// `meshwright plan` as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "files/json.h"
#include "run_program.h"

namespace meshwright {
namespace {

using host::Json;
using test::Outcome;
using test::run_program;
using testing::HasSubstr;

const std::string kProgramModel = SOURCE_FOLDER "/examples/gpt2_small.pt2";
const std::string kCluster = " --cluster " SOURCE_FOLDER "/configs/clusters/a100x8_nvlink_pairs.toml";

TEST(PlanProgram, PrintsOneObjectWithTheNamesThatScriptsRelyOn) {
  const Outcome outcome = run_program("plan " + kProgramModel + kCluster + " --mesh 2x4 --format json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  const Result<Json> json = host::parse_json(outcome.output, "output");
  ASSERT_TRUE(json.ok());
  for (const char* key : {"status", "objective_seconds", "lower_bound_seconds", "step_seconds", "step_lower_bound_seconds", "peak_bytes", "mesh",
                          "phase_seconds", "unruled_ops"}) {
    EXPECT_NE(json->find(key), nullptr) << key;
  }
  EXPECT_EQ(std::get<std::string>(json->find("status")->value()), "bounded");
  const double step = std::get<double>(json->find("step_seconds")->value()), bound = std::get<double>(json->find("step_lower_bound_seconds")->value());
  EXPECT_GT(bound, 0);
  EXPECT_LT(bound, step);
  EXPECT_EQ(std::get<std::string>(json->find("mesh")->value()), "2x4");
  for (const char* key : {"frontend", "strategies", "search", "total"}) {
    EXPECT_NE(json->find("phase_seconds")->find(key), nullptr) << key;
  }
}

// A family that serves one more takes it off this list, and README's number goes up.
const char* const kOpsWithoutARule[] = {"aten._fft_c2r", "aten._fft_r2c",     "aten._local_scalar_dense", "aten.as_strided",         "aten.atan2.out",
                                        "aten.nonzero",  "aten.sym_numel",    "aten.sym_size.int",        "aten.sym_storage_offset", "aten.sym_stride.int"};

TEST(PluginsProgram, CountsWhichOpsHaveARule) {
  const Outcome outcome = run_program("plugins coverage --format json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  const Json json = host::parse_json(outcome.output, "output").value();
  const auto number = [&](const char* group, const char* key) { return std::get<std::int64_t>(json.find(group)->find(key)->value()); };
  const auto unruled = [&](const char* group) {
    std::vector<std::string> names;
    for (const Json& name : std::get<Json::Array>(json.find(group)->find("unruled")->value())) names.push_back(std::get<std::string>(name.value()));
    return names;
  };
  EXPECT_EQ(number("core", "ops"), 189);
  EXPECT_EQ(number("core", "ruled"), 189 - static_cast<std::int64_t>(std::size(kOpsWithoutARule)));
  EXPECT_THAT(unruled("core"), testing::UnorderedElementsAreArray(kOpsWithoutARule));
  EXPECT_EQ(number("composites", "ops"), 42);
  EXPECT_EQ(number("composites", "ruled"), 42);
  EXPECT_THAT(unruled("composites"), testing::IsEmpty());
  std::ifstream readme(SOURCE_FOLDER "/README.md");
  const std::string text{std::istreambuf_iterator<char>(readme), {}};
  EXPECT_THAT(text, HasSubstr("counts a rule for " + std::to_string(number("core", "ruled")) + " of PyTorch's 189 core ops and for all 42 composites"));
}

TEST(PlanProgram, ShowsATableByModuleAndTheAlternatives) {
  const Outcome outcome = run_program("plan " + kProgramModel + kCluster + " --mesh 2x4");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("transformer.h.{0-11}.attn "));
  EXPECT_THAT(outcome.output, HasSubstr("data parallel"));
  EXPECT_THAT(outcome.output, HasSubstr("Megatron"));
  EXPECT_THAT(outcome.output, HasSubstr("Status       bounded, at most "));
}

TEST(PlanProgram, ThatFindsNothingSaysWhyAndWritesNothing) {
  const std::string file = (std::filesystem::temp_directory_path() / "meshwright-none.json").string();
  const Outcome outcome = run_program("plan " + kProgramModel + kCluster + " --mesh 2x4 --memory-budget 256MiB -o " + file);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.errors, HasSubstr("needs at least"));
  EXPECT_FALSE(std::filesystem::exists(file));
  const Outcome json = run_program("plan " + kProgramModel + kCluster + " --mesh 2x4 --memory-budget 256MiB --format json");
  EXPECT_EQ(json.exit_code, 3);
  const Result<Json> parsed = host::parse_json(json.output, "output");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(std::get<std::string>(parsed->find("status")->value()), "infeasible");
}

TEST(PlanProgram, RefusesWrongNamesWithTheNearestKnownOne) {
  struct Case {
    std::string arguments, said;
  };
  for (const Case& wrong : {Case{"--intra eliminaton", "elimination"},
                            Case{"--set search.conversions=greedi", "greedy"},
                            Case{"--set search.memory_bugdet=1GiB", "memory_budget"},
                            Case{"--set search.elimination.max_tabel_entries=5", "max_table_entries"},
                            Case{"--set train.optimizer=adamm", "adam"},
                            Case{"--mesh 3x3", "has 8"},
                            Case{"--mesh 2by4", "2x4"},
                            Case{"--memory-budget lots", "memory_budget"}, Case{"--memory-budget 0", "no memory at all"},
                            Case{"--top 0", "--top"}, Case{"--mesh 4294967296x4294967296", "impossibly large"}}) {
    const Outcome outcome = run_program("plan " + kProgramModel + kCluster + " " + wrong.arguments);
    EXPECT_EQ(outcome.exit_code, 2) << wrong.arguments;
    EXPECT_EQ(outcome.output, "") << wrong.arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(wrong.said)) << wrong.arguments;
  }
}

TEST(PlanProgram, RefusesFilesThatAreMissingOrWrong) {
  EXPECT_EQ(run_program("plan nowhere.pt2" + kCluster).exit_code, 2);
  EXPECT_EQ(run_program("plan " SOURCE_FOLDER "/README.md" + kCluster).exit_code, 2);
  EXPECT_EQ(run_program("plan " + kProgramModel + " --cluster nowhere.toml").exit_code, 2);
  const Outcome none = run_program("plan " + kProgramModel);
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.errors, HasSubstr("--cluster"));
}

}  // namespace
}  // namespace meshwright
