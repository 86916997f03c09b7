#include "open_dimensions.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

Config model(std::int64_t batch, const std::string& dimensions) {
  Config config;
  config.set("batch", batch);
  config.set("dimensions", dimensions);
  return config;
}

TEST(OpenDimensions, NothingGivenIsNothingKnown) {
  const auto open = open_dimensions(model(0, " "));
  ASSERT_TRUE(open.ok());
  EXPECT_FALSE(open->batch.has_value());
  EXPECT_TRUE(open->named.empty());
}

TEST(OpenDimensions, ReadsSizesByName) {
  const auto open = open_dimensions(model(8, "sequence=128, past_sequence + 1 = 129"));
  ASSERT_TRUE(open.ok()) << open.error().message;
  EXPECT_EQ(open->batch, 8);
  EXPECT_EQ(open->named, (std::map<std::string, std::int64_t>{{"past_sequence + 1", 129}, {"sequence", 128}}));
}

TEST(OpenDimensions, QuotesWhatIsNoSize) {
  for (const char* entry : {"sequence", "sequence=", "=4", "sequence=x", "sequence=0", "sequence=-4", "sequence=4x"}) {
    const auto open = open_dimensions(model(0, std::string("a=1, ") + entry));
    ASSERT_FALSE(open.ok()) << entry;
    EXPECT_EQ(open.error().message, "\"dimensions\" in [model]: \"" + std::string(entry) +
                                        "\" is no name=size; write \"sequence=128, patches=49\"");
  }
  EXPECT_EQ(open_dimensions(model(0, "a=1,a=2")).error().message, "\"dimensions\" in [model] gives \"a\" two sizes");
}

}  // namespace
}  // namespace meshwright
