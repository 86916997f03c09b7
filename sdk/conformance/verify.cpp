#include "verify.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include "box_runs.h"
#include "meshwright/stages.h"
#include "meshwright/shard.h"
#include "meshwright/training_graph.h"
#include "runner.h"
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

// A program that is compared: of the whole model, or of a stage.
class Part {
 public:
  Part(const VerifyInput& input, const Graph& graph, const Program& program) : program_(program), in_model_(values_in_model(input.graph, graph)) {
    for (const ProgramOutput& output : program.outputs) outputs_.push_back(place_of(input, output));
  }

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] ValueId in_model(ValueId id) const { return in_model_[id]; }
  [[nodiscard]] const std::vector<ValueId>& in_model() const { return in_model_; }
  [[nodiscard]] std::size_t output(std::uint32_t i) const { return outputs_[i]; }  // among those of the run on one device

 private:
  // One device gives the loss of each microbatch, and what the last one leaves in buffers; all outputs if there is one.
  [[nodiscard]] std::size_t place_of(const VerifyInput& input, const ProgramOutput& wanted) const {
    std::size_t place = 0;
    const std::int64_t microbatches = program_.training.microbatches;
    for (std::int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (const Output& output : input.graph.outputs) {
        const bool given = output.kind == OutputKind::buffer_mutation ? microbatch + 1 == microbatches : output.kind == OutputKind::loss || microbatches == 1;
        if (!given) continue;
        if (output.kind == wanted.kind && output.value == in_model_[wanted.source] && output.target == wanted.target && microbatch == wanted.microbatch) return place;
        ++place;
      }
    }
    return place;
  }

  const Program& program_;
  const std::vector<ValueId> in_model_;  // by value of its graph
  std::vector<std::size_t> outputs_;
};

std::vector<Part> compared_parts(const VerifyInput& input) {
  std::vector<Part> parts;
  for (const VerifiedStage& stage : input.stages) parts.emplace_back(input, stage.graph, stage.program);
  if (parts.empty()) parts.emplace_back(input, input.graph, input.program);
  return parts;
}

class Comparison {
 public:
  Comparison(const VerifyInput& input, const std::vector<Part>& parts, SerialStep serial, std::int64_t step)
      : input_(input), parts_(parts), outputs_(std::move(serial.outputs)), step_(step == 0 ? "" : ", step " + std::to_string(step + 1)), assembled_(parts.size()) {
    for (auto& [id, gradient] : serial.gradients) {
      Parameter& here = parameters_[id];
      here.gradient_scale = TensorScale(gradient, input.by_rows);
      here.gradient = std::move(gradient);
      here.updated = std::move(serial.updated.at(id));
      here.updated_scale = TensorScale(here.updated, input.by_rows);
      largest_gradient_ = std::max(largest_gradient_, here.gradient_scale.largest());
    }
    for (const Part& part : parts) {
      for (const ProgramParameter& parameter : part.program().parameters) {
        const auto known = parameters_.find(part.in_model(parameter.source));
        if (known != parameters_.end()) known->second.ranks_left += part.program().mesh.devices();
      }
    }
    for (const Tensor& output : outputs_) output_scales_.emplace_back(output, input.by_rows);
    for (std::size_t i = 0; i < parts.size(); ++i) observers_.emplace_back(*this, i);
    const std::vector<std::uint32_t> groups = groups_of_stages(input.orders, parts.size()).value();
    std::map<std::uint32_t, std::int64_t> devices;  // by group
    for (std::size_t i = 0; i < parts.size(); ++i) devices[groups[i]] = parts[i].program().mesh.devices();
    for (const std::uint32_t group : groups) {
      std::int64_t& ranks = first_rank_.emplace_back(0);
      for (const auto& [before, count] : devices) ranks += before < group ? count : 0;
    }
  }

  // One for each part.
  [[nodiscard]] std::vector<RunObserver*> observers() {
    std::vector<RunObserver*> all;
    for (Observer& observer : observers_) all.push_back(&observer);
    return all;
  }

