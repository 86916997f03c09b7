#include "serial.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace meshwright {

namespace {

// The gap between the last score that is chosen and the first one that is not, row by row.
NearTies count_near_ties(const OpCall& call, const Tensor& scores, const Tensor& chosen, double tie) {
  const std::int64_t rank = scores.type().rank(), dim = call.node.integer("dim", -1);
  if (rank == 0) return {call.node.name, 1, 0};
  const auto at = static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
  const std::int64_t size = scores.shape()[at], k = chosen.shape()[at];
  std::int64_t inner = 1;
  for (std::size_t d = at + 1; d < scores.shape().size(); ++d) inner *= scores.shape()[d];
  NearTies found{call.node.name, scores.elements() / std::max<std::int64_t>(size, 1), 0};
  const double sign = call.node.boolean("largest", true) ? 1 : -1;
  std::vector<double> row(static_cast<std::size_t>(size));
  for (std::int64_t r = 0; k > 0 && k < size && r < found.rows; ++r) {
    for (std::int64_t i = 0; i < size; ++i) row[static_cast<std::size_t>(i)] = sign * scores.get((r / inner * size + i) * inner + r % inner);
    std::sort(row.begin(), row.end(), std::greater<>());
    const double largest = std::max(std::abs(row.front()), std::abs(row.back()));
    if (row[static_cast<std::size_t>(k - 1)] - row[static_cast<std::size_t>(k)] <= tie * largest) ++found.ties;
  }
  return found;
}

// As torch.optim takes the step of this number; momentum's buffer is `first`.
template <class T>
void take_step(Optimizer optimizer, const OptimizerSettings& settings, std::int64_t number, std::span<const T> gradient, std::span<T> parameter,
               std::span<T> first, std::span<T> second) {
  const auto numbers = static_cast<double>(number);
  const double rate = settings.learning_rate / (1 - std::pow(settings.beta1, numbers));
  const double correction = 1 / std::sqrt(1 - std::pow(settings.beta2, numbers));
  const double kept = 1 - settings.learning_rate * (optimizer == Optimizer::adamw ? settings.weight_decay : 0);
  const std::size_t count = parameter.size();
  if (optimizer == Optimizer::sgd) {
    for (std::size_t i = 0; i < count; ++i) parameter[i] = static_cast<T>(static_cast<double>(parameter[i]) - settings.learning_rate * static_cast<double>(gradient[i]));
    return;
  }
  if (optimizer == Optimizer::momentum) {
    for (std::size_t i = 0; i < count; ++i) {
      first[i] = static_cast<T>(settings.momentum * static_cast<double>(first[i]) + static_cast<double>(gradient[i]));
      parameter[i] = static_cast<T>(static_cast<double>(parameter[i]) - settings.learning_rate * static_cast<double>(first[i]));
    }
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto slope = static_cast<double>(gradient[i]);
    first[i] = static_cast<T>(settings.beta1 * static_cast<double>(first[i]) + (1 - settings.beta1) * slope);
    second[i] = static_cast<T>(settings.beta2 * static_cast<double>(second[i]) + (1 - settings.beta2) * slope * slope);
    const double moved = rate * static_cast<double>(first[i]) / (std::sqrt(static_cast<double>(second[i])) * correction + settings.epsilon);
    parameter[i] = static_cast<T>(static_cast<double>(parameter[i]) * kept - moved);
  }
}

class SerialRunner {
 public:
  SerialRunner(const TrainingGraph& training, const OpTable& ops, const KernelTable* kernels,
               std::vector<const Tensor*> sources, double tie)
      : tie_(tie), graph_(training.graph), ops_(ops), kernels_(kernels), sources_(std::move(sources)), values_(graph_.values.size()) {
    last_use_.assign(graph_.values.size(), 0);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      for (const Operand& operand : graph_.nodes[id].operands) last_use_[operand.value] = id;
    }
  }

  void keep(ValueId id) { last_use_[id] = static_cast<NodeId>(graph_.nodes.size()); }

  Status run() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      std::vector<const Tensor*> operands;
      for (const Operand& operand : node.operands) operands.push_back(&value(operand.value));
      Result<std::vector<Tensor>> results = compute(make_call(graph_, node), operands, ops_, kernels_);
      if (!results) return results.error();
      if (node.op == "aten.topk") {
        const NearTies ties = count_near_ties(make_call(graph_, node), *operands[0], (*results)[0], tie_);
        if (ties.ties > 0) near_ties_.push_back(ties);
      }
      for (std::size_t i = 0; i < node.results.size(); ++i) {
        if (last_use_[node.results[i]] > id) values_[node.results[i]] = std::move((*results)[i]);
      }
      for (const Operand& operand : node.operands) {
        if (last_use_[operand.value] == id) values_[operand.value] = Tensor();
      }
    }
    return Done{};
  }

  [[nodiscard]] const std::vector<NearTies>& near_ties() const { return near_ties_; }

  [[nodiscard]] const Tensor& value(ValueId id) const { return sources_[id] != nullptr ? *sources_[id] : values_[id]; }

 private:
  const double tie_;
  std::vector<NearTies> near_ties_;
  const Graph& graph_;
  const OpTable& ops_;
  const KernelTable* kernels_;
  const std::vector<const Tensor*> sources_;  // by value; null: computed
  std::vector<Tensor> values_;
  std::vector<NodeId> last_use_;
};

}  // namespace

