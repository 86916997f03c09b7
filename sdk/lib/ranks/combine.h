// Adds up, or takes the maximum of, arrays of any dtype that can be partial.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "meshwright/dtype.h"

namespace meshwright {

// into[i] = into[i] ∘ other[i], for `count` elements.
using Combine = void (*)(std::byte* into, const std::byte* other, std::size_t count);

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
