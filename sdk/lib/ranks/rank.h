// One rank of a program, wherever its values lie: in memory of this process (execution.h), or on a GPU (backends/cuda).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "carrier.h"
#include "meshwright/arena.h"
#include "meshwright/backend.h"

namespace meshwright {

// What a device holds of all that runs on it, in bytes.
struct DeviceBytes {
  std::int64_t now = 0, most = 0;
};

// How whole tensors, and a rank's parts of them, are handed over in this process' memory: in the program's types, but what is of half precision in float32.
inline TensorType handed_type(TensorType type) {
  if (type.dtype == DType::float16 || type.dtype == DType::bfloat16) type.dtype = DType::float32;
  return type;
}

// Used by one thread at a time. What was begun may still be under way when a call returns, until `finish`.
class Rank {
 public:
  virtual ~Rank() = default;

  // Takes its parts of the whole tensors of the parameters, and of the optimizer's states, by parameter; null: one is as before the first step. The device must
  // have been emptied.
  virtual Status load(const std::vector<const Tensor*>& parameters, const std::vector<const OptimizerState*>& states) = 0;
  // A step begins: takes its parts of the inputs. `carrier` outlives the step.
  virtual Status begin(const std::vector<const Tensor*>& inputs, Carrier& carrier, RunObserver* observer) = 0;
  // What stands at this place of the steps. False: the run has stopped.
  virtual Result<bool> execute(std::size_t step) = 0;
  // Behind the last of them: returns when all that was begun is done. False: the run has stopped.
  virtual Result<bool> finish() = 0;
  // Hands the outputs to the observer.
  virtual Status give_outputs() = 0;
  // The step has ended: nothing stays but parameters, as they are now, and the optimizer's state.
  virtual Status end() = 0;

  // A rank's part of a value, as the step left it; of a parameter also between steps.
  [[nodiscard]] virtual Result<Tensor> part(ProgramValueId id, std::int64_t microbatch) const = 0;
  // Its part of what the optimizer keeps of a parameter.
  [[nodiscard]] virtual Result<OptimizerState> state(std::size_t parameter) const = 0;
  // Its part of the optimizer's own copy of a parameter, which is more precise than the parameter, in the layout of the state; nothing: there is none.
  [[nodiscard]] virtual Result<std::optional<Tensor>> master(std::size_t /*parameter*/) const { return std::optional<Tensor>(); }

  [[nodiscard]] virtual std::int64_t received_bytes() const = 0;  // in this step, besides what its carrier counts
  [[nodiscard]] virtual std::int64_t peak_bytes() const = 0;
  [[nodiscard]] virtual std::int64_t peak_instruction() const = 0;
};

// What a rank is made from, all of which outlives it. `steps`: what a step does. `arena`: where its values lie.
struct RankInput {
  const BackendInput& input;
  const std::vector<Occurrence>& steps;
  const Arena& arena;
  std::int64_t rank = 0;
  DeviceBytes& device;
};

// Empty: an Execution.
using MakeRank = std::function<std::unique_ptr<Rank>(const RankInput&)>;

}  // namespace meshwright
