// index_put of one value under a mask: element by element, so everything shards.
#include "indexing.h"
#include "term.h"

namespace meshwright {

bool puts_under_mask(const OpCall& call) {
  return call.node.op == "aten.index_put" && call.operands.size() == 3 && call.operands[1].dtype == DType::boolean &&
         call.node.operands[1].name == "indices.0" && call.operands[2].elements() == 1;
}

Result<Rule> masked_rule(const OpCall& call) {
  const TensorType &self = call.operands[0], &mask = call.operands[1];
  if (mask.rank() > self.rank()) return bad_input("the mask has more dimensions than what it picks from");
  std::string all, some, one;
  for (std::size_t i = 0; i < self.shape.size(); ++i) {
    const std::string name = self.shape[i] == 1 ? " 1" : " d" + std::to_string(i);
    all += name;
    if (i < mask.shape.size()) some += name;
  }
  for (std::size_t i = 0; i < call.operands[2].shape.size(); ++i) one += " 1";
  return parse_rule(all + "," + some + "," + one + " ->" + all, call.operands, call.results);
}

Result<std::vector<Tensor>> masked_evaluate(const OpCall& call, std::span<const Tensor* const> operands) {
  const Tensor &self = *operands[0], &mask = *operands[1];
  std::vector<Tensor> results;
  Tensor& result = results.emplace_back(self);
  const std::int64_t inner = mask.elements() == 0 ? 1 : self.elements() / mask.elements();
  const double value = operands[2]->get(0);
  for (std::int64_t i = 0; i < self.elements(); ++i) {
    if (mask.get(i / inner) != 0) result.set(i, overwrites(call.node) ? value : self.get(i) + value);
  }
  return results;
}

Result<std::vector<ValueId>> masked_gradient(const GradientCall& call) {
  const Term gradient(call.build, call.result_gradients[0]);
  Term mask(call.build, call.node.operands[1].value);
  std::vector<std::int64_t> shape = mask.type().shape;
  shape.resize(gradient.type().shape.size(), 1);
  mask = view(mask, shape);
  std::vector<ValueId> gradients(3, kNoId);
  if (call.wanted[0]) gradients[0] = overwrites(call.node) ? masked(negation(mask), gradient).id() : gradient.id();
  if (call.wanted[2]) gradients[2] = sum_to(masked(mask, gradient), call.type(call.node.operands[2].value)).id();
  return gradients;
}

}  // namespace meshwright
