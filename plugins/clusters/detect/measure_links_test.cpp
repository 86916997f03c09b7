#include "measure_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "detect_links.h"
#include "test_links.h"

namespace meshwright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Rank 0 of ranks whose links are known. Figures are powers of two, so that they come back to the last bit.
class FakeTransport : public Transport {
 public:
  explicit FakeTransport(test::Machine machine) : machine_(std::move(machine)) {}

  std::vector<std::string> calls;       // without those that repeat the one before
  std::set<std::int64_t> message_bytes;
  int slow_calls = 0;                   // so many of the next calls take a hundred times as long
  std::map<std::pair<int, int>, int> slow_messages;  // so many of the next between these ranks

 private:
  [[nodiscard]] int do_ranks() const override { return static_cast<int>(machine_.devices()); }
  [[nodiscard]] int do_rank() const override { return 0; }
  int do_from_first(int value) override { return value; }

  double do_round_trip_seconds(int a, int b, std::int64_t /*bytes*/, std::int64_t /*count*/) override { return said("trip", {a, b}, 2 * machine_.latency[at(a)][at(b)]); }
  double do_message_seconds(int a, int b, std::int64_t bytes, std::int64_t /*count*/) override {
    message_bytes.insert(bytes);
    if (slow_messages[{a, b}] > 0) --slow_messages[{a, b}], slow_calls = 1;
    return said("message", {a, b}, static_cast<double>(bytes) / machine_.bandwidth[at(a)][at(b)]);
  }
  // As a ring takes it over its slowest link.
  double do_all_reduce_seconds(const std::vector<int>& group, std::int64_t bytes, std::int64_t /*count*/) override {
    double rate = machine_.bandwidth[at(group.back())][at(group.front())];
    for (std::size_t i = 1; i < group.size(); ++i) rate = std::min(rate, machine_.bandwidth[at(group[i - 1])][at(group[i])]);
    const auto n = static_cast<double>(group.size());
    return said("all_reduce", group, 2 * (n - 1) / n * static_cast<double>(bytes) / rate);
  }

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  double said(std::string call, const std::vector<int>& ranks, double seconds) {
    for (const int rank : ranks) call += " " + std::to_string(rank);
    if (calls.empty() || calls.back() != call) calls.push_back(std::move(call));
    return slow_calls > 0 ? (--slow_calls, 100 * seconds) : seconds;
  }

  test::Machine machine_;
};

constexpr double kFast = 0x1p37, kSlow = 0x1p33, kNear = 0x1p-18, kFar = 0x1p-17;

test::Machine pairs_of_two() { return test::nested({{2, kNear, kFast}, {4, kFar, kSlow}}); }

MeasuredLinks measured(FakeTransport& transport, const MeasureSettings& settings = {}) {
  const auto links = measure_links(transport, settings);
  EXPECT_TRUE(links.ok()) << links.error().message;
  return links.ok() ? *links : MeasuredLinks{};
}

TEST(MeasureLinks, SaysWhatTheTransportSays) {
  FakeTransport transport(pairs_of_two());
  const MeasuredLinks links = measured(transport);
  ASSERT_EQ(links.pairs.size(), 12);
  for (const PairTime& pair : links.pairs) {
    EXPECT_EQ(pair.latency_seconds, pair.from / 2 == pair.to / 2 ? kNear : kFar);
    EXPECT_EQ(pair.bytes_per_second, pair.from / 2 == pair.to / 2 ? kFast : kSlow);
  }
  std::vector<std::vector<std::size_t>> groups;
  for (const GroupTime& time : links.groups) {
    if (groups.empty() || groups.back() != time.devices) groups.push_back(time.devices);
    const auto n = static_cast<double>(time.devices.size());
    EXPECT_DOUBLE_EQ(time.bytes / time.seconds * 2 * (n - 1) / n, n == 2 ? kFast : kSlow);
  }
  EXPECT_THAT(groups, ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1, 2, 3), ElementsAre(2, 3)));
  EXPECT_THAT(transport.message_bytes, ElementsAre(8 << 20));
}

TEST(MeasureLinks, GoOverAllPairsBeforeOneIsMeasuredAgain) {
  FakeTransport transport(test::nested({{3, kNear, kFast}}));
  measured(transport, {0.02, 1 << 20, 2, false});
  const std::vector<std::string> round = {"trip 0 1", "message 0 1", "message 1 0", "trip 0 2", "message 0 2", "message 2 0", "trip 1 2", "message 1 2", "message 2 1"};
  std::vector<std::string> wanted = round;
  wanted.insert(wanted.end(), round.begin(), round.end());
  wanted.push_back("all_reduce 0 1 2");
  EXPECT_EQ(transport.calls, wanted);
}

// A moment in which everything is slow is one round of the pairs that it hits.
TEST(MeasureLinks, CountMedians) {
  FakeTransport transport(pairs_of_two());
  transport.slow_calls = 20;
  for (const PairTime& pair : measured(transport).pairs) EXPECT_EQ(pair.bytes_per_second, pair.from / 2 == pair.to / 2 ? kFast : kSlow);
}

