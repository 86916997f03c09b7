// What `--set emit.cuda.listing` writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>

#include "trained_on_gpus.h"

namespace meshwright::test {
namespace {

using testing::HasSubstr;

class CudaListing : public Trains {};

// A line for each product, with bytes and multiplications that can be counted by hand.
TEST_F(CudaListing, HasWhatAStepAsksFor) {
  const std::string plan = planned("mlp_tiny", "--mesh 2", "plan.json", "a100x2"), file = path("step.tsv"),
                    listing = "--steps 1 --set emit.cuda.listing=";
  said(run_command(run_words(plan, std::string(kRecording) + listing + file)));
  std::ifstream lines(file);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "instruction\tstream\twhat\tbytes read\tbytes written\tmultiplications");
  int products = 0;
  while (std::getline(lines, line)) {
    std::smatch found;
    if (!std::regex_search(line, found,
                           std::regex("\t0\tproduct of (\\d+)×(\\d+)·\\d+×(\\d+)[^\t]*\t(\\d+)\t(\\d+)\t(\\d+)$")))
      continue;
    ++products;
    const std::int64_t m = std::stoll(found[1]), k = std::stoll(found[2]), n = std::stoll(found[3]);
    EXPECT_GE(std::stoll(found[4]), 4 * (m * k + k * n)) << line;
    EXPECT_EQ(std::stoll(found[5]), 4 * m * n) << line;
    EXPECT_EQ(std::stoll(found[6]), m * n * k) << line;
  }
  EXPECT_GE(products, 4);
  const Outcome failed = run_command(run_words(plan, std::string(kRecording) + listing + path("none/step.tsv")));
  EXPECT_NE(failed.exit_code, 0);
  EXPECT_THAT(failed.errors, HasSubstr("none/step.tsv\", which can't be written"));
}

// The backward has what the forward kept of attention's scores and of the loss.
TEST_F(CudaListing, HasAttentionAndLossOnce) {
  const std::string plan = planned("gpt2_tiny", "--mesh 1 --set train.param_dtype=bf16", "plan.json", "a100x1"),
                    file = path("step.tsv");
  said(run_command(run_words(plan, std::string(kRecording) + "--steps 1 --set emit.cuda.listing=" + file)));
  std::ifstream lines(file);
  std::string line;
  int forward = 0, backward = 0, losses = 0;
  while (std::getline(lines, line)) {
    forward += line.find("\tcuDNN: masked attention") != std::string::npos ? 1 : 0;
    backward += line.find("\tcuDNN: the gradients of masked attention") != std::string::npos ? 1 : 0;
    losses += line.find("\tloss_terms\t") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(losses, 1);
  EXPECT_GT(forward, 0);
  EXPECT_EQ(forward, backward);
}

}  // namespace
}  // namespace meshwright::test
