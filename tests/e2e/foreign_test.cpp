// Models with ops that no family serves: FFTs, complex numbers. They train all the same, with PyTorch's own gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "run_program.h"

namespace meshwright {
namespace {

using test::Outcome;
using test::run_program;
using testing::HasSubstr;

constexpr const char* kForeignModel = SOURCE_FOLDER "/tests/models/spectral_tiny.pt2";

std::string planned(const std::string& options, const char* name) {
  const std::string file = (std::filesystem::temp_directory_path() / (name + std::to_string(::getpid()) + ".json")).string();
  const Outcome outcome =
      run_program(std::string("plan ") + kForeignModel + " --cluster " SOURCE_FOLDER "/configs/clusters/h100x8.toml " + options + " -o " + file);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("aten.fft_fft runs replicated: no op family serves it"));
  EXPECT_THAT(outcome.output, HasSubstr("aten.mul.Tensor runs replicated: its numbers are complex"));
  return file;
}

TEST(ForeignOps, TrainAndWhatIsAroundThemIsVerified) {
  for (const char* options : {"--mesh 2x4 --set search.batch_axes=0", "--mesh 8 --set search.batch_axes=all", "--mesh 2x4 --set search.zero=3"}) {
    const std::string file = planned(options, "foreign");
    const Outcome verified = run_program("verify " + file);
    EXPECT_EQ(verified.exit_code, 0) << options << verified.errors << verified.output;
    EXPECT_THAT(verified.output, HasSubstr("8 ranks compute what 1 computes"));
    EXPECT_THAT(verified.output, HasSubstr("not computed    aten.fft_fft:"));
    EXPECT_THAT(verified.output, HasSubstr("not computed    gradient of aten.fft_fft:"));
    std::filesystem::remove(file);
  }
}

// Nobody knows whether it computes each sample by itself.
TEST(ForeignOps, AreNotCutIntoMicrobatches) {
  const Outcome outcome = run_program(std::string("plan ") + kForeignModel + " --cluster " SOURCE_FOLDER
                                      "/configs/clusters/h100x8.toml --set train.microbatches=2");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("aten.fft_fft at 'fft_fft' mixes the samples of a batch"));
}

// Its sample requires a gradient, so the plan brings it back to where the rows came from; the teacher has none.
TEST(ForeignOps, AreWrittenAsCallsOfPyTorch) {
  const std::string file = planned("--mesh 2x4 --set search.batch_axes=0", "written");
  const Outcome emitted = run_program("emit " + file + " --backend torch");
  EXPECT_EQ(emitted.exit_code, 0) << emitted.errors;
  EXPECT_THAT(emitted.output, HasSubstr("torch.ops.aten.fft_fft.default("));
  EXPECT_THAT(emitted.output, HasSubstr("torch.ops.aten.view_as_complex.default("));
  EXPECT_THAT(emitted.output, HasSubstr(".detach()"));
  EXPECT_THAT(emitted.output, HasSubstr("weight=parameter(Layout((32, 32), (None, None))).requires_grad_(False)"));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace meshwright
