#include "as_started.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "detect_links.h"
#include "test_links.h"

namespace meshwright {
namespace {

using test::Machine;
using testing::ElementsAre;
using testing::HasSubstr;

DetectedLinks started(const Machine& machine, std::int64_t devices_per_node = 0) {
  const auto links = detect_links({test::matrix_of(machine)}, devices_per_node, true);
  EXPECT_TRUE(links.ok()) << links.error().message;
  if (!links) return {};
  EXPECT_TRUE(validate(*links).ok());
  EXPECT_TRUE(std::ranges::is_sorted(links->order));
  return *links;
}

std::vector<std::int64_t> groups_of(const DetectedLinks& links) {
  std::vector<std::int64_t> groups;
  for (const LinkLevel& level : links.levels) groups.push_back(level.group);
  return groups;
}

TEST(AsStarted, IsWhatWasFoundWhereGroupsAreOfNeighbours) {
  for (const Machine& machine : {test::figure_5(), test::nvswitch(), test::ethernet(), test::three_nodes(), test::rails(4)}) {
    const DetectedLinks links = started(machine), found = detect_links({test::matrix_of(machine)}, 0).value();
    EXPECT_EQ(groups_of(links), groups_of(found));
    EXPECT_EQ(links.notes, found.notes);
    for (std::size_t i = 0; i < links.levels.size(); ++i) EXPECT_EQ(links.levels[i].bytes_per_second, found.levels[i].bytes_per_second);
  }
}

// Ranks that were dealt out to two servers in turns have no fast neighbours: every axis of neighbours crosses the network.
TEST(AsStarted, PricesNeighboursByTheirSlowestLinks) {
  std::vector<std::size_t> dealt;
  for (std::size_t i = 0; i < 16; ++i) dealt.push_back(i % 8 * 2 + i / 8);
  const DetectedLinks links = started(test::renumbered(test::ethernet(), dealt));
  EXPECT_THAT(groups_of(links), ElementsAre(8, 16));
  for (const LinkLevel& level : links.levels) EXPECT_DOUBLE_EQ(level.bytes_per_second, 4e9) << level.name;
  ASSERT_FALSE(links.notes.empty());
  EXPECT_THAT(links.notes[0], HasSubstr("with rank 0, 1, 2, ... on the measurement's device 0 2 4 6 8 10 12 14 1 3 5 7 9 11 13 15"));
}

// One rank that is out of place makes its group slow, whatever the others do.
TEST(AsStarted, ExcusesNoPair) {
  std::vector<std::size_t> numbers = {0, 1, 2, 3, 4, 5, 6, 8, 7, 9, 10, 11, 12, 13, 14, 15};
  const DetectedLinks links = started(test::renumbered(test::ethernet(), numbers));
  for (const LinkLevel& level : links.levels) EXPECT_DOUBLE_EQ(level.bytes_per_second, 4e9) << level.name;
}

TEST(AsStarted, IsOneLevelWhereNoGroupsAreAlike) {
  Machine machine = test::nested({{8, 3e-6, 10e9}});
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = a + 1; b < 8; ++b) {
      if ((a < 3) == (b < 3)) machine.link(a, b, 3e-6, 200e9);
    }
  }
  const DetectedLinks links = started(machine);
  EXPECT_THAT(groups_of(links), ElementsAre(8));
  EXPECT_EQ(links.levels[0].bytes_per_second, 10e9);
  ASSERT_FALSE(links.notes.empty());
  EXPECT_THAT(links.notes[0], HasSubstr("Links form no groups that are alike (links of "));
}

// As a busy machine measures: any numbers make a cluster, which is as slow as they say.
TEST(AsStarted, TakesWhateverWasMeasured) {
  std::mt19937_64 random(3);
  for (int draw = 0; draw < 200; ++draw) {
    std::string text = "a,b,latency_s,bandwidth_Bps\n";
    double least = 1e12;
    for (int a = 0; a < 4; ++a) {
      for (int b = 0; b < 4; ++b) {
        if (a == b) continue;
        const double rate = test::uniform(random, 1e9, 8e9);
        least = std::min(least, rate);
        text += std::to_string(a) + "," + std::to_string(b) + "," + std::to_string(test::uniform(random, 1e-5, 1e-3)) + "," + std::to_string(rate) + "\n";
      }
    }
    const auto recorded = read_recorded_links(text, "m.csv", Directions::slower);
    ASSERT_TRUE(recorded.ok()) << recorded.error().message;
    const auto links = detect_links(*recorded, 0, true);
    ASSERT_TRUE(links.ok()) << links.error().message;
    EXPECT_TRUE(validate(*links).ok());
    for (const LinkLevel& level : links->levels) EXPECT_GE(level.bytes_per_second, 0.99 * least);
  }
}

TEST(AsStarted, GivesServersALevelOfTheirOwn) {
  const DetectedLinks links = started(test::nvswitch(), 4);
  EXPECT_THAT(groups_of(links), ElementsAre(4, 8));
  EXPECT_EQ(links.nodes, 2);
  EXPECT_THAT(groups_of(started(test::ethernet(), 8)), ElementsAre(8, 16));
  EXPECT_THAT(groups_of(started(test::three_nodes(), 6)), ElementsAre(6, 12));  // groups of 4 are no part of it
  EXPECT_EQ(started(test::ethernet(), 1).nodes, 16);
  EXPECT_FALSE(detect_links({test::matrix_of(test::ethernet())}, 3, true).ok());
}

}  // namespace
}  // namespace meshwright
