#include "meshwright/cost.h"

#include <algorithm>
#include <cmath>

#include "tensor/guarded.h"

namespace meshwright {

namespace {

// The rate of the matrix units for a dtype; products of a dtype that they lack run on the vector units.
double matrix_rate(const DeviceSpec& device, DType dtype) {
  const auto found = device.matrix_flops_per_second.find(dtype);
  return found != device.matrix_flops_per_second.end() ? found->second : device.vector_flops_per_second;
}

}  // namespace

double compute_seconds(const CostProfile& profile, const Work& work) {
  const DeviceSpec& device = profile.device;
  if (work.matrix_flops <= 0 && work.vector_flops <= 0 && work.bytes <= 0) return 0;
  double arithmetic = work.vector_flops / device.vector_flops_per_second;
  if (work.matrix_flops > 0) {
    // Written so that it is FLOPs / (peak × efficiency), with efficiency = best × FLOPs / (FLOPs + half).
    arithmetic += (work.matrix_flops + device.half_efficiency_flops) /
                  (matrix_rate(device, work.dtype) * device.matrix_efficiency);
  }
  const double memory = work.bytes / (device.memory_bytes_per_second * device.memory_efficiency);
  return std::max(arithmetic, memory) + device.launch_seconds;
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

double collective_seconds(CollectiveKind kind, const MeshAxis& axis, double bytes, double alpha_share) {
  const auto n = static_cast<double>(axis.size);
  const double alpha = axis.alpha_seconds * alpha_share;
  const double beta = axis.beta_seconds_per_byte;
  const double steps = n - 1;
  switch (kind) {
    case CollectiveKind::all_gather: return steps * alpha + steps * bytes * beta;
    case CollectiveKind::reduce_scatter: return steps * alpha + steps / n * bytes * beta;
    case CollectiveKind::all_to_all: return steps * alpha + steps / n * bytes * beta;
    case CollectiveKind::permute: return alpha + bytes * beta;
    case CollectiveKind::all_reduce: {
      const double ring = 2 * steps * alpha + 2 * steps / n * bytes * beta;
      // A tree sends everything up and down; its depth is the logarithm. Never below the reduce-scatter.
      const double tree = 2 * std::ceil(std::log2(n)) * alpha + 2 * bytes * beta;
      return std::max(std::min(ring, tree), collective_seconds(CollectiveKind::reduce_scatter, axis, bytes, alpha_share));
    }
  }
  return 0;
}

// Sizes in a model and rates in a cluster file are each possible by themselves, and may still make an op that takes
// longer than ticks can count (eleven days): that costs as much as can be said.
Ticks to_ticks(double seconds) {
  const double ticks = seconds * static_cast<double>(kTicksPerSecond);
  if (!(ticks < static_cast<double>(kForbidden))) return kForbidden - 1;
  return std::max<Ticks>(0, std::llround(ticks));
}

Profiler::~Profiler() = default;

Result<CostProfile> Profiler::profile(const Cluster& cluster) const {
  return guarded([] { return std::string("the profiler"); }, [&]() -> Result<CostProfile> {
    Result<CostProfile> profile = do_profile(cluster);
    if (profile && profile->bucket_bytes <= 0) return plugin_failed("the profiler's bucket_bytes is not more than 0");
    return profile;
  });
}

}  // namespace meshwright
