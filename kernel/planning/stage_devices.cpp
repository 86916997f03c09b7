#include "stage_devices.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>
#include <utility>

#include "cluster_part.h"
#include "meshwright/stages.h"
#include "name_list.h"

namespace meshwright {

namespace {

StageLink slower(const StageLink& a, const StageLink& b) {
  return std::pair(a.seconds_per_byte, a.latency_seconds) < std::pair(b.seconds_per_byte, b.latency_seconds) ? b : a;
}

std::string devices_of(const Cluster& cluster) { return std::to_string(cluster.devices()) + " devices of '" + cluster.name + "'"; }

}  // namespace

Result<StageDevices> StageDevices::make(const Cluster& cluster, const std::vector<std::int64_t>& devices) {
  const std::int64_t all = std::reduce(devices.begin(), devices.end());
  if (all != cluster.devices()) return bad_input("the stages have " + std::to_string(all) + " devices together, and there are " + devices_of(cluster) + "; each device is in one stage");
  std::vector<Cluster> clusters;
  std::int64_t first = 0;
  for (const std::int64_t count : devices) {
    Result<Cluster> part = cluster_range(cluster, first, count);
    if (!part) return add_context("stage " + std::to_string(clusters.size()), part.error());
    clusters.push_back(std::move(*part));
    first += count;
  }
  return StageDevices(cluster, std::move(clusters));
}

Result<StageDevices> StageDevices::even(const Cluster& cluster, std::uint32_t groups) {
  const std::int64_t devices = cluster.devices() / groups;
  const std::string text = devices_of(cluster) + " in " + std::to_string(groups) + " stages";
  if (devices * groups != cluster.devices()) return bad_input(text + ": each stage gets as many; take a number of stages that divides them, or say how many each gets (\"stage_devices\" in [search])");
  if (!cluster.parts.empty()) return make(cluster, std::vector<std::int64_t>(groups, devices));
  const Result<Cluster> part = cluster_part(cluster, devices);
  if (!part) return add_context(text, part.error());
  return StageDevices(cluster, std::vector<Cluster>(groups, *part));
}

Result<StageDevices> StageDevices::of(const Cluster& cluster, const PipelinePlan& plan) {
  const std::vector<std::uint32_t> groups = groups_of_stages(plan.orders, plan.stages.size()).value();
  std::vector<std::int64_t> devices(plan.groups(), 0);
  for (std::size_t stage = 0; stage < groups.size(); ++stage) {
    std::int64_t& known = devices[groups[stage]];
    const std::int64_t here = plan.stages[stage].cluster.devices();
    if (known != 0 && known != here) return bad_input("stage " + std::to_string(stage) + " has " + std::to_string(here) + " devices, and another one on the same devices has " + std::to_string(known));
    known = here;
  }
  return make(cluster, devices);
}

StageDevices::StageDevices(const Cluster& cluster, std::vector<Cluster> clusters) : cluster_(cluster), clusters_(std::move(clusters)) {
  std::int64_t first = 0;
  for (const Cluster& each : clusters_) {
    first_.push_back(first);
    first += each.devices();
  }
}

std::vector<std::int64_t> StageDevices::counts() const {
  std::vector<std::int64_t> counts;
  for (const Cluster& each : clusters_) counts.push_back(each.devices());
  return counts;
}

// The first level in whose group both are; null where no link is needed.
const LinkLevel* StageDevices::level_between(std::int64_t a, std::int64_t b) const {
  const auto joining = [](const std::vector<LinkLevel>& levels, std::int64_t one, std::int64_t other) {
    const auto level = std::ranges::find_if(levels, [&](const LinkLevel& each) { return one / each.group == other / each.group; });
    return level == levels.end() ? nullptr : &*level;
  };
  for (std::int64_t begin = 0; const Cluster& part : cluster_.parts) {
    const auto has = [&](std::int64_t device) { return device >= begin && device < begin + part.devices(); };
    if (has(a) && has(b)) return joining(part.levels, a - begin, b - begin);
    begin += part.devices();
  }
  return joining(cluster_.levels, a, b);
}

StageLink StageDevices::link(std::uint32_t from, std::uint32_t to) const {
  const std::int64_t sends = devices(from), receives = devices(to), places = std::max(sends, receives);
  StageLink slowest;
  for (std::int64_t place = 0; place < places; ++place) {
    const std::int64_t sender = first_[from] + place * sends / places, receiver = first_[to] + place * receives / places;
    const LinkLevel* level = level_between(sender, receiver);
    if (level == nullptr) continue;
    const double seconds = static_cast<double>(level->sharers) / level->bytes_per_second;
    slowest = slower(slowest, {level->latency_seconds, seconds});
  }
  slowest.seconds_per_byte *= static_cast<double>(places) / static_cast<double>(sends);
  return slowest;
}

StageLink StageDevices::slowest_link() const {
  StageLink slowest;
  for (std::uint32_t group = 1; group < groups(); ++group) {
    StageLink whole = link(group - 1, group);
    whole.seconds_per_byte /= static_cast<double>(devices(group));
    slowest = slower(slowest, whole);
  }
  return slowest;
}

Result<std::vector<std::int64_t>> parse_stage_devices(const std::string& text) {
  std::vector<std::int64_t> devices;
  for (const std::string& name : split_names(text)) {
    std::int64_t count = 0;
    const char* end = name.data() + name.size();
    const auto [at, problem] = std::from_chars(name.data(), end, count);
    if (problem != std::errc() || at != end || count < 1) return bad_input("'" + text + "' must be the number of devices of each stage, such as \"4,2,1,1\"");
    devices.push_back(count);
  }
  return devices;
}

std::string stage_devices_text(const std::vector<std::int64_t>& devices) {
  std::string text;
  for (const std::int64_t count : devices) text += (text.empty() ? "" : ",") + std::to_string(count);
  return text;
}

CostProfile profile_on(CostProfile profile, const DeviceSpec& device, const TrainingSettings& training) {
  profile.device = device;
  return for_training(std::move(profile), training);
}

CostProfile profile_of_stage(CostProfile profile, const StageDevices& devices, std::span<const std::uint32_t> groups, const StagePart& part, const Graph& stage, const TrainingSettings& training) {
  const std::uint32_t here = groups[part.stage];
  StageLink link;
  const auto receive_from = [&](std::uint32_t other) { link = groups[other] == here ? link : slower(link, devices.link(groups[other], here)); };
  for (const StageBoundary& boundary : part.boundaries) {
    if (boundary.from != part.stage) receive_from(boundary.from);
    else std::ranges::for_each(boundary.to, receive_from);
  }
  profile = profile_on(std::move(profile), devices.cluster(here).device, training);
  profile.stage_latency_seconds = link.latency_seconds;
  profile.stage_seconds_per_byte = link.seconds_per_byte;
  profile.parameter_bytes = parameter_bytes(stage, training);
  return profile;
}

}  // namespace meshwright
