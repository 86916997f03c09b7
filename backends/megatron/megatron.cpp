// Writes a plan as arguments of Megatron-LM: its own plan where Megatron-LM can run that, else the nearest one, with what the difference is (decision 072).
#include <algorithm>

#include "megatron_plan.h"
#include "meshwright/backend.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "meshwright/plugin.h"
#include "python_text.h"

namespace meshwright::megatron {
namespace {

using framework::FrameworkPlan;
using framework::PlanReading;

constexpr const char* kVersion = "000c4ac24f61";  // of Megatron-LM, whose arguments these are

// Set before Megatron-LM starts (validate_args).
std::string environment_text(const FrameworkPlan& made) {
  const bool is_sharded = made.zero == ZeroStage::gradient || made.zero == ZeroStage::value;
  if (is_sharded && made.dp * made.cp > 1) return "unset CUDA_DEVICE_MAX_CONNECTIONS  # with --use-megatron-fsdp it must not be 1\n";
  if (made.tp > 1 || made.cp > 1) return "export CUDA_DEVICE_MAX_CONNECTIONS=1  # with tensor or context parallelism, before Blackwell\n";
  return "";
}

std::string script_text(const PlanReading& plan, const FrameworkPlan& made) {
  const std::string name = plan.model.empty() ? "A model" : torch::comment(plan.model);
  std::string text = "# " + name + " on " + std::to_string(plan.devices) + " devices, as Meshwright planned it, in the words of Megatron-LM (megatron/training/arguments.py of " + kVersion + ").\n" +
                     "# The model's own arguments (layers, sizes), data and optimizer are yours to add:\n"
                     "#   source megatron_args.sh && torchrun ... pretrain_gpt.py \"${MEGATRON_ARGS[@]}\" ...\n"
                     "# dp " + std::to_string(made.dp) + " x cp " + std::to_string(made.cp) + " x tp " + std::to_string(made.tp) + " x pp " + std::to_string(made.pp) + "; " + std::to_string(plan.layers.layers.size()) + " layers.\n";
  text += framework::notes_text(made, "Megatron-LM");
  text += environment_text(made);
  text += "MEGATRON_ARGS=(\n";
  for (const Argument& argument : arguments_of(plan, made)) text += "  " + argument.text + (argument.remark.empty() ? "" : "  # " + argument.remark) + "\n";
  return text + ")\n";
}

Result<std::vector<EmittedFile>> files_of(const Result<PlanReading>& plan) {
  if (!plan) return plan.error();
  const Result<FrameworkPlan> made = nearest_plan(*plan);
  if (!made) return made.error();
  return std::vector<EmittedFile>{{"megatron_args.sh", script_text(*plan, *made), framework::asked_plan(*plan, *made)}};
}

class MegatronBackend final : public Backend {
  Result<std::vector<EmittedFile>> do_emit(const BackendInput& input) const override {
    if (input.plan == nullptr) return bad_input("arguments of Megatron-LM are made from a plan, and there is none");
    return files_of(framework::read_plan(*input.plan));
  }

  Result<std::vector<EmittedFile>> do_emit_stages(const PipelinePlan& pipeline, const std::vector<BackendInput>& /*stages*/) const override { return files_of(framework::read_plan(pipeline)); }
};

}  // namespace

MESHWRIGHT_PLUGIN("backend", "megatron", "0.1.0", "Apache-2.0", "Writes the plan, or the nearest one, as arguments of Megatron-LM", nullptr, nullptr, 0,
                  (create_plugin<Backend, MegatronBackend>), destroy_plugin<Backend>)

}  // namespace meshwright::megatron
