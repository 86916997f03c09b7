#include "recompute_pins.h"

#include "meshwright/recompute.h"

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
    made.any_ = true;
  }
  return made;
}

std::vector<std::string> RecomputePins::applied_to(const std::vector<std::string>& names) const {
  if (!any_) return names;
  std::vector<bool> ops = ops_named(*model_, names).value();
  for (NodeId id = 0; id < ops.size(); ++id) ops[id] = must_[id] || (ops[id] && !never_[id]);
  return recomputed_names(*model_, ops);
}

}  // namespace meshwright
