// The one place where seconds are computed. A profiler plugin fills a CostProfile; everybody who prices goes through
// the functions here, so that plans of different solvers are comparable (docs/cost-model.md).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "meshwright/cluster.h"
#include "meshwright/export.h"
#include "meshwright/mesh.h"
#include "meshwright/result.h"
#include "meshwright/ticks.h"

namespace meshwright {

struct Graph;
struct TrainingSettings;

struct CostProfile {
  DeviceSpec device;                        // rates and efficiencies
  std::int64_t bucket_bytes = 25'000'000;   // gradient reductions are packed into buckets of this size at most (TAP §4.7), gathers into such units
  // What the model's parameters, or their gradients, have together: no bucket is larger (parameter_bytes).
  std::int64_t parameter_bytes = std::numeric_limits<std::int64_t>::max();
  // Of what one device receives from others of another stage of a pipeline (stages.h), or sends there.
  double stage_latency_seconds = 0, stage_seconds_per_byte = 0;
  std::string attention = "flash_2";        // whose rates fused attention has; a device that has none for it prices it like a product
};

// A matrix product: so many results of rows x columns, each a sum of `reduced` products. Zero rows: nobody said.
struct ProductShape {
  double batches = 1, rows = 0, columns = 0, reduced = 0;
};

// The work of one kernel on one device.
struct Work {
  double matrix_flops = 0;
  double vector_flops = 0;
  double bytes = 0;
  DType dtype = DType::float32;
  ProductShape product = {};
  // Of fused attention: how many keys each query meets, and the size of a head; zero keys: it is none.
  double keys = 0, head = 0;
  bool is_backward = false;  // of attention
  bool launches = true;      // false: it is a part of a kernel that another op launches
};

// Seconds of one kernel; zero work costs nothing. A matrix product: FLOPs × waves / (peak × efficiency) + bytes / bandwidth, where
// waves = ⌈tiles / multiprocessors⌉ × multiprocessors / tiles. Fused attention: the slower of its FLOPs at the rates that the device
// states for it and its bytes. Everything else: the slower of its FLOPs on the vector units and its bytes. And a launch, where
// there is one. Where the device
// has curves that were measured, a product takes what the curve says of its FLOPs and no more, and bytes what theirs says.
MESHWRIGHT_API double compute_seconds(const CostProfile& profile, const Work& work);

// Seconds of one collective in one group along `axis`. `bytes` is what one device holds before it; for an all-gather
// the result is axis.size times that. The better of ring and tree, as in NCCL's tuning model. `alpha_share` scales
// the latency: a packed gradient reduction pays its part of a bucket's. Monotone in bytes; a reduce-scatter is
// never dearer than an all-reduce.
MESHWRIGHT_API double collective_seconds(CollectiveKind kind, const MeshAxis& axis, double bytes,
                                         double alpha_share = 1.0);

// Seconds that communication adds to computing which it overlaps with: what is left of it when the computing has ended, and what both take longer as
// long as they run beside each other, by the device's stretches.
MESHWRIGHT_API double exposed_seconds(const DeviceSpec& device, double communication, double computing);

// Of parameters that are gathered over these axes by one collective, `together` of them, what each waits for besides its bytes: its part of
// the smallest gather, where that was measured, else 0. A price by bytes is a share of a full bucket's, and knows nothing of it.
MESHWRIGHT_API double gather_latency_seconds(const Mesh& mesh, AxisSet axes, double together);

// What the training settings change of a clock: float32 products by TF32, the kernel of attention, and no launches of the host where a step is replayed as a
// CUDA graph.
MESHWRIGHT_API CostProfile for_training(CostProfile profile, const TrainingSettings& training);

// Bytes of all parameters of a model that are trained, or of their gradients, whichever are more.
MESHWRIGHT_API std::int64_t parameter_bytes(const Graph& graph, const TrainingSettings& training);

// That the device has rates for the kernel of attention that is asked for, if it has any. Errors: bad_input.
MESHWRIGHT_API Status check_attention(const DeviceSpec& device, const TrainingSettings& training);

// Makes a CostProfile for a cluster. A plan keeps the device of the profile that it was made with, so that whoever
// opens the plan later prices as its search did.
class MESHWRIGHT_API Profiler {
 public:
  virtual ~Profiler();

  // For a new plan. May measure, so two calls may differ. Errors: plugin_failed for a device that no cluster may have.
  Result<CostProfile> profile(const Cluster& cluster) const;

  // For a plan that exists: `planned` has the device that profile() gave. The same cluster gives the same profile.
  Result<CostProfile> recall(const Cluster& planned) const;

 private:
  virtual Result<CostProfile> do_profile(const Cluster& cluster) const = 0;

  // The default is do_profile(planned). A profiler that measures overrides it, and takes the device as it is.
  virtual Result<CostProfile> do_recall(const Cluster& planned) const;
};

}  // namespace meshwright
