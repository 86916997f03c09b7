#include "meshwright/cluster.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <utility>

#include "meshwright/memory_account.h"
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
constexpr double kMostSentBytes = 1e18;  // of one collective
constexpr double kLeastShare = 1e-6;
constexpr double kMostMultiprocessors = 1e6;
constexpr double kMostStretch = 100;
constexpr double kMostFragmentation = 1;

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

// What is more is never said to be sooner done.
Status check_rates(const RateCurve& curve, const std::string& where, const char* sizes, const char* rates) {
  if (curve.sizes.empty() || curve.sizes.size() != curve.rates.size()) return bad_input(where + ": there must be one of '" + rates + "' for each of '" + sizes + "', and at least one");
  for (std::size_t i = 0; i < curve.sizes.size(); ++i) {
    Status status = check_range(where + ": " + sizes, curve.sizes[i], 1, kMostFlops);
    if (status) status = check_range(where + ": " + rates, curve.rates[i], kLeastRate, kMostRate);
    if (!status) return status;
    if (i == 0) continue;
    if (curve.sizes[i] <= curve.sizes[i - 1]) return bad_input(where + ": " + sizes + " must ascend");
    if (curve.sizes[i] / curve.rates[i] < curve.sizes[i - 1] / curve.rates[i - 1]) {
      return bad_input(where + ": " + number_text(curve.sizes[i]) + " would be sooner done than " + number_text(curve.sizes[i - 1]) + "; is one of '" + rates + "' mistyped?");
    }
  }
  return Done{};
}

// Each is less than the device's memory; that they leave something of it together is checked with what the cluster
// reserves.
Status check_overheads(const DeviceSpec& device, const std::string& where) {
  const MemoryOverheads& overheads = device.overheads;
  const std::pair<const char*, std::int64_t> sizes[] = {{"driver", overheads.driver_bytes},
                                                        {"context", overheads.context_bytes},
                                                        {"workspace", overheads.workspace_bytes},
                                                        {"communicator", overheads.communicator_bytes},
                                                        {"block", overheads.block_bytes},
                                                        {"small_segment", overheads.small_segment_bytes},
                                                        {"medium_segment", overheads.medium_segment_bytes}};
  for (const auto& [key, bytes] : sizes) {
    if (bytes < 0 || bytes >= device.memory_bytes) {
      return bad_input(where + ": " + key + " is " + std::to_string(bytes) +
                       " bytes, but must be at least 0 and less than the device's memory, " +
                       std::to_string(device.memory_bytes) + " bytes");
    }
  }
  if (overheads.medium_segment_bytes > 0 && overheads.small_segment_bytes > overheads.medium_segment_bytes) {
    return bad_input(where + ": small_segment must not be larger than medium_segment; are they exchanged?");
  }
  return check_range(where + ": fragmentation", overheads.fragmentation, 0, kMostFragmentation);
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
  if (status && device.tf32_flops_per_second != 0) status = check_range(where + ": tf32_flops", device.tf32_flops_per_second, kLeastRate, kMostRate);
  if (status) status = check_range(where + ": multiprocessors", static_cast<double>(device.multiprocessors), 0, kMostMultiprocessors);
  if (status) status = check_range(where + ": host_launch", device.host_launch_seconds, 0, kMostSeconds);
  if (status) status = check_range(where + ": host_collective", device.host_collective_seconds, 0, kMostSeconds);
  if (status) status = check_range(where + ": skew", device.skew_seconds, 0, kMostSeconds);
  if (status) status = check_range(where + ": computing_stretch", device.computing_stretch, 1, kMostStretch);
  if (status) status = check_range(where + ": communication_stretch", device.communication_stretch, 1, kMostStretch);
  for (const auto& [kernel, rates] : device.attention) {
    const std::string here = where + ", [attention." + kernel + "]";
    if (status) status = check_range(here + ": efficiency", rates.efficiency, kLeastShare, 1);
    if (status) status = check_range(here + ": half_keys", rates.half_keys, 0, kMostFlops);
    if (status) status = check_range(here + ": half_head", rates.half_head, 0, kMostFlops);
    if (status) status = check_range(here + ": backward", rates.backward, kLeastShare, kMostStretch);
  }
  for (const auto& [dtype, curve] : device.product_curves) {
    if (status) status = check_rates(curve, where + ", [product_curve." + std::string(name(dtype)) + "]", "flops", "rates");
  }
  if (status && !(device.memory_curve.sizes.empty() && device.memory_curve.rates.empty())) status = check_rates(device.memory_curve, where + ", [memory_curve]", "bytes", "bandwidth");
  if (status) status = check_overheads(device, where + ", [memory_overheads]");
  return status;
}

