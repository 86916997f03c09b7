// What a plan chose, read back from its text into layouts. Private to the kernel.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "meshwright/atoms.h"
#include "meshwright/plan.h"

namespace meshwright {

// How a parameter lies between its uses.
struct PlannedStore {
  Layout value;
  Layout state;
  ZeroStage zero = ZeroStage::none;
  bool regather = false;
  bool prefetch = false;
};

struct PlannedStrategies {
  std::vector<std::optional<Strategy>> nodes;  // by node of the graph; axes and layouts only
  std::map<ValueId, PortLayouts> forks;
  std::map<ValueId, PlannedStore> stored;   // parameters
  std::map<ValueId, Layout> outputs;  // differentiable ones
};

// Errors: bad_input, naming the variable, if the plan does not fit its own graph.
Result<PlannedStrategies> read_strategies(const Plan& plan, const AtomizedGraph& atoms);

}  // namespace meshwright
