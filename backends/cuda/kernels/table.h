// All kernels, by name, and how each runs on the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace meshwright::cuda {

enum class KernelId : std::uint8_t {
  copy,
  flip,
  triangle,
  pointwise,
  chain,
  product,
  reduce,
  reduce_chunks,
  column_sums,
  running_sum,
  running_sum_of_long,
  norm_statistics,
  norm_rows,
  norm_input_gradient,
  norm_weight_gradient,
  norm_bias_gradient,
  optimize,
  look_up,
  look_up_starts,
  mark_label,
  pick,
  loss_maximum,
  loss_terms,
  loss_wanted,
  loss_count,
  loss_combine,
  loss_gradient,
  likelihood,
  likelihood_gradient,
  attention_probabilities,
  attention_bias,
  attention_unseen,
  attention_result,
  attention_slopes,
  attention_query_gradient,
  attention_key_gradient,
  attention_value_gradient,
  attention_softmax,
  attention_softmax_gradient,
  convolution_output,
  convolution_input,
  convolution_weight,
  batch_norm_mean,
  batch_norm_variance,
  batch_norm_saved,
  batch_norm_apply,
  batch_norm_gradient_sums,
  batch_norm_input_gradient,
  pool_maximum,
  pool_mean,
  pool_maximum_gradient,
  pool_mean_gradient,
  drop_out,
  softmax,
  softmax_gradient,
  group_norm_statistics,
  group_norm_apply,
  group_norm_input_gradient,
  group_norm_channel_gradient,
  select_extreme,
  select_extreme_of_long,
  select_order,
  sort_tiles,
  merge_runs,
  put,
  put_starts,
  sum_runs,
  join_runs,
  mask_counts,
  mask_scatter,
  image_columns,
  column_image,
  sliding_gradient,
  group_sizes,
  group_order,
  grouped_product,
  grouped_product_turned,
  grouped_gradient,
  grouped_sum,
  expert_gate,
  expert_sum,
  expert_weigh,
  expert_weight_gradient,
  expert_slopes,
  exchange_slots,
  exchange_dispatch,
  exchange_numbers,
  exchange_combine,
  exchange_collect,
  recurrent_step,
  recurrent_step_back,
  statistic,
  product_gradient,
  draw,
  resample,
  repeat_border,
  bag_counts,
  bag_reduce,
  bag_number,
  bag_share,
  bag_winner,
  distance,
  distance_of_long,
  distance_gradient,
  cosine,
  sample_grid,
  sample_grid_gradient,
  sample_taps,
  gathering,
};

// What an index of a kernel is given to on a GPU.
enum class Worker : std::uint8_t { thread, warp, block };

struct Kernel {
  const char* name;
  std::size_t argument_bytes;
  void (*on_host)(const void* arguments, std::int64_t count);
  Worker worker = Worker::thread;
};

inline constexpr std::size_t kKernels = static_cast<std::size_t>(KernelId::gathering) + 1;

const std::array<Kernel, kKernels>& kernels();
inline const Kernel& kernel(KernelId id) { return kernels()[static_cast<std::size_t>(id)]; }

}  // namespace meshwright::cuda
