// What cublasLt.h of CUDA 12 and 13 declares, as far as it is called here; a test holds it to the header where there is
// one. Handles and descriptors are pointers to what only the library knows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace meshwright::cuda::cublaslt {

inline constexpr int kInvalidValue = 7;        // CUBLAS_STATUS_INVALID_VALUE
inline constexpr int kNotSupported = 15;       // CUBLAS_STATUS_NOT_SUPPORTED
inline constexpr int kFloat = 0;               // CUDA_R_32F
inline constexpr int kBFloat16 = 14;           // CUDA_R_16BF
inline constexpr int kComputeFloat = 68;       // CUBLAS_COMPUTE_32F: without TF32
inline constexpr int kComputeTf32 = 77;        // CUBLAS_COMPUTE_32F_FAST_TF32
inline constexpr std::int32_t kAsIs = 0;       // CUBLAS_OP_N
inline constexpr std::int32_t kExchanged = 1;  // CUBLAS_OP_T

// cublasLtMatmulDescAttributes_t: an int32 each, a uint32, a pointer; a pointer, and int64 each.
inline constexpr int kTransposesA = 3, kTransposesB = 4, kEpilogue = 7, kBias = 8;
inline constexpr int kAux = 11, kAuxLeading = 12, kAuxBatchStride = 13;
// cublasLtEpilogue_t, whose bits add up: CUBLASLT_EPILOGUE_BIAS; _RELU, _GELU, _GELU_AUX
inline constexpr std::uint32_t kAddsBias = 4;
inline constexpr std::uint32_t kRelu = 2, kGelu = 32, kGeluAux = 160;
// What aux asks for: of its address in bytes, of its leading dimension and its batches' stride in elements.
inline constexpr int kAuxAlignment = 16, kAuxMultiple = 8;
// cublasLtMatrixLayoutAttribute_t: an int32, an int64.
inline constexpr int kBatches = 5, kBatchStride = 6;
// cublasLtMatmulPreferenceAttributes_t: a uint64, and uint32 each.
inline constexpr int kMostWorkspace = 1, kReductions = 3, kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7,
                     kAlignmentD = 8;

inline constexpr std::uint32_t kReducesInComputeType = 2;  // CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE

// cublasLtMatmulAlgo_t
struct Algorithm {
  std::uint64_t data[8] = {};
};

// cublasLtMatmulHeuristicResult_t
struct Choice {
  Algorithm algorithm;
  std::size_t workspace_bytes = 0;
  int state = 0;
  float waves = 0;
  int reserved[4] = {};
};

}  // namespace meshwright::cuda::cublaslt
