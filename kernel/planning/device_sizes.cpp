#include "device_sizes.h"

#include <algorithm>
#include <bit>
#include <set>

#include "cluster_part.h"

namespace meshwright {

namespace {

// Steps a second, since all do the same step.
double work_of(const PartTrial& trial) { return 1 / trial.step_seconds; }
double work_of_device(const PartTrial& trial) { return work_of(trial) / static_cast<double>(trial.devices); }
double added_work(const PartTrial& from, const PartTrial& to) { return (work_of(to) - work_of(from)) / static_cast<double>(to.devices - from.devices); }

// What is best at any of the sizes: with more devices each, and with a shorter step.
std::vector<PartTrial> best_parts(const std::vector<PartTrial>& trials, std::vector<std::int64_t> sizes) {
  std::ranges::sort(sizes);
  std::vector<PartTrial> best;
  for (const std::int64_t size : sizes) {
    const std::optional<std::size_t> part = best_part(trials, size);
    if (part && (best.empty() || best.back().devices != trials[*part].devices)) best.push_back(trials[*part]);
  }
  return best;
}

}  // namespace

std::vector<std::int64_t> parts_to_plan(const Cluster& cluster, const std::vector<std::int64_t>& devices) {
  std::set<std::int64_t> parts(devices.begin(), devices.end());
  for (const std::int64_t size : devices) {
    const auto servers = static_cast<std::uint64_t>(size / cluster.devices_per_node);
    const std::int64_t even = cluster.devices_per_node * static_cast<std::int64_t>(std::bit_floor(servers));
    if (even > 0 && cluster_part(cluster, even)) parts.insert(even);
  }
  return {parts.begin(), parts.end()};
}

std::optional<std::size_t> best_part(const std::vector<PartTrial>& trials, std::int64_t devices) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const PartTrial& trial = trials[i];
    if (trial.devices > devices || trial.step_seconds <= 0) continue;
    if (!best || trial.step_seconds < trials[*best].step_seconds || (trial.step_seconds == trials[*best].step_seconds && trial.devices < trials[*best].devices)) best = i;
  }
  return best;
}

std::optional<SizesThatPay> sizes_that_pay(const std::vector<PartTrial>& trials, const std::vector<std::int64_t>& sizes) {
  const std::vector<PartTrial> best = best_parts(trials, sizes);
  if (best.empty()) return std::nullopt;
  const PartTrial& cheapest = *std::ranges::max_element(best, {}, work_of_device);
  SizesThatPay pays{best.back().devices, cheapest.devices, best.back().devices, std::nullopt};
  for (std::size_t i = 0; i + 1 < best.size(); ++i) {
    const auto more = std::ranges::max_element(best.begin() + static_cast<std::ptrdiff_t>(i) + 1, best.end(), {}, [&](const PartTrial& to) { return added_work(best[i], to); });
    const double share = added_work(best[i], *more) / work_of_device(cheapest);
    if (share >= kLeastPayingShare) continue;
    pays.pays_up_to = best[i].devices;
    pays.next = {more->devices, share};
    break;
  }
  return pays;
}

}  // namespace meshwright
