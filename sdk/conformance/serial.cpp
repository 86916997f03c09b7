#include "serial.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "meshwright/training_graph.h"

namespace meshwright {

namespace {

Tensor take_step(const Tensor& parameter, const Tensor& gradient, Optimizer optimizer, const OptimizerSettings& settings) {
  Tensor updated(parameter.type());
  for (std::int64_t i = 0; i < parameter.elements(); ++i) {
    updated.set(i, meshwright::take_step(parameter.get(i), gradient.get(i), optimizer, settings));
  }
  return updated;
}

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

class SerialRunner {
 public:
  SerialRunner(const TrainingGraph& training, const OpTable& ops, const KernelTable* kernels,
               const std::map<ValueId, Tensor>& sources, double tie)
      : tie_(tie), graph_(training.graph), ops_(ops), kernels_(kernels), sources_(sources), values_(graph_.values.size()) {
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

  [[nodiscard]] const Tensor& value(ValueId id) const {
    const auto source = sources_.find(id);
    return source != sources_.end() ? source->second : values_[id];
  }

 private:
  const double tie_;
  std::vector<NearTies> near_ties_;
  const Graph& graph_;
  const OpTable& ops_;
  const KernelTable* kernels_;
  const std::map<ValueId, Tensor>& sources_;
  std::vector<Tensor> values_;
  std::vector<NodeId> last_use_;
};

}  // namespace

double take_step(double value, double slope, Optimizer optimizer, const OptimizerSettings& settings) {
  const bool adam = optimizer == Optimizer::adam || optimizer == Optimizer::adamw;
  if (!adam) return value - settings.learning_rate * slope;  // with momentum, the first step is the plain one
  // The corrected moments are the gradient itself and its square.
  const double first = (1 - settings.beta1) * slope / (1 - settings.beta1);
  const double second = (1 - settings.beta2) * slope * slope / (1 - settings.beta2);
  const double decay = optimizer == Optimizer::adamw ? settings.weight_decay : 0;
  const double decayed = value * (1 - settings.learning_rate * decay);
  return decayed - settings.learning_rate * first / (std::sqrt(second) + settings.epsilon);
}

namespace {

// Microbatches one after the other: gradients add up to those of the mean of their losses.
class SerialStepper {
 public:
  SerialStepper(const SerialInput& input, const TrainingGraph& training, std::int64_t microbatches)
      : input_(input), training_(training), microbatches_(microbatches), sources_(input.sources) {}

  Result<SerialStep> run() {
    for (std::int64_t microbatch = 0; microbatch < microbatches_; ++microbatch) {
      if (microbatch > 0) {
        for (const auto& [id, tensor] : input_.further[static_cast<std::size_t>(microbatch - 1)]) sources_.insert_or_assign(id, tensor);
      }
      if (Status status = run_microbatch(microbatch == microbatches_ - 1); !status) return status.error();
    }
    for (const auto& [id, gradient] : step_.gradients) {
      step_.updated.emplace(id, take_step(sources_.at(id), gradient, input_.optimizer, input_.settings));
    }
    return std::move(step_);
  }

 private:
  Status run_microbatch(bool last) {
    const Graph& graph = input_.graph;
    SerialRunner runner(training_, input_.ops, input_.kernels, sources_, input_.tie);
    for (const Output& output : graph.outputs) runner.keep(output.value);
    for (const auto& [parameter, gradient] : gradients()) runner.keep(gradient);
    if (Status status = runner.run(); !status) return status;
    step_.near_ties.insert(step_.near_ties.end(), runner.near_ties().begin(), runner.near_ties().end());
    std::map<ValueId, Tensor> changed;
    for (const Output& output : graph.outputs) {
      const Tensor& value = runner.value(output.value);
      if (output.kind == OutputKind::buffer_mutation && !last) changed.emplace(buffer_named(output.target), value);
      else if (output.kind != OutputKind::user_output || microbatches_ == 1) step_.outputs.push_back(value);
    }
    for (const auto& [parameter, gradient] : gradients()) add(parameter, runner.value(gradient));
    for (auto& [id, tensor] : changed) sources_.insert_or_assign(id, std::move(tensor));
    return Done{};
  }

  [[nodiscard]] std::vector<std::pair<ValueId, ValueId>> gradients() const {
    std::vector<std::pair<ValueId, ValueId>> found;
    for (const Source& source : input_.graph.sources) {
      const ValueId gradient = training_.gradients[source.value];
      if (source.kind == SourceKind::parameter && gradient != kNoId) found.emplace_back(source.value, gradient);
    }
    return found;
  }

  [[nodiscard]] ValueId buffer_named(const std::string& target) const {
    for (const Source& source : input_.graph.sources) {
      if (std::find(source.names.begin(), source.names.end(), target) != source.names.end()) return source.value;
    }
    return kNoId;
  }

  void add(ValueId parameter, const Tensor& gradient) {
    const auto [sum, first] = step_.gradients.try_emplace(parameter, gradient);
    if (microbatches_ == 1) return;
    for (std::int64_t i = 0; i < gradient.elements(); ++i) {
      const double share = gradient.get(i) / static_cast<double>(microbatches_);
      sum->second.set(i, first ? share : sum->second.get(i) + share);
    }
  }

  const SerialInput& input_;
  const TrainingGraph& training_;
  const std::int64_t microbatches_;
  std::map<ValueId, Tensor> sources_;  // as the next microbatch finds them
  SerialStep step_;
};

}  // namespace

Result<SerialStep> run_serial(const SerialInput& input) {
  Result<TrainingGraph> training = differentiate(input.graph, input.ops);
  if (!training) return training.error();
  return SerialStepper(input, *training, static_cast<std::int64_t>(input.further.size()) + 1).run();
}

}  // namespace meshwright
