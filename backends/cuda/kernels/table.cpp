#include "table.h"

#include "all.h"

namespace meshwright::cuda {

const std::array<Kernel, kKernels>& kernels() {
#define MESHWRIGHT_ENTRY(name, Arguments) \
  { #name, sizeof(Arguments), name##_on_host, false }
#define MESHWRIGHT_ROW_ENTRY(name, Arguments) \
  { #name, sizeof(Arguments), name##_on_host, true }
  static const std::array<Kernel, kKernels> all = {{
      MESHWRIGHT_ENTRY(copy, CopyArguments),
      MESHWRIGHT_ENTRY(pointwise, PointwiseArguments),
      MESHWRIGHT_ENTRY(product, ProductArguments),
      MESHWRIGHT_ROW_ENTRY(reduce, ReduceArguments),
      MESHWRIGHT_ENTRY(running_sum, RunningSumArguments),
      MESHWRIGHT_ROW_ENTRY(norm_statistics, NormArguments),
      MESHWRIGHT_ENTRY(norm_rows, NormArguments),
      MESHWRIGHT_ROW_ENTRY(norm_input_gradient, NormArguments),
      MESHWRIGHT_ROW_ENTRY(norm_weight_gradient, NormArguments),
      MESHWRIGHT_ROW_ENTRY(norm_bias_gradient, NormArguments),
      MESHWRIGHT_ENTRY(optimize, OptimizerArguments),
      MESHWRIGHT_ENTRY(look_up, LookupArguments),
      MESHWRIGHT_ROW_ENTRY(look_up_chain, LookupArguments),
      MESHWRIGHT_ENTRY(look_up_gradient, LookupArguments),
      MESHWRIGHT_ENTRY(pick, PickArguments),
      MESHWRIGHT_ROW_ENTRY(loss_maximum, LossArguments),
      MESHWRIGHT_ROW_ENTRY(loss_terms, LossArguments),
      MESHWRIGHT_ROW_ENTRY(loss_count, LossArguments),
      MESHWRIGHT_ROW_ENTRY(loss_combine, LossArguments),
      MESHWRIGHT_ENTRY(loss_gradient, LossArguments),
      MESHWRIGHT_ROW_ENTRY(attention_probabilities, AttentionArguments),
      MESHWRIGHT_ENTRY(attention_result, AttentionArguments),
      MESHWRIGHT_ENTRY(attention_slopes, AttentionArguments),
      MESHWRIGHT_ENTRY(attention_query_gradient, AttentionArguments),
      MESHWRIGHT_ENTRY(attention_key_gradient, AttentionArguments),
      MESHWRIGHT_ENTRY(attention_value_gradient, AttentionArguments),
      MESHWRIGHT_ROW_ENTRY(attention_softmax, AttentionArguments),
      MESHWRIGHT_ROW_ENTRY(attention_softmax_gradient, AttentionArguments),
      MESHWRIGHT_ENTRY(gathering, GatheringArguments),
  }};
#undef MESHWRIGHT_ROW_ENTRY
#undef MESHWRIGHT_ENTRY
  return all;
}

}  // namespace meshwright::cuda
