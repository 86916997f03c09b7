// One training step on one device: the truth that a program on many is held against.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "meshwright/backend.h"
#include "meshwright/graph.h"
#include "meshwright/op.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"
#include "meshwright/training.h"

namespace meshwright {

// Rows in which a choice of the k largest hangs on a difference so small that ranks, which round differently, may choose
// otherwise: the router of a mixture of experts.
struct NearTies {
  std::string node;
  std::int64_t rows = 0;
  std::int64_t ties = 0;
};

struct SerialStep {
  std::map<ValueId, Tensor> gradients;  // of parameters
  std::map<ValueId, Tensor> updated;    // parameters after the optimizer's step
  std::vector<Tensor> outputs;          // as those of the program: as graph.outputs, or of each microbatch the loss
  std::vector<NearTies> near_ties;      // one for each aten.topk that has any
};

// What the first step of an optimizer, from a state of zeros, makes of one number, as torch.optim takes it.
double take_step(double value, double slope, Optimizer optimizer, const OptimizerSettings& settings);

struct SerialInput {
  const Graph& graph;  // of one microbatch
  const OpTable& ops;
  const KernelTable* kernels = nullptr;
  const std::map<ValueId, Tensor>& sources;  // every source of the graph
  Optimizer optimizer = Optimizer::adamw;
  OptimizerSettings settings;
  double tie = 1e-5;  // the share of a row's largest score below which two scores are near a tie
  std::span<const std::map<ValueId, Tensor>> further = {};  // user inputs of the second microbatch and those behind it
};

// Computes each op by its kernel or its family; values are dropped after their last use. The step's loss is the mean of
// the microbatches' losses; what one leaves in buffers the next one finds. Errors: those of differentiate, and of the families.
Result<SerialStep> run_serial(const SerialInput& input);

}  // namespace meshwright
