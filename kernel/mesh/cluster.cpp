#include "meshwright/cluster.h"

#include <cmath>
#include <sstream>

#include "tensor/guarded.h"

namespace meshwright {

namespace {

// What a machine of today or of the next decades can have. Beyond that it is a slip of the keyboard or of a unit, and
// seconds that follow from it would be none.
constexpr std::int64_t kMostDevices = std::int64_t{1} << 20;
constexpr std::int64_t kMostMemory = std::int64_t{1} << 56;
constexpr std::size_t kMostLevels = 16;
constexpr double kLeastRate = 1, kMostRate = 1e24;  // bytes or FLOPs in a second
constexpr double kMostSeconds = 1e3;                  // of one launch or one message
constexpr double kMostFlops = 1e24;
constexpr double kLeastShare = 1e-6;

std::string number_text(double number) {
  std::ostringstream text;
  text << number;
  return text.str();
}

// A NaN is in no range.
Status check_range(const std::string& what, double number, double least, double most) {
  if (number >= least && number <= most) return Done{};
  return bad_input(what + " is " + number_text(number) + ", but must be from " + number_text(least) + " to " + number_text(most));
}

Status check_device(const DeviceSpec& device, const std::string& where) {
  if (device.memory_bytes < 1 || device.memory_bytes > kMostMemory)
    return bad_input(where + ": memory must be more than 0 bytes, and at most " + std::to_string(kMostMemory));
  if (device.matrix_flops_per_second.empty()) return bad_input(where + ": matrix_flops needs at least one dtype");
  Status status = check_range(where + ": memory_bandwidth", device.memory_bytes_per_second, kLeastRate, kMostRate);
  if (status) status = check_range(where + ": vector_flops", device.vector_flops_per_second, kLeastRate, kMostRate);
  for (const auto& [dtype, rate] : device.matrix_flops_per_second) {
    if (status) status = check_range(where + ": matrix_flops." + std::string(name(dtype)), rate, kLeastRate, kMostRate);
  }
  if (status) status = check_range(where + ": launch", device.launch_seconds, 0, kMostSeconds);
  if (status) status = check_range(where + ": half_efficiency", device.half_efficiency_flops, 0, kMostFlops);
  if (status) status = check_range(where + ": matrix_efficiency", device.matrix_efficiency, kLeastShare, 1);
  if (status) status = check_range(where + ": memory_efficiency", device.memory_efficiency, kLeastShare, 1);
  return status;
}

Status check_levels(const Cluster& cluster, const std::string& where) {
  std::int64_t inner = 1;
  for (const LinkLevel& level : cluster.levels) {
    const std::string here = where + ", level '" + level.name + "'";
    if (level.group <= inner || level.group % inner != 0) {
      return bad_input(here + ": group is " + std::to_string(level.group) + ", but must be a multiple of the inner group, " +
                       std::to_string(inner) + ", and larger");
    }
    Status status = check_range(here + ": bandwidth", level.bytes_per_second, kLeastRate, kMostRate);
    if (status) status = check_range(here + ": latency", level.latency_seconds, 0, kMostSeconds);
    if (!status) return status;
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
  if (cluster.nodes > kMostDevices || cluster.devices_per_node > kMostDevices || cluster.devices() > kMostDevices) {
    return bad_input(where + ": at most " + std::to_string(kMostDevices) + " devices are supported");
  }
  if (cluster.levels.size() > kMostLevels) return bad_input(where + ": at most " + std::to_string(kMostLevels) + " levels are supported");
  if (Status status = check_device(cluster.device, where + ", device '" + cluster.device.name + "'"); !status) return status;
  if (cluster.reserved_bytes < 0 || cluster.reserved_bytes >= cluster.device.memory_bytes) {
    return bad_input(where + ": reserved_bytes must be less than the device's memory");
  }
  return check_levels(cluster, where);
}

ClusterSource::~ClusterSource() = default;

Result<Cluster> ClusterSource::describe(const std::string& path) const {
  return guarded([&] { return path + ": the cluster plugin"; }, [&] {
    Result<Cluster> cluster = do_describe(path);
    if (!cluster) return cluster;
    if (Status status = validate(*cluster); !status) return Result<Cluster>(status.error());
    return cluster;
  });
}

}  // namespace meshwright
