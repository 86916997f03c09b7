#include "rule/view_finder.h"

namespace meshwright {

namespace {

bool asks_family(const OpTable& ops, const OpCall& call) {
  const OpFamily* family = ops.find(call.node.op);
  if (!family || call.operands.size() != 1 || has_complex(call)) return false;  // of one tensor, and nothing else is read
  const Result<Rule> rule = family->rule(call);
  if (!rule) return false;
  const Result<OpCost> cost = family->cost(call, *rule);
  return cost && cost->alias;
}

}  // namespace

bool ViewFinder::is_view(const OpCall& call) {
  const auto types = [](const std::vector<TensorType>& tensors) {
    Types types;
    for (const TensorType& tensor : tensors) types.emplace_back(tensor.dtype, tensor.shape);
    return types;
  };
  Key key{call.node.op, call.node.attributes, types(call.operands), types(call.results)};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const bool view = asks_family(ops_, call);
  known_.emplace(std::move(key), view);
  return view;
}

}  // namespace meshwright
