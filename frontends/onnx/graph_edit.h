// Looking at a Graph that is being made.
#pragma once

#include <vector>

#include "meshwright/graph.h"

namespace meshwright::onnx {

struct Use {
  NodeId node = kNoId;
  std::size_t operand = 0;
};

// Who uses each value: nodes, and how often the graph's outputs do.
class Users {
 public:
  explicit Users(const Graph& graph);

  [[nodiscard]] const std::vector<Use>& of(ValueId value) const { return uses_[value]; }
  // Whether one operand of one node is all that the value is for.
  [[nodiscard]] bool is_alone(ValueId value) const { return uses_[value].size() == 1 && outputs_[value] == 0; }

 private:
  std::vector<std::vector<Use>> uses_;
  std::vector<int> outputs_;
};

// The one differentiable scalar that a model returns is its loss, as for PyTorch's exports.
void mark_loss(Graph& graph);

}  // namespace meshwright::onnx
