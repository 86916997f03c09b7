#include "in_float32.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace meshwright {

namespace {

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

// IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction.
float from_float16(std::uint16_t bits) {
  const int exponent = (bits >> 10U) & 0x1f;
  const double fraction = (bits & 0x3ffU) / 1024.0;
  double size = 0;
  if (exponent == 0) size = std::ldexp(fraction, -14);
  else if (exponent < 31) size = std::ldexp(1 + fraction, exponent - 15);
  else size = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return static_cast<float>((bits & 0x8000U) != 0 ? -size : size);
}

}  // namespace

bool computes_in_half(const Graph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), [](const Value& value) { return is_half(value.type.dtype); });
}

Tensor in_float32(Tensor tensor) {
  const DType from = tensor.type().dtype;
  if (!is_half(from)) return tensor;
  Tensor made(TensorType{DType::float32, tensor.shape()});
  const auto bits = std::as_const(tensor).as<std::uint16_t>();
  std::transform(bits.begin(), bits.end(), made.as<float>().begin(), from == DType::bfloat16 ? from_bfloat16 : from_float16);
  return made;
}

Tensor in_float64(Tensor tensor) {
  tensor = in_float32(std::move(tensor));
  if (tensor.type().dtype != DType::float32) return tensor;
  Tensor made(TensorType{DType::float64, tensor.shape()});
  std::ranges::copy(std::as_const(tensor).as<float>(), made.as<double>().begin());
  return made;
}

}  // namespace meshwright
