#include "cluster_part.h"

#include <algorithm>
#include <optional>
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

// Whose links are whole within so many devices.
Cluster first_of(const Cluster& cluster, std::int64_t devices) {
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

// What of these devices reaches beyond where it begins or ends within; "" if nothing does.
std::string torn_by(const Cluster& cluster, std::int64_t first, std::int64_t devices) {
  const auto is_torn = [&](std::int64_t group) { return devices > group ? first % group != 0 || devices % group != 0 : first / group != (first + devices - 1) / group; };
  if (is_torn(cluster.devices_per_node)) return "servers of " + std::to_string(cluster.devices_per_node);
  for (const LinkLevel& level : cluster.levels) {
    if (is_torn(level.group)) return "groups of level '" + level.name + "', which joins " + std::to_string(level.group);
  }
  return "";
}

// The first parts that have so many devices together; nothing if a part would be torn.
std::optional<Cluster> first_parts(const Cluster& cluster, std::int64_t devices) {
  std::vector<Cluster> parts;
  for (const Cluster& part : cluster.parts) {
    if (devices < part.devices()) break;
    devices -= part.devices();
    parts.push_back(part);
  }
  if (devices > 0) return std::nullopt;
  LinkLevel link = cluster.levels.front();
  link.group = 0;
  for (const Cluster& part : parts) link.group += part.devices();
  return parts.size() == 1 ? parts.front() : joined(cluster.name, std::move(parts), std::move(link));
}

}  // namespace

Result<Cluster> cluster_part(const Cluster& cluster, std::int64_t devices) {
  const std::string text = std::to_string(devices) + " devices of '" + cluster.name + "'";
  if (devices < 1) return bad_input(text + ": a part of a cluster has at least one");
  if (devices > cluster.devices()) return bad_input(text + ", which has " + std::to_string(cluster.devices()) + ": take at most these");
  if (!cluster.parts.empty()) {
    if (devices <= cluster.parts.front().devices()) return cluster_part(cluster.parts.front(), devices);
    if (std::optional<Cluster> parts = first_parts(cluster, devices)) return std::move(*parts);
    return bad_input(text + ": devices beyond the first part are taken by whole parts, of " + parts_text(cluster));
  }
  if (const std::string uneven = unevenness_of(cluster, devices); !uneven.empty()) return bad_input(text + " are " + uneven + "; take " + parts_beside(cluster, devices));
  return first_of(cluster, devices);
}

Result<Cluster> cluster_range(const Cluster& cluster, std::int64_t first, std::int64_t devices) {
  const std::string text = (devices == 1 ? "device " + std::to_string(first) : "devices " + std::to_string(first) + " to " + std::to_string(first + devices - 1)) + " of '" + cluster.name + "'";
  if (first < 0 || devices < 1 || first + devices > cluster.devices()) return bad_input(text + ", which has " + std::to_string(cluster.devices()));
  for (std::int64_t begin = 0; const Cluster& part : cluster.parts) {
    if (first >= begin && first + devices <= begin + part.devices()) return cluster_range(part, first - begin, devices);
    begin += part.devices();
  }
  if (!cluster.parts.empty()) return bad_input(text + " are unlike (" + parts_text(cluster) + "); a stage has devices of one kind: say how many each stage gets (\"stage_devices\" in [search])");
  if (const std::string torn = torn_by(cluster, first, devices); !torn.empty()) {
    return bad_input(text + " are parts of several " + torn + "; take whole ones, or devices of one of them");
  }
  return first_of(cluster, devices);
}

std::string part_text(const Cluster& cluster, const Cluster& part) {
  const std::string text = devices_text(part);
  const bool has_other = std::ranges::any_of(cluster.parts, [&](const Cluster& other) { return devices_text(other) == text && other.name != part.name; });
  return text + (has_other ? " of '" + part.name + "'" : "");
}

std::string parts_text(const Cluster& cluster) {
  if (cluster.parts.empty()) return devices_text(cluster);
  std::string text;
  for (const Cluster& part : cluster.parts) text += (text.empty() ? "" : " and ") + part_text(cluster, part);
  return text;
}

}  // namespace meshwright
