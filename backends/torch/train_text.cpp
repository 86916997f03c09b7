#include "train_text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "python_text.h"

namespace meshwright::torch {

namespace {

// What integers of an input stand for: rows of a table or classes. Read from where they go, through ops that only move
// them; nothing if they go nowhere that says so.
std::optional<std::int64_t> limit_of(const Graph& graph, ValueId input) {
  static const std::set<std::string_view> kMoving = {"aten.view",       "aten.reshape",   "aten.clone",   "aten.alias",  "aten.slice.Tensor", "aten.unsqueeze", "aten.squeeze.dim",
                                                     "aten.contiguous", "aten.transpose.int", "aten.expand", "aten.constant_pad_nd", "aten.pad", "aten.flatten.using_ints", "aten._to_copy"};
  std::set<ValueId> same = {input};
  std::optional<std::int64_t> limit;
  const auto at_most = [&](std::int64_t size) { limit = std::min(limit.value_or(size), size); };
  for (const Node& node : graph.nodes) {
    for (const Operand& operand : node.operands) {
      if (!same.contains(operand.value)) continue;
      const TensorType& first = graph.type(node.operands[0].value);
      if (kMoving.contains(node.op)) same.insert(node.results.begin(), node.results.end());
      else if (operand.name == "indices" && node.op == "aten.embedding") at_most(first.shape[0]);
      else if (operand.name == "target") at_most(first.shape[first.rank() > 1 ? 1 : 0]);
    }
  }
  return limit;
}

std::string batch_entry(const Graph& graph, const Source& source) {
  const TensorType& type = graph.type(source.value);
  const std::string shape = tuple(type.shape);
  if (type.dtype == DType::boolean) return "torch.ones(" + shape + ", dtype=torch.bool)";
  if (is_floating(type.dtype)) return "torch.randn(" + shape + ", generator=generator, dtype=" + dtype(type.dtype) + ")";
  const std::int64_t limit = limit_of(graph, source.value).value_or(2);
  return "torch.randint(0, " + std::to_string(limit) + ", " + shape + ", generator=generator, dtype=" + dtype(type.dtype) + ")";
}

}  // namespace

std::string train_text(const Plan& plan, const Forward& forward) {
  const std::int64_t ranks = plan.mesh.devices();
  std::string batch;
  for (const Source& source : plan.graph.sources) {
    if (source.kind != SourceKind::user_input) continue;
    batch += "        " + quoted(input_name(plan.graph, source)) + ": " + batch_entry(plan.graph, source) + ",\n";
  }
  const bool has_loss = std::any_of(plan.graph.outputs.begin(), plan.graph.outputs.end(), [](const Output& output) { return output.kind == OutputKind::loss; });
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
