// A finished program, ready to run on all ranks of its mesh (`Backend::compile`). What training keeps lasts from step to step:
// parameters, the optimizer's state, buffers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/graph.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"

namespace meshwright {

// Called from the ranks' threads while a program runs, for several ranks at a time.
class MESHWRIGHT_API RunObserver {
 public:
  virtual ~RunObserver();
  // A parameter's gradient, and the parameter as the optimizer updated it, both in the layout of the optimizer's state.
  virtual void on_update(std::int64_t rank, std::uint32_t parameter, const Tensor& gradient, const Tensor& updated) = 0;
  // At the end of the step, for a parameter that is stored in another layout than its state: the stored value, gathered from
  // the updated shards.
  virtual void on_gathered(std::int64_t rank, std::uint32_t parameter, const Tensor& value) = 0;
  virtual void on_output(std::int64_t rank, std::uint32_t output, const Tensor& value) = 0;
};

// The whole tensor of a source of the graph; of a user's input, in a microbatch. Null: there is none. What it points to is
// there while the call goes on that this was handed to.
using TensorSource = std::function<const Tensor*(ValueId, std::int64_t microbatch)>;

// What the optimizer keeps of a parameter from step to step, in the parameter's type and shape: momentum's buffer or Adam's first
// moment, and Adam's second. Empty before the first step, and where the optimizer keeps none.
struct OptimizerState {
  std::int64_t steps = 0;  // that were taken
  Tensor first, second;
};

// The whole state of a parameter of the graph; null: it is as before the first step. As long-lived as what a TensorSource gives.
using StateSource = std::function<const OptimizerState*(ValueId parameter)>;

// What a run or a prediction of one step gives.
struct Report {
  std::int64_t ranks = 0;
  std::optional<double> loss;         // of the whole batch: the mean of its microbatches' losses; none if nothing was run, or the model yields none
  double step_seconds = 0;            // predicted for one step on the cluster; only a simulation says it
  std::int64_t bytes_sent = 0;        // by all ranks together
  std::int64_t peak_bytes = 0;        // of the rank that holds most
  std::int64_t arena_bytes = 0;       // of the block in which a rank's values lie (arena.h), the optimizer's state apart
  std::int64_t peak_instruction = 0;  // the index of the instruction at which that rank reaches its peak
};

// Used by one thread at a time. What it was compiled from must outlive it. Where the ranks are processes of their own (Backend::processes), each
// of them makes the same calls in the same order, and gets the same reports and tensors.
class MESHWRIGHT_API Executable {
 public:
  virtual ~Executable();
  // Gives the ranks their parts of parameters and constants, buffers, and the optimizer's state of each parameter; without `states` that is as
  // before the first step. Errors: bad_input if a tensor is missing or of another type, or a state is not what the optimizer keeps.
  Status load(const TensorSource& source, const StateSource& states = {});
  // One training step on these inputs of users. Errors: bad_input before `load`, or as `load`; a rank's own error, which names the
  // rank and the instruction. After an error it must be loaded again.
  Result<Report> step(const TensorSource& inputs, RunObserver* observer = nullptr);
  // A whole parameter or buffer, as the last step left it. Errors: bad_input for another value of the graph, and before `load`.
  Result<Tensor> fetch(ValueId source) const;
  // The whole state of a parameter, as the last step left it. Errors: as `fetch`.
  Result<OptimizerState> fetch_state(ValueId parameter) const;

 private:
  virtual Status do_load(const TensorSource& source, const StateSource& states) = 0;
  virtual Result<Report> do_step(const TensorSource& inputs, RunObserver* observer) = 0;
  virtual Result<Tensor> do_fetch(ValueId source) const = 0;
  virtual Result<OptimizerState> do_fetch_state(ValueId parameter) const = 0;
};

// The same of all stages of a pipeline, which take their steps together; ranks and values are each stage's own.
class MESHWRIGHT_API StagesExecutable {
 public:
  virtual ~StagesExecutable();
  // By stage; no states: all are as before the first step. Errors: as Executable.
  Status load(const std::vector<TensorSource>& sources, const std::vector<StateSource>& states = {});
  // Observers by stage; none: nobody looks. The report's bytes are those of all stages, its peaks those of the rank that holds most.
  Result<Report> step(const std::vector<TensorSource>& inputs, const std::vector<RunObserver*>& observers);
  Result<Tensor> fetch(std::size_t stage, ValueId source) const;
  Result<OptimizerState> fetch_state(std::size_t stage, ValueId parameter) const;
  // Of the last step: what a rank of each stage holds at most.
  [[nodiscard]] std::vector<std::int64_t> peak_bytes() const;

 private:
  virtual Status do_load(const std::vector<TensorSource>& sources, const std::vector<StateSource>& states) = 0;
  virtual Result<Report> do_step(const std::vector<TensorSource>& inputs, const std::vector<RunObserver*>& observers) = 0;
  virtual Result<Tensor> do_fetch(std::size_t stage, ValueId source) const = 0;
  virtual Result<OptimizerState> do_fetch_state(std::size_t stage, ValueId parameter) const = 0;
  [[nodiscard]] virtual std::vector<std::int64_t> do_peak_bytes() const = 0;
};

}  // namespace meshwright
