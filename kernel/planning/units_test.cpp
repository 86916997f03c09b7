#include "units.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20, kGibibyte = std::int64_t{1} << 30;

TEST(Units, SizesAreWrittenWithThreeDigits) {
  EXPECT_EQ(size_text(512), "512 B");
  EXPECT_EQ(size_text(217 * kMebibyte + 3), "217 MiB");
  EXPECT_EQ(size_text(kGibibyte * 3 / 2), "1.50 GiB");
}

TEST(Units, SizesThatDifferReadOtherwise) {
  EXPECT_EQ(size_text_beside(128 * kMebibyte + 1, 128 * kMebibyte), "134217729 B");
  EXPECT_EQ(size_text_beside(128 * kMebibyte, 128 * kMebibyte), "128 MiB");
  EXPECT_EQ(size_text_beside(130 * kMebibyte + 1, 128 * kMebibyte), "130 MiB");
}

TEST(Units, AWrittenSizeIsNoLessThanWhatItIsOf) {
  EXPECT_EQ(written_size(512), 512);
  EXPECT_EQ(written_size(217 * kMebibyte), 217 * kMebibyte);
  EXPECT_EQ(written_size(217 * kMebibyte + 1), 218 * kMebibyte);
  for (const std::int64_t bytes : {kMebibyte - 1, 99 * kMebibyte + 12345, kGibibyte + 1, 94 * kGibibyte + 7, 999 * kMebibyte + 900000}) {
    const std::int64_t written = written_size(bytes);
    EXPECT_GE(written, bytes);
    EXPECT_LE(static_cast<double>(written), 1.011 * static_cast<double>(bytes));
    EXPECT_EQ(written_size(written), written) << size_text(written);
  }
}

}  // namespace
}  // namespace meshwright
