#include "meshwright/cluster.h"

#include <exception>

namespace meshwright {

namespace {

Status check_device(const DeviceSpec& device, const std::string& where) {
  if (device.memory_bytes <= 0) return bad_input(where + ": memory must be more than 0 bytes");
  if (device.memory_bytes_per_second <= 0) return bad_input(where + ": memory_bandwidth must be more than 0");
  if (device.vector_flops_per_second <= 0) return bad_input(where + ": vector_flops must be more than 0");
  if (device.matrix_flops_per_second.empty()) return bad_input(where + ": matrix_flops needs at least one dtype");
  for (const auto& [dtype, rate] : device.matrix_flops_per_second) {
    if (rate <= 0) return bad_input(where + ": matrix_flops." + std::string(name(dtype)) + " must be more than 0");
  }
  if (device.launch_seconds < 0 || device.half_efficiency_flops < 0) {
    return bad_input(where + ": launch_seconds and half_efficiency_flops must not be negative");
  }
  for (const double share : {device.matrix_efficiency, device.memory_efficiency}) {
    if (share <= 0 || share > 1) return bad_input(where + ": an efficiency must be more than 0 and at most 1");
  }
  return Done{};
}

Status check_levels(const Cluster& cluster, const std::string& where) {
  std::int64_t inner = 1;
  for (const LinkLevel& level : cluster.levels) {
    const std::string here = where + ", level '" + level.name + "'";
    if (level.group <= inner || level.group % inner != 0) {
      return bad_input(here + ": group is " + std::to_string(level.group) + ", but must be a multiple of the inner group, " +
                       std::to_string(inner) + ", and larger");
    }
    if (level.bytes_per_second <= 0) return bad_input(here + ": bandwidth must be more than 0");
    if (level.latency_seconds < 0) return bad_input(here + ": latency must not be negative");
    if (level.sharers < 1 || level.sharers > inner || inner % level.sharers != 0) {
      return bad_input(here + ": shared_by is " + std::to_string(level.sharers) + ", but must divide the inner group, " +
                       std::to_string(inner));
    }
    inner = level.group;
  }
  if (inner != cluster.devices()) {
    return bad_input(where + ": the levels join " + std::to_string(inner) + " devices, but nodes × devices_per_node is " +
                     std::to_string(cluster.devices()));
  }
  return Done{};
}

}  // namespace

Status validate(const Cluster& cluster) {
  const std::string where = "cluster '" + cluster.name + "'";
  if (cluster.nodes < 1 || cluster.devices_per_node < 1) {
    return bad_input(where + ": nodes and devices_per_node must be at least 1");
  }
  if (Status status = check_device(cluster.device, where + ", device '" + cluster.device.name + "'"); !status) return status;
  if (cluster.reserved_bytes < 0 || cluster.reserved_bytes >= cluster.device.memory_bytes) {
    return bad_input(where + ": reserved_bytes must be less than the device's memory");
  }
  return check_levels(cluster, where);
}

ClusterSource::~ClusterSource() = default;

Result<Cluster> ClusterSource::describe(const std::string& path) const {
  try {
    Result<Cluster> cluster = do_describe(path);
    if (!cluster) return cluster;
    if (Status status = validate(*cluster); !status) return status.error();
    return cluster;
  } catch (const std::exception& problem) {
    return plugin_failed(path + ": the cluster plugin threw an exception: " + problem.what());
  }
}

}  // namespace meshwright
