// A product of matrices as this backend asks for it, row by row, and the same as cuBLASLt is asked for it, column by
// column.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "meshwright/dtype.h"

namespace meshwright::cuda {

// How the matrices of one operand lie. As it is stored a matrix has rows without gaps.
struct MatrixPlace {
  bool is_transposed = false;   // stored with rows and columns exchanged
  std::int64_t leading = 0;     // elements from a stored row to the next, at least as many as a row has
  std::int64_t batch = 0;       // elements from the matrix of a batch to the next one's; 0: all share one
  std::int32_t alignment = 16;  // of its address, in bytes; 16 at most
  auto operator<=>(const MatrixPlace&) const = default;
};

// A function of what a product adds up, in the precision of the sum. GELU is the one with tanh: cuBLASLt has no other.
enum class Activation : std::uint8_t { none, relu, gelu };

// All that the choice of an algorithm depends on: products of one shape share a plan.
struct ProductShape {
  std::int64_t m = 1, n = 1, k = 1, batches = 1;
  MatrixPlace a, b, addend, result;  // m×k, k×n, m×n, m×n; the last two are never transposed
  bool adds = false;
  std::int32_t bias = 0;  // the alignment of a row of n numbers that is added to each row; 0: there is none
  DType factors = DType::float32, made = DType::float32;  // of a and b; of the result, the addend, the bias and aux
  Activation activation = Activation::none;
  bool keeps = false;  // Of GELU: its operand is written too, at `aux`. (Of a ReLU's, cuBLASLt writes the signs alone.)
  MatrixPlace aux = {};  // m×n, never transposed; only where `keeps`
  auto operator<=>(const ProductShape&) const = default;
};

// "4 of 16×32·32×8", " in bfloat16" where the factors are, and " with ReLU" or " with GELU"
std::string to_string(const ProductShape& shape);

// aux = alpha · a·b, plus beta · addend where the shape adds, and plus the bias where it has one; sums in float32 at
// least. result = the activation of that sum, before it is rounded. The addend may be the result itself where there is
// no aux; else nothing of the result or of aux is read.
struct Product {
  ProductShape shape;
  const std::byte *a = nullptr, *b = nullptr, *addend = nullptr, *bias = nullptr;
  std::byte *result = nullptr, *aux = nullptr;
  float alpha = 1, beta = 1;
  std::byte* workspace = nullptr;  // the product's own while it runs, at a multiple of 256 bytes
  std::size_t workspace_bytes = 0;
};

// What a library says of products of one shape.
struct ProductPlan {
  bool is_found = false;  // otherwise this backend's own kernel has to do
  std::size_t workspace_bytes = 0;
};

// A matrix as cuBLASLt sees it: columns without gaps.
struct ColumnLayout {
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0, batch = 0;
  std::int32_t alignment = 16;
};

// D[m×n] = alpha · op(A)·op(B) + beta · C, and the bias added to each column; then the activation, whose operand goes
// to aux. Read column by column, what is stored row by row is its own transpose; and (a·b)ᵀ = bᵀ·aᵀ, so that A is `b`
// and B is `a`.
struct ColumnProduct {
  std::int32_t batches = 1;
  bool transposes_a = false, transposes_b = false;
  ColumnLayout a, b, c, d;
  std::int32_t bias = 0;                                  // as of the shape
  DType factors = DType::float32, made = DType::float32;  // of A and B; of C, D, the bias and aux
  Activation activation = Activation::none;
  bool keeps = false;
  ColumnLayout aux = {};  // only where it is kept
};
ColumnProduct by_columns(const ProductShape& shape);

}  // namespace meshwright::cuda
