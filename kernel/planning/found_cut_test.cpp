#include "found_cut.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace meshwright {
namespace {

// Two stages, two microbatches; the last stage begins its second forward before or behind its first backward.
FoundCut two_stages(bool all_forwards_first) {
  using enum PipelineEventKind;
  const std::vector<PipelineEvent> forwards_first = {{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}}, one_by_one = {{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}};
  return {nullptr, {{2, 1, 2}, {0, 1}, {forwards_first, all_forwards_first ? forwards_first : one_by_one}}, {4, 4}, 0, 0};
}

TriedSchedule tried(const FoundCut& cut) { return {cut.schedule.shape, cut.schedule.positions, cut.loads, 1, 1}; }

TEST(TriedSchedule, IsHeldAgainstWhatHoldsMore) {
  const FoundCut less = two_stages(false), more = two_stages(true);
  EXPECT_TRUE(tried(less).holds_no_more_than(more));
  EXPECT_TRUE(tried(less).holds_no_more_than(less));
  EXPECT_FALSE(tried(more).holds_no_more_than(less));
  FoundCut elsewhere = two_stages(true);
  elsewhere.schedule.positions = {1, 0};
  EXPECT_FALSE(tried(less).holds_no_more_than(elsewhere));
}

}  // namespace
}  // namespace meshwright
