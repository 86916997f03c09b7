#include "train_text.h"

#include <algorithm>

#include "python_text.h"
#include "sources.h"

namespace meshwright::torch {

namespace {

std::string batch_entry(const Graph& graph, const Source& source) {
  const TensorType& type = graph.type(source.value);
  const std::string shape = tuple(type.shape);
  if (type.dtype == DType::boolean) return "torch.ones(" + shape + ", dtype=torch.bool)";
  if (is_floating(type.dtype)) return "torch.randn(" + shape + ", generator=generator, dtype=" + dtype(type.dtype) + ")";
  const std::int64_t limit = index_limit(graph, source.value);
  return "torch.randint(0, " + std::to_string(limit > 0 ? limit : 2) + ", " + shape + ", generator=generator, dtype=" + dtype(type.dtype) + ")";
}

}  // namespace

std::string train_text(const Plan& plan, const Forward& forward) {
  const std::int64_t ranks = plan.mesh.devices();
  std::string batch;
  for (const Source& source : plan.graph().sources) {
    if (source.kind != SourceKind::user_input) continue;
    batch += "        " + quoted(source_name(plan.graph(), source)) + ": " + batch_entry(plan.graph(), source) + ",\n";
  }
  const bool has_loss = std::any_of(plan.graph().outputs.begin(), plan.graph().outputs.end(), [](const Output& output) { return output.kind == OutputKind::loss; });
  std::string text = "\"\"\"Trains model.py on " + std::to_string(ranks) + " ranks:\n\n    torchrun --nproc-per-node " + std::to_string(ranks) +
                     " train.py [--weights FILE] [--steps N]\n\nFILE is a state dict of the model for one device, as torch.save wrote it.\n\"\"\"\n"
                     "import argparse\n\nimport torch\nimport torch.distributed as dist\n\nfrom model import Model\n\n\n"
                     "def batch(step):\n    \"\"\"The whole batch of a step, the same on every rank. Random: put your data here.\"\"\"\n"
                     "    generator = torch.Generator().manual_seed(step)\n    return {\n" + batch + "    }\n\n\n"
                     "def main():\n    parser = argparse.ArgumentParser()\n    parser.add_argument(\"--weights\")\n"
                     "    parser.add_argument(\"--steps\", type=int, default=10)\n    arguments = parser.parse_args()\n\n"
                     "    model = Model()\n    if arguments.weights:\n"
                     "        model.load_whole(torch.load(arguments.weights, map_location=\"cpu\", mmap=True))\n    else:\n        model.draw_weights(seed=0)\n";
  switch (plan.training.optimizer) {
    case Optimizer::sgd: text += "    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)\n"; break;
    case Optimizer::momentum: text += "    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)\n"; break;
    case Optimizer::adam: text += "    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n"; break;
    case Optimizer::adamw: text += "    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n"; break;
  }
  const std::string result = forward.outputs.size() == 1 ? "loss" : "loss, *_";
  text += "    for step in range(arguments.steps):\n        " + result + " = model(*model.local_batch(batch(step)).values())\n";
  text += has_loss ? "" : "        loss = loss.sum()  # the model has none: put yours here\n";
  text += "        loss.backward()\n        optimizer.step()\n        optimizer.zero_grad()\n"
          "        if dist.get_rank() == 0:\n            print(f\"step {step}: loss {loss.item():.6f}\", flush=True)\n"
          "    dist.destroy_process_group()\n\n\nif __name__ == \"__main__\":\n    main()\n";
  return text;
}

}  // namespace meshwright::torch
