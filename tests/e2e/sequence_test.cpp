// Sequence parallelism: found where it pays, and right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "planned_axes.h"
#include "run_program.h"

namespace meshwright {
namespace {

using test::Outcome;
using test::run_program;
using testing::HasSubstr;

class Sequence : public testing::Test {
 protected:
  ~Sequence() override { std::filesystem::remove(file_); }

  std::string plan(const std::string& model, const std::string& options) const {
    const Outcome planned =
        run_program("plan " SOURCE_FOLDER "/tests/models/" + model + ".pt2 " + options + " -o " + file_);
    EXPECT_EQ(planned.exit_code, 0) << planned.errors;
    return planned.output;
  }

  std::vector<std::string> axes_of(const std::string& op) const { return test::planned_axes(file_, op); }

  const std::string file_ =
      (std::filesystem::temp_directory_path() / ("sequence" + std::to_string(::getpid()) + ".json")).string();
};

// Weights that stay in shards, as in tensor parallelism, and one long text: Megatron's sequence parallelism
// (Korthikanti et al. 2022, Figure 5), an all-gather before each pair of matrix products and a reduce-scatter after it.
TEST_F(Sequence, IsCutByNormsAndDropoutBetweenTheProducts) {
  const std::string shown =
      plan("gpt2_long",
           "--cluster " SOURCE_FOLDER
           "/configs/clusters/a100x8_nvswitch.toml --mesh 8 --set train.dtype=bf16 --set search.weights=sharded");
  for (const char* op : {"aten.layer_norm", "aten.native_dropout"}) {
    std::vector<std::string> axes = axes_of(op);
    ASSERT_GE(axes.size(), 5U);
    // The embeddings' dropout may as well be cut as they are, along their width: the all-to-all then comes behind it.
    if (std::string_view(op) == "aten.native_dropout") axes.erase(axes.begin());
    for (const std::string& here : axes) EXPECT_THAT(here, HasSubstr("d1")) << op;
  }
  for (const char* product : {"attn.c_attn ", "attn.c_proj ", "mlp.c_fc ", "mlp.c_proj "}) {
    const std::size_t line = shown.find(product);
    ASSERT_NE(line, std::string::npos) << product;
    EXPECT_THAT(shown.substr(line, shown.find('\n', line) - line),
                HasSubstr("AG(0) RS(0)"));  // one a pass: the backward's are the others
  }
}

// With one text there is no batch to share, and with 4 heads on 8 devices no heads: queries are what is left.
TEST_F(Sequence, OfQueriesIsCutInCausalAttentionAndVerifies) {
  plan("gpt2_tiny", "--cluster " TEST_FOLDER "/slow8.toml --mesh 8 --set model.batch=1");
  const std::vector<std::string> axes = axes_of("aten.scaled_dot_product_attention");
  EXPECT_EQ(axes.size(), 2U);
  for (const std::string& here : axes) EXPECT_THAT(here, HasSubstr("\"l\""));
  const Outcome verified = run_program("verify " + file_);
  EXPECT_EQ(verified.exit_code, 0) << verified.errors;
  EXPECT_THAT(verified.output, HasSubstr("8 ranks compute what 1 computes"));
}

}  // namespace
}  // namespace meshwright
