// Writes a plan down as an ordinary PyTorch program: model.py, a module whose forward is one rank's, sharding.py, what that is
// made of, and train.py, which trains it under torchrun (DESIGN §2, "Program and backends"; MAP §3). They import torch alone.
#include <algorithm>

#include "meshwright/backend.h"
#include "meshwright/pipeline_plan.h"
#include "meshwright/plan.h"
#include "meshwright/plugin.h"
#include "meshwright/recompute.h"
#include "module_text.h"
#include "pipeline_text.h"
#include "prelude.h"
#include "python_text.h"
#include "stage_ends.h"
#include "statements.h"
#include "train_text.h"

namespace meshwright::torch {
namespace {

// What model.py imports, where its text has the second.
constexpr std::pair<const char*, const char*> kImports[] = {
    {"import torch", "torch."},
    {"import torch.nn.functional as F", "F."},
    {"from torch import nn", "nn."},
};

std::string imports_for(const std::string& text) {
  std::vector<std::string> lines;
  for (const auto& [line, mark] : kImports) {
    if (text.find(mark) != std::string::npos) lines.emplace_back(line);
  }
  return import_lines(std::move(lines));
}

// "from sharding import a, b", in brackets where that is more than one line.
std::string import_of(const std::vector<std::string>& names) {
  constexpr std::size_t kWidth = 120;
  const std::string line = "from sharding import " + join(names);
  if (line.size() <= kWidth) return line + "\n";
  std::string text = "from sharding import (\n", row = "   ";
  for (const std::string& name : names) {
    if (row.size() + name.size() + 2 > kWidth) {
      text += row + "\n";
      row = "   ";
    }
    row += " " + name + ",";
  }
  return text + row + "\n)\n";
}

// What train.py does: one microbatch after the other.
Status check_order(TrainingSettings training) {
  const Result<StepOrder> wanted = step_order(training);
  training.order.clear();
  if (wanted && *wanted == step_order(training).value()) return Done{};
  return bad_input("[train] order: an emitted program runs the forward and the backward of each microbatch before those of the next one; plan without it");
}

// Autograd makes the backward of what is emitted (decision 017): what a pass does there would be lost without a word.
Status check_passes(const std::vector<std::string>& altering) {
  if (altering.empty()) return Done{};
  return bad_input("the pass \"" + altering[0] + "\" in [emit] alters what the backward computes, or does not say that it leaves it alone " +
                   "(ProgramPass::alters_backward), and autograd makes the backward of what is emitted; emit without it");
}

std::string name_of(const Graph& graph) { return graph.name.empty() ? "The model" : comment(graph.name); }

// The blocks and ops that run again. What is converted again the statements tell, where anything is.
std::vector<std::string> without_operands(const Plan& plan) {
  std::vector<std::string> names;
  for (const std::string& name : plan.recomputed) {
    const Result<std::set<NodeOperand>> operands = operands_named(plan.model, {name});
    if (!operands || operands->empty()) names.push_back(name);
  }
  return names;
}

// The classes of a plan's forward. Errors: bad_input, what is to run again and is no class or op of one.
Result<ModuleText> classes(const Forward& forward, const Plan& plan, const std::string& docstring) {
  const std::vector<std::string> names = without_operands(plan);
  ModuleText module = module_text(forward, docstring, names);
  if (module.unknown.empty()) return module;
  return bad_input("the plan runs '" + module.unknown[0] + "' again for its backward, but that is no class of the emitted program, nor an op of one; " +
                   "plan with search.recompute = \"blocks\", or keep it ([pins] \"" + module.unknown[0] + "\" = \"keep\")");
}

constexpr const char* kRunsUnderTorchrun = "Runs under torchrun; train.py shows how.";

std::string model_file(const std::string& first_line, const std::string& text, const Prelude& prelude) {
  const std::string imports = imports_for(text);
  return "\"\"\"" + first_line + "\n\n" + kRunsUnderTorchrun + "\n\"\"\"\n" + imports + (imports.empty() ? "" : "\n") + import_of(prelude.used_by(text).mentioned) +
         "\n\n" + text;
}

std::string sharding_file(const std::string& docstring, const std::string& constants, const Prelude::Part& prelude) {
  return "\"\"\"" + docstring + "\n\"\"\"\n" + prelude.imports + "\n" + constants + "\n\n\n" + prelude.definitions;
}

// PyTorch runs each part of a backward as a backward of its own.
Status check_parts(const PipelinePlan& pipeline) {
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const Plan& plan = pipeline.stages[s];
    if (plan.recomputed.empty() || !step_order(plan.training).value().has_parts()) continue;
    return bad_input("stage " + std::to_string(s) + " has backwards in two parts, and '" + plan.recomputed.front() + "' would run again for each of them in an emitted program; plan with search.recompute = \"none\""
                     ", or with a schedule that leaves backwards whole (search.schedule = \"one_f_one_b\")");
  }
  return Done{};
}

// PyTorch hands what a rank holds to the rank at its place in the next stage.
Status check_devices(const PipelinePlan& pipeline) {
  const std::int64_t first = pipeline.stages.front().mesh.devices();
  for (std::size_t s = 1; s < pipeline.stages.size(); ++s) {
    const std::int64_t devices = pipeline.stages[s].mesh.devices();
    if (devices == first) continue;
    return bad_input("stage 0 has " + std::to_string(first) + " devices, and stage " + std::to_string(s) + " has " + std::to_string(devices) + ", and PyTorch's pipelines give each stage as many ranks: plan with stages of as many devices each " +
                     "(leave out search.stage_devices), or run the plan as it is (`meshwright run`)");
  }
  return Done{};
}

// What the last stage returns is what a step goes back from.
Status check_loss(const PipelinePlan& pipeline) {
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const bool has_loss = std::ranges::any_of(pipeline.stages[s].graph().outputs, [](const Output& output) { return output.kind == OutputKind::loss; });
    if (has_loss == (s + 1 == pipeline.stages.size())) continue;
    return bad_input("stage " + std::to_string(s) + " of " + std::to_string(pipeline.stages.size()) + (has_loss ? " computes the loss" : " computes no loss") +
                     ", and in an emitted pipeline the last stage does, alone: plan fewer stages (search.stages), or put the loss's module into the last by [pins]");
  }
  return Done{};
}

