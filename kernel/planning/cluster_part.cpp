#include "cluster_part.h"

#include <algorithm>
#include <string>

namespace meshwright {

namespace {

// Why so many devices, no more than there are, are no part; "" if they are.
std::string unevenness_of(const Cluster& cluster, std::int64_t devices) {
  const std::int64_t server = cluster.devices_per_node;
  if (devices % server != 0 && server % devices != 0) return "neither whole servers of " + std::to_string(server) + " nor an even part of one";
  for (const LinkLevel& level : cluster.levels) {
    if (level.group < devices && devices % level.group != 0) return "not whole groups of level '" + level.name + "', which joins " + std::to_string(level.group);
  }
  return "";
}

// "8 or 16": the nearest parts below and above.
std::string parts_beside(const Cluster& cluster, std::int64_t devices) {
  const auto next = [&](std::int64_t step) {
    std::int64_t found = devices + step;
    while (found > 0 && found <= cluster.devices() && !unevenness_of(cluster, found).empty()) found += step;
    return found;
  };
  return std::to_string(next(-1)) + " or " + std::to_string(next(1));  // one device is a part, and so are all
}

}  // namespace

Result<Cluster> cluster_part(const Cluster& cluster, std::int64_t devices) {
  const std::string text = std::to_string(devices) + " devices of '" + cluster.name + "'";
  if (devices < 1) return bad_input(text + ": a part of a cluster has at least one");
  if (devices > cluster.devices()) return bad_input(text + ", which has " + std::to_string(cluster.devices()) + ": take at most these");
  if (const std::string uneven = unevenness_of(cluster, devices); !uneven.empty()) return bad_input(text + " are " + uneven + "; take " + parts_beside(cluster, devices));
  const std::int64_t server = cluster.devices_per_node;
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

}  // namespace meshwright
