// Adds up, or takes the maximum of, arrays of any dtype that can be partial.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "meshwright/dtype.h"

namespace meshwright {

// into[i] = into[i] ∘ other[i], for `count` elements.
using Combine = void (*)(std::byte* into, const std::byte* other, std::size_t count);

// The upper half of a float's bits; rounds to the nearest, ties to even.
class BFloat16 {
 public:
  explicit BFloat16(float number) {
    const auto bits = std::bit_cast<std::uint32_t>(number);
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    bits_ = static_cast<std::uint16_t>(is_nan ? (bits >> 16U) | 0x40U : (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
  }
  operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16U); }

 private:
  std::uint16_t bits_;
};

template <class T>
void add_elements(std::byte* into, const std::byte* other, std::size_t count) {
  T* a = reinterpret_cast<T*>(into);
  const T* b = reinterpret_cast<const T*>(other);
  for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<T>(a[i] + b[i]);
}

template <class T>
void take_maxima(std::byte* into, const std::byte* other, std::size_t count) {
  T* a = reinterpret_cast<T*>(into);
  const T* b = reinterpret_cast<const T*>(other);
  for (std::size_t i = 0; i < count; ++i) a[i] = std::max(a[i], b[i]);
}

template <class T>
Combine choose(bool maximum) {
  return maximum ? take_maxima<T> : add_elements<T>;
}

// Null: ranks don't compute with this dtype.
inline Combine combine_for(DType dtype, bool maximum) {
  switch (dtype) {
    case DType::float32:
      return choose<float>(maximum);
    case DType::float64:
      return choose<double>(maximum);
    case DType::bfloat16:
      return choose<BFloat16>(maximum);
    case DType::int64:
      return choose<std::int64_t>(maximum);
    case DType::int32:
      return choose<std::int32_t>(maximum);
    case DType::int16:
      return choose<std::int16_t>(maximum);
    case DType::int8:
      return choose<std::int8_t>(maximum);
    case DType::uint8:
      return choose<std::uint8_t>(maximum);
    default:
      return nullptr;
  }
}

}  // namespace meshwright
