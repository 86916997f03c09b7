#include "break_even.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "meshwright/mesh.h"
#include "meshwright/timeline.h"

namespace meshwright {

namespace {

constexpr double kPartStep = 0.01;   // by how much longer something takes, for a part
constexpr double kTolerance = 0.01;  // of an interval, as a share of its distance from 1; both logarithms
constexpr int kMostNarrowings = 40;

// Whether what a coefficient prices takes longer the larger it is.
bool is_time(CostCoefficient coefficient) { return coefficient == CostCoefficient::link_latency || coefficient == CostCoefficient::host_time; }

void scale(std::vector<double>& rates, double factor) {
  for (double& rate : rates) rate *= factor;
}

// One program, simulated under scaled coefficients.
class ScaledSteps {
 public:
  ScaledSteps(const Cluster& cluster, const CostProfile& profile, const OpTable& ops, Program program)
      : cluster_(cluster), profile_(profile), program_(std::move(program)), works_(works_of(program_, ops)), mesh_(program_.mesh) {
    for (const MeshAxis& axis : mesh_.axes) shape_.push_back(axis.size);
  }

  // Of the step, in ticks. What was asked before is remembered while the coefficient is the same.
  Result<Ticks> step(const ScaledCoefficient& coefficient, double factor) {
    if (std::pair(coefficient.coefficient, coefficient.level) != known_of_) {
      known_of_ = {coefficient.coefficient, coefficient.level};
      std::erase_if(known_, [](const auto& one) { return one.first != 1; });
    }
    if (const auto found = known_.find(factor); found != known_.end()) return found->second;
    program_.mesh = mesh_;
    if (is_link(coefficient.coefficient) && factor != 1) {
      Result<Mesh> mesh = make_mesh(scaled(cluster_, coefficient, factor), shape_);
      if (!mesh) return mesh.error();
      program_.mesh = std::move(*mesh);
    }
    const Result<Timeline> times = make_timeline(program_, works_, scaled(profile_, coefficient, factor));
    if (!times) return times.error();
    return known_[factor] = to_ticks(times->step_seconds);
  }

 private:
  const Cluster& cluster_;
  const CostProfile& profile_;
  Program program_;
  const std::vector<Work> works_;
  const Mesh mesh_;
  std::vector<std::int64_t> shape_;
  std::pair<CostCoefficient, std::size_t> known_of_;
  std::map<double, Ticks> known_;  // by factor
};

// Of one coefficient. An error of a simulation ends every question with 0 and is kept.
class BreakEvenSearch {
 public:
  BreakEvenSearch(const ScaledCoefficient& coefficient, ScaledSteps& plan, ScaledSteps& runner_up) : coefficient_(coefficient), plan_(plan), runner_up_(runner_up) {}

  Result<BreakEven> run(const Cluster& cluster) {
    BreakEven found;
    found.coefficient = coefficient_.coefficient;
    if (is_link(found.coefficient)) found.level = cluster.levels[coefficient_.level].name;
    const double longer = is_time(found.coefficient) ? 1 + kPartStep : 1 / (1 + kPartStep);
    found.part_seconds = to_seconds(step(plan_, longer) - step(plan_, 1)) / kPartStep;
    found.runner_up_part_seconds = to_seconds(step(runner_up_, longer) - step(runner_up_, 1)) / kPartStep;
    found.factor = lead(1) <= 0 ? std::optional(1.0) : nearest();
    if (!problem_) return problem_.error();
    return found;
  }

 private:
  Ticks step(ScaledSteps& steps, double factor) {
    if (!problem_) return 0;
    const Result<Ticks> ticks = steps.step(coefficient_, factor);
    if (!ticks) problem_ = ticks.error();
    return ticks ? *ticks : 0;
  }

  // By how much the plan is faster than the runner-up.
  Ticks lead(double factor) { return step(runner_up_, factor) - step(plan_, factor); }

  std::optional<double> nearest() {
    const std::optional<double> below = on_side(kLeastFactor), above = coefficient_.most > 1 ? on_side(coefficient_.most) : std::nullopt;
    if (!below || !above) return below ? below : above;
    return -std::log(*below) < std::log(*above) ? below : above;
  }

  // The first factor between 1 and `end` at which the runner-up is faster.
  std::optional<double> on_side(double end) {
    // Between here and there the plan's step is at most what it is where things take longest, and the runner-up's at least what it is
    // where they take least.
    const bool gets_longer = (end > 1) == is_time(coefficient_.coefficient);
    const double longest = gets_longer ? end : 1, shortest = gets_longer ? 1 : end;
    if (step(runner_up_, shortest) >= step(plan_, longest)) return std::nullopt;
    for (double before = 1, here = 1; before != end; before = here) {
      here = end > 1 ? std::min(before * 2, end) : std::max(before / 2, end);
      if (lead(here) < 0) return narrowed(before, here);
    }
    return std::nullopt;
  }

