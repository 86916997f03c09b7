#include "config/plan_options.h"

#include <gtest/gtest.h>

#include "config/host_config.h"
#include "config/toml_config.h"

namespace meshwright::host {
namespace {

TEST(PlanOptions, OptionsGoOverSet) {
  PlanOptions options;
  options.set = {"search.intra=tap", "cluster.mesh=4x2"};
  options.cluster = "a \"b\".toml";
  options.mesh = "8";
  options.memory_budget = "40GiB";
  options.intra = "elimination";
  const auto tree = read_config("", overrides_of(options));
  ASSERT_TRUE(tree.ok()) << tree.error().message;
  const auto config = check_host_config(*tree);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->search.text("intra"), "elimination");
  EXPECT_EQ(config->cluster.text("mesh"), "8");
  EXPECT_EQ(config->cluster.text("file"), "a \"b\".toml");
  EXPECT_EQ(config->search.integer("memory_budget"), std::int64_t{40} << 30);
}

}  // namespace
}  // namespace meshwright::host
