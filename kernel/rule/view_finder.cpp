#include "rule/view_finder.h"

namespace meshwright {

namespace {

ViewFinder::View ask_family(const OpTable& ops, const OpCall& call) {
  const OpFamily* family = ops.find(call.node.op);
  if (!family || call.operands.size() != 1 || has_complex(call)) return {};  // of one tensor, and nothing else is read
  const Result<Rule> rule = family->rule(call);
  if (!rule) return {};
  const Result<OpCost> cost = family->cost(call, *rule);
  if (!cost || !cost->alias) return {};
  const bool all = call.results.size() == 1 && call.results[0].dtype == call.operands[0].dtype && call.results[0].elements() == call.operands[0].elements();
  return {true, cost->keeps_order && all, cost->transposes && all};
}

}  // namespace

ViewFinder::View ViewFinder::view(const OpCall& call) {
  const auto types = [](const std::vector<TensorType>& tensors) {
    Types types;
    for (const TensorType& tensor : tensors) types.emplace_back(tensor.dtype, tensor.shape);
    return types;
  };
  Key key{call.node.op, call.node.attributes, types(call.operands), types(call.results)};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const View view = ask_family(ops_, call);
  known_.emplace(std::move(key), view);
  return view;
}

}  // namespace meshwright
