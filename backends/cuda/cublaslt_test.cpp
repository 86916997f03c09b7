// What this backend says of cuBLASLt by itself, against NVIDIA's header where the machine has one, and how it calls it,
// against a library of the same declarations that computes on the host (fake_cublaslt.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cublaslt.h"
#include "host_product.h"
#include "loaded_products.h"
#include "random_product.h"

#ifdef MESHWRIGHT_FAKE_CUBLASLT
#include <cublasLt.h>

namespace meshwright::cuda::cublaslt {

static_assert(kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kFloat == CUDA_R_32F && kBFloat16 == CUDA_R_16BF && kComputeFloat == CUBLAS_COMPUTE_32F &&
              kComputeTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kAsIs == CUBLAS_OP_N && kExchanged == CUBLAS_OP_T);
static_assert(kTransposesA == CUBLASLT_MATMUL_DESC_TRANSA && kTransposesB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE && kBias == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kAddsBias == CUBLASLT_EPILOGUE_BIAS && sizeof(kAddsBias) == sizeof(cublasLtEpilogue_t));
static_assert(kBatches == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
              kBatchStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(kMostWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
              kReductions == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK &&
              kReducesInComputeType == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE &&
              kAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
              kAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES &&
              kAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES &&
              kAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t) &&
              sizeof(Choice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(Choice, algorithm) == offsetof(cublasLtMatmulHeuristicResult_t, algo) &&
              offsetof(Choice, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
              offsetof(Choice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

}  // namespace meshwright::cuda::cublaslt

namespace meshwright::cuda {
namespace {

TEST(CublasLt, IsAskedForWhatTheProductsAre) {
  LoadedProducts library(false, {MESHWRIGHT_FAKE_CUBLASLT});
  ProductDrawer drawer(6);
  constexpr std::size_t kWorkspace = 512;
  int planned = 0;
  for (int i = 0; i < 200; ++i) {
    DrawnProduct drawn = drawer.draw(12, kWorkspace);
    if (i % 3 != 0) drawn.halve(i % 3 == 1 ? DType::bfloat16 : DType::float32);
    std::vector<std::byte> made = drawn.filled(drawer.numbers(drawn.floats)), expected = made;
    ProductPlan plan;
    EntryPoint entry = EntryPoint::choose_algorithm;
    ASSERT_EQ(library.plan(i % 2, drawn.shape, plan, entry), 0) << name(entry);
    const Product product = drawn.in(made.data(), plan.workspace_bytes);
    if (!plan.is_found) {  // it has an algorithm for most
      EXPECT_EQ(drawn.shape.n % 7, 0);
      EXPECT_NE(library.run(i % 2, product, nullptr), 0);
      continue;
    }
    ++planned;
    ASSERT_EQ(library.run(i % 2, product, nullptr), 0) << to_string(drawn);
    const Launch launch = launch_of(drawn.in(expected.data(), 0));
    kernel(launch.kernel).on_host(launch.arguments.data(), launch.count);
    const std::vector<float> numbers = drawn.numbers_of(made), should_be = drawn.numbers_of(expected);
    for (std::size_t at = 0; at < numbers.size(); ++at)
      ASSERT_NEAR(numbers[at], should_be[at], drawn.tolerance() * std::max(1.0F, std::abs(should_be[at])))
          << to_string(drawn) << ", at " << at;
  }
  EXPECT_GT(planned, 150);
  for (const int device : {0, 1}) {
    EntryPoint entry = EntryPoint::products_create;
    EXPECT_EQ(library.release(device, entry), 0) << name(entry);
  }
}

// No call fails: this backend's own kernel takes its place.
TEST(CublasLt, MayBeMissing) {
  LoadedProducts library(false, {"no such library"});
  ProductPlan plan{true, 1};
  EntryPoint entry = EntryPoint::products_create;
  EXPECT_EQ(library.plan(0, ProductDrawer(7).draw(8, 0).shape, plan, entry), 0);
  EXPECT_FALSE(plan.is_found);
  EXPECT_EQ(library.release(0, entry), 0);
}

}  // namespace
}  // namespace meshwright::cuda
#else
TEST(CublasLt, IsAskedForWhatTheProductsAre) { GTEST_SKIP() << "no cublasLt.h was found when this was built"; }
#endif
