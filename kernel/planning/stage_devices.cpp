#include "stage_devices.h"

#include <algorithm>
#include <string>
#include <utility>

namespace meshwright {

Result<Cluster> cluster_of_stage(const Cluster& cluster, std::uint32_t stages) {
  const std::int64_t devices = cluster.devices() / stages;
  const std::string text = std::to_string(cluster.devices()) + " devices of '" + cluster.name + "' in " + std::to_string(stages) + " stages";
  if (devices * stages != cluster.devices()) return bad_input(text + ": each stage gets as many; take a number of stages that divides them");
  const std::int64_t server = cluster.devices_per_node;
  if (devices % server != 0 && server % devices != 0) {
    return bad_input(text + ": a stage of " + std::to_string(devices) + " devices is neither whole servers of " + std::to_string(server) + " nor an even part of one");
  }
  Cluster part = cluster;
  part.devices_per_node = std::min(devices, server);
  part.nodes = std::max<std::int64_t>(devices / server, 1);
  part.levels.clear();
  for (const LinkLevel& level : cluster.levels) {
    const std::int64_t before = part.levels.empty() ? 1 : part.levels.back().group;
    if (before >= devices) break;
    LinkLevel& kept = part.levels.emplace_back(level);
    kept.group = std::min(level.group, devices);
    kept.sharers = std::min(level.sharers, before);
    std::erase_if(kept.measured, [&](const BusBandwidth& curve) { return curve.devices > devices; });
  }
  return part;
}

StageLink link_between_stages(const Cluster& cluster, std::uint32_t stages) {
  const std::int64_t devices = cluster.devices() / stages;
  StageLink slowest;
  for (std::int64_t device = 0; device + devices < cluster.devices(); ++device) {
    const auto level = std::ranges::find_if(cluster.levels, [&](const LinkLevel& each) { return device / each.group == (device + devices) / each.group; });
    if (level == cluster.levels.end()) continue;
    const double seconds = static_cast<double>(level->sharers) / level->bytes_per_second;
    if (std::pair(seconds, level->latency_seconds) > std::pair(slowest.seconds_per_byte, slowest.latency_seconds)) slowest = {level->latency_seconds, seconds};
  }
  return slowest;
}

}  // namespace meshwright
