#include "verify.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

#include "meshwright/shard.h"
#include "tensor_scale.h"

namespace meshwright {

namespace {

class Comparison final : public RunObserver {
 public:
  Comparison(const VerifyInput& input, const SerialStep& serial, const OptimizerSettings& settings)
      : input_(input), serial_(serial), settings_(settings) {
    for (const auto& [id, gradient] : serial.gradients) {
      gradient_scales_[id] = TensorScale(gradient, input.by_rows);
      largest_gradient_ = std::max(largest_gradient_, gradient_scales_[id].largest());
    }
    for (const auto& [id, updated] : serial.updated) parameter_scales_[id] = TensorScale(updated, input.by_rows);
    for (const Tensor& output : serial.outputs) output_scales_.emplace_back(output, input.by_rows);
  }

  void on_update(std::int64_t rank, std::uint32_t parameter, const Tensor& gradient, const Tensor& updated) override {
    const ProgramParameter& here = input_.program.parameters[parameter];
    ShardedType type = input_.program.type(here.value);
    type.layout = here.state;
    const auto known = serial_.gradients.find(here.source);
    if (known == serial_.gradients.end()) return fail("the serial run has no gradient of '" + here.name + "'");
    compare(rank, "gradient of " + here.name, gradient, known->second, type, gradient_scales_.at(here.source),
            input_.floor * largest_gradient_);
    compare(rank, here.name, updated, serial_.updated.at(here.source), type, parameter_scales_.at(here.source), input_.floor,
            &gradient, &input_.sources.at(here.source));
    if (here.updated != kNoId) assemble(rank, parameter, type, updated);
  }

  // Held against the shards that the ranks gathered it from, which were compared by themselves.
  void on_gathered(std::int64_t rank, std::uint32_t parameter, const Tensor& value) override {
    const ProgramParameter& here = input_.program.parameters[parameter];
    std::optional<Tensor> shards;
    {
      // Ranks that this one gathers nothing from may be at their update still.
      const std::scoped_lock lock(mutex_);
      if (const auto known = assembled_.find(parameter); known != assembled_.end()) shards = known->second;
    }
    if (!shards) return fail("'" + here.name + "' was gathered without having been updated");
    compare(rank, here.name, value, *shards, input_.program.type(here.value), parameter_scales_.at(here.source), input_.floor);
  }

  void on_output(std::int64_t rank, std::uint32_t output, const Tensor& value) override {
    const ProgramOutput& here = input_.program.outputs[output];
    const ProgramValue& described = input_.program.values[here.value];
    const std::string name = here.kind == OutputKind::loss ? "loss" : here.target.empty() ? described.name : here.target;
    compare(rank, name, value, serial_.outputs[output], described.type, output_scales_[output], input_.floor);
    if (here.kind != OutputKind::loss) return;
    const std::scoped_lock lock(mutex_);
    if (rank == 0) loss_ += value.get(0) / static_cast<double>(input_.program.training.microbatches);
  }

  void finish(Verification& result) const {
    const std::int64_t ranks = input_.program.mesh.devices();
    std::size_t gathered = 0;
    for (const ProgramParameter& parameter : input_.program.parameters) gathered += parameter.updated != kNoId ? 1 : 0;
    const auto expected = static_cast<std::int64_t>(2 * serial_.gradients.size() + gathered + serial_.outputs.size()) * ranks;
    result.max_relative_error = worst_;
    result.worst_tensor = worst_tensor_;
    result.worst_rank = worst_rank_;
    result.loss_parallel = loss_;
    result.tensors = compared_;
    result.problem = problem_;
    if (problem_.empty() && compared_ != expected) {
      result.problem = std::to_string(compared_) + " tensors were compared, not " + std::to_string(expected);
    }
    result.equal = result.problem.empty() && worst_ <= input_.tolerance;
  }

 private:
  void fail(const std::string& problem) {
    const std::scoped_lock lock(mutex_);
    if (problem_.empty()) problem_ = problem;
  }

  void assemble(std::int64_t rank, std::uint32_t parameter, const ShardedType& type, const Tensor& part) {
    const ShardIndex index(type, input_.program.mesh, coordinates_of(input_.program.mesh, rank));
    const std::scoped_lock lock(mutex_);
    Tensor& whole = assembled_.try_emplace(parameter, type.type).first->second;
    for (std::int64_t i = 0; i < part.elements(); ++i) {
      if (const std::int64_t place = index.global(i); place >= 0) whole.set(place, part.get(i));
    }
  }

