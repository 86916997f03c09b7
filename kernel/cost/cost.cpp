#include "meshwright/cost.h"

#include <algorithm>
#include <cmath>

#include "meshwright/training.h"
#include "tensor/guarded.h"

namespace meshwright {

namespace {

// Of a matrix product's results, as cuBLAS cuts them on large shapes.
constexpr double kTileRows = 128, kTileColumns = 256;

// The rate of the matrix units for a dtype; products of a dtype that they lack run on the vector units.
double matrix_rate(const DeviceSpec& device, DType dtype) {
  const auto found = device.matrix_flops_per_second.find(dtype);
  return found != device.matrix_flops_per_second.end() ? found->second : device.vector_flops_per_second;
}

// How many times longer a product takes since its last wave of tiles is not full. The library turns the product where that is better.
double waves(const DeviceSpec& device, const ProductShape& product) {
  const auto at_once = static_cast<double>(device.multiprocessors);
  if (at_once == 0 || product.rows == 0) return 1;
  const auto longer = [&](double rows, double columns) {
    const double tiles = product.batches * std::ceil(rows / kTileRows) * std::ceil(columns / kTileColumns);
    return std::ceil(tiles / at_once) * at_once / tiles;
  };
  return std::min(longer(product.rows, product.columns), longer(product.columns, product.rows));
}

double share(double x, double half) { return half > 0 ? x / (x + half) : 1; }

double memory_seconds(const DeviceSpec& device, double bytes) {
  if (!device.memory_curve.sizes.empty()) return device.memory_curve.seconds(bytes);
  return bytes / (device.memory_bytes_per_second * device.memory_efficiency);
}

double attention_rate(const DeviceSpec& device, const AttentionRates& rates, const Work& work) {
  const double reached = rates.efficiency * share(work.keys, rates.half_keys) * share(work.head, rates.half_head) * (work.is_backward ? rates.backward : 1);
  return matrix_rate(device, work.dtype) * reached;
}

// The curve that was measured for this collective alone, or one that was measured for all rings.
const std::vector<RingPoint>& curve_of(const MeshAxis& axis, CollectiveKind kind) {
  const auto found = axis.own.find(kind);
  return found != axis.own.end() ? found->second : axis.ring;
}

// By a curve: what so many bytes of the whole take, which are `traffic` on the bus.
double curve_seconds(const MeshAxis& axis, const std::vector<RingPoint>& curve, double whole, double rounds, double traffic) {
  if (whole <= 0) return 0;
  // Straight lines between what one byte of traffic for each byte of the whole would take; the first and the last one go on.
  const auto at = [&](std::size_t i) { return curve[i].bytes * curve[i].seconds_per_byte; };
  std::size_t i = 0;
  while (i + 2 < curve.size() && whole > curve[i + 1].bytes) ++i;
  double seconds = 0;
  if (curve.size() == 1) {
    seconds = whole * curve[0].seconds_per_byte;
  } else if (whole > curve.back().bytes) {
    seconds = whole * curve.back().seconds_per_byte;
  } else {
    const double slope = (at(i + 1) - at(i)) / (curve[i + 1].bytes - curve[i].bytes);
    seconds = std::max(at(i) + slope * (whole - curve[i].bytes), 0.0);
  }
  // What goes to each of the others can't be sooner than one message to each.
  return std::max(seconds * traffic / whole, rounds * axis.alpha_seconds);
}

// Of a ring: by the curve that was measured, else by rounds of latency and traffic.
double ring_seconds(const MeshAxis& axis, const std::vector<RingPoint>& curve, double whole, double rounds, double traffic) {
  if (curve.empty()) return rounds * axis.alpha_seconds + traffic * axis.beta_seconds_per_byte;
  return curve_seconds(axis, curve, whole, rounds, traffic);
}

}  // namespace

double compute_seconds(const CostProfile& profile, const Work& work) {
  const DeviceSpec& device = profile.device;
  if (work.matrix_flops <= 0 && work.vector_flops <= 0 && work.bytes <= 0) return 0;
  const double memory = memory_seconds(device, work.bytes), launch = work.launches ? device.launch_seconds : 0;
  const double vector = work.vector_flops / device.vector_flops_per_second;
  if (const auto rates = device.attention.find(profile.attention); work.keys > 0 && rates != device.attention.end()) {
    return std::max(work.matrix_flops / attention_rate(device, rates->second, work), memory) + launch;
  }
  if (work.matrix_flops <= 0) return std::max(vector, memory) + launch;
  if (const auto curve = device.product_curves.find(work.dtype); curve != device.product_curves.end()) {
    return curve->second.seconds(work.matrix_flops) + launch;
  }
  // Written so that it is FLOPs / (peak × efficiency), with efficiency = best × FLOPs / (FLOPs + half).
  const double arithmetic = (work.matrix_flops * waves(device, work.product) + device.half_efficiency_flops) / (matrix_rate(device, work.dtype) * device.matrix_efficiency);
  return arithmetic + memory + launch;
}

double collective_seconds(CollectiveKind kind, const MeshAxis& axis, double bytes, double bucket_share) {
  if (bucket_share <= 0) return 0;
  if (bucket_share != 1) return bucket_share * collective_seconds(kind, axis, bytes / bucket_share);
  const auto n = static_cast<double>(axis.size);
  const double alpha = axis.alpha_seconds, steps = n - 1;
  const auto or_ring = [](double beta, double ring) { return beta > 0 ? beta : ring; };
  switch (kind) {
    case CollectiveKind::all_gather: return axis.skew_seconds + ring_seconds(axis, curve_of(axis, kind), n * bytes, steps, steps * bytes);
    case CollectiveKind::reduce_scatter: return axis.skew_seconds + ring_seconds(axis, curve_of(axis, kind), bytes, steps, steps / n * bytes);
    case CollectiveKind::all_to_all:
      if (const auto own = axis.own.find(kind); own != axis.own.end()) return axis.skew_seconds + curve_seconds(axis, own->second, bytes, 1, steps / n * bytes);
      return axis.skew_seconds + steps * alpha + bytes * or_ring(axis.exchange_beta_seconds_per_byte, steps / n * axis.beta_seconds_per_byte);
    case CollectiveKind::permute:
      if (const auto own = axis.own.find(kind); own != axis.own.end()) return axis.skew_seconds + curve_seconds(axis, own->second, bytes, 1, bytes);
      return axis.skew_seconds + alpha + bytes * or_ring(axis.own_beta_seconds_per_byte, axis.beta_seconds_per_byte);
    case CollectiveKind::all_reduce: {
      const std::vector<RingPoint>& curve = curve_of(axis, kind);
      double seconds = ring_seconds(axis, curve, bytes, 2 * steps, 2 * steps / n * bytes);
      // A tree sends everything up and down; its depth is the logarithm. A curve has the better of the two in it.
      if (curve.empty()) seconds = std::min(seconds, 2 * std::ceil(std::log2(n)) * alpha + 2 * bytes * axis.beta_seconds_per_byte);
      return std::max(axis.skew_seconds + seconds, collective_seconds(CollectiveKind::reduce_scatter, axis, bytes));
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

CostProfile for_training(CostProfile profile, const TrainingSettings& training) {
  DeviceSpec& device = profile.device;
  if (training.tf32 && device.tf32_flops_per_second > 0) device.matrix_flops_per_second[DType::float32] = device.tf32_flops_per_second;
  profile.attention = training.attention;
  if (training.cuda_graphs) device.host_launch_seconds = device.host_collective_seconds = 0;
  return profile;
}

double exposed_seconds(const DeviceSpec& device, double communication, double computing) {
  const double both = std::min(communication * device.communication_stretch, computing * device.computing_stretch);
  return communication - both / device.communication_stretch + both * (1 - 1 / device.computing_stretch);
}

double gather_latency_seconds(const Mesh& mesh, AxisSet axes, double together) {
  if (axes == 0) return 0;
  const MeshAxis group = mesh.along(axes);
  if (!group.own.contains(CollectiveKind::all_gather)) return 0;
  return collective_seconds(CollectiveKind::all_gather, group, 1) / together;
}

std::int64_t parameter_bytes(const Graph& graph, const TrainingSettings& training) {
  std::int64_t sum = 0;
  for (const Source& source : graph.sources) {
    if (source.kind != SourceKind::parameter || !graph.values[source.value].requires_gradient) continue;
    const TensorType& type = graph.type(source.value);
    sum += type.elements() * std::max(size_bytes(type.dtype), training.gradient_bytes(type.dtype));
  }
  return sum;
}

Status check_attention(const DeviceSpec& device, const TrainingSettings& training) {
  if (device.attention.empty() || device.attention.contains(training.attention)) return Done{};
  std::string known;
  for (const auto& [kernel, rates] : device.attention) known += (known.empty() ? "" : ", ") + kernel;
  return bad_input("[train] attention is '" + training.attention + "', for which device '" + device.name + "' has no rates; it has " + known);
}

Profiler::~Profiler() = default;

namespace {

// Runs one of a profiler's functions and checks what it returned for `cluster`.
template <class Make>
Result<CostProfile> checked_profile(const Cluster& cluster, Make make) {
  return guarded([] { return std::string("the profiler"); }, [&]() -> Result<CostProfile> {
    Result<CostProfile> profile = make();
    if (!profile) return profile;
    if (profile->bucket_bytes <= 0) return plugin_failed("the profiler's bucket_bytes is not more than 0");
    Cluster profiled = cluster;
    profiled.device = profile->device;
    // A cluster that was not valid before, as tests make some, is not the profiler's fault.
    if (const Status status = validate(profiled); !status && validate(cluster)) {
      return plugin_failed("the profiler's device: " + status.error().message);
    }
    return profile;
  });
}

}  // namespace

Result<CostProfile> Profiler::profile(const Cluster& cluster) const {
  return checked_profile(cluster, [&] { return do_profile(cluster); });
}

Result<CostProfile> Profiler::recall(const Cluster& planned) const {
  return checked_profile(planned, [&] { return do_recall(planned); });
}

Result<CostProfile> Profiler::do_recall(const Cluster& planned) const { return do_profile(planned); }

}  // namespace meshwright
