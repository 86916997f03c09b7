// Folding of ops that go by element.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "fold_ops.h"
#include "onnx_types.h"

namespace meshwright::onnx {

namespace {

using OfIntegers = std::function<std::int64_t(std::int64_t, std::int64_t)>;
using OfReals = std::function<double(double, double)>;

struct Binary {
  OfIntegers integers;
  OfReals reals;
  bool gives_boolean = false;
};

template <class Compare>
Binary comparison(Compare compare) {
  return {[=](std::int64_t a, std::int64_t b) { return compare(a, b) ? 1 : 0; },
          [=](double a, double b) { return compare(a, b) ? 1.0 : 0.0; }, true};
}

const std::map<std::string, Binary, std::less<>>& binaries() {
  static const std::map<std::string, Binary, std::less<>> all = {
      {"Add", {wrapped_sum, std::plus<>()}},
      {"Sub", {wrapped_difference, std::minus<>()}},
      {"Mul", {wrapped_product, std::multiplies<>()}},
      {"Div", {[](std::int64_t a, std::int64_t b) { return b == 0    ? 0
                                                           : b == -1 ? wrapped_difference(0, a)
                                                                     : a / b; }, std::divides<>()}},
      {"Mod",
       {[](std::int64_t a, std::int64_t b) {
          const std::int64_t rest = b == 0 || b == -1 ? 0 : a % b;
          return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
        },
        [](double a, double b) { return std::fmod(a, b); }}},
      {"Pow",
       {[](std::int64_t a, std::int64_t b) {
          return whole_number(std::pow(static_cast<double>(a), static_cast<double>(b)));
        },
        [](double a, double b) { return std::pow(a, b); }}},
      {"Min",
       {[](std::int64_t a, std::int64_t b) { return std::min(a, b); },
        [](double a, double b) { return std::min(a, b); }}},
      {"Max",
       {[](std::int64_t a, std::int64_t b) { return std::max(a, b); },
        [](double a, double b) { return std::max(a, b); }}},
      {"Equal", comparison(std::equal_to<>())},
      {"Less", comparison(std::less<>())},
      {"LessOrEqual", comparison(std::less_equal<>())},
      {"Greater", comparison(std::greater<>())},
      {"GreaterOrEqual", comparison(std::greater_equal<>())},
      {"And", comparison([](auto a, auto b) { return a != 0 && b != 0; })},
      {"Or", comparison([](auto a, auto b) { return a != 0 || b != 0; })},
      {"Xor", comparison([](auto a, auto b) { return (a != 0) != (b != 0); })},
  };
  return all;
}

const std::map<std::string, double (*)(double), std::less<>>& unaries() {
  static const std::map<std::string, double (*)(double), std::less<>> all = {
      {"Sqrt", [](double x) { return std::sqrt(x); }}, {"Exp", [](double x) { return std::exp(x); }},
      {"Log", [](double x) { return std::log(x); }},   {"Floor", [](double x) { return std::floor(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }}, {"Round", [](double x) { return std::nearbyint(x); }},
      {"Reciprocal", [](double x) { return 1 / x; }},  {"Cos", [](double x) { return std::cos(x); }},
      {"Sin", [](double x) { return std::sin(x); }},   {"Neg", [](double x) { return -x; }},
      {"Abs", [](double x) { return std::fabs(x); }},
  };
  return all;
}

// The element of an operand of shape `shape` that meets element `at` of the broadcast result.
class Picker {
 public:
  Picker(const Shape& shape, const Shape& result) : steps_(result.size(), 0), result_strides_(strides_for(result)) {
    const Shape strides = strides_for(shape);
    const std::size_t missing = result.size() - shape.size();
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] != 1) steps_[missing + i] = strides[i];
    }
  }

  [[nodiscard]] std::size_t operator()(std::size_t at) const {
    auto rest = static_cast<std::int64_t>(at);
    std::int64_t element = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      element += rest / result_strides_[i] * steps_[i];
      rest %= result_strides_[i];
    }
    return static_cast<std::size_t>(element);
  }

 private:
  Shape steps_, result_strides_;
};

