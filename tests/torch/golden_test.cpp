// The classes of emitted programs, as people read them. MESHWRIGHT_UPDATE_GOLDEN=1 writes the files anew.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "run_program.h"

namespace meshwright::test {
namespace {

struct Emitted {
  std::string name;     // of the golden file
  std::string model;    // of tests/models
  std::string options;  // of `plan`
  std::string first;    // the text that is kept begins here ...
  std::string behind;   // ... and ends before this; "": at the end of the file
};

void PrintTo(const Emitted& emitted, std::ostream* out) { *out << emitted.name; }

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class EmittedClass : public testing::TestWithParam<Emitted> {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("emitted" + std::to_string(::getpid()));
};

TEST_P(EmittedClass, IsAsAPersonWouldWriteIt) {
  const Emitted& asked = GetParam();
  const std::string plan = (folder_ / "plan.json").string();
  std::filesystem::create_directories(folder_);
  const Outcome planned = run_program("plan " SOURCE_FOLDER "/tests/models/" + asked.model + ".pt2 --cluster " SOURCE_FOLDER
                                      "/tests/e2e/slow8.toml " + asked.options + " -o " + plan);
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  const Outcome emitted = run_program("emit " + plan + " --backend torch -o " + folder_.string());
  ASSERT_EQ(emitted.exit_code, 0) << emitted.errors;
  std::string text = read(folder_ / "model.py");
  const std::size_t begin = text.find(asked.first);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = asked.behind.empty() ? std::string::npos : text.find(asked.behind, begin);
  text = text.substr(begin, end == std::string::npos ? end : end - begin);

  const std::filesystem::path golden = std::filesystem::path(TEST_FOLDER) / "golden" / (asked.name + ".py.txt");
  if (std::getenv("MESHWRIGHT_UPDATE_GOLDEN") != nullptr) std::ofstream(golden) << text;
  EXPECT_EQ(text, read(golden)) << "MESHWRIGHT_UPDATE_GOLDEN=1 writes " << golden;
}

INSTANTIATE_TEST_SUITE_P(Golden, EmittedClass,
                         testing::Values(Emitted{"mlp", "mlp_tiny", "--mesh 2x4 --set search.weights=sharded", "class Model(", ""},
                                         Emitted{"gpt2_block", "gpt2_tiny", "--mesh 2x4 --set search.batch_axes=0 --set search.weights=sharded",
                                                 "class TransformerHBlock(", "\n\nclass "},
                                         Emitted{"gpt2_ops_again", "gpt2_tiny",
                                                 "--mesh 2x4 --set search.batch_axes=0 --set search.weights=sharded --set 'pins.layer_norm=\"recompute\"' "
                                                 "--set 'pins.mul=\"recompute\"' --set 'pins.pow_1=\"recompute\"' --set 'pins.mul_3=\"recompute\"'",
                                                 "    @runs_again", "\n\nclass "},
                                         Emitted{"resnet_block", "resnet_tiny", "--mesh 2x4 --set search.batch_axes=all --set search.zero=2",
                                                 "class InnerLayer1Block(", "\n\nclass "}),
                         [](const auto& info) { return info.param.name; });

TEST(EmittedTorch, RunsAgainTheBlocksThatThePlanSays) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("emitted" + std::to_string(::getpid()));
  const std::string plan = (folder / "plan.json").string();
  std::filesystem::create_directories(folder);
  for (const bool again : {false, true}) {
    ASSERT_EQ(run_program("plan " SOURCE_FOLDER "/tests/models/gpt2_deep_tiny.pt2 --cluster " SOURCE_FOLDER "/tests/e2e/slow8.toml --mesh 8 --set search.recompute=" +
                          std::string(again ? "all" : "none") + " -o " + plan)
                  .exit_code,
              0);
    const Outcome emitted = run_program("emit " + plan + " --backend torch -o " + folder.string());
    EXPECT_EQ(emitted.exit_code, 0) << emitted.errors;
    EXPECT_EQ(read(folder / "model.py").find(" recomputed(self.inner.transformer.h[i], ") != std::string::npos, again);
  }
  std::string text = read(plan);
  const std::string block = "\"inner.transformer.h.0\"";
  ASSERT_NE(text.find(block), std::string::npos);
  std::ofstream(plan) << text.replace(text.find(block), block.size(), "\"inner.transformer.layers.0\"");
  const Outcome strange = run_program("emit " + plan + " --backend torch -o " + folder.string());
  EXPECT_NE(strange.exit_code, 0);
  EXPECT_NE(strange.errors.find("inner.transformer.layers.0"), std::string::npos) << strange.errors;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace meshwright::test
