#include "hierarchy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "test_links.h"

namespace meshwright {
namespace {

using test::Machine;
using testing::HasSubstr;

constexpr std::uint64_t kSeeds = 50;

struct Truth {
  const char* name;
  Machine machine;
  std::vector<std::vector<std::set<std::size_t>>> levels;  // groups, innermost level first
  std::vector<bool> aligned;
};

std::vector<std::set<std::size_t>> runs(std::size_t devices, std::size_t group) {
  std::vector<std::set<std::size_t>> groups(devices / group);
  for (std::size_t device = 0; device < devices; ++device) groups[device / group].insert(device);
  return groups;
}

std::vector<Truth> truths() {
  return {{"Figure 5", test::figure_5(), {runs(8, 2), runs(8, 4), runs(8, 8)}, {false, false, false}},
          {"NVSwitch", test::nvswitch(), {runs(8, 8)}, {false}},
          {"2 x 8 over Ethernet", test::ethernet(), {runs(16, 8), runs(16, 16)}, {false, false}},
          {"DGX-1", test::dgx_1(), {{{0, 3}, {1, 2}, {4, 7}, {5, 6}}, runs(8, 4), runs(8, 8)}, {false, false, true}},
          {"3 nodes x 4", test::three_nodes(), {runs(12, 4), runs(12, 12)}, {false, false}},
          {"rails of 2", test::rails(2), {runs(16, 8), runs(16, 16)}, {false, true}},
          {"rails of 4", test::rails(4), {runs(32, 8), runs(32, 32)}, {false, true}},
          {"rails of 12", test::rails(12), {runs(96, 8), runs(96, 96)}, {false, true}},
          {"rails that NVLink forwards", test::rails(4, 50e9), {runs(32, 8), runs(32, 32)}, {false, false}}};
}

// The groups of a level as they lie, each as a set.
std::set<std::set<std::size_t>> groups_of(const Hierarchy& found, std::size_t level) {
  const std::size_t group = found.levels[level].group;
  std::set<std::set<std::size_t>> groups;
  for (std::size_t first = 0; first < found.order.size(); first += group) {
    groups.emplace(found.order.begin() + static_cast<std::ptrdiff_t>(first), found.order.begin() + static_cast<std::ptrdiff_t>(first + group));
  }
  return groups;
}

// `numbers`: what the truth's devices are called here.
void expect_truth(const Result<Hierarchy>& found, const Truth& truth, const std::vector<std::size_t>& numbers) {
  ASSERT_TRUE(found.ok()) << found.error().message;
  ASSERT_EQ(found->levels.size(), truth.levels.size());
  for (std::size_t level = 0; level < truth.levels.size(); ++level) {
    std::set<std::set<std::size_t>> expected;
    for (const auto& group : truth.levels[level]) {
      std::set<std::size_t> renumbered;
      for (const std::size_t device : group) renumbered.insert(numbers[device]);
      expected.insert(renumbered);
    }
    EXPECT_EQ(groups_of(*found, level), expected) << "level " << level;
    EXPECT_EQ(found->levels[level].aligned, truth.aligned[level]) << "level " << level;
  }
}

// The least bandwidth between neighbours along the axes of the mesh whose shape is the levels' (level by level, without noise).
std::vector<double> slowest_on_axes(const Hierarchy& found, const Machine& machine, const std::vector<std::size_t>& numbers) {
  std::vector<std::size_t> device_of(numbers.size());
  for (std::size_t device = 0; device < numbers.size(); ++device) device_of[numbers[device]] = device;
  std::vector<double> slowest;
  std::size_t inner = 1;
  for (const GroupLevel& level : found.levels) {
    slowest.push_back(1e30);
    for (std::size_t p = 0; p < found.order.size(); ++p) {
      for (std::size_t q = p + inner; q < p / level.group * level.group + level.group; q += inner) {
        slowest.back() = std::min(slowest.back(), machine.bandwidth[device_of[found.order[p]]][device_of[found.order[q]]]);
      }
    }
    inner = level.group;
  }
  return slowest;
}

std::vector<std::size_t> same_numbers(std::size_t devices) {
  std::vector<std::size_t> numbers(devices);
  for (std::size_t i = 0; i < devices; ++i) numbers[i] = i;
  return numbers;
}

TEST(Hierarchy, IsRecoveredFromNoise) {
  for (const Truth& truth : truths()) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(truth.name + std::string(", seed ") + std::to_string(seed));
      expect_truth(find_hierarchy(test::matrix_of(test::measured(truth.machine, seed))), truth, same_numbers(truth.machine.devices()));
      expect_truth(find_hierarchy(test::matrix_of(test::measured_badly(truth.machine, seed))), truth, same_numbers(truth.machine.devices()));
    }
  }
}

