// Writes a plan down as an ordinary PyTorch program: model.py, a module whose forward is one rank's, and train.py, which
// trains it under torchrun (DESIGN §2, "Program and backends"; MAP §3). Both import torch alone.
#include "meshwright/backend.h"
#include "meshwright/plan.h"
#include "meshwright/plugin.h"
#include "module_text.h"
#include "prelude.h"
#include "python_text.h"
#include "statements.h"
#include "train_text.h"

namespace meshwright::torch {
namespace {

constexpr meshwright_config_key_v1 kKeys[] = {
    {"checkpoint", "texts", "", "[]", "modules whose numbered blocks are recomputed in the backward: \"transformer.h\", a block's path, or \"*\""},
};

// What is imported, where the text has the second.
constexpr std::pair<const char*, const char*> kImports[] = {
    {"import atexit\n", "atexit."},
    {"import contextlib\n", "contextlib."},
    {"import math\n", "math."},
    {"import os\n", "os."},
    {"import sys\n", "sys."},
    {"from dataclasses import dataclass\n", "@dataclass"},
    {"\nimport torch\n", ""},
    {"import torch.distributed as dist\n", "dist."},
    {"import torch.nn.functional as F\n", "F."},
    {"from torch import nn\n", "nn."},
    {"from torch.utils.checkpoint import checkpoint\n", " checkpoint("},
};

std::string imports_for(const std::string& text) {
  std::string imports;
  for (const auto& [line, mark] : kImports) imports += text.find(mark) != std::string::npos ? line : "";
  return imports;
}

class TorchBackend final : public Backend {
 public:
  explicit TorchBackend(std::vector<std::string> checkpoint) : options_{std::move(checkpoint)} {}

 private:
  Result<std::vector<EmittedFile>> do_emit(const BackendInput& input) const override {
    if (input.plan == nullptr || input.context == nullptr) return bad_input("a PyTorch program is made from a plan, and there is none");
    Result<Forward> forward = forward_statements(input);
    if (!forward) return forward.error();
    const Plan& plan = *input.plan;
    std::vector<std::int64_t> sizes;
    for (const MeshAxis& axis : plan.mesh.axes) sizes.push_back(axis.size);
    const std::string name = plan.graph().name.empty() ? "The model" : comment(plan.graph().name);
    const ModuleText module = module_text(*forward, name + " on one rank of a mesh " + to_string(plan.mesh) + ": takes this rank's part of the batch.", options_);
    if (!module.unknown.empty()) {
      return bad_input("[emit.torch] checkpoint: the model has no numbered blocks under '" + module.unknown[0] + "'");
    }
    std::string text = "\"\"\"" + name + ", as Meshwright planned it for a mesh " + to_string(plan.mesh) + " (" + std::to_string(plan.mesh.devices()) +
                       " ranks).\n\nRuns under torchrun; train.py shows how. What comes before the model is the same for every plan.\n\"\"\"\n";
    const std::string body = prelude_for(module.text) + "\n\n" + module.text;
    text += imports_for(body) + "\nAXES = " + tuple(sizes) + "  # ranks along each axis of the mesh\n\n\n" + body;
    return std::vector<EmittedFile>{{"model.py", std::move(text)}, {"train.py", train_text(plan, *forward)}};
  }

  ModuleOptions options_;
};

void* create(const Config& config, Error&) { return static_cast<Backend*>(new TorchBackend(config.texts("checkpoint"))); }

}  // namespace

MESHWRIGHT_PLUGIN("backend", "torch", "0.1.0", "Apache-2.0", "Writes an ordinary PyTorch program", nullptr, kKeys, std::size(kKeys), create,
                  destroy_plugin<Backend>)

}  // namespace meshwright::torch
