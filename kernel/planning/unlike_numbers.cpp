#include "unlike_numbers.h"

#include <algorithm>
#include <utility>

#include "cluster_part.h"

namespace meshwright {

namespace {

constexpr std::int64_t kUnlike = 2;  // times as many devices as in the mean, or as few

// Ascending.
std::vector<std::int64_t> numbers_of_devices(const Cluster& cluster, const std::vector<std::int64_t>& considered, std::int64_t stages) {
  const std::int64_t all = cluster.devices();
  const bool any = considered.size() == 1;
  std::vector<std::int64_t> numbers;
  for (std::int64_t number = 1; any && number < all; ++number) numbers.push_back(number);
  for (const std::int64_t each : considered) {
    if (!any && each > 1 && all % each == 0) numbers.push_back(all / each);
  }
  std::erase_if(numbers, [&](std::int64_t number) { return number * stages * kUnlike < all || number * stages > kUnlike * all || !cluster_part(cluster, number); });
  std::ranges::sort(numbers);
  return numbers;
}

struct DeviceLists {
  const std::vector<DeviceRange>& ranges;
  std::int64_t stages, devices;
  std::size_t most;
  std::vector<std::int64_t> here = {};
  std::vector<std::vector<std::int64_t>> lists = {};

  void extend(std::int64_t first) {
    if (std::ssize(here) == stages) {
      if (first == devices) lists.push_back(here);
      return;
    }
    for (const DeviceRange& range : ranges) {
      if (range.first != first || lists.size() >= most) continue;
      here.push_back(range.count);
      extend(first + range.count);
      here.pop_back();
    }
  }
};

}  // namespace

std::vector<DeviceRange> unlike_ranges(const Cluster& cluster, const std::vector<std::int64_t>& considered, std::int64_t stages) {
  const std::vector<std::int64_t> numbers = numbers_of_devices(cluster, considered, stages);
  std::vector<DeviceRange> ranges;
  for (const std::int64_t number : numbers) {
    for (std::int64_t first = 0; first + number <= cluster.devices(); first += numbers.front()) {
      if (cluster_range(cluster, first, number)) ranges.push_back({first, number});
    }
  }
  return ranges;
}

std::vector<std::vector<std::int64_t>> device_lists(const std::vector<DeviceRange>& ranges, std::int64_t stages, std::int64_t devices, std::size_t most) {
  DeviceLists all{ranges, stages, devices, most};
  all.extend(0);
  return std::move(all.lists);
}

}  // namespace meshwright
