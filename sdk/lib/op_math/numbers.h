// Tensors as vectors of doubles: families compute in double and round once, when they store the result, so that one
// code serves float32 and float64.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "meshwright/graph.h"
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

inline Tensor tensor_of(TensorType type, const Numbers& numbers) {
  Tensor tensor(std::move(type));
  for (std::size_t i = 0; i < numbers.size(); ++i) tensor.set(static_cast<std::int64_t>(i), numbers[i]);
  return tensor;
}

// An attribute that may be written as an integer or as a real number.
inline double number_attribute(const Node& node, std::string_view attribute, double otherwise) {
  const auto found = node.attributes.find(attribute);
  if (found == node.attributes.end()) return otherwise;
  if (const auto* real = std::get_if<double>(&found->second)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*whole);
  return otherwise;
}

}  // namespace meshwright