// Noise that hits one direction in all rounds is gone when the pair is measured again; a direction that stays slow is told.
TEST(MeasureLinks, AreMeasuredAgainWhereDirectionsDiffer) {
  test::Machine machine = test::nested({{2, kNear, kFast}});
  for (const bool stays : {false, true}) {
    if (stays) machine.bandwidth[1][0] = kSlow;
    FakeTransport transport(machine);
    if (!stays) transport.slow_messages = {{{0, 1}, 6}};  // the first, and five rounds
    const MeasuredLinks links = measured(transport);
    EXPECT_EQ(links.pairs[0].bytes_per_second, kFast);
    EXPECT_EQ(links.pairs[1].bytes_per_second, stays ? kSlow : kFast);
  }
}

TEST(MeasureLinks, AreReadBackToTheLastBit) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    FakeTransport transport(test::measured(pairs_of_two(), seed));
    const MeasuredLinks links = measured(transport);
    const auto recorded = read_recorded_links(recorded_text(links), "m.csv");
    ASSERT_TRUE(recorded.ok()) << recorded.error().message;
    std::vector<std::vector<double>> latency(4, std::vector<double>(4, 0)), bandwidth = latency;
    for (const PairTime& pair : links.pairs) latency[pair.from][pair.to] = pair.latency_seconds, bandwidth[pair.from][pair.to] = pair.bytes_per_second;
    const LinkMatrix wanted = make_link_matrix(latency, bandwidth).value();
    EXPECT_EQ(recorded->pairs.bytes_per_second, wanted.bytes_per_second);
    EXPECT_EQ(recorded->pairs.latency_seconds, wanted.latency_seconds);
    ASSERT_EQ(recorded->groups.size(), links.groups.size());
    for (std::size_t i = 0; i < links.groups.size(); ++i) {
      EXPECT_EQ(recorded->groups[i].devices, links.groups[i].devices);
      EXPECT_EQ(recorded->groups[i].bytes, links.groups[i].bytes);
      EXPECT_EQ(recorded->groups[i].seconds, links.groups[i].seconds);
    }
  }
}

// All-reduces are of the groups that the links form, or of neighbours.
TEST(MeasureLinks, OfGroupsInTheirOrder) {
  const test::Machine machine = test::renumbered(pairs_of_two(), {0, 2, 1, 3});
  const auto groups = [&](bool as_started) {
    FakeTransport transport(machine);
    MeasureSettings settings;
    settings.as_started = as_started;
    std::set<std::vector<std::size_t>> found;
    for (const GroupTime& time : measured(transport, settings).groups) found.insert(time.devices);
    return found;
  };
  EXPECT_THAT(groups(false), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(groups(true), ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1, 2, 3), ElementsAre(2, 3)));
}

TEST(MeasureLinks, FindTheMachine) {
  for (const test::Machine& machine : {test::figure_5(), test::ethernet(), test::rails(2), test::dgx_1()}) {
    FakeTransport transport(machine);
    const auto recorded = read_recorded_links(recorded_text(measured(transport)), "m.csv");
    ASSERT_TRUE(recorded.ok()) << recorded.error().message;
    const auto found = detect_links(*recorded, 0), truth = detect_links({test::matrix_of(machine)}, 0);
    ASSERT_TRUE(found.ok() && truth.ok());
    EXPECT_EQ(found->order, truth->order);
    ASSERT_EQ(found->levels.size(), truth->levels.size());
    for (std::size_t i = 0; i < found->levels.size(); ++i) {
      EXPECT_EQ(found->levels[i].group, truth->levels[i].group);
      EXPECT_NEAR(found->levels[i].bytes_per_second / truth->levels[i].bytes_per_second, 1, 1e-9);
      EXPECT_NEAR(found->levels[i].latency_seconds / truth->levels[i].latency_seconds, 1, 1e-9);
      EXPECT_THAT(found->levels[i].measured, testing::SizeIs(1));
    }
  }
}

TEST(MeasureLinks, OfOneRankAreRefused) {
  FakeTransport transport(test::Machine(1));
  const auto links = measure_links(transport, {});
  ASSERT_FALSE(links.ok());
  EXPECT_EQ(links.error().code, ErrorCode::bad_input);
  EXPECT_THAT(links.error().message, HasSubstr("one rank alone has no links"));
  EXPECT_THAT(links.error().message, HasSubstr("mpirun -n"));
}

TEST(MeasureLinks, OfATransportThatSaysNonsenseAreRefused) {
  test::Machine machine = pairs_of_two();
  machine.bandwidth[1][3] = 0;  // endless
  FakeTransport transport(machine);
  const auto links = measure_links(transport, {});
  ASSERT_FALSE(links.ok());
  EXPECT_EQ(links.error().code, ErrorCode::plugin_failed);
  EXPECT_THAT(links.error().message, HasSubstr("no number of seconds: inf"));
}

}  // namespace
}  // namespace meshwright
