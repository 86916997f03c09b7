#include "meshwright/tensor.h"

#include <cmath>

namespace meshwright {

double Tensor::get_other(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  switch (type_.dtype) {
    case DType::float32: return as<float>()[at];
    case DType::float64: return as<double>()[at];
    case DType::int64: return static_cast<double>(as<std::int64_t>()[at]);
    case DType::int32: return as<std::int32_t>()[at];
    case DType::int16: return as<std::int16_t>()[at];
    case DType::int8: return as<std::int8_t>()[at];
    case DType::uint8:
    case DType::boolean: return as<std::uint8_t>()[at];
    case DType::float16:
    case DType::bfloat16:
    case DType::complex64:
    case DType::complex128: break;
  }
  assert(false && "the reference computes in float32, float64, integers and booleans");
  return 0;
}

void Tensor::set_other(std::int64_t index, double value) {
  const auto at = static_cast<std::size_t>(index);
  switch (type_.dtype) {
    case DType::float32: as<float>()[at] = static_cast<float>(value); return;
    case DType::float64: as<double>()[at] = value; return;
    case DType::int64: as<std::int64_t>()[at] = static_cast<std::int64_t>(value); return;
    case DType::int32: as<std::int32_t>()[at] = static_cast<std::int32_t>(value); return;
    case DType::int16: as<std::int16_t>()[at] = static_cast<std::int16_t>(value); return;
    case DType::int8: as<std::int8_t>()[at] = static_cast<std::int8_t>(value); return;
    case DType::uint8: as<std::uint8_t>()[at] = static_cast<std::uint8_t>(value); return;
    case DType::boolean: as<std::uint8_t>()[at] = value != 0 ? 1 : 0; return;
    case DType::float16:
    case DType::bfloat16:
    case DType::complex64:
    case DType::complex128: break;
  }
  assert(false && "the reference computes in float32, float64, integers and booleans");
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

}  // namespace meshwright
