// The machine to plan for: equal devices joined by levels of links, from the innermost outwards (an NVLink pair, a
// NUMA node, a server, a network). Two devices talk over the first level in whose group both are. Levels are how
// partial NVLink topologies (MAP §4.2, Figure 5) and servers on a network are told apart without a full matrix.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "meshwright/dtype.h"
#include "meshwright/export.h"
#include "meshwright/result.h"

namespace meshwright {

// One device, as its data sheet or a measurement describes it. Rates are per second.
struct DeviceSpec {
  std::string name;
  std::int64_t memory_bytes = 0;
  double memory_bytes_per_second = 0;
  std::map<DType, double> matrix_flops_per_second;  // matrix units, dense
  double vector_flops_per_second = 0;
  double launch_seconds = 0;         // what any kernel costs at least
  double matrix_efficiency = 1;      // the share of the peak that a large matrix product reaches
  double memory_efficiency = 1;      // the share of the bandwidth that a large copy reaches
  double half_efficiency_flops = 0;  // a product of so many FLOPs reaches half of matrix_efficiency
};

struct LinkLevel {
  std::string name;
  std::int64_t group = 0;       // devices that this level joins; divides the next level's group
  double bytes_per_second = 0;  // of one link, in one direction
  double latency_seconds = 0;
  // How many devices of the next smaller group share one link of this level: 1 if each has its own, 8 for a server's
  // single network card.
  std::int64_t sharers = 1;
  // Whether one collective may use the links of all its devices at once (a network card for each GPU), or is held to
  // the speed of one link (PCIe, where every ring passes the same port).
  bool ganged = false;
};

struct Cluster {
  std::string name;
  DeviceSpec device;
  std::int64_t devices_per_node = 0;
  std::int64_t nodes = 1;
  std::int64_t reserved_bytes = 0;  // of each device's memory: context, communication library, fragmentation
  std::vector<LinkLevel> levels;    // innermost first; the last joins all devices

  [[nodiscard]] std::int64_t devices() const { return devices_per_node * nodes; }
};

MESHWRIGHT_API Status validate(const Cluster& cluster);

// Describes a cluster: from a file, or from the machine it runs on.
class MESHWRIGHT_API ClusterSource {
 public:
  virtual ~ClusterSource();

  // The cluster, validated. `path` is what the user named after --cluster; "" if nothing.
  Result<Cluster> describe(const std::string& path) const;

 private:
  virtual Result<Cluster> do_describe(const std::string& path) const = 0;
};

}  // namespace meshwright
