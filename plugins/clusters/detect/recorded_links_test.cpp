#include "recorded_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "detect_links.h"
#include "test_links.h"

namespace meshwright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const std::string kPairs = "a,b,latency_s,bandwidth_Bps\n";

std::string refusal(const std::string& text) {
  const auto recorded = read_recorded_links(text, "m.csv");
  return recorded.ok() ? "accepted" : recorded.error().message;
}

TEST(RecordedLinks, AreRead) {
  const auto recorded = read_recorded_links(
      "# three devices\n"
      "a,b,latency_s,bandwidth_Bps\r\n"
      "0,1,3e-6,100e9\r\n"
      " 0 , 2 , 4e-6 , 50e9\n"
      "\n"
      "2,0,4e-6,50e9\n"
      "1,2,1e-6,10e9\n1,2,5e-6,20e9\n1,2,9e-6,30e9\n"
      "seconds,group,bytes\n"
      "0.001,2 0 1,1e6\n",
      "m.csv");
  ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  EXPECT_EQ(recorded->pairs.devices, 3);
  EXPECT_DOUBLE_EQ(recorded->pairs.latency(0, 1), 3e-6);
  EXPECT_DOUBLE_EQ(recorded->pairs.bandwidth(1, 0), 100e9);
  EXPECT_DOUBLE_EQ(recorded->pairs.bandwidth(1, 2), 20e9);  // the median
  EXPECT_DOUBLE_EQ(recorded->pairs.latency(2, 1), 5e-6);
  ASSERT_THAT(recorded->groups, SizeIs(1));
  EXPECT_THAT(recorded->groups[0].devices, ElementsAre(0, 1, 2));
  EXPECT_EQ(recorded->groups[0].bytes, 1e6);
  EXPECT_EQ(recorded->groups[0].seconds, 0.001);
}

TEST(RecordedLinks, SayWhichLineIsWrong) {
  EXPECT_THAT(refusal(""), HasSubstr("m.csv: no pair was measured"));
  EXPECT_THAT(refusal("0,1,3e-6,1e9\n"), HasSubstr("m.csv:1: the first line must name the columns"));
  EXPECT_THAT(refusal(kPairs + "0,1,3e-6\n"), HasSubstr("m.csv:2: 3 cells, but 4 columns"));
  EXPECT_THAT(refusal(kPairs + "\n0,x,3e-6,1e9\n"), HasSubstr("m.csv:3: 'x' is no device"));
  EXPECT_THAT(refusal(kPairs + "0,-1,3e-6,1e9\n"), HasSubstr("m.csv:2: '-1' is no device"));
  EXPECT_THAT(refusal(kPairs + "0,1024,3e-6,1e9\n"), HasSubstr("m.csv:2: '1024' is no device"));
  EXPECT_THAT(refusal(kPairs + "1,1,3e-6,1e9\n"), HasSubstr("m.csv:2: device 1 with itself is no pair"));
  EXPECT_THAT(refusal(kPairs + "0,1,nan,1e9\n"), HasSubstr("m.csv:2: latency_s is 'nan', but must be a number that is not negative"));
  EXPECT_THAT(refusal(kPairs + "0,1,3e-6,-1e9\n"), HasSubstr("m.csv:2: bandwidth_Bps is '-1e9'"));
  EXPECT_THAT(refusal(kPairs + "0,1,3e-6,inf\n"), HasSubstr("m.csv:2: bandwidth_Bps is 'inf'"));
  EXPECT_THAT(refusal(kPairs + "0,1,3e-6,1GB/s\x1b[2J\n"), HasSubstr("m.csv:2: bandwidth_Bps is '1GB/s\\x1b[2J'"));
  EXPECT_THAT(refusal(kPairs + "0,1,3e-6,0\n"), HasSubstr("m.csv: devices 0 and 1 are not connected"));
  EXPECT_THAT(refusal(kPairs + "0,1,3e-6,1e9\n1,2,3e-6,1e9\n"), HasSubstr("m.csv: devices 0 and 2 were not measured"));
  EXPECT_THAT(refusal(kPairs + "0,1,3e-6,1e9\n1,0,3e-6,2e9\n"), HasSubstr("m.csv: devices 0 and 1: bandwidth is 1e+09 from the first"));
  const std::string group = kPairs + "0,1,3e-6,1e9\ngroup,bytes,seconds\n";
  EXPECT_THAT(refusal(group + "0 0,1e6,1\n"), HasSubstr("m.csv:4: the group has a device twice"));
  EXPECT_THAT(refusal(group + "0,1e6,1\n"), HasSubstr("m.csv:4: a group has at least 2 devices"));
  EXPECT_THAT(refusal(group + "0 1,0,1\n"), HasSubstr("m.csv:4: bytes is '0', but must be a number that is more than 0"));
  EXPECT_THAT(refusal(group + "0 1,1e6,\n"), HasSubstr("m.csv:4: seconds is ''"));
  EXPECT_THAT(refusal(group + "0 5,1e6,1\n"), HasSubstr("m.csv:4: no pair has device 5"));
}

// All that is found, as text.
std::string text_of(const DetectedLinks& links) {
  std::ostringstream text;
  text.precision(17);
  text << links.nodes << "x" << links.devices_per_node;
  for (const LinkLevel& level : links.levels) {
    text << "\n" << level.name << " " << level.group << " " << level.bytes_per_second << " " << level.latency_seconds << " " << level.sharers << " " << level.ganged;
    for (const BusBandwidth& curve : level.measured) text << " " << testing::PrintToString(curve.bytes) << testing::PrintToString(curve.bytes_per_second);
  }
  for (const SlowLink& slow : links.slow_links) text << "\n" << slow.first << "-" << slow.second << " " << slow.expected << " " << slow.measured;
  for (const std::string& note : links.notes) text << "\n" << note;
  return text.str() + testing::PrintToString(links.order);
}

TEST(RecordedLinks, MayBeInAnyOrder) {
  for (test::Machine machine : {test::dgx_1(), test::ethernet(), test::rails(2)}) {
    machine.link(0, 2, 3e-6, 2e9);
    machine = test::measured(machine, 7);
    std::vector<std::string> rows;
    for (std::size_t a = 0; a < machine.devices(); ++a) {
      for (std::size_t b = 0; b < machine.devices(); ++b) {
        if (a == b) continue;
        for (const double factor : {0.99, 1.0, 1.03}) {
          std::ostringstream row;
          row << a << "," << b << "," << machine.latency[a][b] * factor << "," << machine.bandwidth[a][b] * factor << "\n";
          rows.push_back(row.str());
        }
      }
    }
    std::string first;
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      std::string text = kPairs;
      for (const std::size_t i : test::shuffled_numbers(rows.size(), seed)) text += rows[i];
      const auto recorded = read_recorded_links(text, "m.csv");
      ASSERT_TRUE(recorded.ok()) << recorded.error().message;
      const auto links = detect_links(*recorded, 0);
      ASSERT_TRUE(links.ok()) << links.error().message;
      if (seed == 0) first = text_of(*links);
      EXPECT_EQ(text_of(*links), first);
    }
  }
}

}  // namespace
}  // namespace meshwright
