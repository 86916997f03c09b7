// C = alpha · A·B + beta · C in float32, on the calling thread alone: each rank is one thread already.
#pragma once

#include <cstdint>

namespace meshwright {

// A is m×k and B k×n, C m×n, all row-major and dense. A transposed one lies in memory as its transpose.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;  // with a beta of 0, C is not read
};

// False: the library refused it.
[[nodiscard]] bool gemm(const Gemm& size, const float* a, const float* b, float* c);

}  // namespace meshwright
