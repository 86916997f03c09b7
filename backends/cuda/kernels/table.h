// All kernels, by name, and how each runs on the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace meshwright::cuda {

enum class KernelId : std::uint8_t {
  copy,
  pointwise,
  product,
  reduce,
  running_sum,
  norm_statistics,
  norm_rows,
  norm_input_gradient,
  norm_weight_gradient,
  norm_bias_gradient,
  optimize,
  look_up,
  look_up_chain,
  look_up_gradient,
  pick,
  loss_maximum,
  loss_terms,
  loss_count,
  loss_combine,
  loss_gradient,
  attention_probabilities,
  attention_result,
  attention_slopes,
  attention_query_gradient,
  attention_key_gradient,
  attention_value_gradient,
  attention_softmax,
  attention_softmax_gradient,
  gathering,
};

struct Kernel {
  const char* name;
  std::size_t argument_bytes;
  void (*on_host)(const void* arguments, std::int64_t count);
  bool takes_rows = false;  // a warp for each index; else a thread
};

inline constexpr std::size_t kKernels = static_cast<std::size_t>(KernelId::gathering) + 1;

const std::array<Kernel, kKernels>& kernels();
inline const Kernel& kernel(KernelId id) { return kernels()[static_cast<std::size_t>(id)]; }

}  // namespace meshwright::cuda
