#include <oneapi/dnnl/dnnl.h>

#include <algorithm>

#include "gemm.h"

// Of the OpenMP runtime that oneDNN was built with. Declared here, since its header belongs to one compiler.
extern "C" void omp_set_num_threads(int);

namespace meshwright {

bool gemm(const Gemm& size, const float* a, const float* b, float* c) {
  if (size.m == 0 || size.n == 0) return true;
  if (size.k == 0) {  // oneDNN refuses matrices without elements
    std::for_each(c, c + size.m * size.n, [&](float& out) { out = size.beta == 0 ? 0 : size.beta * out; });
    return true;
  }
  // The number is the calling thread's own.
  [[maybe_unused]] thread_local const bool alone = (omp_set_num_threads(1), true);
  const std::int64_t a_stride = size.transpose_a ? size.m : size.k, b_stride = size.transpose_b ? size.k : size.n;
  return dnnl_sgemm(size.transpose_a ? 'T' : 'N', size.transpose_b ? 'T' : 'N', size.m, size.n, size.k, size.alpha, a,
                    a_stride, b, b_stride, size.beta, c, size.n) == dnnl_success;
}

}  // namespace meshwright