  void finish(Verification& result) const {
    std::int64_t expected = 0;
    for (const Part& part : parts_) {
      std::int64_t tensors = std::ssize(part.program().outputs);
      for (const ProgramParameter& parameter : part.program().parameters) {
        const bool trained = parameters_.contains(part.in_model(parameter.source));
        tensors += (trained ? 2 : 0) + (parameter.updated != kNoId ? 1 : 0);
      }
      expected += tensors * part.program().mesh.devices();
    }
    if (result.steps == 0) result.loss_parallel = loss_;
    if (result.steps == 0 || worst_ > result.max_relative_error) {
      result.max_relative_error = worst_;
      result.worst_tensor = worst_tensor_ + step_;
      result.worst_rank = worst_rank_;
    }
    result.tensors += compared_;
    std::string problem = problem_;
    if (problem.empty() && compared_ != expected) problem = std::to_string(compared_) + " tensors were compared, not " + std::to_string(expected);
    if (problem.empty()) problem = missing();
    if (result.problem.empty() && !problem.empty()) result.problem = problem + step_;
    ++result.steps;
    result.equal = result.problem.empty() && result.max_relative_error <= input_.tolerance;
  }

 private:
  class Observer final : public RunObserver {
   public:
    Observer(Comparison& all, std::size_t part) : all_(all), part_(part) {}
    void on_update(std::int64_t rank, std::uint32_t parameter, const Tensor& gradient, const Tensor& updated) override { all_.on_update(part_, rank, parameter, gradient, updated); }
    void on_gathered(std::int64_t rank, std::uint32_t parameter, const Tensor& value) override { all_.on_gathered(part_, rank, parameter, value); }
    void on_output(std::int64_t rank, std::uint32_t output, const Tensor& value) override { all_.on_output(part_, rank, output, value); }

   private:
    Comparison& all_;
    const std::size_t part_;
  };

  // What one device computes of a parameter.
  struct Parameter {
    Tensor gradient, updated;
    TensorScale gradient_scale, updated_scale;
    std::int64_t ranks_left = 0;  // that have not been compared yet
  };

  void on_update(std::size_t part, std::int64_t rank, std::uint32_t parameter, const Tensor& gradient, const Tensor& updated) {
    const Program& program = parts_[part].program();
    const ProgramParameter& here = program.parameters[parameter];
    ShardedType type = program.type(here.value);
    type.layout = here.state;
    const auto known = parameters_.find(parts_[part].in_model(here.source));
    if (known == parameters_.end()) return fail("the serial run has no gradient of '" + here.name + "'");
    Parameter& truth = known->second;
    compare(part, rank, "gradient of " + here.name, gradient, truth.gradient, type, truth.gradient_scale, input_.floor * largest_gradient_);
    compare(part, rank, here.name, updated, truth.updated, type, truth.updated_scale, input_.floor);
    drop_behind_last_rank(truth);
    if (here.updated != kNoId) assemble(part, rank, parameter, type, updated);
  }

  // Held against the shards that the ranks gathered it from, which were compared by themselves.
  void on_gathered(std::size_t part, std::int64_t rank, std::uint32_t parameter, const Tensor& value) {
    const Program& program = parts_[part].program();
    const ProgramParameter& here = program.parameters[parameter];
    std::optional<Tensor> shards;
    {
      // Ranks that this one gathers nothing from may be at their update still.
      const std::scoped_lock lock(mutex_);
      if (const auto known = assembled_[part].find(parameter); known != assembled_[part].end()) shards = known->second;
    }
    if (!shards) return fail("'" + here.name + "' was gathered without having been updated");
    compare(part, rank, here.name, value, *shards, program.type(here.value), parameters_.at(parts_[part].in_model(here.source)).updated_scale, input_.floor);
  }

