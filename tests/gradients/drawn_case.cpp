#include "drawn_case.h"

#include <algorithm>
#include <random>

namespace meshwright::test {

namespace {

DType to_float32(DType dtype) { return dtype == DType::float64 ? DType::float32 : dtype; }

// Whether a list of the call's attributes repeats this shape.
bool repeats_shape(const Node& node, const std::vector<std::int64_t>& shape) {
  return std::ranges::any_of(node.attributes, [&](const auto& attribute) { return node.integers(attribute.first) == shape; });
}

// By factor: how much it grows. A size that no operand has is an attribute's, and stays unless that is a shape.
std::vector<std::int64_t> draw_growth(const OpCall& call, const Rule& rule, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> growth(rule.factors.size());
  for (std::size_t i = 0; i < growth.size(); ++i)
    growth[i] = rule.factors[i].whole ? 0 : static_cast<std::int64_t>(random() % 4);
  std::vector<bool> given(growth.size(), false);
  const auto give = [&](const TensorRule& tensor) {
    for (const auto& dimension : tensor.dimensions) {
      for (const FactorId factor : dimension) given[factor] = true;
    }
  };
  for (const TensorRule& operand : rule.operands) give(operand);
  for (std::size_t i = 0; i < rule.results.size(); ++i) {
    if (repeats_shape(call.node, call.results[i].shape)) give(rule.results[i]);
  }
  for (std::size_t i = 0; i < growth.size(); ++i) growth[i] = given[i] ? growth[i] : 0;
  for (const auto* tensors : {&rule.operands, &rule.results}) {
    for (const TensorRule& tensor : *tensors) {
      for (const auto& dimension : tensor.dimensions) {
        for (const FactorId factor : dimension) growth[factor] = dimension.size() > 1 ? 0 : growth[factor];
      }
    }
  }
  return growth;
}

void grow(TensorType& type, const TensorRule& rule, const std::vector<std::int64_t>& growth) {
  type.dtype = to_float32(type.dtype);
  for (std::size_t d = 0; d < rule.dimensions.size(); ++d) {
    if (rule.dimensions[d].size() == 1) type.shape[d] += growth[rule.dimensions[d][0]];
  }
}

// A list that is one of the call's shapes, or the end of one (a normalized_shape), was written to repeat it.
void follow(Attribute& attribute, const std::vector<TensorType>& before, const std::vector<TensorType>& after) {
  if (const auto* text = std::get_if<std::string>(&attribute); text && *text == "float64")
    attribute = std::string("float32");
  auto* list = std::get_if<std::vector<std::int64_t>>(&attribute);
  if (list == nullptr) return;
  for (std::size_t i = before.size(); i-- > 0;) {  // results first: they are the last
    const auto& shape = before[i].shape;
    if (list->size() > shape.size() || !std::equal(list->rbegin(), list->rend(), shape.rbegin())) continue;
    std::copy(after[i].shape.end() - static_cast<std::ptrdiff_t>(list->size()), after[i].shape.end(), list->begin());
    return;
  }
}

}  // namespace

OpCase draw_case(const OpCase& op_case, const OpTable& ops, std::uint64_t seed) {
  OpCase drawn = op_case;
  Graph& graph = drawn.graph;
  const OpCall call = make_call(op_case.graph, op_case.graph.nodes[0]);
  const OpFamily* family = ops.find(call.node.op);
  const Result<Rule> stated = family->rule(call);
  const Rule rule = stated ? *stated : replicated_rule(call.operands, call.results);
  const std::vector<std::int64_t> growth = draw_growth(call, rule, seed);
  std::vector<TensorType> before = call.operands, after;
  before.insert(before.end(), call.results.begin(), call.results.end());
  Node& node = graph.nodes[0];
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    TensorType& type = graph.values[node.operands[i].value].type;
    grow(type, rule.operands[i], growth);
    after.push_back(type);
  }
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    TensorType& type = graph.values[node.results[i]].type;
    grow(type, rule.results[i], growth);
    after.push_back(type);
  }
  for (auto& [name, attribute] : node.attributes) follow(attribute, before, after);
  return drawn;
}

}  // namespace meshwright::test
