// Pins of what runs again for the backward, in [pins] of the configuration, beside those of layouts (pins.h):
//
//   "transformer.h.0" = "recompute"   a block, or an op of one by its node's name: it runs again in every plan
//   "gelu_3" = "keep"                 it never does
//   "linear_4:0" = "recompute"        operand 0 of an op: what its backward takes is converted again, from what the maker of the value yields; or never
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "meshwright/model_analysis.h"
#include "meshwright/recompute.h"
#include "pins.h"

namespace meshwright {

class RecomputePins {
 public:
  // Errors: bad_input for a name that is neither a block, nor an op of one, nor an operand that could be converted again, and for what two pins want otherwise.
  static Result<RecomputePins> make(const ModelAnalysis& model, std::span<const Pin> pins);

  // The names (ProblemInput::recomputed) of what these stand for, with what must run again and without what never does.
  [[nodiscard]] std::vector<std::string> applied_to(const std::vector<std::string>& names) const;

  // By node of the forward graph.
  [[nodiscard]] bool must_run(NodeId node) const { return must_[node]; }
  [[nodiscard]] bool never_runs(NodeId node) const { return never_[node]; }
  [[nodiscard]] bool must_convert(const NodeOperand& operand) const { return must_convert_.contains(operand); }
  // Those of an op that never runs again don't either, if they need not.
  [[nodiscard]] bool never_converts(const NodeOperand& operand) const { return never_convert_.contains(operand) || (never_[operand.first] && !must_convert(operand)); }

 private:
  explicit RecomputePins(const ModelAnalysis& model) : model_(&model), must_(model.graph->nodes.size(), false), never_(model.graph->nodes.size(), false) {}

  const ModelAnalysis* model_;
  bool any_ = false;
  std::vector<bool> must_, never_;
  std::set<NodeOperand> must_convert_, never_convert_;
};

}  // namespace meshwright