  void on_output(std::size_t part, std::int64_t rank, std::uint32_t output, const Tensor& value) {
    const Program& program = parts_[part].program();
    const ProgramOutput& here = program.outputs[output];
    const ProgramValue& described = program.values[here.value];
    const std::string name = here.kind == OutputKind::loss ? "loss" : here.target.empty() ? described.name : here.target;
    const std::size_t place = parts_[part].output(output);
    if (place >= outputs_.size()) return fail("the serial run has no output '" + name + "'");
    compare(part, rank, name, value, outputs_[place], described.type, output_scales_[place], input_.floor);
    if (here.kind != OutputKind::loss) return;
    const std::scoped_lock lock(mutex_);
    if (rank == 0) loss_ += value.get(0) / static_cast<double>(program.training.microbatches);
  }

  // Every parameter with a gradient is one of some stage.
  [[nodiscard]] std::string missing() const {
    for (const auto& [id, parameter] : parameters_) {
      const auto has = [&](const Part& part) { return std::ranges::any_of(part.program().parameters, [&](const ProgramParameter& each) { return part.in_model(each.source) == id; }); };
      if (std::ranges::none_of(parts_, has)) return "no rank has '" + input_.graph.values[id].name + "'";
    }
    return "";
  }

  // The tensors are as large as the model: memory that ranks can use.
  void drop_behind_last_rank(Parameter& truth) {
    const std::scoped_lock lock(mutex_);
    if (--truth.ranks_left == 0) truth.gradient = truth.updated = Tensor();
  }

  void fail(const std::string& problem) {
    const std::scoped_lock lock(mutex_);
    if (problem_.empty()) problem_ = problem;
  }

  void assemble(std::size_t part, std::int64_t rank, std::uint32_t parameter, const ShardedType& type, const Tensor& shard) {
    const Mesh& mesh = parts_[part].program().mesh;
    const ShardIndex index(type, mesh, coordinates_of(mesh, rank));
    const std::scoped_lock lock(mutex_);
    Tensor& whole = assembled_[part].try_emplace(parameter, type.type).first->second;
    for (std::int64_t i = 0; i < shard.elements(); ++i) {
      if (const std::int64_t place = index.global(i); place >= 0) whole.set(place, shard.get(i));
    }
  }

  void compare(std::size_t of, std::int64_t rank, const std::string& name, const Tensor& part, const Tensor& whole, const ShardedType& type,
               const TensorScale& scales, double floor) {
    const Mesh& mesh = parts_[of].program().mesh;
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
    const std::int64_t number = first_rank_[of] + rank;
    if (worst > worst_ || (worst == worst_ && std::pair(name, number) < std::pair(worst_tensor_, worst_rank_)) || worst_tensor_.empty()) {
      worst_ = std::max(worst, worst_);
      worst_tensor_ = name;
      worst_rank_ = number;
    }
  }

  const VerifyInput& input_;
  const std::vector<Part>& parts_;
  std::map<ValueId, Parameter> parameters_;
  const std::vector<Tensor> outputs_;
  const std::string step_;  // for the names of tensors
  std::vector<TensorScale> output_scales_;
  double largest_gradient_ = 0;
  std::vector<std::map<std::uint32_t, Tensor>> assembled_;  // by part: updated parameters, from the shards of all ranks
  std::deque<Observer> observers_;
  std::vector<std::int64_t> first_rank_;  // by part: of the devices that have it
  std::mutex mutex_;
  double worst_ = 0;
  std::string worst_tensor_;
  std::int64_t worst_rank_ = 0;
  std::int64_t compared_ = 0;
  double loss_ = 0;
  std::string problem_;
};

// Compiles the program, or those of all stages.
Result<Runner> compile(const VerifyInput& input, const std::vector<Part>& parts, const OptimizerSettings& settings) {
  std::vector<Runner::Part> made;
  for (const Part& part : parts) made.push_back({{part.program(), input.ops, input.profile, input.kernels, {}, nullptr, settings}, part.in_model()});
  return Runner::compile(input.backend, std::move(made), input.orders, input.stages.empty());
}

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
Status go_on_from(const Runner& runner, const std::vector<Part>& parts, SerialTraining& serial) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<ValueId> kept;
    for (const ProgramParameter& parameter : parts[i].program().parameters) kept.push_back(parameter.source);
    for (const ProgramOutput& output : parts[i].program().outputs) {
      if (output.buffer != kNoId) kept.push_back(output.buffer);
    }
    for (const ValueId id : kept) {
      Result<Tensor> now = runner.fetch(i, id);
      if (!now) return now.error();
      serial.replace(parts[i].in_model(id), std::move(*now));
    }
  }
  return Done{};
}