  // For an updated parameter, `gradient` is the rank's own, and `before` the whole parameter before the step. AdamW's first
  // step is nearly the gradient's sign, so that where a gradient is nearly zero rounding decides it. There the step is held
  // against what this very gradient gives; that the gradient is right is compared by itself.
  void compare(std::int64_t rank, const std::string& name, const Tensor& part, const Tensor& whole, const ShardedType& type,
               const TensorScale& scales, double floor, const Tensor* gradient = nullptr, const Tensor* before = nullptr) {
    const Mesh& mesh = input_.program.mesh;
    const ShardIndex index(type, mesh, coordinates_of(mesh, rank));
    double worst = 0;
    for (std::int64_t i = 0; i < part.elements(); ++i) {
      const std::int64_t place = index.global(i);
      if (place < 0) continue;  // padding
      const double scale = std::max(scales.at(place), floor);
      double difference = std::abs(part.get(i) - whole.get(place));
      if (gradient && difference > input_.tolerance * scale) {
        const double step = take_step(before->get(place), gradient->get(i), input_.program.training.optimizer, settings_);
        difference = std::abs(part.get(i) - step);
      }
      const double error = difference == 0 ? 0 : difference / scale;  // the scale is 0 where every gradient is
      if (!(error <= worst)) worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    }
    const std::scoped_lock lock(mutex_);
    ++compared_;
    // The same answer whichever thread comes first.
    if (worst > worst_ || (worst == worst_ && std::pair(name, rank) < std::pair(worst_tensor_, worst_rank_)) || worst_tensor_.empty()) {
      worst_ = std::max(worst, worst_);
      worst_tensor_ = name;
      worst_rank_ = rank;
    }
  }

  const VerifyInput& input_;
  const SerialStep& serial_;
  const OptimizerSettings settings_;
  std::map<ValueId, TensorScale> gradient_scales_, parameter_scales_;
  std::vector<TensorScale> output_scales_;
  double largest_gradient_ = 0;
  std::map<std::uint32_t, Tensor> assembled_;  // updated parameters, from the shards of all ranks
  std::mutex mutex_;
  double worst_ = 0;
  std::string worst_tensor_;
  std::int64_t worst_rank_ = 0;
  std::int64_t compared_ = 0;
  double loss_ = 0;
  std::string problem_;
};

}  // namespace

Result<Verification> verify(const VerifyInput& input) {
  const OptimizerSettings settings;
  Result<SerialStep> serial =
      run_serial({input.graph, input.ops, input.kernels, input.sources, input.program.training.optimizer, settings,
                  0.1 * input.tolerance, input.further});
  if (!serial) return add_context("the run on one device", serial.error());
  Comparison comparison(input, *serial, settings);
  BackendInput run{input.program, input.ops, input.profile, input.kernels, {}, &comparison, settings};
  run.source = [&](ValueId id, std::int64_t microbatch) -> const Tensor* {
    const auto& sources = microbatch == 0 ? input.sources : input.further[static_cast<std::size_t>(microbatch - 1)];
    const auto found = sources.find(id);
    return found == sources.end() ? nullptr : &found->second;
  };
  Result<Report> report = input.backend.run(run);
  if (!report) return report.error();
  Verification result;
  comparison.finish(result);
  for (std::size_t i = 0; i < input.program.outputs.size(); ++i) {
    if (input.program.outputs[i].kind != OutputKind::loss) continue;
    result.loss_serial += serial->outputs[i].get(0) / static_cast<double>(input.program.training.microbatches);
  }
  result.near_ties = serial->near_ties;
  result.ranks = report->ranks;
  result.bytes_sent_measured = report->bytes_sent;
  result.bytes_sent_predicted = sent_bytes(input.program);
  result.peak_bytes_measured = report->peak_bytes;
  const std::vector<std::int64_t> curve = memory_curve(input.program);
  result.peak_bytes_predicted = curve.empty() ? 0 : *std::max_element(curve.begin(), curve.end());
  return result;
}

}  // namespace meshwright