TEST(Hierarchy, FollowsTheDevicesWhateverTheirNumbers) {
  for (const Truth& truth : truths()) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(truth.name + std::string(", seed ") + std::to_string(seed));
      const std::vector<std::size_t> numbers = test::shuffled_numbers(truth.machine.devices(), seed);
      expect_truth(find_hierarchy(test::matrix_of(test::measured(test::renumbered(truth.machine, numbers), seed))), truth, numbers);
    }
  }
}

TEST(Hierarchy, LeavesDevicesInOrderWhereTheyAre) {
  for (const Truth& truth : truths()) {
    const auto found = find_hierarchy(test::matrix_of(test::measured(truth.machine, 1)));
    ASSERT_TRUE(found.ok()) << truth.name;
    const bool dgx_1 = truth.name == std::string("DGX-1");
    EXPECT_EQ(found->order, dgx_1 ? std::vector<std::size_t>({0, 3, 1, 2, 4, 7, 5, 6}) : same_numbers(truth.machine.devices())) << truth.name;
  }
}

// On every axis of the levels' mesh all neighbours are linked by what the level says, and no axis of a DGX-1 or of rails goes over the slow way.
TEST(Hierarchy, MakesMeshesWithAxesThatAreAlike) {
  const std::vector<std::vector<double>> expected = {{200e9, 20e9, 10e9}, {300e9}, {150e9, 4e9}, {50e9, 25e9, 25e9}, {300e9, 25e9}, {450e9, 50e9}, {450e9, 50e9}, {450e9, 50e9}, {450e9, 50e9}};
  const std::vector<Truth> all = truths();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const std::vector<std::size_t> numbers = test::shuffled_numbers(all[i].machine.devices(), seed);
      const auto found = find_hierarchy(test::matrix_of(test::measured(test::renumbered(all[i].machine, numbers), seed)));
      ASSERT_TRUE(found.ok()) << all[i].name;
      EXPECT_EQ(slowest_on_axes(*found, all[i].machine, numbers), expected[i]) << all[i].name << ", seed " << seed;
    }
  }
}

// Each link in turn at these parts of its speed.
TEST(Hierarchy, IsNotSplitByOneSlowLink) {
  std::uint64_t seed = 0;
  for (const Truth& truth : truths()) {
    if (truth.machine.devices() > 32) continue;
    for (std::size_t a = 0; a < truth.machine.devices(); ++a) {
      for (std::size_t b = a + 1; b < truth.machine.devices(); ++b) {
        for (const double part : {0.7, 0.5, 0.3, 0.07, 0.001}) {
          Machine machine = truth.machine;
          machine.link(a, b, machine.latency[a][b], part * machine.bandwidth[a][b]);
          SCOPED_TRACE(truth.name + std::string(", ") + std::to_string(a) + "-" + std::to_string(b) + " at " + std::to_string(part));
          expect_truth(find_hierarchy(test::matrix_of(test::measured(machine, ++seed))), truth, same_numbers(machine.devices()));
        }
      }
    }
  }
}

TEST(Hierarchy, IsNotJoinedByOneFastLink) {
  std::uint64_t seed = 0;
  for (const Truth& truth : truths()) {
    if (truth.machine.devices() > 16 || truth.name == std::string("DGX-1")) continue;
    for (std::size_t a = 0; a < truth.machine.devices(); ++a) {
      for (std::size_t b = a + 1; b < truth.machine.devices(); ++b) {
        Machine machine = truth.machine;
        machine.link(a, b, machine.latency[a][b], 3 * machine.bandwidth[a][b]);
        SCOPED_TRACE(truth.name + std::string(", ") + std::to_string(a) + "-" + std::to_string(b));
        expect_truth(find_hierarchy(test::matrix_of(test::measured(machine, ++seed))), truth, same_numbers(machine.devices()));
      }
    }
  }
}

// A square of fast links, as in a torus: pairs, and partners in the other pair.
TEST(Hierarchy, FindsPairsInASquare) {
  Machine machine = test::nested({{4, 5e-6, 10e9}});
  for (const auto& [a, b] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 2}, {2, 1}, {1, 3}, {3, 0}}) machine.link(a, b, 3e-6, 50e9);
  const auto found = find_hierarchy(test::matrix_of(machine));
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->levels.size(), 2);
  EXPECT_TRUE(found->levels[1].aligned);
  EXPECT_EQ(slowest_on_axes(*found, machine, same_numbers(4)), (std::vector<double>{50e9, 50e9}));
}

