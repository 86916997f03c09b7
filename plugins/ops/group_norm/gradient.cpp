#include "group_norm.h"
#include "normalization.h"

namespace meshwright {

namespace {

// One op gives the gradients of input, weight and bias that are wanted.
void add_from_result(const GradientCall& call, std::vector<ValueId>& gradients) {
  const Node& node = call.node;
  const bool native = node.op == kNative;
  const ValueId input = call.operand("input");
  std::vector<Operand> operands = {{"grad_output", call.result_gradients[0]}, {"input", input}};
  Attributes attributes;
  if (native) {
    operands[0].name = "grad_out";
    operands.push_back({"mean", node.results[1]});
    operands.push_back({"rstd", node.results[2]});
    attributes = node.attributes;
  } else {
    attributes = {{"num_groups", groups_of(node, call.type(input).shape[1])}, {"eps", node.number("eps", 1e-5)}};
  }
  operands.push_back({"weight", call.operand("weight")});
  std::vector<std::int64_t> mask;
  std::vector<TensorType> results;
  std::vector<std::size_t> places;
  for (const char* name : {"input", "weight", "bias"}) {
    const auto index = node.operand_index(name);
    mask.push_back(index && call.wanted[*index] ? 1 : 0);
    if (mask.back() == 0) continue;
    places.push_back(*index);
    results.push_back(call.type(node.operands[*index].value));
  }
  attributes["output_mask"] = mask;
  const std::vector<ValueId> made = call.build.emit(native ? kNativeBackward : kBackward, operands, attributes, results);
  for (std::size_t i = 0; i < places.size(); ++i) gradients[places[i]] = made[i];
}

}  // namespace

Result<std::vector<ValueId>> group_norm_gradient(const GradientCall& call) {
  const Node& node = call.node;
  if (is_backward(node)) return bad_input("its op family states no gradient");
  std::vector<ValueId> gradients(node.operands.size(), kNoId);
  if (call.result_gradients[0] != kNoId) add_from_result(call, gradients);
  if (node.op != kNative || !call.wanted[0]) return gradients;
  // Models do not use the statistics; where one does, they are lines of a view of the input.
  if (call.result_gradients[1] == kNoId && call.result_gradients[2] == kNoId) return gradients;
  const Term input(call.build, node.operands[0].value);
  const TensorType statistic = call.type(node.results[1]);
  std::vector<std::int64_t> lines = statistic.shape, spread = statistic.shape;
  lines.push_back(input.type().elements() / statistic.elements());
  spread.push_back(1);
  const Term mean = view({call.build, node.results[1]}, spread), rstd = view({call.build, node.results[2]}, spread);
  const std::optional<Term> share = through_statistics(view(input, lines), mean, rstd, call.result_gradients[1],
                                                       call.result_gradients[2], static_cast<double>(lines.back()));
  const Term here = view(*share, input.type().shape);
  gradients[0] = (gradients[0] == kNoId ? here : Term(call.build, gradients[0]) + here).id();
  return gradients;
}

}  // namespace meshwright
