// How many devices of a cluster pay: the best plan at each size, of plans for parts of it, and where adding devices stops paying. All plans do the same step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "meshwright/cluster.h"

namespace meshwright {

// The best plan that uses all devices of a part.
struct PartTrial {
  std::int64_t devices = 0;
  double step_seconds = 0;  // 0: none fits
};

// What is planned for so many devices, which are a part of the cluster: they themselves, and where they are more servers than a power of two also the largest power of two of them, which
// divides sizes of a model that they may not divide. Ascending.
std::vector<std::int64_t> parts_to_plan(const Cluster& cluster, const std::vector<std::int64_t>& devices);

// The index of the part with the shortest step, of those with at most so many devices; the smallest of equally short ones. Nothing if none has a plan.
std::optional<std::size_t> best_part(const std::vector<PartTrial>& trials, std::int64_t devices);

// An added device must add so much of what a device does where it does most.
inline constexpr double kLeastPayingShare = 0.5;

struct SizesThatPay {
  std::int64_t shortest = 0;         // devices with the shortest step
  std::int64_t most_per_device = 0;  // devices each of which does most: the cheapest ones for what they do
  // The fewest devices from which to any more, of those that are best at a size, each added device does less than kLeastPayingShare of what one of `most_per_device` does.
  std::int64_t pays_up_to = 0;
  struct Next {
    std::int64_t devices = 0;  // beyond pays_up_to
    double share = 0;          // of what one of `most_per_device` does: what each added device does up to there
  };
  std::optional<Next> next;  // where an added device does most beyond pays_up_to; nothing: that is the largest that is best at a size
};

// `sizes`: what somebody asks about. Nothing if no part of at most so many devices has a plan.
std::optional<SizesThatPay> sizes_that_pay(const std::vector<PartTrial>& trials, const std::vector<std::int64_t>& sizes);

}  // namespace meshwright
