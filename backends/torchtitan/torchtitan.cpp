// Writes a plan as a configuration of torchtitan: its own plan where torchtitan can run that, else the nearest one, with what the difference is (decision 072).
#include "meshwright/backend.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "meshwright/plugin.h"
#include "python_text.h"
#include "titan_plan.h"

namespace meshwright::titan {
namespace {

using framework::PlanReading;

constexpr const char* kVersion = "0014ac2ca45a";  // of torchtitan, whose names these are

// "NAME = CLASS(\n    field=value,\n)\n"
std::string constant_text(const std::string& name, const std::string& type, const Fields& fields) {
  std::string text = name + " = " + type + "(\n";
  for (const auto& [field, value] : fields) text += "    " + field + "=" + value + ",\n";
  return text + ")\n";
}

std::string module_text(const PlanReading& plan, const TitanPlan& made) {
  const framework::FrameworkPlan& degrees = made.plan;
  const std::string name = plan.model.empty() ? "A model" : torch::comment(plan.model);
  std::string text = "# " + name + " on " + std::to_string(plan.devices) + " devices, as Meshwright planned it, in the words of torchtitan (torchtitan/config/configs.py of " + kVersion + ").\n" +
                     "# dp " + std::to_string(degrees.dp) + " x cp " + std::to_string(degrees.cp) + " x tp " + std::to_string(degrees.tp) + " x pp " + std::to_string(degrees.pp) + "; " + std::to_string(plan.layers.layers.size()) + " layers.\n";
  text += framework::notes_text(degrees, "torchtitan");
  const Fields parallelism = parallelism_fields(plan, made);
  const bool compiles = plan.training.compile;
  text += std::string("from torchtitan.config.configs import ActivationCheckpointConfig, ") + (compiles ? "CompileConfig, " : "") + "ParallelismConfig, TrainingConfig\n"
          "from torchtitan.trainer import Trainer\n\n";
  if (parallelism.back().first == "module_fqns_per_model_part") text += "HEAD = \"lm_head\"  # \"output\" in older models\n\n";
  text += constant_text("TRAINING", "TrainingConfig", training_fields(plan, made)) + "\n" + constant_text("PARALLELISM", "ParallelismConfig", parallelism) + "\n" +
          constant_text("ACTIVATION_CHECKPOINT", "ActivationCheckpointConfig", {{"mode", "\"" + made.activation_mode + "\""}}) +
          "\n\ndef trainer_config(**others) -> Trainer.Config:\n"
          "    \"\"\"The model (model_spec), the data and the optimizer are the caller's.\"\"\"\n"
          "    return Trainer.Config(\n"
          "        training=TRAINING,\n"
          "        parallelism=PARALLELISM,\n"
          "        activation_checkpoint=ACTIVATION_CHECKPOINT,\n" +
          (compiles ? "        compile=CompileConfig(enable=True),\n" : "") + "        **others,\n    )\n";
  return text;
}

Result<std::vector<EmittedFile>> files_of(const Result<PlanReading>& plan) {
  if (!plan) return plan.error();
  const Result<TitanPlan> made = nearest_plan(*plan);
  if (!made) return made.error();
  return std::vector<EmittedFile>{{"torchtitan_config.py", module_text(*plan, *made), framework::asked_plan(*plan, made->plan)}};
}

class TorchtitanBackend final : public Backend {
  Result<std::vector<EmittedFile>> do_emit(const BackendInput& input) const override {
    if (input.plan == nullptr) return bad_input("a configuration of torchtitan is made from a plan, and there is none");
    return files_of(framework::read_plan(*input.plan));
  }

  Result<std::vector<EmittedFile>> do_emit_stages(const PipelinePlan& pipeline, const std::vector<BackendInput>& /*stages*/) const override { return files_of(framework::read_plan(pipeline)); }
};

}  // namespace

MESHWRIGHT_PLUGIN("backend", "torchtitan", "0.1.0", "Apache-2.0", "Writes the plan, or the nearest one, as a configuration of torchtitan", nullptr, nullptr, 0,
                  (create_plugin<Backend, TorchtitanBackend>), destroy_plugin<Backend>)

}  // namespace meshwright::titan
