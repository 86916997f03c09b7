#include "detect_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "test_links.h"

namespace meshwright {
namespace {

using test::LevelOf;
using test::Machine;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kSeeds = 50;

struct Truth {
  const char* name;
  Machine machine;
  std::vector<LevelOf> levels;
  std::int64_t nodes;
};

std::vector<Truth> truths() {
  return {{"Figure 5", test::figure_5(), {{2, 3e-6, 200e9}, {4, 5e-6, 20e9}, {8, 8e-6, 10e9}}, 1},
          {"NVSwitch", test::nvswitch(), {{8, 3e-6, 300e9}}, 1},
          {"2 x 8 over Ethernet", test::ethernet(), {{8, 4e-6, 150e9}, {16, 25e-6, 4e9}}, 2},
          {"DGX-1", test::dgx_1(), {{2, 3e-6, 50e9}, {4, 3e-6, 25e9}, {8, 3e-6, 25e9}}, 1},
          {"3 nodes x 4", test::three_nodes(), {{4, 3e-6, 300e9}, {12, 6e-6, 25e9}}, 3},
          {"rails of 4", test::rails(4), {{8, 3e-6, 450e9}, {32, 6e-6, 50e9}}, 4}};
}

Result<DetectedLinks> detected(const Machine& machine, std::vector<GroupTime> groups = {}, std::int64_t devices_per_node = 0) {
  return detect_links({test::matrix_of(machine), std::move(groups)}, devices_per_node);
}

TEST(DetectLinks, FindsLevelsAndWhatTheyDo) {
  for (const Truth& truth : truths()) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(truth.name + std::string(", seed ") + std::to_string(seed));
      const auto links = detected(test::measured(truth.machine, seed));
      ASSERT_TRUE(links.ok()) << links.error().message;
      EXPECT_TRUE(validate(*links).ok());
      EXPECT_EQ(links->nodes, truth.nodes);
      EXPECT_THAT(links->slow_links, IsEmpty());
      ASSERT_EQ(links->levels.size(), truth.levels.size());
      for (std::size_t i = 0; i < truth.levels.size(); ++i) {
        // A median of few pairs, each a mean of two directions, is nearer than 15 %, and one of dozens than 5.
        const double within = truth.levels[i].group >= 12 ? 0.05 : 0.12;
        EXPECT_EQ(links->levels[i].group, truth.levels[i].group);
        EXPECT_NEAR(links->levels[i].bytes_per_second / truth.levels[i].bandwidth, 1, within) << "level " << i;
        EXPECT_NEAR(links->levels[i].latency_seconds / truth.levels[i].latency, 1, within) << "level " << i;
      }
    }
  }
}

TEST(DetectLinks, OfTwoDevicesAreOneLevel) {
  const auto links = detected(test::nested({{2, 3e-6, 200e9}}));
  ASSERT_TRUE(links.ok()) << links.error().message;
  EXPECT_TRUE(validate(*links).ok());
  ASSERT_THAT(links->levels, SizeIs(1));
  EXPECT_DOUBLE_EQ(links->levels[0].bytes_per_second, 200e9);
  EXPECT_THAT(links->order, ElementsAre(0, 1));
}

TEST(DetectLinks, NamesOneSlowLink) {
  std::uint64_t seed = 0;
  for (const Truth& truth : truths()) {
    for (const auto& [a, b] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {2, 3}, {1, 2}, {0, 3}, {2, 6}, {3, 7}, {1, 7}, {3, 11}, {4, 9}}) {
      if (b >= truth.machine.devices()) continue;
      for (const double part : {0.5, 0.2, 0.01}) {
        // A link of a DGX-1 that is no pair's, and does half of what two NVLinks do, is one NVLink.
        const bool dgx_1 = truth.name == std::string("DGX-1"), pair = (a == 0 && b == 3) || (a == 1 && b == 2);
        if (dgx_1 && part == 0.5 && truth.machine.bandwidth[a][b] > 30e9 && !pair) continue;
        SCOPED_TRACE(truth.name + std::string(", ") + std::to_string(a) + "-" + std::to_string(b) + " at " + std::to_string(part));
        Machine machine = truth.machine;
        machine.link(a, b, machine.latency[a][b], part * machine.bandwidth[a][b]);
        const auto links = detected(test::measured(machine, ++seed));
        ASSERT_TRUE(links.ok()) << links.error().message;
        ASSERT_THAT(links->slow_links, SizeIs(1));
        const SlowLink& slow = links->slow_links[0];
        EXPECT_EQ(slow.first, a);
        EXPECT_EQ(slow.second, b);
        EXPECT_FALSE(slow.latency);
        EXPECT_NEAR(slow.measured / machine.bandwidth[a][b], 1, 0.15);
        const double expected = dgx_1 && !pair ? std::min(truth.machine.bandwidth[a][b], 25e9) : truth.machine.bandwidth[a][b];
        EXPECT_NEAR(slow.expected / expected, 1, 0.12);
      }
    }
  }
}

TEST(DetectLinks, NamesALinkWithALongLatency) {
  Machine machine = test::ethernet();
  machine.link(3, 12, 60e-6, machine.bandwidth[3][12]);
  const auto links = detected(test::measured(machine, 1));
  ASSERT_TRUE(links.ok());
  ASSERT_THAT(links->slow_links, SizeIs(1));
  EXPECT_EQ(links->slow_links[0].first, 3);
  EXPECT_EQ(links->slow_links[0].second, 12);
  EXPECT_EQ(links->slow_links[0].level, "links_16");
  EXPECT_TRUE(links->slow_links[0].latency);
  EXPECT_NEAR(links->slow_links[0].expected, 25e-6, 1e-6);
  EXPECT_NEAR(links->slow_links[0].measured, 60e-6, 9e-6);
}

