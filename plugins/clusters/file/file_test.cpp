#include "quantity.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

TEST(ParseQuantity, ReadsPrefixesAndUnits) {
  EXPECT_EQ(parse_quantity("80GiB", "B"), 80.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(parse_quantity("200 GB/s", "B/s"), 200e9);
  EXPECT_EQ(parse_quantity("3us", "s"), 3 * 1e-6);
  EXPECT_EQ(parse_quantity("312TFLOP/s", "FLOP/s"), 312e12);
}

TEST(ParseQuantity, RefusesOtherUnits) {
  EXPECT_EQ(parse_quantity("200GB", "B/s"), std::nullopt);
  EXPECT_EQ(parse_quantity("fast", "B/s"), std::nullopt);
  EXPECT_EQ(parse_quantity("3 parsec", "s"), std::nullopt);
}

TEST(ParseQuantity, RefusesWhatIsNoNumber) {
  for (const char* text : {"nanGB/s", "infGB/s", "-infGB/s", "1e400GB/s", "1e308GB/s", "GB/s", ""}) {
    EXPECT_EQ(parse_quantity(text, "B/s"), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace meshwright