SerialTraining::SerialTraining(const SerialInput& input, TrainingGraph training)
    : input_(input),
      training_(std::move(training)),
      microbatches_(static_cast<std::int64_t>(input.further.size()) + 1),
      settings_(input.settings) {}

Result<SerialStep> SerialTraining::step() { return step_through(input_.further); }

Result<SerialStep> SerialTraining::step(const StepInputs& inputs) {
  take(inputs.front());
  return step_through(std::span(inputs).subspan(1));
}

void SerialTraining::take(const std::map<ValueId, Tensor>& inputs) {
  for (const auto& [id, tensor] : inputs) changed_.insert_or_assign(id, tensor);
}

const Tensor& SerialTraining::source(ValueId id) const {
  const auto found = changed_.find(id);
  return found != changed_.end() ? found->second : input_.sources.at(id);
}

// Microbatches one after the other: gradients add up to those of the mean of their losses.
Result<SerialStep> SerialTraining::step_through(std::span<const std::map<ValueId, Tensor>> further) {
  if (Status status = run_microbatch(further.empty()); !status) return status.error();
  for (std::size_t i = 0; i < further.size(); ++i) {
    take(further[i]);
    if (Status status = run_microbatch(i + 1 == further.size()); !status) return status.error();
  }
  if (++steps_ == 1) choose_epsilon();
  for (const auto& [id, gradient] : step_.gradients) step_.updated.emplace(id, updated(id, gradient));
  return std::exchange(step_, {});
}

Status SerialTraining::run_microbatch(bool last) {
  const Graph& graph = input_.graph;
  std::vector<const Tensor*> sources(training_.graph.values.size(), nullptr);
  for (const Source& source_of_graph : graph.sources) sources[source_of_graph.value] = &source(source_of_graph.value);
  SerialRunner runner(training_, input_.ops, input_.kernels, std::move(sources), input_.tie);
  for (const Output& output : graph.outputs) runner.keep(output.value);
  for (const auto& [parameter, gradient] : gradients()) runner.keep(gradient);
  if (Status status = runner.run(); !status) return status;
  step_.near_ties.insert(step_.near_ties.end(), runner.near_ties().begin(), runner.near_ties().end());
  std::map<ValueId, Tensor> changed;
  for (const Output& output : graph.outputs) {
    const Tensor& value = runner.value(output.value);
    const bool mutates = output.kind == OutputKind::buffer_mutation;
    if (mutates) changed.emplace(buffer_named(output.target), value);
    if (mutates ? last : output.kind == OutputKind::loss || microbatches_ == 1) step_.outputs.push_back(value);
  }
  for (const auto& [parameter, gradient] : gradients()) add(parameter, runner.value(gradient));
  for (auto& [id, tensor] : changed) changed_.insert_or_assign(id, std::move(tensor));
  return Done{};
}

std::vector<std::pair<ValueId, ValueId>> SerialTraining::gradients() const {
  std::vector<std::pair<ValueId, ValueId>> found;
  for (const Source& source : input_.graph.sources) {
    const ValueId gradient = training_.gradients[source.value];
    if (source.kind == SourceKind::parameter && gradient != kNoId) found.emplace_back(source.value, gradient);
  }
  return found;
}

ValueId SerialTraining::buffer_named(const std::string& target) const {
  for (const Source& source : input_.graph.sources) {
    if (std::find(source.names.begin(), source.names.end(), target) != source.names.end()) return source.value;
  }
  return kNoId;
}

void SerialTraining::add(ValueId parameter, const Tensor& gradient) {
  const auto [sum, first] = step_.gradients.try_emplace(parameter, gradient);
  if (microbatches_ == 1) return;
  for (std::int64_t i = 0; i < gradient.elements(); ++i) {
    const double share = gradient.get(i) / static_cast<double>(microbatches_);
    sum->second.set(i, first ? share : sum->second.get(i) + share);
  }
}

void SerialTraining::choose_epsilon() {
  double largest = 0;
  for (const auto& [id, gradient] : step_.gradients) {
    for (std::int64_t i = 0; i < gradient.elements(); ++i) largest = std::max(largest, std::abs(gradient.get(i)));
  }
  if (input_.relative_epsilon > 0 && largest > 0 && std::isfinite(largest)) settings_.epsilon = input_.relative_epsilon * largest;
}

Tensor SerialTraining::updated(ValueId parameter, const Tensor& gradient) {
  const Tensor& before = source(parameter);
  Tensor after = before;
  const TensorType &type = before.type(), nothing{type.dtype, {0}};
  const bool is_sgd = input_.optimizer == Optimizer::sgd, has_one = is_sgd || input_.optimizer == Optimizer::momentum;
  State& state = states_.try_emplace(parameter, State{Tensor(is_sgd ? nothing : type), Tensor(has_one ? nothing : type)}).first->second;
  const auto step = [&]<class T>(T) {
    take_step<T>(input_.optimizer, settings_, steps_, gradient.as<T>(), after.as<T>(), state.first.as<T>(), state.second.as<T>());
  };
  type.dtype == DType::float64 ? step(0.0) : step(0.0F);
  return after;
}

Result<SerialStep> run_serial(const SerialInput& input) {
  Result<TrainingGraph> training = differentiate(input.graph, input.ops);
  if (!training) return training.error();
  return SerialTraining(input, std::move(*training)).step();
}

}  // namespace meshwright
