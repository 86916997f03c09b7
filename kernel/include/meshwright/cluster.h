// The machine to plan for: devices joined by levels of links, from the innermost outwards (an NVLink pair, a NUMA node, a server, a network): equal ones, or parts of equal ones. Two devices talk over the first level in whose group both are. Levels are how
// partial NVLink topologies (MAP §4.2, Figure 5) and servers on a network are told apart without a full matrix.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "meshwright/dtype.h"
#include "meshwright/export.h"
#include "meshwright/result.h"

namespace meshwright {

class Transport;

// Attention in one kernel (FlashAttention): its share of the matrix units' peak grows with the number of keys and the size of a
// head, each as x / (x + half).
struct AttentionRates {
  double efficiency = 0;   // the share that long rows of large heads reach
  double half_keys = 0;
  double half_head = 0;
  double backward = 1;     // the backward's rate over the forward's
};

// A rate by the size of what is done, as it was measured: straight lines of time between the points, the first and the last rate beyond them.
struct RateCurve {
  std::vector<double> sizes;  // ascending; FLOPs or bytes
  std::vector<double> rates;  // of each, a second

  [[nodiscard]] MESHWRIGHT_API double seconds(double size) const;  // there must be a point
};

// What a device's memory holds besides the tensors of a program. 0: nothing of the kind, as on a CPU.
struct MemoryOverheads {
  std::int64_t driver_bytes = 0;        // of the nominal memory: what no process is given
  std::int64_t context_bytes = 0;       // of the process: the driver's context, and the kernels that are loaded into it
  std::int64_t workspace_bytes = 0;     // of libraries of matrix products, of all streams together
  std::int64_t communicator_bytes = 0;  // of each communicator: the buffers of its channels
  // The allocator gives out multiples of a block. It takes small segments from the driver for what is at most half of
  // one, medium segments for what is at most half of such a one, and for all that is larger a segment of its own: a
  // multiple of a small segment.
  std::int64_t block_bytes = 0;
  std::int64_t small_segment_bytes = 0;
  std::int64_t medium_segment_bytes = 0;
  double fragmentation = 0;  // what lies idle between blocks, as a share of what is given out
  bool operator==(const MemoryOverheads&) const = default;
};

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
  // What float32 products run at where the program allows TF32 ([train] tf32); 0: as matrix_flops_per_second says.
  double tf32_flops_per_second = 0;
  // A product's results are cut into tiles of 128 x 256, of which so many are computed at once: the last wave takes as long as a
  // full one. 0: no such waves.
  std::int64_t multiprocessors = 0;
  std::map<std::string, AttentionRates> attention = {};  // by the kernel that [train] attention names: "flash_1", "flash_2", "flash_3"
  // Where they were measured, in place of the rates and efficiencies above: products by their FLOPs, everything else by its bytes.
  std::map<DType, RateCurve> product_curves = {};
  RateCurve memory_curve = {};
  // What the host takes until it has issued one kernel, or one collective: a resource beside the device's streams.
  double host_launch_seconds = 0;
  double host_collective_seconds = 0;
  double skew_seconds = 0;  // what a collective waits on average for the last of its ranks to come
  // How many times longer a kernel takes while a collective runs beside it, and a collective that runs beside computing.
  double computing_stretch = 1;
  double communication_stretch = 1;
  MemoryOverheads overheads = {};
};

enum class CollectiveKind : std::uint8_t { all_gather, reduce_scatter, all_reduce, all_to_all, permute };
inline constexpr CollectiveKind kCollectiveKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce, CollectiveKind::all_to_all,
                                                      CollectiveKind::permute};

MESHWRIGHT_API const char* name(CollectiveKind kind);

// The traffic of collectives (nccl-tests' bus bandwidth) as it was measured, in groups of so many devices of one level, by the bytes of
// the whole: of what is gathered after the collective, of what is sent before it for all others.
struct BusBandwidth {
  std::int64_t devices = 0;
  std::optional<CollectiveKind> only;    // of this one alone (switches that reduce speed up no gather); none: of rings, whatever they do
  std::vector<double> bytes;             // ascending
  std::vector<double> bytes_per_second;  // bytes / seconds × 2(n-1)/n for an all-reduce, × 1 for a permute, × (n-1)/n for the others
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
  std::vector<BusBandwidth> measured = {};  // none: latency and bandwidth say what a collective takes
};

struct Cluster {
  std::string name;
  DeviceSpec device;
  std::int64_t devices_per_node = 0;
  std::int64_t nodes = 1;
  std::int64_t reserved_bytes = 0;  // of each device's memory: what else is not ours, besides the device's overheads
  std::vector<LinkLevel> levels;    // innermost first; the last joins all devices
  // Of unlike devices, or unlike links: clusters one behind the other, each of equal devices, which the only one of `levels` joins. `device`, `devices_per_node` and `reserved_bytes` are then those of the first
  // part, `nodes` all of them.
  std::vector<Cluster> parts{};

  [[nodiscard]] std::int64_t devices() const {
    if (parts.empty()) return devices_per_node * nodes;
    std::int64_t all = 0;
    for (const Cluster& part : parts) all += part.devices();
    return all;
  }
};

MESHWRIGHT_API Status validate(const Cluster& cluster);

// A cluster of those parts, one behind the other, which `link` joins. What is wrong with it validate says.
MESHWRIGHT_API Cluster joined(std::string name, std::vector<Cluster> parts, LinkLevel link);

// "8 x A100-80GB", or "8 x A100-80GB and 8 x V100-32GB"
MESHWRIGHT_API std::string devices_text(const Cluster& cluster);

// A link that is slower than what its level's links reach. Devices are numbered as in the measurement.
struct SlowLink {
  std::int64_t first = 0, second = 0;
  std::string level;
  bool latency = false;  // whether the figures are seconds of one message, or bytes per second
  double expected = 0;
  double measured = 0;
};

// What links were measured to be: a cluster without its device.
struct DetectedLinks {
  std::int64_t devices_per_node = 0;
  std::int64_t nodes = 1;
  std::vector<LinkLevel> levels;         // innermost first; the last joins all devices
  std::vector<std::int64_t> order;       // of the device at each place of the cluster, its number in the measurement
  std::vector<SlowLink> slow_links = {};
  std::vector<std::string> notes = {};   // sentences: what levels can't express, and what was assumed
};

// That the levels join the devices, as those of a cluster must, and that `order` holds each device once. Errors: bad_input.
MESHWRIGHT_API Status validate(const DetectedLinks& links);

// Describes a cluster: from a file, or from the machine it runs on.
class MESHWRIGHT_API ClusterSource {
 public:
  virtual ~ClusterSource();

  // The cluster, validated. `path` is what the user named after --cluster; "" if nothing.
  Result<Cluster> describe(const std::string& path) const;

  // The links between devices of which nothing else is known, validated, from what was measured between them: text in the plugin's own form
  // (clusters/detect: docs/configuration.md). `where` begins an error's sentence. Errors: bad_input, also of a source that detects no links.
  Result<DetectedLinks> detect(const std::string& measurements, const std::string& where) const;

  // Such a text, by measuring between the ranks of `transport`, all of which call this and get the same. Errors, on all of them alike: those of
  // Transport; bad_input for one rank alone, and of a source that detects no links.
  Result<std::string> measure(Transport& transport) const;

 private:
  virtual Result<Cluster> do_describe(const std::string& path) const = 0;
  virtual Result<DetectedLinks> do_detect(const std::string& measurements, const std::string& where) const;
  virtual Result<std::string> do_measure(Transport& transport) const;
};

}  // namespace meshwright
