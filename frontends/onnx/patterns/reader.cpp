#include "reader.h"

#include <algorithm>
#include <cmath>

namespace meshwright::onnx {

Node* Reader::maker(ValueId value) const {
  const NodeId id = graph_.values[value].producer;
  return id == kNoId ? nullptr : &graph_.nodes[id];
}

Node* Reader::maker(ValueId value, std::string_view op) const {
  Node* node = maker(value);
  return node != nullptr && node->op == op ? node : nullptr;
}

std::optional<double> Reader::number(const Node& node, std::string_view attribute) {
  if (!node.attributes.contains(attribute)) return std::nullopt;
  const double value = node.number(attribute, std::nan(""));
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

Product Reader::product(const Node& root) const {
  Product product;
  if (root.op == "aten.mul.Tensor") {
    if (const auto factor = number(root)) product.number *= *factor;
    for (const Operand& operand : root.operands) multiply(operand.value, product);
  } else if (const auto divisor = number(root); root.op == "aten.div.Tensor" && divisor) {
    product.number /= *divisor;
    multiply(root.operands[0].value, product);
  }
  return product;
}

void Reader::multiply(ValueId value, Product& product) const {
  const Node* node = maker(value);
  const bool goes_on = node != nullptr && users_.is_alone(value) &&
                       (node->op == "aten.mul.Tensor" || (node->op == "aten.div.Tensor" && number(*node)));
  if (!goes_on) {
    product.factors.push_back(value);
    return;
  }
  const Product inner = this->product(*node);
  product.number *= inner.number;
  product.factors.insert(product.factors.end(), inner.factors.begin(), inner.factors.end());
}

std::optional<ValueId> Reader::base_of_power(ValueId value, int exponent) const {
  const Node* node = maker(value);
  if (node == nullptr) return std::nullopt;
  if (node->op == "aten.pow.Tensor_Scalar" && number(*node, "exponent") == exponent) return node->operands[0].value;
  if (node->op != "aten.mul.Tensor") return std::nullopt;
  const Product found = product(*node);
  if (found.number != 1 || found.factors.size() != static_cast<std::size_t>(exponent)) return std::nullopt;
  const bool same = std::ranges::all_of(found.factors, [&](ValueId factor) { return factor == found.factors[0]; });
  return same ? std::optional(found.factors[0]) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> Reader::trailing(const Node& mean) const {
  const std::vector<std::int64_t>& shape = graph_.type(mean.operands[0].value).shape;
  std::vector<std::int64_t> dims = mean.integers("dim");
  const auto rank = static_cast<std::int64_t>(shape.size()), count = static_cast<std::int64_t>(dims.size());
  for (std::int64_t& dim : dims) dim += dim < 0 ? rank : 0;
  std::ranges::sort(dims);
  if (dims.empty() || !mean.boolean("keepdim", false)) return std::nullopt;
  for (std::int64_t i = 0; i < count; ++i) {
    if (dims[static_cast<std::size_t>(i)] != rank - count + i) return std::nullopt;
  }
  return std::vector<std::int64_t>(shape.end() - count, shape.end());
}

bool is_near(double a, double b) { return std::fabs(a - b) <= 2e-6 * std::fabs(b); }

void become(Node& node, std::string op, std::vector<Operand> operands,
            std::map<std::string, Attribute, std::less<>> attributes) {
  node.op = std::move(op);
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
}

}  // namespace meshwright::onnx
