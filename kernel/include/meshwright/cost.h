// The one place where seconds are computed. A profiler plugin fills a CostProfile; everybody who prices goes through
// the functions here, so that plans of different solvers are comparable (docs/cost-model.md).
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/export.h"
#include "meshwright/mesh.h"
#include "meshwright/result.h"
#include "meshwright/ticks.h"

namespace meshwright {

struct CostProfile {
  DeviceSpec device;                        // rates and efficiencies
  std::int64_t bucket_bytes = 25'000'000;   // gradient reductions are packed into buckets of this size (TAP §4.7)
};

// The work of one kernel on one device.
struct Work {
  double matrix_flops = 0;
  double vector_flops = 0;
  double bytes = 0;
  DType dtype = DType::float32;
};

// max(FLOPs / (peak × efficiency), bytes / bandwidth) + launch. Zero work costs nothing.
MESHWRIGHT_API double compute_seconds(const CostProfile& profile, const Work& work);

enum class CollectiveKind : std::uint8_t { all_gather, reduce_scatter, all_reduce, all_to_all, permute };

MESHWRIGHT_API const char* name(CollectiveKind kind);

// Seconds of one collective in one group along `axis`. `bytes` is what one device holds before it; for an all-gather
// the result is axis.size times that. The better of ring and tree, as in NCCL's tuning model. `alpha_share` scales
// the latency: a packed gradient reduction pays its part of a bucket's. Monotone in bytes; a reduce-scatter is
// never dearer than an all-reduce.
MESHWRIGHT_API double collective_seconds(CollectiveKind kind, const MeshAxis& axis, double bytes,
                                         double alpha_share = 1.0);

// Makes a CostProfile for a cluster.
class MESHWRIGHT_API Profiler {
 public:
  virtual ~Profiler();
  Result<CostProfile> profile(const Cluster& cluster) const;

 private:
  virtual Result<CostProfile> do_profile(const Cluster& cluster) const = 0;
};

}  // namespace meshwright