TEST(DetectLinks, SaysWhatPartnersDoNotShare) {
  const auto links = detected(test::measured(test::rails(4), 1));
  ASSERT_TRUE(links.ok());
  EXPECT_TRUE(links->levels[1].ganged);
  EXPECT_EQ(links->levels[1].sharers, 1);
  ASSERT_THAT(links->notes, SizeIs(2));
  EXPECT_THAT(links->notes[1], HasSubstr("Groups of 8 devices are taken for servers"));
  EXPECT_THAT(links->notes[0], testing::ContainsRegex("reaches those at its own place of the other groups at [45][0-9.]+ GB/s, all others at (19|20)[.0-9]* GB/s"));
  EXPECT_THAT(detected(test::nvswitch())->notes, IsEmpty());
}

TEST(DetectLinks, TakesServersFromThoseWhoKnow) {
  const Machine figure_5 = test::measured(test::figure_5(), 1);
  EXPECT_EQ(detected(figure_5, {}, 4)->nodes, 2);
  EXPECT_EQ(detected(figure_5, {}, 2)->devices_per_node, 2);
  EXPECT_EQ(detected(test::measured(test::ethernet(), 1), {}, 16)->nodes, 1);
  EXPECT_EQ(detected(test::measured(test::nvswitch(), 1), {}, 1)->nodes, 8);  // a server for each device
  EXPECT_THAT(detected(figure_5, {}, 3).error().message, HasSubstr("devices_per_node in [cluster.detect] is 3, but links join groups of 2, 4, 8 devices"));
}

// An all-reduce of n devices takes bytes / bus bandwidth × 2(n-1)/n.
GroupTime all_reduce(std::vector<std::size_t> devices, double bytes, double bus_bandwidth) {
  const auto n = static_cast<double>(devices.size());
  return {std::move(devices), bytes, bytes / bus_bandwidth * 2 * (n - 1) / n};
}

std::vector<std::size_t> first(std::size_t count) {
  std::vector<std::size_t> devices(count);
  for (std::size_t i = 0; i < count; ++i) devices[i] = i;
  return devices;
}

TEST(DetectLinks, LearnsFromGroupsWhatLinksShare) {
  const Machine ethernet = test::measured(test::ethernet(), 1);
  const auto shared = detected(ethernet, {all_reduce(first(16), 1e6, 2e9), all_reduce(first(16), 1e9, 4e9), all_reduce(first(8), 1e9, 120e9)});
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(shared->levels[1].sharers, 8);
  EXPECT_FALSE(shared->levels[1].ganged);
  EXPECT_TRUE(validate(*shared).ok());
  ASSERT_THAT(shared->levels[1].measured, SizeIs(1));
  EXPECT_EQ(shared->levels[1].measured[0].devices, 16);
  EXPECT_THAT(shared->levels[1].measured[0].bytes, ElementsAre(1e6, 1e9));
  EXPECT_THAT(shared->levels[1].measured[0].bytes_per_second, ElementsAre(testing::DoubleNear(2e9, 1), testing::DoubleNear(4e9, 1)));
  EXPECT_THAT(shared->levels[0].measured, SizeIs(1));
  const auto ganged = detected(ethernet, {all_reduce(first(16), 1e9, 30e9)});
  EXPECT_EQ(ganged->levels[1].sharers, 1);
  EXPECT_TRUE(ganged->levels[1].ganged);
  const auto two_cards = detected(ethernet, {all_reduce(first(16), 1e9, 8e9)});
  EXPECT_EQ(two_cards->levels[1].sharers, 4);
  EXPECT_TRUE(two_cards->levels[1].ganged);
  // Nothing is said of what was not measured, nor by a group that is none of a level.
  const auto unused = detected(ethernet, {all_reduce({0, 8}, 1e9, 4e9), all_reduce({6, 7, 8, 9}, 1e9, 4e9)});
  EXPECT_EQ(unused->levels[1].sharers, 1);
  EXPECT_THAT(unused->levels[1].measured, IsEmpty());
  EXPECT_THAT(unused->notes.back(), HasSubstr("2 of the groups' times are not used"));
}

TEST(DetectLinks, CurvesNeverSayThatMoreIsSoonerDone) {
  const auto links = detected(test::nvswitch(), {all_reduce(first(8), 1e6, 1e9), all_reduce(first(8), 1.01e6, 2e9), all_reduce(first(8), 1e9, 250e9)});
  ASSERT_TRUE(links.ok());
  EXPECT_TRUE(validate(*links).ok()) << validate(*links).error().message;
}

TEST(DetectLinks, RefusesBandwidthsOfNoKind) {
  Machine machine(16);
  std::mt19937_64 random(1);
  for (std::size_t a = 0; a < 16; ++a) {
    for (std::size_t b = a + 1; b < 16; ++b) machine.link(a, b, 5e-6, 10e9 * std::pow(10, test::uniform(random, 0, 1)));
  }
  const auto links = detected(machine);
  ASSERT_FALSE(links.ok());
  EXPECT_EQ(links.error().code, ErrorCode::bad_input);
  EXPECT_THAT(links.error().message, testing::AnyOf(HasSubstr("without being of one kind"), HasSubstr("unequal size")));
}

}  // namespace
}  // namespace meshwright
