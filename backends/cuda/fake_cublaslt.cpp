// cublasLt on the host, for tests of what calls it: NVIDIA's own declarations, so that the arguments are those that the
// library gets; descriptors, layouts, preferences and epilogues as its manual says, column by column, sums in double.
// It has no algorithm for an m that 7 divides, and refuses addresses that are aligned to less than the preference said.
#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/pointwise.h"

namespace {

using meshwright::cuda::Element;
using meshwright::cuda::Function;
using meshwright::cuda::load;
using meshwright::cuda::store;
using meshwright::cuda::value_of;

struct Operation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_leading = 0, aux_batch = 0;
};
struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t leading, batch = 0;
  std::int32_t batches = 1;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignments[4] = {256, 256, 256, 256};
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

constexpr std::uint64_t kChosen = 4711, kWorkspace = 512;

template <class Made, class Handle>
cublasStatus_t give(Handle* handle, const Made& made) {
  *handle = reinterpret_cast<Handle>(new Made(made));
  return CUBLAS_STATUS_SUCCESS;
}
template <class Made, class Handle>
cublasStatus_t drop(Handle handle) {
  delete reinterpret_cast<Made*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Value>
cublasStatus_t set(Value& value, const void* from, std::size_t bytes) {
  if (bytes != sizeof(Value)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Made, class Handle>
const Made& of(Handle handle) {
  return *reinterpret_cast<const Made*>(handle);
}

bool fits(const Layout& layout) {
  return (layout.type == CUDA_R_32F || layout.type == CUDA_R_16BF) &&
         layout.leading >= static_cast<std::int64_t>(layout.rows);
}
Element element_of(const Layout& layout) { return layout.type == CUDA_R_16BF ? Element::bfloat16 : Element::float32; }
double at(const void* data, const Layout& layout, bool exchanges, int batch, std::uint64_t row, std::uint64_t column) {
  return load(data, element_of(layout),
              batch * layout.batch + static_cast<std::int64_t>(exchanges ? column : row) +
                  static_cast<std::int64_t>(exchanges ? row : column) * layout.leading);
}

// The largest power of two that divides it.
std::uint64_t alignment_of(const void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return number & (~number + 1);
}

bool adds_bias(const Operation& operation) { return (operation.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
// What the epilogue does beside adding a bias.
std::uint32_t activation_of(const Operation& operation) {
  return operation.epilogue & ~static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_BIAS);
}
bool keeps_operand(const Operation& operation) { return activation_of(operation) == CUBLASLT_EPILOGUE_GELU_AUX; }

// As the manual says of each attribute.
bool fits(const Operation& operation, const Layout& made) {
  const std::uint32_t activation = activation_of(operation);
  const bool is_known = operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
                        operation.epilogue == CUBLASLT_EPILOGUE_BIAS || activation == CUBLASLT_EPILOGUE_RELU ||
                        activation == CUBLASLT_EPILOGUE_GELU || keeps_operand(operation);
  const bool has_aux = operation.aux != nullptr && alignment_of(operation.aux) >= 16 &&
                       operation.aux_leading % 8 == 0 && operation.aux_batch % 8 == 0 &&
                       operation.aux_leading >= static_cast<std::int64_t>(made.rows);
  return is_known && adds_bias(operation) == (operation.bias != nullptr) &&
         (keeps_operand(operation) ? has_aux : operation.aux == nullptr);
}

double activated(const Operation& operation, double sum) {
  const std::uint32_t activation = activation_of(operation);
  if (activation == CUBLASLT_EPILOGUE_RELU) return value_of(Function::relu, &sum, 0.0);
  const bool is_gelu = activation == CUBLASLT_EPILOGUE_GELU || keeps_operand(operation);
  return is_gelu ? value_of(Function::tanh_gelu, &sum, 0.0) : sum;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return give(handle, 1); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return drop<int>(handle); }
const char* cublasLtGetStatusString(cublasStatus_t) { return "the fake says no"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType_t scale) {
  return give(made, Operation{compute, scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t made) { return drop<Operation>(made); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t made, cublasLtMatmulDescAttributes_t attribute,
                                              const void* from, size_t bytes) {
  auto& operation = *reinterpret_cast<Operation*>(made);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) return set(operation.a, from, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE) return set(operation.epilogue, from, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER) return set(operation.bias, from, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER) return set(operation.aux, from, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD) return set(operation.aux_leading, from, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE) return set(operation.aux_batch, from, bytes);
  return attribute == CUBLASLT_MATMUL_DESC_TRANSB ? set(operation.b, from, bytes) : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return give(made, Layout{type, rows, columns, leading});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t made) { return drop<Layout>(made); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t made, cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* from, size_t bytes) {
  auto& layout = *reinterpret_cast<Layout*>(made);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return set(layout.batches, from, bytes);
  return attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET ? set(layout.batch, from, bytes)
                                                                  : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) { return give(made, Preference()); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t made) { return drop<Preference>(made); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t made,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* from,
                                                    size_t bytes) {
  auto& preference = *reinterpret_cast<Preference*>(made);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return set(preference.workspace, from, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return set(preference.reductions, from, bytes);
  const int operand = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  return operand >= 0 && operand < 4 ? set(preference.alignments[operand], from, bytes) : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t described, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preferred, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  const auto& preference = of<Preference>(preferred);
  *found = 0;
  if (wanted != 1 || preference.workspace < kWorkspace) return CUBLAS_STATUS_INVALID_VALUE;
  if (of<Layout>(d).rows % 7 == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (of<Layout>(d).type == CUDA_R_16BF && preference.reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
    return CUBLAS_STATUS_INVALID_VALUE;  // parts of a sum might be rounded
  results[0] = {};
  results[0].algo.data[0] = kChosen;
  for (int i = 0; i < 4; ++i) results[0].algo.data[i + 1] = preference.alignments[i];
  const auto& operation = of<Operation>(described);
  if (!fits(operation, of<Layout>(d))) return CUBLAS_STATUS_INVALID_VALUE;
  results[0].algo.data[5] = alignment_of(operation.bias);  // those that may be counted on
  results[0].algo.data[6] = alignment_of(operation.aux);
  results[0].algo.data[7] = operation.epilogue;
  results[0].workspaceSize = kWorkspace;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t described, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t) {
  const auto& operation = of<Operation>(described);
  const auto &left = of<Layout>(a_layout), &right = of<Layout>(b_layout), &added = of<Layout>(c_layout),
             &made = of<Layout>(d_layout);
  const bool turns_a = operation.a == CUBLAS_OP_T, turns_b = operation.b == CUBLAS_OP_T;
  const std::uint64_t k = turns_a ? left.rows : left.columns;
  if (operation.compute != CUBLAS_COMPUTE_32F || operation.scale != CUDA_R_32F || algorithm->data[0] != kChosen ||
      workspace_bytes < kWorkspace || !fits(left) || !fits(right) || !fits(added) || !fits(made) ||
      left.type != right.type || added.type != made.type || (left.type == CUDA_R_32F && made.type != CUDA_R_32F) ||
      made.rows != (turns_a ? left.columns : left.rows) || made.columns != (turns_b ? right.rows : right.columns) ||
      k != (turns_b ? right.columns : right.rows) || made.rows != added.rows || made.columns != added.columns)
    return CUBLAS_STATUS_INVALID_VALUE;
  const void* addresses[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (reinterpret_cast<std::uintptr_t>(addresses[i]) % algorithm->data[i + 1] != 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!fits(operation, made) || operation.epilogue != algorithm->data[7] ||
      alignment_of(operation.bias) < algorithm->data[5] || alignment_of(operation.aux) < algorithm->data[6])
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(workspace, 0xff, workspace_bytes);
  for (int batch = 0; batch < made.batches; ++batch) {
    for (std::uint64_t row = 0; row < made.rows; ++row) {
      for (std::uint64_t column = 0; column < made.columns; ++column) {
        double sum = 0;
        for (std::uint64_t p = 0; p < k; ++p)
          sum += at(a, left, turns_a, batch, row, p) * at(b, right, turns_b, batch, p, column);
        sum *= static_cast<double>(*static_cast<const float*>(alpha));
        const float scale = *static_cast<const float*>(beta);
        if (scale != 0) sum += static_cast<double>(scale) * at(c, added, false, batch, row, column);
        if (adds_bias(operation)) sum += load(operation.bias, element_of(made), static_cast<std::int64_t>(row));
        const auto place = [&](std::int64_t stride, std::int64_t leading) {
          return batch * stride + static_cast<std::int64_t>(row) + static_cast<std::int64_t>(column) * leading;
        };
        if (keeps_operand(operation))
          store(operation.aux, element_of(made), place(operation.aux_batch, operation.aux_leading), sum);
        store(d, element_of(made), place(made.batch, made.leading), activated(operation, sum));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