// Partners of one pair are in two pairs: no order keeps both, and pairs stay.
TEST(Hierarchy, DoesNotAlignPartnersThatInnerLevelsDivide) {
  Machine machine = test::nested({{2, 3e-6, 200e9}, {4, 3e-6, 100e9}, {8, 8e-6, 10e9}});
  for (const auto& [a, b] : std::vector<std::pair<std::size_t, std::size_t>>{{0, 4}, {1, 6}, {2, 5}, {3, 7}}) machine.link(a, b, 5e-6, 40e9);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    expect_truth(find_hierarchy(test::matrix_of(test::measured(machine, seed))), {"quads", machine, {runs(8, 2), runs(8, 4), runs(8, 8)}, {false, false, false}}, same_numbers(8));
  }
}

TEST(Hierarchy, RefusesGroupsOfUnequalSize) {
  const auto groups_of_sizes = [](const std::vector<std::size_t>& sizes) {
    std::vector<std::size_t> group;
    for (std::size_t i = 0; i < sizes.size(); ++i) group.insert(group.end(), sizes[i], i);
    Machine machine(group.size());
    for (std::size_t a = 0; a < group.size(); ++a) {
      for (std::size_t b = a + 1; b < group.size(); ++b) machine.link(a, b, 5e-6, group[a] == group[b] ? 200e9 : 10e9);
    }
    return machine;
  };
  for (const std::vector<std::size_t>& sizes : std::vector<std::vector<std::size_t>>{{3, 5}, {4, 4, 2}, {4, 4, 4, 2, 2}, {7, 1}, {2, 2, 1, 1, 1, 1}, {2, 2, 2, 1}, {4, 2, 2}}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const auto found = find_hierarchy(test::matrix_of(test::measured(groups_of_sizes(sizes), seed)));
      ASSERT_FALSE(found.ok()) << testing::PrintToString(sizes);
      EXPECT_EQ(found.error().code, ErrorCode::bad_input);
      EXPECT_THAT(found.error().message, HasSubstr("groups of unequal size"));
    }
  }
  const auto found = find_hierarchy(test::matrix_of(groups_of_sizes({3, 5})));
  EXPECT_THAT(found.error().message, HasSubstr("{0 1 2}, {3 4 5 6 7}"));
}

TEST(LinkMatrix, RefusesWhatIsNone) {
  const auto refusal = [](const std::vector<std::vector<double>>& latency, const std::vector<std::vector<double>>& bandwidth) {
    const auto made = make_link_matrix(latency, bandwidth);
    return made.ok() ? "accepted" : made.error().message;
  };
  const Machine good = test::nvswitch();
  EXPECT_EQ(refusal(good.latency, good.bandwidth), "accepted");
  const auto with = [&](double there, double back) {
    std::vector<std::vector<double>> changed = good.bandwidth;
    changed[2][5] = there;
    changed[5][2] = back;
    return refusal(good.latency, changed);
  };
  EXPECT_THAT(with(0, 0), HasSubstr("devices 2 and 5 are not connected"));
  EXPECT_THAT(with(-1, 300e9), HasSubstr("devices 2 and 5: bandwidth is -1"));
  EXPECT_THAT(with(std::nan(""), 300e9), HasSubstr("devices 2 and 5: bandwidth is nan"));
  EXPECT_THAT(with(300e9, HUGE_VAL), HasSubstr("devices 5 and 2: bandwidth is inf"));
  EXPECT_THAT(with(300e9, 150e9), HasSubstr("devices 2 and 5: bandwidth is 3e+11 from the first to the second and 1.5e+11 back"));
  EXPECT_EQ(with(300e9 * 1.15, 300e9 * 0.85), "accepted");
  std::vector<std::vector<double>> changed = good.latency;
  changed[1][0] = 1e-5;
  EXPECT_THAT(refusal(changed, good.bandwidth), HasSubstr("devices 0 and 1: latency is 3e-06 from the first to the second and 1e-05 back"));
  changed[1][0] = -1e-6;
  EXPECT_THAT(refusal(changed, good.bandwidth), HasSubstr("devices 1 and 0: latency is -1e-06"));
  changed = good.bandwidth;
  changed[3].pop_back();
  EXPECT_THAT(refusal(good.latency, changed), HasSubstr("row 3 of bandwidths has 7 values, but there are 8 devices"));
  changed = good.latency;
  changed.pop_back();
  EXPECT_THAT(refusal(changed, good.bandwidth), HasSubstr("there are 8 devices, but 7 rows of latencies"));
  EXPECT_THAT(refusal({{0}}, {{0}}), HasSubstr("among 1 devices, but must be among 2 to 1024"));
}

}  // namespace
}  // namespace meshwright
