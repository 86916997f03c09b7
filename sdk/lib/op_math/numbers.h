// Tensors as vectors of doubles: families compute in double and round once, when they store the result, so that one
// code serves float32 and float64.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "meshwright/tensor.h"

namespace meshwright {

using Numbers = std::vector<double>;

inline std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

// Zeros, one for each element of the type.
inline Numbers zeros(const TensorType& type) { return Numbers(to_size(type.elements()), 0.0); }

inline Numbers numbers_of(const Tensor& tensor) {
  Numbers numbers = zeros(tensor.type());
  if (tensor.type().dtype == DType::float32) {  // the common case, without a switch for each element
    std::ranges::copy(tensor.as<float>(), numbers.begin());
    return numbers;
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = tensor.get(static_cast<std::int64_t>(i));
  return numbers;
}

// The tensor's elements from `first` on become these numbers.
inline void write(std::span<const double> numbers, std::int64_t first, Tensor& tensor) {
  if (tensor.type().dtype == DType::float32) {
    std::ranges::transform(numbers, tensor.as<float>().begin() + first, [](double number) { return static_cast<float>(number); });
    return;
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) tensor.set(first + static_cast<std::int64_t>(i), numbers[i]);
}

// Writes the numbers into a tensor that has as many elements, and gives it back.
inline Tensor written(Tensor tensor, const Numbers& numbers) {
  write(numbers, 0, tensor);
  return tensor;
}

}  // namespace meshwright
