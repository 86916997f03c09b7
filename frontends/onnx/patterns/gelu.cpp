// gelu(x) = x/2 (1 + erf(x/√2)), and its approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))) (Hendrycks and Gimpel
// 2016).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "patterns.h"
#include "reader.h"

namespace meshwright::onnx {

namespace {

constexpr double kCubic = 0.044715;
const double kRoot = std::sqrt(2 / std::numbers::pi);

class Gelu {
 public:
  Gelu(const Reader& reader, ValueId x) : read_(reader), x_(x) {}

  // "none" or "tanh", if `sum` is the 1 + erf or the 1 + tanh that goes with x.
  [[nodiscard]] std::optional<std::string> approximation(ValueId sum) const {
    const Node* add = read_.maker(sum, "aten.add.Tensor");
    if (add == nullptr || Reader::number(*add) != 1.0 || add->operands.size() != 1) return std::nullopt;
    const Node* curve = read_.maker(add->operands[0].value);
    if (curve == nullptr || (curve->op != "aten.erf" && curve->op != "aten.tanh")) return std::nullopt;
    const Node* inner = read_.maker(curve->operands[0].value);
    if (inner == nullptr) return std::nullopt;
    const Product product = read_.product(*inner);
    if (curve->op == "aten.erf") {
      const bool fits = product.factors == std::vector<ValueId>{x_} && is_near(product.number, std::numbers::sqrt2 / 2);
      return fits ? std::optional<std::string>("none") : std::nullopt;
    }
    return is_cubic(product) ? std::optional<std::string>("tanh") : std::nullopt;
  }

 private:
  // number · (x + 0.044715 x³), or number · x · (1 + 0.044715 x²) with the numbers anywhere.
  [[nodiscard]] bool is_cubic(const Product& product) const {
    if (product.factors.size() == 1) {
      const Node* add = read_.maker(product.factors[0], "aten.add.Tensor");
      if (add == nullptr || add->operands.size() != 2 || !is_near(product.number, kRoot)) return false;
      return (add->operands[0].value == x_ && is_cube(add->operands[1].value)) ||
             (add->operands[1].value == x_ && is_cube(add->operands[0].value));
    }
    if (product.factors.size() != 2 || std::ranges::count(product.factors, x_) != 1) return false;
    const Node* add = read_.maker(product.factors[product.factors[0] == x_ ? 1 : 0], "aten.add.Tensor");
    const auto constant = add != nullptr && add->operands.size() == 1 ? Reader::number(*add) : std::nullopt;
    const Node* scaled = constant ? read_.maker(add->operands[0].value) : nullptr;
    if (scaled == nullptr) return false;
    const Product square = read_.product(*scaled);
    const bool of_x = (square.factors.size() == 1 && read_.base_of_power(square.factors[0], 2) == x_) ||
                      square.factors == std::vector<ValueId>{x_, x_};
    return of_x && is_near(product.number * *constant, kRoot) && is_near(square.number, kCubic * *constant);
  }

  // 0.044715 x³
  [[nodiscard]] bool is_cube(ValueId value) const {
    const Node* node = read_.maker(value);
    if (node == nullptr) return false;
    const Product product = read_.product(*node);
    if (!is_near(product.number, kCubic)) return false;
    if (product.factors.size() == 1) return read_.base_of_power(product.factors[0], 3) == x_;
    return product.factors == std::vector<ValueId>{x_, x_, x_} ||
           (product.factors.size() == 2 && std::ranges::count(product.factors, x_) == 1 &&
            read_.base_of_power(product.factors[product.factors[0] == x_ ? 1 : 0], 2) == x_);
  }

  const Reader& read_;
  ValueId x_;
};

// PyTorch's exporters halve the sum or the product. `0.5 * x * (1 + tanh(...))` is how transformers writes it, and so
// it stays in pieces in what torch.export gives, too.
bool is_of_author(const Reader& read, const Node& node, ValueId x) {
  return std::ranges::any_of(node.operands, [&](const Operand& operand) {
    const Node* half = operand.value == x ? nullptr : read.maker(operand.value);
    return half != nullptr && half->operands.size() == 1 && half->operands[0].value == x;
  });
}

int recognise(Graph& graph, bool of_authors) {
  const Reader read(graph);
  int found = 0;
  for (Node& node : graph.nodes) {
    if (node.op != "aten.mul.Tensor" && node.op != "aten.div.Tensor") continue;
    const Product product = read.product(node);
    if (product.factors.size() != 2 || !is_near(product.number, 0.5)) continue;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const ValueId x = product.factors[i];
      const auto approximation = Gelu(read, x).approximation(product.factors[1 - i]);
      if (!approximation || (!of_authors && *approximation == "tanh" && is_of_author(read, node, x))) continue;
      const Attribute name = *approximation;
      become(node, "aten.gelu", {{"self", x}}, {});
      if (*approximation != "none") node.attributes["approximate"] = name;
      ++found;
      break;
    }
  }
  return found;
}

}  // namespace

int recognise_gelu(Graph& graph) { return recognise(graph, true); }
int recognise_exported_gelu(Graph& graph) { return recognise(graph, false); }

int recognise_silu(Graph& graph) {
  const Reader read(graph);
  int found = 0;
  for (Node& node : graph.nodes) {
    if (node.op != "aten.mul.Tensor" || node.operands.size() != 2) continue;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const ValueId x = node.operands[i].value;
      const Node* sigmoid = read.maker(node.operands[1 - i].value, "aten.sigmoid");
      if (sigmoid == nullptr || sigmoid->operands[0].value != x) continue;
      become(node, "aten.silu", {{"self", x}}, {});
      ++found;
      break;
    }
  }
  return found;
}

}  // namespace meshwright::onnx
