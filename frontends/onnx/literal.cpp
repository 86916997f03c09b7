#include "literal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

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

// IEEE 754's half precision, and the upper half of a float32.
double from_bits(std::uint16_t bits, DType dtype) {
  if (dtype == DType::bfloat16)
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  return exponent == 0 ? sign * std::ldexp(mantissa, -24) : sign * std::ldexp(mantissa + 1024, exponent - 25);
}

// Rounded to the nearest, to even where two are as near.
std::uint16_t to_bits(double value, DType dtype) {
  if (dtype == DType::bfloat16) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 64);
    return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (size == 0) return sign;
  if (size >= 65520) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(size, &exponent);                     // size is in [2^(exponent-1), 2^exponent)
  const int place = std::max(exponent - 11, -24);  // of the last bit
  const double units = std::nearbyint(std::ldexp(size, -place));
  if (place == -24) return sign | static_cast<std::uint16_t>(units);  // subnormal, or the first normal ones
  return sign | static_cast<std::uint16_t>(static_cast<int>(units) - 1024 + ((place + 25) << 10));
}

}  // namespace

std::int64_t whole_number(double number) {
  if (!(std::fabs(number) < 9.2e18)) throw std::out_of_range("a number is larger than any integer");
  return static_cast<std::int64_t>(number);
}

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
      case DType::boolean:
        element = element != 0 ? 1 : 0;
        break;
      case DType::uint8:
        element = static_cast<std::uint8_t>(element);
        break;
      case DType::int8:
        element = static_cast<std::int8_t>(element);
        break;
      case DType::int16:
        element = static_cast<std::int16_t>(element);
        break;
      default:
        element = static_cast<std::int32_t>(element);
    }
  }
}

Literal literal_of(const Tensor& tensor) {
  Literal literal;
  literal.type = tensor.type();
  const auto count = static_cast<std::size_t>(tensor.elements());
  switch (tensor.type().dtype) {
    case DType::int64:
      read_integers<std::int64_t>(tensor, literal);
      break;
    case DType::int32:
      read_integers<std::int32_t>(tensor, literal);
      break;
    case DType::int16:
      read_integers<std::int16_t>(tensor, literal);
      break;
    case DType::int8:
      read_integers<std::int8_t>(tensor, literal);
      break;
    case DType::uint8:
    case DType::boolean:
      read_integers<std::uint8_t>(tensor, literal);
      break;
    default:
      literal.reals.resize(count);
      if (size_bytes(tensor.type().dtype) == 2) {
        for (std::size_t i = 0; i < count; ++i)
          literal.reals[i] = from_bits(tensor.as<std::uint16_t>()[i], tensor.type().dtype);
        break;
      }
      for (std::size_t i = 0; i < count; ++i) literal.reals[i] = tensor.get(static_cast<std::int64_t>(i));
  }
  return literal;
}

Tensor tensor_of(const Literal& literal) {
  Tensor tensor(literal.type);
  switch (literal.type.dtype) {
    case DType::int64:
      write_integers<std::int64_t>(literal, tensor);
      break;
    case DType::int32:
      write_integers<std::int32_t>(literal, tensor);
      break;
    case DType::int16:
      write_integers<std::int16_t>(literal, tensor);
      break;
    case DType::int8:
      write_integers<std::int8_t>(literal, tensor);
      break;
    case DType::uint8:
    case DType::boolean:
      write_integers<std::uint8_t>(literal, tensor);
      break;
    default:
      for (std::size_t i = 0; i < literal.reals.size(); ++i) {
        if (size_bytes(literal.type.dtype) == 2)
          tensor.as<std::uint16_t>()[i] = to_bits(literal.reals[i], literal.type.dtype);
        else
          tensor.set(static_cast<std::int64_t>(i), literal.reals[i]);
      }
  }
  return tensor;
}

}  // namespace meshwright::onnx
