// A profile that is measured: kernels run on the CPU at hand, and their seconds replace what the device's description
// says of them. For clusters whose ranks compute on such a CPU; links and memory stay as the cluster's file has them.
#include <algorithm>
#include <iterator>
#include <string>
#include <thread>

#include "measurement.h"
#include "meshwright/cost.h"
#include "meshwright/plugin.h"

namespace meshwright {
namespace {

constexpr meshwright_config_key_v1 kSchema[] = {
    {"ranks", "integer", "threads", "1", "how many do the same at the same time, as ranks that share this CPU will"},
    {"point_seconds", "number", "seconds", "0.02", "how long one point of a curve is measured"},
    {"bucket_bytes", "bytes", "bytes", "\"25MB\"", "largest buckets that gradient reductions are packed into, and units of gathers"}};

constexpr double kLeastPointSeconds = 1e-4, kMostPointSeconds = 1;

class Measured final : public Profiler {
 public:
  Measured(std::int64_t ranks, double point_seconds, std::int64_t bucket_bytes)
      : ranks_(ranks), point_seconds_(point_seconds), bucket_bytes_(bucket_bytes) {}

 private:
  // The device's name stays: it says which device it is, and steps that were measured are compared by it (`calibrate`).
  Result<CostProfile> do_profile(const Cluster& cluster) const override {
    const DeviceSpec& device = cluster.device;
    // Rates of a CPU between others of a GPU would be a device that does not exist.
    if (device.multiprocessors > 0 || !device.attention.empty()) {
      return bad_input("profiler 'measured' runs on this machine's CPU, but device '" + device.name +
                       "' is a GPU, since its file gives multiprocessors or kernels of attention; plan for it with "
                       "[search] profiler = \"roofline\", or name a CPU's file such as configs/devices/cpu_core.toml");
    }
    // Refused here and not where the plugin is made: a plan may be opened on a smaller machine than it was made on.
    if (const std::int64_t most = std::max(std::thread::hardware_concurrency(), 1U); ranks_ > most) {
      return bad_input("ranks in [profiler.measured] is " + std::to_string(ranks_) + ", but this machine runs " +
                       std::to_string(most) + " threads at the same time; more would measure how they take turns");
    }
    return CostProfile{measured_device(device, {static_cast<int>(ranks_), point_seconds_}), bucket_bytes_};
  }

  // What was measured is in the plan; measuring again would give another clock than the one that it was planned by.
  Result<CostProfile> do_recall(const Cluster& planned) const override {
    return CostProfile{planned.device, bucket_bytes_};
  }

  std::int64_t ranks_;
  double point_seconds_;
  std::int64_t bucket_bytes_;
};

// Empty if the configuration can be used.
std::string what_is_wrong(const Config& config) {
  if (config.integer("ranks") < 1) return "ranks must be at least 1, and at most the threads that run at once";
  const double seconds = config.number("point_seconds");
  if (!(seconds >= kLeastPointSeconds && seconds <= kMostPointSeconds)) return "point_seconds must be from 0.0001 to 1";
  return config.integer("bucket_bytes") > 0 ? "" : "bucket_bytes must be more than 0";
}

void* create(const Config& config, Error& error) {
  if (const std::string wrong = what_is_wrong(config); !wrong.empty()) {
    error = bad_input(wrong);
    return nullptr;
  }
  return static_cast<Profiler*>(
      new Measured(config.integer("ranks"), config.number("point_seconds"), config.integer("bucket_bytes")));
}

}  // namespace

MESHWRIGHT_PLUGIN("profilers", "measured", "0.1.0", "Apache-2.0",
                  "Rates of the CPU at hand, measured by running kernels on it", nullptr, kSchema, std::size(kSchema),
                  create, destroy_plugin<Profiler>)

}  // namespace meshwright
