#include "config/host_config.h"

#include <gtest/gtest.h>

#include "config/toml_config.h"

namespace meshwright::host {
namespace {

Result<HostConfig> check(std::string_view text, const std::vector<std::string>& overrides = {}) {
  const Result<ConfigTree> tree = parse_config(text, "configs/demo.toml", overrides);
  if (!tree) return tree.error();
  return check_host_config(*tree);
}

std::string message_of(std::string_view text) {
  const Result<HostConfig> config = check(text);
  return config ? "no error" : config.error().message;
}

TEST(HostConfig, EveryDefaultIsSound) {
  const auto config = check("");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->search.text("intra"), "elimination");
  EXPECT_EQ(config->search.integer("memory_budget"), 0);
  EXPECT_EQ(config->search.integer("work_limit"), 4'000'000'000);
  EXPECT_EQ(config->train.text("optimizer"), "adamw");
  EXPECT_TRUE(config->plugin_paths.empty());
}

TEST(HostConfig, TakesTheExampleOfTheDesign) {
  const auto config = check(
      "[model]\nfrontend = \"torch_export\"\n[cluster]\nplugin = \"file\"\n[search]\nintra = \"elimination\"\n"
      "checkpoint = \"none\"\ninter = \"none\"\nmemory_budget = \"75GiB\"\n[search.elimination]\n"
      "max_table_entries = 200_000_000\n[train]\noptimizer = \"adamw\"\nparam_dtype = \"bf16\"\n"
      "master_dtype = \"fp32\"\nmicrobatches = 1\n[emit]\nbackend = \"torch\"\n");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->search.integer("memory_budget"), std::int64_t{75} << 30);
}

TEST(HostConfig, PathsInAFileAreRelativeToIt) {
  const auto config = check("[cluster]\nfile = \"clusters/a.toml\"\n[plugins]\npaths = [\"../mine\", \"/theirs\"]\n");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->cluster.text("file"), "configs/clusters/a.toml");
  EXPECT_EQ(config->plugin_paths, (std::vector<std::string>{"mine", "/theirs"}));
  const auto overridden = check("[cluster]\nfile = \"clusters/a.toml\"\n", {"cluster.file=b.toml"});
  EXPECT_EQ(overridden->cluster.text("file"), "b.toml");
}

TEST(HostConfig, RefusesUnknownNamesWithTheNearest) {
  EXPECT_EQ(message_of("[serch]\nintra = \"x\"\n"),
            "configs/demo.toml:1: unknown section [serch]; did you mean \"search\"?");
  EXPECT_EQ(message_of("[search]\nintr = \"x\"\n"),
            "configs/demo.toml:2: unknown key \"intr\" in [search]; did you mean \"intra\"?");
  EXPECT_EQ(message_of("intra = \"x\"\n"),
            "configs/demo.toml:1: unknown key \"intra\" before the first section; there are none");
  EXPECT_EQ(message_of("[train]\noptimizer = \"adamv\"\n"),
            "configs/demo.toml:2: \"optimizer\" in [train] can't be \"adamv\"; did you mean \"adam\"?");
  EXPECT_EQ(message_of("[search]\nreduce = \"dominanse\"\n"),
            "configs/demo.toml:2: \"reduce\" in [search] can't be \"dominanse\"; did you mean \"dominance\"?");
  EXPECT_EQ(message_of("[search]\nreduce = \"dominance, contractions\"\n"),
            "configs/demo.toml:2: \"reduce\" in [search] can't be \"contractions\"; did you mean \"contraction\"?");
  EXPECT_EQ(message_of("[search]\nreduce = \"all,dominance\"\n"),
            "configs/demo.toml:2: \"reduce\" in [search] can't be \"all\"; known are \"consistency\", \"dominance\", \"contraction\"");
  EXPECT_EQ(message_of("[search]\nreduce = \"dominance,\"\n"),
            "configs/demo.toml:2: \"reduce\" in [search] can't be \"\"; known are \"consistency\", \"dominance\", \"contraction\"");
  EXPECT_EQ(message_of("[train.extra]\na = 1\n"),
            "configs/demo.toml:1: unknown section [train.extra]; [train] has no sections inside");
  EXPECT_EQ(message_of("[conversions]\nname = \"x\"\n"),
            "configs/demo.toml:2: [conversions] has no key \"name\"; configure a plugin under [conversions.ID]");
}

TEST(HostConfig, RefusesNumbersWithoutSense) {
  EXPECT_EQ(message_of("[train]\nmicrobatches = 0\n"), "\"microbatches\" in [train] must be at least 1, and at most 4096");
  EXPECT_EQ(message_of("[model]\nbatch = -1\n"), "\"batch\" in [model] must be at least 1, or 0 for the exported one");
  EXPECT_EQ(message_of("[train]\ndtype = \"bf16\"\nparam_dtype = \"fp16\"\n"),
            "\"dtype\" and \"param_dtype\" in [train] are one setting, but say \"bf16\" and \"fp16\"; leave one out");
  EXPECT_EQ(message_of("[search]\ndeadline_seconds = nan\n"), "\"deadline_seconds\" in [search] must be more than 0, and at most 1e8");
  EXPECT_EQ(message_of("[search]\nwork_limit = 0\n"), "\"work_limit\" in [search] must be at least 1");
}

TEST(HostConfig, RefusesTwoThatChooseWhatRunsAgain) {
  EXPECT_EQ(message_of("[search]\ncheckpoint = \"rotor\"\nrecompute = \"free\"\n"),
            "\"checkpoint\" = \"rotor\" and \"recompute\" = \"free\" in [search] both choose what runs again; leave one of them at \"none\"");
  EXPECT_EQ(message_of("[search]\ncheckpoint_alpha = 0.0\n"), "\"checkpoint_alpha\" in [search] must be more than 0, and at most 1");
  EXPECT_TRUE(check("[search]\ncheckpoint = \"rotor\"\nrecompute = \"none\"\n").ok());
}

TEST(HostConfig, ReadsTheOpsTable) {
  const auto config = check("[ops]\n\"aten.add.Tensor\" = \"mine\"\n");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->op_family.at("aten.add.Tensor"), "mine");
  EXPECT_EQ(message_of("[ops]\n\"aten.add.Tensor\" = 1\n"),
            "configs/demo.toml:2: \"aten.add.Tensor\" in [ops] must be the id of an op family, a text in quotes");
}

TEST(HostConfig, KnowsWhereAPluginIsConfigured) {
  EXPECT_EQ(plugin_section("intra", "tap"), "search.tap");
  EXPECT_EQ(plugin_section("clusters", "file"), "cluster.file");
  EXPECT_EQ(plugin_section("something_new", "x"), "something_new.x");
}

}  // namespace
}  // namespace meshwright::host