std::int64_t peak_of(const Program& program) {
  const std::vector<std::int64_t> curve = memory_curve(program);
  return curve.empty() ? 0 : *std::max_element(curve.begin(), curve.end());
}

// Of programs that ran together.
std::vector<std::int64_t> group_peaks(const VerifyInput& input, const std::vector<Part>& parts) {
  std::vector<Program> programs;
  for (const Part& part : parts) programs.push_back(part.program());
  return peaks_of_groups(programs, joint_order(programs, input.orders).value(), groups_of_stages(input.orders, parts.size()).value());
}

}  // namespace

Result<Verification> verify(VerifyInput input) {
  const SerialInput on_one{input.graph, input.ops, input.kernels, input.sources, input.program.training.optimizer, {}, 0.1 * input.tolerance, input.further, 0.01};
  Result<TrainingGraph> training = differentiate(input.graph, input.ops);
  if (!training) return add_context("the run on one device", training.error());
  std::optional<SerialTraining> serial(std::in_place, on_one, std::move(*training));
  const std::vector<Part> parts = compared_parts(input);
  std::optional<Runner> runner;
  Verification result;
  for (std::size_t s = 0; s <= input.later.size(); ++s) {
    const TensorSource inputs = s == 0 ? source_of(input.sources, input.further) : source_of(input.later[s - 1].front(), std::span(input.later[s - 1]).subspan(1));
    if (s > 0) {
      if (Status status = go_on_from(*runner, parts, *serial); !status) return status.error();
    }
    Result<SerialStep> truth = s == 0 ? serial->step() : serial->step(input.later[s - 1]);
    if (!truth) return add_context("the run on one device", truth.error());
    if (s == 0) {
      Result<Runner> made = compile(input, parts, serial->settings());
      if (!made) return made.error();
      runner.emplace(std::move(*made));
      if (Status status = runner->load(inputs); !status) return status.error();
    }
    if (s == input.later.size()) {  // what nobody asks for any more is as large as the model, some times over
      serial.reset();
      for (const Part& part : parts) {
        for (const ProgramParameter& parameter : part.program().parameters) input.sources.erase(part.in_model(parameter.source));
      }
    }
    for (const Part& part : parts) {
      for (std::uint32_t i = 0; s == 0 && i < part.program().outputs.size(); ++i) {
        if (part.program().outputs[i].kind != OutputKind::loss || part.output(i) >= truth->outputs.size()) continue;
        result.loss_serial += truth->outputs[part.output(i)].get(0) / static_cast<double>(input.program.training.microbatches);
      }
    }
    if (s == 0) result.near_ties = truth->near_ties;
    Comparison comparison(input, parts, std::move(*truth), static_cast<std::int64_t>(s));
    const Result<Report> report = runner->step(inputs, comparison.observers());
    if (!report) return report.error();
    comparison.finish(result);
    if (s > 0) continue;
    result.ranks = report->ranks;
    result.bytes_sent_measured = report->bytes_sent;
    result.peak_bytes_measured = report->peak_bytes;
    result.arena_bytes = report->arena_bytes;
  }
  for (const Part& part : parts) result.bytes_sent_predicted += sent_bytes(part.program());
  result.peak_bytes_predicted = peak_of(parts.front().program());
  const std::vector<std::int64_t> measured = runner->group_peaks();
  if (measured.empty()) return result;
  const std::vector<std::int64_t> predicted = group_peaks(input, parts);
  result.peak_bytes_predicted = std::ranges::max(predicted);
  for (std::size_t group = 0; group < measured.size(); ++group) result.group_peaks.push_back({predicted[group], measured[group]});
  return result;
}

}  // namespace meshwright