// Of a larger collective it is never said that it is sooner done.
Status check_curve(const BusBandwidth& curve, const std::string& where) {
  if (curve.devices < 2) return bad_input(where + ": devices is " + std::to_string(curve.devices) + ", but must be at least 2");
  if (curve.bytes.empty() || curve.bytes.size() != curve.bytes_per_second.size()) return bad_input(where + ": there must be one bandwidth for each number of bytes, and at least one");
  for (std::size_t i = 0; i < curve.bytes.size(); ++i) {
    Status status = check_range(where + ": bytes", curve.bytes[i], 1, kMostSentBytes);
    if (status) status = check_range(where + ": bus_bandwidth", curve.bytes_per_second[i], kLeastRate, kMostRate);
    if (!status) return status;
    if (i == 0) continue;
    if (curve.bytes[i] <= curve.bytes[i - 1]) return bad_input(where + ": bytes must ascend");
    if (curve.bytes[i] / curve.bytes_per_second[i] < curve.bytes[i - 1] / curve.bytes_per_second[i - 1]) {
      return bad_input(where + ": " + number_text(curve.bytes[i]) + " bytes would be sooner sent than " + number_text(curve.bytes[i - 1]) + "; is a bandwidth mistyped?");
    }
  }
  return Done{};
}

// The levels of so many devices.
Status check_levels(const std::vector<LinkLevel>& levels, std::int64_t devices, const std::string& where, std::int64_t inner = 1) {
  for (const LinkLevel& level : levels) {
    const std::string here = where + ", level '" + level.name + "'";
    if (level.group <= inner || level.group % inner != 0) {
      return bad_input(here + ": group is " + std::to_string(level.group) + ", but must be a multiple of the inner group, " +
                       std::to_string(inner) + ", and larger");
    }
    Status status = check_range(here + ": bandwidth", level.bytes_per_second, kLeastRate, kMostRate);
    if (status) status = check_range(here + ": latency", level.latency_seconds, 0, kMostSeconds);
    for (std::size_t i = 0; status && i < level.measured.size(); ++i) status = check_curve(level.measured[i], here + ", measured " + std::to_string(i + 1));
    if (!status) return status;
    if (level.sharers < 1 || level.sharers > inner || inner % level.sharers != 0) {
      return bad_input(here + ": shared_by is " + std::to_string(level.sharers) + ", but must divide the inner group, " +
                       std::to_string(inner));
    }
    inner = level.group;
  }
  if (inner != devices) {
    return bad_input(where + ": the levels join " + std::to_string(inner) + " devices, but there are " + std::to_string(devices));
  }
  return Done{};
}

Status check_sizes(std::int64_t nodes, std::int64_t devices_per_node, std::size_t levels, const std::string& where) {
  if (nodes < 1 || devices_per_node < 1) {
    return bad_input(where + ": nodes and devices_per_node must be at least 1");
  }
  if (nodes > kMostDevices || devices_per_node > kMostDevices || nodes * devices_per_node > kMostDevices) {
    return bad_input(where + ": at most " + std::to_string(kMostDevices) + " devices are supported");
  }
  if (levels > kMostLevels) return bad_input(where + ": at most " + std::to_string(kMostLevels) + " levels are supported");
  return Done{};
}

// Each part is a cluster of equal devices; whole servers of all of them share the link that joins them.
Status check_parts(const Cluster& cluster, const std::string& where) {
  if (cluster.parts.size() < 2) return bad_input(where + ": it has one part, and is a cluster of equal devices; name the part's file in its place");
  if (cluster.levels.size() != 1) return bad_input(where + ": one level joins its parts, but there are " + std::to_string(cluster.levels.size()));
  std::int64_t server = 0;
  for (const Cluster& part : cluster.parts) {
    if (!part.parts.empty()) return bad_input(where + ": its part '" + part.name + "' has parts of its own; name these as parts in its place");
    if (Status status = validate(part); !status) return add_context(where, status.error());
    server = std::gcd(server, part.devices_per_node);
  }
  if (cluster.devices() > kMostDevices) return bad_input(where + ": at most " + std::to_string(kMostDevices) + " devices are supported");
  return check_levels(cluster.levels, cluster.devices(), where, server);
}

}  // namespace

