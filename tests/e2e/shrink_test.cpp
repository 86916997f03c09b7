// `meshwright verify --shrink`: plans of models as large as people train, on a smaller model of the same kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <ostream>

#include "files/json.h"
#include "printed_json.h"
#include "run_program.h"
#include "scratch.h"

namespace meshwright {
namespace {

using host::Json;
using test::Outcome;
using test::integer;
using test::json_of;
using test::list;
using test::run_program;
using test::scratch;
using testing::HasSubstr;

std::string planned(const std::string& model, const std::string& options) {
  std::string file = scratch("plan.json");
  const Outcome outcome = run_program("plan " SOURCE_FOLDER "/" + model + ".pt2 " + options + " -o " + file);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  return file;
}

struct ShrinkCase {
  const char* name;
  const char* model;
  const char* options;
  int blocks, kept;
};

void PrintTo(const ShrinkCase& here, std::ostream* out) { *out << here.name; }

class VerifyShrunk : public testing::TestWithParam<ShrinkCase> {};

TEST_P(VerifyShrunk, ComputesWhatOneDeviceComputes) {
  const std::string file = planned(GetParam().model, GetParam().options);
  const Json verified = json_of(run_program("verify " + file + " --shrink --format json"));
  EXPECT_TRUE(std::get<bool>(verified.find("equal")->value()));
  EXPECT_EQ(integer(verified, "steps"), 3);
  EXPECT_EQ(integer(verified, "ranks"), 8);
  EXPECT_EQ(integer(verified, "bytes_sent_predicted"), integer(verified, "bytes_sent_measured"));
  EXPECT_EQ(integer(verified, "peak_bytes_predicted"), integer(verified, "peak_bytes_measured"));
  const Json& shrunk = *verified.find("shrunk");
  EXPECT_EQ(integer(shrunk, "blocks_before"), GetParam().blocks);
  EXPECT_LE(std::ssize(list(shrunk, "blocks")), GetParam().kept);
  EXPECT_LT(integer(shrunk, "parameters"), integer(shrunk, "parameters_before"));
}

INSTANTIATE_TEST_SUITE_P(
    Plans, VerifyShrunk,
    testing::Values(
        ShrinkCase{"Gpt2WithZeroAndRecomputation", "examples/gpt2_small",
                   "--cluster " SOURCE_FOLDER "/configs/clusters/a100x8_nvlink_pairs.toml --config " SOURCE_FOLDER "/configs/demo.toml --mesh 2x4 --set search.zero=3 --set search.recompute=all", 12, 4},
        ShrinkCase{"Gpt2InStages", "examples/gpt2_small_short",
                   "--cluster " SOURCE_FOLDER "/configs/clusters/h100x8.toml --config " SOURCE_FOLDER "/configs/demo.toml --set search.stages=2 --set train.microbatches=4", 12, 12},
        ShrinkCase{"T5InStages", "tests/models/t5_tiny", "--cluster " TEST_FOLDER "/slow8.toml --set search.stages=4 --set train.microbatches=4 --mesh 2", 2, 2},
        ShrinkCase{"Mixtral", "tests/models/mixtral_tiny", "--cluster " TEST_FOLDER "/slow8.toml --mesh 2x4", 2, 2},
        ShrinkCase{"ResNet", "tests/models/resnet_tiny", "--cluster " TEST_FOLDER "/slow8.toml --mesh 8 --set train.batch_coupling=allow", 4, 4}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Shrink, SaysWhatWasVerifiedAndWhatIsNotSmaller) {
  const std::string file = planned("examples/vit_base_short", "--cluster " SOURCE_FOLDER "/configs/clusters/h100x8.toml");
  const Outcome outcome = run_program("verify " + file + " --shrink");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, testing::StartsWith("a smaller model was verified"));
  EXPECT_THAT(outcome.output, HasSubstr("none is of the plan's own size"));
  EXPECT_THAT(outcome.output, HasSubstr("  blocks          12 to "));
  EXPECT_THAT(outcome.output, HasSubstr("  smaller         768 to "));
  EXPECT_THAT(outcome.output, HasSubstr("it is the window of aten.conv2d at '"));
  EXPECT_THAT(outcome.output, HasSubstr("8 ranks compute what 1 computes over 3 steps"));
}

TEST(Shrink, ModelsOwnWeightsAreDrawnWhereTheirSizeIsAnother) {
  const std::string file = planned("tests/models/gpt2_tiny_weights", "--cluster " TEST_FOLDER "/slow8.toml --mesh 2x4");
  const Json whole = json_of(run_program("verify " + file + " --format json"));
  EXPECT_EQ(whole.find("shrunk"), nullptr);
  const Json verified = json_of(run_program("verify " + file + " --shrink --exact --format json"));
  EXPECT_TRUE(std::get<bool>(verified.find("equal")->value()));
  EXPECT_NE(std::get<double>(whole.find("loss_serial")->value()), std::get<double>(verified.find("loss_serial")->value()));
}

}  // namespace
}  // namespace meshwright
