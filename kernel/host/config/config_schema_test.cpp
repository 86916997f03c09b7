#include "config/config_schema.h"

#include <gtest/gtest.h>

#include "config/toml_config.h"

namespace meshwright::host {
namespace {

constexpr meshwright_config_key_v1 kSchema[] = {
    {"max_table_entries", "integer", "entries", "200_000_000", "largest table"},
    {"share", "number", "", "0.5", "a share"},
    {"budget", "bytes", "bytes", "\"1KiB\"", "a size"},
    {"names", "texts", "", "[\"a\"]", "names"},
    {"fast", "boolean", "", "false", "speed"},
    {"mesh", "text", "", "\"\"", "a shape"},
};
constexpr meshwright_config_key_v1 kRequired[] = {{"seed", "integer", "", nullptr, "start of the random numbers"}};
constexpr meshwright_config_key_v1 kWrongDefault[] = {{"seed", "integer", "", "\"x\"", "start"}};

Result<Config> check(std::string_view text, Schema schema = kSchema) {
  return check_section(*parse_config(text, "demo.toml", {}), "search.tap", schema);
}

TEST(ConfigSchema, FillsInDefaults) {
  const auto config = check("");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->integer("max_table_entries"), 200'000'000);
  EXPECT_EQ(config->number("share"), 0.5);
  EXPECT_EQ(config->integer("budget"), 1024);
  EXPECT_EQ(config->texts("names"), std::vector<std::string>{"a"});
  EXPECT_FALSE(config->boolean("fast"));
  EXPECT_EQ(config->text("mesh"), "");
  EXPECT_EQ(config->values().size(), 6U);
}

TEST(ConfigSchema, TakesWhatIsWritten) {
  const auto config = check("[search.tap]\nshare = 2\nbudget = \"1.5GiB\"\nfast = true\n");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->number("share"), 2.0);
  EXPECT_EQ(config->integer("budget"), 1610612736);
  EXPECT_TRUE(config->boolean("fast"));
}

TEST(ConfigSchema, TakesDigitsForAText) {
  EXPECT_EQ(check("[search.tap]\nmesh = 8\n")->text("mesh"), "8");
  EXPECT_EQ(check("[search.tap]\nmesh = true\n").error().message, "demo.toml:2: \"mesh\" in [search.tap] must be a text in quotes");
}

TEST(ConfigSchema, RefusesAnUnknownKeyWithTheNearest) {
  EXPECT_EQ(check("[search.tap]\nmax_table_entry = 1\n").error().message,
            "demo.toml:2: unknown key \"max_table_entry\" in [search.tap]; did you mean \"max_table_entries\"?");
}

TEST(ConfigSchema, RefusesAWrongType) {
  EXPECT_EQ(check("[search.tap]\nfast = 1\n").error().message,
            "demo.toml:2: \"fast\" in [search.tap] must be true or false");
  EXPECT_EQ(check("[search.tap]\nmax_table_entries = 1.5\n").error().message,
            "demo.toml:2: \"max_table_entries\" in [search.tap] must be an integer");
  EXPECT_EQ(check("[search.tap]\nbudget = \"75 parsecs\"\n").error().message,
            "demo.toml:2: \"budget\" in [search.tap] must be a size such as \"75GiB\"");
  EXPECT_EQ(check("[search.tap]\nbudget = -1\n").error().message,
            "demo.toml:2: \"budget\" in [search.tap] must be a size such as \"75GiB\"");
}

TEST(ConfigSchema, DemandsAKeyWithoutDefault) {
  EXPECT_EQ(check("", kRequired).error().message,
            "the key \"seed\" in [search.tap] must be given (start of the random numbers)");
}

TEST(ConfigSchema, AWrongDefaultIsThePluginsFault) {
  const auto config = check("", kWrongDefault);
  EXPECT_EQ(config.error().code, ErrorCode::plugin_failed);
  EXPECT_EQ(config.error().message, "the default \"x\" of key \"seed\" in [search.tap] is not an integer");
}

TEST(ConfigSchema, ReadsSizes) {
  EXPECT_EQ(*parse_bytes("75GiB"), std::int64_t{75} << 30);
  EXPECT_EQ(*parse_bytes("80GB"), 80'000'000'000);
  EXPECT_EQ(*parse_bytes("512 MiB"), std::int64_t{512} << 20);
  EXPECT_EQ(*parse_bytes("1024"), 1024);
  EXPECT_EQ(parse_bytes("75 gigs").error().message, "\"75 gigs\" is not a size; write it as 75GiB, 80GB or 1024");
  for (const char* wrong : {"", "GiB", "-1GiB", "1e30", "nan", "75GiBx"})
    EXPECT_FALSE(parse_bytes(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace meshwright::host
