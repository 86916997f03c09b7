// Matrix products. One with a weight that the file turned for MatMul is PyTorch's linear again.
#include <algorithm>
#include <set>

#include "../scope.h"

namespace meshwright::onnx {

namespace {

void translate_matmul(Scope& scope) {
  Shape a = scope.shape(0), b = scope.shape(1);
  const bool first_vector = a.size() == 1, second_vector = b.size() == 1;
  if (a.empty() || b.empty()) scope.refuse("a product of a tensor without dimensions");
  if (first_vector) a.insert(a.begin(), 1);
  if (second_vector) b.push_back(1);
  if (a.back() != b[b.size() - 2])
    scope.refuse("a " + to_string(scope.type(0)) + " can't be multiplied by a " + to_string(scope.type(1)));
  TensorType type{scope.type(0).dtype, scope.broadcast({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2})};
  if (!first_vector) type.shape.push_back(a[a.size() - 2]);
  if (!second_vector) type.shape.push_back(b.back());
  if (scope.is_turned(1)) {
    return scope.bind(0, scope.emit("aten.linear", {{"input", scope.value(0)}, {"weight", scope.value(1)}}, {}, type));
  }
  const bool matrices = scope.shape(0).size() == 2 && scope.shape(1).size() == 2;
  const bool batched = scope.shape(0).size() == 3 && scope.shape(1).size() == 3 && a[0] == b[0];
  const bool plain = !matrices && !batched;
  scope.bind(0, scope.emit(matrices  ? "aten.mm"
                           : batched ? "aten.bmm"
                                     : "aten.matmul",
                           {{"self", scope.value(0)}, {plain ? "other" : "mat2", scope.value(1)}}, {}, type));
}

ValueId scaled(Scope& scope, ValueId value, double factor) {
  return factor == 1 ? value
                     : scope.emit("aten.mul.Tensor", {{"self", value}}, {{"other", factor}}, scope.type_of(value));
}

bool is_made_zero(const Scope& scope, std::size_t i) {
  const Literal* known = scope.literal(i);
  if (known == nullptr || scope.is_weight(i)) return false;
  for (std::size_t e = 0; e < known->size(); ++e) {
    if (known->number(e) != 0) return false;
  }
  return true;
}

void translate_gemm(Scope& scope) {
  const bool turn_a = scope.integer("transA", 0) != 0, turn_b = scope.integer("transB", 0) != 0;
  const double alpha = scope.number("alpha", 1), beta = scope.number("beta", 1);
  const Shape a = scope.shape(0), b = scope.shape(1);
  if (a.size() != 2 || b.size() != 2) scope.refuse("its operands must be matrices");
  const std::int64_t m = a[turn_a ? 1 : 0], k = a[turn_a ? 0 : 1], n = b[turn_b ? 0 : 1];
  if (k != b[turn_b ? 1 : 0])
    scope.refuse("a " + to_string(scope.type(0)) + " can't be multiplied by a " + to_string(scope.type(1)));
  const TensorType type{scope.type(0).dtype, {m, n}};
  ValueId left = scope.value(0), right = scope.value(1);
  if (turn_a) left = scope.permute(left, {1, 0});
  const bool added = scope.has(2) && beta != 0 && !is_made_zero(scope, 2);
  if (added && scope.broadcast(scope.shape(2), type.shape) != type.shape)
    scope.refuse("what it adds does not fit its product");
  const bool line = added && scope.shape(2).size() == 1 && beta == 1 && alpha == 1;
  if (turn_b && alpha == 1 && (!added || line)) {
    return scope.bind(
        0, scope.emit("aten.linear", {{"input", left}, {"weight", right}, {"bias", line ? scope.value(2) : kNoId}}, {},
                      type));
  }
  if (turn_b) right = scope.permute(right, {1, 0});
  if (!added)
    return scope.bind(0, scaled(scope, scope.emit("aten.mm", {{"self", left}, {"mat2", right}}, {}, type), alpha));
  Attributes attributes;
  if (alpha != 1) attributes["alpha"] = alpha;
  if (beta != 1) attributes["beta"] = beta;
  scope.bind(0,
             scope.emit("aten.addmm", {{"self", scope.value(2)}, {"mat1", left}, {"mat2", right}}, attributes, type));
}

// The result's shape of "bij,bjk->bik"; without an arrow the letters that occur once, in alphabetic order.
void translate_einsum(Scope& scope) {
  std::string equation = scope.text("equation", "");
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  std::string left = equation.substr(0, arrow), right = arrow == std::string::npos ? "" : equation.substr(arrow + 2);
  if (equation.find('.') != std::string::npos) scope.refuse("an einsum with an ellipsis is not supported");
  std::map<char, std::int64_t> sizes;
  std::map<char, int> counts;
  std::vector<Operand> operands;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < scope.node.inputs.size(); ++i) {
    const std::size_t end = std::min(left.find(',', begin), left.size());
    const std::string letters = begin <= left.size() ? left.substr(begin, end - begin) : "";
    begin = end + 1;
    const Shape& shape = scope.shape(i);
    if (letters.size() != shape.size()) scope.refuse("its equation '" + equation + "' does not fit its operands");
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto [known, fresh] = sizes.emplace(letters[d], shape[d]);
      if (!fresh && known->second != shape[d])
        scope.refuse("its equation '" + equation + "' gives '" + letters[d] + "' two sizes");
      ++counts[letters[d]];
    }
    operands.push_back({"tensors." + std::to_string(i), scope.value(i)});
  }
  if (arrow == std::string::npos) {
    for (const auto& [letter, count] : counts) {
      if (count == 1) right += letter;
    }
    equation += "->" + right;
  }
  TensorType type{scope.type(0).dtype, {}};
  for (const char letter : right) {
    if (!sizes.contains(letter))
      scope.refuse("its equation '" + equation + "' has a result '" + letter + "' that no operand has");
    type.shape.push_back(sizes[letter]);
  }
  scope.bind(0, scope.emit("aten.einsum", operands, {{"equation", equation}}, type));
}

}  // namespace

void add_products(Translations& all) {
  all["MatMul"] = translate_matmul;
  all["Gemm"] = translate_gemm;
  all["Einsum"] = translate_einsum;
}

}  // namespace meshwright::onnx