  // At `far` the runner-up is faster, at `near` it isn't: as near to `near` as is worth finding out.
  double narrowed(double near, double far) {
    double low = std::log(near), high = std::log(far);
    auto low_lead = static_cast<double>(lead(near)), high_lead = static_cast<double>(lead(far));
    int kept = 0;  // how often in a row the same end stayed: > 0 the near one, < 0 the far one
    for (int i = 0; i < kMostNarrowings && std::abs(high - low) > kTolerance * std::abs(high); ++i) {
      double share = low_lead / (low_lead - high_lead);
      share = std::clamp(share, 0.02, 0.98);
      const double middle = low + share * (high - low);
      const auto here = static_cast<double>(lead(std::exp(middle)));
      if (here < 0) {
        high = middle;
        high_lead = here;
        kept = std::max(kept, 0) + 1;
        if (kept > 1) low_lead /= 2;
      } else {
        low = middle;
        low_lead = here;
        kept = std::min(kept, 0) - 1;
        if (kept < -1) high_lead /= 2;
      }
    }
    return std::exp(high);
  }

  const ScaledCoefficient& coefficient_;
  ScaledSteps &plan_, &runner_up_;
  Status problem_ = Done{};
};

}  // namespace

bool is_link(CostCoefficient coefficient) { return coefficient == CostCoefficient::link_bandwidth || coefficient == CostCoefficient::link_latency; }

std::vector<ScaledCoefficient> coefficients_of(const Cluster& cluster, const CostProfile& profile) {
  const DeviceSpec& device = profile.device;
  std::vector<ScaledCoefficient> all;
  const auto up_to_one = [](double efficiency) { return std::min(kMostFactor, 1 / efficiency); };
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) all.push_back({CostCoefficient::link_bandwidth, i});
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    if (cluster.levels[i].latency_seconds > 0) all.push_back({CostCoefficient::link_latency, i});
  }
  all.push_back({CostCoefficient::product_rate, 0, device.product_curves.empty() ? up_to_one(device.matrix_efficiency) : kMostFactor});
  if (const auto rates = device.attention.find(profile.attention); rates != device.attention.end()) {
    all.push_back({CostCoefficient::attention_rate, 0, up_to_one(rates->second.efficiency * std::max(1.0, rates->second.backward))});
  }
  all.push_back({CostCoefficient::memory_bandwidth, 0, device.memory_curve.sizes.empty() ? up_to_one(device.memory_efficiency) : kMostFactor});
  if (device.host_launch_seconds > 0 || device.host_collective_seconds > 0) all.push_back({CostCoefficient::host_time});
  return all;
}

Cluster scaled(Cluster cluster, const ScaledCoefficient& coefficient, double factor) {
  if (!is_link(coefficient.coefficient)) return cluster;
  LinkLevel& level = cluster.levels[coefficient.level];
  if (coefficient.coefficient == CostCoefficient::link_latency) {
    level.latency_seconds *= factor;
    return cluster;
  }
  level.bytes_per_second *= factor;
  for (BusBandwidth& curve : level.measured) scale(curve.bytes_per_second, factor);
  return cluster;
}

CostProfile scaled(CostProfile profile, const ScaledCoefficient& coefficient, double factor) {
  DeviceSpec& device = profile.device;
  switch (coefficient.coefficient) {
    case CostCoefficient::link_bandwidth:
    case CostCoefficient::link_latency: break;
    case CostCoefficient::product_rate:
      device.matrix_efficiency *= factor;
      for (auto& [dtype, curve] : device.product_curves) scale(curve.rates, factor);
      break;
    case CostCoefficient::attention_rate: device.attention[profile.attention].efficiency *= factor; break;
    case CostCoefficient::memory_bandwidth:
      device.memory_efficiency *= factor;
      scale(device.memory_curve.rates, factor);
      break;
    case CostCoefficient::host_time:
      device.host_launch_seconds *= factor;
      device.host_collective_seconds *= factor;
      break;
  }
  return profile;
}

Result<std::vector<BreakEven>> break_evens(const Cluster& cluster, const CostProfile& profile, const OpTable& ops, Program plan, Program runner_up) {
  ScaledSteps first(cluster, profile, ops, std::move(plan)), second(cluster, profile, ops, std::move(runner_up));
  std::vector<BreakEven> found;
  for (const ScaledCoefficient& coefficient : coefficients_of(cluster, profile)) {
    Result<BreakEven> one = BreakEvenSearch(coefficient, first, second).run(cluster);
    if (!one) return one.error();
    found.push_back(std::move(*one));
  }
  return found;
}

}  // namespace meshwright