Folded fold_binary(const Binary& binary, const Literal& a, const Literal& b) {
  if (a.type.dtype != b.type.dtype) return std::nullopt;
  const std::optional<Shape> shape = broadcast(a.type.shape, b.type.shape);
  if (!shape) return std::nullopt;
  Folded result = blank(binary.gives_boolean ? DType::boolean : a.type.dtype, *shape);
  if (!result) return std::nullopt;
  const Picker of_a(a.type.shape, *shape), of_b(b.type.shape, *shape);
  const auto count = static_cast<std::size_t>(product(*shape));
  for (std::size_t i = 0; i < count; ++i) {
    if (!a.is_real())
      result->integers.push_back(binary.integers(a.integers[of_a(i)], b.integers[of_b(i)]));
    else if (binary.gives_boolean)
      result->integers.push_back(binary.reals(a.reals[of_a(i)], b.reals[of_b(i)]) != 0 ? 1 : 0);
    else
      result->reals.push_back(binary.reals(a.reals[of_a(i)], b.reals[of_b(i)]));
  }
  round_to_type(*result);
  return result;
}

Folded fold_where(const Literal& condition, const Literal& a, const Literal& b) {
  if (condition.type.dtype != DType::boolean || a.type.dtype != b.type.dtype) return std::nullopt;
  const std::optional<Shape> ab = broadcast(a.type.shape, b.type.shape);
  const std::optional<Shape> shape = ab ? broadcast(*ab, condition.type.shape) : std::nullopt;
  Folded result = shape ? blank(a.type.dtype, *shape) : std::nullopt;
  if (!result) return std::nullopt;
  const Picker of_condition(condition.type.shape, *shape), of_a(a.type.shape, *shape), of_b(b.type.shape, *shape);
  const auto count = static_cast<std::size_t>(product(*shape));
  for (std::size_t i = 0; i < count; ++i) {
    const bool first = condition.integers[of_condition(i)] != 0;
    append(*result, first ? a : b, first ? of_a(i) : of_b(i));
  }
  return result;
}

Folded fold_cast(const Literal& from, DType dtype) {
  Folded result = blank(dtype, from.type.shape);
  if (!result) return std::nullopt;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const double number = from.number(i);
    if (result->is_real())
      result->reals.push_back(number);
    else if (dtype == DType::boolean)
      result->integers.push_back(number != 0 ? 1 : 0);
    else if (!from.is_real())
      result->integers.push_back(from.integers[i]);
    else
      result->integers.push_back(whole_number(number));
  }
  round_to_type(*result);
  return result;
}

Folded fold_unary(double (*function)(double), const Literal& operand) {
  Literal result = operand;
  for (double& element : result.reals) element = function(element);
  for (std::int64_t& element : result.integers)
    element = whole_number(function(static_cast<double>(element)));
  round_to_type(result);
  return result;
}

}  // namespace

Folded fold_elements(const ModelNode& node, const Operands& operands) {
  const Literal& first = *operands[0];
  if (node.op == "Identity") return first;
  if (node.op == "Not") {
    Literal result = first;
    for (std::int64_t& element : result.integers) element = element == 0 ? 1 : 0;
    return first.type.dtype == DType::boolean ? Folded(result) : std::nullopt;
  }
  if (node.op == "Cast") {
    const auto dtype = dtype_of(integer_attribute(node, "to", 0));
    return dtype ? fold_cast(first, *dtype) : std::nullopt;
  }
  if (const auto unary = unaries().find(node.op); unary != unaries().end()) return fold_unary(unary->second, first);
  for (const Literal* operand : operands) {
    if (operand == nullptr) return std::nullopt;
  }
  if (node.op == "CastLike" && operands.size() == 2) return fold_cast(first, operands[1]->type.dtype);
  if (node.op == "Where" && operands.size() == 3) return fold_where(first, *operands[1], *operands[2]);
  const auto binary = binaries().find(node.op);
  if (binary == binaries().end() || (operands.size() != 2 && node.op != "Min" && node.op != "Max")) return std::nullopt;
  if (node.op == "Mod" && integer_attribute(node, "fmod", 0) != 0 && !first.is_real()) return std::nullopt;
  Folded result = first;
  for (std::size_t i = 1; i < operands.size() && result; ++i)
    result = fold_binary(binary->second, *result, *operands[i]);
  return result;
}

}  // namespace meshwright::onnx
