// What this backend says of cuBLASLt by itself, against NVIDIA's header where the machine has one.
#include <gtest/gtest.h>

#include "cublaslt.h"

#ifdef MESHWRIGHT_CUBLASLT_HEADER
#include <cublasLt.h>

namespace meshwright::cuda::cublaslt {

static_assert(kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kFloat == CUDA_R_32F && kComputeFloat == CUBLAS_COMPUTE_32F);
static_assert(kAsIs == CUBLAS_OP_N && kExchanged == CUBLAS_OP_T);
static_assert(kTransposesA == CUBLASLT_MATMUL_DESC_TRANSA && kTransposesB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kBatches == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
              kBatchStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(kMostWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
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

TEST(CublasLt, IsAsItsHeaderSays) { SUCCEED() << "held when this file is compiled"; }
#else
TEST(CublasLt, IsAsItsHeaderSays) { GTEST_SKIP() << "no cublasLt.h was found when this was built"; }
#endif
