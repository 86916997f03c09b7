// What this backend says of cuBLASLt by itself, against NVIDIA's header where the machine has one, and how it calls it,
// against a library of the same declarations that computes on the host (fake_cublaslt.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "cublaslt.h"
#include "host_product.h"
#include "loaded_products.h"
#include "random_product.h"

#ifdef MESHWRIGHT_FAKE_CUBLASLT
#include <cublasLt.h>

namespace meshwright::cuda::cublaslt {

static_assert(kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED && kInvalidValue == CUBLAS_STATUS_INVALID_VALUE);
static_assert(kFloat == CUDA_R_32F && kBFloat16 == CUDA_R_16BF && kComputeFloat == CUBLAS_COMPUTE_32F &&
              kComputeTf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(kAsIs == CUBLAS_OP_N && kExchanged == CUBLAS_OP_T);
static_assert(kTransposesA == CUBLASLT_MATMUL_DESC_TRANSA && kTransposesB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE && kBias == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kAux == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER &&
              kAuxLeading == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD &&
              kAuxBatchStride == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
static_assert(kAddsBias == CUBLASLT_EPILOGUE_BIAS && sizeof(kAddsBias) == sizeof(cublasLtEpilogue_t));
static_assert(kRelu == CUBLASLT_EPILOGUE_RELU && (kRelu | kAddsBias) == CUBLASLT_EPILOGUE_RELU_BIAS);
static_assert(kGelu == CUBLASLT_EPILOGUE_GELU && (kGelu | kAddsBias) == CUBLASLT_EPILOGUE_GELU_BIAS);
static_assert(kGeluAux == CUBLASLT_EPILOGUE_GELU_AUX && (kGeluAux | kAddsBias) == CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
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
  std::set<std::tuple<Activation, bool, bool>> epilogues;  // those with aux, with a bias
  for (int i = 0; i < 400; ++i) {
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
    epilogues.emplace(drawn.shape.activation, drawn.shape.keeps, drawn.shape.bias != 0);
    ASSERT_EQ(library.run(i % 2, product, nullptr), 0) << to_string(drawn);
    const Launch launch = launch_of(drawn.in(expected.data(), 0));
    kernel(launch.kernel).on_host(launch.arguments.data(), launch.count);
    const std::vector<float> numbers = drawn.numbers_of(made), should_be = drawn.numbers_of(expected);
    for (std::size_t at = 0; at < numbers.size(); ++at)
      ASSERT_NEAR(numbers[at], should_be[at], drawn.tolerance() * std::max(1.0F, std::abs(should_be[at])))
          << to_string(drawn) << ", at " << at;
  }
  EXPECT_GT(planned, 300);
  EXPECT_EQ(epilogues.size(), 8U);
  for (const int device : {0, 1}) {
    EntryPoint entry = EntryPoint::products_create;
    EXPECT_EQ(library.release(device, entry), 0) << name(entry);
  }
}

// No algorithm is found for what cuBLASLt's manual forbids of aux, and none runs at an address that does not fit.
TEST(CublasLt, RefusesAnAuxThatDoesNotFit) {
  LoadedProducts library(false, {MESHWRIGHT_FAKE_CUBLASLT});
  ProductDrawer drawer(8);
  constexpr std::size_t kWorkspace = 512;
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    const DrawnProduct drawn = drawer.draw(12, kWorkspace);
    if (!drawn.shape.keeps || drawn.shape.n % 7 == 0) continue;
    ++refused;
    std::vector<std::byte> block = drawn.filled(drawer.numbers(drawn.floats));
    EntryPoint entry = EntryPoint::choose_algorithm;
    const auto is_found = [&](const ProductShape& shape) {
      ProductPlan plan;
      EXPECT_EQ(library.plan(0, shape, plan, entry), 0) << name(entry);
      return plan.is_found;
    };
    ASSERT_TRUE(is_found(drawn.shape)) << to_string(drawn);
    ProductShape shape = drawn.shape;
    shape.aux.leading += 4;
    EXPECT_FALSE(is_found(shape));
    shape = drawn.shape;
    shape.aux.batch += 4;
    EXPECT_FALSE(is_found(shape));
    shape = drawn.shape;
    shape.aux.alignment = 8;
    EXPECT_FALSE(is_found(shape));
    Product product = drawn.in(block.data(), kWorkspace);
    EXPECT_EQ(library.run(0, product, nullptr), 0);
    product.aux += sizeof(float);
    EXPECT_NE(library.run(0, product, nullptr), 0);
  }
  EXPECT_GT(refused, 20);
  EntryPoint entry = EntryPoint::products_create;
  EXPECT_EQ(library.release(0, entry), 0) << name(entry);
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
