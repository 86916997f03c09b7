#include "stage_devices.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cluster_part.h"

namespace meshwright {

Result<Cluster> cluster_of_stage(const Cluster& cluster, std::uint32_t stages) {
  const std::int64_t devices = cluster.devices() / stages;
  const std::string text = std::to_string(cluster.devices()) + " devices of '" + cluster.name + "' in " + std::to_string(stages) + " stages";
  if (devices * stages != cluster.devices()) return bad_input(text + ": each stage gets as many; take a number of stages that divides them");
  const Result<Cluster> part = cluster_part(cluster, devices);
  return part ? part : add_context(text, part.error());
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
