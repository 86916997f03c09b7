// One training step on one device: the truth that a program on many is held against.
#pragma once

#include <map>
#include <vector>

#include "meshwright/backend.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"
#include "meshwright/training.h"

namespace meshwright {

struct SerialStep {
  std::map<ValueId, Tensor> gradients;  // of parameters
  std::map<ValueId, Tensor> updated;    // parameters after the optimizer's step
  std::vector<Tensor> outputs;          // as graph.outputs
};

// Computes each op by its kernel or its family; values are dropped after their last use. `sources` holds every source
// of the graph. Errors: those of differentiate, and of the families.
Result<SerialStep> run_serial(const Graph& graph, const OpTable& ops, const KernelTable* kernels,
                              const std::map<ValueId, Tensor>& sources, Optimizer optimizer, const OptimizerSettings& settings);

}  // namespace meshwright
