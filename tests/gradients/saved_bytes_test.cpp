// What models' forwards save for their backwards, against PyTorch's: the bytes are those that tests/zoo/compare_saved.py
// measured with PyTorch 2.15.
#include <gtest/gtest.h>

#include "case_runner.h"
#include "meshwright/frontend.h"
#include "meshwright/saved.h"

namespace meshwright {
namespace {

struct Measured {
  const char* model;
  std::int64_t bytes;
};

void PrintTo(const Measured& measured, std::ostream* out) { *out << measured.model; }

class SavedBytes : public testing::TestWithParam<Measured> {};

TEST_P(SavedBytes, AreThoseOfPyTorch) {
  Result<host::PluginHost> host = test::open_host();
  ASSERT_TRUE(host.ok()) << host.error().message;
  const auto frontend = host->create<Frontend>("frontend", "torch_export");
  ASSERT_TRUE(frontend.ok()) << frontend.error().message;
  Result<Graph> graph = (*frontend)->read(SOURCE_FOLDER "/tests/models/" + std::string(GetParam().model) + ".pt2");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const std::unique_ptr<OpTable> ops = test::open_ops();
  ASSERT_TRUE(gather_composites(*graph, *ops).ok());
  const Result<TrainingGraph> training = differentiate(*graph, *ops);
  ASSERT_TRUE(training.ok()) << training.error().message;
  EXPECT_NEAR(static_cast<double>(saved_bytes(*training, *ops)), static_cast<double>(GetParam().bytes), 0.02 * static_cast<double>(GetParam().bytes));
}

constexpr Measured kMeasured[] = {{"gpt2_tiny", 497'732},   {"bert_tiny", 260'740},      {"vit_tiny", 160'964},
                                  {"vit_torchvision_tiny", 160'964}, {"t5_tiny", 346'436}, {"llama_tiny", 341'252},
                                  {"mixtral_tiny", 1'339'204}, {"qwen_moe_tiny", 437'060}, {"resnet_tiny", 4'785'412},
                                  {"clip_tiny", 243'572}};

INSTANTIATE_TEST_SUITE_P(Models, SavedBytes, testing::ValuesIn(kMeasured),
                         [](const auto& measured) { return std::string(measured.param.model); });

}  // namespace
}  // namespace meshwright
