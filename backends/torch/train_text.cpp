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

// The loop over steps, at the end of main().
std::string loop_text(const Plan& plan, const Forward& forward) {
  const bool has_loss = std::ranges::any_of(plan.graph().outputs, [](const Output& output) { return output.kind == OutputKind::loss; });
  const std::string result = forward.outputs.size() == 1 ? "loss" : "loss, *_";
  const auto loss_text = [&](const std::string& indent, const std::string& arguments) {
    return indent + result + " = model(*model.local_batch(batch(" + arguments + ")).values())\n" +
           (has_loss ? "" : indent + "loss = loss.sum()  # the model has none: put yours here\n");
  };
  const std::string outer(8, ' '), inner(12, ' ');
  std::string text = "    for step in range(arguments.steps):\n";
  if (forward.microbatches == 1) {
    text += loss_text(outer, "step") + outer + "loss.backward()\n";
  } else {
    text += outer + "total = 0.0\n" + outer + "for part in model.microbatches():\n" + loss_text(inner, "step, part") +
            inner + "loss = loss / model.MICROBATCHES\n" + inner + "loss.backward()\n" + inner + "total += loss.detach().float()\n";
  }
  const std::string told = forward.microbatches == 1 ? "loss" : "total";
  return text + "        optimizer.step()\n        optimizer.zero_grad()\n"
                "        if dist.get_rank() == 0:\n            print(f\"step {step}: loss {" + told + ".item():.6f}\", flush=True)\n";
}

// Entries of the dict that `batch` gives.
std::string batch_text(const Graph& graph) {
  std::string text;
  for (const Source& source : graph.sources) {
    if (source.kind == SourceKind::user_input) text += "        " + quoted(source_name(graph, source)) + ": " + batch_entry(graph, source) + ",\n";
  }
  return "    return {\n" + text + "    }\n\n\n";
}

std::string head_text(const std::string& docstring, const std::string& ranks) {
  return "\"\"\"" + docstring + ":\n\n    torchrun --nproc-per-node " + ranks +
         " train.py [--weights FILE] [--steps N]\n\nFILE is a state dict of the model for one device, as torch.save wrote it.\n\"\"\"\n"
         "import argparse\n\nimport torch\nimport torch.distributed as dist\n\nfrom model import Model\n\n\n";
}

constexpr const char* kBatchOfPart =
    "def batch(step, part):\n    \"\"\"A step's whole microbatch of this number, the same on every rank. Random: put your data here.\"\"\"\n"
    "    generator = torch.Generator().manual_seed(step * Model.MICROBATCHES + part)\n";

// main() up to the loop.
std::string setup_text(Optimizer optimizer) {
  std::string text =
      "def main():\n    parser = argparse.ArgumentParser()\n    parser.add_argument(\"--weights\")\n"
      "    parser.add_argument(\"--steps\", type=int, default=10)\n    arguments = parser.parse_args()\n\n"
      "    model = Model()\n    if arguments.weights:\n"
      "        model.load_whole(torch.load(arguments.weights, map_location=\"cpu\", mmap=True))\n    else:\n        model.draw_weights(seed=0)\n";
  switch (optimizer) {
    case Optimizer::sgd: text += "    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)\n"; break;
    case Optimizer::momentum: text += "    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)\n"; break;
    case Optimizer::adam: text += "    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n"; break;
    case Optimizer::adamw: text += "    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n"; break;
  }
  return text;
}

constexpr const char* kMainEnd = "    dist.destroy_process_group()\n\n\nif __name__ == \"__main__\":\n    main()\n";

}  // namespace

std::string train_text(const Plan& plan, const Forward& forward) {
  const std::string ranks = std::to_string(plan.mesh.devices());
  const std::string batch = forward.microbatches > 1 ? kBatchOfPart :
      "def batch(step):\n    \"\"\"The whole batch of a step, the same on every rank. Random: put your data here.\"\"\"\n"
      "    generator = torch.Generator().manual_seed(step)\n";
  return head_text("Trains model.py on " + ranks + " ranks", ranks) + batch + batch_text(plan.graph()) + setup_text(plan.training.optimizer) + loop_text(plan, forward) + kMainEnd;
}

std::string pipeline_train_text(const PipelinePlan& pipeline) {
  const std::string stages = std::to_string(pipeline.stages.size()), ranks = std::to_string(pipeline.stages.front().mesh.devices() * pipeline.groups());
  return head_text("Trains model.py, in " + stages + " stages, on " + ranks + " ranks", ranks) + kBatchOfPart + batch_text(*pipeline.model.graph) +
         setup_text(pipeline.training.optimizer) +
         "    for step in range(arguments.steps):\n"
         "        loss = model.step([model.local_batch(batch(step, part)) for part in range(model.MICROBATCHES)])\n"
         "        optimizer.step()\n        optimizer.zero_grad()\n"
         "        if dist.get_rank() == 0:\n            print(f\"step {step}: loss {loss.item():.6f}\", flush=True)\n" + kMainEnd;
}

}  // namespace meshwright::torch
