// Who does something with a program: runs it, simulates it, writes it down (plugins of kind "backend").
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/cost.h"
#include "meshwright/export.h"
#include "meshwright/op_emitter.h"
#include "meshwright/op_kernels.h"
#include "meshwright/planning_context.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "meshwright/tensor.h"

namespace meshwright {

struct Plan;  // plan.h

// Called from the ranks' threads while a program runs, for several ranks at a time.
class MESHWRIGHT_API RunObserver {
 public:
  virtual ~RunObserver();
  // A parameter's gradient and what the optimizer made of the parameter, both in the layout of its state.
  virtual void on_update(std::int64_t rank, std::uint32_t parameter, const Tensor& gradient, const Tensor& updated) = 0;
  // At the end, of a parameter whose value lies otherwise than its state: the whole value, gathered again.
  virtual void on_gathered(std::int64_t rank, std::uint32_t parameter, const Tensor& value) = 0;
  virtual void on_output(std::int64_t rank, std::uint32_t output, const Tensor& value) = 0;
};

struct OptimizerSettings {
  double learning_rate = 1e-3;
  double momentum = 0.9;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-5, weight_decay = 0.01;
};

struct BackendInput {
  const Program& program;  // finished and valid
  const OpTable& ops;
  const CostProfile& profile;
  const KernelTable* kernels = nullptr;                          // of this backend
  // The whole tensor of a parameter or an input, to run; of a user input, in a microbatch.
  std::function<const Tensor*(ValueId, std::int64_t microbatch)> source;
  RunObserver* observer = nullptr;
  OptimizerSettings optimizer;
  // What the program was made from and with, for a backend that makes its own; null where there is none.
  const Plan* plan = nullptr;
  const PlanningContext* context = nullptr;
  const EmitterTable* emitters = nullptr;                        // of this backend; null: there are none
};

struct Report {
  std::int64_t ranks = 0;
  double step_seconds = 0;          // of the step on the cluster, predicted (simulate)
  std::int64_t bytes_sent = 0;      // by all ranks together
  std::int64_t peak_bytes = 0;      // of the rank that holds most
  std::int64_t peak_instruction = 0;
};

struct EmittedFile {
  std::string name;  // relative to the output folder
  std::string text;
};

class MESHWRIGHT_API Backend {
 public:
  virtual ~Backend();
  // Runs or simulates one training step. Errors: bad_input unless the backend overrides it; a rank's own error, which
  // names the rank and the instruction.
  Result<Report> run(const BackendInput& input) const;
  // Writes the program down. Errors: bad_input unless the backend overrides it.
  Result<std::vector<EmittedFile>> emit(const BackendInput& input) const;

 private:
  virtual Result<Report> do_run(const BackendInput& input) const;
  virtual Result<std::vector<EmittedFile>> do_emit(const BackendInput& input) const;
};

}  // namespace meshwright
