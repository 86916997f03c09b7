#include "table.h"

#include "all.h"

namespace meshwright::cuda {

const std::array<Kernel, kKernels>& kernels() {
#define MESHWRIGHT_ENTRY(name, Arguments) \
  { #name, sizeof(Arguments), name##_on_host, Worker::thread }
#define MESHWRIGHT_ROW_ENTRY(name, Arguments) \
  { #name, sizeof(Arguments), name##_on_host, Worker::warp }
#define MESHWRIGHT_BLOCK_ENTRY(name, Arguments) \
  { #name, sizeof(Arguments), name##_on_host, Worker::block }
  static const std::array<Kernel, kKernels> all = {{
      MESHWRIGHT_ENTRY(copy, CopyArguments),
      MESHWRIGHT_ENTRY(flip, FlipArguments),
      MESHWRIGHT_ENTRY(triangle, TriangleArguments),
      MESHWRIGHT_ENTRY(pointwise, PointwiseArguments),
      MESHWRIGHT_ENTRY(chain, ChainArguments),
      MESHWRIGHT_ENTRY(product, ProductArguments),
      MESHWRIGHT_ROW_ENTRY(reduce, ReduceArguments),
      MESHWRIGHT_BLOCK_ENTRY(reduce_chunks, ReduceArguments),
      MESHWRIGHT_ENTRY(column_sums, ColumnSumArguments),
      MESHWRIGHT_ENTRY(running_sum, RunningSumArguments),
      MESHWRIGHT_BLOCK_ENTRY(running_sum_of_long, RunningSumArguments),
      MESHWRIGHT_ROW_ENTRY(norm_statistics, NormArguments),
      MESHWRIGHT_ROW_ENTRY(norm_rows, NormArguments),
      MESHWRIGHT_ROW_ENTRY(norm_input_gradient, NormArguments),
      MESHWRIGHT_ENTRY(norm_weight_gradient, NormArguments),
      MESHWRIGHT_ENTRY(norm_bias_gradient, NormArguments),
      MESHWRIGHT_ENTRY(optimize, OptimizerArguments),
      MESHWRIGHT_ENTRY(look_up, LookupArguments),
      MESHWRIGHT_ENTRY(look_up_starts, LookupArguments),
      MESHWRIGHT_ENTRY(mark_label, LookupArguments),
      MESHWRIGHT_ENTRY(pick, PickArguments),
      MESHWRIGHT_ROW_ENTRY(loss_maximum, LossArguments),
      MESHWRIGHT_ROW_ENTRY(loss_terms, LossArguments),
      MESHWRIGHT_ROW_ENTRY(loss_wanted, LossArguments),
      MESHWRIGHT_BLOCK_ENTRY(loss_count, LossArguments),
      MESHWRIGHT_BLOCK_ENTRY(loss_combine, LossArguments),
      MESHWRIGHT_ROW_ENTRY(loss_gradient, LossArguments),
      MESHWRIGHT_BLOCK_ENTRY(likelihood, LikelihoodArguments),
      MESHWRIGHT_ENTRY(likelihood_gradient, LikelihoodArguments),
      MESHWRIGHT_ROW_ENTRY(attention_probabilities, AttentionArguments),
      MESHWRIGHT_ENTRY(attention_result, AttentionArguments),
      MESHWRIGHT_ENTRY(attention_slopes, AttentionArguments),
      MESHWRIGHT_ENTRY(attention_query_gradient, AttentionArguments),
      MESHWRIGHT_ENTRY(attention_key_gradient, AttentionArguments),
      MESHWRIGHT_ENTRY(attention_value_gradient, AttentionArguments),
      MESHWRIGHT_ROW_ENTRY(attention_softmax, AttentionArguments),
      MESHWRIGHT_ROW_ENTRY(attention_softmax_gradient, AttentionArguments),
      MESHWRIGHT_ENTRY(convolution_output, ConvolutionArguments),
      MESHWRIGHT_ENTRY(convolution_input, ConvolutionArguments),
      MESHWRIGHT_ROW_ENTRY(convolution_weight, ConvolutionArguments),
      MESHWRIGHT_BLOCK_ENTRY(batch_norm_mean, BatchNormArguments),
      MESHWRIGHT_BLOCK_ENTRY(batch_norm_variance, BatchNormArguments),
      MESHWRIGHT_ENTRY(batch_norm_saved, BatchNormArguments),
      MESHWRIGHT_ENTRY(batch_norm_apply, BatchNormArguments),
      MESHWRIGHT_BLOCK_ENTRY(batch_norm_gradient_sums, BatchNormArguments),
      MESHWRIGHT_ENTRY(batch_norm_input_gradient, BatchNormArguments),
      MESHWRIGHT_ENTRY(pool_maximum, PoolArguments),
      MESHWRIGHT_ENTRY(pool_mean, PoolArguments),
      MESHWRIGHT_ENTRY(pool_maximum_gradient, PoolArguments),
      MESHWRIGHT_ENTRY(pool_mean_gradient, PoolArguments),
      MESHWRIGHT_ENTRY(drop_out, DropoutArguments),
      MESHWRIGHT_ROW_ENTRY(softmax, SoftmaxArguments),
      MESHWRIGHT_ROW_ENTRY(softmax_gradient, SoftmaxArguments),
      MESHWRIGHT_BLOCK_ENTRY(group_norm_statistics, GroupNormArguments),
      MESHWRIGHT_ENTRY(group_norm_apply, GroupNormArguments),
      MESHWRIGHT_BLOCK_ENTRY(group_norm_input_gradient, GroupNormArguments),
      MESHWRIGHT_BLOCK_ENTRY(group_norm_channel_gradient, GroupNormArguments),
      MESHWRIGHT_ROW_ENTRY(select_extreme, SelectArguments),
      MESHWRIGHT_BLOCK_ENTRY(select_extreme_of_long, SelectArguments),
      MESHWRIGHT_ROW_ENTRY(select_order, SelectArguments),
      MESHWRIGHT_BLOCK_ENTRY(sort_tiles, OrderArguments),
      MESHWRIGHT_ENTRY(merge_runs, OrderArguments),
      MESHWRIGHT_ENTRY(put, PutArguments),
      MESHWRIGHT_ENTRY(put_starts, PutStartArguments),
      MESHWRIGHT_ENTRY(sum_runs, RunArguments),
      MESHWRIGHT_ENTRY(join_runs, RunArguments),
      MESHWRIGHT_BLOCK_ENTRY(mask_counts, MaskArguments),
      MESHWRIGHT_BLOCK_ENTRY(mask_scatter, MaskArguments),
      MESHWRIGHT_ENTRY(image_columns, ColumnArguments),
      MESHWRIGHT_ENTRY(column_image, ColumnArguments),
      MESHWRIGHT_ENTRY(sliding_gradient, SlidingArguments),
      MESHWRIGHT_ENTRY(expert_before, ExpertArguments),
      MESHWRIGHT_ENTRY(expert_gate, ExpertArguments),
      MESHWRIGHT_ENTRY(expert_output, ExpertArguments),
      MESHWRIGHT_ENTRY(expert_sum, ExpertArguments),
      MESHWRIGHT_ROW_ENTRY(expert_weight_gradient, ExpertArguments),
      MESHWRIGHT_ENTRY(expert_slopes, ExpertArguments),
      MESHWRIGHT_ENTRY(expert_input_gradient, ExpertArguments),
      MESHWRIGHT_ROW_ENTRY(expert_gate_up_gradient, ExpertArguments),
      MESHWRIGHT_ROW_ENTRY(expert_bias_gradient, ExpertArguments),
      MESHWRIGHT_ROW_ENTRY(expert_down_gradient, ExpertArguments),
      MESHWRIGHT_ROW_ENTRY(exchange_slots, ExchangeArguments),
      MESHWRIGHT_ENTRY(exchange_dispatch, ExchangeArguments),
      MESHWRIGHT_ENTRY(exchange_numbers, ExchangeArguments),
      MESHWRIGHT_ENTRY(exchange_combine, ExchangeArguments),
      MESHWRIGHT_ENTRY(exchange_collect, ExchangeArguments),
      MESHWRIGHT_BLOCK_ENTRY(statistic, StatisticArguments),
      MESHWRIGHT_ENTRY(product_gradient, ProductGradientArguments),
      MESHWRIGHT_ENTRY(draw, DrawArguments),
      MESHWRIGHT_ENTRY(resample, ResampleArguments),
      MESHWRIGHT_ENTRY(repeat_border, BorderArguments),
      MESHWRIGHT_ENTRY(gathering, GatheringArguments),
  }};
#undef MESHWRIGHT_BLOCK_ENTRY
#undef MESHWRIGHT_ROW_ENTRY
#undef MESHWRIGHT_ENTRY
  return all;
}

}  // namespace meshwright::cuda
