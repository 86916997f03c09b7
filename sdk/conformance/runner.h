// A program, or those of all stages of a pipeline, as a backend runs them. Whoever runs it speaks of the model's values, whichever stage has them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "meshwright/backend.h"
#include "meshwright/graph.h"
#include "meshwright/program.h"

namespace meshwright {

// By value of a stage's graph, which of the model's it is: they have one name.
std::vector<ValueId> values_in_model(const Graph& model, const Graph& stage);

class Runner {
 public:
  // A program and what its graph's values are in the model. What it refers to outlives the runner.
  struct Part {
    BackendInput input;
    std::vector<ValueId> in_model;
  };

  // `is_whole`: the one part is the model itself, no stage of a pipeline. Errors: the backend's.
  static Result<Runner> compile(const Backend& backend, std::vector<Part> parts, const GroupOrders& orders, bool is_whole);

  // Errors of these: as Executable. The sources are of the model's values.
  Status load(const TensorSource& source, const StateSource& states = {});
  // `observers`: by part.
  Result<Report> step(const TensorSource& inputs, const std::vector<RunObserver*>& observers);
  // `id`: of the part's graph.
  [[nodiscard]] Result<Tensor> fetch(std::size_t part, ValueId id) const;
  [[nodiscard]] Result<OptimizerState> fetch_state(std::size_t part, ValueId parameter) const;
  // Of the stages of a pipeline, by group of devices.
  [[nodiscard]] std::vector<std::int64_t> group_peaks() const;

 private:
  [[nodiscard]] std::vector<TensorSource> by_stage(const TensorSource& source) const;

  std::vector<Part> parts_;
  std::unique_ptr<Executable> whole_;
  std::unique_ptr<StagesExecutable> stages_;
};

}  // namespace meshwright
