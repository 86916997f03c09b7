// Who does something with a program: runs it, simulates it, writes it down (plugins of kind "backend").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwright/cost.h"
#include "meshwright/executable.h"
#include "meshwright/export.h"
#include "meshwright/op_emitter.h"
#include "meshwright/op_kernels.h"
#include "meshwright/program.h"
#include "meshwright/result.h"
#include "meshwright/step_order.h"
#include "meshwright/tensor.h"

namespace meshwright {

struct Plan;          // plan.h
struct PipelinePlan;  // pipeline_plan.h

struct OptimizerSettings {
  double learning_rate = 1e-3;
  double momentum = 0.9;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-5, weight_decay = 0.01;
};

struct BackendInput {
  const Program& program;  // finished and valid
  const OpTable& ops;
  const CostProfile& profile;
  const KernelTable* kernels = nullptr;  // for this backend; null: there are none
  TensorSource source;                   // for running
  RunObserver* observer = nullptr;
  OptimizerSettings optimizer;
  const Plan* plan = nullptr;  // what the program was made from, for a backend that needs more than the program says; null: nothing
  const EmitterTable* emitters = nullptr;  // for this backend; null: there are none
  std::string only_file = {};              // the one file that `emit` is asked for; "": all
  std::vector<std::string> altering = {};  // ids of the passes that changed what the backward computes (ProgramPass::alters_backward)
};

// Of processes that a launcher started together, to run one program with a rank in each: which one this is, and how many there are.
struct Processes {
  std::int64_t number = 0;  // from 0
  std::int64_t count = 1;
};

// A plan as somebody would ask for it: keys of the configuration with their values, as --set has them, and [pins], by name.
struct AskedPlan {
  std::vector<std::string> settings;  // "search.stages=2"
  std::vector<std::pair<std::string, std::string>> pins;
};

struct EmittedFile {
  std::string name;  // relative to the output folder
  std::string text;
  // What the text stands for, where that is not the plan that it was made from: the nearest one that a framework can run. Whoever asked for the text plans it for the same
  // model, cluster and batch, and says what it takes behind the text, in lines that begin with "# ".
  std::optional<AskedPlan> stands_for = {};
};

class MESHWRIGHT_API Backend {
 public:
  virtual ~Backend();
  // Runs or simulates one training step: unless the backend overrides it, compiles, loads, and takes one step. Errors: theirs.
  Result<Report> run(const BackendInput& input) const;
  // Makes the program ready to run; `source` and `observer` of the input are not used. Errors: bad_input unless the backend
  // overrides it.
  Result<std::unique_ptr<Executable>> compile(const BackendInput& input) const;
  // Makes the programs of all stages of a pipeline ready to run together, by stage, on devices that run them as `orders` says. Errors: bad_input unless the
  // backend overrides it; those of joint_order (stages.h).
  Result<std::unique_ptr<StagesExecutable>> compile_stages(const std::vector<BackendInput>& stages, const GroupOrders& orders = {}) const;
  // Writes the program down. Errors: bad_input unless the backend overrides it.
  Result<std::vector<EmittedFile>> emit(const BackendInput& input) const;
  // The same of a pipeline; inputs by stage, with their plans. Errors: bad_input unless the backend overrides it.
  Result<std::vector<EmittedFile>> emit_stages(const PipelinePlan& pipeline, const std::vector<BackendInput>& stages) const;
  // Whether it runs programs whose values have this type as they are; whoever runs one that has another type makes it one of float32. float32 and float64 unless the
  // backend overrides it.
  [[nodiscard]] bool computes_in(DType dtype) const;
  // With whom this process runs programs: with nobody, unless the backend overrides it.
  [[nodiscard]] Processes processes() const;
  // What all of these processes get alike, each of which calls it with what became of its own work: the error of the first one that has any.
  Status agree(const Status& mine) const;

 private:
  virtual Result<Report> do_run(const BackendInput& input) const;
  virtual Result<std::unique_ptr<Executable>> do_compile(const BackendInput& input) const;
  virtual Result<std::unique_ptr<StagesExecutable>> do_compile_stages(const std::vector<BackendInput>& stages, const GroupOrders& orders) const;
  virtual Result<std::vector<EmittedFile>> do_emit(const BackendInput& input) const;
  virtual Result<std::vector<EmittedFile>> do_emit_stages(const PipelinePlan& pipeline, const std::vector<BackendInput>& stages) const;
  [[nodiscard]] virtual Processes do_processes() const;
  virtual Status do_agree(const Status& mine) const;
  [[nodiscard]] virtual bool do_computes_in(DType dtype) const;
};

}  // namespace meshwright