double RateCurve::seconds(double size) const {
  const auto at = [&](std::size_t i) { return sizes[i] / rates[i]; };
  if (size <= sizes.front()) return size / rates.front();
  if (size >= sizes.back()) return size / rates.back();
  const auto above = static_cast<std::size_t>(std::ranges::upper_bound(sizes, size) - sizes.begin());
  return at(above - 1) + (at(above) - at(above - 1)) * (size - sizes[above - 1]) / (sizes[above] - sizes[above - 1]);
}

const char* name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::permute: return "permute";
  }
  return "?";
}

Status validate(const Cluster& cluster) {
  const std::string where = "cluster '" + cluster.name + "'";
  if (!cluster.parts.empty()) return check_parts(cluster, where);
  if (Status status = check_sizes(cluster.nodes, cluster.devices_per_node, cluster.levels.size(), where); !status) return status;
  if (Status status = check_device(cluster.device, where + ", device '" + cluster.device.name + "'"); !status) return status;
  if (cluster.reserved_bytes < 0 || cluster.reserved_bytes >= cluster.device.memory_bytes) {
    return bad_input(where + ": reserved_bytes must be less than the device's memory");
  }
  if (largest_peak_bytes(cluster) <= 0) {
    return bad_input(where +
                     ": driver, context and workspace of the device and reserved_bytes of the cluster are together no "
                     "less than the device's memory, " +
                     std::to_string(cluster.device.memory_bytes) + " bytes, and leave nothing for a program");
  }
  return check_levels(cluster.levels, cluster.devices(), where);
}

Status validate(const DetectedLinks& links) {
  const std::string where = "the links that were detected";
  if (Status status = check_sizes(links.nodes, links.devices_per_node, links.levels.size(), where); !status) return status;
  const std::int64_t devices = links.nodes * links.devices_per_node;
  std::vector<std::int64_t> sorted = links.order;
  std::ranges::sort(sorted);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(sorted.size()); ++i) {
    if (sorted[static_cast<std::size_t>(i)] != i) return bad_input(where + ": the order must hold each device once");
  }
  if (static_cast<std::int64_t>(sorted.size()) != devices) {
    return bad_input(where + ": the order holds " + std::to_string(sorted.size()) + " devices, but nodes × devices_per_node is " + std::to_string(devices));
  }
  return check_levels(links.levels, devices, where);
}

Cluster joined(std::string name, std::vector<Cluster> parts, LinkLevel link) {
  Cluster all;
  all.name = std::move(name);
  all.device = parts.front().device;
  all.devices_per_node = parts.front().devices_per_node;
  all.reserved_bytes = parts.front().reserved_bytes;
  all.nodes = 0;
  for (const Cluster& part : parts) all.nodes += part.nodes;
  all.levels = {std::move(link)};
  all.parts = std::move(parts);
  return all;
}

std::string devices_text(const Cluster& cluster) {
  if (cluster.parts.empty()) return std::to_string(cluster.devices()) + " x " + cluster.device.name;
  std::string text;
  for (const Cluster& part : cluster.parts) text += (text.empty() ? "" : " and ") + devices_text(part);
  return text;
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

Result<DetectedLinks> ClusterSource::detect(const std::string& measurements, const std::string& where) const {
  return guarded([&] { return where + ": the cluster plugin"; }, [&] {
    Result<DetectedLinks> links = do_detect(measurements, where);
    if (!links) return links;
    if (Status status = validate(*links); !status) return Result<DetectedLinks>(add_context(where, status.error()));
    return links;
  });
}

Result<std::string> ClusterSource::measure(Transport& transport) const {
  return guarded([] { return std::string("the cluster plugin, which measures links,"); }, [&] { return do_measure(transport); });
}

Result<DetectedLinks> ClusterSource::do_detect(const std::string& /*measurements*/, const std::string& where) const {
  return bad_input(where + ": this cluster plugin describes clusters and detects no links; 'detect' does");
}

Result<std::string> ClusterSource::do_measure(Transport& /*transport*/) const {
  return bad_input("this cluster plugin describes clusters and measures no links; 'detect' does");
}

}  // namespace meshwright
