// A tensor whose elements are known while the model is read: constants, shapes, and what follows from them.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/tensor.h"

namespace meshwright::onnx {

struct Literal {
  TensorType type;
  std::vector<std::int64_t> integers;  // the elements, row-major, if the type is an integer or a boolean
  std::vector<double> reals;           // the elements, if the type is a floating-point one

  [[nodiscard]] bool is_real() const { return is_floating(type.dtype); }
  [[nodiscard]] double number(std::size_t i) const { return is_real() ? reals[i] : static_cast<double>(integers[i]); }
  [[nodiscard]] std::size_t size() const { return is_real() ? reals.size() : integers.size(); }
  bool operator==(const Literal&) const = default;
};

// A list of integers as ONNX writes shapes and axes: int64, one dimension.
Literal list_literal(std::vector<std::int64_t> integers);

// Integers as ONNX computes with them: sums, differences and products wrap around.
inline std::int64_t wrapped_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t wrapped_difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
inline std::int64_t wrapped_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

// The number without its fraction. Throws std::out_of_range if no integer holds it.
std::int64_t whole_number(double number);

// Every element rounded to what its dtype can hold.
void round_to_type(Literal& literal);

Literal literal_of(const Tensor& tensor);
Tensor tensor_of(const Literal& literal);

}  // namespace meshwright::onnx
