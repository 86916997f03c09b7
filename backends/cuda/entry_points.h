// The entry points of CUDA, NCCL, cuBLASLt, NVRTC and cuDNN that this backend calls, by the names that their manuals
// have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace meshwright::cuda {

enum class EntryPoint : std::uint8_t {
  get_device_count,
  set_device,
  allocate,
  release,
  stream_create,
  stream_destroy,
  stream_query,
  event_create,
  event_destroy,
  event_record,
  stream_wait_event,
  copy,
  fill,
  load_module,
  get_function,
  launch,
  get_unique_id,
  init_communicator,
  destroy_communicator,
  abort_communicator,
  communicator_error,
  group_start,
  group_end,
  all_reduce,
  all_gather,
  reduce_scatter,
  send,
  receive,
  products_create,
  products_destroy,
  product_describe,
  product_forget,
  product_set,
  layout_create,
  layout_destroy,
  layout_set,
  preference_create,
  preference_destroy,
  preference_set,
  choose_algorithm,
  product,
  get_attribute,
  capture_begin,
  capture_end,
  graph_instantiate,
  graph_destroy,
  graph_launch,
  graph_forget,
  compiler_create,
  compiler_compile,
  compiler_get_size,
  compiler_get_module,
  compiler_get_log_size,
  compiler_get_log,
  compiler_destroy,
  dnn_create,
  dnn_destroy,
  dnn_set_stream,
  dnn_make,
  dnn_set,
  dnn_finalize,
  dnn_get,
  dnn_execute,
  dnn_forget,
};

// By entry point. docs/gpu.md lists them, which a test holds.
inline constexpr std::array<const char*, 64> kEntryPoints = {"cudaGetDeviceCount",
                                                             "cudaSetDevice",
                                                             "cudaMalloc",
                                                             "cudaFree",
                                                             "cudaStreamCreateWithFlags",
                                                             "cudaStreamDestroy",
                                                             "cudaStreamQuery",
                                                             "cudaEventCreateWithFlags",
                                                             "cudaEventDestroy",
                                                             "cudaEventRecord",
                                                             "cudaStreamWaitEvent",
                                                             "cudaMemcpyAsync",
                                                             "cudaMemsetAsync",
                                                             "cuModuleLoadData",
                                                             "cuModuleGetFunction",
                                                             "cuLaunchKernel",
                                                             "ncclGetUniqueId",
                                                             "ncclCommInitRank",
                                                             "ncclCommDestroy",
                                                             "ncclCommAbort",
                                                             "ncclCommGetAsyncError",
                                                             "ncclGroupStart",
                                                             "ncclGroupEnd",
                                                             "ncclAllReduce",
                                                             "ncclAllGather",
                                                             "ncclReduceScatter",
                                                             "ncclSend",
                                                             "ncclRecv",
                                                             "cublasLtCreate",
                                                             "cublasLtDestroy",
                                                             "cublasLtMatmulDescCreate",
                                                             "cublasLtMatmulDescDestroy",
                                                             "cublasLtMatmulDescSetAttribute",
                                                             "cublasLtMatrixLayoutCreate",
                                                             "cublasLtMatrixLayoutDestroy",
                                                             "cublasLtMatrixLayoutSetAttribute",
                                                             "cublasLtMatmulPreferenceCreate",
                                                             "cublasLtMatmulPreferenceDestroy",
                                                             "cublasLtMatmulPreferenceSetAttribute",
                                                             "cublasLtMatmulAlgoGetHeuristic",
                                                             "cublasLtMatmul",
                                                             "cudaDeviceGetAttribute",
                                                             "cudaStreamBeginCapture",
                                                             "cudaStreamEndCapture",
                                                             "cudaGraphInstantiate",
                                                             "cudaGraphDestroy",
                                                             "cudaGraphLaunch",
                                                             "cudaGraphExecDestroy",
                                                             "nvrtcCreateProgram",
                                                             "nvrtcCompileProgram",
                                                             "nvrtcGetCUBINSize",
                                                             "nvrtcGetCUBIN",
                                                             "nvrtcGetProgramLogSize",
                                                             "nvrtcGetProgramLog",
                                                             "nvrtcDestroyProgram",
                                                             "cudnnCreate",
                                                             "cudnnDestroy",
                                                             "cudnnSetStream",
                                                             "cudnnBackendCreateDescriptor",
                                                             "cudnnBackendSetAttribute",
                                                             "cudnnBackendFinalize",
                                                             "cudnnBackendGetAttribute",
                                                             "cudnnBackendExecute",
                                                             "cudnnBackendDestroyDescriptor"};
static_assert(kEntryPoints.size() == static_cast<std::size_t>(EntryPoint::dnn_forget) + 1);

// Whose text explains a code of an entry point.
enum class Library : std::uint8_t { runtime, driver, nccl, products, compiler, dnn };
inline Library library_of(EntryPoint entry) {
  if (entry >= EntryPoint::dnn_create) return Library::dnn;
  if (entry >= EntryPoint::compiler_create) return Library::compiler;
  if (entry >= EntryPoint::get_attribute) return Library::runtime;
  if (entry >= EntryPoint::products_create) return Library::products;
  if (entry >= EntryPoint::get_unique_id) return Library::nccl;
  return entry >= EntryPoint::load_module ? Library::driver : Library::runtime;
}

inline const char* name(EntryPoint entry) { return kEntryPoints[static_cast<std::size_t>(entry)]; }

inline std::optional<EntryPoint> entry_point(std::string_view name) {
  for (std::size_t i = 0; i < kEntryPoints.size(); ++i) {
    if (name == kEntryPoints[i]) return static_cast<EntryPoint>(i);
  }
  return std::nullopt;
}

}  // namespace meshwright::cuda
