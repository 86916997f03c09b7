#include "verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include "box_runs.h"
#include "meshwright/shard.h"
#include "meshwright/training_graph.h"
#include "tensor_scale.h"

namespace meshwright {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Among `count` elements of two tensors. NaN counts as infinite.
double largest_difference(const Tensor& one, std::size_t at_one, const Tensor& other, std::size_t at_other, std::size_t count) {
  double largest = 0;
  if (one.type().dtype == DType::float32 && other.type().dtype == DType::float32) {
    const float *a = one.as<float>().data() + at_one, *b = other.as<float>().data() + at_other;
    largest = largest_size(count, [a, b](std::size_t i) { return a[i] - b[i]; });
  } else {
    for (std::size_t i = 0; i < count && !std::isnan(largest); ++i) {
      const double difference = std::abs(one.get(static_cast<std::int64_t>(at_one + i)) - other.get(static_cast<std::int64_t>(at_other + i)));
      if (!(difference <= largest)) largest = difference;
    }
  }
  return std::isnan(largest) ? kInfinity : largest;
}

class Comparison final : public RunObserver {
 public:
  Comparison(const VerifyInput& input, SerialStep serial, std::int64_t step)
      : input_(input), outputs_(std::move(serial.outputs)), step_(step == 0 ? "" : ", step " + std::to_string(step + 1)) {
    for (auto& [id, gradient] : serial.gradients) {
      Parameter& here = parameters_[id];
      here.gradient_scale = TensorScale(gradient, input.by_rows);
      here.gradient = std::move(gradient);
      here.updated = std::move(serial.updated.at(id));
      here.updated_scale = TensorScale(here.updated, input.by_rows);
      here.ranks_left = input.program.mesh.devices();
      largest_gradient_ = std::max(largest_gradient_, here.gradient_scale.largest());
    }
    for (const Tensor& output : outputs_) output_scales_.emplace_back(output, input.by_rows);
  }

  void on_update(std::int64_t rank, std::uint32_t parameter, const Tensor& gradient, const Tensor& updated) override {
    const ProgramParameter& here = input_.program.parameters[parameter];
    ShardedType type = input_.program.type(here.value);
    type.layout = here.state;
    const auto known = parameters_.find(here.source);
    if (known == parameters_.end()) return fail("the serial run has no gradient of '" + here.name + "'");
    Parameter& truth = known->second;
    compare(rank, "gradient of " + here.name, gradient, truth.gradient, type, truth.gradient_scale, input_.floor * largest_gradient_);
    compare(rank, here.name, updated, truth.updated, type, truth.updated_scale, input_.floor);
    drop_behind_last_rank(truth);
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
    compare(rank, here.name, value, *shards, input_.program.type(here.value), parameters_.at(here.source).updated_scale, input_.floor);
  }

  void on_output(std::int64_t rank, std::uint32_t output, const Tensor& value) override {
    const ProgramOutput& here = input_.program.outputs[output];
    const ProgramValue& described = input_.program.values[here.value];
    const std::string name = here.kind == OutputKind::loss ? "loss" : here.target.empty() ? described.name : here.target;
    compare(rank, name, value, outputs_[output], described.type, output_scales_[output], input_.floor);
    if (here.kind != OutputKind::loss) return;
    const std::scoped_lock lock(mutex_);
    if (rank == 0) loss_ += value.get(0) / static_cast<double>(input_.program.training.microbatches);
  }

  void finish(Verification& result) const {
    const std::int64_t ranks = input_.program.mesh.devices();
    std::size_t gathered = 0;
    for (const ProgramParameter& parameter : input_.program.parameters) gathered += parameter.updated != kNoId ? 1 : 0;
    const auto expected = static_cast<std::int64_t>(2 * parameters_.size() + gathered + outputs_.size()) * ranks;
    if (result.steps == 0) result.loss_parallel = loss_;
    if (result.steps == 0 || worst_ > result.max_relative_error) {
      result.max_relative_error = worst_;
      result.worst_tensor = worst_tensor_ + step_;
      result.worst_rank = worst_rank_;
    }
    result.tensors += compared_;
    std::string problem = problem_;
    if (problem.empty() && compared_ != expected) problem = std::to_string(compared_) + " tensors were compared, not " + std::to_string(expected);
    if (result.problem.empty() && !problem.empty()) result.problem = problem + step_;
    ++result.steps;
    result.equal = result.problem.empty() && result.max_relative_error <= input_.tolerance;
  }

 private:
  // What one device computes of a parameter.
  struct Parameter {
    Tensor gradient, updated;
    TensorScale gradient_scale, updated_scale;
    std::int64_t ranks_left = 0;  // that have not been compared yet
  };

  // The tensors are as large as the model: memory that ranks can use.
  void drop_behind_last_rank(Parameter& truth) {
    const std::scoped_lock lock(mutex_);
    if (--truth.ranks_left == 0) truth.gradient = truth.updated = Tensor();
  }

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

