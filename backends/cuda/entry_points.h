// The entry points of CUDA and NCCL that this backend calls, by the names that their manuals have.
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
};

// By entry point. docs/gpu.md lists them, which a test holds.
inline constexpr std::array<const char*, 28> kEntryPoints = {"cudaGetDeviceCount",
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
                                                             "ncclRecv"};
static_assert(kEntryPoints.size() == static_cast<std::size_t>(EntryPoint::receive) + 1);

inline const char* name(EntryPoint entry) { return kEntryPoints[static_cast<std::size_t>(entry)]; }

inline std::optional<EntryPoint> entry_point(std::string_view name) {
  for (std::size_t i = 0; i < kEntryPoints.size(); ++i) {
    if (name == kEntryPoints[i]) return static_cast<EntryPoint>(i);
  }
  return std::nullopt;
}

}  // namespace meshwright::cuda
