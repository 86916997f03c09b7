#include <cmath>

#include "patterns.h"
#include "reader.h"

namespace meshwright::onnx {

namespace {

// One number that the file computes from constants, by ops on tensors of one element: the root of a scale.
class Numbers {
 public:
  Numbers(const Reader& read, const Content& content) : read_(read), content_(content) {}

  [[nodiscard]] std::optional<double> value(ValueId id, int depth = 0) const {
    const TensorType& type = read_.graph().type(id);
    if (type.elements() != 1 || depth > kMostSteps) return std::nullopt;
    const Node* node = read_.maker(id);
    if (node == nullptr) {
      const Literal* literal = content_(id);
      return literal != nullptr ? std::optional(literal->number(0)) : std::nullopt;
    }
    if (node->op == "aten.full") return Reader::number(*node, "fill_value");
    if (!is_floating(type.dtype)) return std::nullopt;
    std::vector<double> operands;
    for (const Operand& operand : node->operands) {
      const auto number = value(operand.value, depth + 1);
      if (!number) return std::nullopt;
      operands.push_back(*number);
    }
    if (const auto other = Reader::number(*node); other && operands.size() == 1) operands.push_back(*other);
    const auto result = apply(node->op, operands);
    if (!result || !std::isfinite(*result)) return std::nullopt;
    return type.dtype == DType::float64 ? *result : static_cast<double>(static_cast<float>(*result));
  }

 private:
  static std::optional<double> apply(const std::string& op, const std::vector<double>& x) {
    const bool keeps = op == "aten._to_copy" || op == "aten.view" || op == "aten.clone" || op == "aten.alias" ||
                       op == "aten.unsqueeze";
    if (x.size() == 1 && keeps) return x[0];
    if (x.size() == 1 && op == "aten.sqrt") return std::sqrt(x[0]);
    if (x.size() == 1 && op == "aten.reciprocal") return 1 / x[0];
    if (x.size() == 2 && op == "aten.mul.Tensor") return x[0] * x[1];
    if (x.size() == 2 && op == "aten.div.Tensor") return x[0] / x[1];
    return std::nullopt;
  }

  static constexpr int kMostSteps = 8;
  const Reader& read_;
  const Content& content_;
};

}  // namespace

void settle_scalars(Graph& graph, const Content& content) {
  const Reader read(graph);
  const Numbers numbers(read, content);
  for (Node& node : graph.nodes) {
    const bool product = node.op == "aten.mul.Tensor";
    if ((!product && node.op != "aten.div.Tensor") || node.operands.size() != 2) continue;
    for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
      const ValueId other = node.operands[1 - i].value;
      if ((i == 0 && !product) || graph.type(other) != graph.type(node.results[0]) || graph.type(other).elements() == 1)
        continue;
      const auto number = numbers.value(node.operands[i].value);
      if (!number) continue;
      become(node, node.op, {{"self", other}}, {{"other", *number}});
      break;
    }
  }
}

}  // namespace meshwright::onnx