  void compare(std::int64_t rank, const std::string& name, const Tensor& part, const Tensor& whole, const ShardedType& type,
               const TensorScale& scales, double floor) {
    const Mesh& mesh = input_.program.mesh;
    const Box here = box_of(type.layout, type.atoms, mesh, coordinates_of(mesh, rank));
    const Box all = whole_box(type.atoms.sizes);
    double worst = 0;
    for_each_run(here, all, intersect(all, here), [&](std::size_t from, std::size_t to, std::size_t count) {  // padding is left out
      for (std::size_t i = 0; i < count;) {
        const auto place = static_cast<std::int64_t>(to + i);
        const std::size_t end = std::min(count, i + static_cast<std::size_t>(scales.alike_from(place)));
        const double scale = std::max(scales.at(place), floor);
        const double largest = largest_difference(part, from + i, whole, to + i, end - i);
        i = end;
        const double error = largest == 0 ? 0 : largest / scale;  // the scale is 0 where every gradient is
        if (!(error <= worst)) worst = std::isnan(error) ? kInfinity : error;
      }
    });
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
  std::map<ValueId, Parameter> parameters_;
  const std::vector<Tensor> outputs_;
  const std::string step_;  // for the names of tensors
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

namespace {

TensorSource source_of(const std::map<ValueId, Tensor>& first, std::span<const std::map<ValueId, Tensor>> further) {
  return [&first, further](ValueId id, std::int64_t microbatch) -> const Tensor* {
    const auto& sources = microbatch == 0 ? first : further[static_cast<std::size_t>(microbatch - 1)];
    const auto found = sources.find(id);
    return found == sources.end() ? nullptr : &found->second;
  };
}

// One device goes on with the parameters and buffers that the ranks have now: they were compared, and a step that begins with
// the very same numbers does not tell how much a model makes of what they were rounded to.
Status go_on_from(const Executable& executable, const VerifyInput& input, SerialTraining& serial) {
  std::vector<ValueId> kept;
  for (const ProgramParameter& parameter : input.program.parameters) kept.push_back(parameter.source);
  for (const ProgramOutput& output : input.program.outputs) {
    if (output.buffer != kNoId) kept.push_back(output.buffer);
  }
  for (const ValueId id : kept) {
    Result<Tensor> now = executable.fetch(id);
    if (!now) return now.error();
    serial.replace(id, std::move(*now));
  }
  return Done{};
}

}  // namespace

Result<Verification> verify(VerifyInput input) {
  const SerialInput on_one{input.graph, input.ops, input.kernels, input.sources, input.program.training.optimizer, {}, 0.1 * input.tolerance, input.further, 0.01};
  Result<TrainingGraph> training = differentiate(input.graph, input.ops);
  if (!training) return add_context("the run on one device", training.error());
  std::optional<SerialTraining> serial(std::in_place, on_one, std::move(*training));
  std::unique_ptr<Executable> executable;
  Verification result;
  for (std::size_t s = 0; s <= input.later.size(); ++s) {
    const TensorSource inputs = s == 0 ? source_of(input.sources, input.further) : source_of(input.later[s - 1].front(), std::span(input.later[s - 1]).subspan(1));
    if (s > 0) {
      if (Status status = go_on_from(*executable, input, *serial); !status) return status.error();
    }
    Result<SerialStep> truth = s == 0 ? serial->step() : serial->step(input.later[s - 1]);
    if (!truth) return add_context("the run on one device", truth.error());
    if (s == 0) {
      Result<std::unique_ptr<Executable>> made = input.backend.compile({input.program, input.ops, input.profile, input.kernels, {}, nullptr, serial->settings()});
      if (!made) return made.error();
      executable = std::move(*made);
      if (Status status = executable->load(inputs); !status) return status.error();
    }
    if (s == input.later.size()) {  // what nobody asks for any more is as large as the model, some times over
      serial.reset();
      for (const ProgramParameter& parameter : input.program.parameters) input.sources.erase(parameter.source);
    }
    for (std::size_t i = 0; s == 0 && i < input.program.outputs.size(); ++i) {
      if (input.program.outputs[i].kind != OutputKind::loss) continue;
      result.loss_serial += truth->outputs[i].get(0) / static_cast<double>(input.program.training.microbatches);
    }
    if (s == 0) result.near_ties = truth->near_ties;
    Comparison comparison(input, std::move(*truth), static_cast<std::int64_t>(s));
    const Result<Report> report = executable->step(inputs, &comparison);
    if (!report) return report.error();
    comparison.finish(result);
    if (s > 0) continue;
    result.ranks = report->ranks;
    result.bytes_sent_measured = report->bytes_sent;
    result.peak_bytes_measured = report->peak_bytes;
    result.arena_bytes = report->arena_bytes;
  }
  result.bytes_sent_predicted = sent_bytes(input.program);
  const std::vector<std::int64_t> curve = memory_curve(input.program);
  result.peak_bytes_predicted = curve.empty() ? 0 : *std::max_element(curve.begin(), curve.end());
  return result;
}

}  // namespace meshwright
