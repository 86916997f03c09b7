#include "serial.h"

#include <cmath>

#include "meshwright/training_graph.h"

namespace meshwright {

namespace {

// The first step of an optimizer, from a state of zeros, as torch.optim takes it.
Tensor take_step(const Tensor& parameter, const Tensor& gradient, Optimizer optimizer, const OptimizerSettings& settings) {
  Tensor updated(parameter.type());
  for (std::int64_t i = 0; i < parameter.elements(); ++i) {
    const double value = parameter.get(i), slope = gradient.get(i);
    if (optimizer != Optimizer::adamw) {  // with momentum, the first step is the plain one
      updated.set(i, value - settings.learning_rate * slope);
      continue;
    }
    // The corrected moments are the gradient itself and its square.
    const double first = (1 - settings.beta1) * slope / (1 - settings.beta1);
    const double second = (1 - settings.beta2) * slope * slope / (1 - settings.beta2);
    const double decayed = value * (1 - settings.learning_rate * settings.weight_decay);
    updated.set(i, decayed - settings.learning_rate * first / (std::sqrt(second) + settings.epsilon));
  }
  return updated;
}

class SerialRunner {
 public:
  SerialRunner(const TrainingGraph& training, const OpTable& ops, const KernelTable* kernels,
               const std::map<ValueId, Tensor>& sources)
      : graph_(training.graph), ops_(ops), kernels_(kernels), sources_(sources), values_(graph_.values.size()) {
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
      for (std::size_t i = 0; i < node.results.size(); ++i) {
        if (last_use_[node.results[i]] > id) values_[node.results[i]] = std::move((*results)[i]);
      }
      for (const Operand& operand : node.operands) {
        if (last_use_[operand.value] == id) values_[operand.value] = Tensor();
      }
    }
    return Done{};
  }

  [[nodiscard]] const Tensor& value(ValueId id) const {
    const auto source = sources_.find(id);
    return source != sources_.end() ? source->second : values_[id];
  }

 private:
  const Graph& graph_;
  const OpTable& ops_;
  const KernelTable* kernels_;
  const std::map<ValueId, Tensor>& sources_;
  std::vector<Tensor> values_;
  std::vector<NodeId> last_use_;
};

}  // namespace

Result<SerialStep> run_serial(const Graph& graph, const OpTable& ops, const KernelTable* kernels,
                              const std::map<ValueId, Tensor>& sources, Optimizer optimizer, const OptimizerSettings& settings) {
  Result<TrainingGraph> training = differentiate(graph, ops);
  if (!training) return training.error();
  SerialRunner runner(*training, ops, kernels, sources);
  for (const Output& output : graph.outputs) runner.keep(output.value);
  for (const Source& source : graph.sources) {
    if (source.kind == SourceKind::parameter && training->gradients[source.value] != kNoId) {
      runner.keep(training->gradients[source.value]);
    }
  }
  if (Status status = runner.run(); !status) return status.error();
  SerialStep step;
  for (const Output& output : graph.outputs) step.outputs.push_back(runner.value(output.value));
  for (const Source& source : graph.sources) {
    const ValueId gradient = training->gradients[source.value];
    if (source.kind != SourceKind::parameter || gradient == kNoId) continue;
    const Tensor& value = runner.value(gradient);
    step.updated.emplace(source.value, take_step(runner.value(source.value), value, optimizer, settings));
    step.gradients.emplace(source.value, value);
  }
  return step;
}

}  // namespace meshwright
