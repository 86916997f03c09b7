#include "recompute_pins.h"

namespace meshwright {

Result<RecomputePins> RecomputePins::make(const ModelAnalysis& model, std::span<const Pin> pins) {
  RecomputePins made(model);
  for (const Pin& pin : pins) {
    if (!is_of_recomputation(pin)) continue;
    const Result<std::vector<bool>> ops = ops_named(model, {pin.name});
    if (!ops) return bad_input(pin.where + ": " + ops.error().message);
    std::vector<bool>&wanted = pin.text == "recompute" ? made.must_ : made.never_, &other = pin.text == "recompute" ? made.never_ : made.must_;
    for (NodeId id = 0; id < ops->size(); ++id) {
      if (!(*ops)[id]) continue;
      if (other[id]) {
        return bad_input(pin.where + ": " + to_string(pin) + " in [pins] contradicts another pin, by which '" + model.graph->nodes[id].name + "' " +
                         (pin.text == "recompute" ? "is kept" : "runs again"));
      }
      wanted[id] = true;
    }
    const std::set<NodeOperand> operands = operands_named(model, {pin.name}).value();
    std::set<NodeOperand>&converted = pin.text == "recompute" ? made.must_convert_ : made.never_convert_, &otherwise = pin.text == "recompute" ? made.never_convert_ : made.must_convert_;
    for (const NodeOperand& operand : operands) {
      if (otherwise.contains(operand)) {
        return bad_input(pin.where + ": " + to_string(pin) + " in [pins] contradicts another pin, by which '" + operand_name(*model.graph, operand) + "' is " +
                         (pin.text == "recompute" ? "kept" : "converted again"));
      }
      converted.insert(operand);
    }
    made.any_ = true;
  }
  return made;
}

std::vector<std::string> RecomputePins::applied_to(const std::vector<std::string>& names) const {
  if (!any_) return names;
  std::vector<bool> ops = ops_named(*model_, names).value();
  for (NodeId id = 0; id < ops.size(); ++id) ops[id] = must_[id] || (ops[id] && !never_[id]);
  std::set<NodeOperand> operands = operands_named(*model_, names).value();
  std::erase_if(operands, [&](const NodeOperand& operand) { return never_converts(operand); });
  operands.insert(must_convert_.begin(), must_convert_.end());
  return recomputed_names(*model_, ops, operands);
}

}  // namespace meshwright
