#include "unlike_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace meshwright {
namespace {

using testing::ElementsAre;

// Two servers of four.
Cluster servers() {
  Cluster cluster;
  cluster.name = "servers";
  cluster.devices_per_node = 4;
  cluster.nodes = 2;
  cluster.levels = {{"server", 4, 20e9, 2e-6}, {"all", 8, 5e9, 5e-6}};
  return cluster;
}

std::set<std::int64_t> counts(const std::vector<DeviceRange>& ranges) {
  std::set<std::int64_t> found;
  for (const DeviceRange& range : ranges) found.insert(range.count);
  return found;
}

// Of three stages on eight devices each may have two to five, of which two and four are parts of such a cluster; none reaches over a server's end.
TEST(UnlikeNumbers, AreHalfAsManyAsInTheMeanToTwiceAsMany) {
  EXPECT_THAT(counts(unlike_ranges(servers(), {3}, 3)), ElementsAre(2, 4));
  EXPECT_THAT(counts(unlike_ranges(servers(), {2}, 2)), ElementsAre(2, 4));
  // Where the number of stages is free, those of even stages.
  EXPECT_THAT(counts(unlike_ranges(servers(), {1, 2, 8}, 3)), ElementsAre(4));
  for (const DeviceRange& range : unlike_ranges(servers(), {3}, 3)) EXPECT_LE(range.first % 4 + range.count, 4) << range.first;
}

TEST(UnlikeNumbers, ListsTakeAllDevicesInTheirOrder) {
  const std::vector<DeviceRange> ranges = unlike_ranges(servers(), {1, 2, 4, 8}, 3);
  EXPECT_THAT(device_lists(ranges, 3, 8, 64), ElementsAre(ElementsAre(2, 2, 4), ElementsAre(4, 2, 2)));
  EXPECT_EQ(device_lists(ranges, 3, 8, 1).size(), 1U);
  EXPECT_TRUE(device_lists(ranges, 1, 8, 64).empty());
}

}  // namespace
}  // namespace meshwright
