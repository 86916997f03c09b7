// Training on one device: the truth that a program on many is held against.
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
#include "meshwright/training_graph.h"

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

// The user inputs of each microbatch of a step.
using StepInputs = std::vector<std::map<ValueId, Tensor>>;

struct SerialInput {
  const Graph& graph;  // of one microbatch
  const OpTable& ops;
  const KernelTable* kernels = nullptr;
  const std::map<ValueId, Tensor>& sources;  // every source of the graph
  Optimizer optimizer = Optimizer::adamw;
  OptimizerSettings settings;
  double tie = 1e-5;  // the share of a row's largest score below which two scores are near a tie
  std::span<const std::map<ValueId, Tensor>> further = {};  // user inputs of the second microbatch and those behind it
  // More than 0: Adam's epsilon is this share of the largest gradient of the first step. Then what rounds to nothing in a gradient
  // changes little in the step, which is nearly the gradient's sign otherwise.
  double relative_epsilon = 0;
};

// Computes each op by its kernel or its family; values are dropped after their last use. A step's loss is the mean of
// the microbatches' losses; what one leaves in buffers the next one finds. Buffers and the optimizer's state last from step to
// step; parameters stay what they are until they are replaced.
class SerialTraining {
 public:
  // `input` and what it refers to must outlive this, `training` is its graph differentiated.
  SerialTraining(const SerialInput& input, TrainingGraph training);

  // With the sources' own inputs, or, from the second step on, those that are given. Errors: the families'.
  Result<SerialStep> step();
  Result<SerialStep> step(const StepInputs& inputs);
  // A parameter or a buffer, for the next step; the optimizer's state stays.
  void replace(ValueId source, Tensor value) { changed_.insert_or_assign(source, std::move(value)); }
  // Those that the steps are taken with.
  [[nodiscard]] const OptimizerSettings& settings() const { return settings_; }

 private:
  struct State {  // of the optimizer, for one parameter
    Tensor first, second;
  };

  void take(const std::map<ValueId, Tensor>& inputs);
  // The first microbatch is that of the sources as they are.
  Result<SerialStep> step_through(std::span<const std::map<ValueId, Tensor>> further);
  Status run_microbatch(bool last);
  [[nodiscard]] std::vector<std::pair<ValueId, ValueId>> gradients() const;
  [[nodiscard]] ValueId buffer_named(const std::string& target) const;
  void add(ValueId parameter, const Tensor& gradient);
  void choose_epsilon();
  Tensor updated(ValueId parameter, const Tensor& gradient);
  [[nodiscard]] const Tensor& source(ValueId id) const;

  const SerialInput& input_;
  const TrainingGraph training_;
  const std::int64_t microbatches_;
  OptimizerSettings settings_;
  std::int64_t steps_ = 0;
  std::map<ValueId, Tensor> changed_;  // of the sources, those that are no more what the input says
  std::map<ValueId, State> states_;
  SerialStep step_;
};

// One step. Errors: those of differentiate, and of the families.
Result<SerialStep> run_serial(const SerialInput& input);

}  // namespace meshwright
