#include "config/toml_config.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace meshwright::host {
namespace {

std::string message_of(std::string_view text, const std::vector<std::string>& overrides = {}) {
  const Result<ConfigTree> tree = parse_config(text, "demo.toml", overrides);
  return tree ? "no error" : tree.error().message;
}

template <class T>
T value(const ConfigTree& tree, std::string_view section, std::string_view key) {
  return std::get<T>(tree.section(section)->keys.find(key)->second.value);
}

TEST(TomlConfig, KeepsTypesAndPlaces) {
  const auto tree = parse_config(
      "[search]\nintra = \"tap\"\n[search.tap]\nseed = 7\nfast = true\nshare = 0.5\n"
      "paths = [\"a\", \"b\"]\n",
      "configs/demo.toml", {});
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(value<std::string>(*tree, "search", "intra"), "tap");
  EXPECT_EQ(value<std::int64_t>(*tree, "search.tap", "seed"), 7);
  EXPECT_EQ(value<bool>(*tree, "search.tap", "fast"), true);
  EXPECT_EQ(value<double>(*tree, "search.tap", "share"), 0.5);
  EXPECT_EQ(value<std::vector<std::string>>(*tree, "search.tap", "paths"), (std::vector<std::string>{"a", "b"}));
  const ConfigEntry& seed = tree->section("search.tap")->keys.find("seed")->second;
  EXPECT_EQ(seed.where, "configs/demo.toml:4");
  EXPECT_EQ(seed.base_folder, "configs");
}

TEST(TomlConfig, OverridesGoOnTop) {
  const std::vector<std::string> overrides = {"search.intra=tap",  "search.memory_budget=75GiB",
                                              "search.tap.seed=8", "ops.\"aten.add.Tensor\"=pointwise",
                                              "cluster.mesh=",     "train.path=a\"b"};
  const auto tree = parse_config("[search]\nintra = \"elimination\"\nweights = \"free\"\n", "demo.toml", overrides);
  ASSERT_TRUE(tree.ok()) << tree.error().message;
  EXPECT_EQ(value<std::string>(*tree, "search", "intra"), "tap");
  EXPECT_EQ(value<std::string>(*tree, "search", "weights"), "free");
  EXPECT_EQ(value<std::string>(*tree, "search", "memory_budget"), "75GiB");
  EXPECT_EQ(value<std::int64_t>(*tree, "search.tap", "seed"), 8);
  EXPECT_EQ(value<std::string>(*tree, "ops", "aten.add.Tensor"), "pointwise");
  EXPECT_EQ(value<std::string>(*tree, "cluster", "mesh"), "");
  EXPECT_EQ(value<std::string>(*tree, "train", "path"), "a\"b");
  EXPECT_EQ(tree->section("search")->keys.find("intra")->second.where, "--set search.intra=tap");
}

TEST(TomlConfig, SaysWhereAFileIsNoToml) {
  EXPECT_EQ(message_of("[search]\nintra = \n").substr(0, 30), "demo.toml:2: not valid TOML: E");
  EXPECT_EQ(message_of("a = 1979-05-27\n"), "demo.toml:1: \"a\" is a date or a time; no key takes one");
  EXPECT_EQ(message_of("\na = [1, \"two\"]\n"),
            "demo.toml:2: \"a\" is a list, but not of texts; write [\"one\", \"two\"]");
}

TEST(TomlConfig, RefusesWhatIsNoOverride) {
  EXPECT_EQ(message_of("", {"search.intra"}), "--set search.intra: not of the form section.key=value");
  EXPECT_EQ(message_of("", {"=tap"}), "--set =tap: not of the form section.key=value");
  EXPECT_EQ(message_of("", {"a b=tap"}), "--set a b=tap: not of the form section.key=value");
  EXPECT_EQ(message_of("", {"a=1\nb=2"}), "--set a=1\nb=2: not of the form section.key=value");
}

TEST(TomlConfig, RefusesAFileThatCannotBeRead) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  EXPECT_EQ(read_config(folder, {}).error().message, folder + ": is no regular file; give a file that is stored on disk");
  EXPECT_EQ(read_config("/no/such.toml", {}).error().message, "/no/such.toml: the configuration file can't be read");
  EXPECT_EQ(read_config("/no/such.toml", {}).error().code, ErrorCode::bad_input);
}

TEST(TomlConfig, WithoutAFileThereAreOverridesOnly) {
  const auto tree = read_config("", std::vector<std::string>{"search.intra=tap"});
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(value<std::string>(*tree, "search", "intra"), "tap");
}

}  // namespace
}  // namespace meshwright::host
