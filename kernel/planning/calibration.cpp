#include "calibration.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "meshwright/timeline.h"

namespace meshwright {

const std::vector<Coefficient>& all_coefficients() {
  static const std::vector<Coefficient> coefficients = {
      {"matrix_efficiency", "", 0.3, 1, [](DeviceSpec& device, const std::string&) { return device.product_curves.empty() ? &device.matrix_efficiency : nullptr; }},
      {"memory_efficiency", "", 0.3, 1, [](DeviceSpec& device, const std::string&) { return device.memory_curve.sizes.empty() ? &device.memory_efficiency : nullptr; }},
      {"attention", "", 0.1, 1, [](DeviceSpec& device, const std::string& kernel) -> double* {
         const auto found = device.attention.find(kernel);
         return found == device.attention.end() ? nullptr : &found->second.efficiency;
       }},
      {"launch", "s", 1e-6, 2e-5, [](DeviceSpec& device, const std::string&) { return &device.launch_seconds; }},
      {"host_launch", "s", 1e-6, 1e-4, [](DeviceSpec& device, const std::string&) { return &device.host_launch_seconds; }},
      {"host_collective", "s", 5e-6, 1e-3, [](DeviceSpec& device, const std::string&) { return &device.host_collective_seconds; }},
      {"skew", "s", 1e-6, 1e-3, [](DeviceSpec& device, const std::string&) { return &device.skew_seconds; }},
      {"computing_stretch", "", 1, 2, [](DeviceSpec& device, const std::string&) { return &device.computing_stretch; }},
      {"communication_stretch", "", 1, 3, [](DeviceSpec& device, const std::string&) { return &device.communication_stretch; }},
  };
  return coefficients;
}

Result<double> predicted_seconds(MeasuredStep& step, const DeviceSpec& device) {
  step.cluster.device = device;
  CostProfile profile = step.profile;
  profile.device = device;
  profile = for_training(std::move(profile), step.training);
  std::vector<std::int64_t> shape;
  for (const MeshAxis& axis : step.program.mesh.axes) shape.push_back(axis.size);
  Result<Mesh> mesh = make_mesh(step.cluster, shape);
  if (!mesh) return mesh.error();
  step.program.mesh = std::move(*mesh);
  const Result<Timeline> times = make_timeline(step.program, step.works, profile);
  if (!times) return times.error();
  return times->step_seconds + (step.recomputes ? times->forward_seconds : 0);
}

namespace {

// Steps to and fro along each coefficient in turn, by factors that shrink once none of them helps.
class Fit {
 public:
  Fit(std::vector<MeasuredStep>& steps, DeviceSpec device, const std::vector<const Coefficient*>& coefficients)
      : steps_(steps), coefficients_(coefficients), kernel_(steps[0].training.attention), best_(std::move(device)) {}

  Result<Calibration> run() {
    Calibration found;
    Result<double> error = mean_error(best_);
    if (!error) return error.error();
    found.error_before = *error;
    for (const Coefficient* coefficient : coefficients_) {
      double& value = *coefficient->of(best_, kernel_);
      value = std::clamp(value, coefficient->least, coefficient->most);
    }
    if (error = mean_error(best_); !error) return error.error();
    least_ = *error;
    constexpr double kFirstFactor = 1.5, kLastFactor = 1.005;
    for (double factor = kFirstFactor; factor > kLastFactor;) {
      const double before = least_;
      for (const Coefficient* coefficient : coefficients_) {
        if (Status status = move(*coefficient, factor); !status) return status.error();
      }
      if (least_ == before) factor = std::sqrt(factor);
    }
    found.device = best_;
    found.error_after = least_;
    found.evaluations = evaluations_;
    return found;
  }

 private:
  // On in the direction that helps, as long as it does.
  Status move(const Coefficient& coefficient, double factor) {
    for (const double by : {factor, 1 / factor}) {
      bool helped = false;
      while (true) {
        DeviceSpec tried = best_;
        double& value = *coefficient.of(tried, kernel_);
        const double to = std::clamp(value * by, coefficient.least, coefficient.most);
        if (to == value) break;
        value = to;
        const Result<double> error = mean_error(tried);
        if (!error) return error.error();
        if (*error >= least_) break;
        least_ = *error;
        best_ = std::move(tried);
        helped = true;
      }
      if (helped) break;
    }
    return Done{};
  }

  Result<double> mean_error(const DeviceSpec& device) {
    ++evaluations_;
    std::vector<Result<double>> predicted(steps_.size(), 0.0);
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < steps_.size(); i = next++) predicted[i] = predicted_seconds(steps_[i], device);
    };
    std::vector<std::jthread> others(std::max(std::thread::hardware_concurrency(), 1U) - 1);
    for (std::jthread& other : others) other = std::jthread(work);
    work();
    others.clear();
    double sum = 0;  // always in the order of the steps
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!predicted[i]) return add_context(steps_[i].name, predicted[i].error());
      sum += std::abs(*predicted[i] / steps_[i].seconds - 1);
    }
    return sum / static_cast<double>(steps_.size());
  }

  std::vector<MeasuredStep>& steps_;
  const std::vector<const Coefficient*>& coefficients_;
  const std::string kernel_;  // of attention
  DeviceSpec best_;
  double least_ = 0;
  int evaluations_ = 0;
};

}  // namespace

Result<Calibration> calibrate(std::vector<MeasuredStep>& steps, DeviceSpec device, const std::vector<const Coefficient*>& coefficients) {
  if (steps.size() < std::max<std::size_t>(coefficients.size(), 1)) {
    return bad_input(std::to_string(coefficients.size()) + " coefficients can't be fitted to " + std::to_string(steps.size()) + " measured steps; measure more, or name fewer");
  }
  for (const Coefficient* coefficient : coefficients) {
    if (coefficient->of(device, steps[0].training.attention) == nullptr) {
      return bad_input("'" + std::string(coefficient->name) + "' can't be fitted: device '" + device.name + "' has no rates for the attention kernel '" + steps[0].training.attention + "', or curves that were measured in place of this coefficient");
    }
  }
  return Fit(steps, std::move(device), coefficients).run();
}

}  // namespace meshwright
