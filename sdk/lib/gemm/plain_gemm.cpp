#include <algorithm>
#include <tuple>
#include <vector>

#include "gemm.h"

namespace meshwright {

namespace {

// A matrix that lies as its transpose, rows×columns as it is meant.
std::vector<float> turned(const float* matrix, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) result[static_cast<std::size_t>(i * columns + j)] = matrix[j * rows + i];
  }
  return result;
}

}  // namespace

bool gemm(const Gemm& size, const float* a, const float* b, float* c) {
  const auto [m, n, k] = std::tuple(size.m, size.n, size.k);
  std::vector<float> own_a, own_b;
  if (size.transpose_a) a = (own_a = turned(a, m, k)).data();
  if (size.transpose_b) b = (own_b = turned(b, k, n)).data();
  for (std::int64_t i = 0; i < m * n; ++i) c[i] = size.beta == 0 ? 0 : size.beta * c[i];
  constexpr std::int64_t kBlock = 512;  // columns of B that stay in the cache while all rows of A read them
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const std::int64_t last = std::min(n, first + kBlock);
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t p = 0; p < k; ++p) {
        const float left = size.alpha * a[i * k + p];
        for (std::int64_t j = first; j < last; ++j) c[i * n + j] += left * b[p * n + j];
      }
    }
  }
  return true;
}

}  // namespace meshwright
