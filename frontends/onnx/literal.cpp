#include "literal.h"

namespace meshwright::onnx {

namespace {

template <class T>
void read_integers(const Tensor& tensor, Literal& literal) {
  for (const T element : tensor.as<T>()) literal.integers.push_back(static_cast<std::int64_t>(element));
}

template <class T>
void write_integers(const Literal& literal, Tensor& tensor) {
  const std::span<T> elements = tensor.as<T>();
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<T>(literal.integers[i]);
}

}  // namespace

Literal list_literal(std::vector<std::int64_t> integers) {
  Literal literal;
  literal.type = {DType::int64, {static_cast<std::int64_t>(integers.size())}};
  literal.integers = std::move(integers);
  return literal;
}

void round_to_type(Literal& literal) {
  if (literal.type.dtype == DType::float64) return;
  if (literal.type.dtype == DType::float32) {
    for (double& element : literal.reals) element = static_cast<double>(static_cast<float>(element));
    return;
  }
  if (literal.is_real()) literal = literal_of(tensor_of(literal));
  if (literal.type.dtype == DType::int64) return;
  for (std::int64_t& element : literal.integers) {
    switch (literal.type.dtype) {
      case DType::boolean: element = element != 0 ? 1 : 0; break;
      case DType::uint8: element = static_cast<std::uint8_t>(element); break;
      case DType::int8: element = static_cast<std::int8_t>(element); break;
      case DType::int16: element = static_cast<std::int16_t>(element); break;
      default: element = static_cast<std::int32_t>(element);
    }
  }
}

Literal literal_of(const Tensor& tensor) {
  Literal literal;
  literal.type = tensor.type();
  const auto count = static_cast<std::size_t>(tensor.elements());
  switch (tensor.type().dtype) {
    case DType::int64: read_integers<std::int64_t>(tensor, literal); break;
    case DType::int32: read_integers<std::int32_t>(tensor, literal); break;
    case DType::int16: read_integers<std::int16_t>(tensor, literal); break;
    case DType::int8: read_integers<std::int8_t>(tensor, literal); break;
    case DType::uint8:
    case DType::boolean: read_integers<std::uint8_t>(tensor, literal); break;
    default:
      literal.reals.resize(count);
      for (std::size_t i = 0; i < count; ++i) literal.reals[i] = tensor.get(static_cast<std::int64_t>(i));
  }
  return literal;
}

Tensor tensor_of(const Literal& literal) {
  Tensor tensor(literal.type);
  switch (literal.type.dtype) {
    case DType::int64: write_integers<std::int64_t>(literal, tensor); break;
    case DType::int32: write_integers<std::int32_t>(literal, tensor); break;
    case DType::int16: write_integers<std::int16_t>(literal, tensor); break;
    case DType::int8: write_integers<std::int8_t>(literal, tensor); break;
    case DType::uint8:
    case DType::boolean: write_integers<std::uint8_t>(literal, tensor); break;
    default:
      for (std::size_t i = 0; i < literal.reals.size(); ++i) tensor.set(static_cast<std::int64_t>(i), literal.reals[i]);
  }
  return tensor;
}

}  // namespace meshwright::onnx
