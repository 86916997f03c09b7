// For tests of gradients: a family whose ops' gradients are one node for each operand.
#pragma once

#include <string>
#include <vector>

#include "meshwright/training_graph.h"

namespace meshwright::testing {

class SlopeFamily : public OpFamily {
 protected:
  // The op that gives the gradient of this operand; "": the node passes none on to it.
  [[nodiscard]] virtual std::string slope(const Node& node, const Operand& operand) const = 0;

  Result<Rule> do_rule(const OpCall& call) const override { return replicated_rule(call.operands, call.results); }
  Result<OpCost> do_cost(const OpCall&, const Rule&) const override { return OpCost{}; }
  Result<std::vector<ValueId>> do_gradient(const GradientCall& call) const override {
    std::vector<ValueId> gradients;
    for (std::size_t i = 0; i < call.node.operands.size(); ++i) {
      const Operand& operand = call.node.operands[i];
      const std::string op = call.wanted[i] ? slope(call.node, operand) : "";
      gradients.push_back(op.empty() ? kNoId : call.build.emit(op, {{"gradient", call.result_gradients[0]}}, {}, call.type(operand.value)));
    }
    return gradients;
  }
};

inline std::vector<std::string> backward_ops(const TrainingGraph& training) {
  std::vector<std::string> ops;
  for (NodeId id = training.first_backward; id < training.graph.nodes.size(); ++id) ops.push_back(training.graph.nodes[id].op);
  return ops;
}

}  // namespace meshwright::testing