class TorchBackend final : public Backend {
 public:
 private:
  Result<std::vector<EmittedFile>> do_emit(const BackendInput& input) const override {
    if (input.plan == nullptr) return bad_input("a PyTorch program is made from a plan, and there is none");
    if (Status status = check_order(input.plan->training); !status) return status.error();
    if (Status status = check_passes(input.altering); !status) return status.error();
    Result<Forward> forward = forward_statements(input);
    if (!forward) return forward.error();
    const Plan& plan = *input.plan;
    std::vector<std::int64_t> sizes;
    for (const MeshAxis& axis : plan.mesh.axes) sizes.push_back(axis.size);
    const std::string name = name_of(plan.graph());
    const Result<ModuleText> module = classes(*forward, plan, name + " on one rank of a mesh " + to_string(plan.mesh) + ": takes this rank's part of the batch.");
    if (!module) return module.error();
    const std::string ranks = "a mesh " + to_string(plan.mesh) + " (" + std::to_string(plan.mesh.devices()) + " ranks)";
    const std::string constants = "AXES = " + tuple(sizes) + "  # ranks along each axis of the mesh\n\nBUCKET_BYTES = " + std::to_string(plan.bucket_bytes) +
                                  "  # so much is reduced together\n\nUNIT_BYTES = " + std::to_string(input.profile.bucket_bytes) + "  # so much is loaded together";
    const std::string docstring = "What model.py is made of: layouts on " + ranks + ", moves between them, parameters in shards.\n\n"
                                  "The same for every plan but for AXES, BUCKET_BYTES and UNIT_BYTES; of it what this model uses.";
    return std::vector<EmittedFile>{{"model.py", model_file(name + ", as Meshwright planned it for " + ranks + ".", module->text, forward->prelude)},
                                    {"sharding.py", sharding_file(docstring, constants, forward->prelude.used_by(module->text))},
                                    {"train.py", train_text(plan, *forward)}};
  }

  // Each stage's model is a file of its own; model.py is that of this rank's stage.
  Result<std::vector<EmittedFile>> do_emit_stages(const PipelinePlan& pipeline, const std::vector<BackendInput>& stages) const override {
    if (Status status = check_passes(stages.front().altering); !status) return status.error();
    if (Status status = check_devices(pipeline); !status) return status.error();
    if (Status status = check_parts(pipeline); !status) return status.error();
    if (Status status = check_loss(pipeline); !status) return status.error();
    const std::vector<StageEnds> ends = stage_ends(pipeline, stages);
    std::vector<Forward> forwards;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      Result<Forward> forward = forward_statements(stages[s], &ends[s]);
      if (!forward) return add_context("stage " + std::to_string(s), forward.error());
      forward->base = "Stage";
      forward->microbatches = 1;  // of which the class of a stage computes each
      forward->settings = stage_settings(s, ends[s], stages[s].program.mesh);
      forwards.push_back(std::move(*forward));
    }
    const bool draws = std::ranges::any_of(forwards, [](const Forward& forward) { return std::ranges::any_of(forward.statements, &Statement::draws); });
    const std::string name = name_of(*pipeline.model.graph), all = stages_phrase(pipeline);
    std::vector<EmittedFile> files;
    Prelude prelude;
    std::string body = pipeline_class(pipeline, stages, name);
    files.push_back({"model.py", model_file(name + ", as Meshwright planned it for " + all + ": those of this rank.", body, prelude)});
    for (std::size_t s = 0; s < stages.size(); ++s) {
      forwards[s].draws = draws;
      const Plan& plan = pipeline.stages[s];
      const std::string stage = "stage " + std::to_string(s);
      const Result<ModuleText> module = classes(forwards[s], plan, name + ", " + stage + " on one rank of a mesh " + to_string(plan.mesh) + ": takes this rank's part of a microbatch.");
      if (!module) return add_context(stage, module.error());
      if (Status status = prelude.add(forwards[s].prelude); !status) return add_context(stage, status.error());
      files.push_back({"stage_" + std::to_string(s) + ".py", model_file(name + ", as Meshwright planned it for " + all + ": " + stage + ".", module->text, forwards[s].prelude)});
      body += module->text;
    }
    const std::string docstring = "What the stages are made of: layouts on the meshes of " + all + ", moves between them, parameters in shards.\n\n"
                                  "The same for every plan but for the constants; of it what this model uses.";
    files.push_back({"sharding.py", sharding_file(docstring, stage_constants(pipeline, stages), prelude.used_by(body))});
    files.push_back({"train.py", pipeline_train_text(pipeline)});
    return files;
  }
};

}  // namespace

MESHWRIGHT_PLUGIN("backend", "torch", "0.1.0", "Apache-2.0", "Writes an ordinary PyTorch program", nullptr, nullptr, 0,
                  (create_plugin<Backend, TorchBackend>), destroy_plugin<Backend>)

}  // namespace meshwright::torch
