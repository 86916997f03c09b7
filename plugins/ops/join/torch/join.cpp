// Parts of tensors, and tensors put together, as people write them.
#include <cstdint>

#include "meshwright/plugin.h"
#include "python_text.h"
#include "torch_ops.h"

namespace meshwright::torch {
namespace {

// The attribute "dim", counted from the front.
std::int64_t dimension_of(const EmitterCall& call) {
  const std::int64_t dim = call.node().integer("dim", 0);
  return dim < 0 ? dim + call.operands[0].type.type.rank() : dim;
}

// x[:, 2:5]
Result<EmittedOp> slice(const EmitterCall& call, const CallText&) {
  const Node node = call.node();
  const std::int64_t start = node.integer("start", 0), end = node.integer("end", INT64_MAX),
                     step = node.integer("step", 1);
  std::string index;
  for (std::int64_t i = 0; i < dimension_of(call); ++i) index += ":, ";
  index += (start != 0 ? std::to_string(start) : "") + ":" + (end != INT64_MAX ? std::to_string(end) : "");
  if (step != 1) index += ":" + std::to_string(step);
  return EmittedOp{.text = call.operands[0].text + "[" + index + "]"};
}

// The pieces' sizes are those on one rank, which attributes repeat for the whole tensor.
Result<EmittedOp> split(const EmitterCall& call, const CallText&) {
  const std::int64_t dim = dimension_of(call);
  std::vector<std::string> sizes;
  for (const ShardedType& piece : call.results)
    sizes.push_back(std::to_string(call.local(piece).shape[static_cast<std::size_t>(dim)]));
  const std::string pieces = call.operands[0].text + ".split(" + list(sizes) + ", dim=" + std::to_string(dim) + ")";
  return EmittedOp{.text = call.results.size() == 1 ? pieces + "[0]" : pieces};
}

constexpr TorchOp kOps[] = {
    {"torch:aten.cat", "torch.cat({tensors}[, dim={dim}])"},
    {"torch:aten.stack", "torch.stack({tensors}[, dim={dim}])"},
    {"torch:aten.select.int", "{self}.select({dim}, {index})"},
    {"torch:aten.slice.Tensor", "", slice},
    {"torch:aten.split.Tensor", "", split},
    {"torch:aten.split.sizes", "", split},
    {"torch:aten.split_with_sizes", "", split},
    {"torch:aten.chunk", "", split},
    {"torch:aten.unbind.int", "", write_list},
    {"torch:aten.tensor_split.sections", "", write_list},
    {"torch:aten.tensor_split.indices", "", write_list},
    {"torch:aten.unsafe_chunk", "", write_list},
    {"torch:aten.unsafe_split.Tensor", "", write_list},
    {"torch:aten.unsafe_split_with_sizes", "", write_list},
    {"torch:aten.hsplit.int", "", write_list},
    {"torch:aten.hsplit.array", "", write_list},
    {"torch:aten.vsplit.int", "", write_list},
    {"torch:aten.vsplit.array", "", write_list},
    {"torch:aten.dsplit.int", "", write_list},
    {"torch:aten.dsplit.array", "", write_list},
};
constexpr auto kServes = served(kOps);

}  // namespace

MESHWRIGHT_PLUGIN("emitters", "torch_join", "0.1.0", "Apache-2.0", "Parts of tensors, and tensors of parts, as PyTorch",
                  kServes.data(), nullptr, 0, create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)

}  // namespace meshwright::torch
